/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/class_list.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/data/stand_in.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/number.h"
#include "loader/dataset/skipped.h"

enum { FILE_MAX = 32 << 20 };

static int out_of_memory(struct plenum_error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

static size_t line_length(const char *line, const char *end)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));

    assert(line <= end);
    return (size_t)((newline ? newline : end) - line);
}

int class_names_of_text(char *text, size_t len, uint32_t most, const char ***names, uint32_t *count)
{
    char *end = text + len;
    size_t lines = 1;

    if (memchr(text, '\0', len))
        return -EBADMSG;
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    while (end > text && strchr(" \t\r\n", end[-1]))
        *--end = '\0';
    for (const char *at = text; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        lines++;
    if (text == end)
        lines = 0;
    if (lines > most)
        return -E2BIG;
    *names = malloc((lines + 1) * sizeof(**names));
    if (!*names)
        return -ENOMEM;
    *count = 0;
    for (char *line = text; *count < lines;) {
        size_t n = line_length(line, end);
        char *next = line + n + 1;

        line[n] = '\0';
        while (n > 0 && strchr(" \t\r", line[n - 1]))
            line[--n] = '\0';
        (*names)[(*count)++] = line;
        line = next;
    }
    return 0;
}

/* ---- a file ---- */

static int read_file(int fd, const struct stat *st, struct class_list *list,
                     struct plenum_error *err)
{
    size_t len = (size_t)st->st_size;
    int r;

    if (!S_ISREG(st->st_mode) || st->st_size > FILE_MAX)
        return error_set(err, -EBADMSG,
                         "classes=%s: it is neither a list of class names, one per line, nor a "
                         "folder",
                         list->path);
    list->text = malloc(len + 1);
    if (!list->text)
        return out_of_memory(err);
    list->text[len] = '\0';
    r = io_pread_all(fd, list->text, len, 0);
    if (r < 0)
        return error_set(err, r, "classes=%s: %s", list->path,
                         r == -ENODATA ? "it has become shorter" : strerror(-r));
    if (stand_in_refuse(list->text, len, -EBADMSG, err) < 0)
        return error_prefix(err, -EBADMSG, "classes=%s", list->path);
    r = class_names_of_text(list->text, len, CLASS_LIST_MAX, &list->names, &list->count);
    if (r == -EBADMSG)
        return error_set(err, r, "classes=%s: it contains zero bytes, so it is not a list of names",
                         list->path);
    return r == -E2BIG ? error_set(err, -EBADMSG, "classes=%s: it names more than %d classes",
                                   list->path, CLASS_LIST_MAX)
           : r < 0     ? out_of_memory(err)
                       : 0;
}

/* ---- a folder ---- */

struct found_classes {
    char **names;
    size_t count, cap;
};

static int add_folder(struct found_classes *found, const char *name)
{
    if (array_grow(&found->names, &found->cap, found->count, sizeof(*found->names)) < 0)
        return -ENOMEM;
    found->names[found->count] = strdup(name);
    return found->names[found->count++] ? 0 : -ENOMEM;
}

static int list_folders(const struct scope *scope, DIR *dir, const char *path,
                        struct found_classes *found, struct plenum_error *err)
{
    const struct dirent *entry;
    struct stat st;

    while (errno = 0, entry = readdir(dir)) {
        int r = dataset_skips_name(entry->d_name)
                    ? 1
                    : scope_stat_entry(scope, dirfd(dir), path, entry->d_name, &st);

        if (r < 0 && r != -ENOENT) {
            char name[SCOPE_NAME_MAX];

            (void)snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
            return scope_error(scope, err, r, name);
        }
        if (r != 0 || !S_ISDIR(st.st_mode))
            continue;
        if (found->count == CLASS_LIST_MAX)
            return error_set(err, -EBADMSG, "classes=%s: it has more than %d folders", path,
                             CLASS_LIST_MAX);
        if (add_folder(found, entry->d_name) < 0)
            return out_of_memory(err);
    }
    return errno ? scope_error(scope, err, -errno, path) : 0;
}

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Copy the names, in byte order, into one block. */
static int take_names(struct found_classes *found, struct class_list *list)
{
    size_t bytes = 1, at = 0;

    qsort(found->names, found->count, sizeof(*found->names), compare_texts);
    for (size_t i = 0; i < found->count; i++)
        bytes += strlen(found->names[i]) + 1;
    list->text = malloc(bytes);
    list->names = malloc((found->count + 1) * sizeof(*list->names));
    if (!list->text || !list->names)
        return -ENOMEM;
    for (size_t i = 0; i < found->count; i++) {
        size_t len = strlen(found->names[i]) + 1;

        list->names[i] = memcpy(list->text + at, found->names[i], len);
        at += len;
    }
    assert(at + 1 == bytes && found->count <= CLASS_LIST_MAX);
    list->count = (uint32_t)found->count;
    return 0;
}

static int read_folder(const struct scope *scope, struct class_list *list, struct plenum_error *err)
{
    struct found_classes found = {0};
    DIR *dir;
    int r = scope_open_folder(scope, list->path, &dir);

    if (r < 0)
        return scope_error(scope, err, r, list->path);
    r = list_folders(scope, dir, list->path, &found, err);
    (void)closedir(dir);
    if (r == 0 && found.count > 0)
        r = take_names(&found, list) < 0 ? out_of_memory(err) : 0;
    for (size_t i = 0; i < found.count; i++)
        free(found.names[i]);
    free(found.names);
    return r;
}

/* ---- files and folders ---- */

static int compare_numbers(const void *a, const void *b, void *arg)
{
    const struct class_list *list = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(list->names[x], list->names[y]);

    return order ? order : (x > y) - (x < y);
}

static int compare_values(const void *a, const void *b)
{
    const struct class_numeral *x = a, *y = b;

    return x->value != y->value ? (x->value > y->value) - (x->value < y->value)
                                : (x->class > y->class) - (x->class < y->class);
}

/* Find the names that are numbers. */
static int find_numerals(struct class_list *list)
{
    list->numerals = malloc((list->count + 1) * sizeof(*list->numerals));
    if (!list->numerals)
        return -ENOMEM;
    for (uint32_t i = 0; i < list->count; i++) {
        const char *name = list->names[i];
        int64_t value;
        enum number_kind kind = number_parse(name, strlen(name), &value);

        list->has_numerals = list->has_numerals || number_is_decimal(kind);
        if (kind == NUMBER_INTEGER)
            list->numerals[list->num_numerals++] = (struct class_numeral){value, i};
    }
    assert(list->num_numerals <= list->count);
    qsort(list->numerals, list->num_numerals, sizeof(*list->numerals), compare_values);
    return 0;
}

static int sort_names(struct class_list *list, struct plenum_error *err)
{
    XXH3_state_t state;

    list->sorted = malloc((list->count + 1) * sizeof(*list->sorted));
    if (!list->sorted || find_numerals(list) < 0)
        return out_of_memory(err);
    (void)XXH3_64bits_reset(&state);
    for (uint32_t i = 0; i < list->count; i++) {
        const char *name = list->names[i];

        list->sorted[i] = i;
        (void)XXH3_64bits_update(&state, name, strlen(name) + 1);
    }
    list->hash = XXH3_64bits_digest(&state);
    qsort_r(list->sorted, list->count, sizeof(*list->sorted), compare_numbers, list);
    for (uint32_t i = 1; i < list->count; i++) {
        uint32_t first = list->sorted[i - 1], second = list->sorted[i];

        if (*list->names[first] && strcmp(list->names[first], list->names[second]) == 0)
            return error_set(err, -EBADMSG,
                             "classes=%s: '%.100s' appears twice, in lines %u and %u", list->path,
                             list->names[first], first + 1, second + 1);
    }
    return 0;
}

static int read_names(const struct scope *scope, struct class_list *list, struct plenum_error *err)
{
    struct stat st;
    int fd = scope_open(scope, list->path, 0), r;

    if (fd < 0)
        return scope_error(scope, err, fd, list->path);
    if (fstat(fd, &st) < 0)
        r = scope_error(scope, err, -errno, list->path);
    else
        r = S_ISDIR(st.st_mode) ? read_folder(scope, list, err) : read_file(fd, &st, list, err);
    io_close(&fd);
    if (r == 0 && list->count == 0)
        r = error_set(err, -EBADMSG,
                      "classes=%s names no class: it must be a file with one class name per line, "
                      "or a folder with one sub-folder per class",
                      list->path);
    return r < 0 ? r : sort_names(list, err);
}

int class_list_open(const struct scope *scope, const char *value, struct class_list **ret,
                    struct plenum_error *err)
{
    struct class_list *list = calloc(1, sizeof(*list));
    int r;

    if (!list)
        return out_of_memory(err);
    list->numbers = strcmp(value, "numbers") == 0;
    if (!list->numbers) {
        r = scope_resolve(scope, value, &list->path);
        if (r < 0) {
            r = scope_error(scope, err, r, value);
            goto fail;
        }
        r = read_names(scope, list, err);
        if (r < 0)
            goto fail;
    }
    *ret = list;
    return 0;

fail:
    class_list_destroy(list);
    return r;
}

void class_list_destroy(struct class_list *list)
{
    if (!list)
        return;
    free(list->path);
    free(list->text);
    free(list->names);
    free(list->sorted);
    free(list->numerals);
    free(list);
}

int64_t class_list_find(const struct class_list *list, const char *name, size_t len)
{
    size_t low = 0, high = list->count;

    while (len > 0 && low < high) {
        size_t middle = low + (high - low) / 2;
        const char *have = list->names[list->sorted[middle]];
        int order = strncmp(name, have, len);

        if (order == 0 && have[len] == '\0')
            return list->sorted[middle];
        if (order > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

size_t class_list_find_value(const struct class_list *list, int64_t value,
                             const struct class_numeral **ret)
{
    size_t low = 0, high = list->num_numerals, count = 0;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (list->numerals[middle].value < value)
            low = middle + 1;
        else
            high = middle;
    }
    *ret = list->numerals + low;
    while (low + count < list->num_numerals && list->numerals[low + count].value == value)
        count++;
    return count;
}
