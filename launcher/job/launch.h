/* SPDX-License-Identifier: MIT */
/* launch.h - runs plenumrun, from the command line to the exit status. */
#ifndef LAUNCHER_LAUNCH_H
#define LAUNCHER_LAUNCH_H

/** Run plenumrun, except for its shim. Returns its exit status. */
int launch_main(int argc, char **argv);

#endif
