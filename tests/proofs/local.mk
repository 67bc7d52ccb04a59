# SPDX-License-Identifier: MIT
# Frama-C interprets these files: see scripts/proofs.
EXTRA_DIST += %D%/frame_contract.h %D%/libc.h %D%/prove_exif.c %D%/prove_frame.c %D%/prove_jpeg_marker.c %D%/prove_wire.c
