/* SPDX-License-Identifier: MIT */
/* lend.h - plenumrun on a host that lends its cores to a job: it keeps a loader there. */
#ifndef LAUNCHER_LEND_H
#define LAUNCHER_LEND_H

/** The argument by which plenumrun knows that it is to lend. */
#define LEND_ARGUMENT "--lend-loader"

/** What stands before the address on the one line that it prints. */
#define LEND_ANSWER "plenumrun-loader "

/** An exit status. */
int lend_main(void);

#endif
