/* SPDX-License-Identifier: MIT */
/* number.h - the one rule that says which texts are numbers. Labels of every format, and fields of
 * integers and floats, follow it. */
#ifndef LOADER_DATASET_NUMBER_H
#define LOADER_DATASET_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum number_kind {
    NUMBER_NONE,     /* it does not look like a number, so it can be a name */
    NUMBER_INTEGER,  /* an integer within int64, however it is spelled: 1, +1, 01, 1.0, 10e-1 */
    NUMBER_HUGE,     /* an integer beyond int64 */
    NUMBER_FRACTION, /* another decimal number: 1.5 */
    /* it looks like a number to people or programs: nan, 0x10, 1,000, ١, tensor(3), #3, 3L */
    NUMBER_ODD,
    NUMBER_MISSING, /* it is what programs write where there is no value: None, null, NA */
};

/**
 * Classify a text; blanks around it do not count. `*ret` is the value of a NUMBER_INTEGER, which is
 * computed from its digits, exactly. A decimal number has a sign or none, digits with a point or
 * none, and an exponent or none.
 */
enum number_kind number_parse(const char *text, size_t len, int64_t *ret);

/** Is it a decimal number (NUMBER_INTEGER, NUMBER_HUGE or NUMBER_FRACTION)? */
bool number_is_decimal(enum number_kind kind);

/**
 * The value of a decimal number as float32, rounded to nearest.
 *
 * 0; -EINVAL it is no decimal number; -ERANGE it is beyond the largest float32; -ENOMEM.
 */
int number_to_float(const char *text, size_t len, float *ret);

/** Is it one of "NaN", "Infinity" and "-Infinity", as JSON of Python spells them? */
bool number_is_special(const char *text, size_t len, float *ret);

/** Why a text that is not a NUMBER_INTEGER is no integer, to follow the text in a message. */
const char *number_why_no_integer(enum number_kind kind);

#endif
