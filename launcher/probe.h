/* probe.h - asks other hosts directly why an instance does not start there. */
#ifndef LAUNCHER_PROBE_H
#define LAUNCHER_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

struct probe {
    const char *host;
    bool failed;
    struct plenum_error text; /* what is wrong, naming the host; when `failed` */
};

/**
 * Log in to each host as mpirun would, all at once, and look whether `self` and `directory` are
 * there; at most `limit_ms`.
 *
 * Errors: -errno when nothing could be asked.
 */
int probe_hosts(struct probe *probes, uint32_t count, const char *self, const char *directory,
                int limit_ms);

#endif
