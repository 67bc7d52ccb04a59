/* SPDX-License-Identifier: MIT */
/* network.h - addresses of hosts, and the network that all of them are on. */
#ifndef LAUNCHER_NETWORK_H
#define LAUNCHER_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/subnet.h"

enum { NETWORK_INTERFACE_MAX = 16 }; /* bytes of an interface's name with its NUL */

struct network_address {
    char interface[NETWORK_INTERFACE_MAX];
    struct subnet at; /* the whole address, and the bits of its network */
    bool is_virtual;  /* of containers and virtual machines: others have the same */
    bool reached;     /* others come here by it */
};

/** Addresses of one host, without loopback and what is down. Zero-initialised: none. */
struct network {
    struct network_address *list;
    size_t count, cap;
};

void network_fini(struct network *network);
/** 0 or -ENOMEM. */
int network_add(struct network *network, const struct network_address *address);
/** Of this host: 0 or -errno. */
int network_read(struct network *ret);

/** Is this the name of an interface that container engines and hypervisors make? */
bool network_is_virtual(const char *interface);

/** "eth0 10.1.2.3/24", with " virtual" and " reached" behind it; network_parse_address() reads it.
 */
void network_format_address(const struct network_address *address, char *ret, size_t size);
int network_parse_address(const char *text, struct network_address *ret);

/** Mark the address (as text) by which others come here. */
void network_mark_reached(struct network *network, const char *address);

/**
 * A network on which all of `count` hosts have an address that is not virtual: one by which they
 * are reached, if there is one; else a network of their own addresses that all have; else the
 * smallest that holds the addresses by which they are reached, when nothing virtual lies in it.
 *
 * -ENOENT: there is none, or nothing is known of some host.
 */
int network_find_shared(const struct network *const *hosts, size_t count, struct subnet *ret);

/** The host's address on that network, or NULL. */
const struct network_address *network_find(const struct network *network,
                                           const struct subnet *subnet);

#endif
