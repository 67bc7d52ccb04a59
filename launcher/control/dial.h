/* SPDX-License-Identifier: MIT */
/* dial.h - how a shim finds plenumrun: sockets, and their addresses as text.
 *
 * "unix:@name" on one host; for several, "tcp:10.1.2.3:5678,tcp:[fd00::1]:5678": all addresses of
 * the launching host. */
#ifndef LAUNCHER_DIAL_H
#define LAUNCHER_DIAL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

#include "launcher/values/ports.h"

enum { DIAL_TEXT_MAX = 2048, DIAL_HOST_BYTES = 16 };

/** The other end of a connection. */
struct dial_peer {
    uid_t uid; /* the process's user; (uid_t)-1: over TCP */
    /* the host's IPv6 address, or its IPv4 address in IPv6 form (::ffff:10.1.2.3); zeros for a unix
     * socket */
    uint8_t host[DIAL_HOST_BYTES];
};

/**
 * Listen on the abstract unix socket `name`: all shims are on this host.
 *
 * @param ret  the text for dial_connect(), `size` bytes
 *
 * Returns a descriptor (owned), or -errno with a message.
 */
int dial_listen_here(const char *name, char *ret, size_t size, struct plenum_error *err);

/**
 * Like dial_listen_here(), but on a TCP port.
 *
 * @param network  "10.1.0.0/16", the shims' network: listen only on our address there. If it is
 *                 NULL or another text, or we have no address there, listen on all addresses
 * @param ports    use one of these (ports_get_own()); if there are none, any port
 */
int dial_listen(const char *network, const struct ports *ports, char *ret, size_t size,
                struct plenum_error *err);

/** Get this host's address on a network, as text. False if the network is NULL or invalid, or this
 * host has no address there. */
bool dial_find_own(const char *network, char ret[INET6_ADDRSTRLEN]);

/** Returns the port in dial_listen()'s text; 0: it has none. */
uint16_t dial_get_port(const char *addresses);

/** Accept one connection. Returns a descriptor (owned), -EAGAIN, -EPERM for a local process of any
 * user except this one and root, or another -errno. `ret` is set unless accept(2) itself failed. */
int dial_accept(int listener, struct dial_peer *ret);

/** Format as "10.1.2.3" or "fd00::1". Returns `text`. */
char *dial_format_host(const struct dial_peer *peer, char *text, size_t size);

/** Try all addresses at once, for at most `timeout_ms`; retry a unix socket whose backlog is full.
 * Returns a descriptor (owned), or -errno with a message. */
int dial_connect(const char *addresses, int timeout_ms, struct plenum_error *err);

/** Receives the result of an attempt: 0 or -errno. `address` is "10.1.2.3" or "fd00::1". */
typedef void dial_tell(void *arg, const char *address, int r);

/**
 * Try all (TCP) addresses at once and report each result; no connection is kept.
 *
 * Returns when all attempts have finished, or after `timeout_ms`. Once one has connected, the
 * others get `more_ms`, except those to addresses outside of this host's networks, which are not
 * waited for or reported.
 */
void dial_try_all(const char *addresses, int timeout_ms, int more_ms, dial_tell *tell, void *arg);

#endif
