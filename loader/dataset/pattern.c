/* pattern.c - braces are expanded one at a time, from the left: prefix {alternatives} suffix
 * becomes one pattern an alternative, which is expanded in turn. */
#include "config.h"

#include "loader/dataset/pattern.h"

#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/util.h"

enum { DEPTH_MAX = 32 }; /* of braces in one pattern */

void pattern_list_fini(struct pattern_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct pattern_list){0};
}

bool pattern_is_magic(const char *text)
{
    return strpbrk(text, "{*?[") != NULL;
}

/* What is being made, and in which folder. */
struct expansion {
    struct pattern_list list;
    const char *folder;
    struct plenum_error *err;
};

/* Takes `path`; NULL: memory was short. */
static int take_path(struct expansion *e, char *path)
{
    struct pattern_list *list = &e->list;

    if (path && list->count == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 64;
        char **grown = realloc(list->paths, cap * sizeof(*grown));

        if (grown) {
            list->paths = grown;
            list->cap = cap;
        }
    }
    if (!path || list->count == list->cap) {
        free(path);
        return error_set(e->err, -ENOMEM, "out of memory");
    }
    list->paths[list->count++] = path;
    return list->count <= PATTERN_PATHS_MAX
               ? 0
               : error_set(e->err, -E2BIG, "it stands for more than %d files", PATTERN_PATHS_MAX);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The folder and a pattern in it, for glob(): with what is special in the folder's name escaped. */
static char *escape(const char *folder, const char *pattern)
{
    char *text = malloc(2 * strlen(folder) + strlen(pattern) + 2), *to = text;

    for (const char *p = folder; text && *p; p++) {
        if (strchr("*?[\\", *p))
            *to++ = '\\';
        *to++ = *p;
    }
    if (text)
        (void)sprintf(to, "/%s", pattern);
    return text;
}

/* A pattern without braces. */
static int add_glob(struct expansion *e, const char *pattern)
{
    char *text;
    glob_t found;
    int r;

    if (!strpbrk(pattern, "*?["))
        return take_path(e, str_format("%s/%s", e->folder, pattern));
    text = escape(e->folder, pattern);
    r = text ? glob(text, GLOB_NOSORT | GLOB_ERR, NULL, &found) : GLOB_NOSPACE;
    free(text);
    if (r == GLOB_NOMATCH || (r == GLOB_ABORTED && (errno == ENOENT || errno == ENOTDIR)))
        return error_set(e->err, -ENOENT, "no file matches '%s'", pattern);
    if (r == GLOB_NOSPACE)
        return error_set(e->err, -ENOMEM, "out of memory");
    if (r != 0)
        return error_set(e->err, -EIO, "'%s': a folder cannot be read: %s", pattern,
                         strerror(errno));
    if (found.gl_pathc > 1)
        qsort(found.gl_pathv, found.gl_pathc, sizeof(char *), by_bytes);
    for (size_t i = 0; i < found.gl_pathc && r == 0; i++)
        r = take_path(e, strdup(found.gl_pathv[i]));
    globfree(&found);
    return r;
}

/* The brace that closes the one at `open`, or NULL; `commas`: are there any on its own level? */
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

struct range {
    int64_t first, last, step;
    int digits; /* 0: as many as the number has */
    bool letters;
};

/* A whole number of at most 18 digits at `*text`, which moves on. */
static bool take_number(const char **text, int64_t *value, int *digits)
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

/* "first..last" or "first..last..step", up to the closing brace. */
static bool take_range(const char *p, const char *close, struct range *ret)
{
    int a = 0, b = 0, s;
    bool zeros = *p == '0';

    *ret = (struct range){.step = 1};
    if (isalpha((unsigned char)p[0]) && p[1] == '.' && p[2] == '.' &&
        isalpha((unsigned char)p[3])) {
        ret->letters = true;
        ret->first = p[0];
        ret->last = p[3];
        p += 4;
    } else {
        if (!take_number(&p, &ret->first, &a) || p[0] != '.' || p[1] != '.')
            return false;
        p += 2;
        zeros = (zeros && a > 1) || (p[0] == '0' && isdigit((unsigned char)p[1]));
        if (!take_number(&p, &ret->last, &b))
            return false;
        ret->digits = !zeros ? 0 : a > b ? a : b;
    }
    if (p != close) {
        if (p[0] != '.' || p[1] != '.')
            return false;
        p += 2;
        if (!take_number(&p, &ret->step, &s) || p != close)
            return false;
    }
    return true;
}

static int expand(struct expansion *e, const char *pattern, unsigned depth);

/* The pattern with its braces replaced by one alternative. */
static int expand_with(struct expansion *e, const char *pattern, const char *open,
                       const char *close, const char *text, size_t len, unsigned depth)
{
    char *one = str_format("%.*s%.*s%s", (int)(open - pattern), pattern, (int)len, text, close + 1);
    int r = one ? expand(e, one, depth + 1) : error_set(e->err, -ENOMEM, "out of memory");

    free(one);
    return r;
}

static int expand_range(struct expansion *e, const char *pattern, const char *open,
                        const char *close, const struct range *range, unsigned depth)
{
    int64_t step = range->first <= range->last ? range->step : -range->step;
    uint64_t count, span = (uint64_t)(range->first <= range->last ? range->last - range->first
                                                                  : range->first - range->last);
    char text[32];
    int r = 0;

    if (range->step == 0)
        return error_set(e->err, -EINVAL, "'%.*s' has a step of 0", (int)(close + 1 - open), open);
    count = span / (uint64_t)range->step + 1;
    if (count > PATTERN_PATHS_MAX)
        return error_set(e->err, -E2BIG, "'%.*s' stands for more than %d files",
                         (int)(close + 1 - open), open, PATTERN_PATHS_MAX);
    for (uint64_t i = 0; i < count && r == 0; i++) {
        int64_t value = range->first + (int64_t)i * step;
        int len = range->letters
                      ? snprintf(text, sizeof(text), "%c", (int)value)
                      : snprintf(text, sizeof(text), "%0*lld", range->digits, (long long)value);

        r = expand_with(e, pattern, open, close, text, (size_t)len, depth);
    }
    return r;
}

static int expand_list(struct expansion *e, const char *pattern, const char *open,
                       const char *close, unsigned depth)
{
    const char *begin = open + 1;
    unsigned inner = 0;
    int r = 0;

    for (const char *p = begin; p <= close && r == 0; p++) {
        if (p == close || (*p == ',' && inner == 0)) {
            r = expand_with(e, pattern, open, close, begin, (size_t)(p - begin), depth);
            begin = p + 1;
        } else if (*p == '{') {
            inner++;
        } else if (*p == '}') {
            inner--;
        }
    }
    return r;
}

static int expand(struct expansion *e, const char *pattern, unsigned depth)
{
    if (depth > DEPTH_MAX)
        return error_set(e->err, -EINVAL, "it has more than %d pairs of braces", DEPTH_MAX);
    for (const char *open = strchr(pattern, '{'); open; open = strchr(open + 1, '{')) {
        struct range range;
        bool commas;
        const char *close = find_close(open, &commas);

        if (!close)
            break;
        if (commas)
            return expand_list(e, pattern, open, close, depth);
        if (take_range(open + 1, close, &range))
            return expand_range(e, pattern, open, close, &range, depth);
        /* Braces around something else are letters like others. */
    }
    return add_glob(e, pattern);
}

int pattern_expand(const char *folder, const char *pattern, struct pattern_list *ret,
                   struct plenum_error *err)
{
    struct expansion e = {.folder = folder, .err = err};
    char *exact = str_format("%s/%s", folder, pattern);
    int r;

    if (exact && access(exact, F_OK) == 0) {
        r = take_path(&e, exact);
    } else {
        free(exact);
        r = expand(&e, pattern, 0);
    }
    if (r < 0)
        pattern_list_fini(&e.list);
    else
        *ret = e.list;
    return r;
}
