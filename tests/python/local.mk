EXTRA_DIST += %D%/tap.py %D%/test_pyplenum.py
if PYTHON_FOUND
TESTS += %D%/test_pyplenum.py
endif
