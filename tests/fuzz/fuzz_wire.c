/* fuzz_wire.c - any bytes as what comes over a connection: frames are cut out of them and read as the message that they
 * claim to be. What was read must come out the same when it is written and read again. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* Read, write, read: both readings are the same bytes of structure. */
#define AGAIN(type, get, put)                                                                      \
    do {                                                                                           \
        static type one, two;                                                                      \
        memset(&one, 0, sizeof(one));                                                              \
        memset(&two, 0, sizeof(two));                                                              \
        if (get(payload, &one) < 0)                                                                \
            break;                                                                                 \
        require(put == 0);                                                                         \
        require(frame_parse(b.bytes, b.len, UINT32_MAX, &h, &r) == (int64_t)b.len);                \
        require(get(&r, &two) == 0);                                                               \
        require(memcmp(&one, &two, sizeof(one)) == 0);                                             \
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
            require(slot.samples_at + wire_batch_count(&open) * 4 <= slot.bytes);
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
        AGAIN(struct wire_status_stream, wire_get_status_stream, (wire_put_status_stream(&b, 1, &one)));
        break;
    case WIRE_PROGRESS:
        AGAIN(struct wire_progress, wire_get_progress, (wire_put_progress(&b, 1, &one)));
        break;
    case WIRE_NAME: { /* which of the two it is depends on who sent it */
        struct frame_reader copy = *payload;
        struct wire_ask_name ask;

        (void)wire_get_ask_name(&copy, &ask);
        AGAIN(struct wire_name, wire_get_name, (wire_put_name(&b, 1, &one)));
        break;
    }
    default:
        break;
    }
    frame_buffer_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_header header;
    struct frame_reader payload;
    int64_t n;

    while ((n = frame_parse(data, size, WIRE_MAX_PAYLOAD, &header, &payload)) > 0) {
        require((size_t)n <= size);
        read_message(&header, &payload);
        data += n;
        size -= (size_t)n;
    }
    return 0;
}
