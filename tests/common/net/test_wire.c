/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/net/wire.h"
#include "common/order/philox.h"
#include "common/util/util.h"

static const struct wire_open good = {.dataset = "folder:/data",
                                      .pipeline = "v1 rrc(224,scale=2/25:1,ratio=3/4:4/3)",
                                      .seed = 0x8000000000000001,
                                      .shuffle = ORDER_BLOCK,
                                      .block = 1024,
                                      .last = ORDER_DROP,
                                      .bad = PLENUM_BAD_FAIL,
                                      .per_step = 64,
                                      .offset = 16,
                                      .local = 32,
                                      .steps = 2,
                                      .dtype = PLENUM_UINT8,
                                      .layout = PLENUM_NCHW,
                                      .channels = 4,
                                      .width = 224,
                                      .height = 160,
                                      .slots = 5,
                                      .slot_bytes = 21757952 + 8192,
                                      .subset = {.first = 3, .end = 4000000000},
                                      .repeat = 7,
                                      .span = 0x123456789abc,
                                      .deal = 8,
                                      .mix = true,
                                      .views = 2,
                                      .view = {{1, 160, 224}, {4, 96, 128}},
                                      .geometry = true,
                                      .fields = "a:b:text",
                                      .num_fields = 1,
                                      .field = {{.type = PLENUM_FIELD_TEXT, .room = 300}}};

/* How many bytes newer versions have added to messages, in the tests below. */
enum {
    PLAN_BYTES = 4,                                                       /* OPEN, since 1.13 */
    FIELDS_BYTES = 4 + 8 + 4 + sizeof(struct field_shape) + PLAN_BYTES,   /* OPEN, since 1.10 */
    VIEWS_BYTES = 4 + 2 * 12 + 4 + FIELDS_BYTES,                          /* OPEN, since 1.9 */
    SETS_BYTES = 8 + 2 * 20,                                              /* OPENED, 1.13 */
    REWEIGHS_BYTES = 4 + 2 * 16,                                          /* OPENED, 1.15 */
    ASKED_BYTES = 4 + sizeof("set a 1 /x\n") - 1,                         /* FIELDS, 1.13 */
    LOOPS_BYTES = 4 + sizeof("avx2") - 1,                                 /* STATUS, 1.7 */
    CACHE_BYTES = 3 * 4 + 13 * 8,                                         /* STATUS, 1.14 */
    SHARED_BYTES = 8 * 8,                                                 /* STATUS, 1.17 */
    SHARES_BYTES = 4 + 2 * (4 + 16) + sizeof("a") - 1 + sizeof("bc") - 1, /* STATUS_STREAM, 1.14 */
};

/* Returns how many bytes newer versions have added to a message in which `n` bytes are left;
 * SIZE_MAX / 2 if none. */
static size_t later_bytes(uint16_t type, size_t n)
{
    switch (type) {
    case WIRE_OPEN:
        return 32 + VIEWS_BYTES;
    case WIRE_OPENED:
        return sizeof(struct datasum) + 12 + SETS_BYTES + REWEIGHS_BYTES;
    case WIRE_STATUS:
        return n > 0 ? LOOPS_BYTES + CACHE_BYTES + SHARED_BYTES : SIZE_MAX / 2;
    case WIRE_STATUS_STREAM:
        return SHARES_BYTES;
    case WIRE_DONE:
        return sizeof(uint64_t); /* 1.16 */
    default:
        return SIZE_MAX / 2;
    }
}

static struct frame_reader only_frame(const struct frame_buffer *b, uint16_t type)
{
    struct frame_header h;
    struct frame_reader r;

    cr_assert(eq(i64, frame_parse(b->bytes, b->len, WIRE_MAX_PAYLOAD, &h, &r), (int64_t)b->len));
    cr_assert(eq(u16, h.type, type));
    return r;
}

/* Both sides are zeroed in these tests, so that memcmp() compares fields. */
#define ROUND_TRIP(put_call, get, type_number, message) \
    ROUND_TRIP_SINCE(put_call, get, type_number, message, SIZE_MAX)

