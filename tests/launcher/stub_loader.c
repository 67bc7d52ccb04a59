/* SPDX-License-Identifier: MIT */
/* stub_loader - plays plenumd for the launcher's tests, and queries it.
 *
 *     stub_loader --job --listen-fd 3 --leash-fd 4 ...   sends its process id to every client
 *     stub_loader ask                                 prints what PLENUM_LOADER's loader answers
 */
#include "config.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/address.h"

static void tell(int fd)
{
    char text[40];
    int n = snprintf(text, sizeof(text), "loader %d\n", (int)getpid());

    if (fd >= 0 && write(fd, text, (size_t)n) == n)
        close(fd);
}

/* Returns the client whose connection was already accepted, or -1. */
static int find_client(char **argv)
{
    for (; *argv; argv++)
        if (strcmp(*argv, "--client-fd") == 0 && argv[1])
            return argv[1][0] - '0';
    return -1;
}

static int serve(char **argv)
{
    struct pollfd fds[] = {{.fd = 3, .events = POLLIN}, {.fd = 4, .events = POLLIN}};
    char c;

    fprintf(stderr, "stub_loader: started\n");
    (void)!write(4, "", 1); /* ready to serve */
    tell(find_client(argv));
    for (;;) {
        if (poll(fds, 2, -1) < 0)
            continue;
        if (fds[1].revents && read(4, &c, 1) <= 0)
            return 0;
        if (fds[0].revents)
            tell(accept(3, NULL, NULL));
    }
}

static int ask(void)
{
    const char *named = getenv("PLENUM_LOADER");
    struct address address;
    char text[40];
    ssize_t n;
    int fd;

    if (!named) {
        printf("no loader\n");
        return 0;
    }
    if (address_parse(named, &address, NULL) < 0)
        return 1;
    fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address.un, address.len) < 0)
        return 1;
    while ((n = read(fd, text, sizeof(text))) > 0)
        if (fwrite(text, 1, (size_t)n, stdout) != (size_t)n)
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    return argc > 1 && strcmp(argv[1], "ask") == 0 ? ask() : serve(argv);
}
