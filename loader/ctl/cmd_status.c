/* SPDX-License-Identifier: MIT */
/* cmd_status.c - plenumctl status: shows what a loader is doing, once or repeatedly. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/job/jobloader.h"
#include "common/net/address.h"
#include "common/net/frame.h"
#include "common/net/status.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"
#include "loader/ctl/screen.h"

enum { ANSWER_MS = 5000, STREAMS_MAX = 65536 };

struct status_arguments {
    bool json, watch;
    uint64_t interval_ns;
};

#define AT(field) offsetof(struct status_arguments, field)

static const struct option_def defs[] = {
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
    {"watch", 'w', NULL, OPTION_FLAG, AT(watch), .help = "refresh until q is pressed"},
    {"interval", 'i', "TIME", OPTION_DURATION, AT(interval_ns), NS_PER_MS * 100, 0,
     .help = "refresh interval (default 1s)"},
};

static const struct options_program program = {
    .name = "plenumctl status",
    .usage = "[ADDRESS] [options]",
    .summary = "Show what a loader is doing: streams, rates, waiting times, and what limits "
               "each.",
    .footer = "ADDRESS: unix:PATH, unix:@NAME or tcp:HOST:PORT. Default: the first of "
              "PLENUM_LOADER, otherwise this host's service and your own loaders, including "
              "those of jobs.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

/* The answer received so far. */
struct status_answer {
    struct status status;
    uint32_t got; /* streams received */
    bool begun;
};

/* Store one message of the answer. Returns 1 once the answer is complete, 0 if messages are
 * missing, or -errno with err set. */
static int store_answer(struct status_answer *a, const struct frame_header *h,
                        struct frame_reader *payload, const char *address, struct plenum_error *err)
{
    static const char nonsense[] = "it sent a malformed message";
    struct wire_error e;
    struct wire_hello hello;

    switch (h->type) {
    case WIRE_HELLO:
        if (wire_get_hello(payload, &hello) < 0)
            return error_set(err, -EPROTO, "%s: %s", address, nonsense);
        if (wire_hello_check(&hello, err) < 0)
            return error_prefix(err, -EPROTO, "%s", address);
        if (hello.minor < WIRE_MINOR_STATUS)
            return error_set(
                err, -EPROTO,
                "%s: that loader is too old to report this (%s); upgrade and restart it", address,
                hello.name);
        return 0;
    case WIRE_ERROR:
        if (wire_get_error(payload, &e) < 0)
            return error_set(err, -EPROTO, "%s: %s", address, nonsense);
        return error_set(err, e.code, "%s: %s", address, e.text);
    case WIRE_STATUS:
        if (a->begun || wire_get_status(payload, &a->status.loader) < 0 ||
            a->status.loader.streams > STREAMS_MAX)
            return error_set(err, -EPROTO, "%s: %s", address, nonsense);
        a->begun = true;
        a->status.streams = calloc(a->status.loader.streams + 1, sizeof(*a->status.streams));
        if (!a->status.streams)
            return error_set(err, -ENOMEM, "out of memory");
        break;
    case WIRE_STATUS_STREAM:
        if (!a->begun || a->got == a->status.loader.streams ||
            wire_get_status_stream(payload, &a->status.streams[a->got]) < 0)
            return error_set(err, -EPROTO, "%s: %s", address, nonsense);
        a->got++;
        assert(a->got <= a->status.loader.streams);
        break;
    default:
        return 0;
    }
    return a->got == a->status.loader.streams;
}

static int talk(struct frame_conn *c, struct status_answer *a, const char *address,
                struct plenum_error *err)
{
    uint64_t end = time_now_ns() + ANSWER_MS * NS_PER_MS;
    struct wire_hello hello;
    struct frame_header h;
    struct frame_reader payload;

