# SPDX-License-Identifier: MIT
# Hostile clients and loaders run beside honest ones: briefly in make check, longer in make soak.
EXTRA_DIST += %D%/client.py %D%/loader.py %D%/test_programs.py
if PYTHON_FOUND
TESTS += %D%/test_programs.py
endif
