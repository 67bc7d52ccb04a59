/* SPDX-License-Identifier: MIT */
/* roots.h - the folders whose data sets a loader serves, and to whom. */
#ifndef LOADER_SERVE_ROOTS_H
#define LOADER_SERVE_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include <plenum/error.h>

/** Who is at the other end of a connection. */
struct peer {
    bool known; /* the kernel told the fields below; else the peer is anonymous */
    uid_t uid;
    pid_t pid;
    gid_t *groups; /* malloc: the primary and the supplementary groups */
    size_t num_groups;
};

/** Ask the kernel who connected: 0 or -errno. */
int peer_read(int fd, struct peer *ret);
void peer_fini(struct peer *peer);

/** Counted, because a reload can replace them while another thread opens a data set. Only the loop
 * changes the count. Opaque. */
struct roots;

/**
 * Parse texts such as "DIR" or "DIR readers=USER,@GROUP,...": 0, or -errno with a sentence that
 * names the folder, user or group that does not exist.
 */
int roots_create(const char *const *texts, unsigned count, struct roots **ret,
                 struct plenum_error *err);
struct roots *roots_ref(struct roots *roots);
/** NULL is nothing. */
void roots_unref(struct roots *roots);

/** May every client read all of them? */
bool roots_are_for_all(const struct roots *roots);

unsigned roots_count(const struct roots *roots);

/**
 * The canonical paths below which a peer may read: those that name no readers, and those that name
 * it or a group that it is in. Root and the loader's own user may read all. `paths` has room for
 * roots_count() of them, which live as long as `roots`. Returns how many there are.
 */
unsigned roots_for(const struct roots *roots, const struct peer *peer, const char **paths);

#endif