/* `older_bytes`: length of the payload as an older version sends it, which is also accepted. */
#define ROUND_TRIP_SINCE(put_call, get, type_number, message, older_bytes)                         \
    do {                                                                                           \
        __typeof__(message) got_;                                                                  \
        struct frame_reader r_;                                                                    \
        memset(&got_, 0, sizeof(got_));                                                            \
        cr_assert(eq(int, put_call, 0));                                                           \
        r_ = only_frame(&b, type_number);                                                          \
        cr_assert(eq(int, get(&r_, &got_), 0));                                                    \
        cr_expect(eq(ptr, (void *)r_.at, (void *)r_.end), "nothing is left over");                 \
        cr_expect(eq(int, memcmp(&got_, &message, sizeof(got_)), 0));                              \
        /* truncated anywhere, it is rejected */                                                   \
        for (size_t n = 0; n + FRAME_HEADER_BYTES < b.len; n++) {                                  \
            /* except where an older version ends */                                               \
            size_t later = later_bytes(type_number, n);                                            \
            bool older =                                                                           \
                n + FRAME_HEADER_BYTES + later == b.len ||                                         \
                (type_number == WIRE_STATUS &&                                                     \
                 (n + FRAME_HEADER_BYTES + CACHE_BYTES + SHARED_BYTES == b.len ||                  \
                  n + FRAME_HEADER_BYTES + SHARED_BYTES == b.len)) ||                              \
                (type_number == WIRE_OPENED &&                                                     \
                 (n + FRAME_HEADER_BYTES + SETS_BYTES + REWEIGHS_BYTES == b.len ||                 \
                  n + FRAME_HEADER_BYTES + REWEIGHS_BYTES == b.len)) ||                            \
                (type_number == WIRE_OPEN && n + FRAME_HEADER_BYTES + PLAN_BYTES == b.len) ||      \
                (type_number == WIRE_RENDER && n + FRAME_HEADER_BYTES + 8 == b.len) ||             \
                (type_number == WIRE_OPEN && (n + FRAME_HEADER_BYTES + VIEWS_BYTES == b.len ||     \
                                              n + FRAME_HEADER_BYTES + FIELDS_BYTES == b.len ||    \
                                              n + FRAME_HEADER_BYTES + VIEWS_BYTES + 4 == b.len || \
                                              n + FRAME_HEADER_BYTES + VIEWS_BYTES + 8 == b.len)); \
            r_ = (struct frame_reader){.at = b.bytes + FRAME_HEADER_BYTES,                         \
                                       .end = b.bytes + FRAME_HEADER_BYTES + n};                   \
            cr_assert(eq(int, get(&r_, &got_), older || n == older_bytes ? 0 : -EPROTO),           \
                      "%zu bytes", n);                                                             \
        }                                                                                          \
        frame_buffer_fini(&b);                                                                     \
    } while (0)

