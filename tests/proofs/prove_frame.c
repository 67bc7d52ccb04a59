/* SPDX-License-Identifier: MIT */
/* prove_frame.c - reads a string from every position of a payload, and any number of bytes. */
#include "tests/proofs/frame_contract.h"

uint8_t payload[PAYLOAD];
static char text[4096], word[8];
static uint8_t bytes[PAYLOAD];

static struct frame_reader reader_at(int at)
{
    return (struct frame_reader){
        .at = payload + at,
        .end = payload + PAYLOAD,
        .bad = Frama_C_interval(0, 1),
    };
}

int main(void)
{
    Frama_C_make_unknown((char *)payload, sizeof(payload));
    /*@ loop unroll PAYLOAD + 1; */
    for (int at = 0; at <= PAYLOAD; at++) {
        struct frame_reader r = reader_at(at);

        frame_get_text(&r, text, sizeof(text));
        r = reader_at(at);
        frame_get_text(&r, word, sizeof(word));
        r = reader_at(at);
        frame_get_bytes(&r, bytes, Frama_C_unsigned_int_interval(1, sizeof(bytes)));
    }
    return 0;
}