    wire_hello_init(&hello, "plenumctl status");
    if (wire_put_hello(&c->tx, &hello) < 0 || wire_put_empty(&c->tx, WIRE_STATUS, 1) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    for (;;) {
        int sent = frame_conn_flush(c); /* frame_conn_fill() returns errors of the connection */
        struct pollfd p = {.fd = c->fd, .events = sent == -EAGAIN ? POLLIN | POLLOUT : POLLIN};
        uint64_t now = time_now_ns();
        int64_t n;
        int r;

        if (now >= end)
            return error_set(err, -ETIMEDOUT,
                             "%s: no answer for %d s: is the loader stopped or overloaded?",
                             address, ANSWER_MS / 1000);
        if (poll(&p, 1, (int)((end - now) / NS_PER_MS) + 1) < 0 && screen_is_interrupted())
            return error_set(err, -EINTR, "interrupted");
        n = frame_conn_fill(c);
        if (n == -EAGAIN)
            continue;
        if (n < 0)
            return error_set(err, (int)n, "%s: the loader closed the connection: is it restarting?",
                             address);
        while ((r = frame_conn_next(c, &h, &payload)) == 1) {
            r = store_answer(a, &h, &payload, address, err);
            if (r != 0)
                return r < 0 ? r : 0;
        }
        if (r < 0)
            return error_set(err, -EPROTO, "%s: it sent a malformed frame", address);
    }
}

/* Get the loader's answer. The caller owns a->status.streams, even after an error. */
static int ask(const struct address *address, struct status_answer *a, struct plenum_error *err)
{
    struct frame_conn c;
    int fd = address_connect_until(address, 0, time_now_ns() + ANSWER_MS * NS_PER_MS), r;

    *a = (struct status_answer){0};
    if (fd < 0)
        return error_set(err, fd, "%s: %s%s", address->text, strerror(-fd),
                         fd == -ENOENT || fd == -ECONNREFUSED ? "; is plenumd running?"
                         : fd == -EACCES ? "; are you in the group of the socket?"
                         : fd == -EAGAIN ? "; its connection queue is full"
                                         : "");
    r = address_check_peer(address, fd);
    if (r < 0) {
        (void)close(fd);
        return error_set(err, r, "%s: another user's process listens there", address->text);
    }
    r = frame_conn_init(&c, fd, WIRE_MAX_PAYLOAD);
    r = r < 0 ? error_set(err, r, "out of memory") : talk(&c, a, address->text, err);
    frame_conn_fini(&c);
    return r;
}

/* The loaders to query. */
struct loaders {
    struct address *list;
    unsigned count;
};

static int add_address(struct loaders *l, const struct address *address, struct plenum_error *err)
{
    struct address *list = reallocarray(l->list, l->count + 1, sizeof(*list));

    if (!list)
        return error_set(err, -ENOMEM, "out of memory");
    l->list = list;
    l->list[l->count++] = *address;
    return 0;
}

static int draw(void *arg, FILE *file, unsigned rows, struct plenum_error *err)
{
    const struct loaders *l = arg;
    struct winsize size = {.ws_col = 80};
    struct plenum_error failure;
    struct status_answer a;
    unsigned each; /* lines per loader; 0 would mean no limit */

    (void)err;
    assert(l->count > 0); /* choose_loaders() finds at least one */
    (void)ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    each = (unsigned)max_u64(rows / l->count, 1);
    for (unsigned i = 0; i < l->count; i++) {
        if (ask(&l->list[i], &a, &failure) < 0)
            (void)fprintf(file, "%s\033[K\n", failure.text);
        else
            status_write_text(file, &a.status, size.ws_col ? size.ws_col : 80, each, "\033[K");
        free(a.status.streams);
    }
    return 0;
}

/* Add a loader that was found. A name that is not an address is ignored. */
static int add_found(struct loaders *l, const char *text, struct plenum_error *err)
{
    struct address address;

    return address_parse(text, &address, NULL) < 0 ? 0 : add_address(l, &address, err);
}

/* Add the user's loaders on abstract sockets: loaders of jobs, and one started by hand. */
static int add_abstract(struct loaders *l, struct plenum_error *err)
{
    char line[512], text[300] = "unix:", jobs[64], own[64], hex[9];
    char *name = text + sizeof("unix:") - 1;
    FILE *f = fopen("/proc/net/unix", "re");
    unsigned char flags[4];
    int r = 0;

    if (!f)
        return 0;
    (void)jobloader_form_address("", jobs, sizeof(jobs));
    (void)snprintf(own, sizeof(own), "unix:@plenumd-%u", (unsigned)geteuid());
    while (r >= 0 && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%*s %*s %*s %8s %*s %*s %*s %255s", hex, name) != 2 ||
            parse_hex(hex, flags, sizeof(flags)) < 0 || !(flags[1] & 1) || /* not listening */
            (strncmp(text, jobs, strlen(jobs)) != 0 && strcmp(text, own) != 0))
            continue;
        r = add_found(l, text, err);
    }
    (void)fclose(f);
    return r;
}

/* Find every loader that a user without an address might mean: the host's, their own, and those of
 * jobs. */
