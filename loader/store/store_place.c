/* SPDX-License-Identifier: MIT */
/* store_place.c - parses names of remote objects.
 *
 * A name is compared with the prefixes that an operator allows, so each object must have exactly
 * one canonical name, and nothing may be decoded after the comparison. */
#include "config.h"

#include "loader/store/store_place.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/store/hugging_face.h"

size_t place_root_length(const char *text)
{
    enum dataname_scheme scheme;
    const char *host = dataname_after_scheme(text, &scheme),
               *slash = host ? strchr(host, '/') : NULL;

    return slash ? (size_t)(slash + 1 - text) : 0;
}

static int parse_bucket(const char *at, size_t len, struct store_place *p, struct plenum_error *err)
{
    if (len == 0)
        return error_set(err, -EINVAL, "it names no bucket: s3://BUCKET/KEY");
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)at[i]) && (!strchr("-_.", at[i]) || i == 0))
            return error_set(err, -EINVAL, "'%.*s' is not the name of a bucket", (int)len, at);
    p->host = strndup(at, len);
    return p->host ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* Returns the length of the host without its port; 0 if it is invalid. */
static size_t host_length(const char *at, size_t len)
{
    const char *close = len > 0 && *at == '[' ? memchr(at, ']', len) : NULL;
    size_t n;

    if (close) {
        char address[INET6_ADDRSTRLEN + 1] = "";
        struct in6_addr ignored;

        n = (size_t)(close - at - 1);
        if (n >= sizeof(address))
            return 0;
        memcpy(address, at + 1, n);
        return inet_pton(AF_INET6, address, &ignored) == 1 ? n + 2 : 0;
    }
    for (n = 0; n < len && at[n] != ':'; n++)
        if (!isalnum((unsigned char)at[n]) && !strchr("-_.", at[n]))
            return 0;
    return n;
}

