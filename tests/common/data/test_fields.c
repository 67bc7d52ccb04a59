/* SPDX-License-Identifier: MIT */
/* Tests which shapes are compatible with which kinds of fields. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/data/fields.h"
#include "common/util/util.h"

struct answer_case {
    char text[16]; /* the requested shape */
    uint32_t right[2];
    bool array; /* whether any numeric type is accepted */
    bool mask;
};

ParameterizedTestParameters(fields, kinds)
{
    static struct answer_case cases[] = {
        {"a:txt", .right = {PLENUM_FIELD_TEXT, PLENUM_FIELD_TEXT}},
        {"a:txt:text", .right = {PLENUM_FIELD_TEXT, PLENUM_FIELD_TEXT}},
        {"a:txt:line", .right = {PLENUM_FIELD_TEXT, PLENUM_FIELD_TEXT}},
        {"a:bin:bytes", .right = {PLENUM_FIELD_BYTES, PLENUM_FIELD_BYTES}},
        {"a:ids:int64", .right = {PLENUM_FIELD_INT64, PLENUM_FIELD_INT64}},
        {"a:ids:float32", .right = {PLENUM_FIELD_FLOAT32, PLENUM_FIELD_FLOAT32}},
        {"a:json:boxes", .right = {PLENUM_FIELD_BOXES, PLENUM_FIELD_BOXES}},
        {"a:k:keypoints", .right = {PLENUM_FIELD_KEYPOINTS, PLENUM_FIELD_KEYPOINTS}},
        {"a:k:instances", .right = {PLENUM_FIELD_INSTANCES, PLENUM_FIELD_INSTANCES}},
        {"a:png:mask", .right = {PLENUM_FIELD_UINT8, PLENUM_FIELD_UINT16}, .mask = true},
        {"a:npy:npy", .array = true},
    };
    return cr_make_param_array(struct answer_case, cases, ARRAY_LEN(cases));
}

/* A program that relies on the lengths of text, for example, never gets an array instead. */
ParameterizedTest(struct answer_case *c, fields, kinds)
{
    struct plenum_error err;
    struct fields fields;

    cr_assert(eq(int, fields_parse(c->text, &fields, &err), 0), "%s", err.text);
    for (uint32_t type = 0; type <= PLENUM_FIELD_TYPES; type++)
        for (uint32_t mask = 0; mask < 2; mask++) {
            struct field_shape shape = {.type = type, .mask = mask};
            bool right = c->array ? type > PLENUM_FIELD_BYTES && type < PLENUM_FIELD_BOXES
                                  : type == c->right[0] || type == c->right[1];

            if (mask && type != PLENUM_FIELD_UINT8 && type != PLENUM_FIELD_UINT16)
                continue; /* an impossible shape */
            cr_expect(
                eq(int, field_shape_is_as(&shape, fields.spec[0].as), right &&mask == c->mask),
                "%s: type %u, mask %u", c->text, type, mask);
        }
}
