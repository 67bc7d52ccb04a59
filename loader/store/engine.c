/* SPDX-License-Identifier: MIT */
/* engine.c - libplenum-store.so: runs HTTP requests with libcurl, and computes hashes with OpenSSL.
 * No other file uses these libraries.
 *
 * One thread runs all requests of the process, in one multi handle, so that they share connections.
 * It does not follow redirects, because the caller has to check each new address first. TLS
 * certificates are always verified, against the system's authorities or SSL_CERT_FILE,
 * CURL_CA_BUNDLE or AWS_CA_BUNDLE. Proxies come from libcurl's usual variables (https_proxy,
 * no_proxy ...).
 *
 * Connections to loopback, link-local and similar addresses are refused in open_socket(), with the
 * address that is about to be used, so a name server cannot bypass the check by changing its
 * answers. */
#include "config.h"

#include "loader/store/backend.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <curl/curl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include <plenum/plenum.h>

#include "common/util/message.h"
#include "common/util/util.h"

enum {
    CONNECTIONS_MAX = 256, /* limit for the whole process */
    IDLE_S = 20,           /* a connection that was idle for longer is not reused */
    DNS_S = 30,
    POLL_MS = 1000,
    POLL_MIN_MS = 20,
    BUFFER = 256 << 10,
};

/* The engine's part of a request. Only the engine's thread uses it. */
struct flight {
    struct transfer *transfer;
    struct flight *next, *prev;
    CURL *easy;
    struct curl_slist *headers;
    size_t uploaded;   /* bytes of the request's body that were sent */
    uint64_t moved_ns; /* when a byte was last received or sent */
    bool stopped, refused_address, was_late;
    char why[CURL_ERROR_SIZE];
};

static struct {
    pthread_mutex_t mu;
    /* Protected by mu. */
    struct transfer *first, **last; /* not started yet */
    bool running;
    /* The engine's thread only. */
    struct flight *flights;
    struct flight *free;  /* finished flights, whose handles are reused */
    uint64_t shortest_ns; /* the shortest stall_ns of all flights */
    uint64_t due_ns;      /* time until the next flight is late, as of the last check */
    /* Constant once running. */
    CURLM *multi;
    const char *authorities;
} engine = {.mu = PTHREAD_MUTEX_INITIALIZER, .last = &engine.first};

/* ---- addresses ---- */

static bool is_special_v4(uint32_t a)
{
    return a >> 24 == 127 || a >> 24 == 0 || a >> 16 == 0xA9FE /* 169.254 */ || a >> 28 == 0xE ||
           a == 0xFFFFFFFF;
}

/* Returns whether an address is reserved, such as loopback, link-local or multicast addresses. */
static bool is_special(const struct sockaddr *address)
{
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    static const uint8_t nat64[12] = {0, 0x64, 0xff, 0x9b};
    static const uint8_t ec2[6] = {0xfd, 0, 0x0e, 0xc2}; /* an instance's metadata */
    uint32_t inner;

    if (address->sa_family == AF_INET)
        return is_special_v4(
            ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr));
    if (address->sa_family != AF_INET6)
        return true;
    if (IN6_IS_ADDR_LOOPBACK(v6) || IN6_IS_ADDR_UNSPECIFIED(v6) || IN6_IS_ADDR_LINKLOCAL(v6) ||
        IN6_IS_ADDR_MULTICAST(v6))
        return true;
    if (memcmp(v6->s6_addr, ec2, sizeof(ec2)) == 0)
        return true;
    memcpy(&inner, v6->s6_addr + 12, sizeof(inner));
    return (IN6_IS_ADDR_V4MAPPED(v6) || IN6_IS_ADDR_V4COMPAT(v6) ||
            memcmp(v6->s6_addr, nat64, sizeof(nat64)) == 0) &&
           is_special_v4(ntohl(inner));
}

static uint16_t port_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET
               ? ntohs(((const struct sockaddr_in *)(const void *)address)->sin_port)
               : ntohs(((const struct sockaddr_in6 *)(const void *)address)->sin6_port);
}

/* Returns whether a variable names a proxy on this host with that port. Such a proxy is allowed,
 * because the user of this process chose it. */
