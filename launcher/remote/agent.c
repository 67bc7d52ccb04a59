/* SPDX-License-Identifier: MIT */
/* agent.c - logs in to other hosts, for mpirun and for our own queries (probe.c).
 *
 * mpirun calls "agent [arguments] host command". It does not support users and ports, and takes the
 * colons of an IPv6 address for slots. If a host has any of these, mpirun gets plenumrun itself as
 * its agent, and placeholder names where necessary: addresses from 240.0.0.0/4, a reserved range,
 * because mpirun queries a name server for every name that is not an address.
 *
 * The agent also transfers the job's secret. mpirun would send it to its daemons as a variable, in
 * clear text; instead it is passed through ssh's standard input, and the shell at the other end
 * puts it into the daemon's environment, where the shims find it. */
#include "config.h"

#include "launcher/remote/agent.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "launcher/control/handover.h"
#include "launcher/host/host.h"
#include "launcher/host/proctree.h"
#include "launcher/remote/login.h"
#include "launcher/control/exit_status.h"

enum {
    CONNECT_SECONDS_MOST = 10,
    CONNECT_SECONDS_LEAST = 2,
    KEEPALIVE_SECONDS_LEAST = 5,
    KEEPALIVE_SECONDS_MOST = 32767, /* TCP's maximum */
    SLOW_MS = 3000,                 /* a login that takes longer does not keep others waiting */
    LOOK_MS = 10,
};

/* Begins the line with the secret. Startup files of shells may read the blank lines before it. */
#define SECRET_MARK "plenum-secret="

/* Open MPI 4.1 calls the component rsh; PRRTE, which starts the processes of Open MPI 5, calls it
 * ssh. */
static const char RSH[] = "plm_rsh", SSH[] = "plm_ssh";
static const struct {
    const char *text;
    bool ssh;
} prefixes[] = {{"OMPI_MCA_", false}, {"PRTE_MCA_", true}};

