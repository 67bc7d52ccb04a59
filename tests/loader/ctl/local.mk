# SPDX-License-Identifier: MIT
TESTS += %D%/test_bottleneck.sh
EXTRA_DIST += %D%/test_bottleneck.sh
