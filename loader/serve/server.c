/* SPDX-License-Identifier: MIT */
/* server.c - the loader's loop: starts everything, passes results from the queue to sessions,
 * reloads the settings, and shuts down.
 *
 * One thread runs the loop and owns every session; the queue's threads reach it only through
 * queue_pop_finished() and a uv_async.
 *
 *     SERVING --SIGTERM--> DRAINING --last session gone--> over
 *        |                    |
 *        +--SIGINT, lifeline--+--SIGTERM again, SIGINT, --drain-timeout--> sessions are closed
 *
 * A draining loader accepts no new clients and no new batches; it finishes the batches in progress.
 * A client whose batches are finished is directed to another loader, or to wait for this one to
 * restart. When a session is closed, each of its tasks stops after at most one sample. uv_run()
 * returns when the last handle is closed. If storage hangs, that may never happen, so the process
 * then ends after a few seconds anyway. */
#include "config.h"

#include "loader/serve/server.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <uv.h>

#include "common/util/cgroup.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "loader/cache/sample_cache.h"
#include "loader/dataset/cache.h"
#include "loader/image/image.h"
#include "loader/serve/http.h"
#include "loader/serve/leash.h"
#include "loader/serve/listening.h"
#include "loader/serve/monitor.h"
#include "loader/serve/notify.h"
#include "loader/serve/queue.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/session.h"
#include "loader/serve/session_facts.h"
#include "loader/serve/snapshot.h"
#include "loader/serve/users.h"
#include "loader/store/ahead.h"

/* A reload of the settings (SIGHUP). It runs as a blocking job, because the storage of a root, or
 * of the file itself, may hang. */
struct reload {
    struct blocking_job job;
    uint64_t began_ns; /* 0: no reload in progress */
    bool again;        /* another SIGHUP arrived in the meantime */
    /* Owned by the thread while it runs, then by the loop. */
    int code;
    struct server_options fresh;
    struct roots *roots;
};

struct main_loop {
    struct server server; /* must be first: sessions only have a pointer to this */
    struct server_options live;
    struct http *http; /* or NULL */
    struct listening listening;
    struct user user; /* with --user: the user to become */
    bool ending;      /* handles are being closed */
    bool limited;     /* limit_shutdown() was called */
    uv_poll_t lifeline;
    uv_signal_t terminate, interrupt, hangup;
    uv_timer_t beat;  /* for heartbeats and the monitor */
    uv_timer_t drain; /* --drain-timeout */
    uv_async_t finished;
    struct reload reload;
    bool lifeline_open, loop_open;
    bool beats_wanted;  /* the keeper has requested heartbeats */
    char said[128];     /* the last STATUS= line sent */
    uint64_t looked_ns; /* when the monitor last ran */
};

enum {
    BEAT_MS = 1000,
    RELOAD_MS = 1000,       /* longest time that new clients wait for a reload */
    CACHE_PART = 10,        /* by default the cache folder may use a tenth of its file system */
    CACHE_USER_PART = 4,    /* by default one user may use a quarter of the folder's limit */
    OPENING_SILENT_S = 900, /* opening a data set fails if its storage hangs for longer */
    END_LIMIT_S = 5,        /* the process ends after this time even if something hangs */
};

static const uint64_t cache_age_s = 90 * 24 * 3600;

static struct main_loop *loop_of(struct server *server)
{
    return container_of(server, struct main_loop, server);
}

/* End the process after the time limit. A thread that still runs then is waiting for hanging
 * storage, perhaps forever. Nothing is lost, because an index is renamed into place only when it is
 * complete. */
static void *exit_after_limit(void *arg)
{
    const struct timespec limit = {.tv_sec = END_LIMIT_S};

    (void)arg;
    (void)nanosleep(&limit, NULL);
    log_warn("something still hangs after %d s, most likely storage: ended without waiting for it",
             END_LIMIT_S);
    _exit(EXIT_SUCCESS);
}

/* Make sure that the process ends within a few seconds. */
static void limit_shutdown(struct main_loop *m)
{
    if (m->limited)
        return;
    m->limited = true;
    if (thread_start(NULL, exit_after_limit, NULL) < 0)
        (void)alarm(END_LIMIT_S);
}

