/* SPDX-License-Identifier: MIT */
/* shim.c - the outer shim: a child of mpirun, its daemon, or plenumrun's own starter; the inner
 * shim's guard.
 *
 *     starter or daemon ── outer shim ── inner shim ──┬── the program (in its own process group)
 *                                                   └── plenumd (the first shim of a host)
 *
 * The inner shim (inner.c) does the work: it talks to plenumrun, starts the program, and forwards
 * its output. The outer one only waits (guard.c). There are two, so that either can be killed: both
 * are subreapers, so the survivor has the whole tree below it and ends it, including grandchildren
 * that changed their session.
 *
 * Both exit with status 0 when plenumrun has sent END, whatever the program did: failures are
 * reported on the control connection, and the starter must not react to them. There is one
 * exception: a program that has called MPI_Init() and ends with status 0 but without MPI_Finalize()
 * leaves the others waiting for ever, and only Open MPI detects that. So when a program has ended
 * while others are running (LEAVE), the outer shim leaves, and Open MPI ends the job if necessary.
 * The inner shim stays with the host's loader. */
#include "config.h"

#include "launcher/shim/shim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/util.h"
#include "launcher/control/handover.h"
#include "launcher/host/proctree.h"
#include "launcher/shim/guard.h"
#include "launcher/host/sweep.h"
#include "launcher/host/signals.h"

enum {
    LOOK_MS = 50,     /* between checks of a daemon that was asked to end */
    DAEMON_MS = 2000, /* time until the daemon is killed */
};

/* Copy a variable, and remove it, so that the program and the loader do not see it. Returns whether
 * it was set, and not too long. */
static bool claim_text(const char *name, char *ret, size_t size)
{
    char *value = getenv(name);
    bool fits = value && (size_t)snprintf(ret, size, "%s", value) < size;

    if (value)
        explicit_bzero(value, strlen(value));
    (void)unsetenv(name);
    return fits;
}

static bool claim_token(struct shim_task *ret)
{
    const size_t mark = sizeof(CONTROL_TOKEN_TLS) - 1;
    char text[sizeof(CONTROL_TOKEN_TLS) + CONTROL_TOKEN_MAX];
    bool ok = claim_text(SHIM_ENV_TOKEN, text, sizeof(text));

    ret->encrypted = ok && strncmp(text, CONTROL_TOKEN_TLS, mark) == 0;
    ok = ok && (size_t)snprintf(ret->token, sizeof(ret->token), "%s",
                                text + (ret->encrypted ? mark : 0)) < sizeof(ret->token);
    explicit_bzero(text, sizeof(text));
    return ok;
}

static bool claim_number(const char *name, uint64_t max, uint64_t *ret)
{
    char text[24];

    return claim_text(name, text, sizeof(text)) && parse_u64(text, max, ret) == 0;
}

/* Read a number from a variable of Open MPI's, and leave it in the environment. */
static bool read_number(const char *name, uint32_t *ret)
{
    const char *value = getenv(name);
    uint64_t number;

    if (!value || parse_u64(value, UINT32_MAX, &number) < 0)
        return false;
    *ret = (uint32_t)number;
    return true;
}

static bool claim_instance(struct shim_task *ret)
{
    uint64_t instance;

    if (claim_number(SHIM_ENV_INSTANCE, UINT32_MAX, &instance)) { /* on one host */
        ret->instance = ret->local_index = (uint32_t)instance;
        return true;
    }
    return read_number("OMPI_COMM_WORLD_RANK", &ret->instance) &&
           read_number("OMPI_COMM_WORLD_LOCAL_RANK", &ret->local_index);
}

/* Returns whether the variable is a range of ports. */
static bool claim_ports(struct ports *ret)
{
    char text[2 * PORTS_TEXT_MAX];
    const char *at = text;
    uint64_t first, last;

    if (!claim_text(SHIM_ENV_PORTS, text, sizeof(text)) ||
        parse_next_u64(&at, UINT16_MAX, &first) < 0 || *at != '-' ||
        parse_u64(at + 1, UINT16_MAX, &last) < 0 || last < first)
        return false;
    *ret = (struct ports){.first = (uint16_t)first, .last = (uint16_t)last};
    return true;
}

static bool claim_task(struct shim_task *ret)
{
    uint64_t loader = 0, grace_ms = 0;
    bool ok;

    *ret = (struct shim_task){0};
    handover_clear_agent();
    ok = claim_text(SHIM_ENV_CONTROL, ret->control, sizeof(ret->control));
    ok &= claim_token(ret);
    ok &= claim_text(SHIM_ENV_JOB, ret->job, sizeof(ret->job));
    ok &= claim_number(SHIM_ENV_LOADER, 1, &loader);
    ok &= claim_text(SHIM_ENV_STATUS, ret->status_port, sizeof(ret->status_port));
    ok &= claim_number(SHIM_ENV_GRACE, UINT64_MAX / NS_PER_MS, &grace_ms);
    ok &= claim_number(SHIM_ENV_IGNORED, UINT64_MAX, &ret->ignored);
    /* present only where limits are inherited */
    (void)claim_number(SHIM_ENV_DESCRIPTORS, UINT64_MAX, &ret->descriptors);
    ret->reserves_port = claim_ports(&ret->ports);
    ok &= claim_instance(ret);
    ret->keep_loader = loader != 0;
    ret->grace_ns = grace_ms * NS_PER_MS;
    return ok;
}

