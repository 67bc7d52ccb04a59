/* SPDX-License-Identifier: MIT */
/* http.c - serves a few read-only pages.
 *
 * The loop publishes texts once a second; the HTTP library's single thread answers with the latest
 * texts. So neither waits for the other, and a thousand viewers cost the loop nothing.
 *
 * A thumbnail is not read from a slot (a loader writes slots and never reads them) but rendered
 * again: a batch is a pure function, so the page shows exactly the pixels that the program got. Its
 * storage may hang, so a thread of blocking.h renders it (thumbnail.h). The connection waits for a
 * few seconds at most, and only a limited number of connections may wait, so /healthz and /metrics
 * always answer.
 *
 * Any client that can reach the address may read the pages; by default, it is the loopback. A page
 * of another web site could try to read ours through a host name that resolves to the loopback (DNS
 * rebinding), so requests to the loopback must name the loopback as their host. Names and images of
 * streams are shown only if every client may read all the data that is served, that is, if no root
 * has readers. */
#include "config.h"

#include "loader/serve/http.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#ifdef HAVE_MICROHTTPD
#include <microhttpd.h>
#endif

#include "common/net/status.h"
#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/list.h"
#include "common/util/lock.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "loader/serve/metrics.h"
#include "loader/serve/monitor.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/session_facts.h"
#include "loader/serve/thumbnail.h"

#ifdef HAVE_MICROHTTPD
enum {
    CONNECTIONS_MAX = 128,
    CONNECTIONS_FREE = 16, /* with fewer free connections, a new viewer replaces the oldest one */
    /* Time limit for a whole request, from its first byte to the end of the answer, and for the
     * pause before the next one. */
    REQUEST_LIMIT_S = 15,
    SESSIONS_MAX = 256,        /* streams with thumbnails */
    HISTORY = 300,             /* seconds */
    FRESH_S = 15,              /* older texts mean that the loop hangs */
    THUMBNAILS_MAX = 64,       /* per batch */
    THUMBNAIL_SIDE_MAX = 1024, /* pixels; larger ones would delay all other viewers */
    MAKING_MAX = 32, /* connections that wait for thumbnails; the others remain for pages */
    MAKING_S = 5,    /* how long a connection waits */
};

struct text {
    char *bytes;
    size_t len;
};

struct second {
    uint64_t rate, render_busy, read_busy;
};

/* A thumbnail that a connection is waiting for. */
struct making {
    struct list link;
    struct thumbnail *thumbnail;
    uint64_t began_ns;
};

/* A connection. Its descriptor is open as long as it is listed. */
struct viewer {
    struct list link;
    int fd;
    uint64_t since_ns; /* when the connection began, or its last request was answered */
    bool suspended;    /* waiting for a thumbnail */
};

struct http {
    /* Constant. */
    struct blocking *blocking;
    struct MHD_Daemon *daemon;
    bool loopback, thumbnails;
    char host[80]; /* the address as it appears in requests */
    /* Any thread, with mu held. */
    struct lock mu;
    struct text status, metrics, history;
    struct session_view views[SESSIONS_MAX];
    unsigned num_views;
    uint64_t published_ns;
    bool stopping;
    struct list viewers; /* newest first */
    unsigned num_viewers;
    struct list making;
    unsigned num_making;
    bool ending; /* no more connections may wait */
    /* Loop thread only. */
    struct second seconds[HISTORY];
    unsigned num_seconds; /* number of seconds ever added */
    struct window_point last;
};

static const char page[] =
#include "loader/serve/page.inc"
    ;

/* ---- published texts ---- */

/* Free views. A view may hold the last reference to the data set of a stream that has ended. */
static void drop_views(const struct http *h, const struct session_view *views, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        openings_release(h->blocking, views[i].user, views[i].dataset);
}

/* ---- connections ---- */

/* End a connection: wake the library's thread, which closes it. */
static void end_viewer(struct http *h, const struct viewer *v)
{
    assert(lock_is_held(&h->mu));
    (void)shutdown(v->fd, SHUT_RDWR);
}

/* Returns the viewer that has gone longest without an answer, or NULL. */
static struct viewer *oldest_viewer(struct http *h)
{
    struct viewer *oldest = NULL;

    assert(lock_is_held(&h->mu));
    for (struct list *at = list_first(&h->viewers); at; at = list_next(&h->viewers, at)) {
        struct viewer *v = container_of(at, struct viewer, link);

        if (!v->suspended && (!oldest || v->since_ns <= oldest->since_ns))
            oldest = v;
    }
    return oldest;
}

