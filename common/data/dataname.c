/* SPDX-License-Identifier: MIT */
/* dataname.c - parses data set names for both the library, which makes their paths absolute, and
 * the loader, which opens them. */
#include "config.h"

#include "common/data/dataname.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum { FORMAT_MAX = 15 };

static const char lower[] = "abcdefghijklmnopqrstuvwxyz", word[] = "abcdefghijklmnopqrstuvwxyz-";

/* Returns the length up to the comma or colon that ends a value; escaped ones belong to the
 * value. */
static size_t value_length(const char *value)
{
    size_t len = 0;

    while (value[len] && value[len] != ',' && value[len] != ':')
        len += value[len] == '\\' && value[len + 1] ? 2 : 1;
    return len;
}

char *dataname_value(const char *value, size_t len)
{
    char *plain = malloc(len + 1);
    size_t at = 0;

    for (size_t i = 0; plain && i < len; i++) {
        i += value[i] == '\\' && i + 1 < len;
        plain[at++] = value[i];
    }
    if (plain)
        plain[at] = '\0';
    return plain;
}

char *dataname_quote(const char *value)
{
    char *quoted = malloc(2 * strlen(value) + 1), *to = quoted;

    for (; quoted && *value; value++) {
        if (*value == ',' || *value == ':' || *value == '\\')
            *to++ = '\\';
        *to++ = *value;
    }
    if (quoted)
        *to = '\0';
    return quoted;
}

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
    *value_len = value_length(*value);
    *at = *value + *value_len;
    return *at <= end;
}

static const char *const schemes[] = {[DATANAME_S3] = "s3://",
                                      [DATANAME_HTTPS] = "https://",
                                      [DATANAME_HTTP] = "http://",
                                      [DATANAME_HF] = "hf://"};

const char *dataname_scheme(enum dataname_scheme scheme)
{
    assert((size_t)scheme < ARRAY_LEN(schemes));
    return schemes[scheme];
}

const char *dataname_after_scheme(const char *text, enum dataname_scheme *ret)
{
    for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
        if (strncasecmp(text, schemes[i], strlen(schemes[i])) == 0) {
            *ret = (enum dataname_scheme)i;
            return text + strlen(schemes[i]);
        }
    return NULL;
}

bool dataname_is_remote(const char *text)
{
    enum dataname_scheme scheme;

    return dataname_after_scheme(text, &scheme) != NULL;
}

