/* SPDX-License-Identifier: MIT */
/* remote_loaders.c - keeps one login per loader host for as long as the job runs. keeper.c runs at
 * its other end.
 *
 *     starting ──"plenumrun-loader ADDRESS"──> listening ──the login ends──> lost ──> starting ...
 *
 * A host that cannot run its loader at the start ends the job, like one that cannot run an
 * instance. A loader that is lost later does not: any loader can render any batch, so the job uses
 * the others, and we restart the lost one at the address that the programs know. */
#include "config.h"

#include "launcher/remote/remote_loaders.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/net/address.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/net/tls.h"
#include "common/util/util.h"
#include "launcher/control/control.h"
#include "launcher/host/host.h"
#include "launcher/control/lines.h"
#include "launcher/remote/answer.h"
#include "launcher/remote/keeper.h"
#include "launcher/control/exit_status.h"

enum {
    RETRY_FIRST_MS = 1000,
    RETRY_LAST_MS = 30000,
    SETTLED_MS = 60000, /* after a login that lasted this long, we retry after RETRY_FIRST_MS */
    CLOSED_MS = 1000,   /* time for a login to exit after it has closed its output */
    SLOW_MS = 10000,    /* a login that takes longer to start the loader again is reported */
    READS = 16,         /* number of reads from one login before others get their turn */
    EVENTS = 16,        /* number of events handled at once */
};

struct remote_loader {
    const struct plan_host *host;
    const char *key;        /* the loaders' key, which must not be printed */
    pid_t pid;              /* 0: none */
    uint64_t closed_ns;     /* when the login closed its output; 0: it has not */
    struct frame_conn conn; /* the login's standard input and output; fd -1: closed */
    int text_fd;            /* its standard error; -1: closed */
    struct lines text;
    struct line_limit limit;
    char last[300];       /* the last line of its standard error */
    struct answer answer; /* the login's standard output so far */
    bool listening;
    char at[128]; /* the loader's last address, "tcp:10.1.2.3:40001"; "": it has never listened */
    char failed[400]; /* why the login ended, if the loader never listened */
    char away[400];   /* the last reported reason why it cannot be restarted; "": none */
    bool told_slow;   /* tell_slow() has reported this login */
    uint64_t started_ns, retry_at, retry_ms;
};

struct remote_loaders {
    struct remote_loaders_request request;
    char self[4096];
    char key[TLS_TEXT_MAX], client_key[TLS_TEXT_MAX]; /* keys of the loaders, and of the programs */
    char *script;
    int epoll_fd;
    bool ending;
    uint32_t count;
    struct remote_loader list[];
};

#define FOR_LOADERS(l, all) \
    for (struct remote_loader *l = (all)->list; l < (all)->list + (all)->count; l++)

/* ---- starting ---- */

/* Write the host's address on the job's network, or "" if it is not known. */
static void address_of(const struct plan_host *host, char *ret, size_t size)
{
    const char *blank = host->interface ? strchr(host->interface, ' ') : NULL;

    (void)snprintf(ret, size, "%s", blank ? blank + 1 : "");
}

/* Write a host's name or address as it appears before ":PORT". */
static void put_host(const char *name, char *ret, size_t size)
{
    (void)snprintf(ret, size, strchr(name, ':') ? "[%s]" : "%s", name);
}

/* Returns where the loader must listen (malloc): on the job's network, if its address is known, and
 * on its earlier port, if it has had one, because the programs know it. */
static char *where_to_listen(const struct remote_loader *l)
{
    char address[200], host[208];
    const char *port = strrchr(l->at, ':');

    address_of(l->host, address, sizeof(address));
    if (!address[0])
        (void)snprintf(address, sizeof(address), strchr(l->host->name, ':') ? "::" : "0.0.0.0");
    put_host(address, host, sizeof(host));
    return str_format("%s:%s", host, port ? port + 1 : "0");
}

