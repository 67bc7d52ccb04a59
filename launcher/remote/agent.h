/* SPDX-License-Identifier: MIT */
/* agent.h - how other hosts are logged in to: by ssh, or what Open MPI was told to use instead. */
#ifndef LAUNCHER_AGENT_H
#define LAUNCHER_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "launcher/plan/plan.h"
#include "launcher/texts.h"

enum {
    AGENT_NAME_MAX = 256,
    AGENT_WORDS_MAX = 64,
    AGENT_OPTIONS_MAX = 256,
    AGENT_LIST_BYTES = 100000, /* of a list of hosts: the kernel takes words of up to 128 KiB */
    AGENT_NO_SELF = 101,       /* exit status of a script: there is no plenumrun */
    AGENT_KEEPALIVE_PROBES = 3,
};

/** What comes first by a login's standard input: a file like ~/.bashrc there may read a line or
 * some, as if Enter was pressed, and must not get a secret. */
#define AGENT_BLANK_LINES "\n\n\n\n"

/** How the line begins that plenumrun as an agent prints when a login ends as shells do that cannot
 * execute what they were given; the host's name comes next. */
#define AGENT_NO_DAEMON "Open MPI's daemon cannot be executed on host "

/** What decides how hosts are logged in to. */
struct agent_settings {
    const struct texts *mpi_args; /* mpirun's global arguments, which may name another agent */
    uint64_t start_timeout_ns, heartbeat_timeout_ns;
};

/**
 * Seconds between two keepalive probes of a connection that is not ours (ssh, Open MPI's daemons).
 * AGENT_KEEPALIVE_PROBES of them without an answer take longer than --heartbeat-timeout: it is our
 * heartbeat that loses a host, and names it.
 */
unsigned agent_keepalive_seconds(const struct agent_settings *settings);

/** A setting of Open MPI (4.1's name) that the person has made, on our command line or in the
 * environment, or NULL. */
const char *agent_get_setting(const struct agent_settings *settings, const char *name);

/** Is this word of mpirun's command line followed by the name of a setting and its value? */
bool agent_begins_setting(const char *word);

/** Is `word` the setting `name` (4.1's name), also as PRRTE calls it? */
bool agent_is_setting(const char *word, const char *name);

/** Does mpirun start processes on other hosts by an agent? (Else by srun, in a Slurm allocation.)
 */
bool agent_is_used(const struct agent_settings *settings);

/**
 * Is the job's secret given to other hosts by the standard input of a login, which is encrypted?
 * Then plenumrun is mpirun's agent. Else it is in the environment of whatever starts processes
 * there (Slurm, PBS, LSF), which gets it across in its own way.
 */
bool agent_gives_secret(const struct agent_settings *settings, const struct plan *plan);

/** The agent's program and its first arguments, "ssh -F config". */
const char *agent_program(const struct agent_settings *settings);

/** Arguments for it that bound the time it takes: those that the person has set, or our own where
 * it is ssh, or "". */
const char *agent_arguments(const struct agent_settings *settings, char ret[AGENT_OPTIONS_MAX]);

/** Is there a host that mpirun cannot log in to by its name alone: with a user or a port, or an
 * IPv6 address, which mpirun does not read? Then plenumrun must stand between it and the agent. */
bool agent_must_translate(const struct plan *plan);

/** The name of a host on mpirun's command line. */
void agent_name_host(const struct plan *plan, uint32_t host, char ret[AGENT_NAME_MAX]);

/**
 * Hosts from `*next` on, as many as a word of an environment holds: "name", or "name|real
 * name|port|user" where the name alone would not do, separated by commas. `*next` is then the first
 * that is left. Owned; NULL when memory is short.
 */
char *agent_list_hosts(const struct plan *plan, uint32_t *next);

/** What a host's shell must execute to start plenumrun (its file is `self`) there with these
 * arguments. Owned by the caller; NULL when memory is short. */
char *agent_make_script(const char *self, const char *const *arguments, size_t count);

/**
 * The command line that executes `script` in the shell of a host: by the agent, or by srun where
 * that starts processes.
 *
 * @param text   scratch that the words lie in; owned by the caller
 * @param words  [AGENT_WORDS_MAX + 1]; ended by NULL
 * @return 0, -ENOMEM, or -E2BIG
 */
int agent_make_command(const struct agent_settings *settings, const struct plan_host *host,
                       const char *script, char **text, char **words);

/** Start such a command line with these standard descriptors, in a session of its own: its process,
 * which is ended with us, or -errno. */
pid_t agent_start(char *const *words, int in, int out, int err);

/** plenumrun as an agent: runs the real one. An exit status. */
int agent_main(int argc, char **argv);

#endif
