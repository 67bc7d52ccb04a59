/* SPDX-License-Identifier: MIT */
/* supervise_priv.h - plenumrun's view of the job, shared by supervise_start.c (its beginning),
 * supervise.c (the loop), instances.c, peers.c and instance_plans.c (messages between plenumrun and
 * the shims), stop.c (the agreed stop), job_socket.c (plenumctl job), interlude.c (between
 * attempts), grow.c (growth), hung.c and slow_watch.c (hung programs and slow hosts), and failure.c
 * and result.c (the reports). */
#ifndef LAUNCHER_SUPERVISE_PRIV_H
#define LAUNCHER_SUPERVISE_PRIV_H

#include <assert.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "common/job/jobctl.h"
#include "common/job/meeting.h"
#include "common/job/stop_page.h"
#include "common/net/frame.h"
#include "common/util/list.h"
#include "common/util/message.h"
#include "launcher/control/control.h"
#include "launcher/control/dial.h"
#include "launcher/control/lines.h"
#include "launcher/host/capture.h"
#include "launcher/job/agree.h"
#include "launcher/job/daemons.h"
#include "launcher/job/departures.h"
#include "launcher/job/output.h"
#include "launcher/job/report.h"
#include "launcher/job/slow.h"
#include "launcher/job/starter.h"
#include "launcher/job/stop_command.h"
#include "launcher/job/supervise.h"
#include "launcher/plan/plan.h"
#include "launcher/remote/remote_loaders.h"

#define SUPERVISE_NEVER UINT64_MAX

enum {
    SUPERVISE_INPUT_BYTES = 64 * 1024, /* standard input on its way to instance 0 */
    SUPERVISE_BEAT_MS = 1000,
    SUPERVISE_DEAF_MS = 500, /* pause after accept() has run out of descriptors */
};

/* The allowed transitions are a table in supervise.c. JOB_RESTING is not in it, because no attempt
 * is in progress then (interlude.c). */
enum phase { JOB_STARTING, JOB_RUNNING, JOB_ENDING, JOB_CLOSING, JOB_PHASES, JOB_RESTING };

/* The allowed transitions are a table in instances.c. */
enum instance_state {
    INSTANCE_ABSENT,  /* no shim has connected */
    INSTANCE_PRESENT, /* its shim has connected and waits for the plan */
    INSTANCE_PLANNED, /* it has the plan */
    INSTANCE_ALIVE,   /* its program is running */
    INSTANCE_EXITED,  /* its program has ended, output may still arrive */
    INSTANCE_DONE,    /* nothing more will arrive */
    INSTANCE_STATES
};

struct instance {
    enum instance_state state;
    struct shim_peer *peer; /* NULL: not connected, or no longer */
    uint64_t heard_ns;
    uint64_t output_ns;  /* when its program last printed something; 0: never */
    char *loader;        /* address of its host's loader, if its shim keeps one; otherwise NULL */
    uint32_t pid;        /* process ID of its program; 0: not started */
    uint16_t place_port; /* reserved for its program's collectives; 0: none */
    uint64_t started_ns;
    bool lost;
    bool silent;    /* lost because its shim was silent for too long */
    bool asked;     /* mpirun or its daemon has requested its end */
    int stopped_by; /* the signal that stopped its program; 0: it is running */
    struct control_failed failed;
    bool has_failed; /* its program did not start */
    struct control_exited exited;
    bool has_exited;
    bool left;          /* its outer shim was sent LEAVE */
    uint64_t exited_ns; /* when its end was reported */
    /* When its host's first shim reported the end of a process that had joined the memory for
     * collectives, and that process; 0: not. */
    uint64_t seen_ns;
    pid_t seen_pid;
    uint64_t ended_ns; /* when its program was seen to have ended: then, or before */
    uint64_t halted;   /* 1 + the step that it must not begin; 0: none */
    bool paced;        /* its steps are known: own time, and wait for batches, of the last one */
    uint64_t own_ns, wait_ns;
    uint64_t hung_ns; /* its program had made no progress for this long; 0: nothing is known */
    char *stacks;     /* of its threads at that time, or NULL */
    char *tail;       /* last lines of its program's standard error */
};

