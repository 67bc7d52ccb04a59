/* SPDX-License-Identifier: MIT */
/* frame.h - length-prefixed little-endian messages, and a non-blocking connection that carries
 * them.
 *
 * Used by the loader's protocol (common/wire.h) and by the launcher's control connection
 * (launcher/control.h). A frame on the wire:
 *
 *     u32 length of the payload | u16 type | u16 zero | u64 request | payload
 *
 * The reader never trusts a length: it is bounded before a byte of the payload is believed. */
#ifndef COMMON_FRAME_H
#define COMMON_FRAME_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAME_HEADER_BYTES = 16 };

/** Bytes that grow. After a failed allocation `failed` is set and further writes do nothing. */
struct frame_buffer {
    uint8_t *bytes;
    size_t len, cap;
    bool failed; /* of the frame that is being written */
    bool lost;   /* a frame was taken back: who waits for it would wait for ever */
};

void frame_buffer_fini(struct frame_buffer *buffer);

/** Start a frame at the end of `b`; returns its offset, for frame_end(). */
size_t frame_begin(struct frame_buffer *b, uint16_t type, uint64_t request);
void frame_put_u8(struct frame_buffer *b, uint8_t v);
void frame_put_u16(struct frame_buffer *b, uint16_t v);
void frame_put_u32(struct frame_buffer *b, uint32_t v);
void frame_put_u64(struct frame_buffer *b, uint64_t v);
void frame_put_bytes(struct frame_buffer *b, const void *bytes, size_t len);
/** A text: u32 length and its bytes, no NUL. */
void frame_put_text(struct frame_buffer *b, const char *text);
/** Write the frame's length: 0, or -ENOMEM when any write since frame_begin() failed (the frame is
 * taken back). */
int frame_end(struct frame_buffer *b, size_t begin);

struct frame_header {
    uint32_t len; /* of the payload */
    uint16_t type;
    uint64_t request;
};

/** A payload that is being read. Reading past its end sets `bad` and gives zeros. */
struct frame_reader {
    const uint8_t *at, *end;
    bool bad;
};

uint8_t frame_get_u8(struct frame_reader *r);
uint16_t frame_get_u16(struct frame_reader *r);
uint32_t frame_get_u32(struct frame_reader *r);
uint64_t frame_get_u64(struct frame_reader *r);
void frame_get_bytes(struct frame_reader *r, void *ret, size_t len);
/** A text of at most size - 1 bytes without NUL inside, or `bad`; `ret` is always terminated. */
void frame_get_text(struct frame_reader *r, char *ret, size_t size);
/** A number that stands for one of `count` choices, or 0 and `bad`. */
uint32_t frame_get_choice(struct frame_reader *r, uint32_t count);
/** All has been read that was wanted: 0, or -EPROTO when it was not there. */
static inline int frame_got(const struct frame_reader *r)
{
    return r->bad ? -EPROTO : 0;
}
/** Borrow `len` raw bytes of the payload, or NULL and `bad`. */
const uint8_t *frame_get_view(struct frame_reader *r, size_t len);

/**
 * Look at the first frame in `bytes`.
 *
 * Returns its whole size (header and payload) when it is complete; 0 when more bytes are needed;
 * -EPROTO when it can never be valid (a payload over `max_payload`, a reserved field in use).
 */
int64_t frame_parse(const uint8_t *bytes, size_t len, uint32_t max_payload,
                    struct frame_header *header, struct frame_reader *payload);

/**
 * What carries the bytes of a connection where the socket itself does not: TLS. Its first read or
 * write begins what it has to do before.
 */
struct frame_carrier {
    /** Bytes > 0, -EAGAIN, -ECONNRESET at the end, or another -errno. */
    int64_t (*read)(struct frame_carrier *carrier, void *bytes, size_t len);
    int64_t (*write)(struct frame_carrier *carrier, const void *bytes, size_t len);
    /** Has it read more than it was asked for, so that the socket does not tell of it? */
    bool (*has_read)(const struct frame_carrier *carrier);
    void (*destroy)(struct frame_carrier *carrier);
    /* What it waits for, where that is not what it was asked for: a handshake writes and reads,
     * whoever called. */
    bool wants_read;  /* nothing can be written before something is read */
    bool wants_write; /* nothing can be read before something is written */
};

/**
 * A connected stream socket, non-blocking, with what was read and not yet understood and what is to
 * be written. One descriptor can be in flight each way (unix sockets).
 *
 * Threads: one at a time.
 */
