# SPDX-License-Identifier: MIT
# common/: what several programs share and none owns. Position-independent: libplenum links it too.
noinst_LTLIBRARIES += %D%/libcommon.la
%C%_libcommon_la_SOURCES = \
	%D%/address.c %D%/address.h \
	%D%/cgroup.c %D%/cgroup.h \
	%D%/complete.c \
	%D%/crc32c.c %D%/crc32c.h %D%/crc_tables.h \
	%D%/dataname.c %D%/dataname.h \
	%D%/datasum.c %D%/datasum.h \
	%D%/departed.c %D%/departed.h \
	%D%/error.c %D%/error.h \
	%D%/fields.c %D%/fields.h \
	%D%/frame.c %D%/frame.h \
	%D%/git_lfs.c %D%/git_lfs.h \
	%D%/hostlist.c %D%/hostlist.h \
	%D%/identity.c %D%/identity.h \
	%D%/jobloader.c %D%/jobloader.h %D%/jobloader_priv.h \
	%D%/jobloader_clients.c %D%/jobloader_find.c \
	%D%/jobspawn.c %D%/jobspawn.h \
	%D%/json.c %D%/json.h \
	%D%/list.h \
	%D%/lock.h \
	%D%/log.c %D%/log.h \
	%D%/meeting.c %D%/meeting.h %D%/meeting_server.c %D%/meeting_priv.h \
	%D%/memory.c %D%/memory.h \
	%D%/message.h \
	%D%/module.c %D%/module.h \
	%D%/options.c %D%/options.h \
	%D%/order.c %D%/order.h \
	%D%/parallel.c %D%/parallel.h \
	%D%/philox.h %D%/png_depth.h \
	%D%/pipeline.c %D%/pipeline.h %D%/pipeline_crop.c %D%/pipeline_map.c %D%/pipeline_mix.c \
	%D%/pipeline_ops.c %D%/pipeline_policy.c \
	%D%/pipeline_priv.h %D%/pipeline_text.c \
	%D%/program.c %D%/program.h \
	%D%/progress.c %D%/progress.h \
	%D%/refuser.c %D%/refuser.h \
	%D%/ring.c %D%/ring.h \
	%D%/state.c %D%/state.h \
	%D%/status.c %D%/status.h \
	%D%/streamhash.c %D%/streamhash.h \
	%D%/text.c %D%/text.h \
	%D%/text_mode.c %D%/text_mode.h \
	%D%/tls.c %D%/tls.h \
	%D%/util.c %D%/util.h \
	%D%/views.c %D%/views.h \
	%D%/waitstatus.c %D%/waitstatus.h \
	%D%/wire.c %D%/wire.h
%C%_libcommon_la_CPPFLAGS = $(AM_CPPFLAGS) -DPLENUM_BINDIR='"$(bindir)"' -DPLENUM_LIBDIR='"$(libdir)"'

if TLS
lib_LTLIBRARIES += libplenum-tls.la
libplenum_tls_la_SOURCES = %D%/tls_openssl.c %D%/tls.h
libplenum_tls_la_CFLAGS = $(AM_CFLAGS) $(OPENSSL_CFLAGS)
libplenum_tls_la_LIBADD = $(OPENSSL_LIBS)
libplenum_tls_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version
endif

# What shells complete: one file for each shell, for all programs, under the name by which the shell looks for it.
bashcompletionsdir = $(datarootdir)/bash-completion/completions
zshcompletionsdir = $(datarootdir)/zsh/site-functions
fishcompletionsdir = $(datarootdir)/fish/vendor_completions.d
EXTRA_DIST += %D%/completion/plenum.bash %D%/completion/plenum.fish %D%/completion/plenum.zsh
install-completions:
	$(MKDIR_P) '$(DESTDIR)$(bashcompletionsdir)' '$(DESTDIR)$(zshcompletionsdir)' '$(DESTDIR)$(fishcompletionsdir)'
	$(INSTALL_DATA) $(srcdir)/%D%/completion/plenum.zsh '$(DESTDIR)$(zshcompletionsdir)/_plenum'
	for program in $(bin_PROGRAMS); do \
		$(INSTALL_DATA) $(srcdir)/%D%/completion/plenum.bash "$(DESTDIR)$(bashcompletionsdir)/$$program" && \
		$(INSTALL_DATA) $(srcdir)/%D%/completion/plenum.fish "$(DESTDIR)$(fishcompletionsdir)/$$program.fish" || exit 1; done
uninstall-completions:
	rm -f '$(DESTDIR)$(zshcompletionsdir)/_plenum'
	for program in $(bin_PROGRAMS); do \
		rm -f "$(DESTDIR)$(bashcompletionsdir)/$$program" "$(DESTDIR)$(fishcompletionsdir)/$$program.fish"; done
phony += install-completions uninstall-completions