/* A connection. */
struct shim_peer {
    struct frame_conn conn;
    struct instance *instance; /* NULL: a stranger, which has not sent HELLO */
    uint64_t since_ns;
    uint64_t moved_ns; /* when a stranger last sent something; 0: never */
    struct dial_peer from;
    uint64_t round;           /* the round of instances_accept() that accepted it */
    size_t at;                /* its index in `peers` */
    struct list link;         /* in the list of strangers */
    struct list unsent;       /* in the list of those to be flushed, ... */
    struct list *unsent_list; /* ... which is this one */
    bool watched;             /* the kernel reports when it can be written to, too */
};

enum { STRANGERS_BUCKETS = 1024 };

/* Connections that do not belong to a shim of this job, or not yet. */
struct strangers {
    struct list list; /* of peers */
    /* How many there are of each host, by a hash of its address that others cannot predict. Hosts
     * in one bucket count as one. */
    uint64_t seed;
    uint32_t of_host[STRANGERS_BUCKETS];
    size_t count;           /* open at the moment */
    uint64_t round;         /* of instances_accept() */
    uint64_t dropped;       /* dropped because there were too many */
    uint64_t refused;       /* refused processes of this host's other users */
    struct dial_peer worst; /* host with the most when the last was dropped; last one refused */
};

/* The agreed stop (stop.c). */
struct stop {
    struct agreement agreement;
    uint32_t awaited; /* all instances before this one have ended, or know that they must stop */
    bool noticed;     /* the programs were asked to stop */
    bool pending;     /* a program was sent SIGUSR1, perhaps before all have started */
    bool held;        /* plenumrun was sent SIGUSR1 before all have started */
    bool early;       /* plenumrun was sent SIGUSR1, and the programs could not be asked to stop */
    bool growing;     /* only to continue on more hosts */
    bool terminated;  /* SIGTERM was such a request: the next one ends the job */
    uint64_t by;      /* when all programs must have ended or know that they stop, or NEVER */
    struct stop_command command;
};

enum { JOB_CLIENTS_MAX = 8 };

/* plenumctl job, connected (job_socket.c). */
struct job_socket {
    int listener;        /* -1: none */
    uint64_t deaf_until; /* accept no client until then, because we are out of descriptors */
    struct job_client {
        struct frame_conn conn;
        uint64_t until; /* when it is dropped */
        bool answered;
        bool growing; /* it waits for the answer to GROW */
    } clients[JOB_CLIENTS_MAX];
    size_t count;
};

struct supervisor {
    const struct supervise_job *job;
    struct plan *plan;
    char id[32], token[CONTROL_TOKEN_MAX];

    enum phase phase;
    struct instance *instances;       /* [num_instances] */
    uint32_t counts[INSTANCE_STATES]; /* how many instances are in each state */
    struct shim_peer **peers;
    size_t num_peers, peers_cap;
    int peers_fd;              /* an epoll set of all peers */
    struct list unsent;        /* of peers: those to be flushed in this turn */
    struct epoll_event *ready; /* peers that are being read; .data.ptr NULL: dropped */
    int num_ready;
    struct strangers strangers;
    unsigned long *shown; /* instances whose output is shown; NULL: all */
    uint16_t master_port;
    bool plans_sent, table_printed;

    struct meeting_server *place; /* where programs meet if MPI does not carry their collectives */
    char place_address[MEETING_ADDRESS_MAX];
    char place_key[2 * MEETING_SECRET_BYTES + 1]; /* between hosts; "": MPI is used there */

