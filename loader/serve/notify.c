/* SPDX-License-Identifier: MIT */
/* notify.c - implements the protocol of sd_notify(3): variables and a datagram, which are
 * documented as stable. libsystemd is not used, because it would load a dozen other libraries into
 * every loader. */
#include "config.h"

#include "loader/serve/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum { FIRST_FD = 3 }; /* SD_LISTEN_FDS_START */

static struct sockaddr_un manager;
static socklen_t manager_len; /* 0: there is none */
static uint64_t watchdog_ns;

/* Returns an environment variable as a number, or `fallback` if it is not set or not a number. */
static uint64_t variable(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    uint64_t value;

    return text && parse_u64(text, UINT64_MAX, &value) == 0 ? value : fallback;
}

static int socket_option(int fd, int option)
{
    int value = -1;
    socklen_t len = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -errno : value;
}

int notify_get_socket(struct plenum_error *err)
{
    uint64_t pid = variable("LISTEN_PID", 0), count = variable("LISTEN_FDS", 0);

    (void)unsetenv("LISTEN_PID");
    (void)unsetenv("LISTEN_FDS");
    (void)unsetenv("LISTEN_FDNAMES");
    if (pid != (uint64_t)getpid() || count == 0)
        return -1;
    for (uint64_t i = 0; i < count && i < 64; i++)
        (void)io_set_cloexec(FIRST_FD + (int)i);
    if (count != 1)
        return error_set(err, -EINVAL,
                         "the service manager handed over %llu sockets, but plenumd serves only "
                         "one: keep only one ListenStream= in plenumd.socket",
                         (unsigned long long)count);
    if (socket_option(FIRST_FD, SO_DOMAIN) != AF_UNIX ||
        socket_option(FIRST_FD, SO_TYPE) != SOCK_STREAM ||
        socket_option(FIRST_FD, SO_ACCEPTCONN) != 1)
        return error_set(err, -EINVAL,
                         "the service manager handed over a socket that is not a listening unix "
                         "stream socket: plenumd.socket needs ListenStream= with a path and "
                         "Accept=no");
    return FIRST_FD;
}

void notify_init(void)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t len = path ? strlen(path) : 0;

    manager_len = 0;
    watchdog_ns = 0;
    if (len > 1 && len < sizeof(manager.sun_path) && (path[0] == '/' || path[0] == '@')) {
        manager = (struct sockaddr_un){.sun_family = AF_UNIX};
        memcpy(manager.sun_path, path, len);
        if (path[0] == '@')
            manager.sun_path[0] = '\0';
        manager_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
        if (variable("WATCHDOG_PID", (uint64_t)getpid()) == (uint64_t)getpid())
            watchdog_ns = min_u64(variable("WATCHDOG_USEC", 0), UINT64_MAX / 1000) * 1000;
    }
    (void)unsetenv("NOTIFY_SOCKET");
    (void)unsetenv("WATCHDOG_USEC");
    (void)unsetenv("WATCHDOG_PID");
}

uint64_t notify_watchdog_ns(void)
{
    return watchdog_ns;
}

void notify_send(const char *format, ...)
{
    char text[1024];
    va_list args;
    int fd, n;

    if (manager_len == 0)
        return;
    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof(text))
        return;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    (void)sendto(fd, text, (size_t)n, MSG_NOSIGNAL, (const struct sockaddr *)&manager, manager_len);
    (void)close(fd);
}