Test(wire, every_message_is_read_as_written)
{
    struct frame_buffer b = {0};
    struct wire_hello hello;
    struct wire_opened opened = {
        .samples = 1281167,
        .classes = 1000,
        .threads = 8,
        .io_threads = 3,
        .fingerprint = {1, 2, 255},
        .sum = {.samples = 1281167, .bad = 1, .segments = {[63] = {.labels = 99}}},
        .class_names = 1000,
        .warning = "left",
        .positions = 640,
        .sets = 2,
        .set = {{.samples = 1281160, .hash = {7}}, {.samples = 7, .hash = {[15] = 9}}},
        .reweighs = 2,
        .reweigh = {{.start = 640, .hash = 1}, {.start = UINT64_MAX, .hash = UINT64_MAX}}};
    struct wire_render render = {
        .epoch = 89, .position = 1281166, .slot = 4, .waited_ns = 77, .per_step = 96, .offset = 32};
    struct wire_done done = {.status = -EBADMSG,
                             .substituted = 3,
                             .queue_ns = 1,
                             .read_ns = 2,
                             .render_ns = 3,
                             .total_ns = UINT64_MAX,
                             .text = "x.jpg: bad",
                             .rest_ns = 5};
    struct wire_stats stats = {1, 2, 3, 4, 5, 6, 7};
    struct wire_error error = {.code = -ENOENT, .text = "no such data set"};
    struct wire_ask_name ask_name = {.number = 4000000000, .of = WIRE_NAMED_CLASS};
    struct wire_name name = {.text = "/data/train/n01440764/a b.JPEG"};
    struct wire_ask_fields ask_fields = {
        .dataset = "tar:/data", .fields = "a:txt,m:png:mask", .plan = "set a 1 /x\n"};
    struct wire_fields fields = {
        .count = 2,
        .field = {{.type = PLENUM_FIELD_FLOAT32, .dims = 2, .shape = {3, 5}, .room = 60},
                  {.type = PLENUM_FIELD_UINT16, .room = 2, .mask = 1}},
        .hash = {1, 2, 255}};
    struct wire_progress progress = {.done = 10, .total = 20, .text = "reading folders"};

    static struct wire_status status = {.version = "0.1.0",
                                        .host = "host",
                                        .pid = 1,
                                        .uid = 2,
                                        .uptime_ns = 3,
                                        .threads = 4,
                                        .io_threads = 5,
                                        .sessions = 6,
                                        .streams = 7,
                                        .samples = 8,
                                        .substituted = 9,
                                        .batches = 10,
                                        .failed = 11,
                                        .refused = 12,
                                        .queued = 13,
                                        .rate = 14,
                                        .ring_bytes = 15,
                                        .ring_limit = 16,
                                        .render_busy = 17,
                                        .read_busy = 18,
                                        .memory_bytes = 19,
                                        .descriptors = 20,
                                        .stopping = true,
                                        .lanes = 2,
                                        .lane = {{21, 22, 23}, {24, 25, 26}},
                                        .loops = "avx2",
                                        .cache = {.open = true,
                                                  .in_memory = true,
                                                  .samples = 1,
                                                  .known = 2,
                                                  .bytes = 3,
                                                  .limit = 4,
                                                  .hits = 5,
                                                  .hit_bytes = 6,
                                                  .misses = 7,
                                                  .miss_bytes = 8,
                                                  .writes = 9,
                                                  .write_bytes = 10,
                                                  .evicted = 11,
                                                  .dropped = 12,
                                                  .damaged = 13},
                                        .shared = {.kept = 1,
                                                   .bytes = 2,
                                                   .limit = 3,
                                                   .rendered = 4,
                                                   .copied = 5,
                                                   .evicted = 6,
                                                   .refused = 7,
                                                   .saved_ns = 8}};
    static struct wire_status_stream stream = {.id = 1,
                                               .pid = 2,
                                               .uid = 3,
                                               .client = "job 1",
                                               .dataset = "folder:/data",
                                               .pipeline = "v1 rrc(224)",
                                               .age_ns = 4,
                                               .samples = 5,
                                               .substituted = 6,
                                               .batches = 7,
                                               .failed = 8,
                                               .epoch = 9,
                                               .position = 10,
                                               .epoch_samples = 11,
                                               .batch_samples = 12,
                                               .ring_bytes = 13,
                                               .slots = 14,
                                               .in_flight = 15,
                                               .lane = 16,
                                               .rate = 17,
                                               .waited = 18,
                                               .read_ns = 19,
                                               .render_ns = 20,
                                               .cpu_ns = 21,
                                               .queue_ns = 22,
                                               .bound = WIRE_BOUND_TRANSPORT,
                                               .cores = 23,
                                               .num_sets = 2,
                                               .sets = {{"a", 24, 25}, {"bc", 26, 27}}};

    wire_hello_init(&hello, "job 1 instance 2");
    strcpy(hello.versions, "v1 another");
    strcpy(hello.job, "17");
    ROUND_TRIP_SINCE(wire_put_hello(&b, &hello), wire_get_hello, WIRE_HELLO, hello, 46);
    ROUND_TRIP_SINCE(wire_put_open(&b, 1, &good), wire_get_open, WIRE_OPEN, good,
                     b.len - FRAME_HEADER_BYTES - VIEWS_BYTES - 12);
    ROUND_TRIP_SINCE(wire_put_opened(&b, 1, &opened), wire_get_opened, WIRE_OPENED, opened,
                     32 + sizeof(struct datasum));
    ROUND_TRIP_SINCE(wire_put_render(&b, 2, &render), wire_get_render, WIRE_RENDER, render, 20);
    ROUND_TRIP(wire_put_done(&b, 2, &done), wire_get_done, WIRE_DONE, done);
    ROUND_TRIP(wire_put_stats(&b, 3, &stats), wire_get_stats, WIRE_STATS, stats);
    ROUND_TRIP(wire_put_error(&b, 4, &error), wire_get_error, WIRE_ERROR, error);
    ROUND_TRIP(wire_put_status(&b, 5, &status), wire_get_status, WIRE_STATUS, status);
    ROUND_TRIP(wire_put_status_stream(&b, 5, &stream), wire_get_status_stream, WIRE_STATUS_STREAM,
               stream);
    ROUND_TRIP(wire_put_progress(&b, 4, &progress), wire_get_progress, WIRE_PROGRESS, progress);
    ROUND_TRIP_SINCE(wire_put_ask_name(&b, 5, &ask_name), wire_get_ask_name, WIRE_NAME, ask_name,
                     4);
    ROUND_TRIP(wire_put_name(&b, 5, &name), wire_get_name, WIRE_NAME, name);
    ROUND_TRIP_SINCE(wire_put_ask_fields(&b, 6, &ask_fields), wire_get_ask_fields, WIRE_FIELDS,
                     ask_fields, b.len - FRAME_HEADER_BYTES - ASKED_BYTES);
    ROUND_TRIP(wire_put_fields(&b, 6, &fields), wire_get_fields, WIRE_FIELDS, fields);
}

