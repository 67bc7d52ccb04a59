/* address.h - where a loader listens: "unix:/run/plenum/plenumd.sock", "unix:@name" (abstract). */
#ifndef COMMON_ADDRESS_H
#define COMMON_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <plenum/error.h>

/** Of a list that a program or the environment names. */
enum { ADDRESS_LIST_MAX = 16 };

struct address {
    char text[128]; /* as it was written, for messages */
    struct sockaddr_un un;
    socklen_t len;
};

/** One address: 0 or -EINVAL. A plain path that begins with '/' is taken for unix:PATH. */
int address_parse(const char *text, struct address *ret, struct plenum_error *err);

/** Addresses separated by commas: their number (1 ... ADDRESS_LIST_MAX) or -EINVAL. */
int address_parse_list(const char *text, struct address ret[ADDRESS_LIST_MAX],
                       struct plenum_error *err);

/** A connected non-blocking socket (owned by the caller), or -errno. Connects at once or not at
 * all: these are local. */
int address_connect(const struct address *address);

/**
 * A listening socket, close-on-exec, or -errno with a sentence.
 *
 * A path that a dead process left behind is taken over; one where somebody listens is -EADDRINUSE.
 * `mode` is the socket file's; ignored for abstract names.
 */
int address_listen(const struct address *address, unsigned mode, struct plenum_error *err);

static inline bool address_is_abstract(const struct address *address)
{
    return address->un.sun_path[0] == '\0';
}

#endif
