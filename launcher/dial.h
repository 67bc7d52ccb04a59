/* SPDX-License-Identifier: MIT */
/* dial.h - how a shim finds plenumrun: sockets and their addresses as text.
 *
 * "unix:@name" on one host; "tcp:10.1.2.3:5678,tcp:[fd00::1]:5678", all addresses that the
 * launching host has, for several. */
#ifndef LAUNCHER_DIAL_H
#define LAUNCHER_DIAL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

#include "launcher/ports.h"

enum { DIAL_TEXT_MAX = 2048, DIAL_HOST_BYTES = 16 };

/** The other end of a connection. */
struct dial_peer {
    uid_t uid; /* the process's user; (uid_t)-1: by TCP */
    /* the host's IPv6 address, or its IPv4 address as IPv6 has it (::ffff:10.1.2.3); by a unix
     * socket, zeros */
    uint8_t host[DIAL_HOST_BYTES];
};

/**
 * Listen: on an abstract unix socket `name` when all shims are on this host, else on a TCP port.
 *
 * @param network  "10.1.0.0/16", where they are: by TCP, only our address there is listened on;
 *                 anything else: all addresses are
 * @param ports  by TCP, one of these (ports_get_own())
 * @param ret  the text for dial_connect(), `size` bytes
 * @return a descriptor (owned), or -errno with a sentence
 */
int dial_listen(bool local, const char *name, const char *network, const struct ports *ports,
                char *ret, size_t size, struct plenum_error *err);

/** This host's address on a network, as text; false when the network is NULL or no network, or this
 * host has no address there. */
bool dial_find_own(const char *network, char ret[INET6_ADDRSTRLEN]);

/** The port of dial_listen()'s text; 0: it has none. */
uint16_t dial_get_port(const char *addresses);

/** Take one connection: a descriptor (owned), -EAGAIN, -EPERM for a local process of another
 * user, or another -errno. `ret` is set unless accept(2) itself has failed. */
int dial_accept(int listener, struct dial_peer *ret);

/** "10.1.2.3" or "fd00::1". Returns `text`. */
char *dial_format_host(const struct dial_peer *peer, char *text, size_t size);

/** Try all addresses at once, for `timeout_ms` at most: a descriptor (owned), or -errno with a
 * sentence. A unix socket whose queue of connections is full is tried again until then. */
int dial_connect(const char *addresses, int timeout_ms, struct plenum_error *err);

/** How a try ended: 0 or -errno. `address` is "10.1.2.3" or "fd00::1". */
typedef void dial_tell(void *arg, const char *address, int r);

/**
 * Try all addresses (of TCP) at once, and report how each did; nothing stays connected.
 *
 * Returns when all have answered, or after `timeout_ms`. When one has connected, the others get
 * `more_ms`, and those on no network of this host no time at all: they are then not reported.
 */
void dial_try_all(const char *addresses, int timeout_ms, int more_ms, dial_tell *tell, void *arg);

#endif
