/* SPDX-License-Identifier: MIT */
/* Tests garbage from the peer. A loader receives mutated frames, over TCP and a socket, from
 * clients that continue as long as they can, and must keep serving; a stream receives mutated
 * frames from two fake loaders, and must end with a batch or an error. Neither may crash, hang or
 * use ever more memory. This is a plain program, without Criterion.
 *
 * Only frames that the side under test has read count (counted_frames.h): once a frame ends the
 * connection, those after it are lost. So most connections, which last long, carry frames with an
 * intact header and corrupt contents; the others carry arbitrary bytes.
 *
 *     PLAY_FRAMES    number of mutated frames to a loader over each transport, and to a stream
 *                    (default: 100000 in all)
 *     PLAY_SIDES     the sides to play, such as "tcp stream" (default: tcp, unix and stream)
 *     PLAY_SEED      seed of the mutations */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <plenum/plenum.h>

#include "common/net/address.h"
#include "common/net/frame.h"
#include "common/net/ring.h"
#include "common/net/wire.h"
#include "common/util/util.h"
#include "tests/daemon.h"
#include "tests/libdist/counted_frames.h"
#include "tests/tap.h"
#include "tests/tree.h"

enum {
    SIDE = 16,
    COUNT = 4,
    SLOTS = 6,
    BURST = 96,        /* frames with an intact header that a client sends */
    WILD_BURST = 4,    /* frames with arbitrary errors that a client sends */
    POSE_FRAMES = 400, /* frames that a fake loader sends on one connection */
    STREAM_BATCHES = 300,
    HANG_MS = 60000,
    GROWTH_KB = 16384, /* a leak of a few bytes per frame would be megabytes */
};

static struct tree tree;
static uint64_t seed = 88172645463325252ULL;
static _Thread_local uint64_t state;
static bool hung, ended_wrongly;

static uint32_t draw(uint32_t below)
{
    if (state == 0)
        state = __atomic_add_fetch(&seed, 0x9e3779b97f4a7c15ULL, __ATOMIC_RELAXED) | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 11) % below;
}

/* Changes a byte between these offsets of the frame at `begin`. */
static void change(struct frame_buffer *b, size_t begin, size_t from, size_t to)
{
    static const uint8_t strange[] = {0, 1, 0x7f, 0x80, 0xff};
    uint8_t *at;

    to = min_u64(to, b->len - begin);
    if (from >= to)
        return;
    at = &b->bytes[begin + from + draw((uint32_t)(to - from))];
    *at = draw(2) ? *at ^ (uint8_t)(1 + draw(255)) : strange[draw(sizeof(strange))];
}

/* Corrupt one to three bytes of a frame, often of its header, and sometimes truncate it. The frames
 * after it may become unreadable. */
static void mutate(struct frame_buffer *b, size_t begin)
{
    size_t len = b->len - begin;

    for (uint32_t n = 1 + draw(3); n > 0; n--)
        change(b, begin, 0, draw(2) ? 24 : len);
    if (draw(50) == 0)
        b->len = begin + draw((uint32_t)len + 1);
}

/* Makes an OPEN message. Slots of both kinds are one page. */
static struct wire_open some_open(bool mix)
{
    struct wire_open o = {.dataset = "generated:1000",
                          .pipeline = "v1 resize(16) center_crop(16)",
                          .mix = mix,
                          .per_step = COUNT,
                          .local = COUNT,
                          .steps = 1,
                          .channels = 3,
                          .width = SIDE,
                          .height = SIDE,
                          .slots = SLOTS};
    struct wire_slot slot;

    if (mix)
        strcat(o.pipeline, " mixup(1)");
    (void)wire_slot_init(&o, &slot);
    o.slot_bytes = slot.bytes;
    return o;
}

static void put_hello(struct frame_buffer *b)
{
    struct wire_hello m;

    wire_hello_init(&m, "a player");
    (void)snprintf(m.versions, sizeof(m.versions), "v1 another");
    (void)wire_put_hello(b, &m);
}

