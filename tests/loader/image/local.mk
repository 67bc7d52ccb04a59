# SPDX-License-Identifier: MIT
# tests/loader/image/: loader/image against an oracle and against Pillow.
image_tests = \
	%D%/test_allocation \
	%D%/test_exif \
	%D%/test_ppm \
	%D%/test_properties \
	%D%/test_render \
	%D%/test_selftest \
	%D%/test_text_mode \
	%D%/test_views \
	%D%/test_webp \
	%D%/avif/test_avif \
	%D%/jpeg/test_jpeg \
	%D%/jpeg/test_jpeg_junk \
	%D%/jpeg/test_jpeg_own \
	%D%/jpeg/test_jpeg_tiles \
	%D%/ops/test_augment_loops \
	%D%/ops/test_augment_text \
	%D%/ops/test_mix \
	%D%/pack/test_pack \
	%D%/pack/test_pack_resize \
	%D%/png/test_png \
	%D%/png/test_png_own \
	%D%/resize/test_crop \
	%D%/resize/test_filter \
	%D%/resize/test_resize
check_PROGRAMS += $(image_tests)
TESTS += $(image_tests)

noinst_LTLIBRARIES += %D%/libimagetest.la
%C%_libimagetest_la_SOURCES = %D%/agree.c %D%/agree.h %D%/forge.c %D%/forge.h %D%/made.c %D%/made.h %D%/oracle.c %D%/oracle.h \
	%D%/oracle_affine.c %D%/oracle_ops.c %D%/oracle_policy.c \
	%D%/png/png_ways.c %D%/png/png_ways.h \
	%D%/random_pipeline.c %D%/random_pipeline.h
%C%_libimagetest_la_CFLAGS = $(AM_CFLAGS) -Wno-conversion $(JPEG_CFLAGS) $(PNG_CFLAGS) $(WEBP_CFLAGS) $(AVIF_CFLAGS) $(XXH_CFLAGS)
%C%_libimagetest_la_LIBADD = loader/image/libimage.la $(JPEG_LIBS) $(PNG_LIBS) $(WEBP_LIBS) $(AVIF_LIBS) -lm

image_test_cflags = $(test_cflags) $(JPEG_CFLAGS) $(PNG_CFLAGS) $(WEBP_CFLAGS) $(AVIF_CFLAGS) $(XXH_CFLAGS)
image_test_libs = %D%/libimagetest.la loader/image/libimage.la common/libcommon.la $(CRITERION_LIBS)

