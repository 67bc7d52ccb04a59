/* SPDX-License-Identifier: MIT */
/* signals.h - how signals affect plenumrun, its shims, and the programs they start. */
#ifndef LAUNCHER_SIGNALS_H
#define LAUNCHER_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Returns which of HUP, INT, QUIT and TERM are ignored, as set by nohup(1) and by shells without
 * job control: one bit (1 << signal) each. Programs are started with the same signals ignored. */
uint64_t signals_get_ignored(void);

/** Open a descriptor for the signals that plenumrun handles, like io_open_signals(), but without
 * ignored ones. Returns it (owned), or -errno. */
int signals_open(void);

/** Reset signals for a program: none blocked, and only these ignored. */
void signals_reset(uint64_t ignored);

/**
 * Ignore signals that would end or stop this process, except for its own faults, SIGKILL and
 * SIGSTOP. Signals that are blocked and read still arrive. Batch systems and users signal whole
 * process trees but mean the programs: a shim must survive that.
 */
void signals_ignore_strays(void);

/** The processes that forwarded the last SIGUSR1 and SIGUSR2, and the times; all zero: none yet. */
struct signals_handed {
    struct {
        uint64_t ns;
        pid_t from;
    } last[2];
};

/**
 * Returns whether `signal`, sent by process `from` (0: by plenumrun, as a message), may be
 * forwarded, and if so, remembers when it arrived. A batch system signals all processes of a job,
 * so one SIGUSR1 may arrive by several routes. A signal that arrives from another sender within a
 * second of the last is therefore dropped. Each process on the route checks this; otherwise the
 * next process would see two signals. Other signals are always forwarded.
 */
bool signals_may_hand_on(struct signals_handed *handed, int signal, pid_t from);

#endif
