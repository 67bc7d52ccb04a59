/* SPDX-License-Identifier: MIT */
/* philox.h - the only source of random numbers, and the list of what they are used for.
 *
 * Philox4x32-10 is a counter-based generator: a keyed bijection of a 128-bit counter whose output
 * passes as random (Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3",
 * SC'11). It has no state, so any loader draws the same numbers for the same position of a stream,
 * in any order. tests/common/order/test_philox.c checks the published known answers.
 *
 * A draw of Plenum: key = the stream's seed; counter = (position, epoch, purpose, draw). */
#ifndef COMMON_PHILOX_H
#define COMMON_PHILOX_H

#include <stdint.h>

/**
 * What a number is drawn for: the third word of the counter. Part of the pixel contract: a number
 * in this list is never reused for another purpose. 16 to 31 are for augmentations.
 */
enum draw_purpose {
    DRAW_ORDER = 1,       /* Feistel rounds for the order of samples; word 0 is one half */
    DRAW_BLOCK = 2,       /* the order of blocks (shuffle=block:B) */
    DRAW_WINDOW = 3,      /* the order inside one window of blocks */
    DRAW_ROTATE = 4,      /* where the storage order is rotated for block shuffling */
    DRAW_PROBE = 5,       /* the substitute for a bad sample; draw = the attempt */
    DRAW_FINGERPRINT = 6, /* the samples whose first bytes are part of a data set's fingerprint */
    DRAW_CROP = 7,        /* rrc: draw = the attempt; words: area, ratio, top, left */
    DRAW_FLIP = 8,        /* flip: word 0 */
    DRAW_SEED = 9,        /* seeds derived from one seed, such as a replica's */
    DRAW_PART = 10,       /* the seed of one part of a data set (split = file) */
    DRAW_SLICE = 11,      /* generated data: draw 0 the position, draw 1 the table */
    DRAW_FILTER = 12,     /* interpolation=random: word 0 */
    DRAW_PLACE = 13,      /* random_crop: words: top, left */
    DRAW_LINE = 14,       /* the line of a field to show: word 0 */
    DRAW_OPERATION = 16,  /* operations after the crop: draws from 16 * the operation's number on */
    DRAW_RANDAUGMENT = 17,
    DRAW_ERASING = 18,
    DRAW_MOSAIC = 20,     /* mosaic: words: centre x, y, corner */
    DRAW_MIXUP = 19,      /* mixup, cutmix: draw 0 decides; then attempts for the share */
    DRAW_SCALE = 26,      /* scale_jitter: words: scale, place */
    DRAW_ZOOM = 27,       /* zoom_out: words: whether, side, left, top */
    DRAW_IOU = 28,        /* iou_crop: 64 draws for each option: the option, and its tries */
    DRAW_SAMPLE_SET = 32, /* plenumctl make-sample */
    DRAW_SET_SEED = 40,   /* the seed of a set of a mixture: words 0 and 1 */
    DRAW_PHASE = 41,      /* the shift of a phase: word 0 */
    DRAW_PLACES = 42,     /* the order of the places in a block of a plan */
    DRAW_WEIGHT = 43,     /* which sample is shown, by weight */
    DRAW_CUT = 44,        /* where strata are cut: word 0 */
    DRAW_BLOCKS = 45,     /* the order of blocks, for strata */
    DRAW_MEMBER = 46,     /* the order of a class's samples */
    DRAW_CLASSES = 47,    /* the order of classes; 48 and 49 are reserved by docs/order.md */
    DRAW_RING = 50,       /* the order in which mosaics take pictures from a block */
};

struct philox_block {
    uint32_t word[4];
};

/** Compute Philox4x32-10 as published. `key` is two words, the low half of a 64-bit seed first. */
static inline struct philox_block philox4x32_10(struct philox_block counter, uint32_t key0,
                                                uint32_t key1)
{
    uint32_t x0 = counter.word[0], x1 = counter.word[1], x2 = counter.word[2], x3 = counter.word[3];

    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53 * x0;
        uint64_t b = (uint64_t)0xCD9E8D57 * x2;

        x0 = (uint32_t)(b >> 32) ^ x1 ^ key0;
        x1 = (uint32_t)b;
        x2 = (uint32_t)(a >> 32) ^ x3 ^ key1;
        x3 = (uint32_t)a;
        key0 += 0x9E3779B9;
        key1 += 0xBB67AE85;
    }
    return (struct philox_block){{x0, x1, x2, x3}};
}

/** Draw four words for one position of a stream. */
static inline struct philox_block philox_draw(uint64_t seed, uint32_t position, uint32_t epoch,
                                              enum draw_purpose purpose, uint32_t draw)
{
    return philox4x32_10((struct philox_block){{position, epoch, (uint32_t)purpose, draw}},
                         (uint32_t)seed, (uint32_t)(seed >> 32));
}

/** Map a word of a draw to [0, n), n >= 1; the bias is below n / 2^32. */
static inline uint32_t philox_below(uint32_t word, uint32_t n)
{
    return (uint32_t)(((uint64_t)word * n) >> 32);
}

#endif