/* End all viewers whose requests or pauses have taken too long. */
static void end_late_viewers(struct http *h, uint64_t now_ns)
{
    assert(lock_is_held(&h->mu));
    for (struct list *at = list_first(&h->viewers); at; at = list_next(&h->viewers, at)) {
        struct viewer *v = container_of(at, struct viewer, link);

        if (!v->suspended && now_ns >= v->since_ns + REQUEST_LIMIT_S * NS_PER_SEC)
            end_viewer(h, v);
    }
}

static void add_viewer(struct http *h, int fd, void **ret)
{
    struct viewer *v = malloc(sizeof(*v)), *oldest;

    *ret = v;
    if (!v)
        return;
    *v = (struct viewer){.fd = fd, .since_ns = time_now_ns()};
    lock_acquire(&h->mu);
    if (h->num_viewers >= CONNECTIONS_MAX - CONNECTIONS_FREE && (oldest = oldest_viewer(h))) {
        end_viewer(h, oldest);
        oldest->since_ns = UINT64_MAX; /* the next new connection then replaces a different one */
    }
    list_add_first(&h->viewers, &v->link);
    h->num_viewers++;
    lock_release(&h->mu);
}

static void remove_viewer(struct http *h, void **viewer)
{
    struct viewer *v = *viewer;

    if (!v)
        return;
    lock_acquire(&h->mu);
    list_remove(&v->link);
    h->num_viewers--;
    lock_release(&h->mu);
    free(v);
    *viewer = NULL;
}

/* Record that the viewer has made progress: a request has arrived, or was answered. */
static void touch_viewer(struct http *h, struct viewer *v)
{
    lock_acquire(&h->mu);
    if (v) {
        v->since_ns = time_now_ns();
        v->suspended = false;
    }
    lock_release(&h->mu);
}

/* Keep the list of connections. The library also calls this before it closes a descriptor. */
static void on_connection(void *arg, struct MHD_Connection *c, void **viewer,
                          enum MHD_ConnectionNotificationCode what)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD);

    if (what == MHD_CONNECTION_NOTIFY_STARTED)
        add_viewer(arg, info ? info->connect_fd : -1, viewer);
    else
        remove_viewer(arg, viewer);
}

static struct viewer *viewer_of(struct MHD_Connection *c)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

/* ---- texts ---- */

static void write_history(FILE *file, const struct http *h)
{
    struct json j = {.file = file};
    unsigned n = h->num_seconds < HISTORY ? h->num_seconds : HISTORY;
    static const struct {
        const char *name;
        size_t offset;
        double scale;
        int decimals;
    } rows[] = {{"samples_per_second", offsetof(struct second, rate), 1e3, 1},
                {"render_busy", offsetof(struct second, render_busy), 1e6, 3},
                {"read_busy", offsetof(struct second, read_busy), 1e6, 3}};

    json_begin_object(&j, NULL, JSON_LINES);
    json_number(&j, "interval_seconds", 1);
    json_bool(&j, "thumbnails", h->thumbnails);
    for (size_t r = 0; r < ARRAY_LEN(rows); r++) {
        json_begin_array(&j, rows[r].name, JSON_FLAT);
        for (unsigned i = h->num_seconds - n; i < h->num_seconds; i++) {
            const char *second = (const char *)&h->seconds[i % HISTORY];

            json_real(&j, NULL,
                      (double)*(const uint64_t *)(const void *)(second + rows[r].offset) /
                          rows[r].scale,
                      rows[r].decimals);
        }
        json_end_array(&j);
    }
    json_end_object(&j);
}

/* Add the rates of the last second. */
static void add_second(struct http *h, const struct server *server)
{
    struct window two = {.points = {h->last}, .count = 2};
    struct queue_counters c;
    struct window_point p;

    queue_get_counters(server->queue, &c);
    two.points[1] = (struct window_point){.at_ns = time_now_ns(), .totals = c.all};
    h->last = two.points[1];
    if (two.points[0].at_ns == 0)
        return;
    p = window_span(&two);
    if (p.at_ns == 0)
        return;
#define PER(part, whole) ((uint64_t)((double)(part) / (double)(whole)))
    h->seconds[h->num_seconds++ % HISTORY] =
        (struct second){.rate = PER(p.totals.samples * 1000 * NS_PER_SEC, p.at_ns),
                        .render_busy = PER(p.totals.render_ns * 1000000, p.at_ns * server->threads),
                        .read_busy = PER(p.totals.read_ns * 1000000, p.at_ns * server->io_threads)};
#undef PER
}

