/* SPDX-License-Identifier: MIT */
/* devices.h - accelerators, shared out to instances by the variable that shows them. */
#ifndef LAUNCHER_DEVICES_H
#define LAUNCHER_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum { DEVICES_MAX = 65536 }; /* of one host */

/** What the instances of each host divide. Zero-initialised: no variable is set for them. */
struct device_pool {
    char *variable;     /* CUDA_VISIBLE_DEVICES; owned; NULL: none */
    const char *prefix; /* what stands before the list in the variable, "level_zero:"; or "" */
    char **items;       /* "0", "1", or whatever the person named; owned */
    uint32_t count;     /* 0: nobody said; numbers from 0 on then, as many as are needed */
    size_t cap;
};

/** Does this value of a variable like CUDA_VISIBLE_DEVICES hide all devices? So do an empty list,
 * one that begins with -1, and Slurm's NoDevFiles. */
bool devices_hides_all(const char *list);

/** -EINVAL with a sentence when one of the known variables hides all devices of this process. */
int devices_check_visible(struct plenum_error *err);

/**
 * From the value of --device-env: NAME, NAME=LIST, or a short word for a known name (cuda, rocr,
 * hip, oneapi, ze, habana, tpu). Without LIST the variable's value here is the pool; a
 * value that hides all devices is an error.
 *
 * Errors: -EINVAL with a sentence; -ENOMEM.
 */
int device_pool_parse(const char *text, struct device_pool *ret, struct plenum_error *err);
void device_pool_fini(struct device_pool *pool);

/** Are there `count` of them? */
static inline bool device_pool_suffices(const struct device_pool *pool, uint64_t count)
{
    return pool->count == 0 || count <= pool->count;
}

/** Devices first ... first + count - 1 as a list, "2,3". Owned by the caller; NULL when memory is
 * short. */
char *device_pool_format(const struct device_pool *pool, uint32_t first, uint32_t count);

/** The number of the nth device among the host's accelerators: what the pool says, where that is a
 * number. */
uint32_t device_pool_number(const struct device_pool *pool, uint32_t nth);

#endif
