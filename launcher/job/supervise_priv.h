/* SPDX-License-Identifier: MIT */
/* supervise_priv.h - the job as plenumrun sees it, shared by supervise.c (the loop), instances.c
 * (what is said between plenumrun and the shims) and failure.c (what is said at the end). */
#ifndef LAUNCHER_SUPERVISE_PRIV_H
#define LAUNCHER_SUPERVISE_PRIV_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/frame.h"
#include "common/meeting.h"
#include "common/message.h"
#include "launcher/control.h"
#include "launcher/dial.h"
#include "launcher/job/output.h"
#include "launcher/job/report.h"
#include "launcher/job/starter.h"
#include "launcher/job/supervise.h"
#include "launcher/lines.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/loaders.h"

#define SUPERVISE_NEVER UINT64_MAX

enum { SUPERVISE_INPUT_BYTES = 64 * 1024 }; /* of standard input, on their way to instance 0 */

/* What may follow each phase is a table in supervise.c. */
enum phase { JOB_STARTING, JOB_RUNNING, JOB_ENDING, JOB_CLOSING, JOB_PHASES };

/* What may follow each state is a table in instances.c. */
enum instance_state {
    INSTANCE_ABSENT,  /* no shim has connected */
    INSTANCE_PRESENT, /* it has, and waits for the plan */
    INSTANCE_PLANNED, /* it has the plan */
    INSTANCE_ALIVE,   /* its program runs */
    INSTANCE_EXITED,  /* its program has ended, output may still come */
    INSTANCE_DONE,    /* nothing more will come */
    INSTANCE_STATES
};

struct instance {
    enum instance_state state;
    struct peer *peer; /* NULL: not connected, or not any more */
    uint64_t heard_ns;
    uint64_t output_ns; /* when its program last printed something; 0: never */
    char *loader;       /* where its host's loader, which it keeps, listens; NULL: it keeps none */
    uint32_t pid;       /* of its program; 0: not started */
    uint64_t started_ns;
    bool lost;
    bool asked;     /* mpirun, or its daemon, has asked it to end */
    int stopped_by; /* the signal by which somebody has stopped its program; 0: it runs */
    struct control_failed failed;
    bool has_failed; /* to start */
    struct control_exited exited;
    bool has_exited;
    bool left;          /* its outer shim: LEAVE was sent */
    uint64_t exited_ns; /* when that was heard */
    char *tail;         /* last lines of its standard error */
};

/* A connection. */
struct peer {
    struct frame_conn conn;
    struct instance *instance; /* NULL: a stranger, which has not said HELLO */
    uint64_t since_ns;
    uint64_t moved_ns; /* when a stranger last said something; 0: it has not */
    struct dial_peer from;
    uint64_t round; /* of instances_accept(), in which it came */
    size_t mates;   /* how many other strangers there are from its host */
};

/* Connections of those who are no shims of this job. */
struct strangers {
    size_t count;     /* that are kept now */
    uint64_t round;   /* of instances_accept() */
    uint64_t dropped; /* for want of room */
    uint64_t refused; /* processes of other users of this host */
    struct dial_peer
        worst; /* whose host had most when the last was dropped; who was refused last */
};

struct supervisor {
    const struct supervise_job *job;
    struct plan *plan;
    char id[32], token[CONTROL_TOKEN_MAX];

    enum phase phase;
    struct instance *instances; /* [num_instances] */
    struct peer **peers;
    size_t num_peers, peers_cap;
    struct strangers strangers;
    unsigned long *shown; /* whose output is; NULL: everybody's */
    uint16_t master_port;
    bool plans_sent, table_printed;

    struct meeting_server *place; /* of the programs, where no MPI carries their collectives */
    char place_address[MEETING_ADDRESS_MAX];

    struct tls *tls; /* of the control connections; NULL: they are not encrypted */
    int listener, signal_fd;
    char control[DIAL_TEXT_MAX];            /* where the listener can be reached */
    uint64_t deaf_until;                    /* no descriptor is left for those who connect */
    struct loaders *loaders;                /* or NULL */
    struct environ_list loader_environment; /* of theirs */
    struct starter starter;
    bool starter_ended; /* its status has come */
    int starter_status;
    struct instance *orphan; /* the first whose process of Open MPI is gone */
    bool starter_gone;       /* and its guard with all of its process tree */
    uint64_t starter_gone_ns;
    struct lines text; /* what it prints */
    struct tail text_tail;

