/* main.c - plenumd's command line. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/log.h"
#include "common/options.h"
#include "common/util.h"
#include "loader/serve/notify.h"
#include "loader/serve/server.h"

struct arguments {
    struct server_options server;
    uint32_t listen_fd, leash_fd; /* UINT32_MAX: not given */
    bool job;
    bool pin_given;
    bool quiet;
    unsigned verbose;
};

static int take_root(void *target, const char *value, struct plenum_error *err)
{
    struct arguments *a = target;

    if (a->server.num_roots == SERVER_ROOTS_MAX)
        return error_set(err, -EINVAL, "more than %d --root options", SERVER_ROOTS_MAX);
    a->server.roots[a->server.num_roots++] = value;
    return 0;
}

static int take_pin(void *target, const char *value, struct plenum_error *err)
{
    static const struct {
        const char *name;
        enum pin_policy policy;
    } names[] = {{"core", PIN_CORE}, {"node", PIN_NODE}, {"none", PIN_NONE}};
    struct arguments *a = target;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(value, names[i].name) == 0) {
            a->server.pin = names[i].policy;
            a->pin_given = true;
            return 0;
        }
    return error_set(err, -EINVAL, "--pin is one of core, node, none, not '%s'", value);
}

static int take_mode(void *target, const char *value, struct plenum_error *err)
{
    struct arguments *a = target;
    char *end;
    unsigned long mode = strtoul(value, &end, 8);

    if (*end || end == value || mode > 0777)
        return error_set(err, -EINVAL, "--socket-mode needs an octal mode such as 0660, not '%s'",
                         value);
    a->server.socket_mode = (unsigned)mode;
    return 0;
}

static int take_verbose(void *target, const char *value, struct plenum_error *err)
{
    struct arguments *a = target;

    (void)value;
    (void)err;
    a->verbose++;
    return 0;
}

#define AT(field) offsetof(struct arguments, field)

static const struct option_def defs[] = {
    {"socket", 's', "ADDRESS", OPTION_TEXT, AT(server.socket), 0, 0,
     "listen on unix:PATH or unix:@NAME (abstract); default unix:/run/plenum/plenumd.sock for "
     "root, "
     "$XDG_RUNTIME_DIR/plenumd.sock for others",
     NULL},
    {"socket-mode", 0, "MODE", OPTION_CALL, 0, 0, 0, "mode of the socket's file (default 0600)",
     take_mode},
    {"threads", 't', "N", OPTION_U32, AT(server.threads), 1, 4096,
     "threads that decode (default: one for each CPU that this process may use)", NULL},
    {"io-threads", 0, "N", OPTION_U32, AT(server.io_threads), 1, 1024,
     "threads that read files (default: half as many, 2 to 16)", NULL},
    {"pin", 0, "POLICY", OPTION_CALL, 0, 0, 0,
     "bind each decoding thread to a CPU of its own (core, default), to a NUMA node (node, default "
     "with "
     "--job) or not at all (none)",
     take_pin},
    {"all-cpus", 0, NULL, OPTION_FLAG, AT(server.all_cpus), 0, 0,
     "use all CPUs of the control group, whatever affinity was inherited", NULL},
    {"root", 'r', "DIR", OPTION_CALL, 0, 0, 0,
     "serve only data sets below DIR (may be given several times); without it all that this user "
     "can "
     "read is served, to this user alone",
     take_root},
    {"cache-dir", 0, "DIR", OPTION_TEXT, AT(server.cache_dir), 0, 0,
     "keep indices of data sets there (default $PLENUM_CACHE_DIR, $XDG_CACHE_HOME/plenum or "
     "~/.cache/plenum)",
     NULL},
    {"ring-limit", 0, "BYTES", OPTION_BYTES, AT(server.ring_limit), 1, 0,
     "refuse rings of batches beyond this sum over all clients (default: half of the memory)",
     NULL},
    {"drain-timeout", 0, "TIME", OPTION_DURATION, AT(server.drain_ns), 0, 0,
     "how long SIGTERM lets batches that are under way be finished (default 10s; 0: not at all)",
     NULL},
    {"job", 0, NULL, OPTION_FLAG, AT(job), 0, 0,
     "serve one job: this user's processes only, CPUs shared with it", NULL},
    {"listen-fd", 0, "FD", OPTION_U32, AT(listen_fd), 0, 1 << 20,
     "use this socket, which listens already, instead of --socket", NULL},
    {"leash-fd", 0, "FD", OPTION_U32, AT(leash_fd), 0, 1 << 20,
     "end when this descriptor reaches end of file", NULL},
    {"quiet", 'q', NULL, OPTION_FLAG, AT(quiet), 0, 0, "say only what is wrong", NULL},
    {"verbose", 'v', NULL, OPTION_CALL, 0, 0, 0, "say more (twice: for debugging)", take_verbose},
};

