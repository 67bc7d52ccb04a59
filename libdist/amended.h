/* SPDX-License-Identifier: MIT */
/* amended.h - what loaders say about an amended plan (amend.c). */
#ifndef LIBDIST_AMENDED_H
#define LIBDIST_AMENDED_H

#include <plenum/stream.h>

#include "common/net/wire.h"
#include "common/util/message.h"

/** The global position of the stream's cursor. Hold the lock, here and below. */
uint64_t amended_position(const struct plenum_stream *s);

/** A loader is the first to have opened an amended plan: check that what was shown stays the same.
 *  Errors: -ESTALE a data set has changed; -EINVAL new weights would begin too early. */
int amended_describe(struct plenum_stream *s, const struct wire_opened *m,
                     struct plenum_error *err);

/** All loaders have refused an amended plan, for this reason. */
MESSAGE void amended_refuse(struct plenum_stream *s, int code, const char *text);

#endif
