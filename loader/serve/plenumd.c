/* SPDX-License-Identifier: MIT */
/* plenumd.c - plenumd's command line. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/data/dataname.h"
#include "common/net/address.h"
#include "common/util/cgroup.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/options/options.h"
#include "common/util/util.h"
#include "loader/serve/leash.h"
#include "loader/serve/settings.h"
#include "loader/serve/notify.h"
#include "loader/serve/users.h"
#include "loader/serve/roots.h"
#include "loader/serve/server.h"

struct plenumd_arguments {
    struct server_options server;
    const char *config;
    bool check_config;
    bool file_roots; /* the roots come from the file */
    /* UINT32_MAX: not given */
    uint32_t listen_fd, http_fd, client_fd, lifeline_fd, start_fd;
    bool job;
    bool pin_given;
    bool quiet;
    unsigned verbose;
    enum log_format log_format;
};

static int add_root(void *target, const char *value, struct plenum_error *err)
{
    struct plenumd_arguments *a = target;

    if (a->file_roots) /* the command line takes precedence */
        a->server.num_roots = 0;
    a->file_roots = false;
    if (a->server.num_roots == SERVER_ROOTS_MAX)
        return error_set(err, -EINVAL, "more than %d --root options", SERVER_ROOTS_MAX);
    a->server.roots[a->server.num_roots++] = value;
    return 0;
}

static int parse_pin(void *target, const char *value, struct plenum_error *err)
{
    static const struct {
        const char *name;
        enum pin_policy policy;
    } names[] = {{"core", PIN_CORE}, {"node", PIN_NODE}, {"none", PIN_NONE}};
    struct plenumd_arguments *a = target;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(value, names[i].name) == 0) {
            a->server.pin = names[i].policy;
            a->pin_given = true;
            return 0;
        }
    return error_set(err, -EINVAL, "--pin must be one of core, node, none, not '%s'", value);
}

static int parse_decoder(void *target, const char *value, struct plenum_error *err)
{
    struct plenumd_arguments *a = target;

    return image_jpeg_parse("--decoder", value, &a->server.jpeg, err);
}

/* Read a size from the environment, if it is set. */
static int read_size(const char *variable, uint64_t *ret)
{
    const char *size = getenv(variable);

    if (!size || !*size || parse_bytes(size, ret) == 0)
        return 0;
    log_error("%s is '%s': set it to a size such as 100G, or unset it", variable, size);
    return -EINVAL;
}

/* Read settings from the environment, for a job's own loader, whose command line is not written by
 * the user. */
static int read_environment(struct plenumd_arguments *a)
{
    const char *decoder = getenv("PLENUM_DECODER");
    struct plenum_error err;
    int r = read_size("PLENUM_CACHE_SIZE", &a->server.cache_size);

    if (r == 0)
        r = read_size("PLENUM_CACHE_MEMORY", &a->server.cache_memory);
    if (r < 0)
        return r;
    if (decoder && *decoder)
        r = image_jpeg_parse("PLENUM_DECODER", decoder, &a->server.jpeg, &err);
    if (r < 0)
        log_error("%s: set it to one of these, or unset it", err.text);
    return r;
}

/* Parse a number of cores, such as "2.5". */
static int parse_cpu_budget(void *target, const char *value, struct plenum_error *err)
{
    struct plenumd_arguments *a = target;
    char *end;
    double cores = parse_real(value, &end);

    if (*end || end == value || !(cores >= 0.01 && cores <= 65536))
        return error_set(err, -EINVAL,
                         "--cpu-budget needs a number of cores such as 2 or 0.5, not '%s'", value);
    a->server.cpu_millicores = (uint32_t)(cores * 1000 + 0.5);
    return 0;
}

static int parse_mode(void *target, const char *value, struct plenum_error *err)
{
    struct plenumd_arguments *a = target;
    char *end;
    unsigned long mode = strtoul(value, &end, 8);

    if (*end || end == value || mode > 0777)
        return error_set(err, -EINVAL, "--socket-mode needs an octal mode such as 0660, not '%s'",
                         value);
    a->server.socket_mode = (unsigned)mode;
    return 0;
}