/* Returns whether the page shows streams. Viewers are not authenticated, so neither names nor
 * images are shown if a root is restricted. */
static bool shows_streams(const struct server *server)
{
    return roots_are_for_all(server->roots);
}

/* Write the texts to publish. Returns 0, or -ENOMEM, and the old texts are then shown for another
 * second. */
static int write_texts(struct http *h, const struct server *server, struct text texts[3])
{
    struct status status = {0};
    FILE *files[3] = {NULL};
    uint32_t n = 0;
    int r = 0;

    monitor_get_status(server, &status.loader);
    status.streams = calloc(status.loader.streams + 1, sizeof(*status.streams));
    if (!status.streams)
        return -ENOMEM;
    for (const struct session *s = session_first(server); s && shows_streams(server);
         s = session_next(s))
        n += n < status.loader.streams && monitor_get_stream(server, s, &status.streams[n]);
    status.loader.streams = n;
    for (int i = 0; i < 3; i++) {
        files[i] = open_memstream(&texts[i].bytes, &texts[i].len);
        if (!files[i]) {
            r = -ENOMEM;
            goto out;
        }
    }
    status_write_json(files[0], &status);
    metrics_write(files[1], &status, server);
    write_history(files[2], h);

out:
    for (int i = 0; i < 3; i++)
        if (files[i] && fclose(files[i]) != 0)
            r = -ENOMEM;
    free(status.streams);
    return r;
}

/* Give up on thumbnails begun before `before_ns`: their connections get an error. */
static void give_up_making(struct http *h, uint64_t before_ns)
{
    assert(lock_is_held(&h->mu));
    for (struct list *at = list_first(&h->making); at; at = list_next(&h->making, at)) {
        struct making *m = container_of(at, struct making, link);

        if (m->began_ns < before_ns)
            thumbnail_give_up(m->thumbnail);
    }
}

void http_publish(struct http *http, const struct server *server)
{
    struct text fresh[3] = {{0}}, old[3];
    struct session_view views[SESSIONS_MAX];
    unsigned n = 0, old_n;

    if (!http)
        return;
    add_second(http, server);
    if (write_texts(http, server, fresh) < 0) {
        for (int i = 0; i < 3; i++)
            free(fresh[i].bytes);
        return;
    }
    for (const struct session *s = session_first(server);
         http->thumbnails && s && n < SESSIONS_MAX && shows_streams(server); s = session_next(s))
        n += session_get_view(s, &views[n]);
    lock_acquire(&http->mu);
    old[0] = http->status;
    old[1] = http->metrics;
    old[2] = http->history;
    http->status = fresh[0];
    http->metrics = fresh[1];
    http->history = fresh[2];
    old_n = http->num_views;
    for (unsigned i = 0; i < SESSIONS_MAX && (i < n || i < old_n); i++) {
        struct session_view swap = views[i];

        views[i] = http->views[i];
        http->views[i] = swap;
    }
    http->num_views = n;
    http->published_ns = time_now_ns();
    http->stopping = server->stopping;
    give_up_making(http, time_now_ns() - MAKING_S * NS_PER_SEC);
    end_late_viewers(http, time_now_ns());
    lock_release(&http->mu);
    drop_views(http, views, old_n);
    for (int i = 0; i < 3; i++)
        free(old[i].bytes);
}

/* ---- answers, in the HTTP thread ---- */

static enum MHD_Result answer(struct MHD_Connection *c, unsigned code, const char *type,
                              const void *bytes, size_t len)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(len, (void *)(uintptr_t)bytes, MHD_RESPMEM_MUST_COPY);
    enum MHD_Result result;

    if (!r)
        return MHD_NO;
    (void)MHD_add_response_header(r, "Content-Type", type);
    (void)MHD_add_response_header(r, "Cache-Control", "no-store");
    (void)MHD_add_response_header(r, "X-Content-Type-Options", "nosniff");
    (void)MHD_add_response_header(r, "X-Frame-Options", "DENY");
    (void)MHD_add_response_header(r, "Referrer-Policy", "no-referrer");
    (void)MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin");
    (void)MHD_add_response_header(r, "Content-Security-Policy",
                                  "default-src 'none'; script-src 'unsafe-inline'; style-src "
                                  "'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
                                  "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
    if (code == MHD_HTTP_METHOD_NOT_ALLOWED)
        (void)MHD_add_response_header(r, "Allow", "GET, HEAD");
    result = MHD_queue_response(c, code, r);
    MHD_destroy_response(r);
    return result;
}

