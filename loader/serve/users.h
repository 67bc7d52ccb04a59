/* SPDX-License-Identifier: MIT */
/* users.h - looks up users and groups of this host, and switches to a user. */
#ifndef LOADER_SERVE_USERS_H
#define LOADER_SERVE_USERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

/** Find the ID of a user or group, given as "alice" or "1004". Returns 0; or, with a message,
 * -EINVAL (the number is too large) or -ENOENT (there is no such name). */
int users_find_id(const char *name, bool group, uint32_t *ret, struct plenum_error *err);

struct user {
    char name[64], home[256];
    uid_t uid;
    gid_t gid;
    /* A number without an account, as in containers, or while the directory service is down. */
    bool unknown;
};

/**
 * Find a user by name or number. Returns 0; or, with a message, -EINVAL (the number is too large)
 * or -ENOENT (there is no such name). A number without an account has the group of the same number,
 * and no home.
 */
int users_find(const char *name, struct user *ret, struct plenum_error *err);

/**
 * Switch to a user permanently, with its groups, in all threads. Returns 0, or -errno with a
 * message. A process that already runs as that user does not need to be root.
 */
int users_become(const struct user *user, struct plenum_error *err);

#endif
