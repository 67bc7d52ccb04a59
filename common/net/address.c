/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/net/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static socklen_t len_of(const union address_any *ip)
{
    return ip->any.sa_family == AF_INET6 ? sizeof(ip->in6) : sizeof(ip->in);
}

static int parse_unix(const char *text, const char *path, struct address *a,
                      struct plenum_error *err)
{
    size_t len = strlen(path);

    a->un.sun_family = AF_UNIX;
    if (len == 0 || (path[0] == '@' && len == 1))
        return error_set(err, -EINVAL, "loader address '%s' has no path", text);
    if (len >= sizeof(a->un.sun_path))
        return error_set(err, -EINVAL, "loader address '%s' is longer than %zu characters", text,
                         sizeof(a->un.sun_path) - 1);
    memcpy(a->un.sun_path, path, len);
    a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
    if (path[0] == '@')
        a->un.sun_path[0] = '\0'; /* abstract: the length counts, and there is no final NUL */
    else
        a->len++;
    return 0;
}

/* Find host and port in "HOST:PORT" or "[IPv6]:PORT". Returns false if it has neither form. */
static bool split_host(const char *text, char *host, size_t size, const char **port)
{
    const char *colon = strrchr(text, ':'), *begin = text, *end = colon;

    if (!colon || colon == text)
        return false;
    if (*text == '[') {
        begin = text + 1;
        end = colon - 1;
        if (end <= begin || *end != ']')
            return false;
    } else if (memchr(text, ':', (size_t)(colon - text))) {
        return false; /* an IPv6 address without brackets: its port would be ambiguous */
    }
    assert(begin <= end);
    if ((size_t)(end - begin) >= size)
        return false;
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    *port = colon + 1;
    return true;
}

static int parse_tcp(const char *text, const char *where, uint64_t port_min, struct address *a,
                     struct plenum_error *err)
{
    static const char of_names[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_";
    char host[sizeof(a->text)];
    const char *digits;
    uint64_t port;

    if (!split_host(where, host, sizeof(host), &digits))
        return error_set(err, -EINVAL,
                         "address '%s' is not HOST:PORT (put an IPv6 address in brackets)", text);
    if (parse_u64(digits, 65535, &port) < 0 || port < port_min)
        return error_set(err, -EINVAL, "address '%s': '%s' is not a port from %u to 65535", text,
                         digits, (unsigned)port_min);
    a->tcp = true;
    a->ip[0].in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &a->ip[0].in.sin_addr) == 1) {
        a->count = 1;
        return 0;
    }
    if (*where != '[') {
        if (!*host || host[strspn(host, of_names)] || !host[strspn(host, "0123456789.")])
            return error_set(err, -EINVAL, "address '%s': '%s' is not a valid host name", text,
                             host);
        return 0;
    }
    a->ip[0].in6 =
        (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET6, host, &a->ip[0].in6.sin6_addr) != 1)
        return error_set(err, -EINVAL, "address '%s': '%s' is not an IPv6 address", text, host);
    a->count = 1;
    return 0;
}

int address_parse(const char *text, struct address *ret, struct plenum_error *err)
{
    struct address a = {.len = 0};
    int r;

    if (strlen(text) >= sizeof(a.text))
        return error_set(err, -EINVAL, "loader address '%.60s...' is longer than %zu characters",
                         text, sizeof(a.text) - 1);
    memcpy(a.text, text, strlen(text) + 1);
    if (strncmp(text, "tcp:", 4) == 0)
        r = parse_tcp(text, text + 4, 1, &a, err);
    else if (strncmp(text, "unix:", 5) == 0)
        r = parse_unix(text, text + 5, &a, err);
    else if (text[0] == '/')
        r = parse_unix(text, text, &a, err);
    else
        r = error_set(err, -EINVAL,
                      "loader address '%s' is not unix:PATH, unix:@NAME or tcp:HOST:PORT", text);
    if (r == 0)
        *ret = a;
    return r;
}

int address_parse_listen(const char *text, struct address *ret, struct plenum_error *err)
{
    struct address a = {.len = 0};
    int n, r;

    n = snprintf(a.text, sizeof(a.text), "tcp:%s%s", strchr(text, ':') ? "" : "127.0.0.1:", text);
    if (n >= (int)sizeof(a.text))
        return error_set(err, -EINVAL, "'%.60s...' is too long for HOST:PORT", text);
    r = parse_tcp(text, a.text + 4, 0, &a, err);
    if (r == 0)
        *ret = a;
    return r;
}

