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
#include "launcher/plan/settings.h"
#include "launcher/ports.h"

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
    struct texts excluded; /* lists of hosts */
    uint32_t num_instances;
    uint32_t num_replicas;
    bool allow_uneven;
    uint32_t devices_per_replica;
    struct device_pool pool; /* variable NULL: none */

    const char *host_subnet; /* "10.1.0.0/16" */
    struct ports ports;      /* on which the job listens to other hosts */
    bool no_host_check;

    bool numa_aware;
    enum place_policy placement;
    enum numa_policy memory;
    const char *cpus;
    bool first_threads;
    uint32_t reserve_cores;
    bool strict_binding;
    struct texts topologies; /* sources for topology_read() */

    const char *loader;   /* "auto", "none" or addresses */
    uint32_t status_port; /* of its status page; SETTINGS_NO_PORT: it has none */
    struct hostlist loader_hosts;
    const char *verify; /* a percentage of batches; NULL: what the environment says */

    struct output_settings output;
    bool dry_run;

    struct texts exports; /* NAME, NAME=value or PREFIX* */

    struct limits limits;
    uint32_t max_restarts;

    struct mpi_settings mpi;

    const char *import_config, *export_config;
    bool overwrite_config;

    int verbosity;
    enum cmdline_version version;

    char **program; /* with its arguments, ended by NULL; program[0] is NULL when none is named */

    struct options_settings settings; /* all that was said, for configfile_write() */
    struct texts imported;            /* texts of the configuration file */
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

/** Take the quotes off the value of NAME="value" or NAME='value', in place: 0, or -EINVAL when it
 * is not NAME=value. */
int cmdline_unquote(char *text);

/** yes, no; on, off; true, false; 1, 0: 0 or -EINVAL. */
int cmdline_parse_truth(const char *text, bool *ret);

#endif
