#include "config.h"

#include "common/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/error.h"

static void *open_in(const char *folder, size_t len, const char *below, const char *file)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%.*s%s/%s", (int)len, folder, below, file);

    return n < (int)sizeof(path) ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

const void *module_load(const char *file, const char *symbol, struct plenum_error *err)
{
    static const char here[] = "";
    const char *slash;
    void *handle = NULL;
    const void *found;
    Dl_info self;

    if (dladdr(here, &self) && self.dli_fname && (slash = strrchr(self.dli_fname, '/'))) {
        size_t len = (size_t)(slash - self.dli_fname);

        handle = open_in(self.dli_fname, len, "", file);
        if (!handle) /* of a program that is not installed */
            handle = open_in(self.dli_fname, len, "/.libs", file);
    }
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