/* Each sample of a plan belongs to a set. */
Test(wire, sets_must_cover_all_samples)
{
    struct wire_opened opened = {
        .samples = 10, .positions = 20, .sets = 1, .set = {{.samples = 9}}};
    struct frame_buffer b = {0};
    struct frame_reader r;

    cr_assert(eq(int, wire_put_opened(&b, 1, &opened), 0));
    r = only_frame(&b, WIRE_OPENED);
    cr_expect(eq(int, wire_get_opened(&r, &opened), -EPROTO));
    frame_buffer_fini(&b);
}

/* A plan excludes all other ways to set the stream's order. */
Test(wire, a_plan_excludes_other_orders)
{
    struct wire_open open = good;
    struct wire_slot slot;
    struct plenum_error err;

    cr_assert(eq(int, wire_slot_init(&open, &slot), 0));
    open.slot_bytes = slot.bytes;
    strcpy(open.plan, "set a 1 /x\n");
    cr_expect(eq(int, wire_open_check(&open, &err), -EINVAL));
    cr_expect(ne(ptr, strstr(err.text, "a plan has its own shuffle"), NULL));
    open.shuffle = ORDER_GLOBAL;
    open.subset = (struct order_subset){0};
    open.repeat = 1;
    open.span = 0;
    cr_expect(eq(int, wire_open_check(&open, &err), 0), "%s", err.text);
}

/* Returns a reader of a frame's payload. */
static struct frame_reader read_of(const struct frame_buffer *b)
{
    return (struct frame_reader){.at = b->bytes + FRAME_HEADER_BYTES, .end = b->bytes + b->len};
}

Test(wire, an_error_without_a_reason_has_that_of_its_code)
{
    struct frame_buffer b = {0};
    struct wire_error error = {.code = -ENOENT}, got_error;
    struct wire_done done = {.status = -EBADMSG}, got_done;
    struct frame_reader r;

    cr_assert(eq(int, wire_put_error(&b, 0, &error), 0));
    r = read_of(&b);
    cr_assert(eq(int, wire_get_error(&r, &got_error), 0));
    cr_expect(eq(str, got_error.text, "No such file or directory"));
    b.len = 0;
    cr_assert(eq(int, wire_put_done(&b, 1, &done), 0));
    r = read_of(&b);
    cr_assert(eq(int, wire_get_done(&r, &got_done), 0));
    cr_expect(eq(str, got_done.text, "Bad message"));
    b.len = 0;
    done.status = 0;
    cr_assert(eq(int, wire_put_done(&b, 1, &done), 0));
    r = read_of(&b);
    cr_assert(eq(int, wire_get_done(&r, &got_done), 0));
    cr_expect(eq(str, got_done.text, ""));
    for (int i = 0; i < 3; i++) {
        b.len = 0;
        done.status = (int[]){1, -4096, INT32_MIN}[i];
        cr_assert(eq(int, wire_put_done(&b, 1, &done), 0));
        r = read_of(&b);
        cr_expect(eq(int, wire_get_done(&r, &got_done), -EPROTO));
    }
    frame_buffer_fini(&b);
}

