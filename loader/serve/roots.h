/* SPDX-License-Identifier: MIT */
/* roots.h - parses the folders whose data sets a loader serves, and decides which peers may read
 * them. */
#ifndef LOADER_SERVE_ROOTS_H
#define LOADER_SERVE_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <plenum/error.h>

/** The user at the other end of a connection. */
struct peer {
    bool known; /* the kernel reported the fields below; false: an anonymous peer */
    uid_t uid;
    pid_t pid;
    gid_t *groups; /* the primary and the supplementary groups (malloc) */
    size_t num_groups;
};

/** Ask the kernel which user connected. Returns 0 or -errno. */
int peer_read(int fd, struct peer *ret);
void peer_fini(struct peer *peer);

/** Reference-counted, because a reload can replace them while another thread opens a data set. Only
 * the loop changes the count. Opaque. */
struct roots;

/**
 * Parse texts such as "DIR" or "DIR readers=USER,@GROUP,...". Returns 0, or -errno with a message
 * that names the missing folder, user or group.
 */
int roots_create(const char *const *texts, unsigned count, struct roots **ret,
                 struct plenum_error *err);
struct roots *roots_ref(struct roots *roots);
/** Drop a reference. NULL is ignored. */
void roots_unref(struct roots *roots);

/** Returns whether every client may read all roots. */
bool roots_are_for_all(const struct roots *roots);

unsigned roots_count(const struct roots *roots);

/**
 * Get the canonical paths that a peer may read: the roots without readers, and those whose readers
 * include the peer or one of its groups. Root and the loader's own user may read all. `paths` has
 * room for roots_count() entries, which live as long as `roots`. Returns their number.
 */
unsigned roots_for(const struct roots *roots, const struct peer *peer, const char **paths);

#endif
