# SPDX-License-Identifier: MIT
# docs/
man3_pages = %D%/man/libplenum.3 %D%/man/plenum_batch.3 %D%/man/plenum_collectives.3 %D%/man/plenum_cursor.3 %D%/man/plenum_job.3 \
	%D%/man/plenum_normalise.3 %D%/man/plenum_stream.3
dist_man_MANS += $(man3_pages)
dist_man_MANS += %D%/man/plenumctl.1 %D%/man/plenumrun.1 %D%/man/plenumd.8 %D%/man/plenumd.conf.5 %D%/man/plenum.7
dist_doc_DATA = %D%/architecture.md %D%/datasets.md %D%/decoding.md %D%/elastic.md %D%/failures.md %D%/glossary.md %D%/guide.md %D%/install.md %D%/kubernetes.md %D%/launcher.md %D%/messages.md %D%/operator.md %D%/order.md %D%/packed.md %D%/pipelines.md %D%/pixels.md %D%/preparing.md %D%/sampling.md \
	%D%/popdist.md %D%/protocol.md %D%/security.md %D%/slow.md %D%/states.md %D%/stores.md %D%/sweeps.md \
	%D%/recipes.md %D%/tour.md %D%/training.md %D%/versions.md %D%/batch.svg %D%/operations.jpg %D%/rooms.svg
# Draw operations.jpg, and the tables of states.md.
EXTRA_DIST += %D%/operations.py %D%/states.py

# Every function has a page with its name, which includes the page of its family.
each_function = for page in $(man3_pages); do \
		family=`basename $$page .3`; \
		for name in `sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \([a-z_]*\).*/\1/p' "$(srcdir)/$$page"`; do \
			test "$$name" = "$$family" || \
			each "$$name" "$$family" || exit 1; done; done
install-data-local: install-completions
	$(MKDIR_P) '$(DESTDIR)$(man3dir)'
	each() { echo ".so man3/$$2.3" >"$(DESTDIR)$(man3dir)/$$1.3"; }; $(each_function)
uninstall-local: uninstall-completions
	rm -rf '$(DESTDIR)$(htmldir)/manual'
	each() { rm -f "$(DESTDIR)$(man3dir)/$$1.3"; }; $(each_function)

# make html: all pages, manual pages, headers and docstrings as one manual with search, html/manual/index.html. A warning of Sphinx or a dead link is an
# error. make install-html installs the manual in htmldir.
html_files = %D%/html/conf.py %D%/html/deadlinks.py %D%/html/manual.css %D%/html/stage.py
EXTRA_DIST += $(html_files)
html_missing = test '$(PYTHON)' != : || { echo "make html: configure found no Python" >&2; exit 1; }; \
	for tool in sphinx-build:python3-sphinx mandoc:mandoc; do \
		command -v "$${tool%%:*}" >/dev/null || { echo "make html: $${tool%%:*} is missing (Debian: $${tool\#*:})" >&2; exit 1; }; done; \
	for module in myst_parser:python3-myst-parser furo:furo sphinx:python3-sphinx numpy:python3-numpy; do \
		$(PYTHON) -c "import $${module%%:*}" 2>/dev/null || \
		{ echo "make html: $(PYTHON) has no $${module%%:*} (Debian: $${module\#*:}, for /usr/bin/python3)" >&2; exit 1; }; done
html-local: libplenum.la
	@$(html_missing)
	rm -rf html
	$(MKDIR_P) html
	$(PYTHON) $(srcdir)/%D%/html/stage.py $(srcdir) html/src
	PLENUM_LIBRARY=$(abs_top_builddir)/.libs/libplenum.so PYTHONPATH=$(abs_top_srcdir)/python PYTHONDONTWRITEBYTECODE=1 PLENUM_VERSION=$(PACKAGE_VERSION) \
		$(PYTHON) -m sphinx -W --keep-going -q -b html -d html/doctrees html/src html/manual
	$(PYTHON) $(srcdir)/%D%/html/deadlinks.py html/manual
install-html-local: html-local
	$(MKDIR_P) '$(DESTDIR)$(htmldir)'
	cp -R html/manual '$(DESTDIR)$(htmldir)/manual'
clean-local:
	rm -rf html
