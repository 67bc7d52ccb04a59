/* SPDX-License-Identifier: MIT */
/* users.h - look up users and groups of this host, and change to a user. */
#ifndef LOADER_SERVE_USERS_H
#define LOADER_SERVE_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

/** The number of a user or group, "alice" or "1004": 0, or -EINVAL or -ENOENT with a sentence. */
int users_find_id(const char *name, bool group, uint32_t *ret, struct plenum_error *err);

struct user {
    char name[64], home[256];
    uid_t uid;
    gid_t gid;
    /* a number without an account, as in containers, or while the directory service is down */
    bool unknown;
};

/**
 * A user by name or number: 0, or -EINVAL or -ENOENT with a sentence. A number without an account
 * has the group of the same number, and no home.
 */
int users_find(const char *name, struct user *ret, struct plenum_error *err);

/**
 * Change to that user for good, with its groups: 0, or -errno with a sentence. A process that is
 * that user already need not be root. Threads: all of the process change.
 */
int users_become(const struct user *user, struct plenum_error *err);

#endif
