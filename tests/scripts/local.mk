# SPDX-License-Identifier: MIT
TESTS += %D%/test_again.sh %D%/test_folders.sh
EXTRA_DIST += %D%/test_again.sh %D%/test_folders.sh
