/* SPDX-License-Identifier: MIT */
/* dial.h - how a shim finds plenumrun: sockets and their addresses as text.
 *
 * "unix:@name" on one host; "tcp:10.1.2.3:5678,tcp:[fd00::1]:5678", all addresses that the
 * launching host has, for several. */
#ifndef LAUNCHER_DIAL_H
#define LAUNCHER_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

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
 * @param ret  the text for dial_connect(), `size` bytes
 * @return a descriptor (owned), or -errno with a sentence
 */
int dial_listen(bool local, const char *name, const char *network, char *ret, size_t size,
                struct plenum_error *err);

/** Take one connection: a descriptor (owned), -EAGAIN, -EPERM for a local process of another
 * user, or another -errno. `ret` is set unless accept(2) itself has failed. */
int dial_accept(int listener, struct dial_peer *ret);

/** "10.1.2.3" or "fd00::1". Returns `text`. */
char *dial_format_host(const struct dial_peer *peer, char *text, size_t size);

/** Try all addresses at once, for `timeout_ms` at most: a descriptor (owned), or -errno with a
 * sentence. A unix socket whose queue of connections is full is tried again until then. */
int dial_connect(const char *addresses, int timeout_ms, struct plenum_error *err);

#endif
