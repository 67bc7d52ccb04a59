/* SPDX-License-Identifier: MIT */
/* many_hosts.h - starts the instances of a job on several virtual hosts: each has its own memory,
 * and they are connected through the loopback interface. */
#ifndef TESTS_MANY_HOSTS_H
#define TESTS_MANY_HOSTS_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/plenum.h>

enum { MANY_HOSTS_MOST = 8 };

/** An instance's work, in its own process. Returns the exit status, 0 on success. */
typedef int many_hosts_instance(struct plenum_job *job, const void *arg);

struct many_hosts;

/** Start the instances. Without TLS in this build, nothing is encrypted.
 *
 * @param counts  [hosts]: the instances of each */
struct many_hosts *many_hosts_start(const uint32_t *counts, uint32_t hosts, bool encrypted,
                                    many_hosts_instance *run, const void *arg);

/** Returns the port of the instance with this local index, which is reserved until the end. */
uint16_t many_hosts_port(const struct many_hosts *all, uint32_t host, uint32_t local);

void many_hosts_kill(struct many_hosts *all, uint32_t instance, int signal);

/** Wait for all instances, and free all. Writes their exit statuses, and 1000 plus the signal for
 * those that a signal ended. */
void many_hosts_end(struct many_hosts *all, int statuses[MANY_HOSTS_MOST]);

#endif
