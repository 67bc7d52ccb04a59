/* SPDX-License-Identifier: MIT */
/* jobloader_clients.c - clients that connect while there is no loader, and the answers they get.
 *
 * They wait in the backlog of the keeper's sockets. The first one of this user (or root) starts the
 * loader, which inherits its connection. If the loader cannot start, or starts slowly, the keeper
 * answers the clients instead. It keeps one descriptor in reserve, so that they get an answer even
 * when this process has run out. */
#include "config.h"

#include "common/job/jobloader_priv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/frame.h"
#include "common/net/refuser.h"
#include "common/net/wire.h"
#include "common/util/util.h"

enum { ANSWERS_MAX = 256 }; /* at most, per call */

/* Answer one client. Its request is ignored, but must be read, because unread input would reset the
 * connection before it reads our answer. A starting loader may have a copy of the descriptor. */
static void answer(int fd, const struct frame_buffer *b)
{
    char request[4096];

    assert(fd >= 0);
    (void)send(fd, b->bytes, b->len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (recv(fd, request, sizeof(request), MSG_DONTWAIT) > 0)
        ;
    (void)shutdown(fd, SHUT_RDWR);
    (void)close(fd);
}

static int accept_client(struct jobloader *l, int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && l->spare_fd >= 0) {
        io_close(&l->spare_fd);
        fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    }
    return fd;
}

static void have_spare(struct jobloader *l)
{
    if (l->spare_fd < 0)
        l->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* Does the client belong to this user or to root? A job's loader serves no others. */
static bool is_served(int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
           (peer.uid == geteuid() || peer.uid == 0);
}

bool jobloader_find_client(struct jobloader *l)
{
    int fd;

    if (l->tcp || l->client_fd >= 0)
        return true;
    for (int i = 0; i < ANSWERS_MAX && (fd = accept_client(l, l->listen_fd)) >= 0; i++) {
        if (is_served(fd)) {
            l->client_fd = fd;
            return true;
        }
        (void)close(fd);
        have_spare(l);
    }
    return false;
}

/* Answer all waiting clients. TCP clients trust only peers that have the loader's key; without it,
 * close their connections. */
static void answer_clients_with(struct jobloader *l, const struct frame_buffer *b)
{
    static const struct frame_buffer nothing = {0};
    int fd;

    if (l->client_fd >= 0)
        answer(l->client_fd, b);
    l->client_fd = -1;
    have_spare(l);
    for (int i = 0; i < ANSWERS_MAX && (fd = accept_client(l, l->listen_fd)) >= 0; i++) {
        if (l->refuser)
            refuser_take(l->refuser, fd, b);
        else
            answer(fd, l->tcp || !is_served(fd) ? &nothing : b);
        have_spare(l);
    }
}

/* Answer all who wait for the status page. Anyone may open it, so do not reveal why there is no
 * loader. */
static void answer_readers(struct jobloader *l)
{
    static const char text[] = "HTTP/1.1 503 Service Unavailable\r\n"
                               "Content-Type: text/plain; charset=utf-8\r\n"
                               "Content-Length: 26\r\n"
                               "Connection: close\r\n\r\n"
                               "the loader has not started";
    const struct frame_buffer b = {.bytes = (uint8_t *)(uintptr_t)text, .len = sizeof(text) - 1};
    int fd;

    for (int i = 0; i < ANSWERS_MAX && (fd = accept_client(l, l->page_fd)) >= 0; i++) {
        answer(fd, &b);
        have_spare(l);
    }
}

void jobloader_answer_clients(struct jobloader *l, int code, const char *text)
{
    struct frame_buffer b = {0};
    struct wire_error m = {.code = code};

    assert(code < 0);
    (void)snprintf(m.text, sizeof(m.text), "%s", text);
    if (wire_put_error(&b, 0, &m) < 0)
        b.len = 0;
    answer_clients_with(l, &b);
    if (l->page_fd >= 0)
        answer_readers(l);
    frame_buffer_fini(&b);
}