static int look_up(const struct address *address, struct addrinfo **ret, struct plenum_error *err)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char host[sizeof(address->text)];
    const char *port;
    int r;

    if (!split_host(address->text + 4, host, sizeof(host), &port))
        return error_set(err, -EINVAL, "address '%s' is not HOST:PORT", address->text);
    r = getaddrinfo(host, port, &hints, ret);
    if (r != 0)
        return error_set(err, r == EAI_AGAIN ? -EAGAIN : -ENOENT,
                         "cannot resolve host '%s' in %s: %s", host, address->text,
                         gai_strerror(r));
    return 0;
}

int address_resolve(struct address *address, struct plenum_error *err)
{
    struct addrinfo *list = NULL;
    int r;

    if (!address_is_name(address))
        return 0;
    r = look_up(address, &list, err);
    if (r < 0)
        return r;
    for (struct addrinfo *i = list; i && address->count < ADDRESS_OF_NAME_MAX; i = i->ai_next)
        if (i->ai_addrlen <= sizeof(address->ip[0]))
            memcpy(&address->ip[address->count++], i->ai_addr, i->ai_addrlen);
    freeaddrinfo(list);
    return 0;
}

/* Write "tcp:10.0.0.5:7000". */
static void write_ip(const union address_any *ip, char *text, size_t size)
{
    char host[INET6_ADDRSTRLEN] = "", scope[16] = "";

    if (ip->any.sa_family == AF_INET6) {
        if (ip->in6.sin6_scope_id)
            (void)snprintf(scope, sizeof(scope), "%%%u", ip->in6.sin6_scope_id);
        (void)inet_ntop(AF_INET6, &ip->in6.sin6_addr, host, sizeof(host));
        (void)snprintf(text, size, "tcp:[%s%s]:%u", host, scope, ntohs(ip->in6.sin6_port));
    } else {
        (void)inet_ntop(AF_INET, &ip->in.sin_addr, host, sizeof(host));
        (void)snprintf(text, size, "tcp:%s:%u", host, ntohs(ip->in.sin_port));
    }
}

int address_lookup(const struct address *name, unsigned turn, struct address **ret, bool *both,
                   struct plenum_error *err)
{
    struct addrinfo *list = NULL;
    struct address *found;
    int family, count = 0, r;

    *ret = NULL;
    *both = false;
    r = look_up(name, &list, err);
    if (r < 0)
        return r;
    family = list->ai_family;
    for (const struct addrinfo *i = list; i; i = i->ai_next) {
        *both |= i->ai_family != list->ai_family;
        if (i->ai_family != list->ai_family && turn % 2 == 1)
            family = i->ai_family;
        count++;
    }
    found = calloc((size_t)count, sizeof(*found));
    if (!found) {
        freeaddrinfo(list);
        return error_set(err, -ENOMEM, "out of memory");
    }
    count = 0;
    for (const struct addrinfo *i = list; i; i = i->ai_next) {
        struct address *a = &found[count];

        if (i->ai_family != family || i->ai_addrlen > sizeof(a->ip[0]))
            continue;
        *a = (struct address){.tcp = true, .count = 1};
        memcpy(&a->ip[0], i->ai_addr, i->ai_addrlen);
        write_ip(&a->ip[0], a->text, sizeof(a->text));
        for (r = 0; r < count && !address_is_same(&found[r], a); r++)
            ;
        count += r == count;
    }
    freeaddrinfo(list);
    if (count == 1)
        memcpy(found->text, name->text, sizeof(found->text));
    *ret = found;
    return count;
}

bool address_is_same(const struct address *a, const struct address *b)
{
    const union address_any *p = &a->ip[0], *q = &b->ip[0];

    if (!a->tcp || !b->tcp || a->count != 1 || b->count != 1 ||
        p->any.sa_family != q->any.sa_family)
        return false;
    if (p->any.sa_family == AF_INET6)
        return p->in6.sin6_port == q->in6.sin6_port &&
               p->in6.sin6_scope_id == q->in6.sin6_scope_id &&
               memcmp(&p->in6.sin6_addr, &q->in6.sin6_addr, sizeof(p->in6.sin6_addr)) == 0;
    return p->in.sin_port == q->in.sin_port && p->in.sin_addr.s_addr == q->in.sin_addr.s_addr;
}

int address_parse_list(const char *text, struct address ret[ADDRESS_LIST_MAX],
                       struct plenum_error *err)
{
    char one[sizeof(ret->text)];
    int count = 0;

    while (*text) {
        size_t len = strcspn(text, ",");

        if (len > 0) {
            if (len >= sizeof(one))
                return error_set(err, -EINVAL, "loader address '%.60s...' is too long", text);
            if (count == ADDRESS_LIST_MAX)
                return error_set(err, -EINVAL, "more than %d loader addresses were given",
                                 ADDRESS_LIST_MAX);
            memcpy(one, text, len);
            one[len] = '\0';
            int r = address_parse(one, &ret[count], err);

            if (r < 0)
                return r;
            count++;
        }
        text += len;
        text += *text == ',';
    }
    if (count == 0)
        return error_set(err, -EINVAL, "no loader address was given");
    return count;
}