    struct tls *tls; /* for the control connections; NULL: not encrypted */
    int listener, signal_fd;
    char control[DIAL_TEXT_MAX]; /* the listener's address */
    uint64_t deaf_until; /* accept no connection until then, because we are out of descriptors */
    struct remote_loaders *loaders;         /* or NULL */
    struct environ_list loader_environment; /* the environment of these loaders */
    struct starter starter;
    bool starter_ended; /* its status has arrived */
    int starter_status;
    struct instance *orphan; /* the first instance whose Open MPI process is gone */
    bool starter_gone;       /* its guard is gone, too, with the whole process tree */
    uint64_t starter_gone_ns;
    struct lines text; /* what the starter prints */
    struct tail text_tail;
    struct daemon_failure daemon; /* what it has printed about a daemon that cannot run */

    struct output *output;
    bool output_unread; /* some output of a program could not be read */
    int output_failure; /* output error that was reported, or 0 */
    bool input_ended;
    uint64_t input_in_flight;

    struct departures departures;
    struct stop stop;
    bool idle_warned;      /* that --progress-timeout has no effect */
    struct capture growth; /* looks for more hosts (grow.c) */
    struct slow *slow;     /* which hosts are slow (slow_watch.c) */
    struct job_socket socket;
    struct instance *suspect; /* has failed, perhaps because of another end (failure.c); or NULL */
    struct report report;
    int status;     /* plenumrun's exit status, at the end */
    int interrupts; /* how often the user has interrupted the job */
    bool hurry;     /* do not wait, not even for the output */

    uint64_t turn_ns; /* when the loop last ran */
    /* Deadlines; NEVER: not set. */
    uint64_t beat_at, start_at, timeout_at, kill_at, reason_at, close_at, end_starter_at,
        abandon_at, hung_at, suspect_at;
};

/* Returns the starter's name, as users know it. */
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

static inline bool instance_wants_input(const struct supervisor *s, uint32_t instance)
{
    return instance == 0 && !s->job->output->no_stdin;
}

/* ---- supervise_start.c ---- */

/** Parse --only-output-from-instance. Returns 0, or -errno with an error about the option. */
int supervise_read_shown(struct supervisor *s, struct plenum_error *err);
/** Open everything that the job needs, and start the starter. Returns 0, or -errno with an error.
 * From here on, log lines go through the job's output. */
int supervise_start(struct supervisor *s, struct plenum_error *err);
/** Exempt the log lines that follow from the limit on queued messages. */
void supervise_log_last_words(void);

/* ---- supervise.c ---- */

/** Record the failure and end the job. Only the first is recorded: later ones are its
 * consequences. */
void supervise_fail(struct supervisor *s, const struct report *report);
MESSAGE_FORMAT(4, 5)
void supervise_fail_with(struct supervisor *s, enum report_kind kind, const struct instance *inst,
                         const char *format, ...);

/** Handle the user's request to end the job. The first time, pass this signal to the programs, or
 * end the job if it is still starting; after that, kill it. */
void supervise_interrupt(struct supervisor *s, int signal);

/** Note that the starter has ended or is about to. It is the cause unless a better one arrives very
 * soon. */
void supervise_expect_reason(struct supervisor *s);

/* ---- instances.c and peers.c ---- */

/** Move an instance to its next state. */
void instance_move(struct supervisor *s, struct instance *inst, enum instance_state to);

/** Returns whether all instances have reached `state`. */
bool instances_are(const struct supervisor *s, enum instance_state state);
/** List the instances that have not reached `state`, on `hosts` (by number; NULL: on all):
 * "instance 1 on host a, 4 instances on host b". */
void instances_list_missing(const struct supervisor *s, enum instance_state state,
                            const bool *hosts, char *ret, size_t size);

/** Accept waiting connections, a limited number at a time so that other work is not delayed. */
void instances_accept(struct supervisor *s);
/** Describe connections of strangers that may have kept instances from connecting: "; meanwhile
 * ..."; "" if there were none. */
