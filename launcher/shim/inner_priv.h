/* SPDX-License-Identifier: MIT */
/* inner_priv.h - the inner shim's state, shared by inner.c (the loop), inner_start.c (the start of
 * the program), inner_stop.c (its agreed end), inner_hung.c (its progress), inner_pace.c (its
 * speed) and inner_output.c (its pipes). */
#ifndef LAUNCHER_INNER_PRIV_H
#define LAUNCHER_INNER_PRIV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/job/meeting.h"
#include "common/net/frame.h"
#include "launcher/control/control.h"
#include "launcher/control/lines.h"
#include "launcher/host/capture.h"
#include "launcher/host/proctree.h"
#include "launcher/host/signals.h"
#include "launcher/shim/child.h"
#include "launcher/shim/shim.h"

enum {
    INNER_FRAME_BYTES = 64 * 1024
}; /* bytes of output per frame at most, unless a line is longer */

/* The program's states. The allowed transitions are a table in inner.c. */
enum inner_state {
    INNER_WAITING,  /* the plan has not arrived */
    INNER_STARTING, /* forked; its report has not arrived, or says that it cannot start */
    INNER_RUNNING,
    INNER_SWEEPING, /* the program has exited; processes that it left behind are killed */
    INNER_DRAINING, /* no process is left, or none was started; the pipes' rest is sent */
    INNER_DRAINED,  /* all of its output was sent */
    INNER_STATES
};

/* States of the control connection. Their table is in inner.c, too. */
enum link_state {
    LINK_CLOSED,   /* not connected yet, or about to connect again */
    LINK_OPEN,     /* connected; plenumrun has not answered */
    LINK_ANSWERED, /* plenumrun has answered, so it has accepted us */
    LINK_LOST,
    LINK_STATES
};

struct inner {
    const struct shim_task *task;
    pid_t outer;
    int signal_fd;
    struct tls *tls; /* for the control connection; NULL: not encrypted */
    struct frame_conn conn;
    enum link_state link;
    uint64_t connect_by; /* deadline for plenumrun's first answer */
    uint64_t again_at;   /* time of the next connection attempt; UINT64_MAX: none */
    bool suspended;      /* plenumrun has announced that it is stopped */
    bool end;            /* plenumrun has sent END, or will not send a plan */
    uint64_t turn_ns;    /* when the loop last ran */
    uint64_t heard_ns, beat_at;

    enum inner_state state;
    struct control_plan plan;
    struct child child; /* its pid is 0 if it has not started */
    bool failed;        /* the program could not start: FAILED was sent */
    uint64_t started_ns;

    struct signals_handed handed;
    bool stopped;             /* the program is stopped, and plenumrun was notified */
    enum control_cause cause; /* why the program is ending */
    bool asked;               /* mpirun has requested the end */
    uint64_t obey_at;         /* when mpirun's request ends the program; UINT64_MAX: never */
    uint64_t kill_at;         /* when the program is killed; UINT64_MAX: not set */
    struct proctree_end tree; /* progress of killing the tree */
    bool given_up;            /* not even SIGKILL ended the program: stop waiting for its end */

    struct lines lines[CONTROL_STREAMS];
    bool progress[CONTROL_STREAMS];        /* a new PROGRESS may be due */
    uint64_t progress_at[CONTROL_STREAMS]; /* when it may be sent */
    struct tail tail;
    struct traceback traceback;
    uint64_t memory_kills; /* kills by the kernel before the program started */
    uint64_t in_flight;    /* bytes of output not yet credited */
    char *input;           /* input for the program */
    size_t input_len, input_cap;
    bool input_ended;

    struct jobloader *loader;
    char loader_address[CONTROL_ADDRESS_MAX];
    char **environment;        /* environment of the program, and of the loader */
    struct departed *departed; /* shows the program which instances have ended; NULL: not needed */
    struct meeting_server *place; /* where this host's programs meet; NULL: not here */
    uint64_t *seen; /* [plan.place_instances]: the ends of their programs that were reported */
    struct stop_keeper *stop; /* page of plenum_job_should_stop(), or NULL */
    uint64_t step_told;       /* the last STEP that was sent; 0: none */
    bool halt_told;           /* HALTED was sent */
    bool notice_told;         /* NOTICE was sent */
    struct inner_pace *pace;  /* inner_pace.c; or NULL */
    struct capture stacks;    /* describes a program that hangs (inner_hung.c) */
    uint64_t hung_active;     /* the program's last activity before `stacks` began */
    uint64_t progress_from;   /* inactivity before this time does not count */
    bool hung_told;           /* HUNG was sent, with stacks */
    bool unknown_told;        /* HUNG was sent, because there was no activity so far */
    int loader_fd;            /* the loader's output */
    int key_fd;               /* the key of loaders on other hosts */
    int port_fd;              /* reserves `port` for the program (port_reserve.h); < 0: none */
    uint16_t port;            /* 0: none */
    char loader_error[CONTROL_TEXT_MAX];
};

