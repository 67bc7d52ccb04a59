# docs/
dist_man_MANS += %D%/man/plenumctl.1 %D%/man/plenumrun.1 %D%/man/plenumd.8 %D%/man/plenumd.conf.5 %D%/man/plenum.7
dist_doc_DATA = %D%/architecture.md %D%/datasets.md %D%/guide.md %D%/messages.md %D%/operator.md %D%/packed.md %D%/pixels.md %D%/popdist.md %D%/protocol.md \
	%D%/training.md
