/* SPDX-License-Identifier: MIT */
/* keeper.h - plenumrun on a loader host: it keeps a loader there for a job. */
#ifndef LAUNCHER_KEEPER_H
#define LAUNCHER_KEEPER_H

/** The argument that makes plenumrun a keeper. */
#define KEEPER_ARGUMENT "--lend-loader"

/** Precedes the address on the one line that a keeper prints. */
#define KEEPER_ANSWER "plenumrun-loader "

/** The first line of a keeper's input, after empty lines, some of which the login may have read. */
#define KEEPER_GREETING "plenumrun\n"

/** Run plenumrun as a keeper. Returns an exit status. */
int keeper_main(void);

#endif
