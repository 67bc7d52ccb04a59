/* SPDX-License-Identifier: MIT */
/* broken_disk.c - a preloaded library that simulates a bad disk: pread() of files below
 * $BROKEN_DISK fails with EIO in the percentage of calls that the file $BROKEN_DISK_CONTROL
 * contains (no such file: never). It prints a line to standard error for each failure. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

typedef ssize_t read_call(int, void *, size_t, off_t);
read_call pread_of_all;

static unsigned percent(void)
{
    const char *control = getenv("BROKEN_DISK_CONTROL");
    int fd = control ? open(control, O_RDONLY | O_CLOEXEC) : -1;
    char text[16] = "";

    if (fd < 0)
        return 0;
    (void)!read(fd, text, sizeof(text) - 1);
    (void)close(fd);
    return (unsigned)strtoul(text, NULL, 10);
}

static bool is_below(int fd)
{
    const char *folder = getenv("BROKEN_DISK");
    char link[64], path[4096];
    ssize_t n;

    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, path, sizeof(path) - 1);
    if (!folder || n < 0)
        return false;
    path[n] = '\0';
    return strncmp(path, folder, strlen(folder)) == 0 && path[strlen(folder)] == '/';
}

ssize_t pread_of_all(int fd, void *bytes, size_t len, off_t at)
{
    static _Atomic uint32_t calls;
    static _Atomic(read_call *) next;
    static const char said[] = "broken_disk: a read fails\n";

    if (!next)
        next = (read_call *)(intptr_t)dlsym(RTLD_NEXT, "pread64");
    /* percent() of each hundred calls fail, spread evenly. */
    if (is_below(fd) && atomic_fetch_add(&calls, 1) * 37 % 100 < percent()) {
        (void)!write(STDERR_FILENO, said, sizeof(said) - 1);
        errno = EIO;
        return -1;
    }
    return next(fd, bytes, len, at);
}

/* Programs may be linked to either name; off_t has 64 bits in both. */
extern read_call pread_alias __asm__("pread")
    __attribute__((alias("pread_of_all"), visibility("default")));
extern read_call pread64_alias __asm__("pread64")
    __attribute__((alias("pread_of_all"), visibility("default")));
