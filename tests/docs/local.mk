EXTRA_DIST += %D%/test_manual.py %D%/test_popdist.py %D%/test_code.py %D%/test_guide.py %D%/test_messages.py
if PYTHON_FOUND
TESTS += %D%/test_manual.py %D%/test_popdist.py %D%/test_code.py %D%/test_guide.py %D%/test_messages.py
endif
