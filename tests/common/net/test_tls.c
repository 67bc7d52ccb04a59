/* SPDX-License-Identifier: MIT */
/* Tests the TLS module, which is linked into this program. The test owns both ends of the
 * connection. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/net/tls.h"
#include "common/util/util.h"

extern const struct tls_backend plenum_tls_backend;

/* Wrapped: disables certificate verification, so that only our own checks remain. */
static bool believe_certificates;
void __real_SSL_set_verify(SSL *ssl, int mode, SSL_verify_cb callback);
void __wrap_SSL_set_verify(SSL *ssl, int mode, SSL_verify_cb callback);
void __wrap_SSL_set_verify(SSL *ssl, int mode, SSL_verify_cb callback)
{
    __real_SSL_set_verify(ssl, believe_certificates ? SSL_VERIFY_NONE : mode, callback);
}

static const struct tls_key loader = {.bytes = "0123456789abcdef0123456789abcde"};

/* One side of a connection. */
struct side {
    void *context;
    struct frame_conn conn;
};

static struct tls_key key_of(const char *name)
{
    struct tls_key key = {0};

    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    cr_assert(eq(int, plenum_tls_backend.derive(loader.bytes, name, key.bytes), 0));
    return key;
}

static struct side side_with(struct tls_key key, int fd)
{
    struct side s = {0};

    cr_assert(eq(int, plenum_tls_backend.open(&key, &s.context), 0));
    cr_assert(eq(int, frame_conn_init(&s.conn, fd, 1 << 20), 0));
    cr_assert(eq(int, plenum_tls_backend.carry(s.context, fd, &s.conn.carrier), 0));
    return s;
}