Test(wire, an_older_loader_reports_no_rest)
{
    struct frame_buffer b = {0};
    struct wire_done done = {.total_ns = 7, .text = "x", .rest_ns = 5}, got;
    struct frame_reader r;

    cr_assert(eq(int, wire_put_done(&b, 1, &done), 0));
    r = read_of(&b);
    r.end -= sizeof(uint64_t);
    cr_assert(eq(int, wire_get_done(&r, &got), 0));
    cr_expect(eq(str, got.text, "x"));
    cr_expect(eq(u64, got.rest_ns, 0));
    frame_buffer_fini(&b);
}

Test(wire, a_newer_minor_may_add_fields)
{
    struct frame_buffer b = {0};
    struct wire_render m = {.epoch = 1, .position = 2, .slot = 3}, got;
    struct frame_reader r;

    cr_assert(eq(int, wire_put_render(&b, 1, &m), 0));
    frame_put_u64(&b, 0x1234); /* the extra fields of a newer version */
    r = read_of(&b);
    cr_expect(eq(int, wire_get_render(&r, &got), 0));
    cr_expect(eq(u64, got.position, 2));
    frame_buffer_fini(&b);
}

Test(wire, older_clients_have_square_images)
{
    struct frame_buffer b = {0};
    struct wire_open got = {0};
    struct frame_reader r;

    cr_assert(eq(int, wire_put_open(&b, 1, &good), 0));
    r = (struct frame_reader){.at = b.bytes + FRAME_HEADER_BYTES,
                              .end = b.bytes + b.len - VIEWS_BYTES - 4};
    cr_expect(eq(int, wire_get_open(&r, &got), 0)); /* before WIRE_MINOR_SHAPE */
    cr_expect(eq(u32, got.views, 0));
    cr_expect(eq(u32, got.width, good.width));
    cr_expect(eq(u32, got.height, good.width));
    cr_expect(eq(u32, got.deal, good.deal));
    frame_buffer_fini(&b);
}

Test(wire, unknown_choices_are_refused)
{
    /* Offsets of the numbered choices after the two texts and the seed: shuffle, last, bad, dtype,
     * layout. */
    size_t texts = 4 + strlen(good.dataset) + 4 + strlen(good.pipeline) + 8;
    static const size_t places[] = {0, 8, 12, 32, 36};

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        struct frame_buffer b = {0};
        struct frame_reader r;
        struct wire_open got;

        cr_assert(eq(int, wire_put_open(&b, 1, &good), 0));
        b.bytes[FRAME_HEADER_BYTES + texts + places[i]] = 200;
        r = (struct frame_reader){.at = b.bytes + FRAME_HEADER_BYTES, .end = b.bytes + b.len};
        cr_expect(eq(int, wire_get_open(&r, &got), -EPROTO), "choice %zu", i);
        frame_buffer_fini(&b);
    }
}

Test(wire, only_another_major_version_is_refused)
{
    struct wire_hello m;
    struct plenum_error err;

    wire_hello_init(&m, "x");
    cr_expect(eq(int, wire_hello_check(&m, &err), 0));
    m.minor = 99;
    cr_expect(eq(int, wire_hello_check(&m, &err), 0));
    m.major++;
    cr_expect(eq(int, wire_hello_check(&m, &err), -EPROTONOSUPPORT));
    cr_expect(ne(ptr, (void *)strstr(err.text, "same major version"), NULL), "%s", err.text);
    wire_hello_init(&m, "x");
    m.magic[0] = 'q';
    cr_expect(eq(int, wire_hello_check(&m, &err), -EPROTONOSUPPORT));
}

Test(wire, versions_are_whole_words)
{
    struct wire_hello m = {.versions = "v3 v12"};

    cr_expect(wire_hello_has_version(&m, "v3"));
    cr_expect(wire_hello_has_version(&m, "v12"));
    cr_expect(not(wire_hello_has_version(&m, "v1")));
    m.versions[0] = '\0';
    cr_expect(not(wire_hello_has_version(&m, "v1")));
}

