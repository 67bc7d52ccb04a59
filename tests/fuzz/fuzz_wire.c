/* SPDX-License-Identifier: MIT */
/* fuzz_wire.c - reads arbitrary bytes as the data of a connection, from either side. They are split
 * into frames, and each frame is parsed as the message that it claims to be. A message must be the
 * same after it is written and read again.
 *
 * Then the same bytes go through both ends of a connection. One end sends the frames, alternating
 * with bulk data after a frame (the pixels of a batch); a carrier takes some bytes at a time. The
 * other end receives them in pieces. It must get the same frames and bytes, and reject the same
 * frame, wherever the pieces end. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/wire.h"
#include "common/util/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* Reads a message, writes it and reads it again: both reads must fill the structure equally. */
#define AGAIN(type, get, put)                                                       \
    do {                                                                            \
        static type one, two;                                                       \
        memset(&one, 0, sizeof(one));                                               \
        memset(&two, 0, sizeof(two));                                               \
        if (get(payload, &one) < 0)                                                 \
            break;                                                                  \
        require(put == 0);                                                          \
        require(frame_parse(b.bytes, b.len, UINT32_MAX, &h, &r) == (int64_t)b.len); \
        require(get(&r, &two) == 0);                                                \
        require(memcmp(&one, &two, sizeof(one)) == 0);                              \
    } while (0)

static void read_message(const struct frame_header *header, struct frame_reader *payload)
{
    struct frame_buffer b = {0};
    struct frame_header h;
    struct frame_reader r;
    struct plenum_error err;

    switch (header->type) {
    case WIRE_HELLO:
        AGAIN(struct wire_hello, wire_get_hello, (wire_put_hello(&b, &one)));
        break;
    case WIRE_OPEN: {
        struct frame_reader copy = *payload;
        static struct wire_open open;

        if (wire_get_open(&copy, &open) == 0 && wire_open_check(&open, &err) == 0) {
            struct wire_slot slot;

            require(wire_slot_init(&open, &slot) == 0);
            for (uint32_t i = 0; i < open.views; i++)
                require(slot.pixels_at[i] + wire_batch_count(&open) * open.view[i].count *
                                                wire_image_bytes(&open, &open.view[i]) <=
                        (i + 1 < open.views ? slot.pixels_at[i + 1] : slot.labels_at));
            require(slot.samples_at + wire_batch_count(&open) * 4 <=
                        (open.mix ? slot.labels2_at : slot.end) &&
                    slot.end <= slot.bytes);
            require(!open.geometry ||
                    (slot.boxes_at >= slot.samples_at + wire_batch_count(&open) * 4 &&
                     slot.boxes_at + wire_batch_count(&open) * wire_images(&open) * 16 <=
                         slot.sizes_at &&
                     slot.flips_at + wire_batch_count(&open) * wire_images(&open) <= slot.end));
            for (uint32_t i = 0; i < open.num_fields; i++) {
                uint64_t field = wire_batch_count(&open) * wire_field_bytes(&open, &open.field[i]);

                require(slot.fields_at[i] > slot.samples_at &&
                        (!field_varies(&open.field[i]) ||
                         slot.lengths_at[i] + wire_batch_count(&open) * 4 <= slot.fields_at[i]) &&
                        slot.fields_at[i] + field <=
                            (i + 1 < open.num_fields ? slot.fields_at[i + 1] : slot.end));
            }
            require(!open.mix ||
                    (slot.labels2_at + wire_batch_count(&open) * 8 <= slot.weights_at &&
                     slot.weights_at + wire_batch_count(&open) * 4 <= slot.end));
        }
        AGAIN(struct wire_open, wire_get_open, (wire_put_open(&b, 1, &one)));
        break;
    }
    case WIRE_OPENED:
        AGAIN(struct wire_opened, wire_get_opened, (wire_put_opened(&b, 1, &one)));
        break;
    case WIRE_RENDER:
        AGAIN(struct wire_render, wire_get_render, (wire_put_render(&b, 1, &one)));
        break;
    case WIRE_DONE:
        AGAIN(struct wire_done, wire_get_done, (wire_put_done(&b, 1, &one)));
        break;
    case WIRE_STATS:
        AGAIN(struct wire_stats, wire_get_stats, (wire_put_stats(&b, 1, &one)));
        break;
    case WIRE_ERROR:
        AGAIN(struct wire_error, wire_get_error, (wire_put_error(&b, 1, &one)));
        break;
    case WIRE_STATUS:
        AGAIN(struct wire_status, wire_get_status, (wire_put_status(&b, 1, &one)));
        break;
    case WIRE_STATUS_STREAM:
        AGAIN(struct wire_status_stream, wire_get_status_stream,
              (wire_put_status_stream(&b, 1, &one)));
        break;
    case WIRE_PROGRESS:
        AGAIN(struct wire_progress, wire_get_progress, (wire_put_progress(&b, 1, &one)));
        break;
    case WIRE_NAME: { /* either of two messages, depending on the sender */
        struct frame_reader copy = *payload;

        AGAIN(struct wire_name, wire_get_name, (wire_put_name(&b, 1, &one)));
        *payload = copy;
        b.len = 0;
        AGAIN(struct wire_ask_name, wire_get_ask_name, (wire_put_ask_name(&b, 1, &one)));
        break;
    }
    case WIRE_FIELDS: {
        struct frame_reader copy = *payload;

        AGAIN(struct wire_fields, wire_get_fields, (wire_put_fields(&b, 1, &one)));
        *payload = copy;
        b.len = 0;
        AGAIN(struct wire_ask_fields, wire_get_ask_fields, (wire_put_ask_fields(&b, 1, &one)));
        break;
    }
    default:
        break;
    }
    frame_buffer_fini(&b);
}

