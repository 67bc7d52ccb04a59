/* SPDX-License-Identifier: MIT */
/* Tests client misbehaviour: garbage, false claims and silence. A real plenumd must answer each
 * with a message, close the connection, and keep serving others. */
#include "config.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/net/address.h"
#include "common/net/ring.h"
#include "common/net/wire.h"
#include "common/order/philox.h"
#include "common/util/util.h"
#include "tests/daemon.h"
#include "tests/tree.h"

static struct tree tree;
static char text[128];
static struct address address;
static pid_t loader;

static void start(const char *option, const char *value)
{
    (void)snprintf(text, sizeof(text), "unix:%s/sock", tree.root);
    cr_assert(eq(int, address_parse(text, &address, NULL), 0));
    loader = daemon_start(text, "2", option, value);
}

static void setup(void)
{
    tree_init(&tree);
    for (unsigned i = 0; i < 8; i++) {
        char name[32];

        (void)snprintf(name, sizeof(name), "data/a/%u.jpg", i);
        tree_write_jpeg(&tree, name, 40, 30, i);
    }
}

static void teardown(void)
{
    if (loader > 0)
        cr_expect(eq(int, daemon_end(loader, SIGTERM), 0), "the loader ends as it should after "
                                                           "all that");
    tree_fini(&tree);
}

TestSuite(session, .init = setup, .fini = teardown, .timeout = 600);

static void dial(struct frame_conn *c)
{
    int fd;

    while ((fd = address_connect(&address, 0)) == -EAGAIN) /* the socket's queue is full */
        (void)usleep(1000);
    cr_assert(eq(int, frame_conn_init(c, fd, WIRE_MAX_PAYLOAD), 0));
}

/* Wait for the next frame of a type, and skip others. Returns 1, or 0 if the loader has
 * closed. */
static int await(struct frame_conn *c, uint16_t type, struct frame_header *h,
                 struct frame_reader *r)
{
    for (uint64_t end = time_now_ns() + 20 * NS_PER_SEC; time_now_ns() < end;) {
        struct pollfd p = {.fd = c->fd, .events = POLLIN};
        int64_t n;

        (void)frame_conn_flush(c);
        while (frame_conn_next(c, h, r) == 1)
            if (h->type == type)
                return 1;
        (void)poll(&p, 1, 1000);
        n = frame_conn_fill(c);
        if (n < 0 && n != -EAGAIN)
            return 0;
    }
    cr_fatal("the loader neither answered nor closed");
    return 0;
}

static void say_hello(struct frame_conn *c)
{
    struct frame_header h;
    struct frame_reader r;
    struct wire_hello m;

    wire_hello_init(&m, "test");
    (void)wire_put_hello(&c->tx, &m);
    cr_assert(await(c, WIRE_HELLO, &h, &r));
    cr_assert(eq(int, wire_get_hello(&r, &m), 0));
    cr_expect(wire_hello_has_version(&m, "v1"));
}

/* Expect the loader to answer with this message and close. */
static void expect_refused(struct frame_conn *c, const char *sentence)
{
    struct wire_error m = {.text = ""};
    struct frame_header h;
    struct frame_reader r;

    if (await(c, WIRE_ERROR, &h, &r)) {
        cr_assert(eq(int, wire_get_error(&r, &m), 0));
        cr_expect(ne(ptr, (void *)strstr(m.text, sentence), NULL), "'%s' lacks '%s'", m.text,
                  sentence);
        cr_expect(not(await(c, WIRE_ERROR, &h, &r)), "the loader closes");
    } else {
        cr_expect(eq(str, (char *)sentence, ""), "closed without '%s'", sentence);
    }
    frame_conn_fini(c);
}

static struct wire_open good_open(void)
{
    struct wire_open o = {.pipeline = "v1 rrc(16,scale=2/25:1,ratio=3/4:4/3)",
                          .per_step = 4,
                          .local = 4,
                          .steps = 1,
                          .channels = 3,
                          .width = 16,
                          .height = 16,
                          .slots = 2};
    struct wire_slot slot;

    (void)snprintf(o.dataset, sizeof(o.dataset), "folder:%s/data", tree.root);
    (void)wire_slot_init(&o, &slot);
    o.slot_bytes = slot.bytes;
    return o;
}

