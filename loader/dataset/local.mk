# loader/dataset/: where the bytes of samples come from.
noinst_LTLIBRARIES += %D%/libdataset.la
%C%_libdataset_la_SOURCES = \
	%D%/dataset.c %D%/dataset.h \
	%D%/folder.c \
	%D%/format.h \
	%D%/index.c %D%/index.h