struct frame_conn {
    int fd; /* owned; -1 when closed */
    uint32_t max_payload;
    struct frame_carrier *carrier; /* owned; or NULL */
    struct frame_buffer rx;
    size_t rx_at; /* consumed so far */
    struct frame_buffer tx;
    size_t tx_at; /* sent so far */
    int tx_fd;    /* owned; goes with the byte at tx_fd_at; -1 when none */
    size_t tx_fd_at;
    bool takes_fd; /* a descriptor may come now: one, which is kept; all others are closed */
    /* none is taken out of the socket, not to be closed either: they are an error */
    bool leaves_fds;
    int rx_fd;             /* owned; the one that has come; -1 when none */
    unsigned unwanted_fds; /* that have come all the same */
    bool lost_fds;         /* some have come that the kernel closed: this process had no room */
    /* Closes what the other side had a hand in, and may so make close(2) wait; NULL: close(2). */
    void (*close_fd)(void *arg, int fd);
    void *close_arg;
    /* Bytes that go as they are, behind those of tx at bulk_at. Borrowed; NULL when there are none.
     */
    const uint8_t *bulk;
    size_t bulk_left, bulk_at;
};

/** Take `fd` (made non-blocking here). No descriptor is taken from the other side until takes_fd is
 * set. */
int frame_conn_init(struct frame_conn *conn, int fd, uint32_t max_payload);
void frame_conn_fini(struct frame_conn *conn);

/** Close the socket; the rest stays until frame_conn_fini(). The other side sees it at once. */
void frame_conn_hang_up(struct frame_conn *conn);

/** Read what has arrived: bytes read > 0, -EAGAIN, -ECONNRESET at the end of the stream, -EPROTO
 * where a descriptor is among it and is to be left there, or another -errno. poll() tells of all
 * that is left; who reads by frame_conn_read_bulk(), too, asks frame_conn_has_read(). */
int64_t frame_conn_fill(struct frame_conn *conn);

/**
 * The next complete frame: 1, 0 when there is none yet, or -EPROTO.
 *
 * `*payload` borrows the connection's buffer until the next call of frame_conn_fill().
 */
int frame_conn_next(struct frame_conn *conn, struct frame_header *header,
                    struct frame_reader *payload);

/** Send what is pending: 0 when all is sent, -EAGAIN when the socket is full or much has been sent
 * at once, -ENOMEM when a frame was lost for want of memory, from then on, or another -errno: then
 * the connection is of no more use. */
int frame_conn_flush(struct frame_conn *conn);

/** Bytes of frames that wait to be sent. */
static inline size_t frame_conn_pending(const struct frame_conn *conn)
{
    return conn->tx.len - conn->tx_at;
}

/** Is there something to be sent as soon as the socket takes it? Reading may change that. */
static inline bool frame_conn_wants_write(const struct frame_conn *conn)
{
    if (conn->carrier && (conn->carrier->wants_read || conn->carrier->wants_write))
        return conn->carrier->wants_write;
    return conn->tx.len > conn->tx_at || conn->bulk_left > 0;
}

/** Is there something to be read that poll() does not tell of? */
static inline bool frame_conn_has_read(const struct frame_conn *conn)
{
    return conn->carrier && conn->carrier->has_read(conn->carrier);
}

/**
 * Let so many bytes follow the frames that were put so far, without a copy: 0, or -EBUSY when some
 * are on their way already. They are borrowed until frame_conn_bulk_left() is 0.
 */
int frame_conn_attach_bulk(struct frame_conn *conn, const void *bytes, size_t len);

static inline size_t frame_conn_bulk_left(const struct frame_conn *conn)
{
    return conn->bulk_left;
}

/**
 * Read bytes that follow a frame as they are, straight to where they belong: their number > 0, or
 * as frame_conn_fill(). Those that came with the frame are taken first.
 */
int64_t frame_conn_read_bulk(struct frame_conn *conn, void *ret, size_t len);

/** Let the frame that begins next at the end of tx carry a descriptor (taken): 0, or -EBUSY when
 * one waits already. */
int frame_conn_attach_fd(struct frame_conn *conn, int fd);

/** Take the descriptor that came in, or -1; none is kept from then on. */
int frame_conn_take_fd(struct frame_conn *conn);

/** Do descriptors wait in what has arrived at a socket, or may they? Closing it closes these, too,
 * which may take as long as whom they belong to likes. */
bool frame_holds_fds(int fd);

#endif