    struct output *output;
    bool output_unread; /* some of what a program printed could not be read */
    int output_failure; /* that was told of, or 0 */
    bool input_ended;
    uint64_t input_in_flight;

    struct report report;
    int status;     /* plenumrun's exit status, at the end */
    int interrupts; /* how often somebody wanted us to end */
    bool hurry;     /* do not even wait for the output */

    uint64_t turn_ns; /* when the loop last came round */
    /* When something is due; NEVER: nothing. */
    uint64_t beat_at, start_at, timeout_at, kill_at, reason_at, close_at, end_starter_at,
        abandon_at;
};

/* What starts the instances, as a person knows it. */
static inline const char *starter_name(const struct supervisor *s)
{
    return s->job->mpirun ? "mpirun" : "the starter";
}

static inline uint32_t instance_index(const struct supervisor *s, const struct instance *inst)
{
    assert(inst >= s->instances && inst < s->instances + s->plan->num_instances);
    return (uint32_t)(inst - s->instances);
}

static inline struct plan_host *instance_host(const struct supervisor *s,
                                              const struct instance *inst)
{
    return &s->plan->hosts[s->plan->instances[instance_index(s, inst)].host];
}

/* ---- supervise.c ---- */

/** The first failure ends the job; later ones are its consequences and are not noted. */
void supervise_fail(struct supervisor *s, const struct report *report);
MESSAGE_FORMAT(4, 5)
void supervise_fail_with(struct supervisor *s, enum report_kind kind, const struct instance *inst,
                         const char *format, ...);

/** The starter has ended or wants the end: it is blamed if nobody gives a better reason very
 * soon. */
void supervise_expect_reason(struct supervisor *s);

/* ---- instances.c ---- */

/** Have all come as far as `state`? */
bool instances_are(const struct supervisor *s, enum instance_state state);
/** "instance 1 on host a, 4 instances on host b": those that have not, on `hosts` (by number; NULL:
 * on all). */
void instances_list_missing(const struct supervisor *s, enum instance_state state,
                            const bool *hosts, char *ret, size_t size);

/** Take connections that wait, but no more than some: others have their turn, too. */
void instances_accept(struct supervisor *s);
/** "; meanwhile ...": what strangers did that may have kept instances from connecting; "" when they
 * did nothing. */
void instances_describe_strangers(const struct supervisor *s, char *ret, size_t size);
/** Read what a connection holds, and do as it says. May drop the peer. */
void instances_read(struct supervisor *s, struct peer *peer);
/** Send what is pending. May drop peers. */
void instances_flush(struct supervisor *s);
/** Drop all connections. */
void instances_close(struct supervisor *s);

/** Fill in what this host's topology, or that of another, makes of the plan. */
void instances_place(struct supervisor *s, struct plan_host *host, hwloc_topology_t topology,
                     bool real);
/** It cannot be had: a warning, or the end of a job that wants strict binding. */
MESSAGE void instances_cannot_place(struct supervisor *s, struct plan_host *host, const char *why);
/** Send everybody the plan, if all hosts are known. */
void instances_send_plans(struct supervisor *s);
void instances_send_number(struct supervisor *s, enum control_type type, uint64_t number);
void instances_send_empty(struct supervisor *s, enum control_type type);

/** Say that we are here; lose those who have not for too long. */
void instances_beat(struct supervisor *s, uint64_t now);
/** Who has said nothing for the longest time, if that is more than some beats; or NULL. */
const struct instance *instances_find_silent(const struct supervisor *s, uint64_t now,
                                             uint64_t *ret_silence_ns);

/** Does instance 0 want our standard input now? */
bool instances_want_input(const struct supervisor *s);
void instances_send_input(struct supervisor *s, const char *bytes, size_t len);
/** Hand out credit for what was written. */
void instances_send_credit(struct supervisor *s);

/* ---- failure.c ---- */

/** Of programs that failed in a row, the first need not be the first to end: whose traceback came
 * first is the cause. To be called when all have ended. */
void failure_find_cause(struct supervisor *s);
/** The first sentence that mpirun printed, or how it ended where it printed none: in one line. */
void failure_get_words(const struct supervisor *s, char *ret, size_t size);
/** Tell what went wrong, the cause last. Nothing when nothing did. */
void failure_print(const struct supervisor *s);

/* ---- result.c ---- */

/** Write --result: 0, or -errno, which it reports. */
int result_write(const struct supervisor *s);
/** A table of all instances and what they are doing, for people who wonder. Owned by the caller;
 * NULL when memory is short. */
char *result_table(const struct supervisor *s);

#endif
