/* SPDX-License-Identifier: MIT */
/* shim.h - plenumrun's process beside an instance. */
#ifndef LAUNCHER_SHIM_H
#define LAUNCHER_SHIM_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launcher/control/control.h"
#include "launcher/control/dial.h"
#include "launcher/values/ports.h"

/** The outer shim sends this to the inner shim when the outer shim's parent (mpirun, orted) has
 * exited, and SIGTERM when that parent has asked the outer shim to stop. */
#define SHIM_ORPHAN_SIGNAL (SIGRTMIN + 1)

/** Exit status of the inner shim when plenumrun was lost. */
enum { SHIM_LOST = 3 };

/** A shim's task, from its environment. */
struct shim_task {
    char control[DIAL_TEXT_MAX]; /* plenumrun's address */
    char token[CONTROL_TOKEN_MAX];
    bool encrypted; /* encrypt the connection to plenumrun */
    char job[64];
    uint32_t instance, local_index;
    bool keep_loader;     /* keep the host's loader, if local_index is 0 */
    char status_port[8];  /* port of the loader's status page, "0": any; "none": no page */
    uint64_t grace_ns;    /* grace period, for the outer shim */
    uint64_t ignored;     /* signals that the program ignores (signals.h) */
    uint64_t descriptors; /* the program's soft limit; 0: unchanged */
    bool reserves_port;   /* the program will listen on one of `ports` */
    struct ports ports;
};

/** Run "plenumrun --shim", which mpirun or plenumrun (starter.h) starts. Returns its exit
 * status. */
int shim_main(void);

/** Run the inner shim in its own process; returns its exit status. `outer` is its parent. */
int shim_inner(const struct shim_task *task, pid_t outer);

#endif