static void send_open(struct frame_conn *c, const struct wire_open *o, int ring_fd)
{
    if (ring_fd >= 0)
        cr_assert(eq(int, frame_conn_attach_fd(c, ring_fd), 0));
    cr_assert(eq(int, wire_put_open(&c->tx, 1, o), 0));
}

static int good_ring(const struct wire_open *o)
{
    struct ring *ring;
    int fd;

    cr_assert(eq(int, ring_create(o->slots, o->slot_bytes, &ring, NULL), 0));
    fd = dup(ring->fd);
    ring_destroy(ring);
    return fd;
}

/* Make a complete exchange, to check that the loader still serves clients. */
static void expect_served(void)
{
    struct wire_open o = good_open();
    struct frame_header h;
    struct frame_reader r;
    struct frame_conn c;
    struct wire_done done;

    dial(&c);
    say_hello(&c);
    send_open(&c, &o, good_ring(&o));
    cr_assert(await(&c, WIRE_OPENED, &h, &r));
    (void)wire_put_render(&c.tx, 2, &(struct wire_render){0, 4, 1, 0, 0, 0});
    cr_assert(await(&c, WIRE_DONE, &h, &r));
    cr_expect(eq(u64, h.request, 2));
    cr_assert(eq(int, wire_get_done(&r, &done), 0));
    cr_expect(eq(int, done.status, 0), "%s", done.text);
    frame_conn_fini(&c);
}

Test(session, from_hello_to_the_last_batch)
{
    start(NULL, NULL);
    expect_served();
}

/* The slot's second labels and weights lie on their own page: all of them are written, and
 * nothing else is, neither after them nor in the other slots. */
Test(session, mixed_samples_have_the_documented_layout)
{
    enum { COUNT = 21, PLAIN = 16380, LABELS2 = 16384, WEIGHTS = LABELS2 + 8 * COUNT };
    struct wire_open o;
    struct ring *ring;
    struct frame_header h;
    struct frame_reader r;
    struct frame_conn c;
    struct wire_done done;
    const uint8_t *slot;

    start(NULL, NULL);
    o = good_open();
    strcat(o.pipeline, " mixup(1/1)");
    o.mix = true;
    o.per_step = o.local = COUNT;
    o.slot_bytes = 20480;
    o.slots = 3;
    cr_assert(eq(int, ring_create(o.slots, o.slot_bytes, &ring, NULL), 0));
    memset(ring_slot(ring, 0), 0xEE, o.slots * o.slot_bytes);
    dial(&c);
    say_hello(&c);
    send_open(&c, &o, dup(ring->fd));
    cr_assert(await(&c, WIRE_OPENED, &h, &r));
    (void)wire_put_render(&c.tx, 2, &(struct wire_render){0, 0, 1, 0, 0, 0});
    cr_assert(await(&c, WIRE_DONE, &h, &r));
    cr_assert(eq(int, wire_get_done(&r, &done), 0));
    cr_assert(eq(int, done.status, 0), "%s", done.text);
    slot = ring_slot(ring, 1);
    for (unsigned i = 0; i < COUNT; i++) {
        int64_t label2;
        float weight;

        memcpy(&label2, slot + LABELS2 + i * sizeof(label2), sizeof(label2));
        memcpy(&weight, slot + WEIGHTS + i * sizeof(weight), sizeof(weight));
        cr_expect(eq(i64, label2, 0));
        cr_expect(weight >= 0 && weight <= 1, "%g", (double)weight);
    }
    for (size_t i = 0; i < o.slots * o.slot_bytes; i++) {
        bool behind = i >= o.slot_bytes + WEIGHTS + 4 * COUNT || i < o.slot_bytes;
        bool between = i >= o.slot_bytes + PLAIN && i < o.slot_bytes + LABELS2;

        if (behind || between)
            cr_assert(eq(u8, ring_slot(ring, 0)[i], 0xEE), "byte %zu", i);
    }
    frame_conn_fini(&c);
    ring_destroy(ring);
}

Test(session, an_unknown_client_is_refused)
{
    struct frame_conn c;
    struct wire_hello m;

    start(NULL, NULL);
    dial(&c);
    (void)!write(c.fd, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 36);
    expect_refused(&c, "a malformed frame arrived");
    dial(&c);
    wire_hello_init(&m, "test");
    m.major++;
    (void)wire_put_hello(&c.tx, &m);
    expect_refused(&c, "same major version");
    dial(&c);
    (void)wire_put_empty(&c.tx, WIRE_STATS, 1);
    expect_refused(&c, "an unexpected message");
    expect_served();
}

