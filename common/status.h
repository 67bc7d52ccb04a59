/* SPDX-License-Identifier: MIT */
/* status.h - what a loader tells of itself, for programs and for users: the same numbers as JSON
 * and as a table. */
#ifndef COMMON_STATUS_H
#define COMMON_STATUS_H

#include <stdio.h>

#include "common/wire.h"

struct status {
    struct wire_status loader;
    struct wire_status_stream *streams; /* [loader.streams] */
};

/** Streams that the loader has and does not tell of, since they are other users'. */
uint32_t status_other_streams(const struct wire_status *loader);

/** "decode", "trainer", ... */
const char *status_bound_name(enum wire_bound bound);

/** One JSON object: {"loader": {...}, "streams": [...]}. Shares are 0 to 1; what is not known is
 * null. */
void status_write_json(FILE *file, const struct status *status);

/**
 * A table of at most `width` columns (at least 72) and `height` lines; 0: as many as it takes.
 *
 * `line_end` comes before each line break: an empty text, or what clears the rest of a terminal's
 * line.
 */
void status_write_text(FILE *file, const struct status *status, unsigned width, unsigned height,
                       const char *line_end);

#endif
