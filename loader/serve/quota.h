/* SPDX-License-Identifier: MIT */
/* quota.h - enforces the limits on clients, rings and memory, and each user's share of these.
 * Everything runs on the loop's thread.
 *
 * If several users may connect, what a user holds may not exceed what remains free: the first user
 * gets at most half of --max-clients and --ring-limit, a second user who arrives later gets half of
 * the rest, and so on. But a user's first client is accepted as long as any is free. All TCP
 * clients of a host count as one user. */
#ifndef LOADER_SERVE_QUOTA_H
#define LOADER_SERVE_QUOTA_H

#include <stdint.h>

#include <plenum/error.h>

struct server;

/** Check whether the user may have one more client. Returns 0, or -EUSERS with a message. */
int quota_check_client(const struct server *server, const char *user, struct plenum_error *err);

/** Check whether the user may have `bytes` more for a ring whose samples need `working` bytes per
 * rendering thread. Returns 0, or -ENOSPC with a message. */
int quota_check_ring(struct server *server, const char *user, uint64_t bytes, uint64_t working,
                     struct plenum_error *err);

/** Check whether the reading threads may use `reading` bytes for the fields of one more stream,
 * whose ring already exists. Returns 0, or -ENOSPC with a message. */
int quota_check_fields(struct server *server, uint64_t reading, struct plenum_error *err);

#endif
