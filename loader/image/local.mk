# SPDX-License-Identifier: MIT
# loader/image/: bytes to pixels, a pure library. libjpeg only in jpeg*.c, libpng only in png*.c, libwebp
# only in webp.c, libavif only in avif.c.
noinst_LTLIBRARIES += %D%/libimage.la
%C%_libimage_la_SOURCES = \
	%D%/absent.c %D%/absent.h \
	%D%/affine.c %D%/affine.h \
	%D%/affine_avx2.c \
	%D%/affine_draw.c %D%/affine_draw.h \
	%D%/augment.c %D%/augment_draw.c %D%/augment_draw.h %D%/augment_text.c %D%/augment_text.h %D%/augment.h \
	%D%/augment_avx2.c %D%/augment_portable.c %D%/augment_loops.h %D%/augment_hue.inc %D%/augment_loops.inc \
	%D%/avx2.h \
	%D%/big_endian.h \
	%D%/avif.c %D%/avif_scan.c %D%/avif_scan.h \
	%D%/blur.c %D%/blur.h %D%/blur_avx2.c %D%/blur_portable.c \
	%D%/builtin.c %D%/builtin.h \
	%D%/crop.c %D%/crop.h %D%/pad.c %D%/pad.h \
	%D%/encode.h \
	%D%/exif.c %D%/exif.h \
	%D%/filter.c %D%/filter.h %D%/fixed.h \
	%D%/image.c %D%/image.h \
	%D%/inflate.c %D%/inflate.h \
	%D%/jpeg.c \
	%D%/jpeg_blocks.h \
	%D%/jpeg_coefs.c %D%/jpeg_coefs.h \
	%D%/jpeg_encode.c \
	%D%/jpeg_frame.c %D%/jpeg_frame.h \
	%D%/jpeg_huff.c %D%/jpeg_huff.h \
	%D%/jpeg_huff_avx2.c \
	%D%/jpeg_huff_neon.c \
	%D%/jpeg_marker.h \
	%D%/jpeg_own.c %D%/jpeg_own.h \
	%D%/jpeg_pixels.c %D%/jpeg_pixels.h %D%/jpeg_idct.h \
	%D%/jpeg_pixels_avx2.c \
	%D%/jpeg_pixels_neon.c \
	%D%/jpeg_planes.c %D%/jpeg_planes.h \
	%D%/jpeg_scan.c %D%/jpeg_scan.h \
	%D%/jpeg_tiles.c %D%/jpeg_tiles.h \
	%D%/jpeg_pack.c \
	%D%/limits.h \
	%D%/mix.c %D%/mix.h \
	%D%/pack.c %D%/pack.h \
	%D%/pack_resize.c %D%/pack_resize.h \
	%D%/png.c \
	%D%/png_own.c %D%/png_own.h \
	%D%/png_rows.c %D%/png_rows.h \
	%D%/png_sums.c %D%/png_sums.h \
	%D%/policy.c %D%/policy.h \
	%D%/png_encode.c \
	%D%/ppm.c %D%/ppm.h \
	%D%/reader.h \
	%D%/rect.h \
	%D%/resize.c %D%/resize.h \
	%D%/resize_avx2.c \
	%D%/resize_kernels.h \
	%D%/resize_neon.c \
	%D%/resize_portable.c \
	%D%/scratch.h \
	%D%/selftest.c \
	%D%/splice.c %D%/splice.h \
	%D%/unscaled.c %D%/unscaled.h \
	%D%/webp.c \
	%D%/yuv.c %D%/yuv.h
%C%_libimage_la_CFLAGS = $(AM_CFLAGS) $(JPEG_CFLAGS) $(PNG_CFLAGS) $(WEBP_CFLAGS) $(AVIF_CFLAGS) $(XXH_CFLAGS)
%C%_libimage_la_LIBADD = common/libcommon.la $(JPEG_LIBS) $(PNG_LIBS) $(WEBP_LIBS) $(AVIF_LIBS) -lm
