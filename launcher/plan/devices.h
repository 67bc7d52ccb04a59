/* SPDX-License-Identifier: MIT */
/* devices.h - the accelerators of a host, and the variable that makes them visible to programs. */
#ifndef LAUNCHER_DEVICES_H
#define LAUNCHER_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum { DEVICES_MAX = 65536 }; /* per host */

/** The devices that are divided among a host's instances. If zero-initialised, no variable names
 * them. */
struct device_pool {
    char *variable;     /* CUDA_VISIBLE_DEVICES; owned; NULL: none */
    const char *prefix; /* precedes the list in the variable, "level_zero:"; or "" */
    char **items;       /* "0", "1", or the user's names; owned */
    uint32_t count;     /* 0: not given; then numbers starting at 0, as many as necessary */
    size_t cap;
};

/** Returns whether this value of a variable like CUDA_VISIBLE_DEVICES hides all devices. An empty
 * list does, and so does one that begins with a negative number, Slurm's NoDevFiles, none or
 * void. */
bool devices_hides_all(const char *list);

/** Returns 0, or -EINVAL with a message if one of the known variables hides all devices from this
 * process. */
int devices_check_visible(struct plenum_error *err);

/**
 * Parse the value of --device-env: NAME, NAME=LIST, or an alias for a known name (cuda, rocr, hip,
 * oneapi, ze, habana, tpu). Without LIST the variable's current value is the pool; a value that
 * hides all devices is an error.
 *
 * Errors: -EINVAL with a message; -ENOMEM.
 */
int device_pool_parse(const char *text, struct device_pool *ret, struct plenum_error *err);
void device_pool_fini(struct device_pool *pool);

/** Does the pool have at least `count` devices? */
static inline bool device_pool_suffices(const struct device_pool *pool, uint64_t count)
{
    return pool->count == 0 || count <= pool->count;
}

/** Returns devices first ... first + count - 1 as a list, "2,3". Owned by the caller; NULL if out
 * of memory. */
char *device_pool_format(const struct device_pool *pool, uint32_t first, uint32_t count);

/** Returns the number of the nth device among the host's accelerators: the pool's item if it is a
 * number, otherwise `nth`. */
uint32_t device_pool_number(const struct device_pool *pool, uint32_t nth);

#endif
