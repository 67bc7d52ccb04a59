/* SPDX-License-Identifier: MIT */
/* open_shelf.h - for tests: opens the files of a shelf as their only user. */
#ifndef TESTS_LOADER_CACHE_OPEN_SHELF_H
#define TESTS_LOADER_CACHE_OPEN_SHELF_H

#include "loader/cache/shelf.h"

static inline int open_shelf(const char *folder, shelf_found *found, void *arg, struct shelf **ret,
                             struct plenum_error *err)
{
    struct shelf *s;
    int r = shelf_attach(folder, &s, err);

    if (r < 0)
        return r;
    r = shelf_take(s, err);
    if (r == 0)
        r = shelf_load(s, found, arg, err);
    if (r < 0)
        shelf_close(s);
    else
        *ret = s;
    return r;
}

#endif
