/* SPDX-License-Identifier: MIT */
/* subnet.h - addresses and networks as text. */
#ifndef LAUNCHER_SUBNET_H
#define LAUNCHER_SUBNET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

enum { SUBNET_TEXT_MAX = INET6_ADDRSTRLEN + 4 };

/** An address or a network, identified by the first `bits` bits. */
struct subnet {
    int family;          /* AF_INET or AF_INET6 */
    uint8_t address[16]; /* network byte order; AF_INET uses 4 bytes */
    unsigned bits;
};

/** Parse "10.1.0.0/16" or "fd00::/64" and clear host bits. Returns 0, or -EINVAL with a message. */
int subnet_parse(const char *text, struct subnet *ret, struct plenum_error *err);
void subnet_format(const struct subnet *subnet, char ret[SUBNET_TEXT_MAX]);
/** Does the network contain the address? */
bool subnet_has(const struct subnet *subnet, const struct subnet *address);

/** Parse "10.1.2.3/16", keeping all bits. Returns 0 or -EINVAL. */
int subnet_parse_address(const char *text, struct subnet *ret);
/** Returns the network of an address, with all other bits cleared. */
struct subnet subnet_of(const struct subnet *address);
/** Returns the number of bits in an address of this family (AF_INET, AF_INET6). */
unsigned subnet_family_bits(int family);
/** Are the first `bits` bits of two addresses equal? */
bool subnet_same_bits(const uint8_t *a, const uint8_t *b, unsigned bits);

#endif