struct shim_process {
    char state; /* 'R', 'S', 'T' ... */
    int parent;
    char name[32];
};

/* Read a process's state, parent and name. Returns 0, or -1 if it is gone. */
static int read_process(pid_t pid, struct shim_process *ret)
{
    char path[32], text[256], *after;
    FILE *f;
    size_t n;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return -1;
    n = fread(text, 1, sizeof(text) - 1, f);
    (void)fclose(f);
    text[n] = '\0';
    after = strrchr(text, ')');
    if (!after || !strchr(text, '(') || sscanf(after + 1, " %c %d", &ret->state, &ret->parent) != 2)
        return -1;
    *after = '\0';
    (void)snprintf(ret->name, sizeof(ret->name), "%s", strchr(text, '(') + 1);
    return 0;
}

/* Is this the name of Open MPI's daemon, either 4.1's or PRRTE's? */
static bool is_daemon(const char *name)
{
    return strcmp(name, "orted") == 0 || strcmp(name, "prted") == 0;
}

/* End the daemon that started us, if neither plenumrun nor mpirun can be reached. It has started
 * nothing but instances of this job, and would wait for a dead connection to break. (mpirun itself
 * has a guard.) */
static void end_parent(pid_t parent)
{
    struct shim_process p;

    if (parent <= 1 || getppid() != parent || read_process(parent, &p) < 0)
        return;
    (void)kill(parent, SIGTERM);
    (void)kill(parent, SIGCONT);
    if (!is_daemon(p.name))
        return;
    for (int i = 0; i < DAEMON_MS / LOOK_MS && getppid() == parent; i++)
        (void)usleep(LOOK_MS * 1000);
    if (getppid() == parent)
        (void)kill(parent, SIGKILL);
    for (int i = 0; i < LOOK_MS && getppid() == parent; i++)
        (void)usleep(1000);
}

/* Continue a stopped daemon, which would otherwise remain for ever after the job has ended. */
static void wake_parent(pid_t parent)
{
    struct shim_process p;

    if (parent > 1 && getppid() == parent && read_process(parent, &p) == 0 && p.state == 'T' &&
        is_daemon(p.name))
        (void)kill(parent, SIGCONT);
}

/* Returns the guard of the process that started us, if it is on this host; otherwise 0. */
static pid_t find_guard(pid_t parent)
{
    struct shim_process p, above, own;

    if (read_process(parent, &p) < 0 || p.parent <= 1 || read_process(p.parent, &above) < 0 ||
        read_process(getpid(), &own) < 0 || strcmp(above.name, own.name) != 0)
        return 0;
    return p.parent;
}

/* Continue a stopped guard: if plenumrun is gone, too, no other process would do so. */
static void wake_guard(pid_t guard)
{
    struct shim_process p, own;

    if (guard > 0 && read_process(guard, &p) == 0 && p.state == 'T' &&
        read_process(getpid(), &own) == 0 && strcmp(p.name, own.name) == 0)
        (void)kill(guard, SIGCONT);
}

/* Run the inner shim. Then remove what Open MPI left behind, and wake the outer shim, which may
 * have been stopped. */
static _Noreturn void become_inner(const struct shim_task *task, pid_t outer, pid_t parent)
{
    int status = shim_inner(task, outer);

    sweep_after_program(parent, kill(parent, 0) < 0);
    if (getppid() == outer)
        (void)kill(outer, SIGCONT);
    _exit(status);
}

int shim_main(void)
{
    struct shim_task task;
    pid_t parent = getppid(), self = getpid(), guard = find_guard(parent);
    sigset_t before;
    int status;

    log_init("plenumrun", LOG_LEVEL_WARN);
    if (!claim_task(&task)) {
        log_error("%s is for plenumrun's own use: leave it out", SHIM_ARGUMENT);
        return 2;
    }
    const uint64_t patience = task.grace_ns + 5 * NS_PER_SEC;
    const struct guard_step told[] = {{0, SIGTERM}, {patience, SIGKILL}, {0, 0}};
    const struct guard_step orphaned[] = {{0, SHIM_ORPHAN_SIGNAL}, {patience, SIGKILL}, {0, 0}};
    struct guard_options options = {
        .parent = parent, .told = told, .orphaned = orphaned, .hand_on = true, .status_fd = -1};

    guard_block_signals(&before);
    signals_ignore_strays();
    if (proctree_adopt() < 0 || proctree_follow(parent, GUARD_PARENT_SIGNAL) < 0)
        return 1;
    options.child = fork();
    if (options.child < 0) {
        log_error("cannot start beside instance %u: no new process", task.instance);
        return 1;
    }
    if (options.child == 0)
        become_inner(&task, self, parent);
    status = guard_run(&options);
    if (WIFEXITED(status) && WEXITSTATUS(status) == SHIM_LOST)
        end_parent(parent);
    else
        wake_parent(parent);
    wake_guard(guard);
    sweep_after_program(parent, getppid() != parent);
    return WIFEXITED(status) && WEXITSTATUS(status) != SHIM_LOST ? WEXITSTATUS(status) : 1;
}
