/* SPDX-License-Identifier: MIT */
/* sigv4.h - signs requests with AWS Signature Version 4. The module (backend.h) computes the
 * hashes, so this file needs no library. */
#ifndef LOADER_STORE_SIGV4_H
#define LOADER_STORE_SIGV4_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "loader/store/backend.h"

/** A header to sign. The name is in lower case. */
struct sigv4_header {
    const char *name, *value;
};

struct sigv4_request {
    const char *method; /* such as "GET" */
    const char *path;   /* as sent: percent-encoded, with its leading slash */
    const char *query;  /* as sent: percent-encoded, sorted by name; "" if there is none */
    const struct sigv4_header *headers; /* [num_headers], sorted by name */
    size_t num_headers;
    const char *payload_hash; /* hexadecimal, or "UNSIGNED-PAYLOAD" */
    const char *region, *service;
    const char *key_id, *secret;
    const char *date; /* "20130524T000000Z", from sigv4_date() */
};

enum { SIGV4_DATE_BYTES = 17 };

/** Format a time for the header x-amz-date. */
void sigv4_date(time_t when, char ret[SIGV4_DATE_BYTES]);

/** Returns the value of the Authorization header (malloc), or NULL if out of memory. */
char *sigv4_authorization(const struct store_backend *backend, const struct sigv4_request *request);

/** Write the SHA-256 of these bytes in hexadecimal, for payload_hash. */
void sigv4_hash(const struct store_backend *backend, const void *bytes, size_t len,
                char ret[2 * STORE_HASH_BYTES + 1]);

#endif
