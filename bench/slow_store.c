/* SPDX-License-Identifier: MIT */
/* slow_store.c - an object store for bench/stores.py. It serves a folder's files from bucket "b"
 * and delays each answer by a fixed time. It sends files from mapped memory, so that it is not the
 * bottleneck. It does not verify signatures.
 *
 *     slow_store FOLDER MILLISECONDS      prints its port
 *
 * It answers GET and HEAD of /b/KEY, with ranges, and lists objects. */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/util/list.h"
#include "common/util/util.h"

enum { REQUEST_MAX = 16 << 10, EVENTS = 256 };

struct stored {
    char *key;
    const char *bytes;
    size_t len;
};

struct client {
    int fd;
    char in[REQUEST_MAX];
    size_t in_len;
    struct list link; /* in `waiting` */
    uint64_t due_ns;
    char head[512];
    char *made; /* a body that is not from a file, or NULL */
    struct iovec out[2];
};

static struct stored *files;
static size_t num_files, cap_files, folder_len;
static struct list waiting; /* the delay is constant, so the list is in the order of due times */
static uint64_t delay_ns;

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    struct stored f = {.key = strdup(path + folder_len + 1), .len = (size_t)st->st_size};
    int fd = type == FTW_F ? open(path, O_RDONLY | O_CLOEXEC) : -1;

    (void)ftw;
    if (fd < 0 || f.len == 0 || !f.key) {
        free(f.key);
        io_close(&fd);
        return 0;
    }
    f.bytes = mmap(NULL, f.len, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    (void)close(fd);
    if (f.bytes == MAP_FAILED || array_grow(&files, &cap_files, num_files, sizeof(f)) < 0)
        return -1;
    files[num_files++] = f;
    return 0;
}

static const struct stored *find(const char *key, size_t len)
{
    for (size_t i = 0; i < num_files; i++)
        if (strlen(files[i].key) == len && memcmp(files[i].key, key, len) == 0)
            return &files[i];
    return NULL;
}

/* ---- answers ---- */

static void answer(struct client *c, const char *status, const char *more, const void *body,
                   size_t len)
{
    int n = snprintf(c->head, sizeof(c->head), "HTTP/1.1 %s\r\nContent-Length: %zu\r\n%s\r\n",
                     status, len, more);

    c->out[0] = (struct iovec){c->head, (size_t)n};
    c->out[1] = (struct iovec){(void *)(uintptr_t)body, strncmp(c->in, "HEAD", 4) ? len : 0};
}

static void answer_file(struct client *c, const struct stored *f, const char *range)
{
    unsigned long long first = 0, last = f->len - 1;
    char more[256];
    int n = snprintf(more, sizeof(more),
                     "ETag: \"%zx\"\r\nLast-Modified: Fri, 02 Jan 2026 03:04:05 GMT\r\n"
                     "Accept-Ranges: bytes\r\nContent-Type: application/octet-stream\r\n",
                     f->len);

    if (range && sscanf(range, "bytes=%llu-%llu", &first, &last) >= 1 && first < f->len) {
        last = min_u64(last, f->len - 1);
        (void)snprintf(more + n, sizeof(more) - (size_t)n, "Content-Range: bytes %llu-%llu/%zu\r\n",
                       first, last, f->len);
        answer(c, "206 Partial Content", more, f->bytes + first, (size_t)(last - first + 1));
        return;
    }
    answer(c, "200 OK", more, f->bytes, f->len);
}

/* Copy the decoded value of a parameter; "" if there is none. */
static void copy_parameter(const char *query, const char *name, char *ret, size_t size)
{
    const char *at = strstr(query, name);
    size_t n = 0;

    for (at = at ? at + strlen(name) : ""; *at && *at != '&' && *at != ' ' && n + 1 < size; at++) {
        unsigned char byte = (unsigned char)*at;

        if (byte == '%' && at[1] && at[2]) {
            (void)parse_hex((char[]){at[1], at[2], '\0'}, &byte, 1);
            at += 2;
        }
        ret[n++] = (char)byte;
    }
    ret[n] = '\0';
}

/* Answer with a list of all objects below the prefix in the query. */
static void answer_list(struct client *c, const char *query)
{
    char prefix[1024];
    size_t len = 0, prefix_len;
    FILE *text = open_memstream(&c->made, &len);

    copy_parameter(query, "prefix=", prefix, sizeof(prefix));
    prefix_len = strlen(prefix);
    fprintf(text, "<?xml version=\"1.0\"?><ListBucketResult><Name>b</Name>"
                  "<IsTruncated>false</IsTruncated>");
    for (size_t i = 0; i < num_files; i++)
        if (strncmp(files[i].key, prefix, prefix_len) == 0)
            fprintf(text,
                    "<Contents><Key>%s</Key><LastModified>2026-01-02T03:04:05.000Z</LastModified>"
                    "<ETag>&quot;%zx&quot;</ETag><Size>%zu</Size></Contents>",
                    files[i].key, files[i].len, files[i].len);
    fprintf(text, "</ListBucketResult>");
    (void)fclose(text);
    answer(c, "200 OK", "Content-Type: application/xml\r\n", c->made, len);
}

