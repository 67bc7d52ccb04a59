/* SPDX-License-Identifier: MIT */
/* job_settings.h - the user's settings, in parts: each module gets only those that it needs, and
 * none gets all of them (struct cmdline). Plain data. */
#ifndef LAUNCHER_JOB_SETTINGS_H
#define LAUNCHER_JOB_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "launcher/plan/table.h"
#include "launcher/values/texts.h"

/** No port requested; 0 is any free one. */
#define SETTINGS_NO_PORT UINT32_MAX

/** Time limits of a job. */
struct limits {
    uint64_t grace_ns;   /* from SIGTERM to SIGKILL */
    uint64_t timeout_ns; /* for the whole job; 0: none */
    uint64_t start_timeout_ns;
    uint64_t heartbeat_timeout_ns;
    uint64_t progress_timeout_ns; /* of a program without activity; 0: none */
};

/** How to stop programs that can continue later. */
struct stop_settings {
    const char *command; /* ends with status 0 when they must stop; NULL: none */
    uint64_t poll_ns;    /* how often to run it */
    uint64_t timeout_ns; /* to agree on a step */
};

/** What starts the instances. */
enum starter_choice {
    STARTER_AUTO,   /* mpirun; or plenumrun itself, on one host without a working mpirun */
    STARTER_MPIRUN, /* only mpirun */
    STARTER_OWN,    /* plenumrun itself, on one host */
};

/** How to start the instances, and arguments for mpirun. */
struct mpi_settings {
    enum starter_choice starter;
    bool tcp_collectives;     /* between hosts, instead of MPI */
    struct texts global_args; /* one word each */
    struct texts local_args;
    struct instance_args {
        uint32_t instance;
        struct texts words;
    } * instance_args; /* owned; in command line order */
    size_t num_instance_args, instance_args_cap;
    bool allow_root;
};

/** How to handle input and output. */
struct output_settings {
    const char *only;   /* instances, as ranges; NULL: all */
    const char *tag;    /* template of the text before each line (tag.h); NULL: none */
    const char *folder; /* NULL: none */
    const char *result; /* a file; NULL: none */
    enum table_format table;
    bool no_stdin;
};

#endif
