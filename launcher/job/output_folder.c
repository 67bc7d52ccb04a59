/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/output_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"

enum { EARLIER_MAX = 100000 };

/* Returns whether the name looks like "instance-7.out". */
static bool is_output(const char *name)
{
    static const char *const endings[] = {".out", ".err", ".loader"};
    const char *number = str_after(name, "instance-"), *rest;

    if (!number)
        return false;
    rest = number + strspn(number, "0123456789");
    for (size_t i = 0; rest > number && i < ARRAY_LEN(endings); i++)
        if (strcmp(rest, endings[i]) == 0)
            return true;
    return false;
}

/* Count the files of an earlier job. All must be regular. */
static int64_t count_files(DIR *dir, const char *path, struct plenum_error *err)
{
    struct dirent *entry;
    struct stat st;
    int64_t count = 0;

    rewinddir(dir);
    while ((entry = readdir(dir))) {
        if (!is_output(entry->d_name))
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && !S_ISREG(st.st_mode))
            return error_set(err, -EINVAL, "--output-dir: %s/%s is not a regular file: remove it",
                             path, entry->d_name);
        count++;
    }
    return count;
}

/* Create the first "earlier-N" that does not exist yet. */
static int make_earlier(DIR *dir, const char *path, char ret[32], struct plenum_error *err)
{
    int r = -EEXIST;

    for (int i = 1; i <= EARLIER_MAX && r == -EEXIST; i++) {
        (void)snprintf(ret, 32, "earlier-%d", i);
        r = mkdirat(dirfd(dir), ret, 0777) < 0 ? -errno : 0;
    }
    return r < 0 ? error_set(err, r, "--output-dir: cannot make the folder %s/%s: %s", path, ret,
                             strerror(-r))
                 : 0;
}

static int move_files(DIR *dir, const char *path, const char *to, struct plenum_error *err)
{
    struct dirent *entry;
    int r;

    rewinddir(dir);
    while ((entry = readdir(dir))) {
        char target[320];

        if (!is_output(entry->d_name))
            continue;
        (void)snprintf(target, sizeof(target), "%s/%s", to, entry->d_name);
        if (renameat(dirfd(dir), entry->d_name, dirfd(dir), target) < 0) {
            r = -errno;
            return error_set(err, r, "--output-dir: cannot move %s/%s to %s: %s", path,
                             entry->d_name, to, strerror(-r));
        }
    }
    return 0;
}

int output_folder_prepare(const char *path, struct plenum_error *err)
{
    char earlier[32];
    int64_t count;
    DIR *dir;
    int r;

    if (mkdir(path, 0777) < 0 && errno != EEXIST) {
        r = -errno;
        return error_set(err, r, "--output-dir: cannot make the folder %s: %s", path, strerror(-r));
    }
    dir = opendir(path);
    if (!dir) {
        r = -errno;
        return error_set(err, r, "--output-dir: cannot read the folder %s: %s", path, strerror(-r));
    }
    count = count_files(dir, path, err);
    r = count < 0 ? (int)count : 0;
    if (count > 0 && (r = make_earlier(dir, path, earlier, err)) == 0 &&
        (r = move_files(dir, path, earlier, err)) == 0)
        log_warn("--output-dir: %lld files of an earlier job are now in %s/%s", (long long)count,
                 path, earlier);
    (void)closedir(dir);
    return r;
}
