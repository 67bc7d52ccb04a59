/* SPDX-License-Identifier: MIT */
/* prove_wire.c - reads each message of the loader's protocol from any payload. */
#include "common/net/wire.h"
#include "tests/proofs/frame_contract.h"

uint8_t payload[PAYLOAD];

/* Separate variables, so that no message can overflow into another. */
static struct wire_hello hello;
static struct wire_open opening;
static struct wire_opened opened;
static struct wire_render render;
static struct wire_done done;
static struct wire_stats stats;
static struct wire_error error;
static struct wire_ask_fields ask_fields;
static struct wire_fields fields;
static struct wire_progress progress;
static struct wire_status status;
static struct wire_status_stream stream;
static struct wire_ask_name ask_name;
static struct wire_name name;

/* EVA does not support Frama-C's specification of strerror(). */
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
        return wire_get_hello(r, &hello);
    case 1:
        return wire_get_open(r, &opening);
    case 2:
        return wire_get_opened(r, &opened);
    case 3:
        return wire_get_render(r, &render);
    case 4:
        return wire_get_done(r, &done);
    case 5:
        return wire_get_stats(r, &stats);
    case 6:
        return wire_get_error(r, &error);
    case 7:
        return wire_get_ask_fields(r, &ask_fields);
    case 8:
        return wire_get_fields(r, &fields);
    case 9:
        return wire_get_progress(r, &progress);
    case 10:
        return wire_get_status(r, &status);
    case 11:
        return wire_get_status_stream(r, &stream);
    case 12:
        return wire_get_ask_name(r, &ask_name);
    default:
        return wire_get_name(r, &name);
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
