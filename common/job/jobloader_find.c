/* SPDX-License-Identifier: MIT */
/* jobloader_find.c - finds the program plenumd. */
#include "config.h"

#include "common/job/jobloader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/module.h"
#include "common/util/util.h"

/* Find the program in this folder, whose name has `len` characters. */
static bool find_in(const char *folder, size_t len, char *ret, size_t size)
{
    int n = snprintf(ret, size, "%.*s/plenumd", (int)len, folder);

    return len > 0 && n > 0 && n < (int)size && access(ret, X_OK) == 0;
}

/* Returns whether the first line of a file ends with a carriage return. In a script, that would
 * become part of the name of its interpreter. */
static bool has_return(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char line[256];
    ssize_t n = fd < 0 ? -1 : read(fd, line, sizeof(line));
    const char *end = n > 2 ? memchr(line, '\n', (size_t)n) : NULL;

    io_close(&fd);
    return end && line[0] == '#' && line[1] == '!' && end[-1] == '\r';
}

int jobloader_find_program(char *ret, size_t size, struct plenum_error *err)
{
    const char *named = getenv("PLENUM_PLENUMD"), *path = getenv("PATH"), *slash;
    char self[4096];
    bool library;
    size_t len;
    ssize_t n;

    if (named && *named) {
        if (access(named, X_OK) < 0)
            return error_set(err, -ENOENT, "PLENUM_PLENUMD names '%s': %s", named, strerror(errno));
        if (has_return(named))
            return error_set(
                err, -ENOEXEC,
                "PLENUM_PLENUMD names '%s', a script whose first line ends with CR LF, "
                "as on Windows: save it with LF",
                named);
        return snprintf(ret, size, "%s", named) < (int)size ? 0 : -ENAMETOOLONG;
    }
    /* Look beside the library first, and only then beside the program: if that is a system Python,
     * Plenum is in a virtual environment, and a different Plenum may be beside the Python. */
    len = module_own_folder(self, sizeof(self), &library);
    if (library && find_in(self, len, ret, size))
        return 0;
    n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    slash = strrchr(self, '/');
    if (slash && find_in(self, (size_t)(slash - self), ret, size))
        return 0;
    if (find_in(PLENUM_BINDIR, strlen(PLENUM_BINDIR), ret, size))
        return 0;
    while (path && *path) {
        len = strcspn(path, ":");
        if (find_in(path, len, ret, size))
            return 0;
        path += len;
        path += *path == ':';
    }
    return error_set(err, -ENOENT,
                     "the loader program plenumd was not found beside libplenum, beside this "
                     "program, in %s or in PATH; install it or set PLENUM_PLENUMD",
                     PLENUM_BINDIR);
}
