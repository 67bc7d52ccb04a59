/* SPDX-License-Identifier: MIT */
/* launch.h - from the command line to the exit status. */
#ifndef LAUNCHER_LAUNCH_H
#define LAUNCHER_LAUNCH_H

/** plenumrun, apart from its shim: its exit status. */
int launch_main(int argc, char **argv);

#endif
