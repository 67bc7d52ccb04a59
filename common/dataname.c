/* SPDX-License-Identifier: MIT */
/* dataname.c - a data set's name, which both the library and the loader must take apart: the
 * library to make its path absolute, the loader to open it. */
#include "config.h"

#include "common/dataname.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"

enum { FORMAT_MAX = 15 };

static const char lower[] = "abcdefghijklmnopqrstuvwxyz", word[] = "abcdefghijklmnopqrstuvwxyz-";

bool dataname_next_setting(const char **at, const char *end, const char **key, size_t *key_len,
                           const char **value, size_t *value_len)
{
    const char *p = *at;

    if (p >= end || *p != ',')
        return false;
    *key = p + 1;
    *key_len = strspn(*key, word);
    if (*key_len == 0 || (*key)[*key_len] != '=')
        return false;
    *value = *key + *key_len + 1;
    *value_len = strcspn(*value, ",:");
    *at = *value + *value_len;
    return *at <= end;
}

void dataname_split(const char *text, struct dataname *ret)
{
    size_t len = strspn(text, lower), key_len, value_len;
    const char *at = text + len, *end = text + strlen(text), *key, *value;

    *ret = (struct dataname){.where = text};
    if (len == 0 || len > FORMAT_MAX)
        return;
    while (dataname_next_setting(&at, end, &key, &key_len, &value, &value_len))
        ;
    if (*at != ':')
        return;
    *ret = (struct dataname){.format = text,
                             .format_len = len,
                             .settings = text + len,
                             .settings_len = (size_t)(at - text) - len,
                             .where = at + 1};
}

static bool is_format(const struct dataname *name, const char *format)
{
    return name->format_len == strlen(format) &&
           memcmp(name->format, format, name->format_len) == 0;
}

/* "generated:" is followed by a number, or by the name of a data set. */
static bool is_wrapped(const struct dataname *name)
{
    return name->format && is_format(name, "generated") &&
           name->where[strspn(name->where, "0123456789")] != '\0';
}

const char *dataname_path(const char *text)
{
    struct dataname name;

    dataname_split(text, &name);
    while (is_wrapped(&name))
        dataname_split(name.where, &name);
    return name.format && is_format(&name, "generated") ? NULL : name.where;
}

int dataname_make_absolute(const char *text, const char *folder, char *ret, size_t size,
                           struct plenum_error *err)
{
    const char *path = dataname_path(text);
    int n;

    if (!*text)
        return error_set(err, -EINVAL, "no data set is named");
    if (!path || *path == '/' || !*path)
        n = snprintf(ret, size, "%s", text);
    else
        n = snprintf(ret, size, "%.*s%s%s%s", (int)(path - text), text, folder,
                     strcmp(folder, "/") == 0 ? "" : "/", path);
    return n < 0 || (size_t)n >= size
               ? error_set(err, -EINVAL, "the data set's name is longer than %zu bytes", size - 1)
               : 0;
}

int dataname_make_part(const char *text, uint32_t part, uint32_t parts, char *ret, size_t size,
                       struct plenum_error *err)
{
    struct dataname name;
    const char *at, *key, *value;
    size_t key_len, value_len;
    int n;

    dataname_split(text, &name);
    at = name.settings;
    while (name.format &&
           dataname_next_setting(&at, name.where, &key, &key_len, &value, &value_len))
        if (key_len == 4 && memcmp(key, "part", 4) == 0)
            return error_set(err, -EINVAL, "data set '%s' is a part already", text);
    if (name.format)
        n = snprintf(ret, size, "%.*s,part=%u/%u:%s", (int)(name.where - 1 - text), text, part,
                     parts, name.where);
    else
        n = snprintf(ret, size, "auto,part=%u/%u:%s", part, parts, text);
    return n < 0 || (size_t)n >= size
               ? error_set(err, -EINVAL, "the data set's name is longer than %zu bytes", size - 1)
               : 0;
}
