/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util.h"

Test(util, an_array_grows_and_keeps_what_it_has)
{
    uint32_t *numbers = NULL;
    size_t cap = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        cr_assert(eq(int, array_grow(&numbers, &cap, i, sizeof(*numbers)), 0));
        cr_assert(gt(sz, cap, i));
        numbers[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        cr_assert(eq(u32, numbers[i], i));
    cr_expect(lt(sz, cap, 2048), "it has not grown more than was needed");
    free(numbers);
}

Test(util, an_array_that_cannot_grow_is_as_it_was)
{
    size_t half = SIZE_MAX / 2, cap = half;
    char byte, *bytes = &byte;

    cr_expect(eq(int, array_grow(&bytes, &cap, half, 8), -ENOMEM));
    cr_expect(eq(ptr, bytes, &byte));
    cr_expect(eq(sz, cap, half));
}
