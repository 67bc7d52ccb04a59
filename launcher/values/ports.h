/* SPDX-License-Identifier: MIT */
/* ports.h - the TCP ports on which a job listens to other hosts (--port-range), for firewalls.
 *
 *     first ........................ middle ........................ last
 *     | P d d d | P d d d | P d d d | connections between MPI programs |
 *
 * Each job on a launching host takes a block of the lower half. plenumrun listens on its port P;
 * Open MPI's daemons, on each host, on the block's ports d. MPI programs take one port each. */
#ifndef LAUNCHER_PORTS_H
#define LAUNCHER_PORTS_H

#include <stdint.h>

#include <plenum/error.h>

enum {
    PORTS_LEAST = 16,    /* smallest size of a range */
    PORTS_TEXT_MAX = 12, /* "65535-65535" with its NUL */
};

/** If zero-initialised, any port may be used. */
struct ports {
    uint16_t first, last;
};

/** Parse "20000-20999". Returns 0, or -EINVAL with a message. */
int ports_parse(const char *text, struct ports *ret, struct plenum_error *err);

/** Returns the number of blocks in the lower half; 0 if any port may be used. */
unsigned ports_count_blocks(const struct ports *ports);
/** Returns plenumrun's own port in a block. */
uint16_t ports_get_own(const struct ports *ports, unsigned block);
/** Returns the ports for Open MPI's daemons if plenumrun's port is `own`. */
struct ports ports_get_daemons(uint16_t own);
/** Returns the ports for MPI programs. */
struct ports ports_get_programs(const struct ports *ports);

#endif
