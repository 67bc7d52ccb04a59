# loader/dataset/: where the bytes of samples come from. libarchive only in tar_reader.c.
noinst_LTLIBRARIES += %D%/libdataset.la
%C%_libdataset_la_SOURCES = \
	%D%/dataset.c %D%/dataset.h \
	%D%/folder.c \
	%D%/format.h \
	%D%/index.c %D%/index.h \
	%D%/json_find.c %D%/json_find.h \
	%D%/pattern.c %D%/pattern.h \
	%D%/tar.c \
	%D%/tar_reader.c %D%/tar_reader.h \
	%D%/tar_writer.c %D%/tar_writer.h
%C%_libdataset_la_CFLAGS = $(AM_CFLAGS) $(ARCHIVE_CFLAGS) $(XXH_CFLAGS)
%C%_libdataset_la_LIBADD = common/libcommon.la $(ARCHIVE_LIBS)
