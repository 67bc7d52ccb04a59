/* SPDX-License-Identifier: MIT */
/* address.h - addresses of loaders: "unix:/run/plenum/plenumd.sock", "unix:@name" (abstract),
 * "tcp:host:port". */
#ifndef COMMON_ADDRESS_H
#define COMMON_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <plenum/error.h>

/** Limits on lists of addresses that a program or the environment provides. */
enum {
    ADDRESS_LIST_MAX = 16,
    ADDRESS_OF_NAME_MAX = 4,
    ADDRESS_AGAIN_MS = 5, /* retry interval for a unix socket whose queue is full */
};

union address_any {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

struct address {
    char text[128]; /* as the user wrote it, for messages */
    union {
        struct sockaddr_un un;
        /* The addresses of a host given by name; see address_resolve(). */
        union address_any ip[ADDRESS_OF_NAME_MAX];
    };
    socklen_t len; /* length of `un` */
    bool tcp;
    unsigned count; /* number of entries in `ip` */
};

/**
 * Parse one address. Returns 0 or -EINVAL. A plain path that begins with '/' means unix:PATH. The
 * host in tcp:HOST:PORT is an IP address (IPv6 in brackets) or a name, which is not looked up yet.
 */
int address_parse(const char *text, struct address *ret, struct plenum_error *err);

/** Parse HOST:PORT or PORT (on 127.0.0.1 only) for plenumd to listen on. Returns 0 or -EINVAL. With
 *  port 0 the kernel chooses one. */
int address_parse_listen(const char *text, struct address *ret, struct plenum_error *err);

/** Look up the host's name, if it is one. Returns 0, or -ENOENT or -EAGAIN (it may resolve later)
 * with a message. May take seconds. */
int address_resolve(struct address *address, struct plenum_error *err);

/**
 * Look up all addresses that a name (address_is_name()) resolves to now, each of which may be a
 * loader. Returns their number, at least 1, and an array that the caller frees with free(); or an
 * error of address_resolve(), with NULL. May take seconds.
 *
 * A host with IPv4 and IPv6 addresses would appear twice, so all results belong to one family: the
 * one that this system prefers, or, if there are `both` and `turn` is odd, the other. Their texts
 * are tcp:IP:PORT; a single result keeps the text of the name.
 */
int address_lookup(const struct address *name, unsigned turn, struct address **ret, bool *both,
                   struct plenum_error *err);

/** Is each a single TCP address, and are the two equal? */
bool address_is_same(const struct address *a, const struct address *b);

/** Parse addresses separated by commas. Returns their number (1 ... ADDRESS_LIST_MAX) or
 *  -EINVAL. */
int address_parse_list(const char *text, struct address ret[ADDRESS_LIST_MAX],
                       struct plenum_error *err);

/**
 * Connect a non-blocking socket (owned by the caller), or return -errno.
 *
 * A unix socket is connected on return. A TCP connection may still be in progress: writes are
 * queued, and the first read reports the result. `turn` selects one of the host's addresses.
 *
 * Errors: -ENOENT: the host's name has not been resolved; -EAGAIN: the connection queue of a unix
 * socket is full, because many clients connect at once or a process floods it. Try again after
 * ADDRESS_AGAIN_MS.
 */
int address_connect(const struct address *address, unsigned turn);

/** Like address_connect(), but retries a unix socket whose connection queue is full until
 *  `deadline_ns` of time_now_ns(). Blocks. */
int address_connect_until(const struct address *address, unsigned turn, uint64_t deadline_ns);

/**
 * Check that the peer of a connected unix socket can be trusted, because any process can bind an
 * abstract name. Returns 0 (for TCP, too); -EPERM if its listener was neither root, nor this user,
 * nor the owner of the socket file; or another -errno.
 */
int address_check_peer(const struct address *address, int fd);

/**
 * Open a listening socket, close-on-exec, or return -errno with a message.
 *
 * A path that a dead process left behind is replaced; one with a live listener is -EADDRINUSE.
 * `mode` is the mode of a socket file; it is ignored for other addresses.
 */
int address_listen(const struct address *address, unsigned mode, struct plenum_error *err);

/** Write the address of a socket's own end, "tcp:127.0.0.1:7000", or "?" if it is unknown. Returns
 *  `text`. */
char *address_of_socket(int fd, char *text, size_t size);
/** Like address_of_socket(), for the socket's peer. */
char *address_of_peer(int fd, char *text, size_t size);

/** Returns whether only this host can reach the address. If it is a name, all addresses of the name
 * must be loopback addresses. */
bool address_is_local(const struct address *address);

/** Is the address a name that has not been looked up? */
static inline bool address_is_name(const struct address *address)
{
    return address->tcp && address->count == 0;
}

/** Is the address the path of a socket file? */
static inline bool address_is_path(const struct address *address)
{
    return !address->tcp && address->un.sun_path[0] != '\0';
}

#endif