static bool is_own_proxy(uint16_t port)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy",
                                        "ALL_PROXY"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]), *host = value ? strstr(value, "://") : NULL, *colon;
        uint64_t number;

        if (!value)
            continue;
        host = host ? host + 3 : value;
        colon = strrchr(host, ':');
        if (!colon || (strncmp(host, "127.", 4) != 0 && strncmp(host, "localhost:", 10) != 0 &&
                       strncmp(host, "[::1]", 5) != 0))
            continue;
        colon++;
        if (parse_next_u64(&colon, 65535, &number) == 0 && number == port)
            return true;
    }
    return false;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct flight *f = arg;

    (void)purpose;
    if (!f->transfer->any_address && is_special(&address->addr) &&
        !is_own_proxy(port_of(&address->addr))) {
        f->refused_address = true;
        return CURL_SOCKET_BAD;
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

/* ---- one request ---- */

static size_t on_header(char *bytes, size_t size, size_t count, void *arg)
{
    struct flight *f = arg;

    f->moved_ns = time_now_ns();
    f->transfer->header(f->transfer, bytes, size * count);
    return size * count;
}

static size_t on_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct flight *f = arg;

    f->moved_ns = time_now_ns();
    if (f->transfer->body(f->transfer, (const uint8_t *)bytes, size * count))
        return size * count;
    f->stopped = true;
    return 0; /* ends the request */
}

/* Pass bytes of the request's body to libcurl. */
static size_t give_body(char *bytes, size_t size, size_t count, void *arg)
{
    struct flight *f = arg;
    size_t n = (size_t)min_u64(size * count, f->transfer->upload_len - f->uploaded);

    f->moved_ns = time_now_ns();
    if (n > 0)
        memcpy(bytes, f->transfer->upload + f->uploaded, n);
    f->uploaded += n;
    return n;
}

/* Seek in the request's body, which libcurl sends again if a connection breaks. */
static int seek_body(void *arg, curl_off_t offset, int origin)
{
    struct flight *f = arg;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > f->transfer->upload_len)
        return CURL_SEEKFUNC_CANTSEEK;
    f->uploaded = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static struct flight *take_flight(void)
{
    struct flight *f = engine.free;

    if (f) {
        engine.free = f->next;
    } else {
        f = calloc(1, sizeof(*f));
        if (f)
            f->easy = curl_easy_init();
        if (f && !f->easy) {
            free(f);
            f = NULL;
        }
    }
    return f;
}

static void return_flight(struct flight *f)
{
    CURL *easy = f->easy;

    curl_slist_free_all(f->headers);
    curl_easy_reset(easy); /* this keeps connections and the DNS cache */
    *f = (struct flight){.easy = easy, .next = engine.free};
    engine.free = f;
}

static bool set_headers(struct flight *f)
{
    for (const char *const *h = f->transfer->headers; *h; h++) {
        struct curl_slist *more = curl_slist_append(f->headers, *h);

        if (!more)
            return false;
        f->headers = more;
    }
    return curl_easy_setopt(f->easy, CURLOPT_HTTPHEADER, f->headers) == CURLE_OK;
}

