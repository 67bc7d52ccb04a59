# Whole jobs: launcher, loader and library together.
e2e_tests = %D%/test_hash.sh %D%/test_faults.sh
TESTS += $(e2e_tests)
EXTRA_DIST += $(e2e_tests) %D%/job.sh
if PYTHON_FOUND
TESTS += %D%/test_train.py
endif
EXTRA_DIST += %D%/test_train.py