static int parse_log_format(void *target, const char *value, struct plenum_error *err)
{
    struct plenumd_arguments *a = target;

    if (strcmp(value, "text") != 0 && strcmp(value, "json") != 0)
        return error_set(err, -EINVAL, "--log-format must be text or json, not '%s'", value);
    a->log_format = value[0] == 'j' ? LOG_JSON : LOG_TEXT;
    return 0;
}

static int count_verbose(void *target, const char *value, struct plenum_error *err)
{
    struct plenumd_arguments *a = target;

    (void)value;
    (void)err;
    a->verbose++;
    return 0;
}

#define DEFAULT_CONFIG PLENUM_SYSCONFDIR "/plenum/plenumd.conf"
/* Log lines per ten seconds: about what a person can read. */
enum { LOG_LINES_MAX = 500 };

#define AT(field) offsetof(struct plenumd_arguments, field)

static const struct option_def defs[] = {
    {"config", 'c', "FILE", OPTION_TEXT, AT(config),
     .help = "read settings from FILE, see plenumd.conf(5); the command line overrides it"},
    {"check-config", 0, NULL, OPTION_FLAG, AT(check_config),
     .help = "report each error in the file (default " DEFAULT_CONFIG ") and exit"},
    {"socket", 's', "ADDRESS", OPTION_TEXT, AT(server.socket),
     .help = "listen on unix:PATH or unix:@NAME (abstract); default "
             "unix:/run/plenum/plenumd.sock for root, $XDG_RUNTIME_DIR/plenumd.sock for others"},
    {"socket-mode", 0, "MODE", OPTION_CALL, .call = parse_mode,
     .help = "mode of the socket file (default 0600)"},
    {"socket-group", 0, "GROUP", OPTION_TEXT, AT(server.socket_group),
     .help = "give the socket file to GROUP, whose members may then connect; the default mode is "
             "then 0660"},
    {"user", 0, "USER", OPTION_TEXT, AT(server.user),
     .help = "as root: become USER once the sockets are open and the key is read"},
    {"listen", 'l', "ADDRESS", OPTION_TEXT, AT(server.listen),
     .help =
         "also serve clients over TCP at HOST:PORT; without HOST, at 127.0.0.1 (default: none)"},
    {"tls-key", 0, "FILE", OPTION_TEXT, AT(server.tls_key),
     .help = "serve only TCP clients that have the key in FILE, and encrypt the traffic (TLS 1.3)"},
    {"threads", 't', "N", OPTION_U32, AT(server.threads), 1, 4096,
     .help = "decoder threads (default: one per CPU that this process may use)"},
    {"io-threads", 0, "N", OPTION_U32, AT(server.io_threads), 1, 1024,
     .help = "threads that read files (default: half as many, 2 to 16)"},
    {"decoder", 0, "NAME", OPTION_CALL, .call = parse_decoder,
     .help = "JPEG decoder: Plenum's own where it is fast (auto, default), Plenum's own wherever "
             "possible (plenum), or libjpeg-turbo (libjpeg); the pixels are the same"},
    {"pin", 0, "POLICY", OPTION_CALL, .call = parse_pin,
     .help = "bind each decoder thread to its own CPU (core, default), to a NUMA node (node, "
             "default with --job) or not at all (none)"},
    {"all-cpus", 0, NULL, OPTION_FLAG, AT(server.all_cpus),
     .help = "use all CPUs of the control group, regardless of the inherited affinity"},
    {"root", 'r', "DIR", OPTION_CALL, .call = add_root, .repeats = true,
     .help = "serve only data sets below DIR (may be given several times); 'DIR "
             "readers=USER,@GROUP' restricts it to these. Without this option, serve everything "
             "that this user can read, but only to this user"},
    {"cache-dir", 0, "DIR", OPTION_TEXT, AT(server.cache_dir),
     .help = "keep indices of data sets in DIR (default $PLENUM_CACHE_DIR, "
             "$XDG_CACHE_HOME/plenum or ~/.cache/plenum)"},
    {"cache-limit", 0, "BYTES", OPTION_BYTES, AT(server.cache_limits.bytes), 0, 0,
     .help = "remove the least recently used indices if all together exceed this (default: a tenth "
             "of the file system; 0: no limit)"},
    {"cache-user-limit", 0, "BYTES", OPTION_BYTES, AT(server.cache_limits.user_bytes), 0, 0,
     .help =
         "remove the least recently used indices of a user if those created for that user exceed "
         "this (default: a quarter of --cache-limit if several users are served; 0: no limit)"},
    {"cache-size", 0, "BYTES", OPTION_BYTES, AT(server.cache_size), 0, 0,
     .help = "cache samples from object stores on the local disk, under --cache-dir, using at most "
             "this much space (default $PLENUM_CACHE_SIZE or 0: none)"},
    {"cache-memory", 0, "BYTES", OPTION_BYTES, AT(server.cache_memory), 0, 0,
     .help = "keep samples from object stores in at most this much memory instead (default "
             "$PLENUM_CACHE_MEMORY or 0: none)"},
    {"cache-age", 0, "TIME", OPTION_DURATION, AT(server.cache_limits.age_ns),
     .help = "remove indices that have not been used for this long (default 90d; 0: no limit)"},
    {"no-tiles", 0, NULL, OPTION_FLAG, AT(server.no_tiles),
     .help = "neither write nor use hints about the tiles of JPEGs, which do not affect pixels"},
    {"ring-limit", 0, "BYTES", OPTION_BYTES, AT(server.ring_limit), 1, 0,
     .help = "reject a ring of batches if the rings of all clients would exceed this (default: "
             "half the memory of the machine or the control group)"},
    {"cpu-budget", 0, "CORES", OPTION_CALL, .call = parse_cpu_budget,
     .help = "use at most the CPU time of this many cores, such as 2.5 (default: no limit)"},
    {"memory-budget", 0, "BYTES", OPTION_BYTES, AT(server.memory_budget), 1, 0,
     .help = "reject a stream if the rings of all clients and the loader's own memory would exceed "
             "this (default: no limit except --ring-limit)"},
    {"fetch-memory", 0, "BYTES", OPTION_BYTES, AT(server.fetch_memory), 1, 0,
     .help = "fetch at most this much from object stores before it is read (default 256M)"},
    {"share-memory", 0, "BYTES", OPTION_BYTES, AT(server.share_memory), 0, 0,
     .help =
         "keep pixels that other streams of the same user will need in at most this much memory "
         "(default 0: each stream renders its own)"},
    {"max-clients", 0, "N", OPTION_U32, AT(server.max_clients), 1, 1 << 20,
     .help = "serve at most this many clients, and reject others (default 4096)"},
    {"drain-timeout", 0, "TIME", OPTION_DURATION, AT(server.drain_ns),
     .help = "how long SIGTERM waits for batches in progress (default 10s; 0: not at all)"},
    {"http-port", 0, "PORT", OPTION_U32, AT(server.http_port), 0, 65535,
     .help = "serve a status page, and metrics for Prometheus, at this TCP port (default 0: off)"},
    {"http-address", 0, "IP", OPTION_TEXT, AT(server.http_address),
     .help = "serve the status page and metrics at this address of the host (default 127.0.0.1: "
             "only this host)"},
    {"no-thumbnails", 0, NULL, OPTION_FLAG, AT(server.no_thumbnails),
     .help = "show no images on the status page"},
    {"job", 0, NULL, OPTION_FLAG, AT(job),
     .help = "serve a single job: only this user's processes, sharing its CPUs"},
    {"listen-fd", 0, "FD", OPTION_U32, AT(listen_fd), 0, 1 << 20,
     .help = "use this descriptor, a listening socket, instead of --socket"},
    {"http-fd", 0, "FD", OPTION_U32, AT(http_fd), 0, 1 << 20,
     .help =
         "serve the status page on this descriptor, a listening socket, instead of --http-port"},
    {"client-fd", 0, "FD", OPTION_U32, AT(client_fd), 0, 1 << 20,
     .help = "also serve the client on this descriptor, an accepted connection"},
    {"leash-fd", 0, "FD", OPTION_U32, AT(lifeline_fd), 0, 1 << 20,
     .help = "end when this descriptor reaches end of file"},
    {"start-fd", 0, "FD", OPTION_U32, AT(start_fd), 0, 1 << 20,
     .help = "report the progress of the start through --leash-fd, and close this descriptor when "
             "the start is complete"},
    {"log-format", 0, "FORMAT", OPTION_CALL, .call = parse_log_format,
     .help = "write messages as text (default) or as json, one object per line"},
    {"quiet", 'q', NULL, OPTION_FLAG, AT(quiet), .help = "log errors and warnings only"},
    {"verbose", 'v', NULL, OPTION_CALL, .call = count_verbose,
     .help = "log more (give it twice for debugging)"},
};