static int parse_host(const char *at, size_t len, struct store_place *p, struct plenum_error *err)
{
    const uint64_t standard = p->scheme == DATANAME_HTTPS ? 443 : 80;
    size_t host = host_length(at, len);
    char port[8] = "";
    uint64_t number = standard;

    if (memchr(at, '@', len))
        return error_set(err, -EINVAL, "a user name in a URL is not supported");
    if (host == 0 || (host < len && (at[host] != ':' || len - host - 1 >= sizeof(port))))
        return error_set(err, -EINVAL, "'%.*s' is not a host with an optional port", (int)len, at);
    if (host < len) {
        memcpy(port, at + host + 1, len - host - 1);
        if (parse_u64(port, 65535, &number) < 0 || number == 0)
            return error_set(err, -EINVAL, "'%s' is not a port", port);
    }
    while (host > 1 && at[host - 1] == '.')
        host--; /* "host." is "host" */
    if (number == standard)
        p->host = strndup(at, host);
    else
        p->host = str_format("%.*s:%lu", (int)host, at, (unsigned long)number);
    if (!p->host)
        return error_set(err, -ENOMEM, "out of memory");
    for (char *c = p->host; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    return 0;
}

/* Undo percent-encoding in place. Returns 0, or -EINVAL if it is invalid or encodes a slash or a
 * control character. */
static int decode(char *text)
{
    char *to = text;

    for (const char *at = text; *at; at++) {
        unsigned char byte = (unsigned char)*at;

        if (byte == '%') {
            char digits[3] = {at[1], at[1] ? at[2] : '\0', '\0'};

            if (parse_hex(digits, &byte, 1) < 0 || byte == '/')
                return -EINVAL;
            at += 2;
        }
        if (byte < 0x20 || byte == 0x7f)
            return -EINVAL;
        *to++ = (char)byte;
    }
    *to = '\0';
    return 0;
}

/* Returns whether a part of the path is "." or "..", which servers and proxies treat
 * differently. */
static bool has_dots(const char *key)
{
    for (const char *at = key;; at++) {
        size_t len = strcspn(at, "/");

        if ((len == 1 && at[0] == '.') || (len == 2 && at[0] == '.' && at[1] == '.'))
            return true;
        at += len;
        if (!*at)
            return false;
    }
}

static int parse_key(const char *at, struct store_place *p, struct plenum_error *err)
{
    p->key = strdup(at);
    if (!p->key)
        return error_set(err, -ENOMEM, "out of memory");
    for (const char *c = at; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return error_set(err, -EINVAL, "it contains control characters");
    if (p->scheme != DATANAME_S3 && strpbrk(at, "?#"))
        return error_set(err, -EINVAL, "a URL with '?' or '#' is not supported");
    if (p->scheme != DATANAME_S3 && decode(p->key) < 0)
        return error_set(err, -EINVAL, "its percent-encoding is invalid, or encodes a slash");
    if (has_dots(p->key))
        return error_set(err, -EINVAL, "'.' and '..' cannot be parts of its path");
    return 0;
}

/* Parse a name on the Hugging Face Hub, which becomes a URL. */
static int parse_hub(const char *text, struct store_place *ret, struct plenum_error *err)
{
    char *url;
    int r = hugging_face_url(text, &url, err);

    if (r < 0)
        return r;
    r = place_parse(url, ret, err);
    free(url);
    return r;
}

int place_parse(const char *text, struct store_place *ret, struct plenum_error *err)
{
    struct store_place p = {0};
    const char *host = dataname_after_scheme(text, &p.scheme);
    size_t len;
    int r;

    if (!host)
        return error_set(err, -EINVAL, "%s: it does not begin with s3:// or https://", text);
    if (p.scheme == DATANAME_HF)
        return parse_hub(text, ret, err);
    len = strcspn(host, "/");
    r = p.scheme == DATANAME_S3 ? parse_bucket(host, len, &p, err) : parse_host(host, len, &p, err);
    if (r == 0)
        r = parse_key(host + len + (host[len] == '/'), &p, err);
    if (r < 0) {
        place_fini(&p);
        return error_prefix(err, r, "%s", text);
    }
    *ret = p;
    return 0;
}

void place_fini(struct store_place *place)
{
    free(place->host);
    free(place->key);
    *place = (struct store_place){0};
}

char *place_encode(const char *text, bool slash)
{
    static const char digits[] = "0123456789ABCDEF";
    char *ret = malloc(3 * strlen(text) + 1), *to = ret;

    for (; ret && *text; text++) {
        unsigned char c = (unsigned char)*text;

        if ((c < 0x80 && isalnum(c)) || strchr("-._~", c) || (c == '/' && !slash)) {
            *to++ = (char)c;
        } else {
            *to++ = '%';
            *to++ = digits[c >> 4];
            *to++ = digits[c & 15];
        }
    }
    if (ret)
        *to = '\0';
    return ret;
}

char *place_name(const struct store_place *p)
{
    char *key;
    char *name;

    assert(p->host && p->key);
    key = p->scheme == DATANAME_S3 ? strdup(p->key) : place_encode(p->key, false);
    name = key ? str_format("%s%s%s%s", dataname_scheme(p->scheme), p->host, *key ? "/" : "", key)
               : NULL;

    free(key);
    return name;
}

int place_canonical(const char *text, char **ret, struct plenum_error *err)
{
    struct store_place place;
    int r = place_parse(text, &place, err);

    if (r < 0)
        return r;
    *ret = place_name(&place);
    place_fini(&place);
    return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

bool place_is_literal(const char *host)
{
    struct in_addr ignored;
    char name[64];
    size_t len = host_length(host, strcspn(host, "/"));

    if (*host == '[')
        return true;
    if (len == 0 || len >= sizeof(name))
        return false;
    memcpy(name, host, len);
    name[len] = '\0';
    return strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, &ignored) == 1;
}
