# docs/
man3_pages = %D%/man/libplenum.3 %D%/man/plenum_batch.3 %D%/man/plenum_collectives.3 %D%/man/plenum_cursor.3 %D%/man/plenum_job.3 \
	%D%/man/plenum_stream.3
dist_man_MANS += $(man3_pages)
dist_man_MANS += %D%/man/plenumctl.1 %D%/man/plenumrun.1 %D%/man/plenumd.8 %D%/man/plenumd.conf.5 %D%/man/plenum.7
dist_doc_DATA = %D%/architecture.md %D%/datasets.md %D%/glossary.md %D%/guide.md %D%/install.md %D%/messages.md %D%/operator.md %D%/order.md %D%/packed.md %D%/pipelines.md %D%/pixels.md \
	%D%/popdist.md %D%/protocol.md %D%/security.md \
	%D%/recipes.md %D%/training.md %D%/batch.svg %D%/rooms.svg

# Every function has a page of its name, which sources that of its family.
each_function = for page in $(man3_pages); do \
		family=`basename $$page .3`; \
		for name in `sed -n '/^\.Sh NAME/,/^\.Nd/s/^\.Nm \([a-z_]*\).*/\1/p' "$(srcdir)/$$page"`; do \
			test "$$name" = "$$family" || \
			each "$$name" "$$family" || exit 1; done; done
install-data-local: install-completions
	$(MKDIR_P) '$(DESTDIR)$(man3dir)'
	each() { echo ".so man3/$$2.3" >"$(DESTDIR)$(man3dir)/$$1.3"; }; $(each_function)
uninstall-local: uninstall-completions
	each() { rm -f "$(DESTDIR)$(man3dir)/$$1.3"; }; $(each_function)