static const struct option_words words[] = {
    {"socket-group", "@groups"}, {"user", "@users"},          {"decoder", "auto plenum libjpeg"},
    {"pin", "core node none"},   {"log-format", "text json"}, {0},
};

static const struct options_program program = {
    .name = "plenumd",
    .usage = "[options]",
    .summary = "Turn image files into batches of uint8 or int8 pixels for training "
               "programs on this host.",
    .footer = "It runs until SIGTERM. See plenumd(8).",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = words,
};

/* Returns the default address to listen on. As root, also creates its folder. */
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

static void use_smaller(const struct cgroup *group, void *arg)
{
    uint64_t *least = arg, limit;

    if (cgroup_read(group, group->version == 2 ? "memory.max" : "memory.limit_in_bytes", NULL,
                    &limit) == 0)
        *least = min_u64(*least, limit);
}

/* Returns the machine's memory, or the control group's if that is less. */
static uint64_t whole_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    uint64_t all = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : UINT64_C(1) << 33;

    cgroup_visit("memory", use_smaller, &all);
    return all;
}

/* Check an option that reserves memory. It and the options checked before reserve `kept` bytes. */
static int check_reserved(const char *option, uint64_t bytes, uint64_t kept,
                          const struct server_options *o, uint64_t all)
{
    char size[32], most[32];

    if (bytes == 0)
        return 0;
    (void)format_bytes(bytes, size, sizeof(size));
    if (o->memory_budget > 0 && kept >= o->memory_budget)
        log_error("%s %s leaves nothing of --memory-budget %s", option, size,
                  format_bytes(o->memory_budget, most, sizeof(most)));
    else if (kept >= all)
        log_error("%s %s is not less than the memory of this host or its control group (%s)",
                  option, size, format_bytes(all, most, sizeof(most)));
    else
        return 0;
    return -EINVAL;
}

