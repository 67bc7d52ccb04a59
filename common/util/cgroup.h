/* SPDX-License-Identifier: MIT */
/* cgroup.h - the control groups of this process. */
#ifndef COMMON_CGROUP_H
#define COMMON_CGROUP_H

#include <stdint.h>

/** Prefix of /proc and /sys; "" except in tests. */
extern const char *cgroup_top;

/** A control group: where its files are, and their version. */
struct cgroup {
    const char *folder; /* "/sys/fs/cgroup/jobs/17": contains its files */
    const char *name;   /* "/jobs/17"; "" for the topmost group that the cgroup namespace shows */
    int version;        /* 1 or 2: the file names differ */
};

/** Call `visit` for this process's group and each of its ancestors that has files of `controller`
 *  ("memory", "cpu"). */
void cgroup_visit(const char *controller, void (*visit)(const struct cgroup *group, void *arg),
                  void *arg);

/** Read the number after `key` in a group's file of "key number" lines, or the whole file's if
 * `key` is NULL. Returns 0, or -ENOENT (no such file, or no number but "max"). */
int cgroup_read(const struct cgroup *group, const char *file, const char *key, uint64_t *ret);

/** Returns the CPU time that may be used, in thousandths of a CPU; 0: no limit. */
uint32_t cgroup_cpu_millicores(void);

#endif
