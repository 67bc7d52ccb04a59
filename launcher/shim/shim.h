/* SPDX-License-Identifier: MIT */
/* shim.h - plenumrun beside an instance. */
#ifndef LAUNCHER_SHIM_H
#define LAUNCHER_SHIM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/control.h"
#include "launcher/dial.h"

/** By which the outer shim tells the inner one that its own parent (mpirun, orted) is gone. SIGTERM
 * tells that mpirun wants the end. */
#define SHIM_ORPHAN_SIGNAL (SIGRTMIN + 1)

/** Exit status of the inner shim when plenumrun was lost. */
enum { SHIM_LOST = 3 };

/** What a shim is told by its environment. */
struct shim_task {
    char control[DIAL_TEXT_MAX]; /* where plenumrun listens */
    char token[CONTROL_TOKEN_MAX];
    bool encrypted; /* the connection to plenumrun */
    char job[64];
    uint32_t instance, local_index;
    bool keep_loader;     /* when local_index is 0 */
    char status_port[8];  /* of its status page, "0": any; "none": it has none */
    uint64_t grace_ns;    /* until plenumrun has told another */
    uint64_t ignored;     /* signals, by the program (signals.h) */
    uint64_t descriptors; /* the program's soft limit; 0: as it is */
};

/** The program "plenumrun --shim", started by mpirun or by plenumrun (starter.h): its exit
 * status. */
int shim_main(void);

/** What the inner shim does, in its process: its exit status. `outer` is its parent. */
int shim_inner(const struct shim_task *task, pid_t outer);

#endif
