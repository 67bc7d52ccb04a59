# SPDX-License-Identifier: MIT
# systemd/: units and other files of the service. pkg-config gives systemd's folders for them;
# --with-systemdsystemunitdir=DIR and similar options select others, and "no" installs none.
EXTRA_DIST += %D%/plenumd.service.in %D%/plenumd.socket %D%/plenumd.sysusers %D%/plenumd.tmpfiles
plenumconfdir = $(sysconfdir)/plenum
dist_plenumconf_DATA = %D%/plenumd.conf
if SYSTEMD
nodist_systemdsystemunit_DATA = %D%/plenumd.service
dist_systemdsystemunit_DATA = %D%/plenumd.socket
endif

%D%/plenumd.service: %D%/plenumd.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) %D% && sed -e 's|@bindir[@]|$(bindir)|g' -e 's|@sysconfdir[@]|$(sysconfdir)|g' \
		'$(srcdir)/%D%/plenumd.service.in' >$@.tmp && mv $@.tmp $@
CLEANFILES += %D%/plenumd.service
all-local: %D%/plenumd.service

# Install these files under the names by which systemd finds them.
install-data-hook:
if SYSTEMD
	$(MKDIR_P) '$(DESTDIR)$(sysusersdir)' '$(DESTDIR)$(tmpfilesdir)'
	$(INSTALL_DATA) '$(srcdir)/%D%/plenumd.sysusers' '$(DESTDIR)$(sysusersdir)/plenumd.conf'
	$(INSTALL_DATA) '$(srcdir)/%D%/plenumd.tmpfiles' '$(DESTDIR)$(tmpfilesdir)/plenumd.conf'
endif
uninstall-hook:
if SYSTEMD
	rm -f '$(DESTDIR)$(sysusersdir)/plenumd.conf' '$(DESTDIR)$(tmpfilesdir)/plenumd.conf'
endif