static const char *header_of(const struct client *c, const char *name)
{
    for (const char *line = strstr(c->in, "\r\n"); line; line = strstr(line + 2, "\r\n"))
        if (strncasecmp(line + 2, name, strlen(name)) == 0)
            return line + 2 + strlen(name);
    return NULL;
}

static void prepare(struct client *c)
{
    const char *path = strchr(c->in, ' '), *end = path ? strpbrk(path + 1, " ?") : NULL;
    const struct stored *f;

    if (!end || strncmp(path, " /b", 3) != 0)
        answer(c, "404 Not Found", "", NULL, 0);
    else if (path[3] != '/' || end == path + 4)
        answer_list(c, end);
    else if ((f = find(path + 4, (size_t)(end - path - 4))))
        answer_file(c, f, header_of(c, "range: "));
    else
        answer(c, "404 Not Found", "", NULL, 0);
}

/* ---- connections ---- */

static void drop(struct client *c)
{
    if (list_is_linked(&c->link))
        list_remove(&c->link);
    (void)close(c->fd);
    free(c->made);
    free(c);
}

/* Send the rest of the answer. Returns false if the client has gone. */
static bool push(struct client *c)
{
    while (c->out[0].iov_len + c->out[1].iov_len > 0) {
        ssize_t n = writev(c->fd, c->out, 2);

        if (n < 0)
            return errno == EAGAIN || errno == EINTR;
        for (int i = 0; i < 2; i++) {
            size_t part = (size_t)min_u64((uint64_t)n, c->out[i].iov_len);

            c->out[i].iov_base = (char *)c->out[i].iov_base + part;
            c->out[i].iov_len -= part;
            n -= (ssize_t)part;
        }
    }
    free(c->made);
    c->made = NULL;
    return true;
}

/* Take a whole request, if it has arrived. */
static void take(struct client *c)
{
    char *end = memmem(c->in, c->in_len, "\r\n\r\n", 4);

    if (!end || list_is_linked(&c->link) || c->out[0].iov_len + c->out[1].iov_len > 0)
        return;
    end[2] = '\0';
    prepare(c);
    c->in_len -= (size_t)(end + 4 - c->in);
    memmove(c->in, end + 4, c->in_len);
    c->due_ns = time_now_ns() + delay_ns;
    list_add_last(&waiting, &c->link);
}

static bool pull(struct client *c)
{
    ssize_t n;

    do {
        n = read(c->fd, c->in + c->in_len, sizeof(c->in) - 1 - c->in_len);
        if (n > 0)
            c->in_len += (size_t)n;
        c->in[c->in_len] = '\0';
    } while (n > 0);
    return n < 0 && (errno == EAGAIN || errno == EINTR);
}

static void welcome(int poll, int listener)
{
    struct client *c = calloc(1, sizeof(*c));
    int one = 1;

    if (!c)
        return;
    c->fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (c->fd < 0) {
        free(c);
        return;
    }
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    if (epoll_ctl(poll, EPOLL_CTL_ADD, c->fd,
                  &(struct epoll_event){.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = c}) < 0)
        drop(c);
}

/* Send the answers that are due. Returns the milliseconds until the next one. */
static int send_due(void)
{
    struct list *at;

    while ((at = list_first(&waiting))) {
        struct client *c = container_of(at, struct client, link);
        uint64_t now = time_now_ns();

        if (c->due_ns > now)
            return (int)((c->due_ns - now) / NS_PER_MS) + 1;
        list_remove(&c->link);
        if (push(c))
            take(c);
        else
            drop(c);
    }
    return -1;
}

static int serve(int listener)
{
    int poll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event events[EVENTS], first = {.events = EPOLLIN};

    if (poll < 0 || epoll_ctl(poll, EPOLL_CTL_ADD, listener, &first) < 0)
        return 1;
    for (;;) {
        int n = epoll_wait(poll, events, EVENTS, send_due());

        for (int i = 0; i < n; i++) {
            struct client *c = events[i].data.ptr;

            if (!c)
                welcome(poll, listener);
            else if (!pull(c) || (!list_is_linked(&c->link) && !push(c)))
                drop(c);
            else
                take(c);
        }
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    uint64_t ms;

    if (argc != 3 || parse_u64(argv[2], 10000, &ms) < 0) {
        fprintf(stderr, "usage: slow_store FOLDER MILLISECONDS\n");
        return 2;
    }
    delay_ns = ms * NS_PER_MS;
    folder_len = strlen(argv[1]);
    list_init(&waiting);
    if (nftw(argv[1], add_file, 16, FTW_PHYS) != 0 || listener < 0 ||
        bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
        listen(listener, 1024) < 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) < 0) {
        fprintf(stderr, "slow_store: %s\n", strerror(errno));
        return 1;
    }
    printf("%u\n", ntohs(address.sin_port));
    (void)fflush(stdout);
    return serve(listener);
}
