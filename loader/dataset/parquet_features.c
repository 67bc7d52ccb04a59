/* SPDX-License-Identifier: MIT */
/* parquet_features.c - reads the JSON under the key "huggingface":
 *
 *     {"info": {"features": {"image": {"_type": "Image"},
 *                            "label": {"names": ["cat", "dog"], "_type": "ClassLabel"}}}} */
#include "config.h"

#include "loader/dataset/parquet_features.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/class_list.h"
#include "loader/dataset/json_find.h"

static bool get_features(const struct parquet_file *file, struct json_at *ret)
{
    struct json_at all, info;

    return file->huggingface &&
           json_parse(file->huggingface, file->huggingface_len, &all, NULL) == 0 &&
           json_get(all, "info", &info) && json_get(info, "features", ret);
}

/* Returns whether the feature with this name has this type. */
static bool is_of_type(struct json_at features, const char *name, const char *type)
{
    struct json_at feature, found;

    return json_get(features, name, &feature) && json_get(feature, "_type", &found) &&
           json_is_text(found, type);
}

/* Returns whether this is the name of a column, or of a struct with a column as its member. */
static bool has_column(const struct parquet_file *file, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < file->num_columns; i++) {
        const char *rest = str_after(file->columns[i].name, name);

        if (rest && (*rest == '\0' || (*rest == '.' && !memchr(name, '.', len))))
            return true;
    }
    return false;
}

bool features_find(const struct parquet_file *file, const char *type, char *ret, size_t size)
{
    struct json_at features, rest, name, feature, found;
    unsigned count = 0;
    char text[256];

    if (!get_features(file, &features))
        return false;
    rest = json_begin_members(features);
    while (count < 2 && json_next_member(&rest, &name, &feature)) {
        if (!json_get(feature, "_type", &found) || !json_is_text(found, type) ||
            json_copy(name, NULL, NULL) >= sizeof(text))
            continue;
        text[json_copy(name, text, NULL)] = '\0';
        if (strlen(text) != json_copy(name, NULL, NULL) || !has_column(file, text))
            continue;
        (void)snprintf(ret, size, "%s", text);
        count++;
    }
    return count == 1;
}

MESSAGE static int bad_names(const char *column, const char *why, struct plenum_error *err)
{
    return error_set(err, -EBADMSG,
                     "the class names of column '%s', in the file's metadata 'huggingface', %s",
                     column, why);
}

/* Append a class name. */
static int add_name(struct json_at name, const char *column, struct feature_names *to,
                    struct plenum_error *err)
{
    size_t len;

    if (json_type(name) != JSON_AT_TEXT)
        return bad_names(column, "are not texts", err);
    len = json_copy(name, to->text + to->len, NULL);
    if (memchr(to->text + to->len, '\0', len))
        return bad_names(column, "contain zero bytes", err);
    to->len += len;
    to->text[to->len++] = '\0';
    if (++to->count > CLASS_LIST_MAX)
        return bad_names(column, "are too many", err);
    return 0;
}

int features_read_names(const struct parquet_file *file, const char *column,
                        struct feature_names *ret, struct plenum_error *err)
{
    struct json_at features, feature, list, rest, name;
    int r = 0;

    *ret = (struct feature_names){.text = NULL};
    if (!get_features(file, &features) || !is_of_type(features, column, "ClassLabel") ||
        !json_get(features, column, &feature) || !json_get(feature, "names", &list) ||
        json_type(list) != JSON_AT_LIST)
        return 0;
    /* A name has at most as many bytes as its spelling, without the quotes. */
    ret->text = malloc((size_t)(list.end - list.at) + 1);
    if (!ret->text)
        return error_set(err, -ENOMEM, "out of memory");
    rest = json_begin(list);
    while (r == 0 && json_next(&rest, &name))
        r = add_name(name, column, ret, err);
    if (r < 0) {
        free(ret->text);
        *ret = (struct feature_names){.text = NULL};
    }
    return r;
}