/* A carrier that sends and receives some bytes at a time, and sometimes none. */
struct way {
    struct frame_carrier carrier;
    const uint8_t *bytes; /* received, or expected to be sent */
    size_t len, at;
    uint32_t turn;
};

static size_t some(struct way *w, size_t most)
{
    w->turn = w->turn * 1103515245 + 12345;
    return w->turn >> 30 ? min_u64(most, 1 + (w->turn >> 16) % (w->turn >> 29 & 1 ? 8 : 500)) : 0;
}

static int64_t way_read(struct frame_carrier *carrier, void *bytes, size_t len)
{
    struct way *w = (struct way *)carrier;
    size_t n = some(w, min_u64(len, w->len - w->at));

    if (n == 0)
        return w->at == w->len ? -ECONNRESET : -EAGAIN;
    memcpy(bytes, w->bytes + w->at, n);
    w->at += n;
    return (int64_t)n;
}

static int64_t way_write(struct frame_carrier *carrier, const void *bytes, size_t len)
{
    struct way *w = (struct way *)carrier;
    size_t n = some(w, len);

    if (n == 0)
        return -EAGAIN;
    require(n <= w->len - w->at && memcmp(bytes, w->bytes + w->at, n) == 0);
    w->at += n;
    return (int64_t)n;
}

static bool way_has_read(const struct frame_carrier *carrier)
{
    (void)carrier;
    return false;
}

static void way_destroy(struct frame_carrier *carrier)
{
    (void)carrier;
}

static struct frame_conn conn_of(struct way *w, const uint8_t *data, size_t size, uint32_t turn)
{
    *w = (struct way){.carrier = {way_read, way_write, way_has_read, way_destroy, false, false},
                      .bytes = data,
                      .len = size,
                      .turn = turn};
    return (struct frame_conn){.fd = -1,
                               .tx_fd = -1,
                               .rx_fd = -1,
                               .max_payload = WIRE_MAX_PAYLOAD,
                               .carrier = &w->carrier};
}

/* Returns how many bytes after a frame are bulk data and not another frame. */
static size_t bulk_behind(const struct frame_header *header, size_t left)
{
    return header->type == WIRE_DONE ? min_u64(header->request % 1000, left) : 0;
}

static void receive(const uint8_t *data, size_t size, uint32_t turn)
{
    struct way w;
    struct frame_conn conn = conn_of(&w, data, size, turn);
    struct frame_header got, header;
    struct frame_reader payload, want;
    uint8_t bulk[1000];
    size_t at = 0;

    for (;;) {
        int64_t n = frame_parse(data + at, size - at, WIRE_MAX_PAYLOAD, &header, &want), r;

        while ((r = frame_conn_next(&conn, &got, &payload)) == 0 &&
               (r = frame_conn_fill(&conn)) != -ECONNRESET)
            require(r > 0 || r == -EAGAIN);
        if (n <= 0) {
            require(n == 0 ? r == -ECONNRESET : r == n);
            break;
        }
        require(r == 1 && got.type == header.type && got.request == header.request &&
                got.len == header.len && payload.end - payload.at == got.len &&
                memcmp(payload.at, want.at, got.len) == 0);
        at += (size_t)n;
        for (size_t left = bulk_behind(&header, size - at); left > 0;) {
            r = frame_conn_read_bulk(&conn, bulk, left);
            require(r == -EAGAIN ||
                    (r > 0 && (size_t)r <= left && memcmp(bulk, data + at, (size_t)r) == 0));
            at += r > 0 ? (size_t)r : 0;
            left -= r > 0 ? (size_t)r : 0;
        }
    }
    frame_conn_fini(&conn);
}

static void send_all(const uint8_t *data, size_t size, uint32_t turn)
{
    struct way w;
    struct frame_conn conn = conn_of(&w, data, size, turn);
    struct frame_header header;
    struct frame_reader payload;
    size_t at = 0;
    int64_t n;
    int r;

    while ((n = frame_parse(data + at, size - at, WIRE_MAX_PAYLOAD, &header, &payload)) > 0) {
        size_t begin = frame_begin(&conn.tx, header.type, header.request), bulk;

        frame_put_bytes(&conn.tx, payload.at, header.len);
        require(frame_end(&conn.tx, begin) == 0);
        at += (size_t)n;
        bulk = bulk_behind(&header, size - at);
        if (bulk > 0) { /* one frame at a time */
            while (frame_conn_attach_bulk(&conn, data + at, bulk) == -EBUSY)
                (void)frame_conn_flush(&conn);
            at += bulk;
        }
        if (header.request & 1)
            (void)frame_conn_flush(&conn);
    }
    while ((r = frame_conn_flush(&conn)) != 0)
        require(r == -EAGAIN);
    require(w.at == at && frame_conn_pending(&conn) == 0 && frame_conn_bulk_left(&conn) == 0);
    frame_conn_fini(&conn);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_header header;
    struct frame_reader payload;
    const uint8_t *at = data;
    uint32_t turn = (uint32_t)size;
    size_t left = size;
    int64_t n;

    while ((n = frame_parse(at, left, WIRE_MAX_PAYLOAD, &header, &payload)) > 0) {
        require((size_t)n <= left);
        read_message(&header, &payload);
        at += n;
        left -= (size_t)n;
        turn = turn * 31 + (uint32_t)header.request;
    }
    receive(data, size, turn);
    send_all(data, size, turn);
    return 0;
}
