/* test_tls.c - the module itself, which is linked into this program, between two ends of a socket that
 * are both ours. */
#include "config.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/tls.h"
#include "common/util.h"

extern const struct tls_backend plenum_tls_backend;

/* Wrapped: with it, certificates are looked at by nobody, and only what we look at ourselves is left. */
static bool believe_certificates;
void __real_SSL_set_verify(SSL *ssl, int mode, SSL_verify_cb callback);
void __wrap_SSL_set_verify(SSL *ssl, int mode, SSL_verify_cb callback);
void __wrap_SSL_set_verify(SSL *ssl, int mode, SSL_verify_cb callback)
{
    __real_SSL_set_verify(ssl, believe_certificates ? SSL_VERIFY_NONE : mode, callback);
}

static const char secret[] = "0123456789abcdef0123456789abcdef";

/* One side of a connection. */
struct side {
    void *context;
    struct frame_conn conn;
};

static struct side side_of(const char *key, int fd, bool server)
{
    struct side s = {0};

    cr_assert(eq(int, plenum_tls_backend.open(key, strlen(key), &s.context), 0));
    cr_assert(eq(int, frame_conn_init(&s.conn, fd, 1 << 20), 0));
    cr_assert(eq(int, plenum_tls_backend.carry(s.context, fd, server, &s.conn.carrier), 0));
    return s;
}

static void end(struct side *s)
{
    frame_conn_fini(&s->conn);
    plenum_tls_backend.close(s->context);
}

static void put(struct side *s, const char *text)
{
    size_t begin = frame_begin(&s->conn.tx, 7, 0);

    frame_put_text(&s->conn.tx, text);
    cr_assert(eq(int, frame_end(&s->conn.tx, begin), 0));
}

static void expect_text(struct side *s, const char *text)
{
    struct frame_header header;
    struct frame_reader payload;
    char got[64];

    cr_assert(eq(int, frame_conn_next(&s->conn, &header, &payload), 1));
    frame_get_text(&payload, got, sizeof(got));
    cr_expect(eq(str, got, (char *)(uintptr_t)text));
}

static void connect_two(int fds[2])
{
    cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0));
}

Test(tls, who_has_the_key_understands)
{
    struct side a, b;
    int fds[2];

    connect_two(fds);
    a = side_of(secret, fds[0], false);
    b = side_of(secret, fds[1], true);
    put(&a, "hello");
    for (int i = 0; i < 4; i++) {
        (void)frame_conn_flush(&a.conn);
        (void)frame_conn_fill(&b.conn);
    }
    expect_text(&b, "hello");
    put(&b, "and hello");
    cr_expect(eq(int, frame_conn_flush(&b.conn), 0));
    cr_expect(gt(i64, frame_conn_fill(&a.conn), 0));
    expect_text(&a, "and hello");
    end(&a);
    end(&b);
}

/* What is said before the other side's answer is there waits for it, and no longer: whoever reads the
 * last of it. */
Test(tls, a_handshake_that_ends_while_reading_lets_writers_go)
{
    struct side a, b;
    int client[2], server[2];
    char flight[65536];
    ssize_t len;

    connect_two(client);
    connect_two(server);
    a = side_of(secret, client[0], false);
    b = side_of(secret, server[0], true);
    put(&a, "hello");
    cr_assert(eq(int, frame_conn_flush(&a.conn), -EAGAIN));
    cr_expect(not(frame_conn_wants_write(&a.conn)), "it waits for an answer");
    len = recv(client[1], flight, sizeof(flight), 0);
    cr_assert(eq(i64, send(server[1], flight, (size_t)len, 0), len));
    cr_assert(eq(i64, frame_conn_fill(&b.conn), -EAGAIN));
    len = recv(server[1], flight, sizeof(flight), 0);

    cr_assert(eq(i64, send(client[1], flight, 100, 0), 100));
    cr_assert(eq(int, frame_conn_flush(&a.conn), -EAGAIN), "half of an answer is none");
    cr_expect(not(frame_conn_wants_write(&a.conn)));
    cr_assert(eq(i64, send(client[1], flight + 100, (size_t)len - 100, 0), len - 100));
    cr_assert(eq(i64, frame_conn_fill(&a.conn), -EAGAIN));
    cr_expect(frame_conn_wants_write(&a.conn), "now it can be sent");
    cr_expect(eq(int, frame_conn_flush(&a.conn), 0));
    cr_expect(not(frame_conn_wants_write(&a.conn)));
    end(&a);
    end(&b);
    (void)close(client[1]);
    (void)close(server[1]);
}

