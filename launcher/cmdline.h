/* cmdline.h - what a person asks of plenumrun: one table of options, and what they fill. */
#ifndef LAUNCHER_CMDLINE_H
#define LAUNCHER_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/hostlist.h"
#include "common/options.h"
#include "launcher/place.h"

/** Texts that an option collects. Zero-initialised: none. */
struct cmdline_list {
    char **items; /* owned, ended by NULL once there is one */
    size_t count;
};

enum cmdline_format { CMDLINE_FORMAT_NONE, CMDLINE_FORMAT_TEXT, CMDLINE_FORMAT_JSON };

/** Plain data. Zero means "not told", apart from what cmdline_init() sets. Texts are borrowed from
 * argv, unless said otherwise. */
struct cmdline {
    struct hostlist hosts;
    uint32_t num_instances;
    uint32_t num_replicas;
    uint32_t devices_per_replica;

    bool numa_aware;
    enum place_policy placement;

    const char *loader; /* "auto", "none" or addresses */

    const char *only_output; /* instances, as ranges */
    const char *tag;         /* template of what stands before a line; NULL: nothing */
    enum cmdline_format print_topology;
    bool dry_run;
    bool no_stdin;

    struct cmdline_list exports; /* NAME or NAME=value */

    uint64_t grace_ns;
    uint64_t timeout_ns; /* 0: none */
    uint64_t start_timeout_ns;
    uint64_t heartbeat_timeout_ns;

    struct cmdline_list mpi_global_args; /* one word each */
    struct cmdline_list mpi_local_args;

    bool allow_root;
    int verbosity;

    char **program; /* with its arguments, ended by NULL; program[0] is NULL when none is named */
};

void cmdline_init(struct cmdline *cmdline);
void cmdline_fini(struct cmdline *cmdline);

/** For options_start(); the target is a struct cmdline. */
extern const struct options_program cmdline_program;

/**
 * What options_start() has left to do: take the program's words out of argv (changed there), and
 * look at what the options say together.
 *
 * Errors: -EINVAL with a sentence.
 */
int cmdline_finish(struct cmdline *cmdline, char **argv, int operands, struct plenum_error *err);

#endif
