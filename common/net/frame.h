/* SPDX-License-Identifier: MIT */
/* frame.h - length-prefixed little-endian messages, and a non-blocking connection that carries
 * them.
 *
 * Used by the loader's protocol (common/net/wire.h), the launcher's control connection
 * (launcher/control/control.h) and plenumctl job (common/job/jobctl.h). A frame on the wire:
 *
 *     u32 length of the payload | u16 type | u16 zero | u64 request | payload
 *
 * The reader never trusts a length: it is checked against a limit before the payload is used. */
#ifndef COMMON_FRAME_H
#define COMMON_FRAME_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FRAME_HEADER_BYTES = 16 };

/** A growing buffer. After a failed allocation `failed` is set and further writes have no
 *  effect. */
struct frame_buffer {
    uint8_t *bytes;
    size_t len, cap;
    bool failed; /* an allocation failed in the frame that is being written */
    bool lost;   /* a frame was dropped: its recipient would wait for ever */
    /* Called after each frame, even if it was dropped. NULL: nothing is called. */
    void (*ended)(void *arg);
    void *ended_arg;
};

void frame_buffer_fini(struct frame_buffer *buffer);

/** Start a frame at the end of `b`; returns its offset, for frame_end(). */
size_t frame_begin(struct frame_buffer *b, uint16_t type, uint64_t request);
void frame_put_u8(struct frame_buffer *b, uint8_t v);
void frame_put_u16(struct frame_buffer *b, uint16_t v);
void frame_put_u32(struct frame_buffer *b, uint32_t v);
void frame_put_u64(struct frame_buffer *b, uint64_t v);
void frame_put_bytes(struct frame_buffer *b, const void *bytes, size_t len);
/** Append a string: u32 length and its bytes, without NUL. */
void frame_put_text(struct frame_buffer *b, const char *text);
/** Complete a frame by writing its length. Returns 0, or -ENOMEM if any write since frame_begin()
 * failed (the frame is dropped). */
int frame_end(struct frame_buffer *b, size_t begin);

struct frame_header {
    uint32_t len; /* length of the payload in bytes */
    uint16_t type;
    uint64_t request;
};

/** A payload being read. Reading past its end sets `bad` and returns zeros. */
struct frame_reader {
    const uint8_t *at, *end;
    bool bad;
    bool short_of_memory; /* set by callers that could not copy what they read */
};

uint8_t frame_get_u8(struct frame_reader *r);
uint16_t frame_get_u16(struct frame_reader *r);
uint32_t frame_get_u32(struct frame_reader *r);
uint64_t frame_get_u64(struct frame_reader *r);
void frame_get_bytes(struct frame_reader *r, void *ret, size_t len);
/** Read a string of at most size - 1 bytes without NUL inside, or set `bad`; `ret` is always
 *  terminated. */
void frame_get_text(struct frame_reader *r, char *ret, size_t size);
/** Read the number of one of `count` choices, or return 0 and set `bad`. */
uint32_t frame_get_choice(struct frame_reader *r, uint32_t count);
/** Check that everything read so far was present and could be copied. Returns 0, -EPROTO (something
 * was missing or malformed) or -ENOMEM (memory was short). */
static inline int frame_got(const struct frame_reader *r)
{
    return r->short_of_memory ? -ENOMEM : r->bad ? -EPROTO : 0;
}
/** Borrow `len` raw bytes of the payload, or return NULL and set `bad`. */
const uint8_t *frame_get_view(struct frame_reader *r, size_t len);

/**
 * Parse the header of the first frame in `bytes`.
 *
 * Returns the frame's whole size (header and payload) if it is complete; 0 if more bytes are
 * needed; -EPROTO if it can never be valid (a payload over `max_payload`, a reserved field in use).
 */
int64_t frame_parse(const uint8_t *bytes, size_t len, uint32_t max_payload,
                    struct frame_header *header, struct frame_reader *payload);

/**
 * A layer through which a connection reads and writes instead of using its socket directly, such as
 * TLS. The first read or write starts its handshake.
 */
struct frame_carrier {
    /** Returns bytes > 0, -EAGAIN, -ECONNRESET at the end, or another -errno. */
    int64_t (*read)(struct frame_carrier *carrier, void *bytes, size_t len);
    int64_t (*write)(struct frame_carrier *carrier, const void *bytes, size_t len);
    /** Returns whether received bytes are buffered here, which poll() on the socket does not
     * report. */
    bool (*has_read)(const struct frame_carrier *carrier);
    void (*destroy)(struct frame_carrier *carrier);
    bool wants_read;  /* during a handshake: write() must first read from the socket */
    bool wants_write; /* during a handshake: read() must first write to it */
};

