# tests/: a folder here mirrors a folder of the sources. Every test speaks TAP, through run-test.
tap_driver = env AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
AM_TESTS_ENVIRONMENT = \
	top_srcdir='$(abs_top_srcdir)'; top_builddir='$(abs_top_builddir)'; \
	PLENUM_PLENUMD='$(abs_top_builddir)/plenumd'; PYTHON='$(PYTHON)'; \
	export top_srcdir top_builddir PLENUM_PLENUMD PYTHON;
LOG_DRIVER = $(tap_driver)
LOG_COMPILER = $(top_srcdir)/%D%/run-test
TEST_EXTENSIONS = .sh .py
SH_LOG_DRIVER = $(tap_driver)
SH_LOG_COMPILER = $(SHELL)
PY_LOG_DRIVER = $(tap_driver)
PY_LOG_COMPILER = $(PYTHON)
EXTRA_DIST += %D%/run-test

# Criterion's own macros trip some of our warnings.
test_cflags = $(AM_CFLAGS) -Wno-conversion -Wno-shadow -Wno-missing-prototypes -Wno-undef $(CRITERION_CFLAGS)

if CRITERION
include tests/common/local.mk
include tests/loader/image/local.mk
include tests/fuzz/local.mk
endif
