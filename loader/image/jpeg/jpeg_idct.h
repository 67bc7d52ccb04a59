/* SPDX-License-Identifier: MIT */
/* jpeg_idct.h - the factors of the inverse DCT, for all sets of loops: those of libjpeg's "slow"
 * integer transform, after Loeffler, Ligtenberg and Moschytz, 1989. */
#ifndef LOADER_IMAGE_JPEG_IDCT_H
#define LOADER_IMAGE_JPEG_IDCT_H

/* Constants times 2^13. */
enum {
    F_0_298 = 2446,
    F_0_390 = 3196,
    F_0_541 = 4433,
    F_0_765 = 6270,
    F_0_899 = 7373,
    F_1_175 = 9633,
    F_1_501 = 12299,
    F_1_847 = 15137,
    F_1_961 = 16069,
    F_2_053 = 16819,
    F_2_562 = 20995,
    F_3_072 = 25172,
};

#endif
