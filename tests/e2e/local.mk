# SPDX-License-Identifier: MIT
# Whole jobs: launcher, loader and library together.
e2e_tests = %D%/test_bad_input.sh %D%/test_formats.sh %D%/test_hash.sh %D%/test_tiles.sh %D%/test_faults.sh %D%/test_lenders.sh
TESTS += $(e2e_tests)
EXTRA_DIST += $(e2e_tests) %D%/archives.py %D%/bad_archives.py %D%/columns.py %D%/job.sh %D%/records.py
if PYTHON_FOUND
TESTS += %D%/test_columns.py %D%/test_completion.py %D%/test_detect.py %D%/test_hardening.py %D%/test_peers.py %D%/test_samples.py %D%/test_train.py %D%/test_train_c.py
endif
EXTRA_DIST += %D%/jobs.py %D%/test_columns.py %D%/test_completion.py %D%/test_detect.py %D%/test_hardening.py %D%/test_peers.py %D%/test_samples.py %D%/test_train.py %D%/test_train_c.py
