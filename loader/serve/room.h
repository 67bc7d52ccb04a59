/* SPDX-License-Identifier: MIT */
/* room.h - what is left of the loader's limits, and for whom. All of it on the loop's thread.
 *
 * Where several users may connect, no user gets more than is then left for all others: the first
 * one half of
 * --max-clients and --ring-limit, one that comes while another has that much half of the rest. So
 * there is always something left for the next. Clients of TCP are the user of their host. */
#ifndef LOADER_SERVE_ROOM_H
#define LOADER_SERVE_ROOM_H

#include "loader/serve/session.h"

/** May a user have one more client? 0, or -EUSERS with a sentence. */
int room_for_client(const struct server *server, const char *user, struct plenum_error *err);

/** May a user have a ring of so many bytes more? 0, or -ENOSPC with a sentence. */
int room_for_ring(struct server *server, const char *user, uint64_t bytes,
                  struct plenum_error *err);

/** Is some of what a user has (NULL: anybody) about to be given back: by a session that ends, or by
 * one of session_ask_if_there()? */
bool room_is_coming(struct server *server, const char *user);

#endif
