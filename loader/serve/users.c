/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/users.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static bool is_number(const char *text)
{
    return *text && text[strspn(text, "0123456789")] == '\0';
}

int users_find_id(const char *name, bool group, uint32_t *ret, struct plenum_error *err)
{
    const struct passwd *user = NULL;
    const struct group *g = NULL;
    uint64_t number = 0;

    if (is_number(name)) {
        if (parse_u64(name, UINT32_MAX - 1, &number) < 0)
            return error_set(err, -EINVAL, "%s is not the number of a user or group", name);
        *ret = (uint32_t)number;
    } else if (group && (g = getgrnam(name))) {
        *ret = g->gr_gid;
    } else if (!group && (user = getpwnam(name))) {
        *ret = user->pw_uid;
    } else {
        return error_set(err, -ENOENT, "there is no %s '%s' on this host", group ? "group" : "user",
                         name);
    }
    return 0;
}

int users_find(const char *name, struct user *ret, struct plenum_error *err)
{
    const struct passwd *user;
    uint32_t uid = 0;
    int r = users_find_id(name, false, &uid, err);

    if (r < 0)
        return r;
    user = getpwuid(uid);
    *ret = (struct user){.uid = uid, .gid = user ? user->pw_gid : uid, .unknown = !user};
    (void)snprintf(ret->name, sizeof(ret->name), "%s", user ? user->pw_name : name);
    (void)snprintf(ret->home, sizeof(ret->home), "%s", user ? user->pw_dir : "");
    return 0;
}

int users_become(const struct user *user, struct plenum_error *err)
{
    uid_t real, effective, saved;

    if (geteuid() != 0)
        return geteuid() == user->uid
                   ? 0
                   : error_set(err, -EPERM,
                               "only root can become user %s: start it as root, or as that user "
                               "without --user",
                               user->name);
    if (initgroups(user->name, user->gid) < 0 || setresgid(user->gid, user->gid, user->gid) < 0 ||
        setresuid(user->uid, user->uid, user->uid) < 0)
        return error_set(err, -errno, "cannot become user %s: %s", user->name, strerror(errno));
    if (user->uid == 0)
        return 0;
    if (getresuid(&real, &effective, &saved) < 0 || real != user->uid || effective != user->uid ||
        saved != user->uid || setuid(0) == 0 || setgid(0) == 0)
        return error_set(err, -EPERM, "cannot become user %s: it could regain root's rights",
                         user->name);
    /* Restore the flag that the switch cleared: the process must be able to read its own /proc. */
    (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    return 0;
}