static enum MHD_Result say(struct MHD_Connection *c, unsigned code, const char *sentence)
{
    return answer(c, code, "text/plain; charset=utf-8", sentence, strlen(sentence));
}

static enum MHD_Result answer_text(struct http *h, struct MHD_Connection *c,
                                   const struct text *text, const char *type)
{
    enum MHD_Result result;

    lock_acquire(&h->mu);
    result = text->bytes ? answer(c, MHD_HTTP_OK, type, text->bytes, text->len) : MHD_NO;
    lock_release(&h->mu);
    return result == MHD_NO ? say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "the loader is starting\n")
                            : result;
}

static enum MHD_Result answer_health(struct http *h, struct MHD_Connection *c, bool ready)
{
    bool stale, stopping, starting;

    lock_acquire(&h->mu);
    stale = time_now_ns() - h->published_ns > FRESH_S * NS_PER_SEC;
    stopping = h->stopping;
    starting = !h->status.bytes;
    lock_release(&h->mu);
    if (stale)
        return say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "the loader's event loop is stuck\n");
    if (ready && stopping)
        return say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "the loader is being stopped\n");
    if (ready && starting)
        return say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "the loader is starting\n");
    return say(c, MHD_HTTP_OK, ready ? "ready\n" : "alive\n");
}

static void on_ready(void *connection)
{
    MHD_resume_connection(connection);
}

/* Suspend the connection until the thumbnail is rendered. Takes the reference to the data set. */
static enum MHD_Result make_thumbnail(struct http *h, struct MHD_Connection *c,
                                      const struct session_view *view, unsigned index, void **state)
{
    struct thumbnail *thumbnail = thumbnail_create(view, index, h->blocking, on_ready, c);
    struct making *m = malloc(sizeof(*m));
    bool full;

    if (!thumbnail || !m) {
        free(m);
        thumbnail_abandon(thumbnail);
        return MHD_NO;
    }
    *m = (struct making){.thumbnail = thumbnail, .began_ns = time_now_ns()};
    lock_acquire(&h->mu);
    full = h->ending || h->num_making >= MAKING_MAX;
    if (!full) {
        list_add_first(&h->making, &m->link);
        h->num_making++;
        *state = m;
        if (viewer_of(c))
            viewer_of(c)->suspended = true;
        MHD_suspend_connection(c);
    }
    lock_release(&h->mu);
    if (!full) {
        thumbnail_begin(thumbnail);
        return MHD_YES;
    }
    free(m);
    thumbnail_abandon(thumbnail);
    return say(c, MHD_HTTP_SERVICE_UNAVAILABLE, "too many thumbnails are being made\n");
}

static enum MHD_Result answer_made(struct MHD_Connection *c, const struct making *m)
{
    const char *sentence;
    const void *png;
    size_t len;
    int r = thumbnail_get(m->thumbnail, &png, &len, &sentence);

    return r == 0 ? answer(c, MHD_HTTP_OK, "image/png", png, len)
                  : say(c, r == -ETIMEDOUT ? MHD_HTTP_SERVICE_UNAVAILABLE : MHD_HTTP_NOT_FOUND,
                        sentence);
}

/* Answer a request for "/thumbnail/STREAM/INDEX.png". */
static enum MHD_Result answer_thumbnail(struct http *h, struct MHD_Connection *c, const char *path,
                                        void **state)
{
    uint64_t id, index;
    struct session_view view = {0};
    bool large;

    if (parse_next_u64(&path, UINT64_MAX, &id) < 0 || *path++ != '/' ||
        parse_next_u64(&path, THUMBNAILS_MAX - 1, &index) < 0 || strcmp(path, ".png") != 0)
        return say(c, MHD_HTTP_NOT_FOUND, "thumbnails are /thumbnail/STREAM/INDEX.png\n");
    lock_acquire(&h->mu);
    for (unsigned i = 0; i < h->num_views; i++)
        if (h->views[i].id == id && index < h->views[i].count)
            view = h->views[i];
    large = view.width > THUMBNAIL_SIDE_MAX || view.height > THUMBNAIL_SIDE_MAX;
    if (view.dataset && !large)
        (void)dataset_ref(view.dataset);
    lock_release(&h->mu);
    if (!view.dataset)
        return say(c, MHD_HTTP_NOT_FOUND,
                   "there is no such stream, or it has not requested any batch\n");
    if (large)
        return say(c, MHD_HTTP_NOT_FOUND,
                   "images of more than 1024 pixels a side have no thumbnails\n");
    return make_thumbnail(h, c, &view, (unsigned)index, state);
}

