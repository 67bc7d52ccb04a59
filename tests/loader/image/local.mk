# tests/loader/image/: the image room against an oracle, and against Pillow.
image_tests = %D%/test_crop \
	%D%/test_exif
check_PROGRAMS += $(image_tests)
TESTS += $(image_tests)

image_test_cflags = $(test_cflags)
image_test_libs = loader/image/libimage.la common/libcommon.la $(CRITERION_LIBS)

%C%_test_crop_CFLAGS = $(image_test_cflags)
%C%_test_crop_LDADD = $(image_test_libs) -lm
%C%_test_exif_CFLAGS = $(image_test_cflags)
%C%_test_exif_LDADD = $(image_test_libs)
