/* SPDX-License-Identifier: MIT */
/* bind.h - binds a process to CPUs and memory, and reads the binding back from the kernel. */
#ifndef LAUNCHER_BIND_H
#define LAUNCHER_BIND_H

#include <stdbool.h>

#include <plenum/error.h>

#include "launcher/values/numa.h"
#include "launcher/values/ranges.h"

/** Sets of CPUs and NUMA nodes, in the kernel's own layout. Plain data, without pointers. */
struct bind_sets {
    unsigned long cpus[RANGES_WORDS(NUMA_CPUS_MAX)];
    unsigned long nodes[RANGES_WORDS(NUMA_NODES_MAX)];
};

struct bind_request {
    bool cpus; /* bind to sets.cpus */
    enum numa_policy memory;
    struct bind_sets sets;
};

/** What the kernel reports after the binding. */
struct bind_result {
    int cpus_error, memory_error; /* 0 or -errno from binding */
    enum numa_policy memory;      /* the policy in effect, on sets.nodes */
    struct bind_sets sets;
};

/** Parse the plan's texts into a request. Returns 0; or, with a message, -EINVAL (a list is
 * malformed) or -ERANGE (a number is too large). */
int bind_request_parse(const char *cpus, const char *nodes, bool bind_cpus, enum numa_policy memory,
                       struct bind_request *ret, struct plenum_error *err);

/**
 * Bind the calling thread and everything it will fork and execute, and read the binding back.
 *
 * Safe between fork() and exec(): system calls only.
 */
void bind_apply(const struct bind_request *request, struct bind_result *ret);

/** Check that the result matches the request. Returns 0, the -errno of the step that failed, or
 * -EXDEV if the kernel reported success but did something else. */
int bind_check(const struct bind_request *request, const struct bind_result *result);
/** Like bind_check(), but checks only CPUs. */
int bind_check_cpus(const struct bind_request *request, const struct bind_result *result);

#endif
