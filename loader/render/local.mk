# SPDX-License-Identifier: MIT
# loader/render/: the function that turns positions into pixels.
noinst_LTLIBRARIES += %D%/librender.la
%C%_librender_la_SOURCES = %D%/boxes.c %D%/boxes.h %D%/instance_masks.c %D%/instance_masks.h %D%/keypoints.c %D%/keypoints.h %D%/mosaic.c %D%/mosaic.h %D%/moves.c %D%/moves.h %D%/render.c %D%/render.h %D%/render_room.c %D%/slices.c %D%/slices.h
# Without fused multiply-add, so that all processors compute the same numbers.
%C%_librender_la_CFLAGS = $(AM_CFLAGS) -ffp-contract=off
