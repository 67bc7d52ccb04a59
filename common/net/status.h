/* SPDX-License-Identifier: MIT */
/* status.h - a loader's status, for programs and for users: the same numbers as JSON and as a
 * table. */
#ifndef COMMON_STATUS_H
#define COMMON_STATUS_H

#include <stdio.h>

#include "common/net/wire.h"
#include "common/util/json.h"

struct status {
    struct wire_status loader;
    struct wire_status_stream *streams; /* [loader.streams] */
};

/** Returns the number of streams that the loader does not report because they belong to other
 * users. */
uint32_t status_other_streams(const struct wire_status *loader);

/** Returns the reads from the cache in percent of all reads of objects. */
double status_cache_percent(const struct wire_cache *cache);
/** Write the member "cache" of a JSON object: null if the loader has no cache. */
void status_put_cache(struct json *json, const struct wire_cache *cache);

/** Returns the name of a bound, such as "decode" or "trainer". */
const char *status_bound_name(enum wire_bound bound);

/** Write one JSON object: {"loader": {...}, "streams": [...]}. Shares are 0 to 1; unknown values
 *  are null. */
void status_write_json(FILE *file, const struct status *status);

/**
 * Write a table of at most `width` columns (at least 60) and `height` lines; 0: no limit.
 *
 * `line_end` is printed before each line break: an empty string, or the sequence that clears the
 * rest of a terminal's line.
 */
void status_write_text(FILE *file, const struct status *status, unsigned width, unsigned height,
                       const char *line_end);

#endif