/* Returns whether the request names the loopback, or the address that we listen on, with or without
 * a port. */
static bool names_loopback(const struct http *h, const char *host)
{
    const char *const names[] = {"localhost", "127.0.0.1", "[::1]", h->host};

    for (size_t i = 0; host && i < ARRAY_LEN(names); i++) {
        size_t len = strlen(names[i]);

        if (strncasecmp(host, names[i], len) == 0 && (host[len] == '\0' || host[len] == ':'))
            return true;
    }
    return false;
}

static int seen; /* the state of a request whose header has arrived */

static enum MHD_Result on_request(void *arg, struct MHD_Connection *c, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_size, void **state)
{
    static const char prefix[] = "/thumbnail/";
    struct http *h = arg;

    (void)version;
    (void)upload;
    if (!*state) { /* the header has arrived; the library calls again for the answer */
        *state = &seen;
        touch_viewer(h, viewer_of(c));
        return MHD_YES;
    }
    if (*upload_size > 0) { /* a body is ignored */
        *upload_size = 0;
        return MHD_YES;
    }
    if (*state != &seen)
        return answer_made(c, *state);
    if (h->loopback &&
        !names_loopback(h, MHD_lookup_connection_value(c, MHD_HEADER_KIND, MHD_HTTP_HEADER_HOST)))
        return say(c, 421, "this page is available only on this host: use the address localhost\n");
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return say(c, MHD_HTTP_METHOD_NOT_ALLOWED, "nothing can be changed here\n");
    if (strcmp(url, "/") == 0)
        return answer(c, MHD_HTTP_OK, "text/html; charset=utf-8", page, sizeof(page) - 1);
    if (strcmp(url, "/status.json") == 0)
        return answer_text(h, c, &h->status, "application/json");
    if (strcmp(url, "/history.json") == 0)
        return answer_text(h, c, &h->history, "application/json");
    if (strcmp(url, "/metrics") == 0)
        return answer_text(h, c, &h->metrics, "text/plain; version=0.0.4; charset=utf-8");
    if (strcmp(url, "/healthz") == 0)
        return answer_health(h, c, false);
    if (strcmp(url, "/readyz") == 0)
        return answer_health(h, c, true);
    if (h->thumbnails && strncmp(url, prefix, sizeof(prefix) - 1) == 0)
        return answer_thumbnail(h, c, url + sizeof(prefix) - 1, state);
    return say(c, MHD_HTTP_NOT_FOUND,
               "the pages are /, /status.json, /history.json, /metrics, /healthz and /readyz\n");
}

/* Clean up after a request, whether or not it was answered. */
static void on_completed(void *arg, struct MHD_Connection *c, void **state,
                         enum MHD_RequestTerminationCode how)
{
    struct http *h = arg;
    struct making *m = *state;

    (void)how;
    touch_viewer(h, viewer_of(c));
    if (!m || *state == &seen)
        return;
    *state = NULL;
    lock_acquire(&h->mu);
    list_remove(&m->link);
    h->num_making--;
    lock_release(&h->mu);
    thumbnail_forget(m->thumbnail);
    free(m);
}

/* Create a listening socket. We bind it ourselves, because some versions of the library lose the
 * errno of bind(). */
static int listen_at(const struct addrinfo *at)
{
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1, r;

    if (fd < 0)
        return -errno;
    /* Connections of a loader that has just ended may still be in TIME_WAIT. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (at->ai_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
    if (bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, CONNECTIONS_MAX) == 0)
        return fd;
    r = -errno;
    (void)close(fd);
    return r;
}

static int start_daemon(struct http *h, int fd, int family)
{
    unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_ALLOW_SUSPEND_RESUME;
    sigset_t all, old;

    if (family == AF_INET6)
        flags |= MHD_USE_IPv6;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old); /* signals are for the loop */
    h->daemon =
        MHD_start_daemon(flags, 0, NULL, NULL, on_request, h, MHD_OPTION_LISTEN_SOCKET, fd,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, h, MHD_OPTION_NOTIFY_CONNECTION,
                         on_connection, h, MHD_OPTION_THREAD_STACK_SIZE, (size_t)THREAD_STACK_BYTES,
                         MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
                         MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)REQUEST_LIMIT_S, MHD_OPTION_END);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    /* The library closes the socket. On failure some versions have closed it and some have not; it
     * may stay open, because the loader ends. */
    return h->daemon ? 0 : -ENOMEM;
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
    return (ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr) >> 24) == 127;
}