static void set_options(struct flight *f)
{
    struct transfer *t = f->transfer;
    CURL *e = f->easy;

    (void)curl_easy_setopt(e, CURLOPT_URL, t->url);
    (void)curl_easy_setopt(e, CURLOPT_PRIVATE, f);
    (void)curl_easy_setopt(e, CURLOPT_ERRORBUFFER, f->why);
    (void)curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075500
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
#else
    (void)curl_easy_setopt(e, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    (void)curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    (void)curl_easy_setopt(e, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(e, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)(t->connect_ns / NS_PER_MS));
    (void)curl_easy_setopt(e, CURLOPT_DNS_CACHE_TIMEOUT, (long)DNS_S);
    (void)curl_easy_setopt(e, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1L);
    (void)curl_easy_setopt(e, CURLOPT_MAXAGE_CONN, (long)IDLE_S);
    (void)curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(e, CURLOPT_BUFFERSIZE, (long)BUFFER);
    (void)curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(e, CURLOPT_HEADERDATA, f);
    (void)curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(e, CURLOPT_WRITEDATA, f);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(e, CURLOPT_OPENSOCKETDATA, f);
    if (engine.authorities)
        (void)curl_easy_setopt(e, CURLOPT_CAINFO, engine.authorities);
    if (t->no_proxy)
        (void)curl_easy_setopt(e, CURLOPT_PROXY, "");
    if (strcmp(t->method, "PUT") == 0) {
        (void)curl_easy_setopt(e, CURLOPT_UPLOAD, 1L);
        (void)curl_easy_setopt(e, CURLOPT_INFILESIZE_LARGE, (curl_off_t)t->upload_len);
        (void)curl_easy_setopt(e, CURLOPT_READFUNCTION, give_body);
        (void)curl_easy_setopt(e, CURLOPT_READDATA, f);
        (void)curl_easy_setopt(e, CURLOPT_SEEKFUNCTION, seek_body);
        (void)curl_easy_setopt(e, CURLOPT_SEEKDATA, f);
    }
}

static void launch(struct transfer *t)
{
    struct flight *f = take_flight();

    if (!f) {
        t->done(t, -ENOMEM, "out of memory");
        return;
    }
    assert(t->url && t->headers && t->stall_ns > 0 && !f->headers);
    f->transfer = t;
    f->moved_ns = t->begun_ns = time_now_ns();
    set_options(f);
    if (!set_headers(f) || curl_multi_add_handle(engine.multi, f->easy) != CURLM_OK) {
        return_flight(f);
        t->done(t, -ENOMEM, "out of memory");
        return;
    }
    f->next = engine.flights;
    if (f->next)
        f->next->prev = f;
    engine.flights = f;
}

static int code_of(const struct flight *f, CURLcode code)
{
    long number = 0;

    if (f->refused_address)
        return -EPERM;
    if (f->stopped)
        return -ECANCELED;
    switch (code) {
    case CURLE_OK:
        return 0;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return -EKEYREJECTED;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
        return -EHOSTUNREACH;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_COULDNT_CONNECT:
        (void)curl_easy_getinfo(f->easy, CURLINFO_OS_ERRNO, &number);
        return number > 0 && number < 4096 ? -(int)number : -ECONNREFUSED;
    default:
        return -ECONNRESET;
    }
}

/* End a flight, and call its transfer's done(). */
MESSAGE static void land(struct flight *f, int code, const char *why)
{
    struct transfer *t = f->transfer;
    char text[CURL_ERROR_SIZE];

    assert(strlen(why) < sizeof(text) && f->transfer);
    (void)memcpy(text, why, strlen(why) + 1);
    (void)curl_multi_remove_handle(engine.multi, f->easy);
    if (f->prev)
        f->prev->next = f->next;
    else
        engine.flights = f->next;
    if (f->next)
        f->next->prev = f->prev;
    return_flight(f);
    t->done(t, code, text);
}

static void land_finished(void)
{
    const CURLMsg *msg;
    int left;

    while ((msg = curl_multi_info_read(engine.multi, &left))) {
        CURLcode result = msg->data.result;
        struct flight *f = NULL;

        if (msg->msg != CURLMSG_DONE ||
            curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&f) != CURLE_OK)
            continue;
        land(f, code_of(f, result), *f->why ? f->why : curl_easy_strerror(result));
    }
}

/* Report a request if it is late. Otherwise returns the nanoseconds until it will be late. */
static uint64_t report_late(struct flight *f, uint64_t now)
{
    struct transfer *t = f->transfer;
    uint64_t taken = now - t->begun_ns;

    if (t->late_ns == 0 || f->was_late)
        return UINT64_MAX;
    if (taken < t->late_ns)
        return t->late_ns - taken;
    f->was_late = true;
    t->late(t);
    return UINT64_MAX;
}

/* End requests that were cancelled, and those that have stalled for too long. */
static void land_stalled(void)
{
    uint64_t now = time_now_ns(), shortest = UINT64_MAX, due = UINT64_MAX;
    struct flight *next;

    for (struct flight *f = engine.flights; f; f = next) {
        uint64_t silent = now - f->moved_ns, allowed = f->transfer->stall_ns;

        next = f->next;
        shortest = min_u64(shortest, allowed);
        if (atomic_load(&f->transfer->cancel))
            land(f, -ECANCELED, "it was cancelled");
        else if (silent > allowed)
            land(f, -ETIMEDOUT, "no data arrived in time");
        else
            due = min_u64(due, report_late(f, now));
    }
    engine.shortest_ns = shortest;
    engine.due_ns = due;
}

