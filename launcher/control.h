/* SPDX-License-Identifier: MIT */
/* control.h - what plenumrun and its shims say to each other, one connection an instance.
 *
 *     shim                                          plenumrun
 *     HELLO (token, instance, host)            ->       is this ours?
 *                                          <-       TOPOLOGY (devices?)  (the first shim of a host)
 *     TOPOLOGY (XML; of the machine?)      ->
 *                                          <-       PLAN (program, environment, binding)
 *     STARTED (pid, binding) or FAILED     ->
 *     OUTPUT (lines) ...                   ->
 *     UNREAD (errno)                       ->       the rest of one of its outputs is lost
 *     PROGRESS (what an unfinished line shows after a carriage return) -> now and then
 *                                          <-       CREDIT (bytes that were written out) ...
 *                                          <-       INPUT (bytes of standard input) ...
 *     TAKEN (bytes the program has taken)  ->
 *                                          <-       SIGNAL, TERMINATE, SUSPEND
 *     TOLD (mpirun wants the end, or is gone) ->
 *     STOPPED (signal), and again when it goes on ->
 *     EXITED (status, usage)               ->       at once, though output may still wait
 *                                          <-       DEPARTED (of another instance)
 *     DRAINED (last lines)                 ->       all output is sent
 *                                          <-       LEAVE               others run on
 *                                          <-       END                 all instances are done
 *     BEAT                                <-->      once a second, whatever else happens
 *
 * Output is bounded by credit, not by the socket: a slow terminal stops the programs' output and
 * nothing else, so that heartbeats and exits always pass. A shim may have `window` bytes under way,
 * or one frame if that is larger.
 *
 * What a host that only lends its cores is told has the same form, by its standard input
 * (keeper.c): KEEP, then BEAT.
 *
 * Both sides use the functions of this file and nothing else, and both come from the same build:
 * another version is refused at HELLO. */
#ifndef LAUNCHER_CONTROL_H
#define LAUNCHER_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/frame.h"
#include "common/tls.h"
#include "launcher/environ.h"
#include "launcher/host.h"

enum {
    CONTROL_UNAUTHENTICATED_PAYLOAD = 4096, /* from somebody who has not shown the token */
    CONTROL_MAX_PAYLOAD = 16 * 1024 * 1024, /* a PLAN holds an environment, TOPOLOGY an XML */
    CONTROL_TOKEN_BYTES = 32,
    CONTROL_TOKEN_MAX = 2 * CONTROL_TOKEN_BYTES + 1, /* its digits, with a NUL */
    CONTROL_TEXT_MAX = 512,
    CONTROL_PROGRESS_MAX = 512, /* bytes of a PROGRESS */
    CONTROL_PATH_MAX = 4096,
    CONTROL_VERSION_MAX = 64,
    CONTROL_ADDRESS_MAX = 128, /* as the text of a struct address */
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
};

struct control_hello {
    char magic[8];
    char version[CONTROL_VERSION_MAX];
    char token[CONTROL_TOKEN_MAX];
    uint32_t instance, local_index;
    uint32_t pid;
    uint16_t free_port; /* on that host; instance 0 only */
    char host[HOST_NAME_MAX_BYTES];
    char loader[CONTROL_ADDRESS_MAX];    /* where the job's loader that it keeps listens, or "" */
    char loader_error[CONTROL_TEXT_MAX]; /* why it does not, if it was to */
    char page[CONTROL_ADDRESS_MAX];      /* URL of that loader's status page, or "" */
};

/** What a shim must know. Owned texts: control_plan_fini(). */
struct control_plan {
    uint64_t grace_ns;   /* when it must end its program without being able to ask */
    uint64_t silence_ns; /* plenumrun is lost after so long */
    uint32_t window;     /* bytes of output under way */
    uint8_t input;       /* INPUT will come */
    uint8_t quiet;       /* output is not wanted */
    uint8_t live;        /* streams (1 << enum control_stream) of which PROGRESS is wanted */
    uint8_t at_once;     /* unfinished lines are sent too: nobody else prints */
    uint8_t bind_cpus;
    uint8_t memory; /* enum numa_policy, on `nodes` */
    uint8_t strict; /* a binding that fails is a failure */
    uint32_t umask;
    char *directory, *cpus, *nodes;
    char *loader_cpus; /* where the host's loader shall run; "": anywhere */
    char *loader_key;  /* of a client of loaders on other hosts (tls.h); "": none */
    char **argv;       /* ended by NULL */
    struct environ_list environment;
};

/** What a loader of the job needs on a host without instances. Owned texts: control_keep_fini(). */
struct control_keep {
    uint64_t silence_ns; /* plenumrun is lost after so long */
    char *address;       /* to listen at: HOST:PORT, see address_parse_listen() */
    char *key;           /* the loader's (tls.h) */
    struct environ_list environment;
};

/** STARTED. */
struct control_started {
    uint32_t pid;
    int32_t cpus_error, memory_error; /* -errno of binding */
    uint32_t memory;                  /* enum numa_policy, as the kernel has it */
    char *cpus, *nodes;               /* likewise; nodes "" when memory may come from anywhere */
};