static const struct options_program program = {
    .name = "plenumd",
    .usage = "[options]",
    .summary = "The loader: turns image files into batches of Int8 pixels for training programs on "
               "this host.",
    .footer = "It runs until SIGTERM. See plenumd(8).",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

/* Where to listen when nobody said. */
static const char *default_socket(char *text, size_t size)
{
    const char *dir = getenv("XDG_RUNTIME_DIR");

    if (geteuid() == 0) {
        (void)mkdir("/run/plenum", 0755);
        return "unix:/run/plenum/plenumd.sock";
    }
    if (dir && *dir)
        (void)snprintf(text, size, "unix:%s/plenumd.sock", dir);
    else
        (void)snprintf(text, size, "unix:@plenumd-%u", (unsigned)geteuid());
    return text;
}

static uint64_t half_of_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages / 2 * (uint64_t)size : UINT64_C(1) << 32;
}

int main(int argc, char **argv)
{
    static char socket_text[128];
    struct arguments a = {.server = {.socket_mode = 0600,
                                     .listen_fd = -1,
                                     .leash_fd = -1,
                                     .drain_ns = 10 * NS_PER_SEC},
                          .listen_fd = UINT32_MAX,
                          .leash_fd = UINT32_MAX};
    struct plenum_error err;
    int operands, r;

    log_init("plenumd", LOG_LEVEL_INFO);
    r = options_start(&program, &a, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (operands > 0) {
        log_error("'%s' is not an option; see plenumd --help", argv[1]);
        return 2;
    }
    if (a.listen_fd != UINT32_MAX)
        a.server.listen_fd = (int)a.listen_fd;
    if (a.leash_fd != UINT32_MAX)
        a.server.leash_fd = (int)a.leash_fd;
    if (!a.job) { /* a job's loader is its keeper's, and no service, whoever started the keeper */
        notify_init();
        if (a.server.listen_fd < 0) {
            a.server.listen_fd = notify_take_socket(&err);
            if (a.server.listen_fd < -1) {
                log_error("%s", err.text);
                return 1;
            }
        }
    }
    if (a.server.listen_fd < 0 && !a.server.socket)
        a.server.socket = default_socket(socket_text, sizeof(socket_text));
    if (a.server.ring_limit == 0)
        a.server.ring_limit = half_of_memory();
    if (a.job && !a.pin_given)
        a.server.pin = PIN_NODE;
    a.server.own_uid_only = a.job || a.server.num_roots == 0;
    /* A job's own loader speaks up only when something is wrong: its terminal is the training
     * program's. */
    log_set_level(a.verbose > 1                          ? LOG_LEVEL_DEBUG
                  : (a.job || a.quiet) && a.verbose == 0 ? LOG_LEVEL_WARN
                                                         : LOG_LEVEL_INFO);
    r = server_run(&a.server, &err);
    if (r < 0) {
        log_error("%s", err.text);
        return 1;
    }
    return 0;
}
