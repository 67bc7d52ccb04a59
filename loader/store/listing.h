/* SPDX-License-Identifier: MIT */
/* listing.h - parses the XML answers of S3: listings (ListObjectsV2) and errors. Does no I/O. The
 * text comes from a server, which may be faulty or hostile. */
#ifndef LOADER_STORE_LISTING_H
#define LOADER_STORE_LISTING_H

#include <stdbool.h>
#include <stddef.h>

#include "loader/store/store_answer.h"

/** Receives one object. `key` is borrowed. Returns 0, or an error that ends the listing. */
typedef int listing_object(void *arg, const char *key, const struct object_facts *facts);

/** What follows a page. */
struct listing_page {
    bool more;        /* another page follows */
    char token[2048]; /* its continuation token */
};

/**
 * Parse a page of a listing, and call `object` for each object. Errors: -EBADMSG the text is not a
 * listing, an object lacks its key or size, or a page follows but has no token; the errors of
 * `object`.
 */
int listing_read(const char *text, size_t len, listing_object *object, void *arg,
                 struct listing_page *ret, struct plenum_error *err);

/** An error document. Each text is "" if the document lacks it. */
struct listing_error {
    char code[64], message[256], request_id[80], region[40];
};

/** Parse an error document. Any other text leaves all fields empty. Control characters become
 * '?'. */
void listing_read_error(const char *text, size_t len, struct listing_error *ret);

/** Find the first element with this name, at any depth, and copy its text to `ret`, with entities
 * decoded. Returns false if there is none, or if its text does not fit. */
bool listing_find(const char *text, size_t len, const char *name, char *ret, size_t size);

#endif