void instances_describe_strangers(const struct supervisor *s, char *ret, size_t size);
/** Read what a connection holds and act on it. May drop the peer. */
void instances_read(struct supervisor *s, struct shim_peer *peer);
/** Send pending bytes. May drop peers. */
void instances_flush(struct supervisor *s);
/** Drop all connections. */
void instances_close(struct supervisor *s);

/** Notify the running instances of others that have ended, if a round of such messages is due. */
void instances_tell_departed(struct supervisor *s, uint64_t now);

/** Place and bind the host's instances in the plan, according to its topology. Ends the job if that
 * is impossible. */
void instances_place(struct supervisor *s, struct plan_host *host, hwloc_topology_t topology,
                     bool real);
/** Warn that nothing is bound on this host, or end the job if it requires strict binding. `why`:
 * the reason. */
MESSAGE void instances_cannot_place(struct supervisor *s, struct plan_host *host, const char *why);
void instances_send_number(struct supervisor *s, enum control_type type, uint64_t number);
void instances_send_empty(struct supervisor *s, enum control_type type);

/** Send heartbeats and due LEAVE messages, and count as lost the instances whose shims have been
 * silent for too long, or do not read. */
void instances_beat(struct supervisor *s, uint64_t now);
/** Returns the instance that has been silent for longest, if that exceeds a few heartbeats; or
 * NULL. */
const struct instance *instances_find_silent(const struct supervisor *s, uint64_t now,
                                             uint64_t *ret_silence_ns);

/** Returns whether to read standard input for instance 0 now. */
bool instances_want_input(const struct supervisor *s);
void instances_send_input(struct supervisor *s, const char *bytes, size_t len);
/** Grant credit for output that was written, and report errors of writing. */
void instances_send_credit(struct supervisor *s);

/* ---- peers.c ---- */

/** Prepare for connections: 0 or -errno. */
int peers_open(struct supervisor *s);
/** Read the peers that have sent something. May drop peers. */
void peers_read(struct supervisor *s);
/** Stop counting a peer as a stranger, because it has identified itself. */
void peers_discount(struct supervisor *s, struct shim_peer *peer);
void peers_drop(struct supervisor *s, struct shim_peer *peer);
/** Drop strangers that have not identified themselves in time. */
void peers_drop_late(struct supervisor *s, uint64_t now);
/** Close a connection that broke, or that delivered a malformed frame; its instance is lost. */
void peers_hang_up(struct supervisor *s, struct shim_peer *peer);

/* ---- instance_plans.c ---- */

/** Send all instances the plan, if all hosts are known. All shims are connected. */
void instances_send_plans(struct supervisor *s);

/* ---- stop.c ---- */

int stop_init(struct supervisor *s);
void stop_fini(struct supervisor *s);
/** Handle a signal to plenumrun. Returns true if it was taken as a request to stop at the same
 * step, because programs support this, or was SIGUSR1 before all have started, which waits for
 * that. */
bool stop_take_signal(struct supervisor *s, int signal);
/** Returns whether plenumrun received SIGUSR1 before it could make the programs stop at the same
 * step. Then it does not restart them, because a batch system gives notice only once. */
bool stop_was_too_early(const struct supervisor *s);
/** Make the programs stop at the same step; if none has called plenum_job_should_stop(), send them
 * SIGTERM. Has no effect if they are already stopping, or the job is not running. */
MESSAGE void stop_request(struct supervisor *s, const char *why);
/** Handle STEP, NOTICE, ANSWER or HALTED. Returns 0 or -EPROTO. */
int stop_handle(struct supervisor *s, struct instance *inst, enum control_type type,
                struct frame_reader *payload);
/** Note that the instance's program has ended. */
void stop_note_exit(struct supervisor *s, struct instance *inst);
void stop_do_what_is_due(struct supervisor *s, uint64_t now);
uint64_t stop_next_due(const struct supervisor *s);
/** Returns 1 + the step that the job has reached: the earliest one at which a program has failed or
 * was ended, because independent programs continue beyond it. If none is known, the latest one of
 * all. 0: none. */