static inline bool inner_is_running(const struct inner *in)
{
    return in->state == INNER_STARTING || in->state == INNER_RUNNING;
}

/** Returns whether every process that could still write output has ended, or we have stopped
 * waiting for it. */
static inline bool inner_is_swept(const struct inner *in)
{
    return in->state >= INNER_DRAINING || in->given_up;
}

static inline bool inner_is_connected(const struct inner *in)
{
    return in->link == LINK_OPEN || in->link == LINK_ANSWERED;
}

/* ---- inner.c ---- */

/** Move the program to its next state. */
void inner_move(struct inner *in, enum inner_state to);

/* ---- inner_start.c ---- */

/** Handle PLAN: start the program, and report a failure. */
void inner_handle_plan(struct inner *in, struct frame_reader *payload);
/** Read the child's report, and send STARTED or FAILED once it is complete. */
void inner_read_report(struct inner *in);
/** Send this host's topology. If it is not available, send an empty one: nothing is then bound
 * here. */
void inner_send_topology(struct inner *in, bool devices);

/** Let this host's programs meet, and report those that have ended. */
void inner_keep_place(struct inner *in);

/* ---- inner_stop.c ---- */

/** Create the stop page, and pass its name to the program. Without it, only signals stop the
 * program. */
void inner_make_stop_page(struct inner *in);
/** Returns whether the program has called plenum_job_should_stop(). Then requests to stop do not
 * reach it as signals. */
bool inner_asks_to_stop(const struct inner *in);
/** Report what the program has written to its stop page: its first step at once, later ones if
 * `beat`; a signal that it has received; and the step at which it stops. */
void inner_look_at_stop(struct inner *in, bool beat);
/** Send NOTICE, once: the shim or the program has received a signal to stop. */
void inner_notice_stop(struct inner *in);
/** Handle PROPOSE. Returns 0 or -errno. */
int inner_handle_propose(struct inner *in, struct frame_reader *payload);
/** Handle DECIDE. Returns 0 or -errno. */
int inner_handle_decide(struct inner *in, struct frame_reader *payload);
/** Fill in the step that the program last asked about, and the step that it must not begin. */
void inner_end_stop(const struct inner *in, struct control_exited *exited);

/* ---- inner_pace.c ---- */

/** Create in->pace. If that fails, no PACE is sent. */
void inner_open_pace(struct inner *in);
void inner_close_pace(struct inner *in);
/** Note that the program was stopped by a signal, or continues (in->stopped). */
void inner_note_stop(struct inner *in, uint64_t now);
/** Report the program's steps of the last second, and what its host lacked (pace_report.h). */
void inner_tell_pace(struct inner *in, uint64_t now);

/* ---- inner_hung.c ---- */

/** Send HUNG, with stacks, if the program has made no progress for too long. Call this at least
 * once a second. */
void inner_watch_progress(struct inner *in, uint64_t now);
/** Do not count inactivity before `now`, because plenumrun or this host did not run. */
void inner_forgive_progress(struct inner *in, uint64_t now);

/* ---- inner_output.c ---- */

/** Returns our end of a stream's pipe, which is -1 if it is closed. */
int *inner_pipe(struct inner *in, int stream);
/** Read what a pipe holds. After the sweep, close it: no process is left that could write more. */
void inner_read_pipe(struct inner *in, int stream);
/** Send lines as far as credit allows. */
void inner_send_lines(struct inner *in, int stream);
/** Report the state of a progress bar, if it has changed and a report is due. */
void inner_send_progress(struct inner *in, int stream, uint64_t now);
/** Send the last lines of standard error once all of the program's output has been sent. */
void inner_finish_output(struct inner *in);

/** Handle INPUT. */
void inner_handle_input(struct inner *in, struct frame_reader *payload);
/** Write as much input as the program's pipe accepts. */
void inner_write_input(struct inner *in);

#endif