static void put_clients(struct frame_buffer *b)
{
    static struct wire_open open;
    uint64_t request = draw(8);

    switch (draw(9)) {
    case 8:
        (void)wire_put_ask_fields(
            b, request,
            &(struct wire_ask_fields){.dataset = "generated:1000", .fields = "a:json:boxes"});
        break;
    case 0:
        put_hello(b);
        break;
    case 1:
        open = some_open(draw(2));
        (void)wire_put_open(b, request, &open);
        break;
    case 2:
        (void)wire_put_empty(b, WIRE_STATS, request);
        break;
    case 3:
        (void)wire_put_empty(b, draw(4) ? WIRE_CANCEL : WIRE_STATUS, request);
        break;
    case 4:
        (void)wire_put_ask_name(b, request,
                                &(struct wire_ask_name){.number = draw(1100), .of = draw(2)});
        break;
    default:
        (void)wire_put_render(
            b, request, &(struct wire_render){.position = draw(250) * COUNT, .slot = draw(SLOTS)});
    }
}

/* Writes a frame that a loader may accept, with a random request number, sample, position or
 * time. */
static void put_strange(struct frame_buffer *b, uint32_t *renders)
{
    size_t begin = b->len;
    uint64_t request = draw(8);

    switch (draw(8)) {
    case 0:
    case 1:
        (void)wire_put_empty(b, WIRE_STATS, request);
        break;
    case 2:
        (void)wire_put_empty(b, draw(50) ? WIRE_STATS : WIRE_STATUS, request);
        break;
    case 3:
    case 4:
        (void)wire_put_empty(b, WIRE_CANCEL, request);
        break;
    case 5:
        if (*renders < SLOTS) {
            (void)wire_put_render(
                b, request, &(struct wire_render){.position = draw(250) * COUNT, .slot = *renders});
            ++*renders;
            change(b, begin, FRAME_HEADER_BYTES + 20, SIZE_MAX); /* the time waited */
            change(b, begin, FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + 3 + draw(7));
            return;
        }
        /* fall through */
    default:
        (void)wire_put_ask_name(b, request,
                                &(struct wire_ask_name){.number = draw(1100), .of = draw(2)});
        change(b, begin, FRAME_HEADER_BYTES, SIZE_MAX);
    }
    change(b, begin, 8, FRAME_HEADER_BYTES);
}

/* Reads until a frame of this type or the end arrives, or nothing arrives for this long. */
static bool await(struct frame_conn *c, uint16_t type, int silence_ms)
{
    struct frame_header h;
    struct frame_reader r;

    for (int i = 0; i < 1000; i++) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        int64_t n;

        while (frame_conn_next(c, &h, &r) == 1)
            if (h.type == type)
                return true;
        if (poll(&p, 1, silence_ms) <= 0)
            return false;
        n = frame_conn_fill(c);
        if (n < 0 && n != -EAGAIN)
            return false;
    }
    return false;
}