Test(session, messages_in_the_wrong_state_are_refused)
{
    struct wire_open o;
    struct frame_conn c;

    start(NULL, NULL);
    o = good_open();
    dial(&c);
    say_hello(&c);
    (void)wire_put_render(&c.tx, 2, &(struct wire_render){0, 0, 0, 0, 0, 0});
    expect_refused(&c, "an unexpected message");
    dial(&c);
    say_hello(&c);
    (void)wire_put_empty(&c.tx, WIRE_DONE, 1);
    expect_refused(&c, "an unexpected message");
    dial(&c);
    say_hello(&c);
    (void)frame_end(&c.tx, frame_begin(&c.tx, 4711, 1));
    expect_refused(&c, "an unexpected message");
    dial(&c);
    say_hello(&c);
    send_open(&c, &o, good_ring(&o));
    (void)wire_put_open(&c.tx, 2, &o);
    expect_refused(&c, "an unexpected message");
    expect_served();
}

#define REFUSED(sentence, fd, change)     \
    do {                                  \
        struct wire_open o = good_open(); \
        struct frame_conn c;              \
        int ring = good_ring(&o);         \
        (void)ring;                       \
        change;                           \
        dial(&c);                         \
        say_hello(&c);                    \
        send_open(&c, &o, fd);            \
        if (fd != ring)                   \
            (void)close(ring);            \
        expect_refused(&c, sentence);     \
    } while (0)

static int unsealed(size_t bytes)
{
    int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    cr_assert(eq(int, ftruncate(fd, (off_t)bytes), 0));
    return fd;
}

/* Request one view of this many images. */
static void set_view(struct wire_open *o, uint32_t count)
{
    o->views = 1;
    o->view[0] = (struct wire_view){count, 16, 16};
}

Test(session, an_open_that_cannot_be_served_is_rejected_with_a_message)
{
    int fd;

    start(NULL, NULL);
    REFUSED("No such file", ring, strcat(o.dataset, "/nowhere"));
    REFUSED("absolute path", ring, strcpy(o.dataset, "folder:data"));
    REFUSED("that is not generated", ring, strcpy(o.dataset, "generated:generated:9"));
    REFUSED("pipeline", ring, strcpy(o.pipeline, "v1 blur(3)"));
    REFUSED("16 x 16 pixels, not 1 of 16 x 17", ring, {
        struct wire_slot slot;
        o.width = 17;
        (void)wire_slot_init(&o, &slot);
        o.slots = 1;
        o.slot_bytes = slot.bytes;
    });
    REFUSED("client is too old for mixup", ring, strcat(o.pipeline, " mixup(1/5)"));
    REFUSED("has 1 views, but the client requests 0", ring,
            strcpy(o.pipeline, "v1 view(a,1,resize(16) center_crop(16))"));
    REFUSED("has 1 views, but the client requests 0", ring,
            strcpy(o.pipeline, "v1 view(a,31,resize(160) center_crop(160))"));
    REFUSED("has 0 views, but the client requests 1", ring, { set_view(&o, 1); });
    REFUSED("2 images of 16 x 16 pixels, not 1 of", ring, {
        strcpy(o.pipeline, "v1 view(a,2,resize(16) center_crop(16))");
        set_view(&o, 1);
    });
    REFUSED("disagree about the size", ring, {
        strcpy(o.pipeline, "v1 view(a,2,resize(16) center_crop(16))");
        set_view(&o, 2);
        o.per_step = o.local = 64;
        o.slots = 1;
    });
    REFUSED("the pipeline does not mix", ring, {
        struct wire_slot slot;
        o.mix = true;
        (void)wire_slot_init(&o, &slot);
        o.slot_bytes = slot.bytes;
    });
    /* 21 samples fill four pages except for 4 bytes, without second labels. */
    REFUSED("disagree about the size", ring, {
        strcat(o.pipeline, " mixup(1/5)");
        o.mix = true;
        o.per_step = o.local = 21;
        o.slot_bytes = 16384;
        o.slots = 1;
    });
    REFUSED("disagree about the size", ring, {
        o.per_step = o.local = 21;
        o.slot_bytes = 20480;
        o.slots = 1;
    });
    REFUSED("disagree about the size", ring, o.slot_bytes += 4096);
    REFUSED("cannot take samples", ring, o.offset = 1);
    REFUSED("came without a ring", -1, (void)0);
    fd = unsealed(1 << 20);
    REFUSED("not sealed", fd, (void)0);
    REFUSED("smaller than its slots", ring, o.slots = 3);
    REFUSED("no step is left", ring, {
        struct wire_slot slot;
        o.last = ORDER_DROP;
        o.per_step = 9;
        (void)slot;
    });
    expect_served();
}