static struct side side_of(int fd, bool server)
{
    return side_with(server ? loader : key_of("alice"), fd);
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

Test(tls, holders_of_the_key_can_communicate)
{
    struct side a, b;
    int fds[2];

    connect_two(fds);
    a = side_of(fds[0], false);
    b = side_of(fds[1], true);
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

/* After each read, no byte may remain inside the TLS module, where poll() does not see it. */
Test(tls, poll_reports_every_buffered_byte)
{
    enum { BYTES = 300000 };
    uint8_t *bytes = calloc(1, BYTES);
    struct side a, b;
    size_t got = 0, odd;
    int fds[2];

    connect_two(fds);
    a = side_of(fds[0], false);
    b = side_of(fds[1], true);
    put(&a, "hello");
    cr_assert(eq(int, frame_conn_attach_bulk(&a.conn, bytes, BYTES), 0));
    odd = frame_conn_pending(&a.conn);
    for (int round = 0; round < 1000 && got < BYTES + odd; round++) {
        int64_t n;

        (void)frame_conn_flush(&a.conn);
        n = frame_conn_fill(&b.conn);
        got += n > 0 ? (size_t)n : 0;
        cr_assert(not(frame_conn_has_read(&b.conn)), "bytes remain after %zu", got);
    }
    cr_expect(eq(sz, got, BYTES + odd));
    end(&a);
    end(&b);
    free(bytes);
}

/* Creates two sides whose bytes the test carries from client[1] to server[1] and back; the client
 * has data to send. */
static void connect_by_hand(int client[2], int server[2], struct side *a, struct side *b)
{
    connect_two(client);
    connect_two(server);
    *a = side_of(client[0], false);
    *b = side_of(server[0], true);
    put(a, "hello");
}

/* Data is ready to be sent as soon as the peer has answered the handshake, whichever side completes
 * the handshake with a read. */
Test(tls, a_handshake_that_ends_in_a_read_wakes_writers)
{
    struct side a, b;
    int client[2], server[2];
    char flight[65536];
    ssize_t len;

    connect_by_hand(client, server, &a, &b);
    cr_assert(eq(int, frame_conn_flush(&a.conn), -EAGAIN));
    cr_expect(not(frame_conn_wants_write(&a.conn)), "data must wait for the answer");
    len = recv(client[1], flight, sizeof(flight), 0);
    cr_assert(eq(i64, send(server[1], flight, (size_t)len, 0), len));
    cr_assert(eq(i64, frame_conn_fill(&b.conn), -EAGAIN));
    len = recv(server[1], flight, sizeof(flight), 0);

    cr_assert(eq(i64, send(client[1], flight, 100, 0), 100));
    cr_assert(eq(int, frame_conn_flush(&a.conn), -EAGAIN), "a part of the answer must not suffice");
    cr_expect(not(frame_conn_wants_write(&a.conn)));
    cr_assert(eq(i64, send(client[1], flight + 100, (size_t)len - 100, 0), len - 100));
    cr_assert(eq(i64, frame_conn_fill(&a.conn), -EAGAIN));
    cr_expect(frame_conn_wants_write(&a.conn), "now the data must be ready to be sent");
    cr_expect(eq(int, frame_conn_flush(&a.conn), 0));
    cr_expect(not(frame_conn_wants_write(&a.conn)));
    end(&a);
    end(&b);
    (void)close(client[1]);
    (void)close(server[1]);
}

/* A full socket delays the flight of a side that has no other data to send. */
Test(tls, a_handshake_that_cannot_be_written_waits_for_writing)
{
    int client[2], server[2], least = 1;
    struct side a, b;
    char bytes[65536], hello[4096];
    ssize_t len;

    connect_by_hand(client, server, &a, &b);
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

/* ---- peers without the key ---- */

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

/* A client that impersonates a loader: it uses its own key as if it were any peer's. */
static struct tls_key guessed;

static int guess(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **session)
{
    static const unsigned char cipher_id[] = {0x13, 0x01};

    (void)id;
    (void)len;
    *session = SSL_SESSION_new();
    return SSL_SESSION_set1_master_key(*session, guessed.bytes, TLS_KEY_BYTES) &&
           SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, cipher_id)) &&
           SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
}

static SSL_CTX *guessing(void)
{
    SSL_CTX *ctx = with_certificate();

    SSL_CTX_set_psk_find_session_callback(ctx, guess);
    return ctx;
}

/* Runs both sides until the client fails or nothing moves. Returns the client's result; `*told` is
 * the number of bytes that the impostor received. */
static int64_t meet(SSL_CTX *ctx, size_t *told)
{
    SSL *ssl = SSL_new(ctx);
    struct side a;
    char bytes[256];
    int64_t r = -EAGAIN;
    int fds[2];

    connect_two(fds);
    a = side_of(fds[0], false);
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

Test(tls, a_server_without_the_key_gets_nothing_and_is_rejected)
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

/* A client's key lets it impersonate the loader only to itself, not to other clients. */
Test(tls, a_client_key_cannot_serve_as_a_loader)
{
    size_t told = 0;

    guessed = key_of("bob");
    cr_expect(eq(i64, meet(guessing(), &told), -EACCES));
    cr_expect(eq(sz, told, 0));
    guessed = key_of("alice");
    (void)meet(guessing(), &told);
    cr_expect(gt(sz, told, 0), "control: with alice's key, an impostor receives the client's data");
}

/* Returns what the loader gets from a client with this key: a number of bytes, or -errno. */
static int64_t admit(struct tls_key key)
{
    struct side a, b;
    int64_t r = -EAGAIN;
    int fds[2];

    connect_two(fds);
    a = side_with(key, fds[0]);
    b = side_of(fds[1], true);
    put(&a, "hello");
    for (int i = 0; i < 8 && r == -EAGAIN; i++) {
        (void)frame_conn_flush(&a.conn);
        r = frame_conn_fill(&b.conn);
    }
    end(&a);
    end(&b);
    return r;
}

Test(tls, a_client_key_cannot_serve_another_client)
{
    struct tls_key alice = key_of("alice"), bob = alice, master = loader;

    cr_expect(gt(i64, admit(alice), 0));
    (void)snprintf(bob.name, sizeof(bob.name), "bob");
    cr_expect(eq(i64, admit(bob), -EACCES), "alice's key must not admit bob");
    (void)snprintf(master.name, sizeof(master.name), "alice");
    cr_expect(eq(i64, admit(master), -EACCES), "a secret is not a client's key");
    cr_expect(gt(i64, admit(key_of("bob")), 0));
}

/* HKDF-SHA256 without salt; the info is "plenum client", a NUL, and the name. */
Test(tls, client_keys_are_derived_as_documented)
{
    static const char secret_hex[] =
        "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
    struct tls_key key, client;
    struct plenum_error err;
    char text[TLS_TEXT_MAX];

    cr_assert(eq(int, tls_key_parse(secret_hex, &key), 0));
    client = (struct tls_key){.name = "gpu-7"};
    cr_assert(eq(int, plenum_tls_backend.derive(key.bytes, client.name, client.bytes), 0));
    tls_key_format(&client, text);
    cr_expect(
        eq(str, text,
           "plenum-client gpu-7 efdf3409757dfddb36c7f5f9c784d8643e6570f23636e7c4fee5ce3ec54ee5ce"));
    cr_assert(eq(int, tls_key_parse(text, &key), 0));
    cr_expect(eq(int, memcmp(&key, &client, sizeof(key)), 0));
    text[strlen(text) - 1] = '\x15'; /* a '5', except for one bit */
    cr_expect(eq(int, tls_key_parse(text, &key), -EINVAL));
    text[strlen(text) - 1] = '\0';
    cr_expect(eq(int, tls_key_parse(text, &key), -EINVAL));
    cr_expect(eq(int, tls_key_parse("plenum-client a/b 00", &key), -EINVAL));
    cr_expect(eq(int, tls_key_of_client(&key, "a b", &client, &err), -EINVAL));
    cr_expect(eq(int, tls_key_of_client(&key, "", &client, &err), -EINVAL));
}

/* ---- long runs ---- */

static unsigned updates;
int __real_SSL_key_update(SSL *ssl, int type);
int __wrap_SSL_key_update(SSL *ssl, int type);
int __wrap_SSL_key_update(SSL *ssl, int type)
{
    int r = __real_SSL_key_update(ssl, type);

    updates += r == 1;
    return r;
}

/* Both sides write more than their sockets hold, and all of it must arrive, though the key is
 * renewed every few records here (see local.mk). */
Test(tls, keys_are_renewed_while_both_sides_write)
{
    enum { BYTES = 8 << 20 };
    uint8_t *bytes = malloc(BYTES);
    size_t got[2] = {0};
    struct side s[2];
    int fds[2];

    for (size_t i = 0; i < BYTES; i++)
        bytes[i] = (uint8_t)(i * 2654435761U >> 24);
    connect_two(fds);
    s[0] = side_of(fds[0], false);
    s[1] = side_of(fds[1], true);
    for (int i = 0; i < 2; i++) {
        put(&s[i], "hello");
        cr_assert(eq(int, frame_conn_attach_bulk(&s[i].conn, bytes, BYTES), 0));
    }
    for (int round = 0; round < 100000 && (got[0] < BYTES || got[1] < BYTES); round++)
        for (int i = 0; i < 2; i++) {
            uint8_t part[40000];
            int64_t n = -EAGAIN;
            int r = frame_conn_flush(&s[i].conn);

            cr_assert(r == 0 || r == -EAGAIN, "%d", r);
            if (got[i] == 0 && (n = frame_conn_fill(&s[i].conn)) > 0)
                expect_text(&s[i], "hello");
            if (n > 0 || got[i] > 0)
                n = frame_conn_read_bulk(&s[i].conn, part, min_u64(sizeof(part), BYTES - got[i]));
            cr_assert(n > 0 || n == -EAGAIN || got[i] == BYTES, "%d", (int)n);
            if (n > 0 && got[i] < BYTES) {
                cr_assert(eq(int, memcmp(part, bytes + got[i], (size_t)n), 0));
                got[i] += (size_t)n;
            }
        }
    cr_expect(eq(sz, got[0], BYTES));
    cr_expect(eq(sz, got[1], BYTES));
    cr_expect(gt(u32, updates, 2 * BYTES / 16384 / TLS_RECORDS_MAX - 4));
    end(&s[0]);
    end(&s[1]);
    free(bytes);
}

/* A writer that waits for a slow reader must know whether the reader reads at all. */
Test(tls, progress_of_a_slow_reader_is_seen)
{
    enum { BYTES = 8 << 20 };
    uint8_t *bytes = calloc(1, BYTES);
    struct side a, b;
    size_t got = 0;
    int fds[2];

    connect_two(fds);
    a = side_of(fds[0], false);
    b = side_of(fds[1], true);
    cr_assert(eq(int, frame_conn_attach_bulk(&a.conn, bytes, BYTES), 0));
    while (got < BYTES / 2) {
        uint8_t part[1000];
        int64_t n;

        (void)frame_conn_flush(&a.conn);
        n = frame_conn_read_bulk(&b.conn, part, sizeof(part));
        got += n > 0 ? (size_t)n : 0;
    }
    cr_expect(lt(sz, frame_conn_bulk_left(&a.conn), BYTES - got + 16384));
    end(&a);
    end(&b);
    free(bytes);
}

/* ---- core dumps ---- */

/* Counts the copies of 32 bytes, given inverted, in memory that a core dump includes. */
static unsigned count_dumped(const unsigned char inverted[TLS_KEY_BYTES], unsigned *kept)
{
    FILE *f = fopen("/proc/self/smaps", "r"), *mem = fopen("/proc/self/mem", "r");
    unsigned long from = 0, to = 0, a, b;
    unsigned found = 0;
    char line[512], how[8];

    cr_assert(f && mem);
    *kept = 0;
    while (fgets(line, sizeof(line), f)) {
        unsigned char *bytes;
        size_t len;

        if (sscanf(line, "%lx-%lx %7s", &a, &b, how) == 3) {
            from = a;
            to = how[0] == 'r' && how[1] == 'w' ? b : a;
        }
        if (strncmp(line, "VmFlags:", 8) != 0 || from == to)
            continue;
        bytes = malloc(to - from);
        (void)fseeko(mem, (off_t)from, SEEK_SET);
        len = fread(bytes, 1, to - from, mem);
        for (size_t i = 0; i + TLS_KEY_BYTES <= len; i++) {
            size_t same = 0;

            while (same < TLS_KEY_BYTES && bytes[i + same] == (unsigned char)~inverted[same])
                same++;
            if (same == TLS_KEY_BYTES)
                *(strstr(line, " dd") ? kept : &found) += 1;
        }
        explicit_bzero(bytes, len);
        free(bytes);
    }
    (void)fclose(f);
    (void)fclose(mem);
    return found;
}

/* The secret of a loader that is serving lies only in memory excluded from core dumps. So does a
 * client's own key, although OpenSSL needs it in the handshake. */
Test(tls, core_dumps_contain_no_secrets)
{
    unsigned char inverted[2][TLS_KEY_BYTES];
    struct tls_key keys[2] = {{.name = ""}, {.name = "alice"}};
    struct side a, b;
    unsigned kept;
    void *page;
    int fds[2];

    if (getenv("PLENUM_SANITIZED") && *getenv("PLENUM_SANITIZED"))
        cr_skip_test("with a sanitizer there is too much memory to search");
    cr_assert(eq(int, random_bytes(keys[0].bytes, TLS_KEY_BYTES), 0));
    cr_assert(eq(int, plenum_tls_backend.derive(keys[0].bytes, "alice", keys[1].bytes), 0));
    connect_two(fds);
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < TLS_KEY_BYTES; i++)
            inverted[k][i] = (unsigned char)~keys[k].bytes[i];
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(page != MAP_FAILED && madvise(page, 4096, MADV_DONTDUMP) == 0);
    memcpy(page, keys[0].bytes, TLS_KEY_BYTES);
    (void)count_dumped(inverted[0], &kept);
    (void)munmap(page, 4096);
    if (kept == 0)
        cr_skip_test("the kernel does not report here which pages core dumps omit, as under qemu");
    cr_assert(ge(u32, count_dumped(inverted[0], &kept), 1), "control: the key must be found here");
    b = (struct side){0};
    cr_assert(eq(int, plenum_tls_backend.open(&keys[0], &b.context), 0));
    a = (struct side){0};
    cr_assert(eq(int, plenum_tls_backend.open(&keys[1], &a.context), 0));
    explicit_bzero(keys, sizeof(keys));
    cr_assert(eq(int, frame_conn_init(&a.conn, fds[0], 1 << 20), 0));
    cr_assert(eq(int, frame_conn_init(&b.conn, fds[1], 1 << 20), 0));
    cr_assert(eq(int, plenum_tls_backend.carry(a.context, fds[0], &a.conn.carrier), 0));
    cr_assert(eq(int, plenum_tls_backend.carry(b.context, fds[1], &b.conn.carrier), 0));
    put(&a, "hello");
    for (int i = 0; i < 4; i++) {
        (void)frame_conn_flush(&a.conn);
        (void)frame_conn_fill(&b.conn);
    }
    expect_text(&b, "hello");
    for (int k = 0; k < 2; k++) {
        cr_expect(eq(u32, count_dumped(inverted[k], &kept), 0), "key %d", k);
        cr_expect(eq(u32, kept, 1), "key %d", k);
    }
    end(&a);
    end(&b);
    for (int k = 0; k < 2; k++)
        cr_expect(eq(u32, count_dumped(inverted[k], &kept) + kept, 0), "key %d, afterwards", k);
}

/* Reads the key as this user, who is in group 1000. Returns 0 or -errno. */
static int read_as(uid_t user, const char *path)
{
    static const gid_t group = 1000;
    struct tls_key key;
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(setgroups(1, &group) < 0 || setgid(2000) < 0 || setuid(user) < 0
                  ? 99
                  : -tls_key_read(path, &key, NULL));
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    return -WEXITSTATUS(status);
}

/* Programs inherit the descriptor, and so do their children that run as other users: none of them
 * may change the key. */
Test(tls, a_stored_key_cannot_be_changed)
{
    const char *key =
        "plenum-client job 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
    char path[TLS_PATH_MAX], got[128] = "";
    int fd = tls_keep_key(key, path), again;

    cr_assert(ge(int, fd, 0));
    cr_expect(eq(int, (int)pwrite(fd, "f", 1, 0), -1));
    cr_expect(ne(int, ftruncate(fd, 0), 0));
    again = open(path, O_RDWR | O_CLOEXEC);
    cr_expect(eq(int, again < 0 ? -1 : (int)pwrite(again, "f", 1, 0), -1));
    cr_expect(eq(int, (int)pread(fd, got, sizeof(got) - 1, 0), (int)strlen(key)));
    cr_expect(eq(str, got, (char *)key));
    (void)close(again);
    (void)close(fd);
}

/* A Kubernetes secret belongs to root and to a group that may read it. The container's user, even
 * root, is in that group. */
Test(tls, root_may_give_a_key_to_a_group)
{
    static const struct {
        uid_t reader, user;
        gid_t group;
        mode_t mode;
        int want;
    } cases[] = {{1000, 0, 1000, 0440, 0},
                 {1000, 0, 2000, 0640, 0},
                 {1000, 0, 3000, 0440, -EACCES},
                 {1000, 0, 1000, 0444, -EACCES},
                 {1000, 0, 1000, 0460, -EACCES},
                 {1000, 1000, 1000, 0400, 0},
                 {1000, 1000, 1000, 0440, -EACCES},
                 {1000, 5, 1000, 0440, -EACCES},
                 {0, 0, 3000, 0400, 0},
                 {0, 0, 1000, 0440, 0},
                 {0, 0, 3000, 0440, -EACCES},
                 {0, 0, 1000, 0444, -EACCES},
                 {0, 5, 1000, 0440, -EACCES}};
    char path[] = "/tmp/plenum-test-key-XXXXXX", link[sizeof(path) + 5], bytes[32];
    int fd = -1;

    if (geteuid() != 0)
        cr_skip("only root can give files away");
    fd = mkstemp(path);
    cr_assert(ge(int, fd, 0));
    (void)snprintf(link, sizeof(link), "%s.link", path); /* secrets are reached by symbolic links */
    cr_assert(eq(int, symlink(path, link), 0));
    cr_assert(eq(int, random_bytes(bytes, sizeof(bytes)), 0));
    cr_assert(eq(int, io_write_all(fd, bytes, sizeof(bytes)), 0));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        cr_assert(eq(int, fchown(fd, cases[i].user, cases[i].group), 0));
        cr_assert(eq(int, fchmod(fd, cases[i].mode), 0));
        cr_expect(eq(int, read_as(cases[i].reader, link), cases[i].want), "case %zu", i);
    }
    (void)close(fd);
    (void)unlink(link);
    (void)unlink(path);
}