/* Reads everything that the peer sends until it closes the connection, which it must. */
static void drain(struct frame_conn *c)
{
    struct pollfd p = {.fd = c->fd, .events = POLLIN};
    char bytes[65536];
    ssize_t n;

    do {
        if (poll(&p, 1, HANG_MS) <= 0) {
            hung = true;
            return;
        }
        n = recv(c->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    } while (n > 0 || (n < 0 && errno == EAGAIN));
}

/* Sends an unexpected descriptor, or none where a ring is required, or one that is not a ring. */
static void attach(struct frame_conn *c, const struct ring *ring)
{
    int fd = -1;

    if (draw(16) > 0)
        fd = ring ? dup(ring->fd) : -1;
    else if (draw(2))
        fd = open(draw(2) ? "/dev/zero" : tree.root, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && frame_conn_attach_fd(c, fd) < 0)
        (void)close(fd);
}

/* Plays one client, which sends valid messages and then invalid ones. Returns how many of its
 * messages were valid. */
static uint64_t play_client(const struct address *address, const struct ring *ring)
{
    static struct wire_open open;
    uint32_t good = draw(8), renders = 0;
    struct frame_conn c;
    uint64_t whole = 0;

    open = some_open(draw(2));
    if (frame_conn_init(&c, address_connect(address, 0), WIRE_MAX_PAYLOAD) < 0)
        return 0;
    if (good > 0) { /* otherwise, the greeting is garbage */
        put_hello(&c.tx);
        whole++;
    }
    if (good > 1) { /* otherwise, the request to open is garbage */
        if (!address->tcp)
            attach(&c, ring);
        (void)wire_put_open(&c.tx, 1, &open);
        whole++;
        (void)frame_conn_flush(&c);
        (void)await(&c, WIRE_OPENED, 1000);
    }
    if (good > 2)
        for (int i = 0; i < BURST; i++) {
            put_strange(&c.tx, &renders);
            if (i == BURST / 2)
                (void)frame_conn_flush(&c);
        }
    for (int i = 0; i < WILD_BURST; i++) {
        size_t begin = c.tx.len;

        if (!address->tcp && draw(16) == 0)
            attach(&c, ring);
        if (i == 0 && good < 2 && draw(2)) {
            if (good == 0)
                put_hello(&c.tx);
            else
                (void)wire_put_open(&c.tx, 1, &open);
        } else {
            put_clients(&c.tx);
        }
        mutate(&c.tx, begin);
    }
    (void)frame_conn_flush(&c);
    if (draw(4)) {
        (void)shutdown(c.fd, SHUT_WR);
        drain(&c);
    }
    frame_conn_fini(&c);
    return whole;
}

static void die(const char *what)
{
    fprintf(stderr, "test_play: %s\n", what);
    exit(1);
}

static long field_of(pid_t pid, const char *name)
{
    char path[64], line[256];
    long value = -1;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%ld/status", (long)pid);
    f = fopen(path, "re");
    while (f && fgets(line, sizeof(line), f))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtol(line + strlen(name), NULL, 10);
    if (f)
        (void)fclose(f);
    return value;
}

static uint64_t hash_from(const char *loader, struct plenum_error *err)
{
    struct plenum_stream_options o;
    struct plenum_stream *s;
    struct plenum_batch b;
    uint64_t hash = 0;

    plenum_stream_options_init(&o);
    o.dataset = "generated:1000";
    o.pipeline = "resize(16) center_crop(16) mixup(1)";
    o.loader = loader;
    o.micro_batch = COUNT;
    o.epochs = 1;
    if (plenum_stream_open(NULL, &o, &s, err) < 0)
        return 0;
    while (plenum_stream_next(s, PLENUM_FOREVER, &b, err) == 0) {
        hash += plenum_batch_hash(&b);
        plenum_batch_release(&b);
    }
    plenum_stream_destroy(s);
    return hash;
}

static unsigned count_descriptors(pid_t pid)
{
    char path[64];
    struct dirent **names;
    int n;

    (void)snprintf(path, sizeof(path), "/proc/%ld/fd", (long)pid);
    n = scandir(path, &names, NULL, NULL);
    for (int i = 0; i < n; i++)
        free(names[i]);
    if (n >= 0)
        free(names);
    return n > 0 ? (unsigned)n : 0;
}

/* Memory and descriptors of a process after the first quarter, and at the end. */
struct growth {
    pid_t pid;
    uint64_t frames, told;
    long before;
};

static void growth_look(struct growth *g, uint64_t read)
{
    if (g->before == 0 && read >= g->frames / 4)
        g->before = field_of(g->pid, "VmRSS:");
    if (read - g->told >= 1000000) {
        g->told = read;
        printf("# %llu frames have been read, %ld KiB are resident\n", (unsigned long long)read,
               field_of(g->pid, "VmRSS:"));
        (void)fflush(stdout);
    }
}

static bool is_played(const char *side)
{
    const char *sides = getenv("PLAY_SIDES");

    return !sides || strstr(sides, side);
}

static void play_with_loader(const char *side, pid_t loader, const char *unix_socket,
                             const struct address *address, uint64_t frames)
{
    struct growth g = {.pid = loader, .frames = frames};
    struct plenum_error err = {""};
    struct ring *ring = NULL;
    struct wire_open open = some_open(true);
    uint64_t begin, read = 0, whole = 0, clients, want = hash_from(unix_socket, &err);
    unsigned descriptors = count_descriptors(loader);
    long after;

    if (!address->tcp && ring_create(SLOTS, open.slot_bytes, &ring, &err) < 0)
        die(err.text);
    begin = atomic_load(counted_frames);
    for (clients = 0; read < frames && !hung; clients++) {
        uint64_t all;

        whole += play_client(address, ring);
        all = atomic_load(counted_frames) - begin;
        read = all - min_u64(all, whole);
        growth_look(&g, read);
    }
    after = field_of(loader, "VmRSS:");
    printf("# %s: a loader read %llu mutated frames of %llu clients; %ld KiB resident after a "
           "quarter, %ld at the end\n",
           side, (unsigned long long)read, (unsigned long long)clients, g.before, after);
    tap_ok(!hung && hash_from(address->text, &err) == want && want != 0,
           "%s: a loader still serves after mutated frames", side);
    tap_ok(after < g.before + GROWTH_KB, "%s: the loader has not grown", side);
    for (int i = 0; i < 600 && count_descriptors(loader) > descriptors; i++)
        (void)usleep(100000);
    tap_ok(count_descriptors(loader) <= descriptors,
           "%s: the loader has no more descriptors than before (%u)", side, descriptors);
    ring_destroy(ring);
}

static void play_with_loaders(uint64_t frames)
{
    char unix_socket[128], listen[64], tcp[80];
    const char *const args[] = {"--listen", listen, "--root", tree.root, NULL};
    unsigned me = (unsigned)getpid();
    struct address address;
    pid_t loader;

    (void)snprintf(unix_socket, sizeof(unix_socket), "unix:%s/a.sock", tree.root);
    (void)snprintf(listen, sizeof(listen), "127.%u.%u.%u:7000", 1 + (me >> 16) % 250, me >> 8 & 255,
                   me & 255);
    (void)snprintf(tcp, sizeof(tcp), "tcp:%s", listen);
    loader = daemon_start_with(unix_socket, "1", args);
    (void)address_parse(tcp, &address, NULL);
    if (is_played("tcp"))
        play_with_loader("tcp", loader, unix_socket, &address, frames);
    (void)address_parse(unix_socket, &address, NULL);
    if (is_played("unix"))
        play_with_loader("unix", loader, unix_socket, &address, frames);
    tap_ok(daemon_end(loader, SIGTERM) == 0, "the loader ends as requested, without errors");
}

/* A fake loader. */
struct pose {
    struct address address;
    int fd;
    pthread_t thread;
};

static atomic_bool pose_stop;
static atomic_ulong pose_whole; /* valid messages */

/* Writes a random message of a loader, with a random error in it. */
static void put_loaders(struct frame_buffer *b)
{
    size_t begin = b->len;
    struct wire_opened opened = {.samples = 1000, .classes = 10, .threads = 1, .io_threads = 1};
    uint64_t request = draw(10);

    switch (draw(9)) {
    case 8:
        (void)wire_put_fields(
            b, request,
            &(struct wire_fields){.count = 1, .field = {{.type = PLENUM_FIELD_BOXES, .room = 40}}});
        break;
    case 0:
        put_hello(b);
        break;
    case 1:
        (void)wire_put_opened(b, request, &opened);
        break;
    case 2:
        (void)wire_put_error(b, request,
                             &(struct wire_error){.code = -(int)draw(130), .text = "x"});
        break;
    case 3:
        (void)wire_put_empty(b, WIRE_CANCELLED, request);
        break;
    case 4:
        (void)wire_put_progress(b, request, &(struct wire_progress){.done = 1, .text = "x"});
        break;
    case 5:
        (void)wire_put_name(b, request, &(struct wire_name){.text = "x"});
        break;
    default:
        (void)wire_put_done(b, request,
                            &(struct wire_done){.status = draw(4) ? 0 : -EIO, .text = "x"});
    }
    mutate(b, begin);
}

/* Answers the stream's message with a wrong time or number. */
static void put_answer(struct frame_conn *c, const struct frame_header *h, const struct pose *p,
                       size_t batch_bytes)
{
    static const uint8_t pixels[COUNT * SIDE * SIDE * 3 + 65536];
    struct frame_buffer *b = &c->tx;
    size_t begin = b->len;
    struct wire_done done = {.text = "x"};

    switch (h->type) {
    case WIRE_RENDER:
        if (draw(32) == 0)
            done.status = draw(4) ? -EIO : -(int32_t)draw(140);
        (void)wire_put_done(b, h->request, &done);
        change(b, begin, FRAME_HEADER_BYTES + 4, FRAME_HEADER_BYTES + 40); /* times */
        if (draw(8) == 0)
            change(b, begin, FRAME_HEADER_BYTES + 40, SIZE_MAX);
        if (p->address.tcp && done.status == 0 && draw(200))
            frame_put_bytes(b, pixels, min_u64(batch_bytes, sizeof(pixels)));
        return;
    case WIRE_CANCEL:
        (void)wire_put_empty(b, WIRE_CANCELLED, h->request);
        if (draw(4) == 0)
            change(b, begin, 8, SIZE_MAX);
        return;
    case WIRE_NAME:
        (void)wire_put_name(b, h->request, &(struct wire_name){.text = "name"});
        change(b, begin, draw(4) ? FRAME_HEADER_BYTES + 4 : 8, SIZE_MAX);
        return;
    default:
        (void)wire_put_stats(b, h->request, &(struct wire_stats){.uptime_ns = 1});
        change(b, begin, draw(4) ? FRAME_HEADER_BYTES : 8, SIZE_MAX);
    }
}

/* Writes messages that a stream may receive at any time without an error. */
static void put_unasked(struct frame_buffer *b)
{
    size_t begin = b->len;

    if (draw(2))
        (void)wire_put_stats(b, draw(8), &(struct wire_stats){.uptime_ns = 1});
    else
        (void)wire_put_progress(b, draw(8), &(struct wire_progress){.done = 1, .text = "x"});
    change(b, begin, 8, SIZE_MAX);
}

/* Serves one connection of a stream: the greeting, then wrong answers, and garbage at the end. */
static void pose_serve(const struct pose *p, struct frame_conn *c)
{
    uint32_t good = draw(16);
    struct wire_open open;
    struct wire_slot slot;
    struct frame_header h;
    struct frame_reader r;
    size_t begin;

    if (good > 0 && !await(c, WIRE_HELLO, 100))
        return;
    begin = c->tx.len;
    put_hello(&c->tx);
    if (good < 2)
        mutate(&c->tx, begin);
    else
        (void)atomic_fetch_add(&pose_whole, 1);
    (void)frame_conn_flush(c);
    if (good < 2)
        return;
    open = some_open(true);
    (void)wire_slot_init(&open, &slot);
    if (!await(c, WIRE_OPEN, 100))
        return;
    begin = c->tx.len;
    (void)wire_put_opened(
        &c->tx, 1,
        &(struct wire_opened){.samples = 1000, .classes = 10, .threads = 1, .io_threads = 1});
    if (good == 2)
        mutate(&c->tx, begin);
    else
        (void)atomic_fetch_add(&pose_whole, 1);
    for (int n = 0; n < POSE_FRAMES && good > 2;) {
        struct pollfd poller = {.fd = c->fd, .events = POLLIN};
        int64_t got;

        while (n < POSE_FRAMES && frame_conn_next(c, &h, &r) == 1) {
            put_answer(c, &h, p, slot.end);
            for (uint32_t k = draw(12); k > 0; k--, n++)
                put_unasked(&c->tx);
            n++;
        }
        if (frame_conn_flush(c) < 0 || poll(&poller, 1, 100) <= 0)
            return;
        got = frame_conn_fill(c);
        if (got < 0 && got != -EAGAIN)
            return;
    }
    for (int i = 0; i < WILD_BURST; i++)
        put_loaders(&c->tx);
    (void)frame_conn_flush(c);
    if (draw(2)) {
        (void)shutdown(c->fd, SHUT_WR);
        drain(c);
    }
}

static void *pose_main(void *arg)
{
    struct pose *p = arg;

    counted_not = true;
    while (!atomic_load(&pose_stop)) {
        struct pollfd poller = {.fd = p->fd, .events = POLLIN};
        struct frame_conn c;
        int fd;

        if (poll(&poller, 1, 50) <= 0 || (fd = accept(p->fd, NULL, NULL)) < 0)
            continue;
        (void)frame_conn_init(&c, fd, WIRE_MAX_PAYLOAD);
        pose_serve(p, &c);
        frame_conn_fini(&c);
    }
    return NULL;
}

/* Takes batches until the stream has ended, or for a while. */
static void play_stream(struct plenum_stream *s, uint64_t *batches)
{
    struct plenum_error err;
    struct plenum_batch b;
    int r, failed = 0;

    for (int i = 0; i < STREAM_BATCHES && failed < 3; i++) {
        char **names;

        r = plenum_stream_next(s, HANG_MS * NS_PER_MS, &b, &err);
        if (r == -EAGAIN) {
            hung = true;
            return;
        }
        ended_wrongly |= r == -ENODATA || r == -ENOBUFS || r == -ECHILD;
        failed = r < 0 ? failed + 1 : 0;
        if (r < 0)
            continue;
        ++*batches;
        if (i % 16 == 0 &&
            plenum_stream_sample_names(s, (const uint32_t[]){1, 2, 3}, 3, &names, &err) == 0)
            free(names);
        plenum_batch_release(&b);
    }
}

static void play_with_stream(uint64_t frames)
{
    struct growth g = {.pid = getpid(), .frames = frames};
    struct plenum_error err = {""};
    struct pose poses[2];
    char loaders[400], listen[64];
    const char *const named[] = {poses[0].address.text, poses[1].address.text, loaders};
    uint64_t read = 0, batches = 0, failed = 0, opened = 0, unexplained = 0;
    unsigned me = (unsigned)getpid(), descriptors = 0;
    long after;

    (void)snprintf(loaders, sizeof(loaders), "unix:%s/pose.sock", tree.root);
    (void)address_parse(loaders, &poses[0].address, NULL);
    (void)snprintf(listen, sizeof(listen), "tcp:127.%u.%u.%u:7001", 1 + (me >> 16) % 250,
                   me >> 8 & 255, me & 255);
    (void)address_parse(listen, &poses[1].address, NULL);
    (void)snprintf(loaders, sizeof(loaders), "%s,%s", poses[0].address.text, poses[1].address.text);
    for (int i = 0; i < 2; i++) {
        poses[i].fd = address_listen(&poses[i].address, 0600, &err);
        if (poses[i].fd < 0)
            die(err.text);
        (void)pthread_create(&poses[i].thread, NULL, pose_main, &poses[i]);
    }
    while (read < frames && !hung) {
        struct plenum_stream_options o;
        struct plenum_stream *s;
        uint64_t all;

        plenum_stream_options_init(&o);
        o.dataset = "generated:1000";
        o.pipeline = "resize(16) center_crop(16) mixup(1)";
        o.loader = named[(opened + failed) % 3];
        o.micro_batch = COUNT;
        o.prefetch_depth = 1 + draw(8);
        o.loader_timeout_ns = 30 * NS_PER_MS;
        o.silence_ns = 20 * NS_PER_MS;
        if (plenum_stream_open(NULL, &o, &s, &err) < 0) {
            failed++;
            unexplained += err.text[0] == '\0';
        } else {
            opened++;
            play_stream(s, &batches);
            plenum_stream_destroy(s);
        }
        all = atomic_load(counted_frames);
        read = all - min_u64(all, atomic_load(&pose_whole));
        growth_look(&g, read);
        if (descriptors == 0)
            descriptors = count_descriptors(getpid());
    }
    after = field_of(getpid(), "VmRSS:");
    atomic_store(&pose_stop, true);
    for (int i = 0; i < 2; i++) {
        (void)pthread_join(poses[i].thread, NULL);
        (void)close(poses[i].fd);
    }
    printf("# stream: %llu mutated frames were read by %llu streams, which delivered %llu "
           "batches; %llu could not be opened\n",
           (unsigned long long)read, (unsigned long long)opened, (unsigned long long)batches,
           (unsigned long long)failed);
    printf("# stream: %ld KiB resident after a quarter, %ld at the end\n", g.before, after);
    tap_ok(!hung && opened > 0 && batches > 0,
           "streams end with batches or an error, whatever a loader sends");
    tap_ok(!ended_wrongly,
           "stream: a loader's failure is not reported as the end of the epochs, or "
           "as the program's error");
    tap_ok(unexplained == 0, "stream: each stream that cannot be opened has an error message");
    tap_ok(after < g.before + GROWTH_KB, "stream: the process has not grown");
    tap_ok(count_descriptors(getpid()) <= descriptors,
           "stream: the process has no more descriptors than before (%u)", descriptors);
}

/* Finds the loader that counts frames. */
static void find_loader(void)
{
    const char *built = getenv("PLENUM_PLENUMD");
    char text[4096];
    int fd;

    (void)snprintf(text, sizeof(text), "%s", tree_path(&tree, "count"));
    fd = open(text, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (!built || fd < 0 || ftruncate(fd, sizeof(*counted_frames)) < 0)
        die("PLENUM_PLENUMD is not set: run this by make check");
    counted_frames = mmap(NULL, sizeof(*counted_frames), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    (void)setenv("PLENUM_COUNTED_FRAMES", text, 1);
    (void)snprintf(text, sizeof(text), "%.*s/tests/libdist/plenumd-counted",
                   (int)(strrchr(built, '/') - built), built);
    (void)setenv("PLENUM_PLENUMD", text, 1);
}

int main(void)
{
    const char *frames_text = getenv("PLAY_FRAMES"), *seed_text = getenv("PLAY_SEED");
    uint64_t frames = frames_text ? strtoull(frames_text, NULL, 10) : 34000;

    seed += seed_text ? strtoull(seed_text, NULL, 10) : 0;
    (void)signal(SIGPIPE, SIG_IGN);
    tree_init(&tree);
    find_loader();
    counted_not = true;
    if (is_played("tcp") || is_played("unix"))
        play_with_loaders(frames);
    atomic_store(counted_frames, 0);
    if (is_played("stream"))
        play_with_stream(frames);
    tree_fini(&tree);
    return tap_end();
}
