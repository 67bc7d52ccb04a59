/* SPDX-License-Identifier: MIT */
/* interlude.h - what plenumrun does for its users while the job's programs do not run: before the
 * first start, and between an attempt and the next one. It takes signals, answers plenumctl job,
 * and polls --stop-command. There is one per process. */
#ifndef LAUNCHER_INTERLUDE_H
#define LAUNCHER_INTERLUDE_H

#include <stdint.h>

#include "common/util/message.h"
#include "launcher/job/supervise.h"

/** Begin. From here on, signals are blocked, and are read here or by supervise_run(), so that none
 * is lost between these. `job` is borrowed; NULL: there is none, only signals are taken. Returns 0
 * or -errno. */
int interlude_open(const struct supervise_job *job);
void interlude_close(void);

/** Returns the socket on which the job listens for plenumctl job, which an attempt takes over
 * (job_socket_take()). */
struct job_socket *interlude_get_socket(void);

/** Returns --stop-command, which an attempt takes over, too, because it may take longer than the
 * time between two attempts. */
struct stop_command *interlude_get_stop_command(void);

/** Take SIGUSR1 as a request to end the job, as before the first attempt, or ignore it, because the
 * job's programs do not call plenum_job_should_stop(). */
enum interlude_notices { INTERLUDE_OBEYS, INTERLUDE_IGNORES };
void interlude_set_notices(enum interlude_notices notices);

/** Wait until this time, or until the user ends the job. Returns 0, or the signal with which the
 * job ends; SIGTERM if another request ends it. Once it has returned a signal, all later calls
 * return it, too. SIGTSTP stops plenumrun; other signals are ignored, as no programs run. */
int interlude_wait(uint64_t end_ns);
/** Like interlude_wait(), without waiting and without --stop-command. Call it several times a
 * second while something takes long. */
int interlude_look(void);

/** End the job before its next start, as if interlude_wait() had noticed this. Only the first call,
 * or request, counts. `reason` NULL: the signal. */
MESSAGE void interlude_end(int signal, const char *reason);
/** Returns what has ended the job, such as "SIGTERM" or "plenumctl job stop"; "" if nothing has. */
const char *interlude_get_reason(void);

#endif
