/* SPDX-License-Identifier: MIT */
/* control.h - the protocol between plenumrun and its shims, with one connection per instance.
 *
 *     shim                                          plenumrun
 *     HELLO (token, instance, host)        ->
 *                                          <-       TOPOLOGY (devices?)  (the first shim of a host)
 *     TOPOLOGY (XML; is it the machine's?) ->
 *                                          <-       PLAN (program, environment, binding)
 *     STARTED (pid, binding) or FAILED     ->
 *     OUTPUT (lines) ...                   ->
 *     UNREAD (errno)                       ->       the rest of one of its outputs is lost
 *     PROGRESS (what an unfinished line shows after a carriage return) -> now and then
 *                                          <-       CREDIT (bytes that were written out) ...
 *                                          <-       INPUT (bytes of standard input) ...
 *     TAKEN (bytes the program has taken)  ->
 *                                          <-       SIGNAL, TERMINATE, SUSPEND
 *     TOLD (0: its starter asked it to end; 1: its starter is gone) ->
 *     STOPPED (signal), and again when it continues ->
 *     STEP (1 + the step that it has asked about) ->  the first at once, then with a beat
 *     NOTICE                               ->       the program was asked to stop, by a signal
 *                                          <-       PROPOSE (a step to stop at)
 *     ANSWER (does it promise?)            ->       at once
 *                                          <-       PROPOSE (a later step) ..., DECIDE
 *     HALTED (the step)                    ->       the program knows that it stops there
 *     PACE (steps, the host; pace_report.h) ->      with a beat
 *     HUNG (stacks)                        ->       the program makes no progress
 *     SEEN (which one)                     ->       a program of the host has ended (meeting.h)
 *     EXITED (status, usage)               ->       at once, though output may still be pending
 *                                          <-       DEPARTED (of other instances)
 *     DRAINED (last lines)                 ->       all output is sent
 *                                          <-       LEAVE               others are still running
 *                                          <-       END                 all instances are done
 *     BEAT                                <-->      once a second, whatever else happens
 *
 * Output is limited by credit, not by the socket: a slow terminal blocks the programs' output and
 * nothing else, so that heartbeats and exits always get through. A shim may have `window` bytes in
 * flight, or one frame if that is larger.
 *
 * A host that runs only a loader receives messages of the same form on its standard input
 * (keeper.c): KEEP, then BEAT and SUSPEND.
 *
 * Both sides use only the functions of this file and, for PACE, of pace_report.h. Both come from
 * the same build: another version is rejected at HELLO. */
#ifndef LAUNCHER_CONTROL_H
#define LAUNCHER_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/frame.h"
#include "common/net/tls.h"
#include "launcher/control/environ.h"
#include "launcher/host/host.h"

enum {
    CONTROL_UNAUTHENTICATED_PAYLOAD = 4096, /* from a peer that has not sent the token */
    CONTROL_MAX_PAYLOAD = 16 * 1024 * 1024, /* a PLAN contains an environment, a TOPOLOGY XML */
    CONTROL_TOKEN_BYTES = 32,
    CONTROL_TOKEN_MAX = 2 * CONTROL_TOKEN_BYTES + 1, /* in hexadecimal digits, with a NUL */
    CONTROL_TEXT_MAX = 512,
    CONTROL_PROGRESS_MAX = 512, /* the most bytes of text in a PROGRESS message */
    CONTROL_VERSION_MAX = 64,
    CONTROL_ADDRESS_MAX = 128, /* size of the text of a struct address */
};

enum control_type {
    CONTROL_HELLO = 1,
    CONTROL_TOPOLOGY,
    CONTROL_PLAN,
    CONTROL_STARTED,
    CONTROL_FAILED,
    CONTROL_OUTPUT,
    CONTROL_UNREAD,
    CONTROL_PROGRESS,
    CONTROL_CREDIT,
    CONTROL_INPUT,
    CONTROL_TAKEN,
    CONTROL_SIGNAL,
    CONTROL_TERMINATE,
    CONTROL_SUSPEND,
    CONTROL_TOLD,
    CONTROL_STOPPED,
    CONTROL_EXITED,
    CONTROL_DRAINED,
    CONTROL_BEAT,
    CONTROL_END,
    CONTROL_KEEP,
    CONTROL_DEPARTED,
    CONTROL_LEAVE,
    CONTROL_STEP,
    CONTROL_NOTICE,
    CONTROL_PROPOSE,
    CONTROL_ANSWER,
    CONTROL_DECIDE,
    CONTROL_HALTED,
    CONTROL_PACE,
    CONTROL_HUNG,
    CONTROL_SEEN,
};

