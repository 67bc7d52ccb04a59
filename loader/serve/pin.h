/* SPDX-License-Identifier: MIT */
/* pin.h - assigns workers to CPUs. */
#ifndef LOADER_SERVE_PIN_H
#define LOADER_SERVE_PIN_H

#include <stddef.h>

#include <plenum/error.h>

enum pin_policy {
    PIN_CORE, /* each worker on its own CPU, cores before hyperthreads; further workers share */
    PIN_NODE, /* each worker on the CPUs of one NUMA node, shared with other processes */
    PIN_NONE, /* the scheduler decides */
};

/** The machine as hwloc sees it, restricted to the CPUs that this process may use. Opaque. */
struct pin;

int pin_create(enum pin_policy policy, struct pin **ret, struct plenum_error *err);
void pin_destroy(struct pin *pin);

/** Returns the number of CPUs that this process may use, at least 1. */
unsigned pin_cpus(const struct pin *pin);

/** Returns the number of NUMA nodes with CPUs that this process may use; 1 with PIN_NONE. */
unsigned pin_count_nodes(const struct pin *pin);

/** Returns the node of worker `index`. */
unsigned pin_node_of_worker(const struct pin *pin, unsigned index);

/** Returns the node that holds most of this memory, or 0 if the kernel does not report it. Reads
 * some of its bytes. */
unsigned pin_node_of_memory(const struct pin *pin, const void *base, size_t bytes);

/** Bind the calling thread as worker `index`. It is not an error if the kernel refuses: the thread
 * then runs anywhere. */
void pin_worker(const struct pin *pin, unsigned index);

/** Let this process use every CPU that its control group allows, whatever affinity it inherited. */
void pin_widen(void);

#endif
