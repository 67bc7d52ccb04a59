/* SPDX-License-Identifier: MIT */
/* opened.h - helpers for the Criterion tests of several formats. Each test has its own `tree`. */
#ifndef TESTS_LOADER_DATASET_OPENED_H
#define TESTS_LOADER_DATASET_OPENED_H

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/philox.h"
#include "loader/dataset/dataset.h"
#include "tests/tree.h"

static inline struct dataset *opened(const char *name)
{
    struct dataset *d = NULL;
    struct plenum_error err;

    cr_assert(eq(int, dataset_open(name, NULL, &d, &err), 0), "%s", err.text);
    return d;
}

static inline void refused(const char *name, int code, const char *sentence)
{
    struct dataset *d = NULL;
    struct plenum_error err = {""};

    cr_expect(eq(int, dataset_open(name, NULL, &d, &err), code), "%s: %s", name, err.text);
    cr_expect(ne(ptr, (void *)strstr(err.text, sentence), NULL), "'%s' lacks '%s'", err.text,
              sentence);
    cr_expect(eq(ptr, d, NULL));
}

/** Check that building an index obeys the memory limit and can be cancelled. */
static inline void is_bounded(const char *name)
{
    atomic_bool cancel = true;
    struct dataset_options small = {.rebuild = true, .memory = 2000},
                           called_off = {.rebuild = true, .cancel = &cancel},
                           large = {.rebuild = true, .memory = 1 << 30};
    struct plenum_error err = {""};
    struct dataset *d = NULL;

    cr_expect(eq(int, dataset_open(name, &small, &d, &err), -ENOMEM), "%s", err.text);
    cr_expect(ne(ptr, (void *)strstr(err.text, "more than 2.0 KiB of memory"), NULL), "%s",
              err.text);
    cr_expect(eq(int, dataset_open(name, &called_off, &d, &err), -ECANCELED), "%s", err.text);
    cr_assert(eq(int, dataset_open(name, &large, &d, &err), 0), "%s", err.text);
    dataset_unref(d);
}

/** Like opened(), for a file in the test's folder; `format` precedes its path in the name. */
static inline struct dataset *opened_in(const struct tree *tree, const char *format,
                                        const char *name)
{
    char text[1400];

    (void)snprintf(text, sizeof(text), "%s%s", format, tree_path(tree, name));
    return opened(text);
}

static inline void refused_in(const struct tree *tree, const char *format, const char *name,
                              int code, const char *sentence)
{
    char text[1400];

    (void)snprintf(text, sizeof(text), "%s%s", format, tree_path(tree, name));
    refused(text, code, sentence);
}

/** Make a file or folder look unchanged for an hour. */
static inline void make_old_in(const struct tree *tree, const char *name)
{
    struct timespec hour_ago[2];

    (void)clock_gettime(CLOCK_REALTIME, &hour_ago[0]);
    hour_ago[0].tv_sec -= 3600;
    hour_ago[1] = hour_ago[0];
    cr_assert(eq(int, utimensat(AT_FDCWD, tree_path(tree, name), hour_ago, 0), 0));
}

/** Copy a file like a transfer in text mode: each LF becomes CR LF, or each CR LF becomes LF. */
static inline void copy_as_text(const struct tree *tree, const char *from, const char *to,
                                bool adds)
{
    FILE *in = fopen(tree_path(tree, from), "rb"), *out = fopen(tree_path(tree, to), "wb");

    cr_assert(in && out);
    for (int c, next; (c = getc(in)) != EOF;) {
        if (adds && c == '\n')
            (void)putc('\r', out);
        next = adds || c != '\r' ? EOF : getc(in);
        if (next != EOF)
            (void)ungetc(next, in);
        if (next != '\n')
            (void)putc(c, out);
    }
    (void)fclose(in);
    cr_assert(eq(int, fclose(out), 0));
}

/** Fill `bytes` [len] with random bytes, like those of compressed images. */
static inline void fill_random(uint8_t *bytes, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++)
        bytes[i] = (uint8_t)philox_draw(seed, (uint32_t)i, 0, DRAW_SEED, 0).word[0];
}

#endif
