# SPDX-License-Identifier: MIT
# Tests of training frameworks. Each is skipped if its framework is not installed. make check-frameworks installs them from PyPI, below the
# build folder or in FRAMEWORKS=DIR, once.
frameworks_tests = %D%/test_accelerate.py %D%/test_jax.py %D%/test_jupyter.py %D%/test_keras.py %D%/test_lightning.py %D%/test_log_stats.py %D%/test_nvrx.py \
	%D%/test_timm.py %D%/test_torchft.py %D%/test_torchvision.py
EXTRA_DIST += $(frameworks_tests) %D%/elastic.py %D%/environments %D%/frameworks.py
if PYTHON_FOUND
TESTS += $(frameworks_tests)
endif
FRAMEWORKS = $(abs_top_builddir)/frameworks
check-frameworks: all
	$(SHELL) $(srcdir)/%D%/environments '$(PYTHON)' '$(FRAMEWORKS)'
	PLENUM_FRAMEWORKS='$(FRAMEWORKS)' $(MAKE) $(AM_MAKEFLAGS) check TESTS='$(frameworks_tests)'
phony += check-frameworks
