/* SPDX-License-Identifier: MIT */
/* amended.h - handles the loaders' answers about an amended plan (amend.c). */
#ifndef LIBDIST_AMENDED_H
#define LIBDIST_AMENDED_H

#include <plenum/stream.h>

#include "common/net/wire.h"
#include "common/util/message.h"

/** Returns the global position of the stream's cursor. The caller holds the lock, here and
 * below. */
uint64_t amended_position(const struct plenum_stream *s);

/** Handle the answer of the first loader that has opened an amended plan: check that the samples
 * shown so far are the same in it. Errors: -ESTALE a data set has changed; -EINVAL new weights
 * would begin too early. */
int amended_describe(struct plenum_stream *s, const struct wire_opened *m,
                     struct plenum_error *err);

/** Write the message for a plan that a loader has opened with other samples or weights than before.
 * Returns -ESTALE. */
int amended_refuse_changed(const struct plenum_stream *s, struct plenum_error *err);

/** Note that all loaders have refused an amended plan, for this reason. */
MESSAGE void amended_refuse(struct plenum_stream *s, int code, const char *text);

#endif
