/* SPDX-License-Identifier: MIT */
/* store_place.h - parses names of objects in stores and of files behind HTTP: s3://BUCKET/KEY,
 * https://HOST[:PORT]/PATH and http://HOST[:PORT]/PATH; hf://datasets/... becomes a URL. */
#ifndef LOADER_STORE_STORE_PLACE_H
#define LOADER_STORE_STORE_PLACE_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

#include "common/data/dataname.h"

/** A parsed name. Zero-initialised, or filled by place_parse(). */
struct store_place {
    enum dataname_scheme scheme;
    char *host; /* owned: the bucket, or HOST[:PORT] in lower case without a default port */
    char *key;  /* owned: without its leading slash, not encoded; "" for the whole bucket or host */
};

/**
 * Parse a name. The key of s3: is literal; the path of a URL is percent-decoded once.
 *
 * Errors: -EINVAL with `err` set: an unknown scheme, no bucket or host, a user name, an invalid
 * port, control characters, "." or ".." as a part of the path, or, in a URL, '?', '#' or an encoded
 * slash; -ENOMEM.
 */
int place_parse(const char *text, struct store_place *ret, struct plenum_error *err);
void place_fini(struct store_place *place);

/** Returns the canonical name (malloc), or NULL if out of memory. Equal places have equal names,
 * and place_parse() accepts them. */
char *place_name(const struct store_place *place);
/** Parse `text` and return its canonical name in `*ret` (malloc). Errors: those of
 * place_parse(). */
int place_canonical(const char *text, char **ret, struct plenum_error *err);

/** Returns a percent-encoded copy (malloc), or NULL if out of memory. Letters, digits and "-._~"
 * are not encoded, nor is '/' unless `slash`. */
char *place_encode(const char *text, bool slash);

/** Returns whether the host of a URL is a literal address or "localhost". Only then may the URL
 * lead to a loopback or link-local address. `host` may have a port. */
bool place_is_literal(const char *host);

/** Returns the length of what precedes the key in a name or pattern ("s3://bucket/"), or 0 if there
 * is no such part. */
size_t place_root_length(const char *text);

#endif