/**
 * A connected, non-blocking stream socket, with input that has not been parsed and output that has
 * not been sent. One descriptor can be in flight in each direction (unix sockets).
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
    int tx_fd;    /* owned; sent with the byte at tx_fd_at; -1 for none */
    size_t tx_fd_at;
    bool takes_fd; /* accept one descriptor now and keep it; all others are closed */
    /* leave descriptors in the socket without closing them; they are an error */
    bool leaves_fds;
    int rx_fd;             /* owned; the received descriptor; -1 for none */
    unsigned unwanted_fds; /* received although none was allowed */
    bool lost_fds;         /* the kernel closed descriptors, because this process had none free */
    /* Closes a descriptor that the other side sent, for which close(2) could block. NULL:
     * close(2). */
    void (*close_fd)(void *arg, int fd);
    void *close_arg;
    /* Raw bytes that are sent once tx has been sent up to bulk_at. Borrowed; NULL for none. */
    const uint8_t *bulk;
    size_t bulk_left, bulk_at;
};

/** Take `fd` and make it non-blocking. No descriptors are accepted from the other side until
 * takes_fd is set. Returns 0 or -errno; `fd` is taken in either case. */
int frame_conn_init(struct frame_conn *conn, int fd, uint32_t max_payload);
void frame_conn_fini(struct frame_conn *conn);

/** Close the socket. The other side sees this at once; all memory stays until frame_conn_fini(). */
void frame_conn_hang_up(struct frame_conn *conn);

/** Read what has arrived. Returns the number of bytes (> 0), -EAGAIN, -ECONNRESET at the end of the
 *  stream, -EPROTO if it carries a descriptor that must stay in the socket, or another -errno.
 *  poll() reports whatever is left; callers that also use frame_conn_read_bulk() must check
 *  frame_conn_has_read(). */
int64_t frame_conn_fill(struct frame_conn *conn);

/**
 * Get the next complete frame. Returns 1, 0 if there is none yet, or -EPROTO.
 *
 * `*payload` borrows the connection's buffer until the next frame_conn_fill().
 */
int frame_conn_next(struct frame_conn *conn, struct frame_header *header,
                    struct frame_reader *payload);

/** Send pending output. Returns 0 if everything is sent; -EAGAIN if the socket is full or much has
 * been sent at once; -ENOMEM, permanently, if a frame was lost for lack of memory; or another
 * -errno, after which the connection is unusable. */
int frame_conn_flush(struct frame_conn *conn);

/** Free the buffers that are empty, because a quiet connection needs none. Payloads of
 * frame_conn_next() are no longer valid. */
void frame_conn_trim(struct frame_conn *conn);

/** Returns the number of bytes that wait to be sent in frames. */
static inline size_t frame_conn_pending(const struct frame_conn *conn)
{
    return conn->tx.len - conn->tx_at;
}

/** Is there output to send once the socket accepts it? Reading can change that. */
static inline bool frame_conn_wants_write(const struct frame_conn *conn)
{
    if (conn->carrier && (conn->carrier->wants_read || conn->carrier->wants_write))
        return conn->carrier->wants_write;
    return conn->tx.len > conn->tx_at || conn->bulk_left > 0;
}

/** Is there input that poll() does not report? */
static inline bool frame_conn_has_read(const struct frame_conn *conn)
{
    return conn->carrier && conn->carrier->has_read(conn->carrier);
}

/**
 * Send these bytes after the frames written so far, without a copy. Returns 0, or -EBUSY if earlier
 * bulk bytes are still in flight. They are borrowed until frame_conn_bulk_left() is 0.
 */
int frame_conn_attach_bulk(struct frame_conn *conn, const void *bytes, size_t len);

static inline size_t frame_conn_bulk_left(const struct frame_conn *conn)
{
    return conn->bulk_left;
}

/**
 * Read raw bytes that follow a frame, straight to their destination. Returns their number (> 0), or
 * an error of frame_conn_fill(). Bytes that arrived together with the frame come first.
 */
int64_t frame_conn_read_bulk(struct frame_conn *conn, void *ret, size_t len);

/** Attach a descriptor (taken) to the frame that begins next at the end of tx. Returns 0, or -EBUSY
 * if one is already waiting. */
int frame_conn_attach_fd(struct frame_conn *conn, int fd);

/** Take the received descriptor, or return -1. The connection no longer owns it. */
int frame_conn_take_fd(struct frame_conn *conn);

/** Returns whether the input of a socket contains, or could contain, descriptors. Closing the
 *  socket closes these, too, which can block for as long as their owner likes. */
bool frame_holds_fds(int fd);

#endif
