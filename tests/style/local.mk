# SPDX-License-Identifier: MIT
# How sources are laid out.
EXTRA_DIST += %D%/test_style.py .editorconfig .shellcheckrc ruff.toml
if PYTHON_FOUND
TESTS += %D%/test_style.py
endif
