/* SPDX-License-Identifier: MIT */
/* signals.h - what signals do to plenumrun, its shims, and what they start. */
#ifndef LAUNCHER_SIGNALS_H
#define LAUNCHER_SIGNALS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/** Which of HUP, INT, QUIT and TERM are ignored, as nohup(1) and shells without job control set it:
 * a bit (1 << signal) each. The programs are started with the same signals ignored. */
uint64_t signals_get_ignored(void);

/** Have the signals that plenumrun answers come by a descriptor, as io_open_signals() does, but for
 * those that are ignored: it (owned), or -errno. */
int signals_open(void);

/** As a program expects them: nothing blocked, nothing ignored but these. */
void signals_reset(uint64_t ignored);

/**
 * Ignore what would end or stop this process, but for faults of its own, SIGKILL and SIGSTOP.
 * Signals that are blocked and waited for come nevertheless. Batch systems and people signal whole
 * trees of processes, and mean the programs: a shim shall not fall.
 */
void signals_ignore_strays(void);

/** The last SIGUSR1 and the last SIGUSR2 that a process handed on; all zero: none yet. */
struct signals_handed {
    struct {
        uint64_t ns;
        pid_t from;
    } last[2];
};

/**
 * May `signal`, sent by the process `from` (0: by plenumrun, as a message), be handed on? A batch
 * system signals all processes of a job, so one SIGUSR1 may come by several ways, which is one
 * signal: another sender's within a second of the last is refused. Each process on the way asks:
 * else its two would look like two of its own to the next. Other signals always may.
 */
bool signals_may_hand_on(struct signals_handed *handed, int signal, pid_t from);

#endif
