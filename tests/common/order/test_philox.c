/* SPDX-License-Identifier: MIT */
/* These are the published known answers: Random123 1.14, examples/kat_vectors, "philox4x32 10". */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/philox.h"
#include "common/util/util.h"

Test(philox, known_answers)
{
    static const struct {
        struct philox_block counter;
        uint32_t key[2];
        struct philox_block want;
    } cases[] = {
        {{{0, 0, 0, 0}}, {0, 0}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
        {{{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}},
         {0xffffffff, 0xffffffff},
         {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
        {{{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
         {0xa4093822, 0x299f31d0},
         {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct philox_block got = philox4x32_10(cases[i].counter, cases[i].key[0], cases[i].key[1]);

        for (int w = 0; w < 4; w++)
            cr_expect(eq(u32, got.word[w], cases[i].want.word[w]), "case %zu, word %d", i, w);
    }
}

Test(philox, a_draw_is_one_philox_block)
{
    struct philox_block want =
        philox4x32_10((struct philox_block){{7, 3, DRAW_CROP, 1}}, 0x89abcdef, 0x01234567);
    struct philox_block got = philox_draw(0x0123456789abcdef, 7, 3, DRAW_CROP, 1);

    for (int w = 0; w < 4; w++)
        cr_expect(eq(u32, got.word[w], want.word[w]));
}

Test(philox, below_covers_its_range_and_no_more)
{
    cr_expect(eq(u32, philox_below(0, 10), 0));
    cr_expect(eq(u32, philox_below(UINT32_MAX, 10), 9));
    cr_expect(eq(u32, philox_below(UINT32_MAX, 1), 0));
    cr_expect(eq(u32, philox_below(UINT32_MAX, UINT32_MAX), UINT32_MAX - 1));
}
