/* SPDX-License-Identifier: MIT */
/* address.h - where a loader listens: "unix:/run/plenum/plenumd.sock", "unix:@name" (abstract),
 * "tcp:host:port". */
#ifndef COMMON_ADDRESS_H
#define COMMON_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <plenum/error.h>

/** Of a list that a program or the environment names. */
enum {
    ADDRESS_LIST_MAX = 16,
    ADDRESS_OF_NAME_MAX = 4,
    ADDRESS_AGAIN_MS = 5, /* between two tries at a unix socket whose queue is full */
};

union address_any {
    struct sockaddr any;
    struct sockaddr_un un;
    struct sockaddr_in in;
    struct sockaddr_in6 in6;
};

struct address {
    char text[128]; /* as it was written, for messages */
    union {
        struct sockaddr_un un;
        /* Of a host that is named, as many as it has; see address_resolve(). */
        union address_any ip[ADDRESS_OF_NAME_MAX];
    };
    socklen_t len; /* of `un` */
    bool tcp;
    unsigned count; /* of `ip` */
};

/**
 * One address: 0 or -EINVAL. A plain path that begins with '/' is taken for unix:PATH. The host of
 * tcp:HOST:PORT is an IP address (IPv6 in brackets), or a name, which is not looked up yet.
 */
int address_parse(const char *text, struct address *ret, struct plenum_error *err);

/** HOST:PORT or PORT (then of this host alone, 127.0.0.1) as plenumd listens there: 0 or -EINVAL.
 * Port 0 is one that the kernel chooses. */
int address_parse_listen(const char *text, struct address *ret, struct plenum_error *err);

/** Look up the host's name, if it is one: 0, or -ENOENT or -EAGAIN (later it may be known) with a
 * sentence. May take seconds. */
int address_resolve(struct address *address, struct plenum_error *err);

/**
 * All addresses that a name (address_is_name()) stands for now, each of which may be a loader of
 * its own: their number, at least 1, and an array for free(); or as address_resolve(), with NULL.
 * May take seconds.
 *
 * A host that has addresses of IPv4 and of IPv6 has them twice. So they are of one family: that
 * which this system prefers, or, where there are `both` and `turn` is odd, of the other. Their
 * texts are tcp:IP:PORT; of a sole one it is the name's.
 */
int address_lookup(const struct address *name, unsigned turn, struct address **ret, bool *both,
                   struct plenum_error *err);

/** Are both the same single address of TCP? */
bool address_is_same(const struct address *a, const struct address *b);

/** Addresses separated by commas: their number (1 ... ADDRESS_LIST_MAX) or -EINVAL. */
int address_parse_list(const char *text, struct address ret[ADDRESS_LIST_MAX],
                       struct plenum_error *err);

/**
 * A non-blocking socket (owned by the caller), or -errno.
 *
 * A unix socket is connected. A TCP connection may be under way still: what is written waits, and
 * what comes of it is the result of the first read. `turn` chooses among the addresses of a host.
 *
 * Errors: -EAGAIN for a unix socket means "later": its queue of connections is full, as it is when
 * many connect at once, or when a process floods it. Try again after ADDRESS_AGAIN_MS.
 */
int address_connect(const struct address *address, unsigned turn);

/** Like address_connect(), but tries a unix socket whose queue of connections is full again, until
 * `deadline_ns` of time_now_ns(). Blocks. */
int address_connect_until(const struct address *address, unsigned turn, uint64_t deadline_ns);

/**
 * May what listens there be believed? 0, or -EPERM when whoever listened on a unix socket that is
 * connected was neither root, nor this user, nor the owner of the socket's file: anybody can bind
 * an abstract name.
 */
int address_check_peer(const struct address *address, int fd);

/**
 * A listening socket, close-on-exec, or -errno with a sentence.
 *
 * A path that a dead process left behind is taken over; one where somebody listens is -EADDRINUSE.
 * `mode` is the socket file's; ignored for all others.
 */
int address_listen(const struct address *address, unsigned mode, struct plenum_error *err);

/** How a socket's own (or its peer's) end is written, "tcp:127.0.0.1:7000"; "?" when that is not
 * known. Returns `text`. */
char *address_of_socket(int fd, bool peer, char *text, size_t size);

/** Does only this host reach it? All addresses of a name must be loopback ones. */
bool address_is_local(const struct address *address);

/** Is it a name that has not been looked up? */
static inline bool address_is_name(const struct address *address)
{
    return address->tcp && address->count == 0;
}

/** Is there a file that bears its name? */
static inline bool address_is_path(const struct address *address)
{
    return !address->tcp && address->un.sun_path[0] != '\0';
}

#endif
