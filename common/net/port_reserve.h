/* SPDX-License-Identifier: MIT */
/* port_reserve.h - keeps a TCP port for a program that will listen on it later.
 *
 * A port that is merely unused now may be taken before the program starts. So a socket is bound to
 * it, which does not listen. Only this user's sockets with SO_REUSEPORT can be bound to the port
 * beside it; the kernel gives the port to no connection. */
#ifndef COMMON_PORT_RESERVE_H
#define COMMON_PORT_RESERVE_H

#include <stdint.h>

/**
 * Reserve a port between `first` and `last`; both are 0: any.
 *
 * @param turn  where to begin, so that processes which do this at the same time rarely compete
 *
 * Returns a descriptor (owned by the caller) that keeps the port, for IPv4 and IPv6, or -errno:
 * -EADDRINUSE if none is free.
 */
int port_reserve(uint16_t first, uint16_t last, unsigned turn, uint16_t *ret);

#endif
