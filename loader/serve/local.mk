# SPDX-License-Identifier: MIT
# loader/serve/: plenumd. Everything except main() is in an archive, so that tests link the same code as the daemon.
noinst_LTLIBRARIES += %D%/libserve.la
%C%_libserve_la_SOURCES = \
	%D%/bound.c %D%/bound.h %D%/blocking.c %D%/blocking.h \
	%D%/fair_queue.c %D%/fair_queue.h \
	%D%/histogram.h \
	%D%/http.c %D%/http.h \
	%D%/leash.c %D%/leash.h \
	%D%/listening.c %D%/listening.h \
	%D%/log_limit.c %D%/log_limit.h \
	%D%/metrics.c %D%/metrics.h \
	%D%/monitor.c %D%/monitor.h \
	%D%/notify.c %D%/notify.h \
	%D%/openings.c %D%/openings.h \
	%D%/pin.c %D%/pin.h \
	%D%/queue.c %D%/queue.h %D%/queue_priv.h \
	%D%/queue_begin.c %D%/queue_begin.h \
	%D%/queue_item.c %D%/queue_item.h \
	%D%/queue_users.c %D%/queue_users.h \
	%D%/quota.c %D%/quota.h \
	%D%/readahead.c %D%/readahead.h \
	%D%/renderings.c %D%/renderings.h \
	%D%/roots.c %D%/roots.h \
	%D%/server.c %D%/server.h %D%/server_priv.h \
	%D%/session.c %D%/session.h \
	%D%/session_events.c \
	%D%/session_facts.c %D%/session_facts.h \
	%D%/session_frames.c \
	%D%/session_open.c \
	%D%/session_peer.c \
	%D%/session_priv.h \
	%D%/session_refuse.c \
	%D%/session_send.c \
	%D%/settings.c %D%/settings.h \
	%D%/sharing.c %D%/sharing.h \
	%D%/snapshot.c %D%/snapshot.h \
	%D%/thumbnail.c %D%/thumbnail.h \
	%D%/token_bucket.c %D%/token_bucket.h \
	%D%/treap.c %D%/treap.h \
	%D%/users.c %D%/users.h \
	%D%/window.c %D%/window.h
%C%_libserve_la_CFLAGS = $(AM_CFLAGS) $(UV_CFLAGS) $(HWLOC_CFLAGS) $(INIH_CFLAGS) $(MICROHTTPD_CFLAGS)

loader_libs = loader/render/librender.la loader/dataset/libdataset.la loader/image/libimage.la \
	common/libcommon.la

bin_PROGRAMS += plenumd
plenumd_SOURCES = %D%/plenumd.c
plenumd_CPPFLAGS = $(AM_CPPFLAGS) -DPLENUM_SYSCONFDIR='"$(sysconfdir)"'
plenumd_LDADD = %D%/libserve.la $(loader_libs) $(INIH_LIBS) $(MICROHTTPD_LIBS) $(UV_LIBS) $(HWLOC_LIBS) $(JPEG_LIBS) $(PNG_LIBS)

# The status page, as a C string.
EXTRA_DIST += %D%/page.html
%D%/page.inc: %D%/page.html
	$(AM_V_GEN)$(MKDIR_P) %D% && sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' '$(srcdir)/%D%/page.html' >$@.tmp && mv $@.tmp $@
# Not the name of the object: Automake would take this for its rule.
$(%C%_libserve_la_OBJECTS): %D%/page.inc
CLEANFILES += %D%/page.inc
BUILT_SOURCES += %D%/page.inc
