/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/relabel.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/message.h"
#include "common/util/text.h"
#include "loader/dataset/class_list.h"
#include "loader/dataset/format.h"
#include "loader/dataset/number.h"

enum { CLASS_NAME_MAX = 1024 };

struct relabel {
    int64_t *to;         /* [old]: the new class of each old one, or -1 */
    uint32_t old;        /* classes of the data set */
    char **names;        /* [old]: the new name of each old class in the file, or NULL */
    const char **unique; /* [classes] names of the new classes, in byte order; NULL: numbers */
    uint32_t classes;
};

/* The state of reading the file. */
struct relabelling {
    const struct dataset *dataset;
    const char *path;
    struct relabel *relabel;
    uint32_t *sorted; /* [old]: class numbers, by their names */
    unsigned line;
    unsigned name_line, number_line; /* the first lines whose new class is a name, or a number */
    struct plenum_error *err;
};

MESSAGE_FORMAT(2, 3)
static int fail(const struct relabelling *r, const char *format, ...)
{
    char text[sizeof(r->err->text)];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return error_set(r->err, -EINVAL, "%s, line %u: %s", r->path, r->line, text);
}

static int by_class_name(const void *a, const void *b, void *arg)
{
    const uint32_t *x = a, *y = b;

    return strcmp(dataset_get_class_name(arg, *x), dataset_get_class_name(arg, *y));
}