/** The steps of starting a program that can fail. */
enum control_step {
    CONTROL_STEP_PLAN,      /* the message made no sense there */
    CONTROL_STEP_FORK,      /* no process, pipe or memory */
    CONTROL_STEP_DIRECTORY, /* the working directory */
    CONTROL_STEP_BIND_CPUS, /* only when the plan is strict */
    CONTROL_STEP_BIND_MEMORY,
    CONTROL_STEP_EXEC, /* the program */
    CONTROL_STEPS
};

struct control_failed {
    enum control_step step;
    int32_t error; /* -errno */
};

/** Whose bytes an OUTPUT carries. */
enum control_stream { CONTROL_STDOUT, CONTROL_STDERR, CONTROL_LOADER, CONTROL_STREAMS };

/** Why a program has ended. */
enum control_cause {
    CONTROL_CAUSE_ITSELF, /* it did, or somebody unknown killed it */
    CONTROL_CAUSE_ASKED,  /* plenumrun wanted it */
    CONTROL_CAUSE_MPIRUN, /* mpirun or its daemon wanted it, or is gone */
    CONTROL_CAUSE_SHIM,   /* the outer shim is gone */
    CONTROL_CAUSES
};

struct control_exited {
    int32_t status; /* as of waitpid(2) */
    enum control_cause cause;
    uint64_t elapsed_ns, user_ns, system_ns;
    uint64_t max_rss_bytes;
    uint64_t traceback_ns; /* since its last traceback began; UINT64_MAX: there was none */
    uint64_t memory_kills; /* by the kernel, for want of memory, since it started (memory.h) */
    uint64_t reached;      /* as the program says (common/departed.h) */
};

/** DEPARTED: an instance has ended; what others wait for it in vain. */
struct control_departed {
    uint32_t instance;
    uint64_t reached;
};

/* Each appends one frame: 0 or -ENOMEM. */
int control_put_hello(struct frame_buffer *b, const struct control_hello *m);
int control_put_plan(struct frame_buffer *b, const struct control_plan *m);
int control_put_keep(struct frame_buffer *b, const struct control_keep *m);
int control_put_started(struct frame_buffer *b, const struct control_started *m);
int control_put_failed(struct frame_buffer *b, const struct control_failed *m);
int control_put_exited(struct frame_buffer *b, const struct control_exited *m);
int control_put_departed(struct frame_buffer *b, const struct control_departed *m);
int control_put_progress(struct frame_buffer *b, enum control_stream stream, const char *bytes,
                         size_t len);
int control_put_output(struct frame_buffer *b, enum control_stream stream, const char *bytes,
                       size_t len);
/** @param real  is it the machine's own, so that its CPUs can be bound to? */
int control_put_topology(struct frame_buffer *b, bool real, const char *xml, size_t len);
/** Bytes as they are: INPUT (none: the end), DRAINED. */
int control_put_bytes(struct frame_buffer *b, enum control_type type, const char *bytes,
                      size_t len);
/** One number: CREDIT, TAKEN (bytes; UINT64_MAX: the program takes no more), SIGNAL (number),
 * TERMINATE (grace_ns), TOPOLOGY as a request (1: with devices), SUSPEND (1: heartbeats will be
 * missing; 0: they are back), TOLD (0: mpirun wants the end; 1: the process of Open MPI that
 * started the shim is gone), STOPPED (by which signal; 0: continued), UNREAD (errno). */
int control_put_number(struct frame_buffer *b, enum control_type type, uint64_t number);
/** Nothing: BEAT, LEAVE, END. */
int control_put_empty(struct frame_buffer *b, enum control_type type);

/* Each reads one payload: 0, -EPROTO (cut short, or a field out of its bounds) or -ENOMEM. */
int control_get_hello(struct frame_reader *r, struct control_hello *ret);
int control_get_plan(struct frame_reader *r, struct control_plan *ret);
int control_get_keep(struct frame_reader *r, struct control_keep *ret);
int control_get_started(struct frame_reader *r, struct control_started *ret);
int control_get_failed(struct frame_reader *r, struct control_failed *ret);
int control_get_exited(struct frame_reader *r, struct control_exited *ret);
int control_get_departed(struct frame_reader *r, struct control_departed *ret);
/** Of OUTPUT and PROGRESS. */
int control_get_output(struct frame_reader *r, enum control_stream *stream, const char **bytes,
                       size_t *len);
int control_get_topology(struct frame_reader *r, bool *real, const char **xml, size_t *len);
int control_get_number(struct frame_reader *r, uint64_t *ret);
/** The whole payload, borrowed. */
void control_get_bytes(struct frame_reader *r, const char **bytes, size_t *len);

void control_plan_fini(struct control_plan *plan);
void control_keep_fini(struct control_keep *keep);
void control_started_fini(struct control_started *started);

/** In front of a token in the environment of a shim: the connection to plenumrun is encrypted. */
#define CONTROL_TOKEN_TLS "tls:"

/**
 * What encrypts the connection where it is one of TCP: both sides prove that they have the token,
 * before a byte is said. Errors: -ENOTSUP, TLS is not installed, with a sentence.
 */
int control_secure(const char *token, bool shim, struct tls **ret, struct plenum_error *err);

/** Fill a HELLO of this build. */
void control_hello_init(struct control_hello *m);

/** Is the sender one of ours? 0, -EPROTO, -EACCES (another token) or -EPROTONOSUPPORT (another
 * version), with a sentence. */
int control_hello_check(const struct control_hello *m, const char *token, struct plenum_error *err);

/** "the working directory", for sentences. */
const char *control_step_name(enum control_step step);

#endif
