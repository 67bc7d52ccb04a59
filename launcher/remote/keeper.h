/* SPDX-License-Identifier: MIT */
/* keeper.h - plenumrun on a host that lends its cores to a job: it keeps a loader there. */
#ifndef LAUNCHER_KEEPER_H
#define LAUNCHER_KEEPER_H

/** The argument by which plenumrun knows that it is a keeper. */
#define KEEPER_ARGUMENT "--lend-loader"

/** What stands before the address on the one line that it prints. */
#define KEEPER_ANSWER "plenumrun-loader "

/** The line by which its input begins, behind empty lines, of which a login may have read some. */
#define KEEPER_GREETING "plenumrun\n"

/** An exit status. */
int keeper_main(void);

#endif
