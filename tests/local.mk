# SPDX-License-Identifier: MIT
# tests/: a folder here mirrors a folder of the sources. Every test prints TAP and is run by run-test. Background processes
# of a shell ignore Ctrl-C, and so would the programs under test.
tap_driver = env --default-signal AM_TAP_AWK='$(AWK)' $(SHELL) $(top_srcdir)/build-aux/tap-driver.sh
AM_TESTS_ENVIRONMENT = \
	top_srcdir='$(abs_top_srcdir)'; top_builddir='$(abs_top_builddir)'; \
	PLENUM_PLENUMD='$(abs_top_builddir)/plenumd'; PYTHON='$(PYTHON)'; \
	PLENUM_SANITIZED='$(sanitized)'; \
	LD_LIBRARY_PATH='$(abs_top_builddir)/.libs'"$${LD_LIBRARY_PATH:+:$$LD_LIBRARY_PATH}"; export LD_LIBRARY_PATH; \
	export top_srcdir top_builddir PLENUM_PLENUMD PYTHON PLENUM_SANITIZED;
if SANITIZED
sanitized = 1
endif
LOG_DRIVER = $(tap_driver)
# TEST_LIMIT may be a command that ends tests that hang, as in scripts/check.
LOG_COMPILER = $(TEST_LIMIT) $(top_srcdir)/%D%/run-test
TEST_EXTENSIONS = .sh .py
SH_LOG_DRIVER = $(tap_driver)
SH_LOG_COMPILER = $(TEST_LIMIT) $(SHELL)
PY_LOG_DRIVER = $(tap_driver)
PY_LOG_COMPILER = $(TEST_LIMIT) $(PYTHON)
EXTRA_DIST += %D%/run-test %D%/suppressions/lsan %D%/suppressions/tsan

# Criterion's own macros trigger some of our warnings. gcc's discarded-qualifiers has another name in clang.
# gcc ignores unknown -Wno- options; clang does so with -Wno-unknown-warning-option.
test_cflags = $(AM_CFLAGS) -Wno-unknown-warning-option -Wno-conversion -Wno-shadow -Wno-missing-prototypes -Wno-undef -Wno-write-strings \
	-Wno-discarded-qualifiers -Wno-incompatible-pointer-types-discards-qualifiers $(CRITERION_CFLAGS)

# The library of tests and benchmarks that start a loader.
noinst_LTLIBRARIES += %D%/libdaemon.la
%C%_libdaemon_la_SOURCES = %D%/daemon.c %D%/daemon.h
%C%_libdaemon_la_LIBADD = common/libcommon.la

include tests/python/local.mk

# Thread tests are plain programs, which ThreadSanitizer can follow.
threads_tests =
check-threads: all
	$(MAKE) $(AM_MAKEFLAGS) check-TESTS TESTS='$(threads_tests)' check_PROGRAMS='$(threads_tests)'
phony += check-threads

if CRITERION
include tests/common/local.mk
include tests/loader/local.mk
include tests/loader/image/local.mk
include tests/fuzz/local.mk
include tests/libdist/local.mk
endif

include tests/launcher/local.mk
include tests/e2e/local.mk
include tests/frameworks/local.mk
include tests/loader/ctl/local.mk
include tests/docs/local.mk
include tests/style/local.mk
include tests/scripts/local.mk
include tests/hostile/local.mk

# These tests need root, several hosts, or minutes.
system_tests =
check-system: all
	$(MAKE) $(AM_MAKEFLAGS) check TESTS='$(system_tests)'
phony += check-system
include tests/failures/local.mk
include tests/models/local.mk
include tests/proofs/local.mk
include tests/system/local.mk
