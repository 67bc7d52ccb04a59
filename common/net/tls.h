/* SPDX-License-Identifier: MIT */
/* tls.h - mutually authenticated, encrypted connections: TLS 1.3 with a pre-shared key (PSK). The
 * implementation is a module, libplenum-tls.so, which is loaded together with the first key.
 *
 * A loader has a secret. Each of its clients has a name, and a key derived from the secret and that
 * name. The loader derives a client's key from its name, but a key reveals neither the secret nor
 * another client's key. A client can therefore impersonate neither the loader, except to itself,
 * nor any other client. */
#ifndef COMMON_TLS_H
#define COMMON_TLS_H

#include <plenum/error.h>

#include "common/net/frame.h"

enum {
    TLS_KEY_BYTES = 32,
    TLS_NAME_MAX = 64,  /* bytes of a client's name with its NUL */
    TLS_TEXT_MAX = 160, /* bytes of a key as text with its NUL */
    TLS_PATH_MAX = 40,
};

struct tls_key {
    char name[TLS_NAME_MAX]; /* the client's name; "": a loader's secret */
    unsigned char bytes[TLS_KEY_BYTES];
};

/**
 * Read a key from a file that belongs to this user or root and that no other user can read. Root
 * may let one of our groups read it. A loader's key is 32 random bytes, or their 64 hexadecimal
 * digits; a client's has the format of tls_key_format().
 *
 * Errors: -EINVAL, -EACCES or -errno with a message that names the file.
 */
int tls_key_read(const char *path, struct tls_key *ret, struct plenum_error *err);

/** Derive the key of a loader's client. Returns 0, or, with a message, -EINVAL (invalid `name`) or
 * -ENOTSUP (the module is not installed). */
int tls_key_of_client(const struct tls_key *loader, const char *name, struct tls_key *ret,
                      struct plenum_error *err);

/** Write the key as it is stored in a file, without a newline. */
void tls_key_format(const struct tls_key *key, char ret[TLS_TEXT_MAX]);

/** Parse the output of tls_key_format(). Returns 0, or -EINVAL. */
int tls_key_parse(const char *text, struct tls_key *ret);

/**
 * Keep a key for this user's other processes, in a memory file that exists only while the returned
 * descriptor (owned by the caller) is open. Returns the descriptor or -errno. The key appears in no
 * file system or environment.
 *
 * A process in another PID namespace can open it only through an inherited descriptor, which the
 * caller must pass to the programs that it starts.
 *
 * @param key   the key as text
 * @param path  receives the name by which tls_key_read() finds the key, "/proc/1234/fd/5"
 */
int tls_keep_key(const char *key, char path[TLS_PATH_MAX]);

/** Check that the module for TLS is installed. Returns 0, or -ENOTSUP with a message. */
int tls_is_installed(struct plenum_error *err);

/** A key in use. Opaque. Threads: any, once it has been created. */
struct tls;

/** Act as a loader or as one of its clients, depending on the key. Errors, with a message: -ENOTSUP
 * if the module is not installed; -ENOMEM. */
int tls_create(const struct tls_key *key, struct tls **ret, struct plenum_error *err);

/** Like tls_create(), with a key from a file, which must be a loader's or a client's, respectively.
 * Further errors: those of tls_key_read(); -EINVAL if it is a key of the wrong kind. */
int tls_create_loader(const char *path, struct tls **ret, struct plenum_error *err);
int tls_create_client(const char *path, struct tls **ret, struct plenum_error *err);

/** Free a key. All its connections must have ended. NULL is ignored. */
void tls_destroy(struct tls *tls);

/** Create the carrier of a connection whose descriptor is `fd` (borrowed). Returns 0 or -ENOMEM. If
 *  reading or writing returns -EACCES, the other side does not have the key, or does not use
 *  TLS. */
int tls_carry(struct tls *tls, int fd, struct frame_carrier **ret);

/* The interface between tls.c and the module. */

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
