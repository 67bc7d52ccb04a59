#include "config.h"

#include "common/address.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/util.h"

int address_parse(const char *text, struct address *ret, struct plenum_error *err)
{
    struct address a = {.un.sun_family = AF_UNIX};
    const char *path = text;
    size_t len;

    if (strncmp(text, "unix:", 5) == 0)
        path = text + 5;
    else if (text[0] != '/')
        return error_set(err, -EINVAL, "loader address '%s' is not unix:PATH or unix:@NAME", text);
    len = strlen(path);
    if (len == 0 || (path[0] == '@' && len == 1))
        return error_set(err, -EINVAL, "loader address '%s' has no path", text);
    if (len >= sizeof(a.un.sun_path) || strlen(text) >= sizeof(a.text))
        return error_set(err, -EINVAL, "loader address '%s' is longer than %zu characters", text,
                         sizeof(a.un.sun_path) - 1);
    memcpy(a.text, text, strlen(text) + 1);
    memcpy(a.un.sun_path, path, len);
    a.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (path[0] == '@')
        a.un.sun_path[0] = '\0'; /* abstract: the length counts, no NUL behind */
    else
        a.len++;
    *ret = a;
    return 0;
}

int address_parse_list(const char *text, struct address ret[ADDRESS_LIST_MAX],
                       struct plenum_error *err)
{
    char one[sizeof(ret->text)];
    int count = 0;

    while (*text) {
        size_t len = strcspn(text, ",");

        if (len > 0) {
            if (len >= sizeof(one))
                return error_set(err, -EINVAL, "loader address '%.60s...' is too long", text);
            if (count == ADDRESS_LIST_MAX)
                return error_set(err, -EINVAL, "more than %d loader addresses are named",
                                 ADDRESS_LIST_MAX);
            memcpy(one, text, len);
            one[len] = '\0';
            int r = address_parse(one, &ret[count], err);

            if (r < 0)
                return r;
            count++;
        }
        text += len;
        text += *text == ',';
    }
    if (count == 0)
        return error_set(err, -EINVAL, "no loader address is named");
    return count;
}

static int open_socket(const struct address *address)
{
    int fd = socket(address->un.sun_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? -errno : fd;
}

int address_connect(const struct address *address)
{
    int fd = open_socket(address), r;

    if (fd < 0)
        return fd;
    do
        r = connect(fd, (const struct sockaddr *)&address->un, address->len) < 0 ? -errno : 0;
    while (r == -EINTR);
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    return fd;
}

int address_listen(const struct address *address, unsigned mode, struct plenum_error *err)
{
    int fd, r;

    if (!address_is_abstract(address)) {
        int probe = address_connect(address);

        if (probe >= 0 || probe == -EAGAIN) {
            io_close(&probe);
            return error_set(err, -EADDRINUSE, "another program listens on %s", address->text);
        }
        if (probe == -ECONNREFUSED) /* a socket nobody listens on: its process is gone */
            (void)unlink(address->un.sun_path);
    }
    fd = open_socket(address);
    if (fd < 0)
        return error_set(err, fd, "cannot make a socket: %s", strerror(-fd));
    if (bind(fd, (const struct sockaddr *)&address->un, address->len) < 0 ||
        (!address_is_abstract(address) && chmod(address->un.sun_path, mode) < 0) ||
        listen(fd, 256) < 0) {
        r = -errno;
        (void)close(fd);
        return error_set(err, r, "cannot listen on %s: %s", address->text, strerror(-r));
    }
    return fd;
}