/* A socket that is full holds up the flight of a side that has nothing to say itself. */
Test(tls, a_handshake_that_cannot_be_written_wants_to)
{
    int client[2], server[2], least = 1;
    struct side a, b;
    char bytes[65536], hello[4096];
    ssize_t len;

    connect_two(client);
    connect_two(server);
    a = side_of(secret, client[0], false);
    b = side_of(secret, server[0], true);
    put(&a, "hello");
    (void)frame_conn_flush(&a.conn);
    len = recv(client[1], hello, sizeof(hello), 0);
    (void)setsockopt(server[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof(least));
    memset(bytes, 0, sizeof(bytes));
    while (send(server[0], bytes, 64, MSG_DONTWAIT) > 0)
        ;
    cr_assert(eq(i64, send(server[1], hello, (size_t)len, 0), len));
    cr_assert(eq(i64, frame_conn_fill(&b.conn), -EAGAIN));
    cr_expect(frame_conn_wants_write(&b.conn));
    while (recv(server[1], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
        ;
    cr_assert(eq(i64, frame_conn_fill(&b.conn), -EAGAIN));
    cr_expect(not(frame_conn_wants_write(&b.conn)));
    cr_expect(gt(i64, recv(server[1], bytes, sizeof(bytes), MSG_DONTWAIT), 0), "its flight");
    end(&a);
    end(&b);
    (void)close(client[1]);
    (void)close(server[1]);
}

/* ---- those who do not have the key ---- */

static void give_certificate(SSL_CTX *ctx)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *x = X509_new();

    (void)ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    (void)X509_gmtime_adj(X509_getm_notBefore(x), -60);
    (void)X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    (void)X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
                                     (const unsigned char *)"loader", -1, -1, 0);
    (void)X509_set_issuer_name(x, X509_get_subject_name(x));
    (void)X509_set_pubkey(x, key);
    cr_assert(gt(int, X509_sign(x, key, EVP_sha256()), 0));
    cr_assert(eq(int, SSL_CTX_use_certificate(ctx, x), 1));
    cr_assert(eq(int, SSL_CTX_use_PrivateKey(ctx, key), 1));
    X509_free(x);
    EVP_PKEY_free(key);
}

static SSL_CTX *with_certificate(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    give_certificate(ctx);
    return ctx;
}

static SSL_CTX *anonymous(void)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());

    SSL_CTX_set_security_level(ctx, 0);
    (void)SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    cr_assert(eq(int, SSL_CTX_set_cipher_list(ctx, "aNULL"), 1));
    (void)SSL_CTX_set_dh_auto(ctx, 1);
    return ctx;
}

static SSL_CTX *older(void)
{
    SSL_CTX *ctx = with_certificate();

    (void)SSL_CTX_set_max_proto_version(ctx, TLS1_2_VERSION);
    return ctx;
}

/* One that knows what the key is called, and would take anything for it. */
static int guess(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **session)
{
    static const unsigned char cipher_id[] = {0x13, 0x01}, key[32] = {1};

    (void)id;
    (void)len;
    *session = SSL_SESSION_new();
    return SSL_SESSION_set1_master_key(*session, key, sizeof(key)) &&
           SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, cipher_id)) &&
           SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
}

static SSL_CTX *guessing(void)
{
    SSL_CTX *ctx = with_certificate();

    SSL_CTX_set_psk_find_session_callback(ctx, guess);
    return ctx;
}

/* Both sides until nothing moves any more: what became of the client, and how much the impostor was told. */
static int64_t meet(SSL_CTX *ctx, size_t *told)
{
    SSL *ssl = SSL_new(ctx);
    struct side a;
    char bytes[256];
    int64_t r = -EAGAIN;
    int fds[2];

    connect_two(fds);
    a = side_of(secret, fds[0], false);
    (void)io_set_nonblock(fds[1]);
    (void)SSL_set_fd(ssl, fds[1]);
    SSL_set_accept_state(ssl);
    put(&a, "hello");
    *told = 0;
    for (int i = 0; i < 8 && r == -EAGAIN; i++) {
        size_t n = 0;

        r = frame_conn_flush(&a.conn);
        if (r == -EAGAIN && i > 3)
            r = frame_conn_fill(&a.conn);
        if (SSL_read_ex(ssl, bytes, sizeof(bytes), &n) == 1)
            *told += n;
        (void)SSL_write_ex(ssl, "\0\0\0\0\1\0\0\0\0\0\0\0\0\0\0\0", 16, &n);
    }
    end(&a);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
    (void)close(fds[1]);
    return r;
}

Test(tls, a_server_without_the_key_is_told_nothing_and_not_believed)
{
    static SSL_CTX *(*const impostors[])(void) = {with_certificate, anonymous, older, guessing};

    for (int blind = 0; blind < 2; blind++)
        for (size_t i = 0; i < ARRAY_LEN(impostors); i++) {
            size_t told = 1;

            believe_certificates = blind;
            cr_expect(eq(i64, meet(impostors[i](), &told), -EACCES), "impostor %zu, %d", i, blind);
            cr_expect(eq(sz, told, 0), "impostor %zu, %d", i, blind);
        }
}
