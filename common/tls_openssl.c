/* tls_openssl.c - TLS 1.3 by OpenSSL 3: libplenum-tls.so, the only file that knows it.
 *
 * There are no certificates. Both sides have a key, and a client that does not have the server's key,
 * or a server that does not have the client's, fails the handshake. OpenSSL alone would let a server
 * choose a certificate instead of the key: none is ever good, and greet() looks once more. TLS 1.3 derives all it sends from
 * the key and a fresh Diffie-Hellman exchange, so that a key that is stolen later reads nothing that
 * was sent before. Resumption, early data and everything older than 1.3 are off. */
#include "config.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>

#include <plenum/error.h>

#include "common/tls.h"

enum { KEY_BYTES = 32 };

static const unsigned char identity[] = "plenum";

struct context {
    SSL_CTX *ctx;
    BIO_METHOD *socket;
    unsigned char key[KEY_BYTES];
};

struct carrier {
    struct frame_carrier base;
    SSL *ssl;
    bool proven; /* the other side has the key */
};

/* OpenSSL's own socket writes in a way that ends a process whose peer has gone (SIGPIPE), and the
 * process is a training program. */
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

/* What the key is to TLS: a session that one could resume. */
static SSL_SESSION *make_session(SSL *ssl)
{
    /* TLS_AES_128_GCM_SHA256: every TLS 1.3 has it. */
    static const unsigned char cipher_id[] = {0x13, 0x01};
    const struct context *c = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, cipher_id);
    SSL_SESSION *session = SSL_SESSION_new();

    if (session && cipher && SSL_SESSION_set1_master_key(session, c->key, sizeof(c->key)) &&
        SSL_SESSION_set_cipher(session, cipher) &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION))
        return session;
    SSL_SESSION_free(session);
    return NULL;
}

static int on_client(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len,
                     SSL_SESSION **session)
{
    (void)md;
    *session = make_session(ssl);
    *id = identity;
    *len = sizeof(identity) - 1;
    return *session != NULL;
}

static int on_server(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **session)
{
    *session = NULL;
    if (len == sizeof(identity) - 1 && memcmp(id, identity, len) == 0)
        *session = make_session(ssl);
    return 1; /* without one the handshake fails for want of a certificate */
}

static void close_context(void *context)
{
    struct context *c = context;

    SSL_CTX_free(c->ctx);
    BIO_meth_free(c->socket);
    OPENSSL_cleanse(c->key, sizeof(c->key));
    free(c);
}

static int open_context(const void *key, size_t len, void **ret)
{
    struct context *c = calloc(1, sizeof(*c));

    if (!c)
        return -ENOMEM;
    c->ctx = SSL_CTX_new(TLS_method());
    c->socket = make_socket();
    if (!c->ctx || !c->socket || !SSL_CTX_set_min_proto_version(c->ctx, TLS1_3_VERSION) ||
        !SSL_CTX_set_ciphersuites(c->ctx, "TLS_AES_128_GCM_SHA256") ||
        EVP_Digest(key, len, c->key, NULL, EVP_sha256(), NULL) != 1) {
        close_context(c);
        ERR_clear_error();
        return -ENOTSUP;
    }
    SSL_CTX_set_app_data(c->ctx, c);
    SSL_CTX_set_psk_use_session_callback(c->ctx, on_client);
    SSL_CTX_set_psk_find_session_callback(c->ctx, on_server);
    (void)SSL_CTX_set_mode(c->ctx,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(c->ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(c->ctx, 0);
    *ret = c;
    return 0;
}

/* What the library says of a call that failed: it tells of one failure in several steps. */
static int64_t failure(bool greeted)
{
    int64_t r = greeted ? -EPROTO : -EACCES;
    unsigned long e;

    while ((e = ERR_get_error()) != 0) {
        int reason = ERR_GET_REASON(e);

        if (reason == ERR_R_MALLOC_FAILURE)
            r = -ENOMEM;
        else if (r != -ENOMEM && (reason == SSL_R_UNEXPECTED_EOF_WHILE_READING ||
                                  reason == ERR_R_INTERNAL_ERROR ||
                                  reason == SSL_R_TLSV1_ALERT_INTERNAL_ERROR))
            r = -ECONNRESET; /* the fault of a side that is in trouble, and nobody's key */
    }
    return r;
}

/* What a call that did not succeed means. Only the handshake is one thing for both directions: once
 * it is over, a reader that waits says nothing of what may be written. */
static int64_t outcome(struct carrier *c, int r)
{
    int error = errno, what = SSL_get_error(c->ssl, r);
    int64_t failed = failure(c->proven); /* which forgets it, too */

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
            return -error; /* it was never connected */
        return -ECONNRESET; /* it may have died in the midst of the handshake: nobody was refused */
    default:
        return failed;
    }
}

/* Before the first byte is said or believed: the handshake, by the key and by nothing else. A server
 * chooses between the key that it is offered and a certificate; with one it has proved nothing. */
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
    c->proven = true;
    c->base.wants_read = c->base.wants_write = false;
    return 0;
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
    r = SSL_write_ex(c->ssl, bytes, len, &n);
    c->base.wants_write = false;
    return r == 1 ? (int64_t)n : outcome(c, (int)r);
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

static int carry(void *context, int fd, bool server, struct frame_carrier **ret)
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
    if (server) {
        SSL_set_accept_state(c->ssl);
    } else {
        SSL_set_verify(c->ssl, SSL_VERIFY_PEER, NULL); /* and nobody vouches for a certificate */
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
                                                          .open = open_context,
                                                          .close = close_context,
                                                          .carry = carry};
