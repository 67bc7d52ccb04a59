/* tls.h - connections whose two ends prove to each other that they have the same key, and that nobody
 * else can read: TLS 1.3 with a key that both were given (PSK). What does the work is in a module,
 * libplenum-tls.so, which is loaded when the first key is. */
#ifndef COMMON_TLS_H
#define COMMON_TLS_H

#include <stddef.h>

#include <plenum/error.h>

#include "common/frame.h"

/** A key, and what uses it. Opaque. Threads: any, once it is there. */
struct tls;

/**
 * Read a key from a file: anything of 16 to 4096 bytes (a newline at its end does not count) that
 * nobody but its owner may read, and we are that owner or root is.
 *
 * Errors: -EINVAL, -EACCES or -errno with a sentence that names the file; -ENOTSUP the module is not
 * there.
 */
int tls_create(const char *path, struct tls **ret, struct plenum_error *err);

enum { TLS_PATH_MAX = 40 };

/**
 * Keep a key for other processes of this user: a file that has a name only as long as this process
 * has its descriptor, which is returned (owned by the caller), or -errno. Nothing of it is in a file
 * system or an environment.
 *
 * @param path  what tls_create() may be given meanwhile, "/proc/1234/fd/5"
 */
int tls_keep_key(const char *key, char path[TLS_PATH_MAX]);

/** All that it carried must have ended. NULL is nothing. */
void tls_destroy(struct tls *tls);

/** What carries the bytes of a connection whose descriptor is `fd` (borrowed): 0 or -ENOMEM. Reading
 * or writing -EACCES: the other side does not have the key, or speaks no TLS. */
int tls_carry(struct tls *tls, int fd, bool server, struct frame_carrier **ret);

/* Between tls.c and the module. */

enum { TLS_BACKEND_VERSION = 1, TLS_KEY_MAX = 4096 };

struct tls_backend {
    unsigned version;
    /** `key` becomes the 32 bytes of the key itself by SHA-256. */
    int (*open)(const void *key, size_t len, void **ret);
    void (*close)(void *context);
    int (*carry)(void *context, int fd, bool server, struct frame_carrier **ret);
};

#define TLS_BACKEND_SYMBOL "plenum_tls_backend"

#endif
