#include "config.h"

#include "launcher/host.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"

void host_get_name(char *ret, size_t size)
{
    if (gethostname(ret, size) < 0 || !ret[0])
        (void)snprintf(ret, size, "localhost");
    ret[size - 1] = '\0';
}

bool host_is_this(const char *name)
{
    char own[HOST_NAME_MAX_BYTES];
    size_t label;

    if (strcasecmp(name, "localhost") == 0 || strncmp(name, "127.", 4) == 0)
        return true;
    host_get_name(own, sizeof(own));
    if (strcasecmp(name, own) == 0)
        return true;
    /* One of them may be without its domain; two different domains are two machines. */
    label = strcspn(own, ".");
    return strcspn(name, ".") == label && strncasecmp(name, own, label) == 0 &&
           (name[label] == '\0' || own[label] == '\0');
}

static int check_executable(const char *path)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return errno == EACCES ? -EACCES : -ENOENT;
    if (!S_ISREG(st.st_mode) || access(path, X_OK) < 0)
        return -EACCES;
    return 0;
}

int host_find_program(const char *name, char *ret, size_t size)
{
    const char *path = getenv("PATH");
    int r = -ENOENT;

    if (!*name)
        return -ENOENT;
    if (strchr(name, '/')) {
        if ((size_t)snprintf(ret, size, "%s", name) >= size)
            return -ENAMETOOLONG;
        return check_executable(name);
    }
    for (path = path ? path : "/usr/bin:/bin"; *path;) {
        size_t len = strcspn(path, ":");
        int n = len > 0 ? snprintf(ret, size, "%.*s/%s", (int)len, path, name)
                        : snprintf(ret, size, "./%s", name);

        if ((size_t)n < size) {
            int found = check_executable(ret);

            if (found == 0)
                return 0;
            if (found == -EACCES)
                r = found;
        }
        path += len;
        path += *path == ':';
    }
    return r;
}

int host_get_self(char *ret, size_t size, struct plenum_error *err)
{
    ssize_t n = readlink("/proc/self/exe", ret, size);

    if (n < 0 || (size_t)n >= size)
        return error_set(err, -ENOENT,
                         "cannot find plenumrun's own file (is /proc mounted?), which is needed to "
                         "start it beside each instance");
    ret[n] = '\0';
    return 0;
}

uint16_t host_find_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
    socklen_t len = sizeof(address);
    uint16_t port = 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return 0;
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &len) == 0)
        port = ntohs(address.sin_port);
    (void)close(fd);
    return port;
}

int host_get_directory(char *ret, size_t size, struct plenum_error *err)
{
    const char *named = getenv("PWD");
    struct stat here, there;
    int r;

    if (named && named[0] == '/' && strlen(named) < size && stat(".", &here) == 0 &&
        stat(named, &there) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino) {
        (void)snprintf(ret, size, "%s", named);
        return 0;
    }
    if (!getcwd(ret, size)) {
        r = -errno;
        return error_set(err, r, "cannot find the name of the working directory: %s", strerror(-r));
    }
    return 0;
}
