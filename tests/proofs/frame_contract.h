/* SPDX-License-Identifier: MIT */
/* frame_contract.h - the contract of frame_get_text(). prove_frame.c proves it, and prove_wire.c
 * builds on it, because a string of any length is too much for EVA in the middle of a message.
 *
 * A payload is the last bytes of a buffer, so readers that start anywhere in the buffer read
 * payloads of all lengths up to its size. */
#ifndef TESTS_PROOFS_FRAME_CONTRACT_H
#define TESTS_PROOFS_FRAME_CONTRACT_H

#include "__fc_builtin.h"

#include "common/net/frame.h"

enum { PAYLOAD = 128 };

extern uint8_t payload[PAYLOAD];

/*@ predicate inside(struct frame_reader *r) =
      \subset(r->at, &payload[0 .. PAYLOAD]) && r->end == &payload[PAYLOAD] &&
      (r->bad == 0 || r->bad == 1); */

/*@ requires \valid(r) && inside(r);
    requires size > 0 && \valid(ret + (0 .. size - 1));
    assigns r->at, r->bad \from r->at, r->bad, size, payload[0 .. PAYLOAD - 1];
    assigns ret[0 .. size - 1] \from payload[0 .. PAYLOAD - 1], size;
    ensures inside(r) && \initialized(ret); */
void frame_get_text(struct frame_reader *r, char *ret, size_t size);

#endif