static int sort_classes(struct relabelling *r)
{
    uint32_t n = r->relabel->old;

    r->sorted = malloc((n + (size_t)1) * sizeof(*r->sorted));
    if (!r->sorted)
        return error_set(r->err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        r->sorted[i] = i;
    qsort_r(r->sorted, n, sizeof(*r->sorted), by_class_name, (void *)(uintptr_t)r->dataset);
    return 0;
}

/* Returns the number of the class that a line names, or UINT32_MAX. */
static uint32_t find_class(const struct relabelling *r, const char *name)
{
    uint32_t low = 0, high = r->relabel->old;
    uint64_t number;

    if (dataset_get_class_names(r->dataset) == 0)
        return parse_u64(name, UINT32_MAX, &number) == 0 && number < high ? (uint32_t)number
                                                                          : UINT32_MAX;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (strcmp(dataset_get_class_name(r->dataset, r->sorted[middle]), name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->relabel->old &&
                   strcmp(dataset_get_class_name(r->dataset, r->sorted[low]), name) == 0
               ? r->sorted[low]
               : UINT32_MAX;
}

/* Remove whitespace at both ends. */
static char *trim(char *text)
{
    size_t len;

    text += strspn(text, " \t\r\n");
    len = strlen(text);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        text[--len] = '\0';
    return text;
}

/* Split a line into CLASS, a tab or a comma, and NEW. */
static int split_line(const struct relabelling *r, char **from, char **to)
{
    *to = strchr(*from, '\t');
    if (!*to) {
        *to = strchr(*from, ',');
        if (*to && strchr(*to + 1, ','))
            return fail(r, "it has several commas: put a tab between a class and its new class");
    }
    if (*to)
        *(*to)++ = '\0';
    *from = trim(*from);
    *to = *to ? trim(*to) : NULL;
    if (!**from || !*to || !**to)
        return fail(r, "a class, a tab or a comma, and its new class are needed");
    if (strchr(*to, '\t'))
        return fail(r, "it has several tabs");
    if (strlen(*to) >= CLASS_NAME_MAX)
        return fail(r, "the new class's name has more than %d bytes", CLASS_NAME_MAX - 1);
    return 0;
}

/* Check that a new class is a name or the number of a class, like the labels of a data set. */
static int check_new_class(struct relabelling *r, const char *to)
{
    int64_t number;
    enum number_kind kind = number_parse(to, strlen(to), &number);

    if (number_is_decimal(kind) &&
        (kind != NUMBER_INTEGER || number < 0 || number >= CLASS_LIST_MAX))
        return fail(r, "the new class '%.200s' is not a class number from 0 to %d", to,
                    CLASS_LIST_MAX - 1);
    if (kind == NUMBER_INTEGER && r->number_line == 0)
        r->number_line = r->line;
    else if (kind != NUMBER_INTEGER && r->name_line == 0)
        r->name_line = r->line;
    if (r->name_line == 0 || r->number_line == 0)
        return 0;
    return fail(r,
                "'%.200s' is a %s, unlike the new class on line %u: all must be names, or all "
                "class numbers",
                to, kind == NUMBER_INTEGER ? "number" : "name",
                kind == NUMBER_INTEGER ? r->name_line : r->number_line);
}

static int take_line(struct relabelling *r, char *line)
{
    char *from = trim(line), *to, **name;
    uint32_t class;
    int code;

    if (!*from || *from == '#')
        return 0;
    code = split_line(r, &from, &to);
    if (code == 0)
        code = check_new_class(r, to);
    if (code < 0)
        return code;
    class = find_class(r, from);
    if (class == UINT32_MAX)
        return fail(r, "%s has no class '%.200s'", dataset_get_name(r->dataset), from);
    name = &r->relabel->names[class];
    if (*name)
        return fail(r, "class '%.200s' is named twice", from);
    *name = strdup(to);
    return *name ? 0 : error_set(r->err, -ENOMEM, "out of memory");
}

static int read_lines(struct relabelling *r, FILE *file)
{
    char *line = NULL;
    size_t cap = 0;
    int got = 1;

    while (got > 0 && (got = text_read_line(file, r->path, &line, &cap, r->err)) > 0) {
        int taken;

        r->line++;
        taken = take_line(r, line);
        got = taken < 0 ? taken : got;
    }
    free(line);
    return got;
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcmp(*x, *y);
}

/* Use the new classes, which are numbers. */
static void take_numbers(struct relabel *m)
{
    for (uint32_t i = 0; i < m->old; i++) {
        int64_t number;

        if (!m->names[i])
            continue;
        (void)number_parse(m->names[i], strlen(m->names[i]), &number);
        m->to[i] = number;
        m->classes = number >= m->classes ? (uint32_t)number + 1 : m->classes;
    }
}

/* Number the new names in byte order. */
static int take_names(struct relabel *m)
{
    uint32_t n = 0;

    m->unique = calloc(m->old + (size_t)1, sizeof(*m->unique));
    if (!m->unique)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->old; i++)
        if (m->names[i])
            m->unique[n++] = m->names[i];
    qsort(m->unique, n, sizeof(*m->unique), by_text);
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || strcmp(m->unique[i], m->unique[m->classes - 1]) != 0)
            m->unique[m->classes++] = m->unique[i];
    for (uint32_t i = 0; i < m->old; i++) {
        const char **at =
            m->names[i] ? bsearch(&m->names[i], m->unique, m->classes, sizeof(*m->unique), by_text)
                        : NULL;

        m->to[i] = at ? at - m->unique : -1;
    }
    return 0;
}

static int read_file(struct relabelling *r)
{
    const struct scope *scope = &r->dataset->scope;
    struct relabel *m = r->relabel;
    int fd = scope_open(scope, r->path, 0), code;
    FILE *file;

    if (fd < 0)
        return scope_error(scope, r->err, fd, r->path);
    file = fdopen(fd, "r");
    if (!file) {
        (void)close(fd);
        return error_set(r->err, -ENOMEM, "out of memory");
    }
    code = sort_classes(r);
    if (code == 0)
        code = read_lines(r, file);
    (void)fclose(file);
    if (code < 0)
        return code;
    if (relabel_left_out(m) == m->old)
        return error_set(r->err, -EINVAL, "%s names no class of %s", r->path,
                         dataset_get_name(r->dataset));
    if (r->name_line == 0)
        take_numbers(m);
    else if (take_names(m) < 0)
        return error_set(r->err, -ENOMEM, "out of memory");
    return 0;
}

int relabel_open(const struct dataset *dataset, const char *path, struct relabel **ret,
                 struct plenum_error *err)
{
    struct relabel *m = calloc(1, sizeof(*m));
    struct relabelling r = {.dataset = dataset, .path = path, .relabel = m, .err = err};
    int code = -ENOMEM;

    if (!m)
        return error_set(err, -ENOMEM, "out of memory");
    m->old = dataset_get_classes(dataset);
    m->to = malloc((m->old + (size_t)1) * sizeof(*m->to));
    m->names = calloc(m->old + (size_t)1, sizeof(*m->names));
    for (uint32_t i = 0; m->to && i < m->old; i++)
        m->to[i] = -1;
    if (m->to && m->names)
        code = read_file(&r);
    else
        (void)error_set(err, code, "out of memory");
    free(r.sorted);
    if (code < 0) {
        relabel_close(m);
        return code;
    }
    assert(m->classes > 0);
    *ret = m;
    return 0;
}

void relabel_close(struct relabel *relabel)
{
    if (!relabel)
        return;
    for (uint32_t i = 0; relabel->names && i < relabel->old; i++)
        free(relabel->names[i]);
    free(relabel->names);
    free(relabel->unique);
    free(relabel->to);
    free(relabel);
}

uint32_t relabel_left_out(const struct relabel *relabel)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < relabel->old; i++)
        count += relabel->names[i] == NULL;
    return count;
}

int64_t relabel_get_label(const struct relabel *relabel, const struct dataset *dataset,
                          uint32_t sample)
{
    int64_t label = dataset_get_label(dataset, sample);

    if (!relabel)
        return label;
    return label >= 0 && label < relabel->old ? relabel->to[label] : -1;
}

uint32_t relabel_get_classes(const struct relabel *relabel, const struct dataset *dataset)
{
    return relabel ? relabel->classes : dataset_get_classes(dataset);
}

uint32_t relabel_get_class_names(const struct relabel *relabel, const struct dataset *dataset)
{
    if (!relabel)
        return dataset_get_class_names(dataset);
    return relabel->unique ? relabel->classes : 0;
}

const char *relabel_get_class_name(const struct relabel *relabel, const struct dataset *dataset,
                                   uint32_t label)
{
    if (!relabel)
        return dataset_get_class_name(dataset, label);
    return relabel->unique && label < relabel->classes ? relabel->unique[label] : "";
}

uint64_t relabel_hash(const struct relabel *relabel)
{
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, relabel->to, relabel->old * sizeof(*relabel->to));
    for (uint32_t i = 0; relabel->unique && i < relabel->classes; i++)
        (void)XXH3_64bits_update(&state, relabel->unique[i], strlen(relabel->unique[i]) + 1);
    return XXH3_64bits_digest(&state);
}
