/* SPDX-License-Identifier: MIT */
/* name.c - parses the name of a data set: FORMAT[,KEY=VALUE...]:WHERE, or a plain path. */
#include "config.h"

#include "loader/dataset/dataset_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/data/dataname.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/remote.h"

static int by_key(const void *a, const void *b)
{
    const struct dataset_setting *x = a, *y = b;

    return strcmp(x->key, y->key);
}

/* Parse the settings, all of which the format must have, and sort them by key. */
static int parse_settings(struct dataset *d, const struct dataname *name, struct plenum_error *err)
{
    const char *at = name->settings, *key, *value;
    size_t key_len, value_len;

    while (name->format && dataname_next_setting(&at, name->settings + name->settings_len, &key,
                                                 &key_len, &value, &value_len)) {
        struct dataset_setting *s = &d->settings[d->num_settings];
        const struct format *f = d->format;
        bool known = false;

        for (unsigned i = 0; i < f->num_settings; i++)
            known = known || (strlen(f->settings[i].key) == key_len &&
                              memcmp(f->settings[i].key, key, key_len) == 0);
        if (!known) {
            char list[256] = "";

            for (unsigned i = 0; i < f->num_settings; i++)
                (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                               i ? ", " : "", f->settings[i].key);
            return error_set(err, -EINVAL, "%s: there is no setting '%.*s'; its settings: %s",
                             f->name, (int)key_len, key, list[0] ? list : "none");
        }
        for (unsigned i = 0; i < d->num_settings; i++)
            if (strlen(d->settings[i].key) == key_len &&
                memcmp(d->settings[i].key, key, key_len) == 0)
                return error_set(err, -EINVAL, "setting '%s' is given twice", d->settings[i].key);
        s->key = strndup(key, key_len);
        s->value = dataname_value(value, value_len);
        d->num_settings++; /* there is room: settings are unique, and the format has each of them */
        if (!s->key || !s->value)
            return error_set(err, -ENOMEM, "out of memory");
    }
    qsort(d->settings, d->num_settings, sizeof(d->settings[0]), by_key);
    d->no_images = strcmp(dataset_setting(d, "image", ""), "none") == 0;
    return 0;
}

const char *dataset_setting(const struct dataset *dataset, const char *key, const char *absent)
{
    for (unsigned i = 0; i < dataset->num_settings; i++)
        if (strcmp(dataset->settings[i].key, key) == 0)
            return dataset->settings[i].value;
    return absent;
}

int dataset_refuse_classes(const struct dataset *dataset, struct plenum_error *err)
{
    return dataset_setting(dataset, "classes", NULL)
               ? error_set(err, -EINVAL,
                           "%s,classes=...: there are no labels that could be classes (label= says "
                           "where labels are)",
                           dataset->format->name)
               : 0;
}

int name_read_labels(struct dataset *d, struct plenum_error *err)
{
    const char *value = dataset_setting(d, "classes", NULL);
    int r = dataset_setting_number(d, "label-offset", 0, &d->labels.offset, err);

    if (r < 0 || !value)
        return r;
    r = class_list_open(&d->scope, value, &d->classes, err);
    if (r < 0)
        return r;
    d->labels.classes = d->classes;
    for (unsigned i = 0; d->classes->path && i < d->num_settings; i++)
        /* The canonical name contains the path without links. */
        if (d->settings[i].value == value) {
            char *path = strdup(d->classes->path);

            if (!path)
                return error_set(err, -ENOMEM, "out of memory");
            free(d->settings[i].value);
            d->settings[i].value = path;
            break;
        }
    return 0;
}

int dataset_check_image_setting(const struct dataset *dataset, struct plenum_error *err)
{
    const char *image = dataset_setting(dataset, "image", "none");

    return strcmp(image, "none") == 0
               ? 0
               : error_set(err, -EINVAL, "%s,image=%s: only image=none is possible",
                           dataset->format->name, image);
}

int dataset_check_image_extension(const struct dataset *dataset, struct plenum_error *err)
{
    const char *image = dataset_setting(dataset, "image", NULL);
    char name[64];

    if (!image)
        return 0;
    (void)snprintf(name, sizeof(name), ".%s", image);
    return strlen(image) < sizeof(name) - 1 && dataset_is_image_name(name)
               ? 0
               : error_set(err, -EINVAL,
                           "%s,image=%s: '%s' is not an image extension; use one of %s",
                           dataset->format->name, image, image, dataset_image_names());
}