/* Returns a socket at the address and port of the options, or -errno. */
static int open_socket(const struct server_options *options, struct plenum_error *err)
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    const char *where = options->http_address ? options->http_address : "127.0.0.1";
    struct addrinfo *at = NULL;
    char port[8];
    int fd;

    (void)snprintf(port, sizeof(port), "%u", options->http_port);
    if (getaddrinfo(where, port, &hints, &at) != 0)
        return error_set(err, -EINVAL,
                         "--http-address needs an IP address such as 127.0.0.1, not '%s'", where);
    fd = listen_at(at);
    freeaddrinfo(at);
    return fd >= 0 ? fd
                   : error_set(err, fd,
                               "the status page cannot be served at %s port %s: %s; choose "
                               "another with --http-port",
                               where, port, strerror(-fd));
}

/* Returns the socket that was handed over, or -errno. */
static int take_socket(int fd, struct plenum_error *err)
{
    int listens = 0, r;
    socklen_t len = sizeof(listens);

    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) < 0)
        return error_set(err, -errno, "--http-fd %d: %s", fd, strerror(errno));
    if (!listens)
        return error_set(err, -EINVAL, "--http-fd %d: this is not a listening socket", fd);
    (void)io_set_cloexec(fd);
    r = io_set_nonblock(fd);
    return r < 0 ? error_set(err, r, "--http-fd %d: %s", fd, strerror(-r)) : fd;
}

/* Serve on this socket. Its address is stored as it appears in a request's Host: "127.0.0.5",
 * "[::1]". */
static int serve_at(struct http *h, int fd, struct plenum_error *err)
{
    struct sockaddr_storage storage = {0};
    const struct sockaddr *at = (const struct sockaddr *)&storage;
    socklen_t len = sizeof(storage);
    char host[64] = "", port[8] = "";
    int r;

    if (getsockname(fd, (struct sockaddr *)&storage, &len) < 0 ||
        (at->sa_family != AF_INET && at->sa_family != AF_INET6) ||
        getnameinfo(at, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return error_set(err, -EINVAL, "--http-fd %d: this is not a TCP socket", fd);
    (void)snprintf(h->host, sizeof(h->host), at->sa_family == AF_INET6 ? "[%s]" : "%s", host);
    h->loopback = is_loopback(at);
    r = start_daemon(h, fd, at->sa_family);
    if (r < 0)
        return error_set(err, r, "the status page cannot be served at %s port %s: %s", h->host,
                         port, strerror(-r));
    log_info("status page: http://%s:%s/", h->host, port);
    return 0;
}

int http_start(const struct server_options *options, struct blocking *blocking, struct http **ret,
               struct plenum_error *err)
{
    int r,
        fd = options->http_fd >= 0 ? take_socket(options->http_fd, err) : open_socket(options, err);
    struct http *h;

    if (fd < 0)
        return fd;
    h = calloc(1, sizeof(*h));
    if (!h)
        return error_set(err, -ENOMEM, "out of memory");
    lock_init(&h->mu);
    list_init(&h->viewers);
    list_init(&h->making);
    h->blocking = blocking;
    h->published_ns = time_now_ns(); /* the first texts follow soon */
    h->thumbnails = !options->no_thumbnails;
    r = serve_at(h, fd, err);
    if (r < 0) {
        free(h);
        return r; /* the socket may stay open, because the loader ends */
    }
    *ret = h;
    return 0;
}

void http_stop(struct http *http)
{
    if (!http)
        return;
    lock_acquire(&http->mu);
    http->ending = true;
    give_up_making(http, UINT64_MAX);
    lock_release(&http->mu);
    MHD_stop_daemon(http->daemon);
    drop_views(http, http->views, http->num_views);
    free(http->status.bytes);
    free(http->metrics.bytes);
    free(http->history.bytes);
    lock_fini(&http->mu);
    free(http);
}
#else
int http_start(const struct server_options *options, struct blocking *blocking, struct http **ret,
               struct plenum_error *err)
{
    (void)options;
    (void)blocking;
    (void)ret;
    return error_set(err, -ENOTSUP,
                     "this plenumd was built without libmicrohttpd and has no status page: leave "
                     "http-port and http-fd out");
}

void http_publish(struct http *http, const struct server *server)
{
    (void)http;
    (void)server;
}

void http_stop(struct http *http)
{
    (void)http;
}
#endif
