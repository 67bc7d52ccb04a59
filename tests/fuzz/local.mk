# tests/fuzz/: fuzz targets. With --enable-fuzz (CC=clang) libFuzzer drives them:
#     tests/loader/image/dump --seeds SEEDS && tests/fuzz/fuzz_image CORPUS SEEDS
# in other builds a small driver puts files through them, which is a test of every `make check`.
if FUZZ
fuzz_driver =
else
fuzz_driver = %D%/driver.c
TESTS += %D%/test_fuzz_image.sh
endif
dist_check_SCRIPTS += %D%/test_fuzz_image.sh
EXTRA_DIST += %D%/driver.c

check_PROGRAMS += %D%/fuzz_image
%C%_fuzz_image_SOURCES = %D%/fuzz_image.c $(fuzz_driver)
%C%_fuzz_image_LDFLAGS = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)
%C%_fuzz_image_LDADD = tests/loader/image/libimagetest.la loader/image/libimage.la common/libcommon.la
