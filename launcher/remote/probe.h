/* SPDX-License-Identifier: MIT */
/* probe.h - asks other hosts, all at once, whether a job could run there. */
#ifndef LAUNCHER_PROBE_H
#define LAUNCHER_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/message.h"
#include "launcher/network.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/agent.h"
#include "launcher/texts.h"

/** The argument by which plenumrun knows that it is asked, on another host. */
#define PROBE_ARGUMENT "--probe"

struct probe_question {
    const struct agent_settings *agent;
    const char *program;   /* of the job */
    const char *path;      /* where programs are looked for; NULL: as it is there */
    const char *self;      /* plenumrun's own file */
    const char *directory; /* where the programs will run */
    /* where plenumrun listens (dial_listen()), and on which descriptor, whose connections are
     * closed as they come; NULL: hosts are not asked to connect */
    const char *back;
    int listener; /* -1: they may stay */
    /* time during which this process is stopped does not count */
    int limit_ms;
};

/** One host, and what it said. */
struct probe {
    const struct plan_host *host;
    bool loader; /* a loader shall run there, and no program of the job */
    bool failed;
    char step[32];  /* at which it failed: "log in" */
    char what[512]; /* and why */
    /* When it has not failed. */
    uint64_t memory_free, memory_total; /* bytes; 0: not told */
    int64_t clock_ns;                   /* its clock is so far ahead of ours, at least */
    uint64_t took_ns;
    char no_tls[200];  /* why keys cannot be used there; "": they can, or it was not told */
    struct texts back; /* "10.1.2.3 0" or "10.1.2.3 REASON": how it did to connect there */
    struct network network;
};

/**
 * Log in to each host as mpirun would, and have plenumrun there look at what the job needs: itself
 * in the same version, the working directory, the program, memory, clock, addresses.
 *
 * Returns how many have failed, or -errno when nothing could be asked; and for how long we were
 * stopped meanwhile. probe_fini() each.
 */
int probe_hosts(const struct probe_question *question, struct probe *probes, uint32_t count,
                uint64_t *ret_stopped_ns);
void probe_fini(struct probe *probe);

/** Note a failure, unless there is one. */
MESSAGE_FORMAT(3, 4)
void probe_fail(struct probe *probe, const char *step, const char *format, ...);

/** Note a failure when the host could not connect to plenumrun at `own` (an address), or, where
 * that is NULL, at any address. `port` is plenumrun's. A host that was not asked, or did not answer
 * the question, has not failed. */
void probe_check_back(struct probe *probe, const char *own, unsigned port);

/** A table of those that have failed, and "2 of 3 hosts are not ready" as its title. Owned by the
 * caller; NULL when memory is short. */
char *probe_table(const struct probe *probes, uint32_t count, char *title, size_t size);

/** What one host printed, as far as it was understood: fills `ret` (for the tests). */
void probe_read_answer(char *text, uint64_t asked_ns, uint64_t heard_ns, struct probe *ret);

/** "plenumrun --probe VERSION DIRECTORY PROGRAM PATH [ADDRESSES MS]", on the other host: prints the
 * answer. */
int probe_answer(int argc, char **argv);

#endif