/* After the last session has ended, close the resources that sessions used. */
static void end_if_idle(struct main_loop *m)
{
    if (!m->server.stopping || m->server.num_sessions > 0 || m->ending)
        return;
    m->ending = true;
    limit_shutdown(m);
    openings_close(m->server.openings);
    blocking_close(m->server.blocking);
    if (m->lifeline_open)
        uv_close((uv_handle_t *)&m->lifeline, NULL);
    if (!m->loop_open)
        return;
    uv_close((uv_handle_t *)&m->terminate, NULL);
    uv_close((uv_handle_t *)&m->interrupt, NULL);
    uv_close((uv_handle_t *)&m->hangup, NULL);
    uv_close((uv_handle_t *)&m->beat, NULL);
    uv_close((uv_handle_t *)&m->drain, NULL);
    listening_detach(&m->listening);
    uv_close((uv_handle_t *)&m->finished, NULL);
}

static void on_session_gone(struct server *server)
{
    end_if_idle(loop_of(server));
}

static void for_sessions(struct main_loop *m, void (*call)(struct session *session))
{
    struct session *next;

    for (struct session *s = session_first(&m->server); s; s = next) {
        next = session_next(s);
        call(s);
    }
}

static void stop_now(struct main_loop *m, const char *why)
{
    log_set_entries(false);
    log_debug("ending: %s", why);
    m->server.stopping = true;
    limit_shutdown(m);
    listening_close(&m->listening);
    for_sessions(m, session_close);
    end_if_idle(m);
}

static void on_drain(uv_timer_t *timer)
{
    struct main_loop *m = timer->data;

    log_warn("clients that were still being served after --drain-timeout, and are now closed: %u",
             m->server.num_sessions);
    stop_now(m, "--drain-timeout");
}

static void begin_drain(struct main_loop *m)
{
    log_set_entries(false); /* the process would end before the journal has looked it up */
    m->server.stopping = true;
    notify_send("STOPPING=1\nSTATUS=finishing batches of clients: %u", m->server.num_sessions);
    if (m->server.num_sessions > 0)
        log_info("ending: batches that are under way are finished first (clients: %u)",
                 m->server.num_sessions);
    listening_close(&m->listening);
    (void)uv_timer_start(&m->drain, on_drain, m->server.options->drain_ns / NS_PER_MS, 0);
    for_sessions(m, session_drain);
    http_publish(m->http, &m->server);
    end_if_idle(m);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    struct main_loop *m = handle->data;

    if (signum == SIGTERM && !m->server.stopping && m->server.options->drain_ns > 0)
        begin_drain(m);
    else
        stop_now(m, signum == SIGTERM ? "SIGTERM" : "SIGINT");
}