Test(session, roots_keep_clients_in)
{
    char root[128], other[128];

    (void)snprintf(root, sizeof(root), "%s/data", tree.root);
    tree_write_jpeg(&tree, "data2/a/0.jpg", 20, 20, 0);
    tree_write_jpeg(&tree, "secret/a/0.jpg", 20, 20, 0);
    cr_assert(eq(int, symlink("../secret", tree_path(&tree, "data/link")), 0));
    cr_assert(eq(int, unlink(tree_path(&tree, "data/link")), 0));
    (void)snprintf(other, sizeof(other), "folder:%s", tree_path(&tree, "data2"));
    start("--root", root);
    REFUSED("is not below", ring, strcpy(o.dataset, other));
    REFUSED("is not below", ring, strcat(o.dataset, "/../secret"));
    cr_assert(eq(int, symlink("data/../secret", tree_path(&tree, "out")), 0));
    (void)snprintf(other, sizeof(other), "folder:%s", tree_path(&tree, "out"));
    REFUSED("is not below", ring, strcpy(o.dataset, other));
    expect_served();
}

Test(session, rings_beyond_the_limit_are_refused)
{
    start("--ring-limit", "16K"); /* one ring of two slots of 4 KiB, and not two of them */
    {
        struct wire_open o = good_open();
        struct frame_header h;
        struct frame_reader r;
        struct frame_conn c;

        dial(&c);
        say_hello(&c);
        send_open(&c, &o, good_ring(&o));
        cr_assert(await(&c, WIRE_OPENED, &h, &r));
        REFUSED("--ring-limit", ring, o.slots = 3);
        frame_conn_fini(&c);
    }
    (void)usleep(50000); /* most likely, the loader has noticed that they left */
    expect_served();
}

Test(session, an_empty_render_is_rejected)
{
    static const struct {
        struct wire_render m;
        const char *sentence;
    } cases[] = {
        {{.position = 8}, "does not exist"},       {{.position = UINT64_MAX}, "does not exist"},
        {{.epoch = UINT64_MAX}, "does not exist"}, {{.slot = 2}, "does not exist"},
        {{.slot = UINT32_MAX}, "does not exist"},
    };

    start(NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct wire_open o = good_open();
        struct frame_header h;
        struct frame_reader r;
        struct frame_conn c;

        dial(&c);
        say_hello(&c);
        send_open(&c, &o, good_ring(&o));
        cr_assert(await(&c, WIRE_OPENED, &h, &r));
        (void)wire_put_render(&c.tx, 2, &cases[i].m);
        expect_refused(&c, cases[i].sentence);
    }
    expect_served();
}

/* After SIGTERM, the loader answers the requests that it has, ignores new ones, reports why, and
 * closes the connection. */
