/* SPDX-License-Identifier: MIT */
/* prove_wire.c - reads each message of the loader's protocol from any payload. */
#include "common/net/wire.h"
#include "tests/proofs/frame_contract.h"

uint8_t payload[PAYLOAD];

static struct {
    struct wire_hello hello;
    struct wire_open open;
    struct wire_opened opened;
    struct wire_render render;
    struct wire_done done;
    struct wire_stats stats;
    struct wire_error error;
    struct wire_ask_fields ask_fields;
    struct wire_fields fields;
    struct wire_progress progress;
    struct wire_status status;
    struct wire_status_stream stream;
    struct wire_ask_name ask_name;
    struct wire_name name;
} m;

/* EVA does not support the specification of the C library's. */
char *strerror(int code)
{
    static char text[] = "an error";

    (void)code;
    return text;
}

static int get(int which, struct frame_reader *r)
{
    switch (which) {
    case 0:
        return wire_get_hello(r, &m.hello);
    case 1:
        return wire_get_open(r, &m.open);
    case 2:
        return wire_get_opened(r, &m.opened);
    case 3:
        return wire_get_render(r, &m.render);
    case 4:
        return wire_get_done(r, &m.done);
    case 5:
        return wire_get_stats(r, &m.stats);
    case 6:
        return wire_get_error(r, &m.error);
    case 7:
        return wire_get_ask_fields(r, &m.ask_fields);
    case 8:
        return wire_get_fields(r, &m.fields);
    case 9:
        return wire_get_progress(r, &m.progress);
    case 10:
        return wire_get_status(r, &m.status);
    case 11:
        return wire_get_status_stream(r, &m.stream);
    case 12:
        return wire_get_ask_name(r, &m.ask_name);
    default:
        return wire_get_name(r, &m.name);
    }
}

int main(void)
{
    struct frame_reader r = {
        .at = payload + Frama_C_unsigned_int_interval(0, PAYLOAD),
        .end = payload + PAYLOAD,
    };

    Frama_C_make_unknown((char *)payload, sizeof(payload));
    return get(Frama_C_interval(0, 13), &r);
}
