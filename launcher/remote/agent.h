/* SPDX-License-Identifier: MIT */
/* agent.h - logs in to other hosts, with ssh or with the agent that Open MPI is configured to
 * use. */
#ifndef LAUNCHER_AGENT_H
#define LAUNCHER_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "launcher/plan/plan.h"
#include "launcher/values/texts.h"

enum {
    AGENT_NAME_MAX = 256,
    AGENT_WORDS_MAX = 64,
    AGENT_OPTIONS_MAX = 256,
    AGENT_LIST_BYTES = 100000, /* a list of hosts ends soon after; the kernel's limit is 128 KiB */
    AGENT_NO_SELF = 101,       /* exit status of a script: plenumrun was not found */
    AGENT_KEEPALIVE_PROBES = 3,
    AGENT_SIDE_BY_SIDE = 64, /* the most logins that agents make at once */
};

/** Precedes the secret in a login's standard input: a file like ~/.bashrc there may read some
 * lines, as if Enter had been pressed, but must not read the secret. */
#define AGENT_BLANK_LINES "\n\n\n\n"

/** The start of the message that plenumrun, as an agent, prints if a login's exit status shows that
 * the shell could not execute its command; the host's name follows. */
#define AGENT_NO_DAEMON "Open MPI's daemon cannot be executed on host "

/** What determines how to log in to hosts. */
struct agent_settings {
    const struct texts *mpi_args; /* mpirun's global arguments, which may name another agent */
    uint64_t start_timeout_ns, heartbeat_timeout_ns;
};

/**
 * Returns the seconds between two keepalive probes of a connection that is not ours (ssh, Open
 * MPI's daemons). AGENT_KEEPALIVE_PROBES unanswered probes take longer than --heartbeat-timeout, so
 * that our own heartbeat detects a lost host first, and names it.
 */
unsigned agent_keepalive_seconds(const struct agent_settings *settings);

/** Returns a setting of Open MPI (by 4.1's name) that the user has made, on our command line or in
 * the environment, or NULL. */
const char *agent_get_setting(const struct agent_settings *settings, const char *name);

/** Returns whether this word of mpirun's command line is followed by a setting's name and value. */
bool agent_begins_setting(const char *word);

/** Is `word` the setting `name` (4.1's name), or PRRTE's name for it? */
bool agent_is_setting(const char *word, const char *name);

/** Returns whether mpirun uses an agent to start processes on other hosts. (Otherwise it uses the
 * scheduler, such as srun in a Slurm allocation.) */
bool agent_is_used(const struct agent_settings *settings);

/**
 * Returns whether the job's secret is sent to other hosts through the standard input of a login,
 * which is encrypted. Then plenumrun is mpirun's agent. Otherwise the secret is in the environment
 * of the system that starts processes there (Slurm, PBS, LSF), which transfers it by its own means.
 */
bool agent_gives_secret(const struct agent_settings *settings, const struct plan *plan);

/** Returns the agent's program and its first arguments, "ssh -F config". */
const char *agent_program(const struct agent_settings *settings);

/** Returns the agent's arguments: the user's (plm_rsh_args); otherwise, for ssh, arguments that
 * limit how long a login may take; otherwise "". */
const char *agent_arguments(const struct agent_settings *settings, char ret[AGENT_OPTIONS_MAX]);

/** Returns whether mpirun cannot log in to some host by its name, because the host has a user, a
 * port, or an IPv6 address, which mpirun cannot parse. Then plenumrun must mediate between mpirun
 * and the agent. */
bool agent_must_translate(const struct plan *plan);

/** Write the name that a host has on mpirun's command line. */
void agent_name_host(const struct plan *plan, uint32_t host, char ret[AGENT_NAME_MAX]);

/**
 * List hosts starting at `*next`, as many as fit into one environment variable: "name", or
 * "name|real name|port|user" if the name alone is not enough, separated by commas. `*next` is then
 * the first remaining host. Owned by the caller; NULL if out of memory.
 */
char *agent_list_hosts(const struct plan *plan, uint32_t *next);

/** Returns a shell command that runs plenumrun, at path `self`, with these arguments. Owned by the
 * caller; NULL if out of memory. */
char *agent_make_script(const char *self, const char *const *arguments, size_t count);

/**
 * Build the command line that executes `script` in a host's shell: with the agent, or with srun if
 * srun starts processes.
 *
 * @param text   memory that holds the words; the caller frees it
 * @param words  [AGENT_WORDS_MAX + 1]; terminated by NULL
 * @return       0, -ENOMEM, -E2BIG (too many words), or -EINVAL (no agent)
 */
int agent_make_command(const struct agent_settings *settings, const struct plan_host *host,
                       const char *script, char **text, char **words);

/** Start a command line with these standard descriptors, in a separate session. Returns its process
 * ID, or -errno. The process receives SIGTERM when ours ends. */
pid_t agent_start(char *const *words, int in, int out, int err);

/**
 * Create the gate that limits how many agents log in at once: mpirun starts the agents of all hosts
 * together. A login counts until it has read the secret, for a few seconds at most.
 *
 * @param path  receives the path at which agents open the gate, while the returned descriptor
 *              (owned by the caller) is open
 *
 * Returns the descriptor or -errno.
 */
int agent_make_gate(char *path, size_t size);

/** Be mpirun's agent: run the real agent (ssh). Returns an exit status. */
int agent_main(int argc, char **argv);

#endif
