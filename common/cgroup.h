/* SPDX-License-Identifier: MIT */
/* cgroup.h - the control groups that this process is in. */
#ifndef COMMON_CGROUP_H
#define COMMON_CGROUP_H

#include <stdint.h>

/** In front of /proc and /sys; "" but in tests. */
extern const char *cgroup_top;

/** One group, and what a reader of its files must know. */
struct cgroup {
    const char *folder; /* "/sys/fs/cgroup/jobs/17": its files are in there */
    const char *name;   /* "/jobs/17"; "" for the topmost, as the cgroup name space shows it */
    int version;        /* 1 or 2: the names of the files differ */
};

/** Call `visit` for the group of this process, and each above it, that has files of `controller`
 * ("memory", "cpu"). */
void cgroup_visit(const char *controller, void (*visit)(const struct cgroup *group, void *arg),
                  void *arg);

/** The number behind `key` in a group's file of "key number" lines, or the whole file's when `key`
 * is NULL: 0, or -ENOENT (no file, no number: "max"). */
int cgroup_read(const struct cgroup *group, const char *file, const char *key, uint64_t *ret);

/** CPU time that may be used, in thousandths of a CPU; 0: as much as there is. */
uint32_t cgroup_cpu_millicores(void);

#endif
