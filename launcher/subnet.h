/* SPDX-License-Identifier: MIT */
/* subnet.h - addresses and networks as text. */
#ifndef LAUNCHER_SUBNET_H
#define LAUNCHER_SUBNET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

enum { SUBNET_TEXT_MAX = INET6_ADDRSTRLEN + 4 };

/** An address or a network: the first `bits` bits say which. */
struct subnet {
    int family;          /* AF_INET or AF_INET6 */
    uint8_t address[16]; /* network byte order; 4 bytes of it for AF_INET */
    unsigned bits;
};

/** "10.1.0.0/16", "fd00::/64": 0 or -EINVAL with a sentence. Bits behind the network's are cleared.
 */
int subnet_parse(const char *text, struct subnet *ret, struct plenum_error *err);
void subnet_format(const struct subnet *subnet, char ret[SUBNET_TEXT_MAX]);
/** Does the first hold the address of the second? */
bool subnet_has(const struct subnet *subnet, const struct subnet *address);

/** "10.1.2.3/16", with all bits kept: 0 or -EINVAL. */
int subnet_parse_address(const char *text, struct subnet *ret);
/** The network of an address: all other bits are cleared. */
struct subnet subnet_of(const struct subnet *address);
/** Bits of an address of this family (AF_INET, AF_INET6). */
unsigned subnet_family_bits(int family);
/** Do two addresses agree in their first bits? */
bool subnet_same_bits(const uint8_t *a, const uint8_t *b, unsigned bits);

#endif