/* Send a heartbeat to the keeper. The loop does not wait for a keeper that does not read. */
static void send_heartbeat(const struct main_loop *m)
{
    (void)send(m->server.options->lifeline_fd, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void tell_left_out(const char *who, uint32_t left_out)
{
    const char *user = isdigit((unsigned char)who[0]) ? "user " : "";

    log_warn("clients of %s%s: %u more messages about them were left out, beyond %d a minute", user,
             who[0] ? who : "others", left_out, LOG_BUDGET_LINES);
}

/* Do the work that is due once a second, and report to the service manager or the keeper that the
 * loader is alive, that is, that the loop runs and the queue's lock is free. */
static void on_beat(uv_timer_t *timer)
{
    struct main_loop *m = timer->data;
    uint64_t now = time_now_ns();
    struct queue_counters c;
    struct plenum_error news;
    char text[sizeof(m->said)];

    if (now >= m->looked_ns + BEAT_MS * NS_PER_MS * 9 / 10) {
        m->looked_ns = now;
        monitor_beat(&m->server, now);
        for (struct session *s = session_first(&m->server); s; s = session_next(s))
            session_beat(s, now);
        if (sample_cache_get_news(&news))
            log_warn("%s", news.text);
        log_budget_settle(&m->server.lines, now, tell_left_out);
        http_publish(m->http, &m->server);
    }
    queue_beat(m->server.queue);
    queue_get_counters(m->server.queue, &c);
    if (notify_watchdog_ns() > 0)
        notify_send("WATCHDOG=1");
    if (m->beats_wanted)
        send_heartbeat(m);
    (void)snprintf(text, sizeof(text), "clients: %u, samples rendered: %llu",
                   m->server.num_sessions, (unsigned long long)c.all.samples);
    if (!m->server.stopping && strcmp(text, m->said) != 0) {
        memcpy(m->said, text, sizeof(text));
        notify_send("STATUS=%s", text);
    }
}

/* Handle input from the keeper: a byte requests heartbeats, and end of file ends the loader. The
 * first heartbeat is sent at once, because the keeper cannot detect a hanging loader without
 * one. */
static void on_lifeline(uv_poll_t *handle, int status, int events)
{
    struct main_loop *m = handle->data;
    char bytes[64];
    ssize_t n;

    (void)events;
    n = status < 0 ? 0 : read(m->server.options->lifeline_fd, bytes, sizeof(bytes));
    if (n > 0) {
        m->beats_wanted = true;
        send_heartbeat(m);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        (void)uv_poll_stop(handle); /* end of file would stay readable */
        stop_now(m, "the job is over");
    }
}

static void on_finished(uv_async_t *handle)
{
    struct main_loop *m = handle->data;
    struct queue_request *r;

    while ((r = queue_pop_finished(m->server.queue)))
        session_finished(r->owner, r);
}

static void wake(void *arg)
{
    struct main_loop *m = arg;

    (void)uv_async_send(&m->finished);
}

static void worker_start(void *arg, unsigned worker)
{
    struct main_loop *m = arg;

    pin_worker(m->server.pin, worker);
}

static unsigned worker_node(void *arg, unsigned worker)
{
    struct main_loop *m = arg;

    return pin_node_of_worker(m->server.pin, worker);
}

static bool same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Warn about changes that take effect only after a restart. */
static void warn_unchanged(const struct server_options *old, const struct server_options *new)
{
    const struct {
        const char *key;
        bool same;
    } keys[] = {
        {"socket", same_text(old->socket, new->socket) || old->listen_fd >= 0},
        {"socket-mode", old->socket_mode == new->socket_mode},
        {"socket-group", same_text(old->socket_group, new->socket_group)},
        {"user", same_text(old->user, new->user)},
        {"listen", same_text(old->listen, new->listen)},
        {"tls-key", same_text(old->tls_key, new->tls_key)},
        {"threads", old->threads == new->threads},
        {"io-threads", old->io_threads == new->io_threads},
        {"cpu-budget", old->cpu_millicores == new->cpu_millicores},
        {"pin", old->pin == new->pin},
        {"all-cpus", old->all_cpus == new->all_cpus},
        {"cache-dir", same_text(old->cache_dir, new->cache_dir)},
        {"cache-limit", old->cache_limits.bytes == new->cache_limits.bytes},
        {"cache-user-limit", old->cache_limits.user_bytes == new->cache_limits.user_bytes},
        {"cache-age", old->cache_limits.age_ns == new->cache_limits.age_ns},
        {"cache-size", old->cache_size == new->cache_size},
        {"cache-memory", old->cache_memory == new->cache_memory},
        {"fetch-memory", old->fetch_memory == new->fetch_memory},
        {"share-memory", old->share_memory == new->share_memory},
        {"decoder", old->jpeg == new->jpeg},
        {"http-address", same_text(old->http_address, new->http_address)},
        {"http-port", old->http_port == new->http_port},
        {"no-tiles", old->no_tiles == new->no_tiles},
        {"no-thumbnails", old->no_thumbnails == new->no_thumbnails},
    };

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (!keys[i].same)
            log_warn("%s was changed; this takes effect when the loader is restarted", keys[i].key);
}

/* Check the settings of a reload. The addresses that we listen on do not change. */
static int check_after_hangup(const struct main_loop *m, const struct server_options *fresh,
                              struct plenum_error *err)
{
    struct server_options both = *fresh;

    both.listen = m->live.listen;
    both.tls_key = m->live.tls_key;
    return listening_check(&both, err);
}

/* Read the settings again and check them. Runs in the blocking job's thread. */
static void read_settings(struct blocking_job *job)
{
    struct main_loop *m = container_of(job, struct main_loop, reload.job);
    struct reload *r = &m->reload;
    struct plenum_error err;

    r->code = m->live.reload(m->live.reload_arg, &r->fresh);
    if (r->code < 0) {
        log_error("the settings are unchanged");
        return;
    }
    r->code = check_after_hangup(m, &r->fresh, &err);
    if (r->code >= 0)
        r->code = roots_create(r->fresh.roots, r->fresh.num_roots, &r->roots, &err);
    if (r->code < 0)
        log_error("%s; the settings are unchanged", err.text);
}

/* Apply new settings to new clients. Connected clients stay, even if their root was removed. */
static void apply_settings(struct main_loop *m, const struct server_options *fresh)
{
    m->live.reloaded(m->live.reload_arg);
    warn_unchanged(&m->live, fresh);
    roots_unref(m->server.roots);
    m->server.roots = roots_ref(m->reload.roots);
    m->live.own_uid_only = fresh->own_uid_only;
    m->live.ring_limit = fresh->ring_limit;
    m->live.memory_budget = fresh->memory_budget;
    m->live.max_clients = fresh->max_clients;
    m->live.drain_ns = fresh->drain_ns;
    log_info("the settings were read again");
}

static void begin_reload(struct main_loop *m);

static void on_settings_read(struct blocking_job *job)
{
    struct main_loop *m = container_of(job, struct main_loop, reload.job);
    struct reload *r = &m->reload;

    r->began_ns = 0;
    listening_resume(&m->listening);
    if (job->code < 0)
        log_error("no thread is left to read the settings: %s; the settings are unchanged",
                  strerror(-job->code));
    else if (r->code == 0 && !m->server.stopping)
        apply_settings(m, &r->fresh);
    roots_unref(r->roots);
    r->roots = NULL;
    if (m->server.stopping)
        return;
    notify_send("READY=1");
    if (r->again)
        begin_reload(m);
}

static void begin_reload(struct main_loop *m)
{
    notify_send("RELOADING=1\nMONOTONIC_USEC=%llu", (unsigned long long)time_now_ns() / 1000);
    m->reload = (struct reload){
        .began_ns = time_now_ns(),
        .job = {.work = read_settings, .done = on_settings_read, .group = "settings", .limit = 1}};
    listening_hold(&m->listening, RELOAD_MS * NS_PER_MS);
    blocking_start(m->server.blocking, &m->reload.job);
}

static void on_hangup(uv_signal_t *handle, int signum)
{
    struct main_loop *m = handle->data;

    (void)signum;
    if (m->server.stopping)
        return;
    if (m->reload.began_ns == 0) {
        begin_reload(m);
        return;
    }
    m->reload.again = true;
    log_warn("the settings are still being read for the previous SIGHUP, and will then be read "
             "again: if this takes very long, the storage of a root is not responding");
}

/* Returns the CPU time that we may use. A control group's quota counts, too: when it is used up,
 * the kernel stops all threads at arbitrary points, including the loop's thread. */
static uint32_t cpu_budget(const struct server_options *o)
{
    uint32_t quota = cgroup_cpu_millicores();

    if (o->cpu_millicores == 0 || (quota > 0 && quota < o->cpu_millicores))
        return quota;
    return o->cpu_millicores;
}

/* Returns the memory for samples that are fetched in advance. */
static uint64_t fetch_memory(const struct server_options *o)
{
    if (o->fetch_memory > 0)
        return o->fetch_memory;
    return o->memory_budget > 0
               ? min_u64(AHEAD_BYTES, (o->memory_budget - o->cache_memory - o->share_memory) / 4)
               : AHEAD_BYTES;
}

static int start_threads(struct main_loop *m, struct plenum_error *err)
{
    const struct server_options *o = m->server.options;
    struct queue_options q = {
        .worker_start = worker_start, .worker_node = worker_node, .wake = wake, .arg = m};
    int r;

    leash_phase(JOBLOADER_TOPOLOGY);
    if (o->all_cpus)
        pin_widen();
    r = pin_create(o->pin, &m->server.pin, err);
    if (r < 0)
        return r;
    leash_phase(JOBLOADER_THREADS);
    q.cpu_millicores = cpu_budget(o);
    q.workers = o->threads ? o->threads : pin_cpus(m->server.pin);
    if (o->threads == 0 && q.cpu_millicores > 0) /* more threads could not run at the same time */
        q.workers = (unsigned)min_u64(q.workers, (q.cpu_millicores + 999) / 1000);
    q.nodes = pin_count_nodes(m->server.pin);
    m->server.fetch_memory = q.fetch_memory = fetch_memory(o);
    ahead_set_memory(q.fetch_memory);
    q.share_memory = o->share_memory;
    q.io_threads = o->io_threads;
    if (q.io_threads == 0) /* enough to keep a disk busy, few enough to be cheap */
        q.io_threads = q.workers < 4 ? 2 : q.workers / 2 < 16 ? q.workers / 2 : 16;
    m->server.threads = q.workers;
    m->server.io_threads = q.io_threads;
    r = queue_create(&q, &m->server.queue);
    return r < 0 ? error_set(err, r, "cannot start %u decoding and %u reading threads: %s",
                             q.workers, q.io_threads, strerror(-r))
                 : 0;
}

/* Start to handle signals. Called before the socket exists, so that its file is removed whenever a
 * signal arrives. */
static int start_signals(struct main_loop *m)
{
    uv_loop_t *loop = &m->server.loop;
    int r;

    m->terminate.data = m->interrupt.data = m->hangup.data = m->finished.data = m;
    m->beat.data = m->drain.data = m;
    r = uv_async_init(loop, &m->finished, on_finished);
    if (r < 0)
        return r;
    (void)uv_signal_init(loop, &m->terminate);
    (void)uv_signal_init(loop, &m->interrupt);
    (void)uv_signal_init(loop, &m->hangup);
    (void)uv_timer_init(loop, &m->beat);
    (void)uv_timer_init(loop, &m->drain);
    listening_attach(&m->listening);
    m->loop_open = true;
    r = uv_signal_start(&m->terminate, on_signal, SIGTERM);
    if (r < 0)
        return r;
    if (!signal_is_ignored(SIGINT)) { /* it is ignored in a background job of a script */
        r = uv_signal_start(&m->interrupt, on_signal, SIGINT);
        if (r < 0)
            return r;
    }
    return m->live.reload ? uv_signal_start(&m->hangup, on_hangup, SIGHUP) : 0;
}

/* Report to the service manager that we are ready, and then that we are alive, twice as often as it
 * requires. */
static int start_beat(struct main_loop *m)
{
    uint64_t every_ms = BEAT_MS, watchdog_ns = notify_watchdog_ns();

    if (watchdog_ns > 0)
        every_ms = max_u64(min_u64(every_ms, watchdog_ns / 2 / NS_PER_MS), 1);
    monitor_beat(&m->server, time_now_ns());
    http_publish(m->http, &m->server);
    notify_send("READY=1\nSTATUS=serving");
    return uv_timer_start(&m->beat, on_beat, every_ms, every_ms);
}

/* Take over the client for which the keeper has started this loader. */
static void take_client(struct main_loop *m)
{
    int fd = m->server.options->client_fd;

    if (fd < 0)
        return;
    (void)io_set_cloexec(fd);
    (void)session_create(&m->server, fd, !m->listening.local.open);
}

static int start_polling(struct main_loop *m)
{
    uv_loop_t *loop = &m->server.loop;
    int r;

    m->lifeline.data = m;
    r = listening_start(&m->listening);
    if (r == 0)
        take_client(m);
    if (r < 0 || m->server.options->lifeline_fd < 0)
        return r;
    r = uv_poll_init(loop, &m->lifeline, m->server.options->lifeline_fd);
    if (r < 0)
        return r;
    m->lifeline_open = true;
    return uv_poll_start(&m->lifeline, UV_READABLE | UV_DISCONNECT, on_lifeline);
}

/* Returns the limits of the cache folder, with defaults filled in. If the folder's file system
 * cannot be examined, its size is not limited, because most likely nothing can be stored there. */
static struct dataset_cache_limits cache_limits(const struct server_options *o)
{
    struct dataset_cache_limits limits = o->cache_limits;
    char folder[4096];
    struct statvfs fs;

    if (limits.age_ns == UINT64_MAX)
        limits.age_ns = cache_age_s * NS_PER_SEC;
    if (limits.bytes == UINT64_MAX) {
        limits.bytes = 0;
        if (cache_folder(o->cache_dir, folder, sizeof(folder)) == 0 && statvfs(folder, &fs) == 0)
            limits.bytes = fs.f_blocks * fs.f_frsize / CACHE_PART;
    }
    if (limits.user_bytes == UINT64_MAX)
        limits.user_bytes = o->own_uid_only ? 0 : limits.bytes / CACHE_USER_PART;
    return limits;
}

/* Find the folder of the cache of samples. Returns 0, or a negative value after a warning. */
static int find_cache(const struct server_options *o, char *ret, size_t size)
{
    char folder[4096];
    int r, fd;

    r = cache_folder(o->cache_dir, folder, sizeof(folder));
    if (r < 0) {
        log_warn("samples are not cached: there is no cache folder (%s): see --cache-dir",
                 strerror(-r));
        return r;
    }
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0 && !cache_may_map(fd)) {
        log_warn("samples are not cached: %s is on a network file system: name a folder on a local "
                 "disk with --cache-dir or PLENUM_CACHE_DIR, or use --cache-memory",
                 folder);
        r = -EOPNOTSUPP;
    }
    io_close(&fd);
    /* Users that share a folder have separate caches, as they have separate indices. */
    (void)snprintf(ret, size, "%s/samples-%u", folder, (unsigned)geteuid());
    return r;
}

/* Open the cache of samples. Without it, samples are read from their stores. */
static void start_cache(const struct server_options *o)
{
    uint64_t size = o->cache_memory > 0 ? o->cache_memory : o->cache_size;
    char path[4200];
    struct plenum_error err;
    int r = 0;

    if (size > 0 && size < KEEP_BLOCK)
        r = error_set(&err, -EINVAL, "a cache of %llu bytes is too small: write 200G, for example",
                      (unsigned long long)size);
    else if (o->cache_memory > 0)
        r = sample_cache_open(NULL, o->cache_memory, &err);
    else if (o->cache_size > 0 && find_cache(o, path, sizeof(path)) == 0)
        r = sample_cache_open(path, o->cache_size, &err);
    if (r < 0)
        log_warn("samples are not cached: %s", err.text);
    else if (sample_cache_get_news(&err))
        log_warn("%s", err.text);
}

static int start_openings(struct main_loop *m, struct plenum_error *err)
{
    struct openings_options options = {.loop = &m->server.loop,
                                       .blocking = m->server.blocking,
                                       .cache_dir = m->live.cache_dir,
                                       .cache_limits = cache_limits(&m->live),
                                       .memory_budget = &m->live.memory_budget,
                                       .hints = !m->live.no_tiles,
                                       .only_files = !m->live.any_store,
                                       .silent_ns = OPENING_SILENT_S * NS_PER_SEC};
    int r = openings_create(&options, &m->server.openings);

    return r < 0 ? error_set(err, r, "cannot open data sets: %s", strerror(-r)) : 0;
}

/* Look up the user given by --user, and set up that user's environment. */
static int find_user(struct main_loop *m, struct plenum_error *err)
{
    int r = users_find(m->live.user, &m->user, err);

    if (r < 0)
        return error_prefix(err, r, "--user");
    if (m->user.unknown && geteuid() == 0)
        log_warn("user %s has no account on this host: its group is %u, and it has no other groups "
                 "and no home folder",
                 m->user.name, (unsigned)m->user.gid);
    /* Use that user's cache, not root's. */
    (void)setenv("HOME", m->user.home, 1);
    (void)unsetenv("XDG_CACHE_HOME");
    return 0;
}

/* Start the loader. If a step fails, stop_now() and server_run() undo the steps before it. */
static int start(struct main_loop *m, struct plenum_error *err)
{
    int r = start_signals(m);

    if (r < 0)
        return error_set(err, r, "cannot start the event loop: %s", uv_strerror(r));
    if (m->live.user && (r = find_user(m, err)) < 0)
        return r;
    r = start_threads(m, err);
    if (r < 0)
        return r;
    r = blocking_create(&m->server.loop, &m->server.blocking);
    if (r < 0)
        return error_set(err, r, "cannot start threads for storage: %s", uv_strerror(r));
    r = start_openings(m, err);
    if (r < 0)
        return r;
    leash_phase(JOBLOADER_SOCKETS);
    r = listening_open(&m->listening, &m->user, err);
    if (r < 0)
        return r;
    r = listening_open_tcp(&m->listening, err);
    if (r < 0)
        return r;
    if ((m->live.http_port > 0 || m->live.http_fd >= 0) &&
        (r = http_start(&m->live, m->server.blocking, &m->http, err)) < 0)
        return r;
    if (m->live.user && (r = users_become(&m->user, err)) < 0)
        return r;
    start_cache(&m->live);
    r = start_polling(m);
    return r < 0 ? error_set(err, r, "cannot watch the loader's sockets: %s", uv_strerror(r)) : 0;
}

/* Find out which pixel definitions this machine reproduces. If there are none, the loader cannot
 * serve. */
static int test_pixels(struct server *server, struct plenum_error *err)
{
    int r = -EPROTO;

    for (int i = 0; i < PIPELINE_VERSIONS; i++) {
        struct plenum_error why;

        server->renders[i] = image_self_test((enum pipeline_version)i, &why) == 0;
        if (server->renders[i])
            r = 0;
        else
            log_error("%s; streams that request them are refused", why.text);
    }
    return r < 0 ? error_set(err, r, "no version of pixels is left that could be served") : 0;
}

static void log_started(struct main_loop *m)
{
    const struct server_options *o = m->server.options;
    char loops[64];

    log_set_entries(true);
    image_describe_loops(o->jpeg, loops, sizeof(loops));
    log_info("plenumd %s: %u %s decode%s for %s (loops: %s)", PACKAGE_VERSION, m->server.threads,
             m->server.threads == 1 ? "thread" : "threads", m->server.threads == 1 ? "s" : "",
             o->listen_fd < 0     ? o->socket
             : o->lifeline_fd < 0 ? "the socket that was handed over"
                                  : "this job",
             loops);
}

/* Start, and serve until a signal or the lifeline ends the loader. */
static int serve(struct main_loop *m, struct plenum_error *err)
{
    int r = start(m, err);

    if (r < 0) {
        stop_now(m, "it could not be started");
    } else {
        log_started(m);
        (void)start_beat(m);
        leash_serves();
    }
    (void)uv_run(&m->server.loop, UV_RUN_DEFAULT);
    http_stop(m->http);
    queue_destroy(m->server.queue);
    blocking_destroy(m->server.blocking);
    openings_destroy(m->server.openings);
    sample_cache_close();
    (void)uv_loop_close(&m->server.loop);
    return r;
}

static int run_loop(const struct server_options *options, struct plenum_error *err)
{
    struct main_loop *m = calloc(1, sizeof(*m));
    int r;

    if (!m)
        return error_set(err, -ENOMEM, "out of memory");
    listening_init(&m->listening, &m->server);
    m->live = *options;
    list_init(&m->server.sessions);
    m->server.options = &m->live;
    m->server.started_ns = time_now_ns();
    m->server.session_gone = on_session_gone;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGXFSZ, SIG_IGN); /* a limit on files is an error of write() */
    leash_phase(JOBLOADER_PIXELS);
    r = test_pixels(&m->server, err);
    if (r < 0)
        goto out;
    leash_phase(JOBLOADER_ROOTS);
    r = roots_create(options->roots, options->num_roots, &m->server.roots, err);
    if (r < 0)
        goto out;
    r = uv_loop_init(&m->server.loop);
    if (r < 0) {
        (void)error_set(err, r, "cannot start the event loop: %s", uv_strerror(r));
        goto out;
    }
    r = serve(m, err);
    log_budget_settle(&m->server.lines, UINT64_MAX, tell_left_out);

out:
    pin_destroy(m->server.pin);
    listening_fini(&m->listening);
    tls_destroy(m->server.tls);
    snapshot_forget(&m->server);
    roots_unref(m->server.roots);
    free(m);
    return r;
}

struct loop_run {
    const struct server_options *options;
    struct plenum_error *err;
    int r;
};

static void *loop_main(void *arg)
{
    struct loop_run *run = arg;

    run->r = run_loop(run->options, run->err);
    return NULL;
}

/* Run the loop in a new thread, whose stack does not depend on RLIMIT_STACK. Signals arrive at the
 * calling thread, and libuv's handler forwards them. */
int server_run(const struct server_options *options, struct plenum_error *err)
{
    struct loop_run run = {options, err, 0};
    pthread_t id;
    int r;

    r = thread_start(&id, loop_main, &run);
    if (r < 0)
        return error_set(err, r, "cannot start a thread: %s", strerror(-r));
    (void)pthread_join(id, NULL);
    return run.r;
}
