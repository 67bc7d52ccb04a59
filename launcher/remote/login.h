/* SPDX-License-Identifier: MIT */
/* login.h - keeps Open MPI's daemon on another host only for as long as its login lasts. */
#ifndef LAUNCHER_LOGIN_H
#define LAUNCHER_LOGIN_H

/** The argument that makes plenumrun, in a login on another host, run the command that follows. */
#define LOGIN_ARGUMENT "--login"

/**
 * Run the command `argv[2]`..., and end it (SIGTERM, later SIGKILL) when our standard output has
 * lost its reader or a signal asks us to end. Returns the command's exit status, or 128 plus the
 * number of the signal that ended it.
 */
int login_main(char **argv);

#endif
