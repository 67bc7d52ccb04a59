/* SPDX-License-Identifier: MIT */
/* network.h - addresses of hosts, and the network that they share. */
#ifndef LAUNCHER_NETWORK_H
#define LAUNCHER_NETWORK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/values/subnet.h"

enum { NETWORK_INTERFACE_MAX = 16 }; /* size of an interface's name, with its NUL */

/** Room for an address of either family. */
union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct network_address {
    char interface[NETWORK_INTERFACE_MAX];
    struct subnet at; /* the whole address, and the prefix length of its network */
    bool is_virtual;  /* belongs to containers or virtual machines: not unique to this host */
    bool reached;     /* other hosts use it to reach this one */
};

/** Addresses of one host, without loopback and interfaces that are down. Empty if
 * zero-initialised. */
struct network {
    struct network_address *list;
    size_t count, cap;
};

void network_fini(struct network *network);
/** Add an address. Returns 0 or -ENOMEM. */
int network_add(struct network *network, const struct network_address *address);
/** Read this host's addresses. Returns 0 or -errno. */
int network_read(struct network *ret);

/** Returns whether container engines, hypervisors or Tailscale give interfaces such a name. */
bool network_is_virtual(const char *interface);

/** Format as "eth0 10.1.2.3/24", followed by " virtual" and " reached" if they apply;
 * network_parse_address() reads it. */
void network_format_address(const struct network_address *address, char *ret, size_t size);
int network_parse_address(const char *text, struct network_address *ret);

/** Mark the address (as text) by which other hosts reach this one. */
void network_mark_reached(struct network *network, const char *address);

/**
 * Find a network on which all of `count` hosts have a non-virtual address: preferably one by which
 * they are reached; otherwise another network that all of them have; otherwise the smallest that
 * contains the addresses by which they are reached, if it contains no virtual ones.
 *
 * Returns 0, or -ENOENT if there is none, or if a host's addresses are unknown.
 */
int network_find_shared(const struct network *const *hosts, size_t count, struct subnet *ret);

/** Returns the host's address on that network, or NULL. */
const struct network_address *network_find(const struct network *network,
                                           const struct subnet *subnet);

#endif
