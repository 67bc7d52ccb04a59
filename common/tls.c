#include "config.h"

#include "common/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/module.h"
#include "common/util.h"

enum { KEY_MIN = 16 };

struct tls {
    const struct tls_backend *backend;
    void *context;
};

int tls_keep_key(const char *key, char path[TLS_PATH_MAX])
{
    int fd = memfd_create("plenum-key", MFD_CLOEXEC), r;

    if (fd < 0)
        return -errno;
    r = fchmod(fd, 0600) < 0 ? -errno : io_write_all(fd, key, strlen(key));
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    (void)snprintf(path, TLS_PATH_MAX, "/proc/%d/fd/%d", (int)getpid(), fd);
    return fd;
}

/* A key that others can read is none. */
static int check_file(int fd, const char *path, struct plenum_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return error_set(err, -errno, "key file %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return error_set(err, -EINVAL, "key file %s is no ordinary file", path);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return error_set(err, -EACCES, "key file %s belongs to user %u: make it your own", path,
                         (unsigned)st.st_uid);
    if (st.st_mode & 077)
        return error_set(err, -EACCES, "key file %s can be read by others: chmod 600 %s", path,
                         path);
    return 0;
}

static int read_key(const char *path, char key[TLS_KEY_MAX + 1], size_t *len,
                    struct plenum_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), r;
    ssize_t n = 0;

    if (fd < 0)
        return error_set(err, -errno, "key file %s: %s", path, strerror(errno));
    r = check_file(fd, path, err);
    *len = 0;
    while (r == 0 && *len <= TLS_KEY_MAX &&
           (n = read(fd, key + *len, TLS_KEY_MAX + 1 - *len)) > 0)
        *len += (size_t)n;
    if (r == 0 && n < 0)
        r = error_set(err, -errno, "key file %s: %s", path, strerror(errno));
    (void)close(fd);
    if (r < 0)
        return r;
    if (*len > 0 && *len <= TLS_KEY_MAX && key[*len - 1] == '\n')
        --*len;
    if (*len < KEY_MIN || *len > TLS_KEY_MAX)
        return error_set(err, -EINVAL,
                         "key file %s does not hold %d to %d bytes; head -c 32 /dev/urandom makes "
                         "a good key",
                         path, KEY_MIN, TLS_KEY_MAX);
    return 0;
}

int tls_create(const char *path, struct tls **ret, struct plenum_error *err)
{
    char key[TLS_KEY_MAX + 1];
    struct plenum_error why;
    struct tls *tls;
    size_t len = 0;
    int r = read_key(path, key, &len, err);

    if (r < 0)
        return r;
    tls = calloc(1, sizeof(*tls));
    if (!tls)
        return error_set(err, -ENOMEM, "out of memory");
    tls->backend = module_load("libplenum-tls.so", TLS_BACKEND_SYMBOL, &why);
    if (!tls->backend)
        r = error_set(err, -ENOTSUP, "a key needs TLS, which is not installed: %s", why.text);
    else if (tls->backend->version != TLS_BACKEND_VERSION)
        r = error_set(err, -ENOTSUP, "libplenum-tls.so belongs to another version of Plenum");
    else if ((r = tls->backend->open(key, len, &tls->context)) < 0)
        (void)error_set(err, r, "TLS cannot be used: %s", strerror(-r));
    explicit_bzero(key, sizeof(key));
    if (r < 0) {
        free(tls);
        return r;
    }
    *ret = tls;
    return 0;
}

void tls_destroy(struct tls *tls)
{
    if (!tls)
        return;
    tls->backend->close(tls->context);
    free(tls);
}

int tls_carry(struct tls *tls, int fd, bool server, struct frame_carrier **ret)
{
    return tls->backend->carry(tls->context, fd, server, ret);
}