static void launch_all(void)
{
    struct transfer *t, *next;

    (void)pthread_mutex_lock(&engine.mu);
    t = engine.first;
    engine.first = NULL;
    engine.last = &engine.first;
    (void)pthread_mutex_unlock(&engine.mu);
    for (; t; t = next) {
        next = t->next;
        if (atomic_load(&t->cancel))
            t->done(t, -ECANCELED, "it was cancelled");
        else
            launch(t);
    }
}

/* Returns how long the thread may sleep: it has to notice soon that a request has stalled for too
 * long, and at once that a request is late. */
static int poll_ms(void)
{
    uint64_t ms = min_u64(engine.shortest_ns / 4 / NS_PER_MS, POLL_MS);

    ms = max_u64(ms, POLL_MIN_MS);
    return (int)min_u64(ms, engine.due_ns / NS_PER_MS + 1);
}

static void *engine_main(void *arg)
{
    int running;

    (void)arg;
    for (;;) {
        launch_all();
        (void)curl_multi_perform(engine.multi, &running);
        land_finished();
        land_stalled();
        (void)curl_multi_poll(engine.multi, NULL, 0, poll_ms(), NULL);
    }
    return NULL;
}

/* Returns whether libcurl was built without a path to the system's authorities, as for the
 * wheel. */
static bool has_no_authorities(void)
{
#if LIBCURL_VERSION_NUM >= 0x074600
    const curl_version_info_data *info = curl_version_info(CURLVERSION_NOW);

    return info->age >= CURLVERSION_SEVENTH && !info->cainfo && !info->capath;
#else
    return false;
#endif
}

/* Returns a file with authorities: the user's, or the system's if libcurl has none; or NULL. */
static const char *find_authorities(void)
{
    static const char *const names[] = {"AWS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"};
    static const char *const files[] = {
        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Ubuntu, Arch */
        "/etc/pki/tls/certs/ca-bundle.crt",   /* RHEL, Fedora */
        "/etc/ssl/ca-bundle.pem",             /* SUSE */
        "/etc/ssl/cert.pem",
    };

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *value = getenv(names[i]);

        if (value && *value)
            return value;
    }
    for (size_t i = 0; i < ARRAY_LEN(files) && has_no_authorities(); i++)
        if (access(files[i], R_OK) == 0)
            return files[i];
    return NULL;
}

/* Start the thread. Call it with engine.mu held. */
static int run_engine(void)
{
    if (engine.running)
        return 0;
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
        return -ENOMEM;
    engine.authorities = find_authorities();
    engine.multi = curl_multi_init();
    if (!engine.multi)
        return -ENOMEM;
    (void)curl_multi_setopt(engine.multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)CONNECTIONS_MAX);
    (void)curl_multi_setopt(engine.multi, CURLMOPT_MAXCONNECTS, (long)CONNECTIONS_MAX);
    engine.shortest_ns = engine.due_ns = UINT64_MAX;
    if (thread_start(NULL, engine_main, NULL) < 0) {
        (void)curl_multi_cleanup(engine.multi);
        return -EAGAIN;
    }
    engine.running = true;
    return 0;
}

static void engine_wake(void)
{
    if (engine.running)
        (void)curl_multi_wakeup(engine.multi);
}

static int engine_start(struct transfer *t)
{
    int r;

    assert(t->header && t->body && t->done && (t->late || t->late_ns == 0));
    (void)pthread_mutex_lock(&engine.mu);
    r = run_engine();
    if (r == 0) {
        t->next = NULL;
        *engine.last = t;
        engine.last = &t->next;
    }
    (void)pthread_mutex_unlock(&engine.mu);
    if (r == 0)
        engine_wake();
    return r;
}

/* ---- hashes ---- */

static void hash_sha256(const void *bytes, size_t len, uint8_t ret[STORE_HASH_BYTES])
{
    (void)SHA256(bytes, len, ret);
}

static void hash_hmac(const void *key, size_t key_len, const void *bytes, size_t len,
                      uint8_t ret[STORE_HASH_BYTES])
{
    unsigned n = STORE_HASH_BYTES;

    assert(key_len <= 4096);
    (void)HMAC(EVP_sha256(), key, (int)key_len, bytes, len, ret, &n);
}

PLENUM_API const struct store_backend plenum_store_backend = {.version = STORE_BACKEND_VERSION,
                                                              .sha256 = hash_sha256,
                                                              .hmac = hash_hmac,
                                                              .start = engine_start,
                                                              .wake = engine_wake};
