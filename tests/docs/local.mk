EXTRA_DIST += %D%/test_manual.py %D%/test_popdist.py
if PYTHON_FOUND
TESTS += %D%/test_manual.py %D%/test_popdist.py
endif
