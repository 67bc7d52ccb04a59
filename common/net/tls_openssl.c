/* SPDX-License-Identifier: MIT */
/* tls_openssl.c - TLS 1.3 with OpenSSL 3: libplenum-tls.so, the only file that uses OpenSSL.
 *
 * There are no certificates. A client has a key and sends its name; the server derives the key from
 * the name (tls.h). A peer that does not have the key of that name fails the handshake. OpenSSL by
 * itself would let a server use a certificate instead of the key: no certificate is ever accepted,
 * and greet() checks again. TLS 1.3 derives its traffic keys from this key and a fresh
 * Diffie-Hellman exchange, so a key stolen later cannot decrypt earlier traffic. Resumption, early
 * data and older versions are disabled. */
#include "config.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/ssl.h>

#include <plenum/error.h>

#include "common/net/tls.h"

/* The number of records encrypted with one AES-GCM key. The limit is 2^24.5 full-size records (RFC
 * 8446, 5.5). */
#ifndef TLS_RECORDS_MAX
#define TLS_RECORDS_MAX (1U << 20)
#endif

/* Limit per write. After a full socket has blocked a record, OpenSSL would continue and report
 * nothing until everything is sent. */
enum { RECORD_BYTES = SSL3_RT_MAX_PLAIN_LENGTH };

/* Allocated in separate pages that are excluded from core dumps. */
struct context {
    SSL_CTX *ctx;
    BIO_METHOD *socket;
    struct tls_key key;
};

struct carrier {
    struct frame_carrier base;
    SSL *ssl;
    bool proven;      /* the other side has the key */
    unsigned written; /* records since our side's last key update */
};

/* Send bytes for OpenSSL. Its own socket BIO writes without MSG_NOSIGNAL, so a lost peer would
 * raise SIGPIPE and end the training program. */
static int socket_write(BIO *bio, const char *bytes, size_t len, size_t *done)
{
    ssize_t n = send((int)(intptr_t)BIO_get_data(bio), bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    *done = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static int socket_read(BIO *bio, char *bytes, size_t len, size_t *done)
{
    ssize_t n = recv((int)(intptr_t)BIO_get_data(bio), bytes, len, MSG_DONTWAIT);

    BIO_clear_retry_flags(bio);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    *done = n > 0 ? (size_t)n : 0;
    return n > 0;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_socket(void)
{
    BIO_METHOD *m = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "plenum socket");

    if (m && BIO_meth_set_write_ex(m, socket_write) && BIO_meth_set_read_ex(m, socket_read) &&
        BIO_meth_set_ctrl(m, socket_control))
        return m;
    BIO_meth_free(m);
    return NULL;
}

/* Derive a client's key with HKDF (RFC 5869) and SHA-256, so that it does not reveal the secret. */
static int derive(const unsigned char secret[TLS_KEY_BYTES], const char *name,
                  unsigned char ret[TLS_KEY_BYTES])
{
    char info[] = "plenum client", hash[] = "SHA256";
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, hash, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, (void *)(uintptr_t)secret,
                                          TLS_KEY_BYTES),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, info, sizeof(info)),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)name,
                                          strlen(name)),
        OSSL_PARAM_construct_end()};
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = EVP_KDF_CTX_new(kdf);
    int ok = ctx && EVP_KDF_derive(ctx, ret, TLS_KEY_BYTES, params) == 1;

    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    ERR_clear_error();
    return ok ? 0 : -ENOTSUP;
}