Test(session, a_loader_that_is_asked_to_end_drains)
{
    enum { UNDER_WAY = 6 };
    struct wire_open o = good_open();
    struct wire_slot slot;
    struct wire_error error;
    struct wire_done done;
    struct frame_header h;
    struct frame_reader r;
    struct frame_conn c, idle;
    unsigned answered = 0, seen;
    int n;

    start(NULL, NULL);
    o.per_step = o.local = 4096; /* so large that SIGTERM arrives during them */
    (void)wire_slot_init(&o, &slot);
    o.slots = UNDER_WAY + 1;
    o.slot_bytes = slot.bytes;
    dial(&idle);
    say_hello(&idle);
    dial(&c);
    say_hello(&c);
    send_open(&c, &o, good_ring(&o));
    cr_assert(await(&c, WIRE_OPENED, &h, &r));
    for (uint32_t i = 0; i < UNDER_WAY; i++)
        (void)wire_put_render(&c.tx, 10 + i, &(struct wire_render){0, 0, i, 0, 0, 0});
    cr_assert(await(&c, WIRE_DONE, &h, &r));
    answered++;
    seen = 1u << (h.request - 10);
    cr_assert(eq(int, kill(loader, SIGTERM), 0));
    expect_refused(&idle, "being stopped or restarted");
    (void)wire_put_render(&c.tx, 99, &(struct wire_render){0, 0, UNDER_WAY, 0, 0, 0});
    (void)wire_put_empty(&c.tx, WIRE_STATS, 100);
    (void)frame_conn_flush(&c);
    for (;;) {
        struct pollfd p = {.fd = c.fd, .events = POLLIN};

        while ((n = frame_conn_next(&c, &h, &r)) == 1 && h.type != WIRE_ERROR) {
            if (h.type != WIRE_DONE)
                continue;
            cr_assert(eq(int, wire_get_done(&r, &done), 0));
            cr_expect(eq(int, done.status, 0));
            cr_assert(h.request >= 10 && h.request < 10 + UNDER_WAY);
            cr_expect(not(seen >> (h.request - 10) & 1), "none twice");
            seen |= 1u << (h.request - 10);
            answered++;
        }
        if (n == 1)
            break;
        cr_assert(gt(int, poll(&p, 1, 20000), 0));
        cr_assert(gt(i64, frame_conn_fill(&c), 0), "closed without a word");
    }
    cr_expect(eq(uint, answered, UNDER_WAY), "all requests under way are answered, and no others");
    cr_assert(eq(int, wire_get_error(&r, &error), 0));
    cr_expect(eq(int, error.code, -ECANCELED));
    cr_expect(not(await(&c, WIRE_DONE, &h, &r)), "then the loader closes the connection");
    frame_conn_fini(&c);
    cr_expect(eq(int, daemon_end(loader, 0), 0), "the loader ends with status 0");
    loader = 0;
}

/* Send valid frames of which some bytes were changed. */
Test(session, mutated_messages_do_no_harm)
{
    struct frame_buffer good = {0};
    struct wire_open o = good_open();
    struct wire_hello hello;

    start(NULL, NULL);
    wire_hello_init(&hello, "test");
    (void)wire_put_hello(&good, &hello);
    (void)wire_put_open(&good, 1, &o);
    for (uint64_t i = 0; i < 6; i++)
        (void)wire_put_render(&good, 2 + i, &(struct wire_render){i, i, (uint32_t)i % 2, 0, 0, 0});
    (void)wire_put_empty(&good, WIRE_CANCEL, 3);
    (void)wire_put_empty(&good, WIRE_STATS, 4);
    for (uint32_t i = 0; i < 400; i++) {
        int ring = i % 8 == 7 ? -1 : good_ring(&o);
        size_t cut = 0, len = good.len;
        struct frame_conn c;
        uint8_t *bytes;

        dial(&c);
        frame_put_bytes(&c.tx, good.bytes, len);
        bytes = c.tx.bytes;
        for (uint32_t k = 0; k < i % 4; k++) {
            struct philox_block dice = philox_draw(1, i, k, DRAW_SAMPLE_SET, 0);

            bytes[philox_below(dice.word[0], (uint32_t)len)] ^= (uint8_t)(1 << dice.word[1] % 8);
        }
        if (i % 5 == 4)
            c.tx.len = cut =
                philox_below(philox_draw(1, i, 9, DRAW_SAMPLE_SET, 0).word[0], (uint32_t)len);
        if (ring >= 0) { /* it is sent with OPEN, which begins after HELLO */
            uint32_t first;

            memcpy(&first, good.bytes, sizeof(first));
            c.tx_fd = ring;
            c.tx_fd_at = min_u64(FRAME_HEADER_BYTES + first, cut ? cut - 1 : len);
        }
        (void)frame_conn_flush(&c);
        if (i % 3 == 0) /* sometimes wait for the answer */
            (void)usleep(3000);
        frame_conn_fini(&c);
    }
    frame_buffer_fini(&good);
    expect_served();
}

Test(session, a_thousand_silent_connections_leave_nothing_behind)
{
    start(NULL, NULL);
    for (int i = 0; i < 1000; i++) {
        struct frame_conn c;

        dial(&c);
        frame_conn_fini(&c);
    }
    expect_served();
}
