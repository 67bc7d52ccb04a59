/* SPDX-License-Identifier: MIT */
/* tls.h - connections whose two ends prove to each other that they have a key, and that nobody else
 * can read: TLS 1.3 with a key that both were given (PSK). What does the work is in a module,
 * libplenum-tls.so, which is loaded when the first key is.
 *
 * A loader has a secret. Each of its clients has a name, and a key that follows from the secret and
 * that name: the loader finds it by the name, but nobody finds the secret, or another client's key,
 * by it. So a client can be a loader to nobody but itself, and no other client. */
#ifndef COMMON_TLS_H
#define COMMON_TLS_H

#include <plenum/error.h>

#include "common/frame.h"

enum {
    TLS_KEY_BYTES = 32,
    TLS_NAME_MAX = 64,  /* of a client, with its NUL */
    TLS_TEXT_MAX = 160, /* a key as a text, likewise */
    TLS_PATH_MAX = 40,
};

struct tls_key {
    char name[TLS_NAME_MAX]; /* of the client; "": a loader's secret */
    unsigned char bytes[TLS_KEY_BYTES];
};

/**
 * Read a key from a file that nobody but its owner may read, and we are that owner or root is:
 * a loader's are 32 random bytes, or their 64 hexadecimal digits; a client's is what
 * tls_key_format() makes.
 *
 * Errors: -EINVAL, -EACCES or -errno with a sentence that names the file.
 */
int tls_key_read(const char *path, struct tls_key *ret, struct plenum_error *err);

/** The key of a loader's client: 0, -EINVAL (what `name` may be), -ENOTSUP (the module is not
 * there), with a sentence. */
int tls_key_of_client(const struct tls_key *loader, const char *name, struct tls_key *ret,
                      struct plenum_error *err);

/** As it stands in a file, without a newline. */
void tls_key_format(const struct tls_key *key, char ret[TLS_TEXT_MAX]);

/** Read what tls_key_format() wrote: 0, or -EINVAL. */
int tls_key_parse(const char *text, struct tls_key *ret);

/**
 * Keep a key for other processes of this user: a file that has a name only as long as this process
 * has its descriptor, which is returned (owned by the caller), or -errno. Nothing of it is in a
 * file system or an environment.
 *
 * A process in another PID name space finds it only where it has inherited the descriptor: the
 * caller lets programs that it starts do so.
 *
 * @param key   as a text
 * @param path  what tls_key_read() may be given meanwhile, "/proc/1234/fd/5"
 */
int tls_keep_key(const char *key, char path[TLS_PATH_MAX]);

/** Can keys be used here? 0, or -ENOTSUP with a sentence: the module is not there. */
int tls_is_installed(struct plenum_error *err);

/** A key, and what uses it. Opaque. Threads: any, once it is there. */
struct tls;

/** Be a loader, or one of its clients, as the key is one. Errors: -ENOTSUP the module is not there,
 * -ENOMEM, with a sentence. */
int tls_create(const struct tls_key *key, struct tls **ret, struct plenum_error *err);

/** Likewise with the key of a file: -EINVAL, too, when that is not of this kind. */
int tls_create_loader(const char *path, struct tls **ret, struct plenum_error *err);
int tls_create_client(const char *path, struct tls **ret, struct plenum_error *err);

/** All that it carried must have ended. NULL is nothing. */
void tls_destroy(struct tls *tls);

/** What carries the bytes of a connection whose descriptor is `fd` (borrowed): 0 or -ENOMEM.
 * Reading or writing -EACCES: the other side does not have the key, or speaks no TLS. */
int tls_carry(struct tls *tls, int fd, struct frame_carrier **ret);

/* Between tls.c and the module. */

enum { TLS_BACKEND_VERSION = 2 };

struct tls_backend {
    unsigned version;
    int (*derive)(const unsigned char secret[TLS_KEY_BYTES], const char *name,
                  unsigned char ret[TLS_KEY_BYTES]);
    int (*open)(const struct tls_key *key, void **ret);
    void (*close)(void *context);
    int (*carry)(void *context, int fd, struct frame_carrier **ret);
};

#define TLS_BACKEND_SYMBOL "plenum_tls_backend"

#endif
