EXTRA_DIST += %D%/test_manual.py
if PYTHON_FOUND
TESTS += %D%/test_manual.py
endif