/* Check --cache-memory and --share-memory, and by default limit rings to half of the remaining
 * memory. Pages of sparse rings are charged to the loader's control group and must not fill it. */
static int share_memory(struct server_options *o)
{
    uint64_t all = whole_memory(), kept = o->cache_memory + o->share_memory;

    if (o->cache_memory > 0 && o->cache_size > 0) {
        log_error("--cache-memory and --cache-size cannot be combined: the kernel keeps a part of "
                  "the cache on the disk in memory already");
        return -EINVAL;
    }
    if (check_reserved("--cache-memory", o->cache_memory, o->cache_memory, o, all) < 0 ||
        check_reserved("--share-memory", o->share_memory, kept, o, all) < 0)
        return -EINVAL;
    if (o->ring_limit == 0)
        o->ring_limit = (all - kept) / 2;
    return 0;
}

static int check_root(const char *value, struct plenum_error *err)
{
    struct roots *roots;
    int r = roots_create(&value, 1, &roots, err);

    if (r == 0)
        roots_unref(roots);
    return r;
}

/* Check a setting that is otherwise checked only where it is used, so that the error can name its
 * line in the file. */
static int check_value(const char *name, const char *value, struct plenum_error *err)
{
    struct address address;
    struct user user;
    bool root = strcmp(name, "root") == 0;
    uint32_t group;

    if (strcmp(name, "socket") == 0)
        return address_parse(value, &address, err);
    if (strcmp(name, "socket-group") == 0)
        return users_find_id(value, true, &group, err);
    if (strcmp(name, "user") == 0)
        return users_find(value, &user, err);
    if (strcmp(name, "listen") == 0)
        return address_parse_listen(value, &address, err);
    if ((root || strcmp(name, "cache-dir") == 0 || strcmp(name, "tls-key") == 0) &&
        value[0] != '/' && !(root && dataname_is_remote(value)))
        return error_set(err, -EINVAL, "%s needs a path that begins with '/', not '%s'", name,
                         value);
    return root ? check_root(value, err) : 0;
}