bool agent_begins_setting(const char *word)
{
    static const char *const words[] = {"--mca", "-mca", "--prtemca", "-prtemca"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

bool agent_is_setting(const char *word, const char *name)
{
    const char *older = str_after(name, RSH), *newer = str_after(word, SSH);

    return strcmp(word, name) == 0 || (older && newer && strcmp(newer, older) == 0);
}

const char *agent_get_setting(const struct agent_settings *settings, const char *name)
{
    const struct texts *args = settings->mpi_args;
    const char *value = NULL;
    char *variable;

    for (size_t i = 0; i + 2 < args->count; i++)
        if (agent_begins_setting(args->items[i]) && agent_is_setting(args->items[i + 1], name))
            value = args->items[i + 2];
    if (value)
        return value;
    for (size_t i = 0; !value && i < ARRAY_LEN(prefixes); i++) {
        const char *rest = prefixes[i].ssh ? str_after(name, RSH) : NULL;

        variable = str_format("%s%s%s", prefixes[i].text, rest ? SSH : "", rest ? rest : name);
        value = variable ? getenv(variable) : NULL;
        free(variable);
    }
    return value;
}

bool agent_is_used(const struct agent_settings *settings)
{
    const char *starter = agent_get_setting(settings, "plm");

    if (starter)
        return strcmp(starter, "rsh") == 0 || strcmp(starter, "ssh") == 0;
    return !getenv("SLURM_JOB_ID") && !getenv("SLURM_JOBID");
}

bool agent_gives_secret(const struct agent_settings *settings, const struct plan *plan)
{
    bool batch = getenv("PBS_JOBID") || getenv("LSB_JOBID");

    return !plan_is_local(plan) && agent_is_used(settings) &&
           (!batch || agent_get_setting(settings, "plm"));
}

const char *agent_program(const struct agent_settings *settings)
{
    const char *agent = agent_get_setting(settings, "plm_rsh_agent");

    return agent && *agent ? agent : "ssh";
}

/* Returns whether the agent's program is called ssh. In a list, "ssh : rsh", the first one
 * counts. */
static bool is_ssh(const char *agent)
{
    size_t len = strcspn(agent, " :");
    const char *slash = memrchr(agent, '/', len);

    if (slash) {
        len -= (size_t)(slash + 1 - agent);
        agent = slash + 1;
    }
    return len == 3 && memcmp(agent, "ssh", 3) == 0;
}

unsigned agent_keepalive_seconds(const struct agent_settings *settings)
{
    /* The first probe may be sent at once, so the three waits after the probes must exceed the
     * timeout: each is longer than half of it. */
    uint64_t half = settings->heartbeat_timeout_ns / NS_PER_SEC / 2 + 1;

    return (unsigned)min_u64(max_u64(half, KEEPALIVE_SECONDS_LEAST), KEEPALIVE_SECONDS_MOST);
}

const char *agent_arguments(const struct agent_settings *settings, char ret[AGENT_OPTIONS_MAX])
{
    const char *own = agent_get_setting(settings, "plm_rsh_args");
    uint64_t seconds = settings->start_timeout_ns / NS_PER_SEC / 6;

    if (own)
        return own;
    ret[0] = '\0';
    if (!is_ssh(agent_program(settings)))
        return ret;
    seconds = min_u64(max_u64(seconds, CONNECT_SECONDS_LEAST), CONNECT_SECONDS_MOST);
    (void)snprintf(ret, AGENT_OPTIONS_MAX,
                   "-o BatchMode=yes -o ConnectTimeout=%u -o ConnectionAttempts=2 -o "
                   "ServerAliveInterval=%u -o ServerAliveCountMax=%d",
                   (unsigned)seconds, agent_keepalive_seconds(settings), AGENT_KEEPALIVE_PROBES);
    return ret;
}

/* Returns whether mpirun must get a placeholder instead of the host's name. */
static bool is_nameless(const struct plan *plan, uint32_t host)
{
    const struct plan_host *h = &plan->hosts[host];

    if (strchr(h->name, ':'))
        return true;
    /* mpirun would recognise this host's own name and never log in. */
    if ((h->user || h->port) && host_is_this(h->name))
        return true;
    for (uint32_t i = 0; i < host; i++) /* one address with several ports or users */
        if ((h->user || h->port) && strcasecmp(plan->hosts[i].name, h->name) == 0)
            return true;
    return false;
}

bool agent_must_translate(const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        const struct plan_host *h = &plan->hosts[i];

        if (!h->local && (h->user || h->port || is_nameless(plan, i)))
            return true;
    }
    return false;
}

void agent_name_host(const struct plan *plan, uint32_t host, char ret[AGENT_NAME_MAX])
{
    assert(host < plan->num_hosts);
    if (plan->hosts[host].local) /* PRRTE does not know all of our names */
        host_get_name(ret, AGENT_NAME_MAX);
    else if (is_nameless(plan, host))
        (void)snprintf(ret, AGENT_NAME_MAX, "240.%u.%u.%u", host >> 16 & 0xff, host >> 8 & 0xff,
                       host & 0xff);
    else
        (void)snprintf(ret, AGENT_NAME_MAX, "%s", plan->hosts[host].name);
}

char *agent_list_hosts(const struct plan *plan, uint32_t *next)
{
    char *text = NULL, name[AGENT_NAME_MAX];
    size_t size = 0, len = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    while (*next < plan->num_hosts && len < AGENT_LIST_BYTES) {
        const struct plan_host *h = &plan->hosts[*next];
        int n = 0;

        agent_name_host(plan, (*next)++, name);
        n += fprintf(f, "%s%s", len ? "," : "", name);
        if (h->user || h->port || strcmp(name, h->name) != 0)
            n += fprintf(f, "|%s|%u|%s", h->name, h->port, h->user ? h->user : "");
        len += n > 0 ? (size_t)n : 0;
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* Append the words of `text` up to a lone ':'. Writes NULs into `text`. Returns 0 or -E2BIG. */
static int split_words(char *text, char **words, size_t *count)
{
    char *save = NULL;

    for (char *w = strtok_r(text, " ", &save); w && strcmp(w, ":") != 0;
         w = strtok_r(NULL, " ", &save)) {
        if (*count + 8 > AGENT_WORDS_MAX)
            return -E2BIG;
        words[(*count)++] = w;
    }
    return 0;
}

static void add_login(char **words, size_t *count, char *port, char *user)
{
    if (port && *port && strcmp(port, "0") != 0) {
        words[(*count)++] = (char *)"-p";
        words[(*count)++] = port;
    }
    if (user && *user) {
        words[(*count)++] = (char *)"-l";
        words[(*count)++] = user;
    }
}

/* Write `text` as one word for a shell: in single quotes, with each quote inside as '\''. */
static void put_quoted(FILE *f, const char *text)
{
    (void)fputc('\'', f);
    for (; *text; text++) {
        if (*text == '\'')
            (void)fputs("'\\''", f);
        else
            (void)fputc(*text, f);
    }
    (void)fputc('\'', f);
}

/* The login shell may be of any kind, so the script calls sh explicitly. */
char *agent_make_script(const char *self, const char *const *arguments, size_t count)
{
    char *inner = NULL, *outer = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&inner, &size);

    if (!f)
        return NULL;
    (void)fputs("test -x ", f);
    put_quoted(f, self);
    (void)fprintf(f, " || exit %d; exec ", AGENT_NO_SELF);
    put_quoted(f, self);
    for (size_t i = 0; i < count; i++) {
        (void)fputc(' ', f);
        put_quoted(f, arguments[i]);
    }
    if (fclose(f) != 0 || !(f = open_memstream(&outer, &size))) {
        free(inner);
        return NULL;
    }
    (void)fputs("sh -c ", f);
    put_quoted(f, inner);
    free(inner);
    if (fclose(f) != 0) {
        free(outer);
        return NULL;
    }
    return outer;
}

static _Noreturn void become_agent(char *const *words, int in, int out, int err, pid_t parent)
{
    sigset_t none;

    (void)setsid(); /* no prompts at the terminal */
    if (proctree_follow(parent, SIGTERM) < 0)
        _exit(255);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)dup2(in, STDIN_FILENO);
    (void)dup2(out, STDOUT_FILENO);
    (void)dup2(err, STDERR_FILENO);
    (void)execvp(words[0], words);
    dprintf(STDERR_FILENO, "cannot execute %s: %s\n", words[0], strerror(errno));
    _exit(255);
}

pid_t agent_start(char *const *words, int in, int out, int err)
{
    pid_t parent = getpid(), pid = fork();

    if (pid == 0)
        become_agent(words, in, out, err, parent);
    return pid < 0 ? -errno : pid;
}

/* Build the command of a separate Slurm step, beside those of the job, for allocations without
 * logins. */
static int make_step(const struct plan_host *host, const char *script, char **text, char **words)
{
    static const char *const fixed[] = {"srun",      "--overlap", "--quiet", "--cpu-bind=none",
                                        "--nodes=1", "--ntasks=1"};
    size_t count = 0;

    *text = str_format("--nodelist=%s", host->name);
    if (!*text)
        return -ENOMEM;
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        words[count++] = (char *)fixed[i];
    words[count++] = *text;
    words[count++] = (char *)"sh";
    words[count++] = (char *)"-c";
    words[count++] = (char *)script;
    words[count] = NULL;
    return 0;
}

int agent_make_command(const struct agent_settings *settings, const struct plan_host *host,
                       const char *script, char **text, char **words)
{
    char arguments[AGENT_OPTIONS_MAX], *port;
    size_t count = 0;
    int r;

    if (!agent_is_used(settings))
        return make_step(host, script, text, words);
    /* `text` holds both strings and the port, one after the other. */
    *text = str_format("%s%c%s%c%u", agent_program(settings), 1,
                       agent_arguments(settings, arguments), 1, host->port);
    if (!*text)
        return -ENOMEM;
    char *second = strchr(*text, 1);

    assert(second);
    *second++ = '\0';
    port = strchr(second, 1);
    assert(port);
    *port++ = '\0';
    if ((r = split_words(*text, words, &count)) < 0 ||
        (r = split_words(second, words, &count)) < 0 || count == 0) {
        free(*text);
        return r < 0 ? r : -EINVAL;
    }
    add_login(words, &count, port, host->user);
    words[count++] = host->name;
    words[count++] = (char *)script;
    words[count] = NULL;
    return 0;
}

/* Look up the host that mpirun calls `name`. Sets fields[] to its real name and, if listed, its
 * port and user, which point into `list`. Writes NULs into `list`. Returns whether it was found. */
static bool find_in_list(char *list, const char *name, char *fields[3])
{
    char *save = NULL;

    for (char *item = strtok_r(list, ",", &save); item; item = strtok_r(NULL, ",", &save)) {
        char *bar = strchr(item, '|');

        if (bar)
            *bar = '\0';
        if (strcasecmp(item, name) != 0)
            continue;
        fields[0] = item; /* unless there are more fields */
        for (int i = 0; bar && i < 3; i++) {
            fields[i] = bar + 1;
            bar = strchr(bar + 1, '|');
            if (bar)
                *bar = '\0';
        }
        return true;
    }
    return false;
}

/* Like find_in_list(), but searches all lists. Returns a copy of the list that contains the name,
 * owned by the caller, or NULL. */
static char *find_host(const char *name, char *fields[3])
{
    const char *list;
    char variable[HANDOVER_LIST_MAX];

    for (unsigned i = 0; (list = getenv(handover_name_list(i, variable))); i++) {
        char *copy = strdup(list);

        if (copy && find_in_list(copy, name, fields))
            return copy;
        free(copy);
    }
    return NULL;
}

/* Wrap mpirun's command in a shell that reads the secret from its standard input, and in plenumrun
 * there, which ends the command when the login ends (login.c). The login shell parses all of it.
 * Returns NULL if out of memory. */
static char *wrap_command(char **words, int count)
{
    static const char take[] =
        "while IFS= read -r line; do "
        "case $line in " SECRET_MARK "*) " SHIM_ENV_TOKEN "=${line#" SECRET_MARK "}; break;; esac; "
        "done; [ -n \"$" SHIM_ENV_TOKEN
        "\" ] || { echo \"plenumrun: nothing arrived on standard input: does the agent (ssh) have "
        "the argument -n, or does a file like ~/.bashrc read it?\" >&2; exit 1; }; "
        "export " SHIM_ENV_TOKEN "; "
        "[ -x \"$2\" ] && exec \"$2\" " LOGIN_ARGUMENT " \"${SHELL:-sh}\" -c \"$1\" </dev/null; "
        "exec \"${SHELL:-sh}\" -c \"$1\" </dev/null";
    char *command = NULL, *text = NULL, self[4096];
    size_t size = 0;
    FILE *f;

    if (host_get_self(self, sizeof(self), NULL) < 0)
        return NULL;
    f = open_memstream(&command, &size);
    for (int i = 0; f && i < count; i++)
        (void)fprintf(f, "%s%s", i > 0 ? " " : "", words[i]);
    if (!f || fclose(f) != 0 || !(f = open_memstream(&text, &size))) {
        free(command);
        return NULL;
    }
    (void)fputs("sh -c ", f);
    put_quoted(f, take);
    (void)fputs(" sh ", f);
    put_quoted(f, command);
    (void)fputc(' ', f);
    put_quoted(f, self);
    free(command);
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

/* Replace our standard input by the secret, for the program that we start. Returns 0, or
 * -errno. */
static int offer_secret(const char *secret)
{
    int fd = memfd_create("plenum-secret", MFD_CLOEXEC);
    int r;

    if (fd < 0)
        return -errno;
    if ((r = io_write_all(fd, AGENT_BLANK_LINES, strlen(AGENT_BLANK_LINES))) < 0 ||
        (r = io_write_all(fd, SECRET_MARK, strlen(SECRET_MARK))) < 0 ||
        (r = io_write_all(fd, secret, strlen(secret))) < 0 || (r = io_write_all(fd, "\n", 1)) < 0)
        goto out;
    if (lseek(fd, 0, SEEK_SET) < 0 || dup2(fd, STDIN_FILENO) < 0)
        r = -errno;
out:
    io_close(&fd);
    return r;
}

int agent_make_gate(char *path, size_t size)
{
    pid_t pid = proc_self();
    int fd = pid < 0 ? (int)pid : memfd_create("plenum-gate", MFD_CLOEXEC);

    if (fd < 0)
        return pid < 0 ? (int)pid : -errno;
    (void)snprintf(path, size, "/proc/%d/fd/%d", (int)pid, fd);
    return fd;
}

/* Wait until this login may be made: until we have locked our byte of the gate, which several
 * agents share. The kernel unlocks it when its agent ends. Returns the gate's descriptor, or -1 if
 * there is no limit. */
static int pass_gate(void)
{
    const char *path = getenv(AGENT_ENV_GATE);
    struct flock place = {.l_type = F_WRLCK,
                          .l_whence = SEEK_SET,
                          .l_start = getpid() % AGENT_SIDE_BY_SIDE,
                          .l_len = 1};
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    while (fd >= 0 && fcntl(fd, F_OFD_SETLKW, &place) < 0)
        if (errno != EINTR)
            io_close(&fd);
    return fd;
}

/* Unlock the gate for the next login once this one has read the secret (our standard input), has
 * ended, or is slow. */
static void leave_gate(int *gate, pid_t login)
{
    siginfo_t info = {.si_pid = 0};
    struct stat st;

    if (*gate < 0 || fstat(STDIN_FILENO, &st) < 0)
        return;
    for (int ms = 0; ms < SLOW_MS && lseek(STDIN_FILENO, 0, SEEK_CUR) < st.st_size; ms += LOOK_MS) {
        if (waitid(P_PID, (id_t)login, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid > 0)
            break;
        (void)usleep(LOOK_MS * 1000);
    }
    io_close(gate);
}

/* Run the agent. Returns its exit status, or 255. If this process dies, the agent dies, too. `host`
 * is used in a message. */
static int run_agent(char *const *words, const char *host, int gate)
{
    pid_t parent = getpid(), pid = fork();
    int status;

    if (pid == 0) {
        if (proctree_follow(parent, SIGTERM) < 0)
            _exit(255);
        (void)execvp(words[0], words);
        fprintf(stderr, "plenumrun: cannot execute %s: %s\n", words[0], strerror(errno));
        _exit(255);
    }
    if (pid < 0) {
        fprintf(stderr, "plenumrun: cannot execute %s: %s\n", words[0], strerror(errno));
        return 255;
    }
    leave_gate(&gate, pid);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status))
        return 255;
    if (WEXITSTATUS(status) == STATUS_NOT_EXECUTABLE ||
        WEXITSTATUS(status) == STATUS_NOT_FOUND) /* failure.c looks for AGENT_NO_DAEMON */
        fprintf(
            stderr,
            "plenumrun: Open MPI's daemon cannot be executed on host %s (status %d): install the "
            "same Open MPI there, at the same place or in the PATH of logins without a "
            "terminal, or give --mpi-global-args '--prefix DIR'\n",
            host, WEXITSTATUS(status));
    return WEXITSTATUS(status);
}

int agent_main(int argc, char **argv)
{
    char *secret = getenv(SHIM_ENV_TOKEN);
    const char *program = getenv(AGENT_ENV_WORDS);
    char *words[AGENT_WORDS_MAX + 1], *fields[3] = {NULL}, *text, **all, *list = NULL;
    char *wrapped = NULL;
    size_t count = 0;
    int at, status, gate;

    if (!program) {
        fprintf(stderr, "plenumrun: %s is for mpirun's use\n", AGENT_ARGUMENT);
        return 255;
    }
    for (at = 2; at < argc && !(list = find_host(argv[at], fields)); at++)
        ;
    text = strdup(program);
    all = calloc((size_t)argc + AGENT_WORDS_MAX + 1, sizeof(*all));
    if (at >= argc || !text || !all || split_words(text, words, &count) < 0 || count == 0) {
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): the process ends */
        fprintf(stderr,
                "plenumrun: mpirun wants to start something on host '%s', which the job does not "
                "have\n",
                argc > 2 ? argv[2] : "");
        return 255;
    }
    memcpy(all, words, count * sizeof(*all));
    for (int i = 2; i < at; i++)
        all[count++] = argv[i];
    add_login(all, &count, fields[1], fields[2]);
    all[count++] = fields[0];
    if (secret) {
        all[count++] = wrapped = wrap_command(argv + at + 1, argc - at - 1);
        if (!wrapped || offer_secret(secret) < 0) {
            fprintf(stderr, "plenumrun: out of memory or descriptors\n");
            return 255;
        }
        explicit_bzero(secret, strlen(secret));
        (void)unsetenv(SHIM_ENV_TOKEN);
    } else {
        for (int i = at + 1; i < argc; i++)
            all[count++] = argv[i];
    }
    gate = secret ? pass_gate() : -1;
    handover_clear_agent();
    status = run_agent(all, fields[0], gate);
    free(wrapped);
    free(list);
    free(text);
    free(all);
    return status;
}
