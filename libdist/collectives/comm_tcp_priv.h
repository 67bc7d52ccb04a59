/* SPDX-License-Identifier: MIT */
/* comm_tcp_priv.h - shared by comm_tcp.c and comm_tcp_meet.c. */
#ifndef LIBDIST_COLLECTIVES_COMM_TCP_PRIV_H
#define LIBDIST_COLLECTIVES_COMM_TCP_PRIV_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/frame.h"
#include "libdist/collectives/comm_tcp.h"

/* Frames. Each begins with its type, and DATA is followed by bytes outside of any frame:
 *
 *     HELLO  magic, version, instances, instance     the first frame, in both directions
 *     DATA   number of the collective, bytes         then the bytes
 *     LAST   number of the last collective that the sender has reached, 1 + the instance that has
 *            ended, or 0                             the last frame */
enum { TCP_HELLO = 1, TCP_DATA, TCP_LAST };
enum { TCP_VERSION = 1, TCP_PAYLOAD_MAX = 64, TCP_LOOK_MS = 50 };

/* The instance on another host. */
struct tcp_peer {
    struct frame_conn conn;
    uint32_t instance;
    bool up;               /* connected, and it has said HELLO */
    bool framed;           /* a DATA frame has come, of which `left` bytes have not been read */
    uint64_t number, left; /* of that frame */
    bool ended;            /* LAST has come: */
    uint64_t reached;
    uint32_t culprit; /* 1 + the instance that had ended; 0: none */
    uint64_t gone_ns; /* when the connection ended; 0: it has not */
    /* Moves whose data was queued, sent, and received; and bytes received of the next one. */
    uint64_t queued, sent, arrived;
    size_t got;
};

struct tls;

/** Connect with all. Sets both of `tls`, which the caller destroys in any case. Returns like
 * comm_tcp_open(). comm_tcp_meet.c. */
int tcp_meet(const struct comm_tcp_world *world, struct tls *tls[2], struct tcp_peer *peers,
             uint64_t deadline_ns, uint32_t *who, struct plenum_error *err);

/** Add the frame to what the peer will be sent. Returns 0 or -ENOMEM. */
int tcp_put_hello(struct frame_conn *conn, uint32_t instances, uint32_t instance);

/** Read HELLO. Returns 0, with the sender's number, or -EPROTO if the job or version differs. */
int tcp_get_hello(struct frame_reader *payload, uint32_t instances, uint32_t *instance);

/** Limit how long we wait for a host that does not answer, and do not delay small messages. */
void tcp_tune(int fd);

#endif
