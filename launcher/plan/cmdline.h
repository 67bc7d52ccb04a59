/* SPDX-License-Identifier: MIT */
/* cmdline.h - what a person asks of plenumrun: one table of options, and what they fill. */
#ifndef LAUNCHER_CMDLINE_H
#define LAUNCHER_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/hostlist.h"
#include "common/options.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/place.h"

/** Texts that an option collects. Zero-initialised: none. */
struct cmdline_list {
    char **items; /* owned, ended by NULL once there is one */
    size_t count;
};

/** Are these arguments of mpirun variables alone: -x NAME=value, -x NAME? */
bool cmdline_are_exports(const struct cmdline_list *words);

/** Append `len` bytes of a text (copied): 0 or -ENOMEM. */
int cmdline_list_add(struct cmdline_list *list, const char *text, size_t len);

enum cmdline_format { CMDLINE_FORMAT_NONE, CMDLINE_FORMAT_TEXT, CMDLINE_FORMAT_JSON };

enum cmdline_version {
    CMDLINE_VERSION_NONE,
    CMDLINE_VERSION_TEXT,
    CMDLINE_VERSION_FULL_TEXT,
    CMDLINE_VERSION_FULL_JSON
};

/** Plain data. Zero means "not told", apart from what cmdline_init() sets. Texts are borrowed from
 * argv or from `imported`, unless said otherwise. */
struct cmdline {
    struct hostlist hosts;
    struct cmdline_list excluded; /* lists of hosts */
    uint32_t num_instances;
    uint32_t num_replicas;
    bool allow_uneven;
    uint32_t devices_per_replica;
    struct device_pool pool; /* variable NULL: none */

    const char *host_subnet; /* "10.1.0.0/16" */
    bool no_host_check;

    bool numa_aware;
    enum place_policy placement;
    enum numa_policy memory;
    const char *cpus;
    bool first_threads;
    uint32_t reserve_cores;
    bool strict_binding;
    struct cmdline_list topologies; /* sources for topology_read() */

    const char *loader; /* "auto", "none" or addresses */
    struct hostlist loader_hosts;
    const char *verify; /* a percentage of batches; NULL: what the environment says */

    const char *only_output; /* instances, as ranges */
    const char *tag;         /* template of what stands before a line; NULL: nothing */
    const char *output_dir;
    const char *result;
    enum cmdline_format print_topology;
    bool dry_run;
    bool no_stdin;

    struct cmdline_list exports; /* NAME, NAME=value or PREFIX* */

    uint64_t grace_ns;
    uint64_t timeout_ns; /* 0: none */
    uint64_t start_timeout_ns;
    uint64_t heartbeat_timeout_ns;
    uint32_t max_restarts;

    struct cmdline_list mpi_global_args; /* one word each */
    struct cmdline_list mpi_local_args;
    struct cmdline_instance_args {
        uint32_t instance;
        struct cmdline_list words;
    } * instance_args; /* owned; in the order of the command line */
    size_t num_instance_args;

    const char *import_config, *export_config;
    bool overwrite_config;

    bool allow_root;
    int verbosity;
    enum cmdline_version version;

    char **program; /* with its arguments, ended by NULL; program[0] is NULL when none is named */

    struct options_settings settings; /* all that was said, for configfile_write() */
    struct cmdline_list imported;     /* texts of the configuration file */
};

void cmdline_init(struct cmdline *cmdline);
void cmdline_fini(struct cmdline *cmdline);

/** For --help and the tests; the target is a struct cmdline. */
extern const struct options_program cmdline_program;

/**
 * Read the command line, and the configuration file that it names: what is said on the command line
 * is not taken from the file. argv is changed: program[] lies in it.
 *
 * Returns what options_parse() does.
 */
int cmdline_parse(struct cmdline *cmdline, int argc, char **argv, struct plenum_error *err);

/** yes, no; on, off; true, false; 1, 0: 0 or -EINVAL. */
int cmdline_parse_truth(const char *text, bool *ret);

#endif