int dataset_setting_number(const struct dataset *dataset, const char *key, int64_t absent,
                           int64_t *ret, struct plenum_error *err)
{
    const char *text = dataset_setting(dataset, key, NULL);
    uint64_t value;

    *ret = absent;
    if (!text)
        return 0;
    if (parse_u64(text + (*text == '-'), UINT64_C(1) << 31, &value) < 0)
        return error_set(err, -EINVAL, "%s=%s: a whole number is needed", key, text);
    *ret = *text == '-' ? -(int64_t)value : (int64_t)value;
    return 0;
}

/* Check, before anything else, that the path is below a root, or would be if it existed. A client
 * must not learn whether a path outside the roots exists. */
int name_check_scope(const struct scope *p, const char *name, struct plenum_error *err)
{
    const char *path = dataname_path(name);
    struct stat st;

    if (!path || !*path || p->num_roots == 0 || dataname_is_remote(path) ||
        scope_stat(p, path, &st) != -EXDEV)
        return 0;
    return scope_error(p, err, -EXDEV, path);
}

int dataset_enter(struct dataset *d, const char *path, struct plenum_error *err)
{
    int r = scope_enter(&d->scope, *path ? path : ".");

    if (r == -EXDEV)
        return scope_error(&d->scope, err, r, path);
    return r < 0
               ? error_set(err, r, "data set '%s:%s': %s", d->format->name, d->where, strerror(-r))
               : 0;
}

char *name_canonical(const struct dataset *d)
{
    char *name = strdup(d->format->name), *whole;

    for (unsigned i = 0; name && i < d->num_settings; i++) {
        char *value = dataname_quote(d->settings[i].value), *more = NULL;

        if (value)
            more = str_format("%s,%s=%s", name, d->settings[i].key, value);
        free(value);
        free(name);
        name = more;
    }
    whole = name ? str_format("%s:%s", name, d->where) : NULL;
    free(name);
    return whole;
}

/* Find the format at the beginning of the name. */
static int parse_format(struct dataset *d, const struct dataname *parts, struct plenum_error *err)
{
    char list[256];

    d->format = format_find(parts->format, parts->format_len);
    if (d->format && d->format->scan && !d->format->remote && dataname_is_remote(parts->where))
        return error_set(err, -EINVAL,
                         "%s: reads only files; in an object store, use archives, list: or mds:",
                         d->format->name);
    if (d->format && *parts->where)
        return 0;
    if (d->format)
        return error_set(err, -ENOENT, "nothing follows the colon");
    format_names(list, sizeof(list));
    return error_set(err, -EINVAL, "there is no format '%.*s:'; the formats are %s",
                     (int)parts->format_len, parts->format, list);
}

/* Parse a name. "auto:" introduces a plain path with settings. */
int name_parse(struct dataset *d, const char *name, struct plenum_error *err)
{
    struct dataname parts;
    struct stat st;
    bool plain;
    int r;

    dataname_split(name, &parts);
    plain = !parts.format || (parts.format_len == 4 && memcmp(parts.format, "auto", 4) == 0);
    if (!plain && !format_find(parts.format, parts.format_len) &&
        scope_stat(&d->scope, name, &st) == 0) {
        parts = (struct dataname){.where = name}; /* a file whose name contains a colon */
        plain = true;
    }
    r = plain && parts.where == name && scope_stat(&d->scope, name, &st) == 0
            ? 0
            : dataname_refuse_url(name, err);
    if (r < 0)
        return r;
    if (!plain)
        r = parse_format(d, &parts, err);
    else if (dataname_is_remote(parts.where))
        r = format_recognise_remote(parts.where, &d->format, err);
    else
        r = format_recognise(&d->scope, parts.where, &d->format, err);
    if (r >= 0 && plain && d->format == &format_folder)
        detection_hint_folder(d, parts.where);
    if (r >= 0 && parts.settings_len >= 4096)
        r = error_set(err, -EINVAL, "its settings are too long");
    if (r < 0)
        return error_prefix(err, r, "data set '%s'", name);
    d->where = strdup(parts.where);
    if (!d->where)
        return error_set(err, -ENOMEM, "out of memory");
    return parse_settings(d, &parts, err);
}