struct control_hello {
    char magic[8];
    char version[CONTROL_VERSION_MAX];
    char token[CONTROL_TOKEN_MAX];
    uint32_t instance, local_index;
    uint32_t pid;
    uint16_t free_port;  /* an unused TCP port of the host; only from instance 0 */
    uint16_t place_port; /* reserved for its program's collectives; 0: none */
    char host[HOST_NAME_MAX_BYTES];
    char loader[CONTROL_ADDRESS_MAX];    /* address of the loader that the shim keeps, or "" */
    char loader_error[CONTROL_TEXT_MAX]; /* why it cannot keep the loader, or "" */
    char page[CONTROL_ADDRESS_MAX];      /* URL of that loader's status page, or "" */
};

/** What a shim must know. Owns its strings: control_plan_fini(). */
struct control_plan {
    uint64_t grace_ns;    /* from SIGTERM to SIGKILL if plenumrun cannot be reached */
    uint64_t silence_ns;  /* silence after which plenumrun counts as lost */
    uint64_t progress_ns; /* a program without activity for this long hangs; 0: no limit */
    uint32_t instances;   /* number of instances of the job */
    uint32_t window;      /* the most bytes of output in flight */
    uint8_t input;        /* INPUT will follow */
    uint8_t quiet;        /* output is not wanted */
    uint8_t live;         /* streams (1 << enum control_stream) whose PROGRESS is wanted */
    uint8_t at_once;      /* send unfinished lines, too: no other instance prints */
    uint8_t bind_cpus;
    uint8_t memory; /* enum numa_policy, on `nodes` */
    uint8_t strict; /* a binding failure is a failure to start */
    uint32_t umask;
    char *directory, *cpus, *nodes;
    char *loader_cpus; /* CPUs for the host's loader; "": any */
    char *loader_key;  /* client key for loaders on other hosts (tls.h); "": none */
    /* Only for the first instance of each host, which provides the memory for collectives: */
    uint32_t place_instances; /* of the host; 0: there is no such memory */
    char *place, *place_job;  /* name of its server, and the job's id (common/job/meeting.h) */
    char *place_key;          /* the job's key for its connections between hosts */
    char **argv;              /* terminated by NULL */
    struct environ_list environment;
};

/** What a loader of the job needs on a host without instances. Owns its strings:
 * control_keep_fini(). */
struct control_keep {
    uint64_t silence_ns; /* silence after which plenumrun counts as lost */
    char *address;       /* where to listen: HOST:PORT, see address_parse_listen() */
    char *key;           /* the loader's (tls.h) */
    struct environ_list environment;
};

/** STARTED. */
struct control_started {
    uint32_t pid;
    int32_t cpus_error, memory_error; /* -errno from binding */
    uint32_t memory;                  /* enum numa_policy, as reported by the kernel */
    char *cpus, *nodes;               /* also from the kernel; nodes "": memory from anywhere */
};

/** The steps of starting a program that can fail. */
enum control_step {
    CONTROL_STEP_PLAN,      /* PLAN was invalid */
    CONTROL_STEP_FORK,      /* no process, pipe or memory available */
    CONTROL_STEP_DIRECTORY, /* the working directory */
    CONTROL_STEP_BIND_CPUS, /* only if the plan is strict */
    CONTROL_STEP_BIND_MEMORY,
    CONTROL_STEP_EXEC, /* the program */
    CONTROL_STEPS
};

struct control_failed {
    enum control_step step;
    int32_t error;               /* -errno */
    char text[CONTROL_TEXT_MAX]; /* EXEC: a message with the reason; "" if not known */
};

/** The source of the bytes in an OUTPUT message. */
enum control_stream { CONTROL_STDOUT, CONTROL_STDERR, CONTROL_LOADER, CONTROL_STREAMS };

/** Why a program has ended. */
enum control_cause {
    CONTROL_CAUSE_ITSELF, /* by itself, or an unknown process killed it */
    CONTROL_CAUSE_ASKED,  /* plenumrun requested it */
    CONTROL_CAUSE_MPIRUN, /* mpirun or its daemon requested it, or is gone */
    CONTROL_CAUSE_SHIM,   /* the outer shim is gone */
    CONTROL_CAUSES
};

struct control_exited {
    int32_t status; /* from waitpid(2) */
    enum control_cause cause;
    uint64_t elapsed_ns, user_ns, system_ns;
    uint64_t max_rss_bytes;
    uint64_t traceback_ns; /* time since its last traceback began; UINT64_MAX: there was none */
    uint64_t memory_kills; /* kills for lack of memory since the program started (memory.h) */
    uint64_t reached;      /* reported by the program (common/job/departed.h) */
    uint64_t asked;  /* 1 + the last step that the program asked about (stop_page.h); 0: none */
    uint64_t halted; /* 1 + the step that it must not begin; 0: none */
};

/** DEPARTED: instances have ended for which others may be waiting. */
struct control_departed {
    uint64_t reached;    /* `reached` in EXITED of each of these instances */
    uint32_t first;      /* the instance of the first bit */
    const uint8_t *bits; /* bit i % 8 of byte i / 8: has instance first + i ended? Borrowed */
    size_t len;          /* bytes, at least one */
};

