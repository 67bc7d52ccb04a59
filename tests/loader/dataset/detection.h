/* SPDX-License-Identifier: MIT */
/* detection.h - helpers for the Criterion tests of detection data sets. */
#ifndef TESTS_LOADER_DATASET_DETECTION_H
#define TESTS_LOADER_DATASET_DETECTION_H

#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "loader/dataset/dataset.h"

/* The value of one field. */
struct wanted_field {
    const char *key;
    char value[2000];
};

static inline void take_wanted(void *arg, const char *key, const void *value, size_t len,
                               bool exact)
{
    struct wanted_field *w = arg;

    (void)exact;
    if (strcmp(key, w->key) == 0)
        (void)snprintf(w->value, sizeof(w->value), "%.*s", (int)len, (const char *)value);
}

/** Check a field of a sample. */
static inline void has_field(const struct dataset *d, uint32_t sample, const char *key,
                             const char *value)
{
    struct wanted_field w = {.key = key, .value = "(none)"};
    struct plenum_error err = {""};

    cr_assert(eq(int, dataset_fields(d, sample, take_wanted, &w, &err), 0), "%s", err.text);
    cr_expect(eq(str, w.value, (char *)value), "sample %u", sample);
}

/** Check that a sample's fields cannot be read, and the message. */
static inline void has_bad_fields(const struct dataset *d, uint32_t sample, int code,
                                  const char *sentence)
{
    struct wanted_field w = {.key = ""};
    struct plenum_error err = {""};

    cr_expect(eq(int, dataset_fields(d, sample, take_wanted, &w, &err), code));
    cr_expect(ne(ptr, (void *)strstr(err.text, sentence), NULL), "'%s' lacks '%s'", err.text,
              sentence);
}

static inline int take_fault(void *arg, uint32_t sample, const char *sentence)
{
    char *all = arg;
    size_t at = strlen(all);

    (void)snprintf(all + at, 2000 - at, "%d: %s\n", (int)sample, sentence);
    return 0;
}

/** Check the faults that dataset_check() finds: lines of "SAMPLE: SENTENCE", or "-1: SENTENCE". */
static inline void has_faults(const struct dataset *d, const char *lines)
{
    struct plenum_error err = {""};
    char all[2000] = "";

    cr_expect(eq(int, dataset_check(d, take_fault, all, &err), 0), "%s", err.text);
    cr_expect(eq(str, all, (char *)lines));
}

#endif
