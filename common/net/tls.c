/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/net/tls.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/module.h"
#include "common/util/util.h"

enum {
    FILE_MAX = 256, /* longer than any key */
    KEPT_MAX = 40,  /* bytes of a kept key's name with its NUL */
};

static const char client_word[] = "plenum-client";

struct tls {
    const struct tls_backend *backend;
    void *context;
};

/* Format the name of a key that process `pid` keeps. The name distinguishes it from other keys: in
 * another PID namespace, /proc/1234/fd/5 does not exist, or belongs to another process. */
static void name_kept(uint64_t pid, char ret[KEPT_MAX])
{
    (void)snprintf(ret, KEPT_MAX, "plenum-key-%llu", (unsigned long long)pid);
}

int tls_keep_key(const char *key, char path[TLS_PATH_MAX])
{
    char name[KEPT_MAX];
    pid_t pid = proc_self();
    int fd, r;

    if (pid < 0)
        return pid;
    name_kept((uint64_t)pid, name);
    fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    r = fchmod(fd, 0600) < 0 ? -errno : io_write_all(fd, key, strlen(key));
    if (r < 0)
        goto fail;
    /* Programs and their children inherit the key, under any user id. None of them may change
     * it. */
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0) {
        r = -errno;
        goto fail;
    }
    (void)snprintf(path, TLS_PATH_MAX, "/proc/%d/fd/%d", (int)pid, fd);
    return fd;

fail:
    (void)close(fd);
    return r;
}

static bool is_in_group(gid_t group)
{
    gid_t groups[NGROUPS_MAX];
    int n = getgroups(NGROUPS_MAX, groups);

    for (int i = 0; i < n; i++)
        if (groups[i] == group)
            return true;
    return getegid() == group;
}

/* Reject a key that others can read, unless root lets one of our groups read it, as Kubernetes does
 * with secrets (fsGroup). This also applies if we are root. */
static int check_file(int fd, const char *path, struct plenum_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "key file %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(err, -EINVAL, "key file %s is not a regular file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return error_set(err, -EACCES,
                         "key file %s belongs to user %u: it must belong to you or to root", path,
                         (unsigned)st.st_uid);
    if (st.st_mode & 077 && (st.st_uid != 0 || st.st_mode & 037 || !is_in_group(st.st_gid)))
        return error_set(err, -EACCES, "key file %s can be read by others: chmod 600 %s", path,
                         path);
    return 0;
}

/* Is this entry of /proc/self/fd a memfd with that name? */
static bool is_kept(int folder, const char *entry, const char *name)
{
    char link[64 + KEPT_MAX], want[64 + KEPT_MAX];
    ssize_t n = readlinkat(folder, entry, link, sizeof(link) - 1);

    if (n < 0)
        return false;
    link[n] = '\0';
    (void)snprintf(want, sizeof(want), "/memfd:%s (deleted)", name);
    return strcmp(link, want) == 0;
}

/* Reopen a kept key that this process has inherited. Returns its descriptor, or -ENOENT. */
static int open_inherited(const char *name)
{
    DIR *dir = opendir("/proc/self/fd");
    const struct dirent *entry;
    int fd = -ENOENT;

    while (dir && fd < 0 && (entry = readdir(dir)))
        if (is_kept(dirfd(dir), entry->d_name, name))
            fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC);
    if (dir)
        (void)closedir(dir);
    return fd < 0 ? -ENOENT : fd;
}

/* Open the key that tls_keep_key() has named. Returns a descriptor, or -errno with a message.
 * Programs with their own PID namespace need the inherited descriptor. Their children may not have
 * it (Python closes unknown descriptors), but see the same /proc. */
static int open_kept(const char *path, uint64_t pid, struct plenum_error *err)
{
    char name[KEPT_MAX];
    int fd, r;

    name_kept(pid, name);
    fd = open_inherited(name);
    if (fd >= 0)
        return fd;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    r = -errno;
    if (fd >= 0)
        return fd;
    return error_set(err, r,
                     "key file %s: %s. It is a descriptor of process %llu, which this process "
                     "cannot see: is it in a container with its own PID namespace? Start the "
                     "container with the host's PID namespace (--pid=host), and as the same user",
                     path, strerror(-r), (unsigned long long)pid);
}

/* Does `path` have the form /proc/PID/fd/NUMBER? */
static bool names_kept(const char *path, uint64_t *ret)
{
    uint64_t number;

    path = str_after(path, "/proc/");
    if (!path || parse_next_u64(&path, UINT32_MAX, ret) < 0)
        return false;
    path = str_after(path, "/fd/");
    return path && parse_u64(path, UINT32_MAX, &number) == 0;
}

static int open_key(const char *path, struct plenum_error *err)
{
    uint64_t pid;
    int fd;

    if (names_kept(path, &pid))
        return open_kept(path, pid, err);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? error_set(err, -errno, "key file %s: %s", path, strerror(errno)) : fd;
}

/* Read a file, up to FILE_MAX bytes. Returns their number, or -errno. */
static int64_t read_bytes(const char *path, char ret[FILE_MAX], struct plenum_error *err)
{
    int fd = open_key(path, err);
    int64_t r;

    if (fd < 0)
        return fd;
    r = check_file(fd, path, err);
    if (r < 0)
        goto out;
    r = io_pread_some(fd, ret, FILE_MAX, 0);
    if (r < 0)
        (void)error_set(err, (int)r, "key file %s: %s", path, strerror((int)-r));
out:
    (void)close(fd);
    return r;
}

static bool is_name(const char *name, size_t len)
{
    static const char others[] = "._-@";

    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr(others, name[i]))
            return false;
    return len > 0 && len < TLS_NAME_MAX;
}

