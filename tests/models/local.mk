# SPDX-License-Identifier: MIT
# Models of small, concurrent parts of the code, which spin checks.
EXTRA_DIST += %D%/test_models.sh %D%/keeper.pml %D%/queue.pml %D%/session.pml %D%/slot.pml %D%/stop.pml
TESTS += %D%/test_models.sh
