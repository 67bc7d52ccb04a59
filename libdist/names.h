/* SPDX-License-Identifier: MIT */
/* names.h - names of samples and classes, requested from one loader. Callers hold the stream's
 * lock. */
#ifndef LIBDIST_NAMES_H
#define LIBDIST_NAMES_H

#include <stdint.h>

#include <plenum/stream.h>

#include "common/net/wire.h"

struct loader;

/** Wait for the names of `count` samples, or of all classes (`samples` is NULL). `*ret` is one
 *  block: pointers that end with NULL, and the names. */
int names_get(struct plenum_stream *s, enum wire_named of, const uint32_t *samples, uint32_t count,
              char ***ret, struct plenum_error *err);
/** Send the requests that callers wait for. */
void names_ask(struct plenum_stream *s);
/** Store a name that has arrived from this loader. Returns 0, or -EPROTO if it was not
 * requested. */
int names_receive(struct loader *l, uint64_t request, const struct wire_name *m);
/** Take back the pending requests of this loader, which will not answer them. names_ask() then
 * sends them to another one. */
void names_release(struct plenum_stream *s, const struct loader *l);

#endif