int tls_key_parse(const char *text, struct tls_key *ret)
{
    const char *name = text + sizeof(client_word);
    struct tls_key key = {0};
    size_t len;

    if (strncmp(text, client_word, sizeof(client_word) - 1) == 0 && name[-1] == ' ') {
        len = strcspn(name, " ");
        if (!is_name(name, len) || name[len] != ' ')
            return -EINVAL;
        memcpy(key.name, name, len);
        text = name + len + 1;
    }
    if (parse_hex(text, key.bytes, sizeof(key.bytes)) < 0)
        return -EINVAL;
    *ret = key;
    explicit_bzero(&key, sizeof(key));
    return 0;
}

void tls_key_format(const struct tls_key *key, char ret[TLS_TEXT_MAX])
{
    int at = 0;

    if (key->name[0])
        at = snprintf(ret, TLS_TEXT_MAX, "%s %s ", client_word, key->name);
    for (size_t i = 0; i < TLS_KEY_BYTES; i++)
        at += snprintf(ret + at, (size_t)(TLS_TEXT_MAX - at), "%02x", key->bytes[i]);
}

/* Are all bytes printable? For 32 random bytes, the odds are one in 10^13. */
static bool is_text(const char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isprint((unsigned char)bytes[i]))
            return false;
    return true;
}

static int understand(const char *path, char bytes[FILE_MAX], size_t len, struct tls_key *ret,
                      struct plenum_error *err)
{
    if (len == TLS_KEY_BYTES && !is_text(bytes, len - 1)) {
        *ret = (struct tls_key){0};
        memcpy(ret->bytes, bytes, TLS_KEY_BYTES);
        return 0;
    }
    if (len > 0 && bytes[len - 1] == '\n')
        len--;
    if (len < FILE_MAX) {
        bytes[len] = '\0';
        if (strlen(bytes) == len && tls_key_parse(bytes, ret) == 0)
            return 0;
    }
    return error_set(
        err, -EINVAL,
        "key file %s contains no key: a loader's key is 32 random bytes (head -c 32 /dev/urandom "
        ">FILE), not words that can be guessed; plenumctl key makes a client's key from it",
        path);
}

int tls_key_read(const char *path, struct tls_key *ret, struct plenum_error *err)
{
    char bytes[FILE_MAX] = {0};
    int64_t n = read_bytes(path, bytes, err);
    int r = n < 0 ? (int)n : understand(path, bytes, (size_t)n, ret, err);

    explicit_bzero(bytes, sizeof(bytes));
    return r;
}

static int find_backend(const struct tls_backend **ret, struct plenum_error *err)
{
    struct plenum_error why;

    *ret = module_load("libplenum-tls.so", TLS_BACKEND_SYMBOL, &why);
    if (!*ret)
        return error_set(err, -ENOTSUP, "a key needs TLS, which is not installed: %s", why.text);
    if ((*ret)->version != TLS_BACKEND_VERSION)
        return error_set(err, -ENOTSUP,
                         "libplenum-tls.so belongs to a different version of Plenum");
    return 0;
}

int tls_is_installed(struct plenum_error *err)
{
    const struct tls_backend *backend;

    return find_backend(&backend, err);
}

int tls_key_of_client(const struct tls_key *loader, const char *name, struct tls_key *ret,
                      struct plenum_error *err)
{
    const struct tls_backend *backend;
    int r;

    if (!is_name(name, strlen(name)))
        return error_set(
            err, -EINVAL,
            "'%s' is not a valid client name, which has up to %d letters, digits and . _ - @", name,
            TLS_NAME_MAX - 1);
    r = find_backend(&backend, err);
    if (r < 0)
        return r;
    *ret = (struct tls_key){0};
    memcpy(ret->name, name, strlen(name));
    r = backend->derive(loader->bytes, name, ret->bytes);
    return r < 0 ? error_set(err, r, "TLS cannot be used: %s", strerror(-r)) : 0;
}

int tls_create(const struct tls_key *key, struct tls **ret, struct plenum_error *err)
{
    const struct tls_backend *backend;
    int r = find_backend(&backend, err);
    struct tls *tls;

    if (r < 0)
        return r;
    tls = calloc(1, sizeof(*tls));
    if (!tls)
        return error_set(err, -ENOMEM, "out of memory");
    tls->backend = backend;
    r = backend->open(key, &tls->context);
    if (r < 0) {
        free(tls);
        return error_set(err, r, "TLS cannot be used: %s", strerror(-r));
    }
    *ret = tls;
    return 0;
}

static int create_from(const char *path, bool loader, struct tls **ret, struct plenum_error *err)
{
    struct tls_key key;
    int r = tls_key_read(path, &key, err);

    if (r < 0)
        return r;
    if (loader && key.name[0])
        r = error_set(
            err, -EINVAL,
            "key file %s is the key of client %s: a loader needs the key that it was made from",
            path, key.name);
    else if (!loader && !key.name[0])
        r = error_set(err, -EINVAL,
                      "key file %s is a loader's key, with which this program could act as a "
                      "loader for others. Make a client's key from it: plenumctl key %s NAME",
                      path, path);
    else
        r = tls_create(&key, ret, err);
    explicit_bzero(&key, sizeof(key));
    return r;
}

int tls_create_loader(const char *path, struct tls **ret, struct plenum_error *err)
{
    return create_from(path, true, ret, err);
}

int tls_create_client(const char *path, struct tls **ret, struct plenum_error *err)
{
    return create_from(path, false, ret, err);
}

void tls_destroy(struct tls *tls)
{
    if (!tls)
        return;
    tls->backend->close(tls->context);
    free(tls);
}

int tls_carry(struct tls *tls, int fd, struct frame_carrier **ret)
{
    return tls->backend->carry(tls->context, fd, ret);
}
