# SPDX-License-Identifier: MIT
# Makes system calls and allocations fail, one per run: a sample of them in make check, all in make check-failures.
check_LTLIBRARIES += %D%/fail.la
%C%_fail_la_SOURCES = %D%/fail.c
%C%_fail_la_CFLAGS = $(AM_CFLAGS) -U_FORTIFY_SOURCE -fno-builtin -fno-sanitize=all -ftls-model=initial-exec -Wno-missing-prototypes -Wno-redundant-decls \
	-Wno-format-nonliteral
%C%_fail_la_LIBADD = -ldl
%C%_fail_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -rpath /nowhere
EXTRA_DIST += %D%/test_failures.py
if PYTHON_FOUND
TESTS += %D%/test_failures.py
endif
check-failures: all
	PLENUM_FAILURES=$${PLENUM_FAILURES:-all} SEED=$${SEED:-clock} $(MAKE) $(AM_MAKEFLAGS) check TESTS=%D%/test_failures.py
phony += check-failures
