noinst_LTLIBRARIES += %D%/libimage.la
%C%_libimage_la_SOURCES = %D%/stub.c %D%/image.h %D%/encode.h %D%/jpeg_encode.c %D%/png_encode.c
