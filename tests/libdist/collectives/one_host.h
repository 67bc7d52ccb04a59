/* SPDX-License-Identifier: MIT */
/* one_host.h - starts the instances of a job on this host, like plenumrun, with shared memory for
 * their collectives. */
#ifndef TESTS_ONE_HOST_H
#define TESTS_ONE_HOST_H

#include <stdint.h>
#include <sys/types.h>

#include <plenum/plenum.h>

enum { ONE_HOST_MOST = 8 };

/** An instance's work, in its own process. Returns the exit status, 0 on success. */
typedef int one_host_instance(struct plenum_job *job, const void *arg);

struct one_host;

/** Start the instances. `wait` is how they wait for each other: a value of MEETING_WAIT_VARIABLE.
 * Ends the program if that fails. */
struct one_host *one_host_start(uint32_t instances, const char *wait, one_host_instance *run,
                                const void *arg);

/** Send a signal to an instance. */
void one_host_kill(struct one_host *host, uint32_t instance, int signal);

/** Wait for all instances, and free the host. Writes their exit statuses, and 1000 plus the signal
 * for those that a signal ended. */
void one_host_end(struct one_host *host, int statuses[ONE_HOST_MOST]);

#endif