static int find_loaders(struct loaders *l, struct plenum_error *err)
{
    static const char host[] = "unix:/run/plenum/plenumd.sock";
    const char *dir = getenv("XDG_RUNTIME_DIR");
    char text[300];
    int r = 0;

    if (access(host + sizeof("unix:") - 1, F_OK) == 0)
        r = add_found(l, host, err);
    if (r < 0)
        return r;
    (void)snprintf(text, sizeof(text), "unix:%s/plenumd.sock", dir && *dir ? dir : "/nowhere");
    if (access(text + sizeof("unix:") - 1, F_OK) == 0)
        r = add_found(l, text, err);
    if (r < 0)
        return r;
    r = add_abstract(l, err);
    if (r < 0)
        return r;
    /* If there is none, use the host's socket: the error then says that no loader is running. */
    return l->count > 0 ? 0 : add_found(l, host, err);
}

/* Add all addresses of a name. */
static int add_name(struct loaders *l, const struct address *name, struct plenum_error *err)
{
    struct address *found;
    bool both;
    int r = address_lookup(name, 0, &found, &both, err), count = r;

    if (r < 0)
        return r;
    assert(count > 0);
    for (int i = 0; i < count && r >= 0; i++)
        r = add_address(l, &found[i], err);
    free(found);
    return r;
}

static int choose_loaders(const char *named, struct loaders *l, struct plenum_error *err)
{
    struct address list[ADDRESS_LIST_MAX];
    const char *variable = getenv("PLENUM_LOADER");
    int r;

    if (named) {
        r = address_parse(named, &list[0], err);
    } else if (variable && *variable) {
        r = address_parse_list(variable, list, err);
        if (r < 0)
            return error_prefix(err, r, "PLENUM_LOADER");
    } else {
        return find_loaders(l, err);
    }
    if (r >= 0 && address_is_name(&list[0]))
        return add_name(l, &list[0], err);
    return r < 0 ? r : add_address(l, &list[0], err);
}

/* Returns whether a loader has ended since it was found, or belongs to a different user. */
static bool is_gone(int code)
{
    return code == -ECONNREFUSED || code == -ENOENT || code == -EACCES || code == -EPERM;
}

/* Show the loaders, each with its address if there are several. Loaders that have ended, or that
 * belong to a different user, are skipped, unless none is left. A loader that does not answer is
 * reported, and makes the exit status 1. */
static int show(const struct loaders *l, const struct ctl_status_view *view,
                struct plenum_error *err)
{
    unsigned shown = 0;
    bool told = false;
    struct status_answer a;
    int r = 0;

    for (unsigned i = 0; i < l->count; i++) {
        r = ask(&l->list[i], &a, err);
        if (r >= 0) {
            if (l->count > 1 && !view->json)
                printf("%s%s\n", shown ? "\n" : "", l->list[i].text);
            view->write(view->arg, &a.status);
            shown++;
        } else if (l->count > 1 && !is_gone(r)) {
            fprintf(stderr, "%s: %s\n", view->name, err->text);
            told = true;
        }
        free(a.status.streams);
    }
    if (told)
        return 1;
    return shown > 0 ? 0 : r;
}

int ctl_show_status(const char *named, const struct ctl_status_view *view, struct plenum_error *err)
{
    struct loaders loaders = {NULL, 0};
    int r = choose_loaders(named, &loaders, err);

    if (r >= 0)
        r = show(&loaders, view, err);
    free(loaders.list);
    return r;
}

static void write_status(void *arg, const struct status *status)
{
    const struct status_arguments *a = arg;

    if (a->json)
        status_write_json(stdout, status);
    else
        status_write_text(stdout, status, 120, 0, "");
}

static int watch_named(const char *named, uint64_t interval_ns, struct plenum_error *err)
{
    struct loaders loaders = {NULL, 0};
    int r = choose_loaders(named, &loaders, err);

    if (r >= 0)
        r = screen_run(draw, &loaders, interval_ns, err);
    free(loaders.list);
    return r;
}

static int run(int argc, char **argv)
{
    struct status_arguments arguments = {.interval_ns = NS_PER_SEC};
    struct ctl_status_view view = {.name = program.name, .write = write_status, .arg = &arguments};
    struct plenum_error err;
    const char *named;
    int operands, r;

    r = options_start(&program, &arguments, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (operands > 1 || (arguments.json && arguments.watch)) {
        fprintf(stderr, "%s: %s; see --help\n", program.name,
                operands > 1 ? "only one address can be given"
                             : "--json and --watch cannot be used together");
        return 2;
    }
    named = operands ? argv[1] : NULL;
    view.json = arguments.json;
    r = arguments.watch ? watch_named(named, arguments.interval_ns, &err)
                        : ctl_show_status(named, &view, &err);
    if (r < 0)
        return ctl_fail("status", &err);
    return fflush(stdout) == 0 ? r : 1;
}

const struct ctl_command ctl_status = {
    .name = "status",
    .summary = "show what a loader is doing, and what limits each stream",
    .run = run,
};
