# SPDX-License-Identifier: MIT
# common/: code that several programs share. It is position-independent, because libplenum links it, too.
noinst_LTLIBRARIES += %D%/libcommon.la
%C%_libcommon_la_SOURCES = \
	%D%/data/crc32c.c %D%/data/crc32c.h \
	%D%/data/crc_tables.h \
	%D%/data/dataname.c %D%/data/dataname.h \
	%D%/data/datasum.c %D%/data/datasum.h \
	%D%/data/fields.c %D%/data/fields.h \
	%D%/data/stand_in.c %D%/data/stand_in.h \
	%D%/data/png_depth.h \
	%D%/data/text_mode.c %D%/data/text_mode.h \
	%D%/job/departed.c %D%/job/departed.h \
	%D%/job/jobctl.c %D%/job/jobctl.h \
	%D%/job/jobloader.c %D%/job/jobloader.h \
	%D%/job/jobloader_clients.c \
	%D%/job/jobloader_find.c \
	%D%/job/jobloader_priv.h \
	%D%/job/jobspawn.c %D%/job/jobspawn.h \
	%D%/job/meeting.c %D%/job/meeting.h \
	%D%/job/meeting_priv.h \
	%D%/job/meeting_rounds.c \
	%D%/job/meeting_server.c \
	%D%/job/meeting_wait.c \
	%D%/job/pace.c %D%/job/pace.h \
	%D%/job/stop_page.c %D%/job/stop_page.h \
	%D%/job/waitstatus.c %D%/job/waitstatus.h \
	%D%/net/address.c %D%/net/address.h \
	%D%/net/frame.c %D%/net/frame.h \
	%D%/net/hostlist.c %D%/net/hostlist.h \
	%D%/net/port_reserve.c %D%/net/port_reserve.h \
	%D%/net/refuser.c %D%/net/refuser.h \
	%D%/net/ring.c %D%/net/ring.h \
	%D%/net/status.c %D%/net/status.h \
	%D%/net/tls.c %D%/net/tls.h \
	%D%/net/wire.c %D%/net/wire.h %D%/net/wire_status.c \
	%D%/options/complete.c \
	%D%/options/options.c %D%/options/options.h \
	%D%/options/program.c %D%/options/program.h \
	%D%/order/mixture.c %D%/order/mixture.h \
	%D%/order/orderplan.c %D%/order/orderplan.h \
	%D%/order/orderplan_pieces.c \
	%D%/order/orderplan_priv.h \
	%D%/order/orderplan_amend.c \
	%D%/order/orderplan_set.c \
	%D%/order/orderplan_words.c \
	%D%/order/sampler.c %D%/order/sampler.h \
	%D%/order/shares.c %D%/order/shares.h \
	%D%/pipeline/identity.c %D%/pipeline/identity.h \
	%D%/order/order.c %D%/order/order.h \
	%D%/order/philox.h \
	%D%/pipeline/pipeline.c %D%/pipeline/pipeline.h \
	%D%/pipeline/pipeline_crop.c \
	%D%/pipeline/pipeline_map.c \
	%D%/pipeline/pipeline_mix.c \
	%D%/pipeline/pipeline_ops.c \
	%D%/pipeline/pipeline_policy.c \
	%D%/pipeline/pipeline_priv.h \
	%D%/pipeline/pipeline_text.c \
	%D%/pipeline/pipeline_zoom.c \
	%D%/pipeline/streamhash.c %D%/pipeline/streamhash.h \
	%D%/pipeline/views.c %D%/pipeline/views.h \
	%D%/pipeline/views_boxes.c \
	%D%/util/cgroup.c %D%/util/cgroup.h \
	%D%/util/error_set.c %D%/util/error_set.h \
	%D%/util/json.c %D%/util/json.h \
	%D%/util/list.h \
	%D%/util/lock.h \
	%D%/util/log.c %D%/util/log.h \
	%D%/util/memory.c %D%/util/memory.h \
	%D%/util/message.h \
	%D%/util/module.c %D%/util/module.h \
	%D%/util/parallel.c %D%/util/parallel.h \
	%D%/util/progress.c %D%/util/progress.h \
	%D%/util/state.c %D%/util/state.h \
	%D%/util/text.c %D%/util/text.h \
	%D%/util/util.c %D%/util/util.h
%C%_libcommon_la_CPPFLAGS = $(AM_CPPFLAGS) -DPLENUM_BINDIR='"$(bindir)"' -DPLENUM_LIBDIR='"$(libdir)"'

if TLS
lib_LTLIBRARIES += libplenum-tls.la
libplenum_tls_la_SOURCES = %D%/net/tls_openssl.c %D%/net/tls.h
libplenum_tls_la_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
libplenum_tls_la_LIBADD = $(OPENSSL_LIBS)
libplenum_tls_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version
endif

# Completion for shells: one file per shell covers all programs. The installed names are those that the shells look for.
bashcompletionsdir = $(datarootdir)/bash-completion/completions
zshcompletionsdir = $(datarootdir)/zsh/site-functions
fishcompletionsdir = $(datarootdir)/fish/vendor_completions.d
EXTRA_DIST += %D%/options/completion/plenum.bash %D%/options/completion/plenum.fish %D%/options/completion/plenum.zsh
install-completions:
	$(MKDIR_P) '$(DESTDIR)$(bashcompletionsdir)' '$(DESTDIR)$(zshcompletionsdir)' '$(DESTDIR)$(fishcompletionsdir)'
	$(INSTALL_DATA) $(srcdir)/%D%/options/completion/plenum.zsh '$(DESTDIR)$(zshcompletionsdir)/_plenum'
	for program in $(bin_PROGRAMS); do \
		$(INSTALL_DATA) $(srcdir)/%D%/options/completion/plenum.bash "$(DESTDIR)$(bashcompletionsdir)/$$program" && \
		$(INSTALL_DATA) $(srcdir)/%D%/options/completion/plenum.fish "$(DESTDIR)$(fishcompletionsdir)/$$program.fish" || exit 1; done
uninstall-completions:
	rm -f '$(DESTDIR)$(zshcompletionsdir)/_plenum'
	for program in $(bin_PROGRAMS); do \
		rm -f "$(DESTDIR)$(bashcompletionsdir)/$$program" "$(DESTDIR)$(fishcompletionsdir)/$$program.fish"; done
phony += install-completions uninstall-completions
