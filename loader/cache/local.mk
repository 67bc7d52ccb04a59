# SPDX-License-Identifier: MIT
# loader/cache/: keeps samples from object stores on the local disk, and decides which of them stay there.
noinst_LTLIBRARIES += %D%/libcache.la
%C%_libcache_la_SOURCES = \
	%D%/course.c %D%/course.h \
	%D%/sample_cache.c %D%/sample_cache.h \
	%D%/keep.c %D%/keep.h \
	%D%/shelf.c %D%/shelf.h
%C%_libcache_la_CFLAGS = $(AM_CFLAGS) $(XXH_CFLAGS)