/* Options that make no sense in a file that is read at every start. */
static const char *const command_line_only[] = {"config",    "check-config", "job",
                                                "listen-fd", "http-fd",      "client-fd",
                                                "leash-fd",  "start-fd",     NULL};

static const struct settings_rules rules = {
    .program = &program, .command_line_only = command_line_only, .check = check_value};

/* The current settings, and the strings from the file that they point to. */
struct settings {
    struct plenumd_arguments arguments;
    struct settings_texts texts;
    struct plenumd_arguments fresh; /* result of the last reload */
    struct settings_texts reloaded; /* the texts of `fresh` */
    int argc;
    char **argv;
};

static void on_fault(const char *sentence)
{
    log_error("%s", sentence);
}

/* Apply the defaults, then the environment, the file and the command line. Returns 0, or -EINVAL if
 * there are errors, which have been logged. */
static int read_settings(struct settings *s)
{
    struct plenumd_arguments *a = &s->arguments;
    const char *config = a->config ? a->config : a->check_config ? DEFAULT_CONFIG : NULL;
    struct plenum_error err;
    int operands;

    *a = (struct plenumd_arguments){.server = {.socket_mode = UINT_MAX,
                                               .listen_fd = -1,
                                               .http_fd = -1,
                                               .client_fd = -1,
                                               .lifeline_fd = -1,
                                               .max_clients = 4096,
                                               .drain_ns = 10 * NS_PER_SEC,
                                               .cache_limits = {.bytes = UINT64_MAX,
                                                                .user_bytes = UINT64_MAX,
                                                                .age_ns = UINT64_MAX}},
                                    .listen_fd = UINT32_MAX,
                                    .http_fd = UINT32_MAX,
                                    .client_fd = UINT32_MAX,
                                    .lifeline_fd = UINT32_MAX};
    if (read_environment(a) < 0)
        return -EINVAL;
    if (config && settings_read(config, &rules, a, &s->texts, on_fault) < 0)
        return -EINVAL;
    a->file_roots = a->server.num_roots > 0;
    /* The command line was already parsed without an error. */
    (void)options_parse(&program, a, s->argc, s->argv, &operands, &err);
    if (a->listen_fd != UINT32_MAX)
        a->server.listen_fd = (int)a->listen_fd;
    if (a->http_fd != UINT32_MAX)
        a->server.http_fd = (int)a->http_fd;
    if (a->client_fd != UINT32_MAX)
        a->server.client_fd = (int)a->client_fd;
    if (a->lifeline_fd != UINT32_MAX)
        a->server.lifeline_fd = (int)a->lifeline_fd;
    if (share_memory(&a->server) < 0)
        return -EINVAL;
    if (a->job && !a->pin_given)
        a->server.pin = PIN_NODE;
    a->server.any_store = a->job; /* it has only the rights and credentials of the job's user */
    a->server.own_uid_only = a->job || a->server.num_roots == 0;
    return 0;
}

