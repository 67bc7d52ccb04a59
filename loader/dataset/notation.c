/* notation.c - many files by one name, as shells and WebDataset write it.
 *
 * Braces are spelled out by recursion: the first group is replaced by each of its choices, and the
 * rest of the text goes on from there. That doubles as the bound of memory: every result is counted
 * before the next is made. */
#include "config.h"

#include "loader/dataset/notation.h"

#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/util.h"

enum { DEPTH_MAX = 16, TEXT_MAX = 8192, DIGITS_MAX = 18 };

void notation_paths_fini(struct notation_paths *paths)
{
    for (uint32_t i = 0; i < paths->count; i++)
        free(paths->paths[i]);
    free(paths->paths);
    *paths = (struct notation_paths){0};
}

static int add_path(struct notation_paths *p, const char *path, size_t len)
{
    char *copy;

    if (p->count == p->cap) {
        uint32_t cap = p->cap ? p->cap * 2 : 64;
        char **paths = realloc(p->paths, cap * sizeof(*paths));

        if (!paths)
            return -ENOMEM;
        p->paths = paths;
        p->cap = cap;
    }
    copy = strndup(path, len);
    if (!copy)
        return -ENOMEM;
    p->paths[p->count++] = copy;
    return 0;
}

/* The end of a group whose '{' is at `open`: its '}' , or NULL. `*commas`: on its own level. */
static const char *group_end(const char *open, unsigned *commas)
{
    unsigned depth = 0;

    *commas = 0;
    for (const char *p = open; *p; p++) {
        if (*p == '{')
            depth++;
        else if (*p == '}' && --depth == 0)
            return p;
        else if (*p == ',' && depth == 1)
            ++*commas;
    }
    return NULL;
}

struct range {
    int64_t first, last, step;
    int width; /* of the digits, zeros in front; 0: as many as there are */
};

static bool take_number(const char **at, int64_t *value, int *digits, bool *padded)
{
    const char *p = *at;
    bool negative = *p == '-';

    p += negative;
    *digits = (int)strspn(p, "0123456789");
    if (*digits == 0 || *digits > DIGITS_MAX)
        return false;
    *padded = *p == '0' && *digits > 1;
    *value = strtoll(*at, NULL, 10);
    *digits += negative;
    *at = p + *digits - negative;
    return true;
}

/* "first..last" or "first..last..step", up to `end`. */
static bool parse_range(const char *at, const char *end, struct range *ret)
{
    int a, b, ignored;
    bool zero_a, zero_b, zero;

    *ret = (struct range){.step = 1};
    if (!take_number(&at, &ret->first, &a, &zero_a) || strncmp(at, "..", 2) != 0)
        return false;
    at += 2;
    if (!take_number(&at, &ret->last, &b, &zero_b))
        return false;
    if (strncmp(at, "..", 2) == 0) {
        at += 2;
        if (!take_number(&at, &ret->step, &ignored, &zero) || ret->step == 0)
            return false;
        if (ret->step < 0)
            ret->step = -ret->step;
    }
    if (zero_a || zero_b)
        ret->width = a > b ? a : b;
    return at == end;
}

static int expand(const char *text, const char *from, unsigned depth, struct notation_paths *ret,
                  struct plenum_error *err);

/* One choice of a group in place of it, and on with what follows. */
static int choose(const char *text, const char *open, const char *choice, size_t len,
                  const char *close, bool nested, unsigned depth, struct notation_paths *ret,
                  struct plenum_error *err)
{
    char made[TEXT_MAX];
    size_t before = (size_t)(open - text);
    int n =
        snprintf(made, sizeof(made), "%.*s%.*s%s", (int)before, text, (int)len, choice, close + 1);

    if (n < 0 || (size_t)n >= sizeof(made))
        return error_set(err, -EINVAL, "'%.100s...' is too long", text);
    return expand(made, made + before + (nested ? 0 : len), depth + 1, ret, err);
}

static int expand_range(const char *text, const char *open, const char *close,
                        const struct range *range, unsigned depth, struct notation_paths *ret,
                        struct plenum_error *err)
{
    bool up = range->first <= range->last;
    int r = 0;

    for (int64_t i = range->first; r == 0 && (up ? i <= range->last : i >= range->last);
         i += up ? range->step : -range->step) {
        char number[32];
        int n = snprintf(number, sizeof(number), "%0*lld", range->width, (long long)i);

        r = choose(text, open, number, (size_t)n, close, false, depth, ret, err);
    }
    return r;
}

static int expand_list(const char *text, const char *open, const char *close, unsigned depth,
                       struct notation_paths *ret, struct plenum_error *err)
{
    const char *choice = open + 1;
    unsigned level = 0;
    int r = 0;

