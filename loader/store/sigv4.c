/* SPDX-License-Identifier: MIT */
/* sigv4.c - signs requests as Amazon's "Signature Version 4 signing process" describes. */
#include "config.h"

#include "loader/store/sigv4.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"

void sigv4_date(time_t when, char ret[SIGV4_DATE_BYTES])
{
    struct tm tm = {0};

    (void)gmtime_r(&when, &tm);
    (void)strftime(ret, SIGV4_DATE_BYTES, "%Y%m%dT%H%M%SZ", &tm);
}

static void hex(const uint8_t hash[STORE_HASH_BYTES], char ret[2 * STORE_HASH_BYTES + 1])
{
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", hash[i]);
}

void sigv4_hash(const struct store_backend *backend, const void *bytes, size_t len,
                char ret[2 * STORE_HASH_BYTES + 1])
{
    uint8_t hash[STORE_HASH_BYTES];

    backend->sha256(bytes, len, hash);
    hex(hash, ret);
}

/* Returns the names of the signed headers, such as "host;x-amz-date" (malloc), or NULL if out of
 * memory. */
static char *signed_names(const struct sigv4_request *r)
{
    char *names = strdup("");

    for (size_t i = 0; names && i < r->num_headers; i++) {
        char *more = str_format("%s%s%s", names, i ? ";" : "", r->headers[i].name);

        free(names);
        names = more;
    }
    return names;
}

/* Write the hash of the canonical request, in hexadecimal. Returns 0 or -1. */
static int hash_request(const struct store_backend *backend, const struct sigv4_request *r,
                        const char *names, char ret[2 * STORE_HASH_BYTES + 1])
{
    char *text = str_format("%s\n%s\n%s\n", r->method, r->path, r->query);

    for (size_t i = 0; text && i < r->num_headers; i++) {
        char *more = str_format("%s%s:%s\n", text, r->headers[i].name, r->headers[i].value);

        free(text);
        text = more;
    }
    if (text) {
        char *more = str_format("%s\n%s\n%s", text, names, r->payload_hash);

        free(text);
        text = more;
    }
    if (!text)
        return -1;
    sigv4_hash(backend, text, strlen(text), ret);
    free(text);
    return 0;
}

static void derive_key(const struct store_backend *backend, const struct sigv4_request *r,
                       uint8_t key[STORE_HASH_BYTES])
{
    char first[256];
    int n = snprintf(first, sizeof(first), "AWS4%s", r->secret);
    const char *const parts[] = {r->region, r->service, "aws4_request"};

    backend->hmac(first, min_u64((uint64_t)n, sizeof(first) - 1), r->date, 8, key);
    explicit_bzero(first, sizeof(first));
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        uint8_t next[STORE_HASH_BYTES];

        backend->hmac(key, STORE_HASH_BYTES, parts[i], strlen(parts[i]), next);
        memcpy(key, next, sizeof(next));
        explicit_bzero(next, sizeof(next));
    }
}

char *sigv4_authorization(const struct store_backend *backend, const struct sigv4_request *r)
{
    char request[2 * STORE_HASH_BYTES + 1], signature[2 * STORE_HASH_BYTES + 1];
    uint8_t key[STORE_HASH_BYTES], hash[STORE_HASH_BYTES];
    char *names = signed_names(r), *scope = NULL, *text = NULL, *ret = NULL;

    assert(r->num_headers > 0 && strlen(r->date) == SIGV4_DATE_BYTES - 1);
    if (!names || hash_request(backend, r, names, request) < 0)
        goto out;
    scope = str_format("%.8s/%s/%s/aws4_request", r->date, r->region, r->service);
    if (!scope)
        goto out;
    text = str_format("AWS4-HMAC-SHA256\n%s\n%s\n%s", r->date, scope, request);
    if (!text)
        goto out;
    derive_key(backend, r, key);
    backend->hmac(key, sizeof(key), text, strlen(text), hash);
    explicit_bzero(key, sizeof(key));
    hex(hash, signature);
    ret = str_format("AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s", r->key_id,
                     scope, names, signature);

out:
    free(names);
    free(scope);
    free(text);
    return ret;
}