/* Set the level of logging. A job's own loader shares the terminal with the training program, so it
 * logs only warnings, errors, and operations that the program has to wait for. */
static void set_log(const struct plenumd_arguments *a)
{
    log_set_format(a->log_format);
    log_set_limit(a->job || a->verbose > 0 ? 0 : LOG_LINES_MAX);
    log_set_level(a->verbose > 1    ? LOG_LEVEL_DEBUG
                  : a->verbose == 1 ? LOG_LEVEL_INFO
                  : a->quiet        ? LOG_LEVEL_WARN
                  : a->job          ? LOG_LEVEL_NOTICE
                                    : LOG_LEVEL_INFO);
}

/* Read the settings again. Those from startup stay in memory, because some of them cannot
 * change. */
static int reload(void *arg, struct server_options *ret)
{
    struct settings *s = arg;
    struct settings fresh = {.argc = s->argc, .argv = s->argv};

    fresh.arguments.config = s->arguments.config;
    settings_texts_fini(&s->reloaded);
    if (read_settings(&fresh) < 0) {
        settings_texts_fini(&fresh.texts);
        return -EINVAL;
    }
    *ret = fresh.arguments.server;
    if (!ret->socket)
        ret->socket = s->arguments.server.socket;
    s->fresh = fresh.arguments;
    s->reloaded = fresh.texts;
    return 0;
}

static void reloaded(void *arg)
{
    const struct settings *s = arg;

    set_log(&s->fresh);
}

/* Returns the descriptor that the command line, which has not been parsed yet, gives for an option;
 * or -1. */
static int early_descriptor(int argc, char **argv, const char *option)
{
    uint64_t fd;

    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], option) == 0 && parse_u64(argv[i + 1], 1 << 20, &fd) == 0)
            return (int)fd;
    return -1;
}

/* Raise the limit on open descriptors as far as possible: each client needs two. */
static void allow_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv)
{
    static char socket_text[128];
    struct settings s = {.argc = argc, .argv = argv};
    struct plenumd_arguments *a = &s.arguments;
    struct plenum_error err;
    int operands, r;

    io_fill_standard(O_RDONLY);
    log_init("plenumd", LOG_LEVEL_INFO);
    /* The loader never executes another program. Every thread inherits this flag, so set it before
     * the first one starts. */
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    leash_init(early_descriptor(argc, argv, "--leash-fd"),
               early_descriptor(argc, argv, "--start-fd"));
    r = options_start(&program, a, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (operands > 0) {
        log_error("'%s' is not an option; see plenumd --help", argv[1]);
        return 2;
    }
    if (a->check_config) {
        r = read_settings(&s);
        if (r == 0)
            printf("%s is valid\n", a->config ? a->config : DEFAULT_CONFIG);
        settings_texts_fini(&s.texts);
        return r < 0 ? 1 : 0;
    }
    if (read_settings(&s) < 0) {
        settings_texts_fini(&s.texts);
        return 1;
    }
    set_log(a);
    allow_descriptors();
    if (!a->job) { /* a job's loader is not a service, even if its keeper runs in one */
        notify_init();
        if (a->server.listen_fd < 0) {
            a->server.listen_fd = notify_get_socket(&err);
            if (a->server.listen_fd < -1) {
                log_error("%s", err.text);
                return 1;
            }
        }
    }
    if (a->server.listen_fd < 0 && !a->server.socket)
        a->server.socket = default_socket(socket_text, sizeof(socket_text));
    if (a->config) {
        a->server.reload = reload;
        a->server.reloaded = reloaded;
        a->server.reload_arg = &s;
    }
    r = server_run(&a->server, &err);
    settings_texts_fini(&s.texts);
    settings_texts_fini(&s.reloaded);
    if (r < 0) {
        log_error("%s", err.text);
        return 1;
    }
    return 0;
}
