# SPDX-License-Identifier: MIT
# Checks the format of sources, and the words of comments, messages and pages.
EXTRA_DIST += %D%/test_parameters.py %D%/test_style.py %D%/test_words.py .editorconfig .shellcheckrc ruff.toml
if PYTHON_FOUND
TESTS += %D%/test_parameters.py %D%/test_style.py %D%/test_words.py
endif
