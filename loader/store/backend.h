/* SPDX-License-Identifier: MIT */
/* backend.h - the interface between loader/store/ and its module, libplenum-store.so, which is
 * loaded with the first remote name. Only the module links libcurl and OpenSSL, so a loader that
 * serves local files never loads them. */
#ifndef LOADER_STORE_BACKEND_H
#define LOADER_STORE_BACKEND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum { STORE_HASH_BYTES = 32, STORE_BACKEND_VERSION = 2 };

/**
 * One HTTP request. The caller owns it, and keeps everything that it points to valid until done()
 * is called. header(), body(), late() and done() run in the module's thread and must not block.
 */
struct transfer {
    const char *method;    /* "GET" or "PUT" */
    const uint8_t *upload; /* [upload_len]: the body of PUT */
    size_t upload_len;
    const char *url;
    const char *const *headers; /* "Name: value", ends with NULL */
    uint64_t connect_ns;        /* time limit for connecting */
    uint64_t stall_ns;          /* time limit without a byte received or sent */
    bool any_address;           /* may connect to loopback and link-local addresses */
    bool no_proxy;
    uint64_t late_ns; /* call late() after this time; 0: never */

    /** Called for each line of the answer's header, without its line end; the status line comes
     * first. */
    void (*header)(struct transfer *t, const char *line, size_t len);
    /** Called for bytes of the body. If it returns false, the transfer stops, and done() gets
     * -ECANCELED. */
    bool (*body)(struct transfer *t, const uint8_t *bytes, size_t len);
    /**
     * Called once, at the end. `code`: 0 once the whole answer has arrived, whatever its status;
     * -ECANCELED body() or `cancel` stopped it; -EPERM its address is not allowed; -EKEYREJECTED
     * the server's certificate is not valid; or another -errno (-ETIMEDOUT, -ECONNRESET,
     * -EHOSTUNREACH ...). `why` is a clause about the error.
     */
    void (*done)(struct transfer *t, int code, const char *why);
    /** Called if the transfer has not ended after `late_ns`: at most once, and before done(). May
     * be NULL. */
    void (*late)(struct transfer *t);

    atomic_bool cancel; /* set it, then call wake() */

    uint64_t begun_ns; /* when it was given to the network; set by the module */

    /* Private to the module. */
    struct transfer *next;
};

struct store_backend {
    unsigned version;
    void (*sha256)(const void *bytes, size_t len, uint8_t ret[STORE_HASH_BYTES]);
    void (*hmac)(const void *key, size_t key_len, const void *bytes, size_t len,
                 uint8_t ret[STORE_HASH_BYTES]);
    /** Start a request. Returns 0; or -errno, and done() is not called. Threads: any. */
    int (*start)(struct transfer *t);
    /** Make the module check `cancel` of all requests. Threads: any. */
    void (*wake)(void);
};

#define STORE_BACKEND_SYMBOL "plenum_store_backend"

/** Returns the module, which the first call loads, or NULL with `err` set if it is not installed or
 * has a different version. */
const struct store_backend *store_backend_get(struct plenum_error *err);

#endif
