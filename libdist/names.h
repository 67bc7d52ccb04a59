/* SPDX-License-Identifier: MIT */
/* names.h - names of samples and classes, which one loader is asked for. With the stream's lock
 * held. */
#ifndef LIBDIST_NAMES_H
#define LIBDIST_NAMES_H

#include <stdint.h>

#include <plenum/stream.h>

#include "common/wire.h"

struct loader;
struct name_ask;

struct names {
    struct loader *asked;   /* or NULL */
    struct name_ask *first; /* what is asked for; then the next */
};

/** Wait for the names of `count` samples, or of all classes (NULL): one block, NULL at its end. */
int names_get(struct plenum_stream *s, enum wire_named of, const uint32_t *samples, uint32_t count,
              char ***ret, struct plenum_error *err);
/** Ask for what is waited for. */
void names_ask(struct plenum_stream *s);
/** A name has come of this loader: 0, or -EPROTO where it was not asked for. */
int names_receive(struct plenum_stream *s, struct loader *l, uint64_t request,
                  const struct wire_name *m);
/** This loader will answer nothing more: another is asked. */
void names_release(struct plenum_stream *s, const struct loader *l);

#endif