/** HUNG: the program makes no progress. */
struct control_hung {
    uint64_t idle_ns; /* time since its last activity */
    /* The program's stacks; borrowed. Empty: it has never been active, so nothing is known. */
    const char *text;
    size_t len;
};

/** PROPOSE, ANSWER and DECIDE: how all programs stop at the same step (launcher/job/agree.h). */
struct control_stop {
    uint64_t proposal; /* the proposal's number */
    uint64_t step;    /* the first step that must not begin; ANSWER: 1 + the last one asked about */
    uint8_t promised; /* ANSWER: the program will not begin the proposed step */
};

/* Each of these appends one frame, and returns 0 or -ENOMEM. */
int control_put_hello(struct frame_buffer *b, const struct control_hello *m);
int control_put_plan(struct frame_buffer *b, const struct control_plan *m);
int control_put_keep(struct frame_buffer *b, const struct control_keep *m);
int control_put_started(struct frame_buffer *b, const struct control_started *m);
int control_put_failed(struct frame_buffer *b, const struct control_failed *m);
int control_put_exited(struct frame_buffer *b, const struct control_exited *m);
int control_put_departed(struct frame_buffer *b, const struct control_departed *m);
int control_put_stop(struct frame_buffer *b, enum control_type type, const struct control_stop *m);
int control_put_hung(struct frame_buffer *b, const struct control_hung *m);
int control_put_progress(struct frame_buffer *b, enum control_stream stream, const char *bytes,
                         size_t len);
int control_put_output(struct frame_buffer *b, enum control_stream stream, const char *bytes,
                       size_t len);
/** @param real  the topology is this machine's own, so programs can be bound to its CPUs */
int control_put_topology(struct frame_buffer *b, bool real, const char *xml, size_t len);
/** Append raw bytes: INPUT (empty: the end), DRAINED. */
int control_put_bytes(struct frame_buffer *b, enum control_type type, const char *bytes,
                      size_t len);
/** Append one number: CREDIT, TAKEN (bytes; UINT64_MAX: the program takes no more), SIGNAL
 * (number), TERMINATE (grace_ns), TOPOLOGY as a request (1: with devices), SUSPEND (1: heartbeats
 * will be missing; 0: they have resumed), TOLD (0: mpirun has requested the end; 1: the Open MPI
 * process that started the shim is gone), STOPPED (the signal that stopped it; 0: continued),
 * UNREAD (errno), STEP, HALTED (1 + the step). */
int control_put_number(struct frame_buffer *b, enum control_type type, uint64_t number);
/** Append a frame without a payload: BEAT, LEAVE, NOTICE, END. */
int control_put_empty(struct frame_buffer *b, enum control_type type);

/* Each of these reads one payload, and returns 0, -EPROTO (truncated, or a field out of bounds) or
 * -ENOMEM. */
int control_get_hello(struct frame_reader *r, struct control_hello *ret);
int control_get_plan(struct frame_reader *r, struct control_plan *ret);
int control_get_keep(struct frame_reader *r, struct control_keep *ret);
int control_get_started(struct frame_reader *r, struct control_started *ret);
int control_get_failed(struct frame_reader *r, struct control_failed *ret);
int control_get_exited(struct frame_reader *r, struct control_exited *ret);
/** `ret->bits` borrows the payload. */
int control_get_departed(struct frame_reader *r, struct control_departed *ret);
int control_get_stop(struct frame_reader *r, struct control_stop *ret);
int control_get_hung(struct frame_reader *r, struct control_hung *ret);
/** Read OUTPUT or PROGRESS. */
int control_get_output(struct frame_reader *r, enum control_stream *stream, const char **bytes,
                       size_t *len);
int control_get_topology(struct frame_reader *r, bool *real, const char **xml, size_t *len);
int control_get_number(struct frame_reader *r, uint64_t *ret);
/** Get the whole payload, borrowed. */
void control_get_bytes(struct frame_reader *r, const char **bytes, size_t *len);

void control_plan_fini(struct control_plan *plan);
void control_keep_fini(struct control_keep *keep);
void control_started_fini(struct control_started *started);

/** Precedes the token in a shim's environment if the connection to plenumrun is encrypted. */
#define CONTROL_TOKEN_TLS "tls:"

/**
 * Create the keys of a TCP connection, on which both sides prove that they have the token before
 * any data is sent. Errors, each with a message: -EINVAL if the token is not a valid key, -ENOTSUP
 * if TLS is not installed, or another -errno.
 */
int control_secure(const char *token, bool shim, struct tls **ret, struct plenum_error *err);

/** Fill in this build's HELLO. */
void control_hello_init(struct control_hello *m);

/** Check that the sender belongs to this job. Returns 0, or, with a message, -EPROTO (not a shim),
 * -EACCES (another token) or -EPROTONOSUPPORT (another version). */
int control_hello_check(const struct control_hello *m, const char *token, struct plenum_error *err);

/** Returns the step's name for messages, such as "the working directory". */
const char *control_step_name(enum control_step step);

#endif
