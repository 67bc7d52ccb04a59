/* SPDX-License-Identifier: MIT */
/* backend.h - between loader/store/ and its module, libplenum-store.so, which is loaded with the
 * first remote name: only the module links libcurl and OpenSSL, so loaders of local files start
 * without them. */
#ifndef LOADER_STORE_BACKEND_H
#define LOADER_STORE_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum { STORE_HASH_BYTES = 32, STORE_BACKEND_VERSION = 2 };

/**
 * One HTTP request. The caller owns it and everything it points to, until done() is called.
 * header(), body(), late() and done() run in the module's thread and must not block.
 */
struct transfer {
    const char *method;    /* "GET" or "PUT" */
    const uint8_t *upload; /* [upload_len]: the body of PUT */
    size_t upload_len;
    const char *url;
    const char *const *headers; /* "Name: value", ends with NULL */
    uint64_t connect_ns;        /* longest time until it is connected */
    uint64_t stall_ns;          /* longest time without a byte */
    bool any_address;           /* may connect to loopback and link-local addresses */
    bool no_proxy;
    uint64_t late_ns; /* call late() after this time; 0: never */

    /** One line of the answer's header, without its end; the status line comes first. */
    void (*header)(struct transfer *t, const char *line, size_t len);
    /** Bytes of the body. False: stop; done() gets -ECANCELED. */
    bool (*body)(struct transfer *t, const uint8_t *bytes, size_t len);
    /**
     * The end: 0 once the whole answer has arrived, whatever its status; -ECANCELED body() or
     * `cancel` stopped it; -EPERM its address is not allowed; -EKEYREJECTED the server's
     * certificate is not valid; or another -errno (-ETIMEDOUT, -ECONNRESET, -EHOSTUNREACH ...).
     * `why` is a clause about the error.
     */
    void (*done)(struct transfer *t, int code, const char *why);
    /** It has not ended after `late_ns`. Called at most once, before done(); or NULL. */
    void (*late)(struct transfer *t);

    atomic_bool cancel; /* set it, then call wake() */

    uint64_t begun_ns; /* when it was given to the network; set by the module */

    /* The module's own. */
    struct transfer *next;
};

struct store_backend {
    unsigned version;
    void (*sha256)(const void *bytes, size_t len, uint8_t ret[STORE_HASH_BYTES]);
    void (*hmac)(const void *key, size_t key_len, const void *bytes, size_t len,
                 uint8_t ret[STORE_HASH_BYTES]);
    /** Start a request: 0; or -errno, and then done() is not called. Threads: any. */
    int (*start)(struct transfer *t);
    /** Look at `cancel` of all requests. Threads: any. */
    void (*wake)(void);
};

#define STORE_BACKEND_SYMBOL "plenum_store_backend"

/** The module, which is loaded by the first call: NULL with `err` set if it is not installed. */
const struct store_backend *store_backend_get(struct plenum_error *err);

#endif
