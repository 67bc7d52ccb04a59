/* SPDX-License-Identifier: MIT */
/* launch.h - runs plenumrun, from the command line to the exit status. */
#ifndef LAUNCHER_LAUNCH_H
#define LAUNCHER_LAUNCH_H

/** Run plenumrun as the user calls it. plenumrun.c runs the processes that it starts itself.
 * Returns its exit status. */
int launch_main(int argc, char **argv);

#endif
