/* SPDX-License-Identifier: MIT */
/* number.h - the only definition of a number in text. It applies to labels of every format, and to
 * fields of integers and floats. */
#ifndef LOADER_DATASET_NUMBER_H
#define LOADER_DATASET_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Returns whether it is a decimal digit of ASCII, in any locale. */
static inline bool number_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

enum number_kind {
    NUMBER_NONE,     /* does not look like a number, so it can be a name */
    NUMBER_INTEGER,  /* an integer within int64, however spelled: 1, +1, 01, 1.0, 10e-1 */
    NUMBER_HUGE,     /* an integer beyond int64 */
    NUMBER_FRACTION, /* another decimal number: 1.5 */
    /* looks like a number to people or programs: nan, 0x10, 1,000, ١, tensor(3), #3, 3L */
    NUMBER_ODD,
    NUMBER_MISSING, /* empty, or written by programs for a missing value: None, null, NA */
};

/**
 * Classify a string; blanks around it are ignored. `*ret` is the exact value of a NUMBER_INTEGER. A
 * decimal number has an optional sign, digits with an optional point, and an optional exponent.
 */
enum number_kind number_parse(const char *text, size_t len, int64_t *ret);

/** Returns whether it is a decimal number (NUMBER_INTEGER, NUMBER_HUGE or NUMBER_FRACTION). */
bool number_is_decimal(enum number_kind kind);

/**
 * The value of a decimal number as float32, rounded to nearest.
 *
 * 0; -EINVAL it is not a decimal number; -ERANGE it exceeds the largest float32; -ENOMEM.
 */
int number_to_float(const char *text, size_t len, float *ret);

/** Returns whether it is "NaN", "Infinity" or "-Infinity", as spelled by Python's json module. */
bool number_is_special(const char *text, size_t len, float *ret);

/** Print a float with this number of significant digits, and the others as Python's json module
 * spells them: NaN, Infinity and -Infinity. Returns the length. */
size_t number_print(double value, int digits, char *ret, size_t size);

/** Returns why a string of this kind is not a NUMBER_INTEGER, to follow the string in a message. */
const char *number_why_no_integer(enum number_kind kind);

#endif