static int send_task(const struct remote_loaders *all, struct remote_loader *l)
{
    const struct control_keep task = {.silence_ns = all->request.agent->heartbeat_timeout_ns,
                                      .address = where_to_listen(l),
                                      .key = (char *)all->key,
                                      .environment = *all->request.environment};
    size_t before;
    int r;

    if (!task.address)
        return -ENOMEM;
    frame_put_bytes(&l->conn.tx, AGENT_BLANK_LINES, strlen(AGENT_BLANK_LINES));
    frame_put_bytes(&l->conn.tx, KEEPER_GREETING, strlen(KEEPER_GREETING));
    before = l->conn.tx.len;
    r = control_put_keep(&l->conn.tx, &task);
    free(task.address); /* the rest is borrowed */
    if (r == 0 && l->conn.tx.len - before > FRAME_HEADER_BYTES + CONTROL_MAX_PAYLOAD)
        r = -E2BIG; /* a keeper would reject the frame */
    if (r < 0)
        return r;
    r = frame_conn_flush(&l->conn);
    /* A login that ends without reading its input is reported once its status is known. */
    return r == -EAGAIN || r == -EPIPE || r == -ECONNRESET ? 0 : r;
}

static int log_in(const struct remote_loaders *all, struct remote_loader *l, int in, int err)
{
    const char *const self[] = {all->self, KEEPER_ARGUMENT, NULL};
    char *words[AGENT_WORDS_MAX + 1], *text;
    int r;

    assert(l->pid == 0);
    if (l->host->local) {
        r = agent_start((char *const *)self, in, in, err);
    } else {
        r = agent_make_command(all->request.agent, l->host, all->script, &text, words);
        if (r < 0)
            return r;
        r = agent_start(words, in, in, err);
        free(text);
    }
    l->pid = r < 0 ? 0 : r;
    return r < 0 ? r : 0;
}

