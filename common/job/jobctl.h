/* SPDX-License-Identifier: MIT */
/* jobctl.h - what plenumctl job and a running plenumrun exchange, over an abstract socket of the
 * job. One request per connection:
 *
 *     STATUS  ->  JOB, then one INSTANCE each
 *     STOP    ->  STOPPED
 *     GROW    ->  GROWN, once the hosts have been checked
 *
 * Both sides check that the other one is a process of the same user, or of root: abstract names
 * have no permissions. */
#ifndef COMMON_JOBCTL_H
#define COMMON_JOBCTL_H

#include <stdint.h>

#include "common/net/frame.h"

enum {
    JOBCTL_MAX_PAYLOAD = 4096,
    JOBCTL_ID_MAX = 32,
    JOBCTL_NAME_MAX = 80, /* size of a socket's name */
    JOBCTL_WORD_MAX = 24,
    JOBCTL_TEXT_MAX = 256,
};

enum jobctl_type {
    JOBCTL_STATUS = 1,
    JOBCTL_STOP,
    JOBCTL_JOB,
    JOBCTL_INSTANCE,
    JOBCTL_STOPPED,
    JOBCTL_GROW,
    JOBCTL_GROWN,
};

/** The effect of a request to stop. */
enum jobctl_effect {
    JOBCTL_AGREES,  /* the programs stop at the same step */
    JOBCTL_SIGNALS, /* the programs were sent SIGTERM */
    JOBCTL_ALREADY, /* the job is stopping or ending already */
    JOBCTL_ENDS,    /* no programs are running, and they do not start again */
    JOBCTL_EARLY,   /* not all programs have started yet: nothing was done */
    JOBCTL_EFFECTS
};

/** The answer to a request to grow. */
struct jobctl_grown {
    uint32_t grows;             /* 1: the job continues on more hosts; 0: nothing was stopped */
    char text[JOBCTL_TEXT_MAX]; /* the hosts, or why it cannot grow */
};

struct jobctl_job {
    char id[JOBCTL_ID_MAX];
    char program[JOBCTL_TEXT_MAX];
    char phase[JOBCTL_WORD_MAX]; /* waiting, starting, running, stopping, ending, closing */
    uint32_t pid;                /* plenumrun's */
    uint32_t hosts, instances, restarts;
    uint64_t elapsed_ns;
    uint64_t asked;             /* 1 + the latest step that a program has asked about; 0: none */
    uint64_t halted;            /* 1 + the step before which programs stop; 0: none */
    char slow[JOBCTL_TEXT_MAX]; /* why the whole job is slow; "": it is not */
};

struct jobctl_instance {
    uint32_t index, pid; /* pid 0: not started */
    char host[JOBCTL_TEXT_MAX];
    char state[JOBCTL_WORD_MAX];
    uint64_t asked;     /* 1 + the last step that it has asked about; 0: none */
    uint64_t output_ns; /* time since its last output; UINT64_MAX: none yet */
    uint64_t heard_ns;  /* time since it was last heard from; UINT64_MAX: it has ended */
    /* Its own time and its wait for batches in its last step; UINT64_MAX: not known. */
    uint64_t own_ns, wait_ns;
    char slow[JOBCTL_TEXT_MAX];  /* why it makes the job slow; "": it does not */
    char cause[JOBCTL_WORD_MAX]; /* that reason as one word */
};

/** Write the address of a job's socket, "unix:@plenumrun-job-1000-ID". With an empty `id`, write
 * the beginning that the addresses of all jobs of this user share. Returns `ret`. */
char *jobctl_address(const char *id, char ret[JOBCTL_NAME_MAX]);

/* Each of these appends one frame, and returns 0 or -ENOMEM. Texts that are too long are
 * truncated. */
int jobctl_put_job(struct frame_buffer *b, const struct jobctl_job *m);
int jobctl_put_instance(struct frame_buffer *b, const struct jobctl_instance *m);
int jobctl_put_stopped(struct frame_buffer *b, enum jobctl_effect effect);
int jobctl_put_grown(struct frame_buffer *b, const struct jobctl_grown *m);
/** Append STATUS, STOP or GROW, which have no payload. */
int jobctl_put_empty(struct frame_buffer *b, enum jobctl_type type);

/* Each of these reads one payload, and returns 0 or -EPROTO. */
int jobctl_get_job(struct frame_reader *r, struct jobctl_job *ret);
int jobctl_get_instance(struct frame_reader *r, struct jobctl_instance *ret);
int jobctl_get_stopped(struct frame_reader *r, enum jobctl_effect *ret);
int jobctl_get_grown(struct frame_reader *r, struct jobctl_grown *ret);

#endif