    for (const char *p = open + 1; r == 0 && p <= close; p++) {
        if (level == 0 && (*p == ',' || p == close)) {
            r = choose(text, open, choice, (size_t)(p - choice), close, true, depth, ret, err);
            choice = p + 1;
        }
        level += *p == '{';
        level -= *p == '}' && level > 0;
    }
    return r;
}

/* All that `text` stands for, when what lies before `from` is done. */
static int expand(const char *text, const char *from, unsigned depth, struct notation_paths *ret,
                  struct plenum_error *err)
{
    const char *open = strchr(from, '{'), *close;
    struct range range;
    unsigned commas;
    int r;

    if (!open) {
        if (ret->count >= NOTATION_MAX)
            return error_set(err, -EINVAL, "a name stands for more than %d files", NOTATION_MAX);
        r = add_path(ret, text, strlen(text));
        return r < 0 ? error_set(err, r, "out of memory") : 0;
    }
    if (depth > DEPTH_MAX)
        return error_set(err, -EINVAL, "'%.200s' holds more than %d braces", text, DEPTH_MAX);
    close = group_end(open, &commas);
    if (!close)
        return error_set(err, -EINVAL, "a '}' is missing, in '%.300s'", text);
    if (parse_range(open + 1, close, &range))
        return expand_range(text, open, close, &range, depth, ret, err);
    if (commas > 0)
        return expand_list(text, open, close, depth, ret, err);
    return expand(text, open + 1, depth, ret, err); /* neither: a brace like any letter */
}

int notation_braces(const char *text, struct notation_paths *ret, struct plenum_error *err)
{
    int r = expand(text, text, 0, ret, err);

    if (r < 0)
        notation_paths_fini(ret);
    return r;
}

bool notation_is_glob(const char *text)
{
    return strpbrk(text, "*?[") != NULL;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_glob(const char *pattern, struct notation_paths *ret, struct plenum_error *err)
{
    glob_t found = {0};
    int code = glob(pattern, GLOB_NOSORT | GLOB_ERR, NULL, &found), r = 0;

    if (code == GLOB_NOMATCH)
        return error_set(err, -ENOENT, "no file matches '%s'", pattern);
    if (code != 0)
        return error_set(err, code == GLOB_NOSPACE ? -ENOMEM : -EIO, "'%s': %s", pattern,
                         code == GLOB_NOSPACE ? "out of memory" : "a folder cannot be read");
    /* Byte order, not the locale's: the same on every host. */
    qsort(found.gl_pathv, found.gl_pathc, sizeof(found.gl_pathv[0]), by_bytes);
    if (ret->count + found.gl_pathc > NOTATION_MAX)
        r = error_set(err, -EINVAL, "a name stands for more than %d files", NOTATION_MAX);
    for (size_t i = 0; r == 0 && i < found.gl_pathc; i++)
        if (add_path(ret, found.gl_pathv[i], strlen(found.gl_pathv[i])) < 0)
            r = error_set(err, -ENOMEM, "out of memory");
    globfree(&found);
    return r;
}

/* A file that is named twice would be shown twice an epoch: most likely a slip. */
static int check_twice(const struct notation_paths *p, struct plenum_error *err)
{
    char **sorted = malloc((p->count + !p->count) * sizeof(*sorted));
    int r = 0;

    if (!sorted)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < p->count; i++)
        sorted[i] = p->paths[i];
    qsort(sorted, p->count, sizeof(*sorted), by_bytes);
    for (uint32_t i = 1; i < p->count && r == 0; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            r = error_set(err, -EINVAL, "%s is named twice", sorted[i]);
    free(sorted);
    return r;
}

int notation_expand(const char *text, struct notation_paths *ret, struct plenum_error *err)
{
    struct notation_paths spelled = {0}, made = {0};
    int r = 0;

    if (access(text, F_OK) == 0) {
        r = add_path(ret, text, strlen(text));
        return r < 0 ? error_set(err, r, "out of memory") : 0;
    }
    r = notation_braces(text, &spelled, err);
    for (uint32_t i = 0; r == 0 && i < spelled.count; i++) {
        const char *path = spelled.paths[i];

        if (notation_is_glob(path))
            r = add_glob(path, &made, err);
        else if (add_path(&made, path, strlen(path)) < 0)
            r = error_set(err, -ENOMEM, "out of memory");
    }
    if (r == 0)
        r = check_twice(&made, err);
    notation_paths_fini(&spelled);
    if (r < 0)
        notation_paths_fini(&made);
    else
        *ret = made;
    return r;
}