%C%_test_allocation_CFLAGS = $(image_test_cflags)
%C%_test_allocation_LDADD = $(image_test_libs)
%C%_test_allocation_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc
%C%_ops_test_augment_loops_CFLAGS = $(image_test_cflags)
%C%_ops_test_augment_loops_LDADD = $(image_test_libs)
%C%_ops_test_augment_text_CFLAGS = $(image_test_cflags)
%C%_ops_test_augment_text_LDADD = $(image_test_libs)
%C%_avif_test_avif_CFLAGS = $(image_test_cflags)
%C%_avif_test_avif_LDADD = $(image_test_libs)
%C%_resize_test_crop_CFLAGS = $(image_test_cflags)
%C%_resize_test_crop_LDADD = $(image_test_libs) -lm
%C%_test_exif_CFLAGS = $(image_test_cflags)
%C%_test_exif_LDADD = $(image_test_libs)
%C%_resize_test_filter_CFLAGS = $(image_test_cflags)
%C%_resize_test_filter_LDADD = $(image_test_libs) -lm
%C%_jpeg_test_jpeg_CFLAGS = $(image_test_cflags)
%C%_jpeg_test_jpeg_LDADD = $(image_test_libs)
%C%_jpeg_test_jpeg_junk_CFLAGS = $(image_test_cflags)
%C%_jpeg_test_jpeg_junk_LDADD = $(image_test_libs)
%C%_jpeg_test_jpeg_own_CFLAGS = $(image_test_cflags)
%C%_jpeg_test_jpeg_own_LDADD = $(image_test_libs)
%C%_jpeg_test_jpeg_tiles_CFLAGS = $(image_test_cflags)
%C%_jpeg_test_jpeg_tiles_LDADD = $(image_test_libs)
%C%_ops_test_mix_CFLAGS = $(image_test_cflags)
%C%_ops_test_mix_LDADD = $(image_test_libs) -lm
%C%_pack_test_pack_CFLAGS = $(image_test_cflags)
%C%_pack_test_pack_LDADD = $(image_test_libs)
%C%_pack_test_pack_resize_CFLAGS = $(image_test_cflags)
%C%_pack_test_pack_resize_LDADD = $(image_test_libs)
%C%_png_test_png_CFLAGS = $(image_test_cflags)
%C%_png_test_png_LDADD = $(image_test_libs)
%C%_png_test_png_own_CFLAGS = $(image_test_cflags)
%C%_png_test_png_own_LDADD = $(image_test_libs)
%C%_test_ppm_CFLAGS = $(image_test_cflags)
%C%_test_ppm_LDADD = $(image_test_libs)
%C%_test_properties_CFLAGS = $(image_test_cflags)
%C%_test_properties_LDADD = $(image_test_libs)
%C%_test_render_CFLAGS = $(image_test_cflags)
%C%_test_render_LDADD = $(image_test_libs)
%C%_resize_test_resize_CFLAGS = $(image_test_cflags)
%C%_resize_test_resize_LDADD = $(image_test_libs)
%C%_test_selftest_CFLAGS = $(image_test_cflags)
%C%_test_selftest_LDADD = $(image_test_libs)
%C%_test_text_mode_CFLAGS = $(image_test_cflags)
%C%_test_text_mode_LDADD = $(image_test_libs)
%C%_test_views_CFLAGS = $(image_test_cflags)
%C%_test_views_LDADD = $(image_test_libs)
%C%_test_webp_CFLAGS = $(image_test_cflags)
%C%_test_webp_LDADD = $(image_test_libs)

# Compares our JPEG decoder with libjpeg-turbo: 100,000 synthetic files and 100,000 that no encoder produces; the same
# numbers of files with several scans, and 100,000 of these damaged; with PLENUM_PHOTOS=DIR also photographs. Then
# 10,000 larger files with hints.
check-jpeg: %D%/jpeg/test_jpeg_own %D%/jpeg/test_jpeg_tiles
	PLENUM_JPEG_FILES=100000 %D%/jpeg/test_jpeg_own
	PLENUM_JPEG_FILES=10000 %D%/jpeg/test_jpeg_tiles
phony += check-jpeg

# Compares our PNG decoder with libpng on a million damaged files.
check-png: %D%/png/test_png_own
	PLENUM_PNG_FILES=5000 %D%/png/test_png_own
phony += check-png

# Writes loader/image/builtin.c; kept to show where that file comes from.
check_PROGRAMS += %D%/make_builtin
%C%_make_builtin_CFLAGS = $(image_test_cflags)
%C%_make_builtin_LDADD = %D%/libimagetest.la

check_PROGRAMS += %D%/draws
%C%_draws_CFLAGS = $(image_test_cflags)
%C%_draws_LDADD = loader/image/libimage.la common/libcommon.la

check_PROGRAMS += %D%/dump
%C%_dump_CFLAGS = $(image_test_cflags)
%C%_dump_LDADD = %D%/libimagetest.la loader/image/libimage.la common/libcommon.la
dist_check_SCRIPTS += %D%/test_maps.py %D%/test_operations.py %D%/test_pillow.py %D%/test_policies.py %D%/test_processors.sh %D%/test_torchvision.py
EXTRA_DIST += %D%/rendered.py
TESTS += %D%/test_processors.sh
if PYTHON_FOUND
TESTS += %D%/test_maps.py %D%/test_operations.py %D%/test_pillow.py %D%/test_policies.py %D%/test_torchvision.py
endif

# The images of loader/image/selftest.c, for second implementations.
EXTRA_DIST += %D%/golden/420.jpg %D%/golden/422.jpg %D%/golden/440.jpg %D%/golden/444.jpg %D%/golden/arithmetic.jpg %D%/golden/grey.jpg \
	%D%/golden/progressive.jpg
