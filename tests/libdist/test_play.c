/* Nonsense from the other side. A loader is sent mutated frames by TCP, by clients that get as far as they may, and serves
 * as before; a stream is sent mutated frames by what poses as a loader, and ends with a batch or an error. Neither crashes,
 * hangs or grows. A plain program; PLAY_FRAMES says how many frames (default: 100000). */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <plenum/plenum.h>

#include "common/address.h"
#include "common/frame.h"
#include "common/util.h"
#include "common/wire.h"
#include "tests/daemon.h"
#include "tests/tap.h"
#include "tests/tree.h"

enum { SIDE = 16, COUNT = 4, SLOTS = 6, BURST = 24 };

static struct tree tree;
static uint64_t state = 88172645463325252ULL;

static uint32_t draw(uint32_t below)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 11) % below;
}

/* Change some bytes of what was put from `begin` on: any, or such that lengths and numbers become strange. */
static void mutate(struct frame_buffer *b, size_t begin)
{
    static const uint8_t strange[] = {0, 1, 0x7f, 0x80, 0xff};
    size_t len = b->len - begin;

    for (uint32_t n = draw(4); n > 0; n--) {
        uint8_t *at = &b->bytes[begin + draw((uint32_t)(draw(2) ? min_u64(len, 24) : len))];

        *at = draw(2) ? (uint8_t)draw(256) : strange[draw(sizeof(strange))];
    }
    if (draw(50) == 0)
        b->len = begin + draw((uint32_t)len + 1); /* cut short: what follows is out of step */
}

static struct wire_open some_open(void)
{
    struct wire_open o = {.dataset = "generated:1000",
                          .pipeline = "v1 resize(16) center_crop(16)",
                          .per_step = COUNT,
                          .local = COUNT,
                          .steps = 1,
                          .channels = 3,
                          .side = SIDE,
                          .slots = SLOTS};
    struct wire_slot slot;

    (void)wire_slot_init(&o, &slot);
    o.slot_bytes = slot.bytes;
    return o;
}

static void put_hello(struct frame_buffer *b)
{
    struct wire_hello m;

    wire_hello_init(&m, "a player");
    (void)snprintf(m.versions, sizeof(m.versions), "v1 fast-v1");
    (void)wire_put_hello(b, &m);
}

static void put_clients(struct frame_buffer *b)
{
    static struct wire_open open;
    uint64_t request = draw(8);

    switch (draw(8)) {
    case 0:
        put_hello(b);
        break;
    case 1:
        open = some_open();
        (void)wire_put_open(b, request, &open);
        break;
    case 2:
        (void)wire_put_empty(b, WIRE_STATS, request);
        break;
    case 3:
        (void)wire_put_empty(b, draw(4) ? WIRE_CANCEL : WIRE_STATUS, request);
        break;
    case 4:
        (void)wire_put_ask_name(b, request, &(struct wire_ask_name){.sample = draw(1100)});
        break;
    default:
        (void)wire_put_render(b, request,
                              &(struct wire_render){.position = draw(250) * COUNT, .slot = draw(SLOTS)});
    }
}

/* Read until a frame of this type has come, or the end, or nothing has come for so long. */
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