void dataname_split(const char *text, struct dataname *ret)
{
    size_t len = strspn(text, lower), key_len, value_len;
    const char *at = text + len, *end = text + strlen(text), *key, *value;

    *ret = (struct dataname){.where = text};
    if (len == 0 || len > FORMAT_MAX || dataname_is_remote(text))
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

/* Returns whether another data set's name follows "generated:", instead of a number. */
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

/* A string that is being written into a buffer of `size` bytes. */
struct made {
    char *text;
    size_t at, size;
};

static void add(struct made *m, const char *text, size_t len)
{
    if (len < m->size && m->at < m->size - len) {
        memcpy(m->text + m->at, text, len);
        m->text[m->at + len] = '\0';
    }
    m->at += len; /* a length above `size` means that it is too long */
}

static bool is_class_path(const struct dataname *name, const char *key, size_t key_len)
{
    return key_len == 7 && memcmp(key, "classes", 7) == 0 && !is_format(name, "generated");
}

static bool is_relative_class_path(const char *value, size_t len)
{
    return len > 0 && *value != '/' && !(len == 7 && memcmp(value, "numbers", 7) == 0);
}

/* Copy format and settings of a name, up to its colon, making the path in "classes=" absolute. */
static int add_settings(struct made *m, const struct dataname *name, const char *folder)
{
    const char *at = name->settings, *end = name->settings + name->settings_len, *key, *value;
    char *quoted = dataname_quote(folder);
    size_t key_len, value_len;

    if (!quoted)
        return -ENOMEM;
    add(m, name->format, name->format_len);
    while (dataname_next_setting(&at, end, &key, &key_len, &value, &value_len)) {
        add(m, key - 1, key_len + 2);
        if (is_class_path(name, key, key_len) && is_relative_class_path(value, value_len)) {
            add(m, quoted, strlen(quoted));
            add(m, "/", strcmp(folder, "/") != 0);
        }
        add(m, value, value_len);
    }
    add(m, ":", 1);
    free(quoted);
    return 0;
}

bool dataname_is_absolute(const char *text)
{
    const char *at, *key, *value;
    size_t key_len, value_len;
    struct dataname name;

    for (dataname_split(text, &name);; dataname_split(name.where, &name)) {
        at = name.settings;
        while (name.format && dataname_next_setting(&at, name.settings + name.settings_len, &key,
                                                    &key_len, &value, &value_len))
            if (is_class_path(&name, key, key_len) && is_relative_class_path(value, value_len))
                return false;
        if (!is_wrapped(&name))
            break;
    }
    return (name.format && is_format(&name, "generated")) || *name.where == '/' ||
           dataname_is_remote(name.where);
}

/* Does a string begin with the scheme of a URL? */
static bool is_url(const char *text)
{
    size_t len = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-");

    return len > 0 && strncmp(text + len, "://", 3) == 0;
}

int dataname_refuse_url(const char *text, struct plenum_error *err)
{
    const char *path = dataname_path(text);

    if (is_url(text)) /* the part before its colon may look like a format */
        path = text;
    if (strncmp(text, "pipe:", 5) == 0 || (path && strncmp(path, "pipe:", 5) == 0))
        return error_set(err, -EINVAL,
                         "data set '%s': Plenum does not run commands (pipe:) to read data: store "
                         "the data in files first",
                         text);
    if (path && strncmp(path, "file://", 7) == 0)
        return error_set(err, -EINVAL, "data set '%s': give only the path, without file://", text);
    if (path && strncmp(path, "gs://", 5) == 0)
        return error_set(err, -EINVAL,
                         "data set '%s': use s3:// for a bucket of Google Cloud Storage, with "
                         "AWS_ENDPOINT_URL=https://storage.googleapis.com and an HMAC key",
                         text);
    if (path && is_url(path) && !dataname_is_remote(path))
        return error_set(err, -EINVAL,
                         "data set '%s': Plenum reads files, s3:// and https://, but no other "
                         "URLs: mount the storage as a file system, or copy the data to a disk",
                         text);
    return 0;
}

int dataname_make_absolute(const char *text, const char *folder, char *ret, size_t size,
                           struct plenum_error *err)
{
    struct made made = {.text = ret, .size = size};
    struct dataname name;
    bool wrapped = true;
    int r = 0;

    if (!*text)
        return error_set(err, -EINVAL, "no data set was given");
    if (dataname_refuse_url(text, err) < 0)
        return -EINVAL;
    for (const char *rest = text; wrapped && r == 0; rest = name.where) {
        dataname_split(rest, &name);
        wrapped = is_wrapped(&name);
        if (name.format)
            r = add_settings(&made, &name, folder);
    }
    if (r < 0)
        return error_set(err, r, "out of memory");
    if (!(name.format && is_format(&name, "generated")) && *name.where && *name.where != '/' &&
        !dataname_is_remote(name.where)) {
        add(&made, folder, strlen(folder));
        add(&made, "/", strcmp(folder, "/") != 0);
    }
    add(&made, name.where, strlen(name.where));
    return made.at >= size
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
            return error_set(err, -EINVAL, "data set '%s' already has the setting part=", text);
    if (name.format)
        n = snprintf(ret, size, "%.*s,part=%u/%u:%s", (int)(name.where - 1 - text), text, part,
                     parts, name.where);
    else
        n = snprintf(ret, size, "auto,part=%u/%u:%s", part, parts, text);
    return n < 0 || (size_t)n >= size
               ? error_set(err, -EINVAL, "the data set's name is longer than %zu bytes", size - 1)
               : 0;
}
