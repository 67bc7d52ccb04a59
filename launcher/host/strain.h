/* SPDX-License-Identifier: MIT */
/* strain.h - what the kernel reports about a lack of CPU, memory and storage: for this process's
 * control group, and for this host. Files stay open; each is read at most once per call.
 *
 * Files that are missing count as no strain. */
#ifndef LAUNCHER_STRAIN_H
#define LAUNCHER_STRAIN_H

#include <stdbool.h>
#include <stdint.h>

enum strain_kind {
    STRAIN_THROTTLED, /* the control group, or one above it, had used up its CPU quota */
    STRAIN_STOLEN,    /* the hypervisor ran others while this host wanted CPU time */
    STRAIN_MEMORY,    /* a process of the control group (or of the host) waited for memory */
    STRAIN_CPU,       /* a process of the host waited for a CPU */
    STRAIN_IO,        /* a process of the host waited for storage */
    STRAIN_KINDS
};

/** Open files to read. Opaque. */
struct strain;

/** Open the files; with `host`, those about the host, too. Returns 0 or -ENOMEM. */
int strain_create(bool host, struct strain **ret);
/** NULL is ignored. */
void strain_destroy(struct strain *strain);

/** Get each kind's share of the time since the last call, in percent; 0 in the first call. */
void strain_read(struct strain *strain, uint64_t now_ns, uint8_t ret[STRAIN_KINDS]);

#endif