/* One client: it behaves for some messages, and then it does not. Returns the mutated frames that it sent. */
static uint64_t play_client(const struct address *address)
{
    uint32_t good = draw(3);
    struct wire_open open = some_open();
    struct frame_conn c;
    uint64_t sent = 0;
    char drain[65536];

    if (frame_conn_init(&c, address_connect(address, 0), WIRE_MAX_PAYLOAD) < 0)
        return 0;
    if (good > 0)
        put_hello(&c.tx);
    if (good > 1) {
        (void)wire_put_open(&c.tx, 1, &open);
        (void)frame_conn_flush(&c);
        (void)await(&c, WIRE_OPENED, 1000);
    }
    for (; sent < BURST; sent++) {
        size_t begin = c.tx.len;

        if (sent == 0 && good < 2 && draw(2)) { /* the greeting itself, or what is to be opened */
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
    if (draw(2))
        (void)await(&c, WIRE_BYE, 3); /* all that it says, to the end */
    else
        (void)!recv(c.fd, drain, sizeof(drain), MSG_DONTWAIT);
    frame_conn_fini(&c);
    return sent;
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
    o.pipeline = "resize(16) center_crop(16)";
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

static void play_with_loader(uint64_t frames)
{
    char unix_socket[128], listen[64], tcp[80];
    const char *const args[] = {"--listen", listen, "--root", tree.root, NULL};
    struct plenum_error err = {""};
    unsigned me = (unsigned)getpid();
    uint64_t sent = 0, want;
    struct address address;
    long before = 0;
    pid_t loader;

    (void)snprintf(unix_socket, sizeof(unix_socket), "unix:%s/a.sock", tree.root);
    (void)snprintf(listen, sizeof(listen), "127.%u.%u.%u:7000", 1 + (me >> 16) % 250, me >> 8 & 255, me & 255);
    (void)snprintf(tcp, sizeof(tcp), "tcp:%s", listen);
    (void)address_parse(tcp, &address, NULL);
    loader = daemon_start_with(unix_socket, "1", args);
    want = hash_from(unix_socket, &err);
    while (sent < frames) {
        sent += play_client(&address);
        if (before == 0 && sent >= frames / 4)
            before = field_of(loader, "VmRSS:");
    }
    tap_ok(hash_from(tcp, &err) == want && want != 0, "a loader serves as before, after mutated frames");
    /* Megabytes would be some bytes a frame; sanitizers keep what was freed. */
    tap_ok(getenv("PLENUM_SANITIZED") || field_of(loader, "VmRSS:") < before + 16384, "and has not grown");
    (void)daemon_end(loader, SIGTERM);
}

static struct {
    int fd;
    atomic_bool stop;
    atomic_ulong sent;
} pose;

static void put_loaders(struct frame_buffer *b)
{
    struct wire_opened opened = {.samples = 1000, .classes = 10, .threads = 1, .io_threads = 1};
    uint64_t request = draw(10);

    switch (draw(7)) {
    case 0:
        put_hello(b);
        break;
    case 1:
        (void)wire_put_opened(b, request, &opened);
        break;
    case 2:
        (void)wire_put_stats(b, request, &(struct wire_stats){.uptime_ns = 1});
        break;
    case 3:
        (void)wire_put_empty(b, WIRE_CANCELLED, request);
        break;
    case 4:
        (void)wire_put_progress(b, request, &(struct wire_progress){.done = 1, .text = "x"});
        break;
    default:
        (void)wire_put_done(b, request, &(struct wire_done){.status = draw(4) ? 0 : -EIO, .text = "x"});
    }
}

static void *pose_main(void *arg)
{
    (void)arg;
    while (!atomic_load(&pose.stop)) {
        struct pollfd p = {.fd = pose.fd, .events = POLLIN};
        uint32_t good = draw(4);
        struct frame_conn c;
        int fd;

        if (poll(&p, 1, 50) <= 0 || (fd = accept(pose.fd, NULL, NULL)) < 0)
            continue;
        (void)frame_conn_init(&c, fd, WIRE_MAX_PAYLOAD);
        if (good > 0 && await(&c, WIRE_HELLO, 20))
            put_hello(&c.tx);
        (void)frame_conn_flush(&c);
        if (good > 1 && await(&c, WIRE_OPEN, 20))
            (void)wire_put_opened(
                &c.tx, 1, &(struct wire_opened){.samples = 1000, .classes = 10, .threads = 1, .io_threads = 1});
        for (int i = 0; i < BURST; i++) {
            size_t begin = c.tx.len;

            put_loaders(&c.tx);
            mutate(&c.tx, begin);
            (void)atomic_fetch_add(&pose.sent, 1);
        }
        (void)frame_conn_flush(&c);
        frame_conn_fini(&c);
    }
    return NULL;
}

static void play_with_stream(uint64_t frames)
{
    struct plenum_error err = {""};
    struct address address;
    char text[128];
    pthread_t thread;
    unsigned failed = 0, opened = 0;

    (void)snprintf(text, sizeof(text), "unix:%s/pose.sock", tree.root);
    (void)address_parse(text, &address, NULL);
    pose.fd = address_listen(&address, 0600, NULL);
    (void)pthread_create(&thread, NULL, pose_main, NULL);
    while (atomic_load(&pose.sent) < frames) {
        struct plenum_stream_options o;
        struct plenum_stream *s;
        struct plenum_batch b;

        plenum_stream_options_init(&o);
        o.dataset = "generated:1000";
        o.pipeline = "resize(16) center_crop(16)";
        o.loader = text;
        o.micro_batch = COUNT;
        o.loader_timeout_ns = 30 * NS_PER_MS;
        o.silence_ns = 20 * NS_PER_MS;
        if (plenum_stream_open(NULL, &o, &s, &err) < 0) {
            failed += err.text[0] != '\0';
            continue;
        }
        opened++;
        while (plenum_stream_next(s, PLENUM_FOREVER, &b, NULL) == 0)
            plenum_batch_release(&b);
        plenum_stream_destroy(s);
    }
    atomic_store(&pose.stop, true);
    (void)pthread_join(thread, NULL);
    (void)close(pose.fd);
    printf("# %u streams were opened, %u could not be\n", opened, failed);
    tap_ok(opened > 0, "streams end with an error, whatever a loader says");
}

int main(void)
{
    const char *text = getenv("PLAY_FRAMES");
    uint64_t frames = text ? strtoull(text, NULL, 10) : 100000;

    (void)signal(SIGPIPE, SIG_IGN);
    tree_init(&tree);
    play_with_loader(frames);
    play_with_stream(frames / 10);
    tree_fini(&tree);
    return tap_end();
}