Test(wire, the_valid_open_is_accepted)
{
    struct wire_open open = good;
    struct wire_slot slot;
    struct plenum_error err;

    cr_assert(eq(int, wire_slot_init(&open, &slot), 0));
    open.slot_bytes = slot.bytes;
    cr_expect(eq(int, wire_open_check(&open, &err), 0), "%s", err.text);
    cr_expect(eq(u64, slot.pixels_at[0], 0));
    cr_expect(eq(u64, slot.pixels_at[1], 2u * 32 * 4 * 160 * 224));
    cr_expect(eq(u64, slot.labels_at, slot.pixels_at[1] + 2u * 32 * 4 * 4 * 96 * 128));
    cr_expect(eq(u64, slot.labels_at % 64, 0));
    cr_expect(ge(u64, slot.samples_at, slot.labels_at + 64 * 8));
    cr_expect(ge(u64, slot.labels2_at, slot.samples_at + 64 * 4));
    cr_expect(eq(u64, slot.labels2_at % 8, 0));
    cr_expect(eq(u64, slot.weights_at, slot.labels2_at + 64 * 8));
    cr_expect(ge(u64, slot.boxes_at, slot.weights_at + 64 * 4));
    cr_expect(eq(u64, slot.boxes_at % 4, 0));
    cr_expect(eq(u64, slot.sizes_at, slot.boxes_at + 64 * 5 * 16));
    cr_expect(eq(u64, slot.flips_at, slot.sizes_at + 64 * 8));
    cr_expect(ge(u64, slot.lengths_at[0], slot.flips_at + 64 * 5));
    cr_expect(eq(u64, slot.lengths_at[0] % 64, 0));
    cr_expect(eq(u64, slot.fields_at[0], slot.lengths_at[0] + 64 * 4));
    cr_expect(eq(u64, slot.end, slot.fields_at[0] + 64 * 300));
    cr_expect(ge(u64, slot.bytes, slot.end));
    cr_expect(eq(u64, slot.bytes % 4096, 0));
}

#define REFUSED(change)                                                     \
    do {                                                                    \
        struct wire_open open = good;                                       \
        struct wire_slot slot;                                              \
        struct plenum_error err = {""};                                     \
        (void)wire_slot_init(&open, &slot);                                 \
        open.slot_bytes = slot.bytes;                                       \
        change;                                                             \
        cr_expect(eq(int, wire_open_check(&open, &err), -EINVAL), #change); \
        cr_expect(ne(str, err.text, ""));                                   \
    } while (0)

Test(wire, an_open_out_of_bounds_is_refused)
{
    REFUSED(open.dataset[0] = '\0');
    REFUSED(open.per_step = 0);
    REFUSED(open.deal = 7);
    REFUSED(open.deal = 32);
    REFUSED(open.deal = UINT32_MAX);
    REFUSED(open.per_step = UINT32_MAX);
    REFUSED(open.local = 0);
    REFUSED(open.local = 65);
    REFUSED(open.offset = 33);
    REFUSED(open.offset = UINT32_MAX);
    REFUSED(open.steps = 0);
    REFUSED(open.steps = UINT32_MAX);
    REFUSED((open.views = 0, open.steps = 65536, open.per_step = open.local = 1 << 16,
             open.width = open.height = 1));
    REFUSED(open.slots = 0);
    REFUSED(open.slots = UINT32_MAX);
    REFUSED(open.block = 0);
    REFUSED(open.view[0].width = open.width = 0);
    REFUSED(open.view[0].height = open.height = 0);
    REFUSED(open.view[1].width = UINT32_MAX);
    REFUSED(open.view[1].height = 8193);
    REFUSED(open.width = 96);
    REFUSED(open.height = 128);
    REFUSED((open.views = 0, open.width = 0));
    REFUSED((open.views = 0, open.height = 8193));
    REFUSED(open.views = VIEWS_MAX + 1);
    REFUSED(open.view[1].count = 0);
    REFUSED(open.view[1].count = VIEWS_IMAGES_MAX);
    REFUSED(open.view[1].count = UINT32_MAX);
    REFUSED(open.views = 1);
    REFUSED(open.channels = 0);
    REFUSED(open.channels = 5);
    REFUSED(open.slot_bytes--);
    REFUSED(open.fields[0] = '\0');
    REFUSED(open.fields[0] = '7');
    REFUSED(open.field[0].room = FIELD_BYTES_MAX + 1);
    REFUSED(open.field[0].type = PLENUM_FIELD_TYPES);
    REFUSED(open.field[0].type = PLENUM_FIELD_INT64);
    REFUSED(open.field[0].dims = 1);
    REFUSED(open.field[0].mask = 1);
    REFUSED((open.views = 0, open.width = open.height = 8192, open.steps = 65536,
             open.per_step = open.local = 1 << 28, open.offset = 0));
}
