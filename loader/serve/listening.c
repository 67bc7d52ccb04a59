/* SPDX-License-Identifier: MIT */
/* listening.c - opens the loader's sockets, and accepts clients. */
#include "config.h"

#include "loader/serve/listening.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/session.h"

enum {
    PAUSE_MS = 5,
    FILES_KEPT = 64, /* descriptors reserved for files */
};

static int open_spare(void)
{
    return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void listening_init(struct listening *l, struct server *server)
{
    *l = (struct listening){.server = server,
                            .local.fd = -1,
                            .tcp = {.fd = -1, .remote = true},
                            .spare_fd = open_spare()};
}

void listening_attach(struct listening *l)
{
    l->pause.data = l;
    (void)uv_timer_init(&l->server->loop, &l->pause);
}

void listening_detach(struct listening *l)
{
    uv_close((uv_handle_t *)&l->pause, NULL);
}

void listening_fini(struct listening *l)
{
    io_close(&l->local.fd);
    io_close(&l->tcp.fd);
    io_close(&l->spare_fd);
}

static void for_listeners(struct listening *l, void (*call)(struct listener *listener))
{
    if (l->local.open)
        call(&l->local);
    if (l->tcp.open)
        call(&l->tcp);
}

static void close_listener(struct listener *listener)
{
    uv_close((uv_handle_t *)&listener->poll, NULL);
    listener->open = false;
}

void listening_close(struct listening *l)
{
    for_listeners(l, close_listener);
    io_close(&l->tcp.fd); /* a new client fails immediately, and tries another loader */
    if (l->owns_path)
        (void)unlink(l->address.un.sun_path);
    l->owns_path = false;
}

static void on_listening(uv_poll_t *handle, int status, int events);

static void start_accepting(struct listener *listener)
{
    (void)uv_poll_start(&listener->poll, UV_READABLE, on_listening);
}

static void stop_accepting(struct listener *listener)
{
    (void)uv_poll_stop(&listener->poll);
}

static void on_pause(uv_timer_t *timer)
{
    struct listening *l = timer->data;

    if (l->spare_fd < 0)
        l->spare_fd = open_spare();
    if (l->spare_fd < 0 || time_now_ns() < l->held_until_ns) {
        (void)uv_timer_start(timer, on_pause, PAUSE_MS, 0);
        return;
    }
    for_listeners(l, start_accepting);
}

/* Stop accepting clients for a while, because settings are being read, or because there is no spare
 * descriptor (and the loop would spin). Clients wait in the backlog. */
static void pause_listening(struct listening *l)
{
    for_listeners(l, stop_accepting);
    (void)uv_timer_start(&l->pause, on_pause, PAUSE_MS, 0);
}

/* Reject a client for which there is no descriptor: log and count it, and close it in a thread,
 * because closing may take long. `fd` < 0: it could not even be accepted. */
static void close_excess(struct listening *l, int fd)
{
    uint32_t untold;

    if (log_limit_check(&l->server->log_limit, "", "EMFILE", time_now_ns(), &untold) ==
        LOG_LIMIT_LOG)
        log_warn("no file descriptor is left for a new client: it and later ones are closed (see "
                 "ulimit -n)");
    l->server->refused++;
    if (fd < 0)
        return;
    (void)shutdown(fd, SHUT_RDWR); /* the client sees it at once */
    blocking_close_connection(l->server->blocking, BLOCKING_UNKNOWN_USER, fd);
}

/* Handle a client when no descriptor is left. In the backlog, it would make the loop spin, so
 * accept it with the spare descriptor and close it. Returns true if the caller should continue with
 * the next client. */
static bool accept_and_close(struct listener *listener)
{
    struct listening *l = listener->all;
    int fd;

    io_close(&l->spare_fd);
    fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    close_excess(l, fd);
    l->spare_fd = open_spare();
    if (l->spare_fd < 0)
        pause_listening(l);
    return l->spare_fd >= 0 && fd >= 0;
}

/* Returns whether this is one of the last descriptors, which are reserved for files. */
static bool is_reserved(int fd)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;
    return (rlim_t)fd >= limit.rlim_cur - min_u64(FILES_KEPT, limit.rlim_cur / 4);
}

static void on_listening(uv_poll_t *handle, int status, int events)
{
    struct listener *listener = handle->data;

    (void)events;
    if (status < 0)
        return;
    for (;;) {
        int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            if ((errno == EMFILE || errno == ENFILE) && accept_and_close(listener))
                continue;
            return;
        }
        if (is_reserved(fd))
            close_excess(listener->all, fd);
        else
            (void)session_create(listener->all->server, fd, listener->remote);
    }
}

static int open_listener(struct listening *l, struct listener *listener)
{
    int r;

    if (listener->fd < 0)
        return 0;
    listener->all = l;
    listener->poll.data = listener;
    r = uv_poll_init(&l->server->loop, &listener->poll, listener->fd);
    if (r < 0)
        return r;
    listener->open = true;
    return uv_poll_start(&listener->poll, UV_READABLE, on_listening);
}

int listening_start(struct listening *l)
{
    int r = open_listener(l, &l->local);

    return r < 0 ? r : open_listener(l, &l->tcp);
}

