# SPDX-License-Identifier: MIT
# Models of the small cores, checked by spin.
EXTRA_DIST += %D%/test_models.sh %D%/keeper.pml %D%/queue.pml %D%/session.pml %D%/slot.pml
TESTS += %D%/test_models.sh