/* Represent a client's key as a resumable session, as OpenSSL expects. */
static SSL_SESSION *make_session(SSL *ssl, const unsigned char key[TLS_KEY_BYTES])
{
    /* TLS_AES_128_GCM_SHA256: every TLS 1.3 has it. */
    static const unsigned char cipher_id[] = {0x13, 0x01};
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session && cipher && SSL_SESSION_set1_master_key(session, key, TLS_KEY_BYTES) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int on_client(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len,
                     SSL_SESSION **session)
{
    const struct context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

    (void)md;
    *session = make_session(ssl, c->key.bytes);
    *id = (const unsigned char *)c->key.name;
    *len = strlen(c->key.name);
    return *session != NULL;
}

/* Find the key for the name that a client sends. It may send any name, but needs that name's
 * key. */
static int on_server(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **session)
{
    const struct context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    unsigned char key[TLS_KEY_BYTES];
    char name[TLS_NAME_MAX];

    *session = NULL;
    if (len == 0 || len >= sizeof(name) || memchr(id, 0, len))
        return 1; /* without a session the handshake fails for lack of a certificate */
    memcpy(name, id, len);
    name[len] = '\0';
    if (derive(c->key.bytes, name, key) == 0)
        *session = make_session(ssl, key);
    OPENSSL_cleanse(key, sizeof(key));
    return 1;
}

static void close_context(void *context)
{
    struct context *c = context;

    SSL_CTX_free(c->ctx);
    BIO_meth_free(c->socket);
    OPENSSL_cleanse(c, sizeof(*c));
    (void)munmap(c, sizeof(*c));
}

static int open_context(const struct tls_key *key, void **ret)
{
    struct context *c =
        mmap(NULL, sizeof(*c), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (c == MAP_FAILED)
        return -ENOMEM;
    (void)madvise(c, sizeof(*c), MADV_DONTDUMP);
    (void)mlock(c, sizeof(*c));
    c->key = *key;
    c->ctx = SSL_CTX_new(TLS_method());
    c->socket = make_socket();
    if (!c->ctx || !c->socket || !SSL_CTX_set_min_proto_version(c->ctx, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(c->ctx, "TLS_AES_128_GCM_SHA256")) {
        close_context(c);
        ERR_clear_error();
        return -ENOTSUP;
    }
    SSL_CTX_set_app_data(c->ctx, c);
    if (key->name[0])
        SSL_CTX_set_psk_use_session_callback(c->ctx, on_client);
    else
        SSL_CTX_set_psk_find_session_callback(c->ctx, on_server);
    (void)SSL_CTX_set_mode(c->ctx, SSL_MODE_ENABLE_PARTIAL_WRITE |
                                       SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                       SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(c->ctx, 0);
    *ret = c;
    return 0;
}

/* Translate the error queue after a failed call. One failure can leave several entries in it. */
static int64_t failure(bool greeted)
{
    int64_t r = greeted ? -EPROTO : -EACCES;
    unsigned long e;

    while ((e = ERR_get_error()) != 0) {
        int reason = ERR_GET_REASON(e);

        if (reason == ERR_R_MALLOC_FAILURE)
            r = -ENOMEM;
        else if (r != -ENOMEM &&
                 (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING || reason == ERR_R_INTERNAL_ERROR ||
                  reason == SSL_R_TLSV1_ALERT_INTERNAL_ERROR))
            r = -ECONNRESET; /* the other side failed for a reason other than the key */
    }
    return r;
}

/* Translate a failed call. Only the handshake affects both directions: after it, a read that must
 * wait says nothing about writing. */
static int64_t outcome(struct carrier *c, int r)
{
    int error = errno, what = SSL_get_error(c->ssl, r);
    int64_t failed = failure(c->proven); /* also clears the queue */

    c->base.wants_read = what == SSL_ERROR_WANT_READ && !c->proven;
    c->base.wants_write = what == SSL_ERROR_WANT_WRITE;
    switch (what) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return -EAGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return -ECONNRESET;
    case SSL_ERROR_SYSCALL:
        if (error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH ||
            error == ENETUNREACH)
            return -error;  /* it was never connected */
        return -ECONNRESET; /* the peer may have died during the handshake: nothing was rejected */
    default:
        return failed;
    }
}

/* Wipe the key: OpenSSL keeps the session with the connection, although it is never resumed. */
static void forget_key(SSL *ssl)
{
    static const unsigned char none[TLS_KEY_BYTES];

    (void)SSL_SESSION_set1_master_key(SSL_get_session(ssl), none, sizeof(none));
}

/* Complete the handshake before any other byte is sent or used. The handshake must have used the
 * key: with a certificate, a server would prove nothing. */
static int64_t greet(struct carrier *c)
{
    int r;

    if (c->proven)
        return 0;
    r = SSL_do_handshake(c->ssl);
    if (r != 1)
        return outcome(c, r);
    if (!SSL_session_reused(c->ssl))
        return -EACCES;
    forget_key(c->ssl);
    c->proven = true;
    c->base.wants_read = c->base.wants_write = false;
    return 0;
}

/* Count a written record. Each side updates its sending key long before the limit, together with
 * its next write, because OpenSSL cannot update it while part of a record is pending. */
static void count_record(struct carrier *c)
{
    if (++c->written >= TLS_RECORDS_MAX &&
        SSL_key_update(c->ssl, SSL_KEY_UPDATE_NOT_REQUESTED) == 1)
        c->written = 0;
}

static int64_t carrier_read(struct frame_carrier *base, void *bytes, size_t len)
{
    struct carrier *c = (struct carrier *)base;
    size_t n = 0;
    int64_t r;

    ERR_clear_error();
    errno = 0;
    r = greet(c);
    if (r < 0)
        return r;
    r = SSL_read_ex(c->ssl, bytes, len, &n);
    c->base.wants_write = false;
    return r == 1 ? (int64_t)n : outcome(c, (int)r);
}

static int64_t carrier_write(struct frame_carrier *base, const void *bytes, size_t len)
{
    struct carrier *c = (struct carrier *)base;
    size_t n = 0;
    int64_t r;

    ERR_clear_error();
    errno = 0;
    r = greet(c);
    if (r < 0)
        return r;
    r = SSL_write_ex(c->ssl, bytes, len < RECORD_BYTES ? len : RECORD_BYTES, &n);
    c->base.wants_write = false;
    if (r != 1)
        return outcome(c, (int)r);
    count_record(c);
    return (int64_t)n;
}

static bool carrier_has_read(const struct frame_carrier *base)
{
    return SSL_pending(((const struct carrier *)base)->ssl) > 0;
}

static void carrier_destroy(struct frame_carrier *base)
{
    struct carrier *c = (struct carrier *)base;

    SSL_set_quiet_shutdown(c->ssl, 1);
    SSL_free(c->ssl);
    ERR_clear_error();
    free(c);
}

static int carry(void *context, int fd, struct frame_carrier **ret)
{
    struct context *context_ = context;
    struct carrier *c = calloc(1, sizeof(*c));
    BIO *bio;

    if (!c)
        return -ENOMEM;
    c->ssl = SSL_new(context_->ctx);
    bio = BIO_new(context_->socket);
    if (!c->ssl || !bio) {
        SSL_free(c->ssl);
        BIO_free(bio);
        free(c);
        ERR_clear_error();
        return -ENOMEM;
    }
    BIO_set_data(bio, (void *)(intptr_t)fd);
    BIO_set_init(bio, 1);
    SSL_set_bio(c->ssl, bio, bio);
    if (!context_->key.name[0]) {
        SSL_set_accept_state(c->ssl);
    } else {
        SSL_set_verify(c->ssl, SSL_VERIFY_PEER, NULL); /* no certificate is ever valid */
        SSL_set_connect_state(c->ssl);
    }
    c->base = (struct frame_carrier){.read = carrier_read,
                                     .write = carrier_write,
                                     .has_read = carrier_has_read,
                                     .destroy = carrier_destroy};
    *ret = &c->base;
    return 0;
}

PLENUM_API const struct tls_backend plenum_tls_backend = {.version = TLS_BACKEND_VERSION,
                                                          .derive = derive,
                                                          .open = open_context,
                                                          .close = close_context,
                                                          .carry = carry};
