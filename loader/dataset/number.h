/* SPDX-License-Identifier: MIT */
/* number.h - defines what counts as a number in text: for labels of every format, and for fields of
 * integers and floats. */
#ifndef LOADER_DATASET_NUMBER_H
#define LOADER_DATASET_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Returns whether `c` is an ASCII decimal digit, whatever the locale. */
static inline bool number_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

enum number_kind {
    NUMBER_NONE,     /* does not look like a number, so it can be a name */
    NUMBER_INTEGER,  /* an integer within int64, in any spelling: 1, +1, 01, 1.0, 10e-1 */
    NUMBER_HUGE,     /* an integer beyond int64 */
    NUMBER_FRACTION, /* another decimal number: 1.5 */
    /* something that people or programs may take for a number: nan, 0x10, 1,000, ١, tensor(3), #3,
     * 3L */
    NUMBER_ODD,
    NUMBER_MISSING, /* empty, or written by programs for a missing value: None, null, NA */
};

/**
 * Classify a string; whitespace around it is ignored. `*ret` is the exact value of a
 * NUMBER_INTEGER. A decimal number has an optional sign, digits with an optional point, and an
 * optional exponent.
 */
enum number_kind number_parse(const char *text, size_t len, int64_t *ret);

/** Returns whether text of this kind is a decimal number (NUMBER_INTEGER, NUMBER_HUGE or
 * NUMBER_FRACTION). */
bool number_is_decimal(enum number_kind kind);

/**
 * Convert a decimal number to the nearest float32.
 *
 * Returns 0; -EINVAL if it is not a decimal number; -ERANGE if it exceeds the largest float32; or
 * -ENOMEM.
 */
int number_to_float(const char *text, size_t len, float *ret);

/** Returns whether the text is "NaN", "Infinity" or "-Infinity", as Python's json module spells
 * them. */
bool number_is_special(const char *text, size_t len, float *ret);

/** Print a finite number with this number of significant digits, and others as Python's json module
 * does: NaN, Infinity or -Infinity. Returns the length. */
size_t number_print(double value, int digits, char *ret, size_t size);

/** Returns why a string of this kind is not a NUMBER_INTEGER, to follow the string in a message. */
const char *number_why_no_integer(enum number_kind kind);

#endif