static int watch(const struct remote_loaders *all, int fd, const struct remote_loader *l)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = (uint32_t)(l - all->list)};

    assert(l >= all->list && l < all->list + all->count);
    assert(fd >= 0);
    return epoll_ctl(all->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int start(const struct remote_loaders *all, struct remote_loader *l)
{
    int pair[2], text[2], r;

    l->started_ns = time_now_ns();
    l->closed_ns = 0;
    answer_init(&l->answer, KEEPER_ANSWER);
    l->last[0] = '\0';
    l->told_slow = false;
    l->retry_at = UINT64_MAX;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
        return -errno;
    if (pipe2(text, O_CLOEXEC) < 0) {
        r = -errno;
        (void)close(pair[0]);
        (void)close(pair[1]);
        return r;
    }
    r = log_in(all, l, pair[1], text[1]);
    (void)close(pair[1]);
    (void)close(text[1]);
    l->text_fd = text[0]; /* from here on close_all() closes it */
    (void)frame_conn_init(&l->conn, pair[0], CONTROL_UNAUTHENTICATED_PAYLOAD);
    if (r < 0 || (r = io_set_nonblock(l->text_fd)) < 0 || (r = watch(all, l->conn.fd, l)) < 0 ||
        (r = watch(all, l->text_fd, l)) < 0)
        return r;
    return send_task(all, l);
}

/* ---- messages from hosts ---- */

/* Handle a line of a login's standard error: a message of the loader, or, before that listens, any
 * text. */
static void handle_line(void *arg, const char *line, size_t len)
{
    struct remote_loader *l = arg;
    char *text = len > 0 ? strndup(line, len) : NULL;

    if (!text)
        return;
    answer_hide(text, l->key);
    (void)snprintf(l->last, sizeof(l->last), "%s", text);
    free(text);
    if (!line_limit_pass(&l->limit, time_now_ns()))
        return;
    if (l->listening)
        log_warn("host %s: %s", l->host->name, l->last);
    else
        log_debug("host %s: %s", l->host->name, l->last);
}

static void settle_limit(struct remote_loader *l, uint64_t now_ns)
{
    uint64_t left_out = line_limit_settle(&l->limit, now_ns);

    if (left_out > 0)
        log_warn("host %s: %llu more lines were left out: it prints more than %d in a second",
                 l->host->name, (unsigned long long)left_out, LINES_A_SECOND);
}

static void read_text(struct remote_loader *l)
{
    lines_follow(&l->text, &l->text_fd, handle_line, l);
}

/* Handle "plenumrun-loader tcp:10.1.2.3:40001", once it is complete. Clients connect to the host's
 * address, or to its name if the address is not known. */
static void handle_answer(struct remote_loader *l)
{
    char *port, *end, address[200], host[208];

    assert(!l->listening || l->at[0]);
    end = l->answer.begun ? strchr(l->answer.text, '\n') : NULL;
    if (l->listening || !end)
        return;
    *end = '\0';
    port = strrchr(l->answer.text, ':');
    if (!port)
        return;
    address_of(l->host, address, sizeof(address));
    put_host(address[0] ? address : l->host->name, host, sizeof(host));
    if (l->at[0])
        log_warn("host %s: its loader is available again", l->host->name);
    (void)snprintf(l->at, sizeof(l->at), "tcp:%.100s:%.5s", host, port + 1);
    log_info("host %s: its loader listens on %s", l->host->name, l->at);
    l->listening = true;
    l->away[0] = '\0';
}

static bool read_answer(struct remote_loader *l)
{
    char bytes[4096];

    for (int i = 0; i < READS; i++) {
        int64_t n = frame_conn_read_bulk(&l->conn, bytes, sizeof(bytes));

        if (n == -EAGAIN)
            return true;
        if (n < 0)
            return false;
        answer_add(&l->answer, bytes, (size_t)n);
        handle_answer(l);
    }
    return true;
}

/* Write why the login ended. */
static void explain(const struct remote_loaders *all, struct remote_loader *l, int status,
                    char *ret, size_t size)
{
    const char *printed;

    answer_hide(l->answer.text, all->key);
    printed = answer_last_line(l->answer.text);

    if (WIFEXITED(status) && WEXITSTATUS(status) == AGENT_NO_SELF)
        (void)snprintf(ret, size, "there is no %.200s: install it at the same place on all hosts",
                       all->self);
    else if (strstr(l->last, "unknown option " KEEPER_ARGUMENT))
        (void)snprintf(ret, size, "a different version of plenumrun is installed there");
    else if (l->last[0])
        (void)snprintf(ret, size, "%s", l->last);
    else if (*printed)
        (void)snprintf(ret, size, "the login printed '%.200s' and ended", printed);
    else
        status_describe(status, ret, size);
}

static void close_all(struct remote_loader *l)
{
    lines_fini(&l->text);
    l->text = (struct lines){0};
    io_close(&l->text_fd);
    frame_conn_fini(&l->conn);
    l->conn = (struct frame_conn){.fd = -1, .tx_fd = -1, .rx_fd = -1};
    l->listening = false;
}

/* Report why the host's loader cannot be restarted, unless that was reported last. */
static void tell_away(struct remote_loader *l, const char *why)
{
    if (strcmp(l->away, why) == 0)
        return;
    (void)snprintf(l->away, sizeof(l->away), "%s", why);
    log_warn("host %s: its loader cannot be restarted: %s; plenumrun tries again every %d s or "
             "sooner",
             l->host->name, why, RETRY_LAST_MS / 1000);
}

/* Handle the end of a login with this status. */
static void end_login(const struct remote_loaders *all, struct remote_loader *l, int status)
{
    bool was_listening = l->listening;
    char why[300];

    assert(l->pid > 0);
    l->pid = 0;
    read_text(l);
    lines_hand_on(&l->text, true, handle_line, l);
    settle_limit(l, UINT64_MAX);
    close_all(l);
    if (all->ending)
        return;
    if (!l->at[0]) {
        explain(all, l, status, l->failed, sizeof(l->failed));
        return;
    }
    if (!was_listening) {
        explain(all, l, status, why, sizeof(why));
        tell_away(l, why);
    } else { /* its output has been shown */
        status_describe(status, why, sizeof(why));
        log_warn("host %s: its loader is gone (the login %s); the job continues without it until "
                 "it returns",
                 l->host->name, why);
    }
    if (time_now_ns() - l->started_ns > SETTLED_MS * NS_PER_MS)
        l->retry_ms = RETRY_FIRST_MS;
    l->retry_at = time_now_ns() + l->retry_ms * NS_PER_MS;
    l->retry_ms = min_u64(2 * l->retry_ms, RETRY_LAST_MS);
}

static void kill_login(const struct remote_loaders *all, struct remote_loader *l)
{
    int status = 0;

    assert(l->pid > 0);           /* 0 would be our own group */
    (void)kill(-l->pid, SIGKILL); /* its whole session */
    (void)waitpid(l->pid, &status, 0);
    end_login(all, l, status);
}

static void start_again(const struct remote_loaders *all, struct remote_loader *l)
{
    int r = start(all, l);

    if (r == 0)
        return;
    if (l->pid > 0)
        kill_login(all, l);
    close_all(l);
    tell_away(l, strerror(-r));
    l->retry_at = time_now_ns() + RETRY_LAST_MS * NS_PER_MS;
}

/* Reap a login that has closed its output once it exits, because its status gives the reason. If it
 * does not exit in time, kill it. */
static void reap(const struct remote_loaders *all, struct remote_loader *l)
{
    int status;

    if (l->pid == 0 || l->closed_ns == 0)
        return;
    if (waitpid(l->pid, &status, WNOHANG) == l->pid)
        end_login(all, l, status);
    else if (time_now_ns() > l->closed_ns + CLOSED_MS * NS_PER_MS)
        kill_login(all, l);
}

void remote_loaders_dispatch(struct remote_loaders *loaders)
{
    struct epoll_event events[EVENTS];
    int count;

    if (!loaders)
        return;
    count = epoll_wait(loaders->epoll_fd, events, EVENTS, 0);
    for (int i = 0; i < count; i++) {
        struct remote_loader *l = &loaders->list[events[i].data.u32];

        read_text(l);
        if (l->conn.fd >= 0 && !read_answer(l)) {
            frame_conn_fini(&l->conn);
            l->conn.fd = -1;
            l->closed_ns = time_now_ns();
        }
    }
    FOR_LOADERS(l, loaders)
        reap(loaders, l);
}

bool remote_loaders_own(const struct remote_loaders *loaders, pid_t pid)
{
    for (uint32_t i = 0; loaders && i < loaders->count; i++)
        if (loaders->list[i].pid == pid)
            return true;
    return false;
}

/* ---- time ---- */

/* Report a login that takes long to restart its loader. (At the start of the job, --start-timeout
 * applies instead.) */
static void tell_slow(struct remote_loader *l, uint64_t now_ns)
{
    if (l->pid == 0 || !l->at[0] || l->listening || l->told_slow ||
        now_ns < l->started_ns + SLOW_MS * NS_PER_MS)
        return;
    l->told_slow = true;
    log_warn("host %s: the login that should restart its loader has not done so for %d s%s%s",
             l->host->name, SLOW_MS / 1000, l->last[0] ? "; its last message: " : "", l->last);
}

void remote_loaders_beat(struct remote_loaders *loaders, uint64_t now_ns)
{
    if (!loaders || loaders->ending)
        return;
    FOR_LOADERS(l, loaders) {
        if (l->pid == 0 && now_ns >= l->retry_at)
            start_again(loaders, l);
        settle_limit(l, now_ns);
        tell_slow(l, now_ns);
        if (l->conn.fd < 0 || frame_conn_pending(&l->conn) > CONTROL_UNAUTHENTICATED_PAYLOAD)
            continue;
        (void)control_put_empty(&l->conn.tx, CONTROL_BEAT);
        (void)frame_conn_flush(&l->conn); /* its end is noticed when reading */
    }
}

void remote_loaders_suspend(struct remote_loaders *loaders, bool suspend)
{
    if (!loaders)
        return;
    FOR_LOADERS(l, loaders)
        if (l->conn.fd >= 0) {
            (void)control_put_number(&l->conn.tx, CONTROL_SUSPEND, suspend);
            (void)frame_conn_flush(&l->conn);
        }
}

void remote_loaders_end(struct remote_loaders *loaders)
{
    if (!loaders)
        return;
    loaders->ending = true;
    FOR_LOADERS(l, loaders)
        if (l->conn.fd >= 0)
            (void)shutdown(l->conn.fd, SHUT_WR);
}

/* ---- queries ---- */

int remote_loaders_get_fd(const struct remote_loaders *loaders)
{
    return loaders ? loaders->epoll_fd : -1;
}

const char *remote_loaders_get_key(const struct remote_loaders *loaders)
{
    return loaders ? loaders->client_key : "";
}

bool remote_loaders_are_ready(const struct remote_loaders *loaders)
{
    bool ready = true;

    for (uint32_t i = 0; loaders && i < loaders->count; i++)
        ready &= loaders->list[i].at[0] != '\0';
    return ready;
}

bool remote_loaders_are_gone(const struct remote_loaders *loaders)
{
    bool gone = true;

    for (uint32_t i = 0; loaders && i < loaders->count; i++)
        gone &= loaders->list[i].pid == 0;
    return gone;
}

const char *remote_loaders_get_failed(const struct remote_loaders *loaders, char *why, size_t size)
{
    for (uint32_t i = 0; loaders && i < loaders->count; i++)
        if (loaders->list[i].failed[0]) {
            (void)snprintf(why, size, "%s", loaders->list[i].failed);
            return loaders->list[i].host->name;
        }
    return NULL;
}

void remote_loaders_list_missing(const struct remote_loaders *loaders, char *ret, size_t size)
{
    size_t n = 0;

    *ret = '\0';
    for (uint32_t i = 0; loaders && i < loaders->count && n < size; i++)
        if (!loaders->list[i].at[0])
            n += (size_t)snprintf(ret + n, size - n, "%sthe loader on host %s", n ? ", " : "",
                                  loaders->list[i].host->name);
}

void remote_loaders_add_addresses(const struct remote_loaders *loaders, uint32_t instance,
                                  char *list, size_t size)
{
    size_t n = strlen(list);
    uint32_t room = ADDRESS_LIST_MAX;

    if (!loaders)
        return;
    for (const char *p = list; *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : "")
        room -= room > 0;
    for (uint32_t i = 0; i < loaders->count && i < room && n < size; i++) {
        uint64_t turn = (uint64_t)instance * min_u64(room, loaders->count) + i;

        n += (size_t)snprintf(list + n, size - n, "%s%s", n ? "," : "",
                              loaders->list[turn % loaders->count].at);
    }
}

/* ---- beginning and end ---- */

/* Create the keys. The programs get a client's key, so that none can impersonate a loader. */
static int make_keys(struct remote_loaders *all, struct plenum_error *err)
{
    struct tls_key loader = {0}, client = {0};
    int r = random_bytes(loader.bytes, sizeof(loader.bytes));

    if (r < 0)
        goto out;
    r = tls_key_of_client(&loader, "job", &client, err);
    if (r < 0)
        goto out;
    tls_key_format(&loader, all->key);
    tls_key_format(&client, all->client_key);
out:
    explicit_bzero(&loader, sizeof(loader));
    explicit_bzero(&client, sizeof(client));
    return r;
}

int remote_loaders_create(const struct remote_loaders_request *request, struct remote_loaders **ret,
                          struct plenum_error *err)
{
    const struct plan *plan = request->plan;
    static const char *const arguments[] = {KEEPER_ARGUMENT};
    struct remote_loaders *all;
    int r;

    *ret = NULL;
    if (plan->num_loader_hosts == 0)
        return 0;
    all = calloc(1, sizeof(*all) + plan->num_loader_hosts * sizeof(all->list[0]));
    if (!all)
        return error_set(err, -ENOMEM, "out of memory");
    all->request = *request;
    all->count = plan->num_loader_hosts;
    FOR_LOADERS(l, all)
        *l = (struct remote_loader){.host = &plan->loader_hosts[l - all->list],
                                    .key = all->key,
                                    .conn = {.fd = -1, .tx_fd = -1, .rx_fd = -1},
                                    .text_fd = -1,
                                    .retry_at = UINT64_MAX,
                                    .retry_ms = RETRY_FIRST_MS};
    all->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (all->epoll_fd < 0) {
        r = -errno;
        goto fail;
    }
    if ((r = host_get_self(all->self, sizeof(all->self), err)) < 0 || (r = make_keys(all, err)) < 0)
        goto fail;
    all->script = agent_make_script(all->self, arguments, ARRAY_LEN(arguments));
    if (!all->script) {
        r = -ENOMEM;
        goto fail;
    }
    FOR_LOADERS(l, all) {
        r = start(all, l);
        if (r < 0)
            goto fail;
    }
    *ret = all;
    return 0;

fail:
    remote_loaders_destroy(all);
    if (r == -E2BIG)
        return error_set(err, r,
                         "the job's variables take more than %d MiB, the most that a loader host "
                         "can be given: pass fewer variables (-x, --env-file)",
                         CONTROL_MAX_PAYLOAD >> 20);
    return r == -ENOTSUP
               ? error_prefix(err, r, "--loader-host")
               : error_set(err, r, "the loader hosts cannot be queried: %s", strerror(-r));
}

void remote_loaders_destroy(struct remote_loaders *loaders)
{
    if (!loaders)
        return;
    loaders->ending = true;
    FOR_LOADERS(l, loaders) {
        if (l->pid > 0)
            kill_login(loaders, l);
        close_all(l);
    }
    io_close(&loaders->epoll_fd);
    explicit_bzero(loaders->key, sizeof(loaders->key));
    explicit_bzero(loaders->client_key, sizeof(loaders->client_key));
    free(loaders->script);
    free(loaders);
}
