#include "config.h"

#include "common/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/util.h"

static void *open_in(const char *folder, size_t len, const char *below, const char *file)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%.*s%s/%s", (int)len, folder, below, file);

    return n < (int)sizeof(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Of the library or program that this is part of: the length of its path, 0 when it is not known. */
static size_t find_folder(char *ret, size_t size)
{
    static const char here[] = "";
    const char *slash;
    Dl_info self;
    ssize_t n;

    if (dladdr(here, &self) && self.dli_fname && strchr(self.dli_fname, '/')) {
        (void)snprintf(ret, size, "%s", self.dli_fname);
    } else { /* a program, by the name that it was given */
        n = readlink("/proc/self/exe", ret, size - 1);
        ret[n > 0 ? n : 0] = '\0';
    }
    slash = strrchr(ret, '/');
    return slash ? (size_t)(slash - ret) : 0;
}

const void *module_load(const char *file, const char *symbol, struct plenum_error *err)
{
    static const char *const below[] = {"", "/.libs", "/../.libs"}; /* the last two: not installed */
    char folder[4096];
    size_t len = find_folder(folder, sizeof(folder));
    void *handle = NULL;
    const void *found;

    for (size_t i = 0; len > 0 && !handle && i < ARRAY_LEN(below); i++)
        handle = open_in(folder, len, below[i], file);
    if (!handle)
        handle = open_in(PLENUM_LIBDIR, strlen(PLENUM_LIBDIR), "", file);
    if (!handle)
        handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        (void)error_set(err, -ENOENT, "%s", dlerror());
        return NULL;
    }
    found = dlsym(handle, symbol);
    if (!found)
        (void)error_set(err, -ENOENT, "%s belongs to another version of Plenum", file);
    return found;
}
