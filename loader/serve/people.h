/* SPDX-License-Identifier: MIT */
/* people.h - users and groups of this host, as people name them, and becoming one. */
#ifndef LOADER_SERVE_PEOPLE_H
#define LOADER_SERVE_PEOPLE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

/** The number of a user or group, "alice" or "1004": 0, or -EINVAL or -ENOENT with a sentence. */
int people_find(const char *name, bool group, uint32_t *ret, struct plenum_error *err);

struct person {
    char name[64], home[256];
    uid_t uid;
    gid_t gid;
    /* a number without an account, as in containers, or while the accounts' server is away */
    bool unknown;
};

/**
 * A user by name or number: 0, or -EINVAL or -ENOENT with a sentence. A number without an account
 * has the group of the same number, and no home.
 */
int people_find_user(const char *name, struct person *ret, struct plenum_error *err);

/**
 * Be that user for good, with the groups that it has: 0, or -errno with a sentence. Whoever is it
 * already need not be root. Threads: all of the process change.
 */
int people_become(const struct person *person, struct plenum_error *err);

#endif
