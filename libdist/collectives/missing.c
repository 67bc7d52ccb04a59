/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "libdist/collectives/missing.h"

#include <errno.h>
#include <stdio.h>

#include "common/util/error_set.h"

/* Format "instance 3 has not arrived", "instances 1, 4 and 5 have not arrived", or "instances 0, 1,
 * 2, ... (17 in all) have not arrived". */
static void name_missing(const bool *came, uint32_t instances, char *text, size_t size)
{
    uint32_t missing = 0, named = 0;
    size_t n;

    for (uint32_t i = 0; i < instances; i++)
        missing += !came[i];
    if (missing == 0) {
        (void)snprintf(text, size,
                       "all instances have arrived, but the operation has not finished");
        return;
    }
    n = (size_t)snprintf(text, size, "instance%s", missing > 1 ? "s" : "");
    for (uint32_t i = 0; i < instances && named < 8 && n < size; i++) {
        if (came[i])
            continue;
        named++;
        n += (size_t)snprintf(text + n, size - n, "%s %u",
                              named == 1         ? ""
                              : named == missing ? " and"
                                                 : ",",
                              i);
    }
    if (missing > named && n < size)
        n += (size_t)snprintf(text + n, size - n, ", ... (%u in all)", missing);
    if (n < size)
        (void)snprintf(text + n, size - n, " %s not arrived", missing > 1 ? "have" : "has");
}

int missing_in_time(const char *what, const bool *came, uint32_t instances,
                    struct plenum_error *err)
{
    char missing[160];

    name_missing(came, instances, missing, sizeof(missing));
    return error_set(err, -ETIMEDOUT, "%s: the time limit has passed and %s", what, missing);
}

int missing_ended(const char *what, uint32_t instance, struct plenum_error *err)
{
    return error_set(err, -EIO, "%s: instance %u has ended and will not arrive", what, instance);
}
