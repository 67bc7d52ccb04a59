/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/util/module.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

/* Load the module from one folder. If the file exists but cannot be loaded, a library that it needs
 * is missing. The message about the first such file goes to `why`, which must be empty. */
static void *open_in(const char *folder, size_t len, const char *below, const char *file,
                     struct plenum_error *why)
{
    char path[4096];
    int n = snprintf(path, sizeof(path), "%.*s%s/%s", (int)len, folder, below, file);
    void *handle;

    if (n >= (int)sizeof(path) || access(path, F_OK) < 0)
        return NULL;
    handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle && !*why->text)
        (void)error_set(why, -ENOENT, "%s", dlerror());
    return handle;
}

size_t module_own_folder(char *ret, size_t size, bool *library)
{
    static const char here[] = "";
    struct link_map *map = NULL;
    const char *slash;
    Dl_info self;
    ssize_t n;

    /* The program itself has no name in the list of loaded objects. */
    *library = dladdr1(here, &self, (void **)&map, RTLD_DL_LINKMAP) && map && *map->l_name;
    if (*library)
        n = snprintf(ret, size, "%s", map->l_name);
    else
        n = readlink("/proc/self/exe", ret, size);
    if (n <= 0 || (size_t)n >= size)
        n = 0;
    ret[n] = '\0';
    slash = strrchr(ret, '/');
    return slash ? (size_t)(slash - ret) : 0;
}

const void *module_load(const char *file, const char *symbol, struct plenum_error *err)
{
    /* the last two are in a build folder */
    static const char *const below[] = {"", "/.libs", "/../.libs"};
    struct plenum_error why = {""};
    char folder[4096];
    void *handle = NULL;
    const void *found;
    bool library;
    size_t len = module_own_folder(folder, sizeof(folder), &library);

    for (size_t i = 0; len > 0 && !handle && i < ARRAY_LEN(below); i++)
        handle = open_in(folder, len, below[i], file, &why);
    if (!handle)
        handle = open_in(PLENUM_LIBDIR, strlen(PLENUM_LIBDIR), "", file, &why);
    if (!handle)
        handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        (void)error_set(err, -ENOENT, "%s", *why.text ? why.text : dlerror());
        return NULL;
    }
    found = dlsym(handle, symbol);
    if (!found)
        (void)error_set(err, -ENOENT, "%s belongs to a different version of Plenum", file);
    return found;
}
