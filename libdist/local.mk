# SPDX-License-Identifier: MIT
# libdist/: libplenum, the library in the training job.
noinst_LTLIBRARIES += %D%/libdist.la
%C%_libdist_la_SOURCES = \
	%D%/amend.c %D%/amend.h %D%/amended.c %D%/amended.h %D%/batch.c %D%/batch.h \
	%D%/batch_trace.c %D%/batch_trace.h %D%/batch_verify.c %D%/batch_verify.h \
	%D%/claim.c %D%/claim.h %D%/cursor_check.c %D%/cursor_check.h %D%/io.c %D%/io.h %D%/job.c %D%/job_environ.c %D%/job_environ.h %D%/job_priv.h %D%/job_stop.c \
	%D%/loader_session.c %D%/loader_session.h %D%/loader_session_core.h %D%/loader_session_input.c \
	%D%/loader_table.c %D%/loader_table.h %D%/loaders.c %D%/loaders.h %D%/lookup.c %D%/lookup.h \
	%D%/names.c %D%/names.h %D%/normalise.c %D%/normalise_loops.h %D%/normalise_avx2.c \
	%D%/ownloader.c %D%/ownloader.h %D%/pacing.c %D%/pacing.h %D%/rtt.h %D%/schedule.c %D%/schedule.h %D%/slot.c %D%/slot.h \
	%D%/stream.c %D%/stream_core.c %D%/stream_core.h %D%/stream_open.h %D%/stream_options.c %D%/stream_options.h \
	%D%/together.c %D%/together.h
%C%_libdist_la_LIBADD = %D%/collectives/libcollectives.la common/libcommon.la

lib_LTLIBRARIES += libplenum.la
libplenum_la_SOURCES =
libplenum_la_LIBADD = %D%/libdist.la -ldl
libplenum_la_LDFLAGS = $(AM_LDFLAGS) -version-info $(PLENUM_LT_VERSION) -Wl,-z,nodelete \
	-Wl,--version-script=$(top_srcdir)/%D%/libplenum.map
EXTRA_libplenum_la_DEPENDENCIES = $(top_srcdir)/%D%/libplenum.map
EXTRA_DIST += %D%/libplenum.map

pkgconfigdir = $(libdir)/pkgconfig
pkgconfig_DATA = %D%/plenum.pc