/* Disable Nagle's algorithm: small frames are answers that the other side waits for. */
static void set_tcp(int fd)
{
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    return fd < 0 ? -errno : fd;
}

static const struct sockaddr *choose(const struct address *address, unsigned turn, socklen_t *len)
{
    const union address_any *ip = address->tcp ? &address->ip[turn % address->count] : NULL;

    assert(!address->tcp || address->count > 0);
    *len = ip ? len_of(ip) : address->len;
    return ip ? &ip->any : (const struct sockaddr *)&address->un;
}

int address_connect(const struct address *address, unsigned turn)
{
    const struct sockaddr *to;
    socklen_t len;
    int fd, r;

    if (address->tcp && address->count == 0)
        return -ENOENT; /* the name does not exist */
    to = choose(address, turn, &len);
    fd = open_socket(to->sa_family);
    if (fd < 0)
        return fd;
    if (address->tcp)
        set_tcp(fd);
    do
        r = connect(fd, to, len) < 0 ? -errno : 0;
    while (r == -EINTR);
    if (r < 0 && r != -EINPROGRESS) {
        (void)close(fd);
        return r;
    }
    return fd;
}

int address_connect_until(const struct address *address, unsigned turn, uint64_t deadline_ns)
{
    int fd;

    while ((fd = address_connect(address, turn)) == -EAGAIN && !address->tcp &&
           time_now_ns() < deadline_ns)
        (void)usleep(ADDRESS_AGAIN_MS * 1000);
    return fd;
}

int address_check_peer(const struct address *address, int fd)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    struct stat st;

    if (address->tcp)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0)
        return -errno;
    if (peer.uid == 0 || peer.uid == geteuid() ||
        (address_is_path(address) && stat(address->un.sun_path, &st) == 0 && st.st_uid == peer.uid))
        return 0;
    return -EPERM;
}

int address_listen(const struct address *address, unsigned mode, struct plenum_error *err)
{
    const struct sockaddr *at;
    socklen_t len;
    int fd, r, on = 1;

    if (address_is_path(address)) {
        int probe = address_connect(address, 0);

        if (probe >= 0 || probe == -EAGAIN) {
            io_close(&probe);
            return error_set(err, -EADDRINUSE, "another program is already listening on %s",
                             address->text);
        }
        if (probe == -ECONNREFUSED) /* a socket without a listener: its process is gone */
            (void)unlink(address->un.sun_path);
    }
    at = choose(address, 0, &len);
    fd = open_socket(at->sa_family);
    if (fd < 0)
        return error_set(err, fd, "cannot create a socket: %s", strerror(-fd));
    /* Connections of a loader that has just ended can linger in TIME_WAIT; do not let them block
     * us. */
    if (address->tcp)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, at, len) < 0 ||
        (address_is_path(address) && chmod(address->un.sun_path, mode) < 0) ||
        listen(fd, 256) < 0) {
        r = -errno;
        (void)close(fd);
        return error_set(err, r, "cannot listen on %s: %s", address->text, strerror(-r));
    }
    return fd;
}

/* Write an address that getsockname() or getpeername() returned with the result r. */
static char *format_found(int r, union address_any *a, char *text, size_t size)
{
    assert(size > 0);
    if (r < 0 || (a->any.sa_family != AF_INET && a->any.sa_family != AF_INET6)) {
        (void)snprintf(text, size, "?");
        return text;
    }
    if (a->any.sa_family == AF_INET6)
        a->in6.sin6_scope_id = 0; /* our interface's index means nothing to the other side */
    write_ip(a, text, size);
    return text;
}

char *address_of_socket(int fd, char *text, size_t size)
{
    union address_any a = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(a);

    return format_found(getsockname(fd, &a.any, &len), &a, text, size);
}

char *address_of_peer(int fd, char *text, size_t size)
{
    union address_any a = {.any = {.sa_family = AF_UNSPEC}};
    socklen_t len = sizeof(a);

    return format_found(getpeername(fd, &a.any, &len), &a, text, size);
}

bool address_is_local(const struct address *address)
{
    for (unsigned i = 0; i < address->count; i++) {
        const union address_any *ip = &address->ip[i];
        bool local = ip->any.sa_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&ip->in6.sin6_addr)
                                                   : ntohl(ip->in.sin_addr.s_addr) >> 24 == 127;

        if (!local)
            return false;
    }
    return !address->tcp || address->count > 0;
}
