/* SPDX-License-Identifier: MIT */
/* cmdline.h - plenumrun's options: one table, and the struct that it fills. */
#ifndef LAUNCHER_CMDLINE_H
#define LAUNCHER_CMDLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/net/hostlist.h"
#include "common/options/options.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/place.h"
#include "launcher/plan/job_settings.h"
#include "launcher/values/ports.h"

enum cmdline_version {
    CMDLINE_VERSION_NONE,
    CMDLINE_VERSION_TEXT,
    CMDLINE_VERSION_FULL_TEXT,
    CMDLINE_VERSION_FULL_JSON
};

#define CMDLINE_NO_WAIT UINT64_MAX

/** A parsed command line; cmdline_fini() frees its lists and settings. Zero means "not given",
 * apart from what cmdline_init() sets. Plain strings are borrowed from argv or `imported`. */
struct cmdline {
    struct hostlist hosts;
    struct texts excluded; /* lists of hosts */
    uint32_t num_hosts;    /* hosts beyond this number are spares */
    uint32_t min_hosts;
    uint32_t num_instances;
    uint32_t num_replicas;
    uint32_t replicas_per_host;
    bool allow_uneven;
    uint32_t devices_per_replica;
    struct device_pool pool; /* variable NULL: no pool */

    const char *host_subnet; /* "10.1.0.0/16" */
    struct ports ports;      /* ports on which the job listens to other hosts */
    bool no_host_check;
    const char *health_check; /* a command for sh(1); NULL: none */

    bool numa_aware;
    enum place_policy placement;
    enum numa_policy memory;
    const char *cpus;
    bool first_threads;
    uint32_t reserve_cores;
    bool strict_binding;
    struct texts topologies; /* sources for topology_read() */

    const char *loader;   /* "auto", "none" or addresses */
    uint32_t status_port; /* the status page's port; SETTINGS_NO_PORT: no page */
    struct hostlist loader_hosts;
    const char *verify; /* percentage of batches; NULL: use the variable's */

    struct output_settings output;
    bool dry_run;

    struct texts exports; /* NAME, NAME=value or PREFIX* */

    struct limits limits;
    struct stop_settings stop;
    uint32_t max_restarts;
    uint32_t max_idle_restarts; /* --max-restarts-without-progress; 0: no limit */
    const char *progress_file;
    uint32_t max_host_failures;
    uint64_t wait_hosts_ns; /* CMDLINE_NO_WAIT: not given */

    struct mpi_settings mpi;

    const char *import_config, *export_config;
    bool overwrite_config;

    int verbosity;
    enum cmdline_version version;

    char **program; /* and its arguments, terminated by NULL; program[0] NULL: none given */

    struct options_settings settings; /* all settings that were given, for configfile_write() */
    struct texts imported;            /* texts from the configuration file */
};

void cmdline_init(struct cmdline *cmdline);
void cmdline_fini(struct cmdline *cmdline);

/** The table of options, for --help and the tests. They set fields of a struct cmdline. */
extern const struct options_program cmdline_program;

/**
 * Read the command line, and the configuration file that it names: settings on the command line
 * override those in the file. argv is changed: program[] points into it.
 *
 * Returns options_parse()'s result.
 */
int cmdline_parse(struct cmdline *cmdline, int argc, char **argv, struct plenum_error *err);

/** May the hosts of the job change between its starts? */
bool cmdline_is_elastic(const struct cmdline *cmdline);

/**
 * Read --host and --hostfile again, because files may have changed.
 *
 * Errors: those of hostlist_add_file(); -ENODATA without a message if there is only --host, or if a
 * file can be read only once (a pipe). `*ret` is empty if neither option was given.
 */
int cmdline_read_hosts(const struct cmdline *cmdline, struct hostlist *ret,
                       struct plenum_error *err);

/** Remove the quotes from the value of NAME="value" or NAME='value', in place. Returns 0, or
 * -EINVAL if it is not NAME=value. */
int cmdline_unquote(char *text);

/** Parse yes or no, on or off, true or false, 1 or 0. Returns 0 or -EINVAL. */
int cmdline_parse_truth(const char *text, bool *ret);

#endif
