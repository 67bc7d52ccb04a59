/* SPDX-License-Identifier: MIT */
/* elastic.h - chooses the hosts of each start of a job with --num-hosts or --min-hosts. */
#ifndef LAUNCHER_ELASTIC_H
#define LAUNCHER_ELASTIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "launcher/job/job_hosts.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/ready.h"

struct cmdline;

/** Opaque. */
struct elastic;

/**
 * Check the options against the hosts. Takes `hosts`, even if it fails; the options are borrowed.
 *
 * Errors: -EINVAL with a message; -ENOMEM.
 */
int elastic_create(const struct cmdline *options, struct job_hosts *hosts, struct elastic **ret,
                   struct plenum_error *err);
/** NULL is ignored. */
void elastic_destroy(struct elastic *elastic);

/** Plan the job as if all hosts were ready. */
int elastic_plan(const struct elastic *elastic, struct plan *ret, struct plenum_error *err);

/**
 * Before a start: read the lists of hosts again (unless it is the first), check all hosts, wait
 * until enough of them are ready, and replace the plan.
 *
 * @param end_ns  when the job must have ended (--timeout)
 * @param ret_signal  the signal with which the user has ended the wait, otherwise 0
 *
 * Returns 0, or an exit status after an error message (without a message if a signal ended the
 * wait).
 */
int elastic_prepare(struct elastic *elastic, const struct ready_request *request, uint64_t end_ns,
                    struct plan *plan, struct ready *ret, int *ret_signal);

/** Forget how often hosts have failed, so that excluded hosts are checked again. */
void elastic_pardon(struct elastic *elastic);

/**
 * While a start runs: read the lists of hosts again, check those that are not in use, and look
 * whether the next start would have more hosts than this one. Overwrites the states of hosts, so
 * call it in a separate process. Log lines go to standard error.
 *
 * Returns whether it would, and in `ret` the hosts of that start, or why it would not.
 */
bool elastic_find_more(struct elastic *elastic, const struct ready_request *request, char *ret,
                       size_t size);

/** After a start: remember the hosts that have failed (struct plan_host). `why`: the reason. */
void elastic_note_end(struct elastic *elastic, const struct plan *plan, const char *why);

#endif
