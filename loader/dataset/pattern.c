/* SPDX-License-Identifier: MIT */
/* pattern.c - expands patterns. Braces are expanded one pair at a time, from the left: prefix
 * {alternatives} suffix becomes one pattern per alternative, and each of these is expanded in
 * turn. */
#include "config.h"

#include "loader/dataset/pattern.h"

#include <assert.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/scope.h"

enum { DEPTH_MAX = 32 }; /* levels of braces in one pattern */

void pattern_list_fini(struct pattern_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct pattern_list){0};
}

int pattern_list_add(struct pattern_list *list, char *path)
{
    if (!path || array_grow(&list->paths, &list->cap, list->count, sizeof(*list->paths)) < 0) {
        free(path);
        return -ENOMEM;
    }
    list->paths[list->count++] = path;
    return 0;
}

bool pattern_is_magic(const char *text)
{
    return strpbrk(text, "{*?[") != NULL;
}

/* The paths so far, and the folder that the pattern is relative to. */
struct pattern_expansion {
    const struct scope *scope;
    struct pattern_list list;
    const char *folder;
    pattern_glob *glob; /* NULL: match files of the scope */
    void *arg;
    struct plenum_error *err;
};

/* Add a path, and take ownership of it. NULL means that there was no memory for it. */
static int add_path(struct pattern_expansion *e, char *path)
{
    if (pattern_list_add(&e->list, path) < 0)
        return error_set(e->err, -ENOMEM, "out of memory");
    return e->list.count <= PATTERN_PATHS_MAX
               ? 0
               : error_set(e->err, -E2BIG, "it matches more than %d files", PATTERN_PATHS_MAX);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_matches(struct pattern_expansion *e, const char *folder, const char *pattern);

/* Add a matching entry, or the matches of the rest of the pattern in it. */
static int add_entry(struct pattern_expansion *e, const char *folder, const char *name,
                     const char *rest)
{
    char *path = str_format("%s/%s", folder, name);
    int r;

    if (!path || !*rest)
        return add_path(e, path);
    r = add_matches(e, path, rest);
    free(path);
    return r;
}

/* Match the first part [len] of a pattern against the entries of a folder, and the rest within
 * these. */
static int match_entries(struct pattern_expansion *e, const char *folder, const char *pattern,
                         size_t len)
{
    const char *rest = pattern + len + strspn(pattern + len, "/");
    char *part = strndup(pattern, len), *exact = str_format("%s/%.*s", folder, (int)len, pattern);
    struct dirent *entry;
    struct stat st;
    DIR *dir;
    int r;

    assert(len > 0);
    /* A file with this exact name: its brackets are literal. */
    if (part && exact && scope_stat(e->scope, exact, &st) == 0) {
        r = add_entry(e, folder, part, rest);
        free(exact);
        free(part);
        return r;
    }
    free(exact);
    r = part ? scope_open_folder(e->scope, *folder ? folder : "/", &dir) : -ENOMEM;

    if (r < 0) {
        free(part);
        return r == -ENOENT || r == -ENOTDIR ? 0 : scope_error(e->scope, e->err, r, folder);
    }
    while (errno = 0, entry = readdir(dir)) {
        if (fnmatch(part, entry->d_name, FNM_PERIOD) != 0 || strcmp(entry->d_name, ".") == 0 ||
            strcmp(entry->d_name, "..") == 0)
            continue;
        r = add_entry(e, folder, entry->d_name, rest);
        if (r < 0)
            goto out;
    }
    if (errno)
        r = scope_error(e->scope, e->err, -errno, folder);

out:
    (void)closedir(dir);
    free(part);
    return r;
}

/* Add the matches, in a folder, of a pattern without braces. */
static int add_matches(struct pattern_expansion *e, const char *folder, const char *pattern)
{
    size_t plain = strcspn(pattern, "*?["); /* up to the first of these characters */
    struct stat st;
    char *path;
    int r;

    if (!pattern[plain]) {
        path = str_format("%s/%s", folder, pattern);
        r = path ? scope_stat(e->scope, path, &st) : -ENOMEM;
        if (r == 0 || !path)
            return add_path(e, path);
        if (r == -EXDEV)
            (void)scope_error(e->scope, e->err, r, path);
        free(path);
        return r == -EXDEV ? -EACCES : 0;
    }
    while (plain > 0 && pattern[plain - 1] != '/')
        plain--;
    pattern += plain;
    path = plain ? str_format("%s/%.*s", folder, (int)plain - 1, pattern - plain) : strdup(folder);
    r = path ? match_entries(e, path, pattern, strcspn(pattern, "/"))
             : error_set(e->err, -ENOMEM, "out of memory");
    free(path);
    return r;
}

/* Expand a pattern without braces. */
static int add_glob(struct pattern_expansion *e, const char *pattern)
{
    size_t before = e->list.count;
    char *name;
    int r;

    if (!strpbrk(pattern, "*?["))
        return add_path(e, str_format("%s/%s", e->folder, pattern));
    if (e->glob) {
        name = str_format("%s/%s", e->folder, pattern);
        r = name ? e->glob(e->arg, name, &e->list, e->err)
                 : error_set(e->err, -ENOMEM, "out of memory");
        free(name);
        return r;
    }
    r = add_matches(e, e->folder, pattern);
    if (r == 0 && e->list.count == before)
        return error_set(e->err, -ENOENT, "no file matches '%s'", pattern);
    if (e->list.count > before)
        qsort(e->list.paths + before, e->list.count - before, sizeof(char *), by_bytes);
    return r;
}

/* Returns the brace that closes the one at `open`, or NULL. Sets `*commas` if there are commas at
 * its level. */
static const char *find_close(const char *open, bool *commas)
{
    unsigned depth = 0;

    *commas = false;
    for (const char *p = open; *p; p++) {
        if (*p == '{')
            depth++;
        else if (*p == '}' && --depth == 0)
            return p;
        else if (*p == ',' && depth == 1)
            *commas = true;
    }
    return NULL;
}

struct pattern_range {
    int64_t first, last, step;
    int digits; /* 0: no padding */
    bool letters;
};

/* Parse an integer of at most 18 digits at `*text`, which is advanced. */
static bool parse_number(const char **text, int64_t *value, int *digits)
{
    const char *p = *text;

    *value = 0;
    while (isdigit((unsigned char)*p) && p - *text < 18)
        *value = *value * 10 + (*p++ - '0');
    *digits = (int)(p - *text);
    if (isdigit((unsigned char)*p) || p == *text)
        return false;
    *text = p;
    return true;
}

/* Parse "first..last" or "first..last..step", up to the closing brace. */
static bool parse_range(const char *p, const char *close, struct pattern_range *ret)
{
    int a = 0, b = 0, s;
    bool zeros = *p == '0';

    *ret = (struct pattern_range){.step = 1};
    if (isalpha((unsigned char)p[0]) && p[1] == '.' && p[2] == '.' &&
        isalpha((unsigned char)p[3])) {
        ret->letters = true;
        ret->first = (unsigned char)p[0];
        ret->last = (unsigned char)p[3];
        p += 4;
    } else {
        if (!parse_number(&p, &ret->first, &a) || p[0] != '.' || p[1] != '.')
            return false;
        p += 2;
        zeros = (zeros && a > 1) || (p[0] == '0' && isdigit((unsigned char)p[1]));
        if (!parse_number(&p, &ret->last, &b))
            return false;
        ret->digits = !zeros ? 0 : a > b ? a : b;
    }
    if (p != close) {
        if (p[0] != '.' || p[1] != '.')
            return false;
        p += 2;
        if (!parse_number(&p, &ret->step, &s) || p != close)
            return false;
    }
    return true;
}

/* The first pair of braces of a pattern that is to be expanded. */
struct pattern_braces {
    const char *pattern, *open, *close;
    unsigned depth; /* pairs that have been expanded before */
};

static int expand(struct pattern_expansion *e, const char *pattern, unsigned depth);

/* Expand a pattern whose braces are replaced by one alternative. */
static int expand_with(struct pattern_expansion *e, const struct pattern_braces *b,
                       const char *text, size_t len)
{
    char *one = str_format("%.*s%.*s%s", (int)(b->open - b->pattern), b->pattern, (int)len, text,
                           b->close + 1);
    int r = one ? expand(e, one, b->depth + 1) : error_set(e->err, -ENOMEM, "out of memory");

    free(one);
    return r;
}

static int expand_range(struct pattern_expansion *e, const struct pattern_braces *b,
                        const struct pattern_range *range)
{
    int64_t step = range->first <= range->last ? range->step : -range->step;
    uint64_t count, span = (uint64_t)(range->first <= range->last ? range->last - range->first
                                                                  : range->first - range->last);
    char text[32];
    int r = 0;

    if (range->step == 0)
        return error_set(e->err, -EINVAL, "'%.*s' has a step of 0", (int)(b->close + 1 - b->open),
                         b->open);
    count = span / (uint64_t)range->step + 1;
    if (count > PATTERN_PATHS_MAX)
        return error_set(e->err, -E2BIG, "'%.*s' matches more than %d files",
                         (int)(b->close + 1 - b->open), b->open, PATTERN_PATHS_MAX);
    for (uint64_t i = 0; i < count; i++) {
        int64_t value = range->first + (int64_t)i * step;
        int len = range->letters
                      ? snprintf(text, sizeof(text), "%c", (int)value)
                      : snprintf(text, sizeof(text), "%0*lld", range->digits, (long long)value);

        r = expand_with(e, b, text, (size_t)len);
        if (r < 0)
            return r;
    }
    return 0;
}

static int expand_list(struct pattern_expansion *e, const struct pattern_braces *b)
{
    const char *begin = b->open + 1;
    unsigned inner = 0;
    int r = 0;

    for (const char *p = begin; p <= b->close; p++) {
        if (p == b->close || (*p == ',' && inner == 0)) {
            r = expand_with(e, b, begin, (size_t)(p - begin));
            if (r < 0)
                return r;
            begin = p + 1;
        } else if (*p == '{') {
            inner++;
        } else if (*p == '}') {
            inner--;
        }
    }
    assert(inner == 0); /* find_close() */
    return 0;
}

static int expand(struct pattern_expansion *e, const char *pattern, unsigned depth)
{
    if (depth > DEPTH_MAX)
        return error_set(e->err, -EINVAL, "it has more than %d pairs of braces", DEPTH_MAX);
    for (const char *open = strchr(pattern, '{'); open; open = strchr(open + 1, '{')) {
        struct pattern_range range;
        bool commas;
        struct pattern_braces b = {pattern, open, find_close(open, &commas), depth};

        if (!b.close)
            break;
        if (commas)
            return expand_list(e, &b);
        if (parse_range(open + 1, b.close, &range))
            return expand_range(e, &b, &range);
        /* Other braces are literal. */
    }
    return add_glob(e, pattern);
}

/* Returns whether there is a ".." in or after an expanded part. Its target would depend on the
 * files found. */
static bool turns_back(const char *pattern)
{
    for (const char *p = pattern + strcspn(pattern, "{*?["); (p = strstr(p, "..")); p += 2) {
        assert(p > pattern);                             /* after the first of these characters */
        if (strchr("/{,", p[-1]) && strchr("/},", p[2])) /* or the end */
            return true;
    }
    return false;
}

int pattern_expand_names(const char *folder, const char *pattern, pattern_glob *glob, void *arg,
                         struct pattern_list *ret, struct plenum_error *err)
{
    struct pattern_expansion e = {.folder = folder, .glob = glob, .arg = arg, .err = err};
    int r;

    assert(glob); /* without `glob`, files are searched, which takes a scope */
    r = expand(&e, pattern, 0);
    if (r < 0)
        pattern_list_fini(&e.list);
    else
        *ret = e.list;
    return r;
}

int pattern_expand(const struct scope *scope, const char *folder, const char *pattern,
                   struct pattern_list *ret, struct plenum_error *err)
{
    struct pattern_expansion e = {.scope = scope, .folder = folder, .err = err};
    char *exact = str_format("%s/%s", folder, pattern);
    struct stat st;
    int r;

    if (exact && scope_stat(scope, exact, &st) == 0) {
        r = add_path(&e, exact);
    } else {
        free(exact);
        r = turns_back(pattern) ? error_set(err, -EINVAL,
                                            "'%s': '..' cannot follow a part with '*', '?', '[' "
                                            "or '{'",
                                            pattern)
                                : expand(&e, pattern, 0);
    }
    if (r < 0)
        pattern_list_fini(&e.list);
    else
        *ret = e.list;
    return r;
}