void listening_hold(struct listening *l, uint64_t ns)
{
    l->held_until_ns = time_now_ns() + ns;
    pause_listening(l);
}

void listening_resume(struct listening *l)
{
    l->held_until_ns = 0;
}

int listening_check(const struct server_options *o, struct plenum_error *err)
{
    if (!o->listen || o->tls_key || o->num_roots > 0)
        return 0;
    return error_set(
        err, -EPERM,
        "--listen %s: any client that connects there could read everything that this user can; use "
        "--root to name the folders that may be read, or --tls-key to require a key",
        o->listen);
}

static int load_key(struct listening *l, struct plenum_error *err)
{
    const char *path = l->server->options->tls_key;
    int r = path && !l->server->tls ? tls_create_loader(path, &l->server->tls, err) : 0;

    return r < 0 ? error_prefix(err, r, "--tls-key") : 0;
}

int listening_open_tcp(struct listening *l, struct plenum_error *err)
{
    const struct server_options *o = l->server->options;
    struct address address;
    char text[128];
    int r;

    if (!o->listen)
        return !o->tls_key || l->tcp.fd >= 0
                   ? 0
                   : error_set(
                         err, -EINVAL,
                         "--tls-key is for TCP clients: use --listen to say where they connect");
    if (l->tcp.fd >= 0)
        return error_set(err, -EINVAL,
                         "--listen and --listen-fd both name a TCP socket: give only one");
    r = address_parse_listen(o->listen, &address, err);
    if (r < 0)
        return error_prefix(err, r, "--listen");
    r = address_resolve(&address, err);
    if (r < 0)
        return error_prefix(err, r, "--listen");
    r = load_key(l, err);
    if (r < 0)
        return r;
    if (!o->tls_key && !address_is_local(&address))
        return error_set(err, -EPERM,
                         "--listen %s: other hosts could connect without authentication; give the "
                         "loader and its clients a key (--tls-key), or listen on 127.0.0.1",
                         o->listen);
    r = listening_check(o, err);
    if (r < 0)
        return r;
    l->tcp.fd = address_listen(&address, 0, err);
    if (l->tcp.fd < 0)
        return error_prefix(err, l->tcp.fd, "--listen");
    log_info("listening on %s", address_of_socket(l->tcp.fd, text, sizeof(text)));
    return 0;
}

/* Set the owner of the socket file (the user that we become) and its group (--socket-group). */
static int give_socket(struct listening *l, const struct user *user, struct plenum_error *err)
{
    const struct server_options *o = l->server->options;
    const char *path = l->address.un.sun_path;
    uint32_t group = UINT32_MAX;
    int r = 0;

    if (o->socket_group) {
        if (!l->owns_path)
            return error_set(err, -EINVAL,
                             "--socket-group %s: %s has no file whose group could be set: use "
                             "--socket unix:PATH",
                             o->socket_group, o->socket);
        r = users_find_id(o->socket_group, true, &group, err);
        if (r < 0)
            return error_prefix(err, r, "--socket-group");
    }
    if (l->owns_path && o->user && geteuid() == 0 &&
        lchown(path, user->uid, group == UINT32_MAX ? user->gid : UINT32_MAX) < 0)
        return error_set(err, -errno, "cannot give %s to user %s: %s", o->socket, user->name,
                         strerror(errno));
    if (group != UINT32_MAX && lchown(path, (uid_t)-1, group) < 0)
        return error_set(err, -errno,
                         "--socket-group %s: cannot give %s to it: %s; only root can give it to a "
                         "group that the user is not in",
                         o->socket_group, o->socket, strerror(errno));
    return 0;
}

/* Use a socket that was handed over. A TCP socket needs a key. */
static int use_handed_socket(struct listening *l, struct plenum_error *err)
{
    const struct server_options *o = l->server->options;
    int family = AF_UNIX, r;
    socklen_t len = sizeof(family);

    if (getsockopt(o->listen_fd, SOL_SOCKET, SO_DOMAIN, &family, &len) < 0)
        return error_set(err, -errno, "--listen-fd %d: %s", o->listen_fd, strerror(errno));
    if (family != AF_UNIX && !o->tls_key)
        return error_set(err, -EPERM, "--listen-fd %d is a TCP socket, which needs a --tls-key",
                         o->listen_fd);
    (void)io_set_cloexec(o->listen_fd);
    r = io_set_nonblock(o->listen_fd);
    if (r < 0)
        return error_set(err, r, "--listen-fd %d: %s", o->listen_fd, strerror(-r));
    if (family == AF_UNIX) {
        l->local.fd = o->listen_fd;
        return 0;
    }
    l->tcp.fd = o->listen_fd;
    return load_key(l, err);
}

int listening_open(struct listening *l, const struct user *user, struct plenum_error *err)
{
    const struct server_options *o = l->server->options;
    unsigned mode = o->socket_mode <= 0777 ? o->socket_mode : o->socket_group ? 0660 : 0600;
    int r;

    if (o->listen_fd >= 0)
        return use_handed_socket(l, err);
    r = address_parse(o->socket, &l->address, err);
    if (r < 0)
        return r;
    l->local.fd = address_listen(&l->address, mode, err);
    if (l->local.fd < 0)
        return l->local.fd;
    l->owns_path = address_is_path(&l->address);
    return give_socket(l, user, err);
}