uint64_t stop_get_progress(const struct supervisor *s);
/** Returns 1 + the step before which programs stop; 0: none. */
uint64_t stop_get_step(const struct supervisor *s);

/* ---- slow_watch.c ---- */

struct json;

/** Create s->slow, which the caller destroys. Returns 0 or -ENOMEM. */
int slow_watch_init(struct supervisor *s);
/** Handle PACE: 0 or -EPROTO. */
int slow_watch_handle(struct supervisor *s, struct instance *inst, struct frame_reader *payload);
/** Judge the last second's steps. */
void slow_watch_beat(struct supervisor *s, uint64_t now);
/** Describe why the instance is slow, or why the job is (UINT32_MAX); "" if it is not. Returns the
 * cause as one word. */
const char *slow_watch_describe(const struct supervisor *s, uint32_t instance, char *ret,
                                size_t size);
/** Write what was slow, for --result. */
void slow_watch_write(const struct supervisor *s, struct json *j);

/* ---- job_socket.c ---- */

/** Returns the socket for plenumctl job of the job with this id; -1 if it cannot be opened. The job
 * also runs without it. */
int job_socket_open(const char *id);
/** Close the connections, but not the socket. */
void job_socket_drop_clients(struct supervisor *s);
/** Take over the job's socket, with clients that have not been answered, for an attempt. */
struct job_socket job_socket_take(const struct supervise_job *job);
/** Return it after the attempt. Clients that wait for an answer of the attempt are dropped. */
void job_socket_give_back(struct supervisor *s);
/** Fill in 1 + JOB_CLIENTS_MAX descriptors to poll. */
void job_socket_fill(const struct supervisor *s, struct pollfd *fds);
void job_socket_dispatch(struct supervisor *s, const struct pollfd *fds);

/** Answer the clients that have asked whether the job can grow. */
void job_socket_answer_growth(struct supervisor *s, const struct jobctl_grown *m);

/* ---- hung.c ---- */

/** Handle HUNG: warn if nothing is known about the program, otherwise end the job shortly. Returns
 * 0 or -EPROTO. */
int hung_handle(struct supervisor *s, struct instance *inst, struct frame_reader *payload);
void hung_do_what_is_due(struct supervisor *s, uint64_t now);

/* ---- grow.c ---- */

/** Handle a request of plenumctl job to continue on more hosts: look for hosts, or refuse. */
void grow_request(struct supervisor *s);
/** If the search for hosts is over, answer its clients and, if there are more hosts, stop the
 * programs. Call this at least once a second. */
void grow_continue(struct supervisor *s);

/* ---- failure.c ---- */

/** Note that an instance's program has ended. If it failed, that ends the job; but if another
 * program had ended before, its shim first gets a limited time to report how. */
void failure_note_end(struct supervisor *s, struct instance *inst);
/** End the job if a failure was noted and no earlier end is awaited any more. */
void failure_do_what_is_due(struct supervisor *s, uint64_t now);
/** Returns the cause of the end: this failure, or one that was noted before it. */
struct report failure_choose(struct supervisor *s, const struct report *report);
/** Find the program that failed first: of several that failed in a row, the one with the earliest
 * traceback, which is not always the first to end. If mpirun ended the job, look for its reason
 * instead. Call this when all have ended. */
void failure_find_cause(struct supervisor *s);
/** Get the first sentence that mpirun printed, or how it ended if it printed none, as one line. */
void failure_get_words(const struct supervisor *s, char *ret, size_t size);
/** Report what went wrong, with the cause last. Prints nothing if the job succeeded. */
void failure_print(const struct supervisor *s);

/* ---- result.c ---- */

/** Write --result. Returns 0, or -errno after reporting it. */
int result_write(const struct supervisor *s);
/** Returns an instance's state, such as "running" or "not started". */
const char *result_state(const struct instance *inst);
/** Format a table of all instances and their states, for users. The caller frees it; NULL if out of
 * memory. */
char *result_table(const struct supervisor *s);

#endif
