# SPDX-License-Identifier: MIT
# loader/image/: bytes to pixels, a pure library. libjpeg only in jpeg/, libpng only in png/, libwebp only in webp.c,
# libavif only in avif/.
noinst_LTLIBRARIES += %D%/libimage.la
%C%_libimage_la_SOURCES = \
	%D%/absent.c %D%/absent.h \
	%D%/avx2.h \
	%D%/big_endian.h \
	%D%/builtin.c %D%/builtin.h \
	%D%/encode.h \
	%D%/exif.c %D%/exif.h \
	%D%/image.c %D%/image.h \
	%D%/limits.h \
	%D%/places.c %D%/places.h \
	%D%/ppm.c %D%/ppm.h \
	%D%/reader.h \
	%D%/rect.h \
	%D%/scratch.h \
	%D%/selftest.c \
	%D%/webp.c \
	%D%/avif/avif.c \
	%D%/avif/avif_scan.c %D%/avif/avif_scan.h \
	%D%/avif/yuv.c %D%/avif/yuv.h \
	%D%/jpeg/jpeg.c \
	%D%/jpeg/jpeg_blocks.h \
	%D%/jpeg/jpeg_coefs.c %D%/jpeg/jpeg_coefs.h \
	%D%/jpeg/jpeg_encode.c \
	%D%/jpeg/jpeg_frame.c %D%/jpeg/jpeg_frame.h \
	%D%/jpeg/jpeg_huff.c %D%/jpeg/jpeg_huff.h \
	%D%/jpeg/jpeg_huff_avx2.c \
	%D%/jpeg/jpeg_huff_neon.c \
	%D%/jpeg/jpeg_idct.h \
	%D%/jpeg/jpeg_marker.h \
	%D%/jpeg/jpeg_own.c %D%/jpeg/jpeg_own.h \
	%D%/jpeg/jpeg_pack.c \
	%D%/jpeg/jpeg_pixels.c %D%/jpeg/jpeg_pixels.h \
	%D%/jpeg/jpeg_pixels_avx2.c \
	%D%/jpeg/jpeg_pixels_neon.c \
	%D%/jpeg/jpeg_planes.c %D%/jpeg/jpeg_planes.h \
	%D%/jpeg/jpeg_scan.c %D%/jpeg/jpeg_scan.h \
	%D%/jpeg/jpeg_tiles.c %D%/jpeg/jpeg_tiles.h \
	%D%/ops/affine.c %D%/ops/affine.h \
	%D%/ops/affine_avx2.c \
	%D%/ops/affine_draw.c %D%/ops/affine_draw.h \
	%D%/ops/augment.c %D%/ops/augment.h \
	%D%/ops/augment_avx2.c \
	%D%/ops/augment_draw.c %D%/ops/augment_draw.h \
	%D%/ops/augment_hsv.inc \
	%D%/ops/augment_hue.inc \
	%D%/ops/augment_loops.h %D%/ops/augment_loops.inc \
	%D%/ops/augment_portable.c \
	%D%/ops/augment_text.c %D%/ops/augment_text.h \
	%D%/ops/blur.c %D%/ops/blur.h \
	%D%/ops/blur_avx2.c \
	%D%/ops/blur_portable.c \
	%D%/ops/fixed.h \
	%D%/ops/mix.c %D%/ops/mix.h \
	%D%/ops/policy.c %D%/ops/policy.h \
	%D%/pack/pack.c %D%/pack/pack.h \
	%D%/pack/pack_resize.c %D%/pack/pack_resize.h \
	%D%/pack/splice.c %D%/pack/splice.h \
	%D%/png/inflate.c %D%/png/inflate.h \
	%D%/png/png.c \
	%D%/png/png_encode.c \
	%D%/png/png_own.c %D%/png/png_own.h \
	%D%/png/png_rows.c %D%/png/png_rows.h \
	%D%/png/png_sums.c %D%/png/png_sums.h \
	%D%/resize/crop.c %D%/resize/crop.h \
	%D%/resize/filter.c %D%/resize/filter.h \
	%D%/resize/iou.c %D%/resize/iou.h \
	%D%/resize/pad.c %D%/resize/pad.h \
	%D%/resize/resize.c %D%/resize/resize.h \
	%D%/resize/resize_avx2.c \
	%D%/resize/resize_kernels.h \
	%D%/resize/resize_neon.c \
	%D%/resize/resize_portable.c \
	%D%/resize/unscaled.c %D%/resize/unscaled.h
%C%_libimage_la_CFLAGS = $(AM_CFLAGS) $(JPEG_CFLAGS) $(PNG_CFLAGS) $(WEBP_CFLAGS) $(AVIF_CFLAGS) $(XXH_CFLAGS)
%C%_libimage_la_LIBADD = common/libcommon.la $(JPEG_LIBS) $(PNG_LIBS) $(WEBP_LIBS) $(AVIF_LIBS) -lm
