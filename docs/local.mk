# docs/
dist_man_MANS += %D%/man/plenumctl.1 %D%/man/plenumrun.1 %D%/man/plenumd.8
dist_doc_DATA = %D%/architecture.md %D%/datasets.md %D%/packed.md %D%/pixels.md %D%/popdist.md %D%/training.md
