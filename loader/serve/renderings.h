/* SPDX-License-Identifier: MIT */
/* renderings.h - decides which renderings the loader keeps for other streams that show the same
 * pixels. It knows places and sizes, but neither threads nor pixels.
 *
 * Streams whose positions show the same pixels form a group; the caller's key says which do. When a
 * stream begins a position, the table says whether to render it, to wait for another stream that
 * renders it now, or to copy it. A rendering is kept until no stream of the group will need it, as
 * far as known: each one's next steps follow from its last one.
 *
 * If the limit is reached, the rendering whose next use is farthest away is dropped. If renderings
 * of several users are kept, each user has an equal share of the limit, and may use what others
 * leave. A stream that has begun nothing for RENDERINGS_FORGET_S is forgotten until it begins a
 * position again.
 *
 * Threads: the caller's lock protects everything. */
#ifndef LOADER_SERVE_RENDERINGS_H
#define LOADER_SERVE_RENDERINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/order/order.h"
#include "loader/render/render.h"
#include "loader/serve/treap.h"

enum {
    RENDERINGS_READERS_MAX = 64, /* streams of a group */
    RENDERINGS_FORGET_S = 120,
};

/** The table. Opaque. */
struct renderings;
/** A stream in its group. Opaque. */
struct renderings_reader;
struct renderings_group;

/** One position of a group. */
struct rendering {
    /* The caller's: valid once it is published. */
    void *bytes;                 /* malloc; freed by the caller after renderings_reap() */
    uint64_t size;               /* of `bytes` */
    struct render_result result; /* of the position */
    uint64_t cost_ns;            /* CPU time of rendering it */
    /* Private. */
    struct treap_node place; /* in its group; the key is its place on the group's axis */
    struct treap_node use;   /* in `next`, with the same key */
    struct renderings_group *group;
    struct renderings_reader *next; /* the stream that needs it next, or NULL */
    unsigned pins;                  /* threads and tasks that use it now */
    bool listed;                    /* it is kept: its bytes count, and streams find it */
    bool ready;                     /* it is published */
    struct rendering *dead;         /* link in the list of renderings to free */
};

struct renderings_counts {
    uint64_t rendered; /* positions that were rendered for more than one stream */
    uint64_t shared;   /* positions that a stream copied instead of rendering them */
    uint64_t evicted;  /* renderings that were dropped to make room */
    uint64_t refused;  /* renderings that were not kept, because the kept ones are needed sooner */
    uint64_t saved_ns; /* CPU time of the renderings that were copied, each time */
    uint64_t kept, bytes, limit; /* renderings now */
};

/** What a new stream shows. */
struct renderings_stream {
    const char *user; /* streams of different users are never in one group */
    const void *key;  /* [key_len]; streams with the same pixels have equal keys */
    size_t key_len;
    uint64_t positions; /* in an epoch, N */
    uint64_t bytes;     /* of one rendering */
    uint32_t local;     /* indices of each step that the stream shows, from its offset on */
};

/** Create a table of at most `limit` bytes. Returns NULL if memory runs out. */
struct renderings *renderings_create(uint64_t limit);
/** All streams must have left, and renderings_tidy() have returned false. NULL is ignored. */
void renderings_destroy(struct renderings *t);
void renderings_get_counts(const struct renderings *t, struct renderings_counts *ret);

/* ---- streams ---- */

/** Add a stream. Returns NULL if memory runs out or its group is full: it then shares nothing. */
struct renderings_reader *renderings_join(struct renderings *t, const struct renderings_stream *s);
/** Remove a stream. The reader must not be used any more. NULL is ignored. */
void renderings_leave(struct renderings_reader *reader);
/** Returns whether the group has other streams or kept renderings. If not, renderings_begin() and
 * renderings_take() need not be called. */
bool renderings_are_shared(const struct renderings_reader *reader);

/** Record that the stream begins the position at `index` of its indices in the step at `step`. */
void renderings_begin(struct renderings_reader *reader, const struct order_share *share,
                      struct order_place step, uint32_t index, uint64_t now_ns);

/** Returns the expected time until the stream begins a position at this place. */
double renderings_wait_ns(const struct renderings_reader *reader, struct order_place place,
                          uint64_t now_ns);

/** Returns whether a rendering with this position's pixels is kept or under way. */
bool renderings_has(const struct renderings_reader *reader, struct order_place place);

enum renderings_way {
    RENDERINGS_ALONE, /* render it; it is not kept for other streams */
    RENDERINGS_FILL,  /* render it, and publish or abandon it */
    RENDERINGS_WAIT,  /* another stream renders it now */
    RENDERINGS_COPY,  /* it is ready */
};

/** Returns how the stream, which has begun this position, gets its pixels. `*ret` is set, and
 * pinned for the caller, unless the result is RENDERINGS_ALONE. */
enum renderings_way renderings_take(struct renderings_reader *reader, struct order_place place,
                                    uint64_t now_ns, struct rendering **ret);

/* ---- renderings ---- */

/** Record that the caller, which got RENDERINGS_FILL, has rendered it. It stays pinned. */
void renderings_publish(struct rendering *r);
/** Record that the caller, which got RENDERINGS_FILL, could not render it. No stream finds it any
 * more. It stays pinned. */
void renderings_abandon(struct rendering *r);
/** Add 1 to the number of copies. */
void renderings_count_copy(struct rendering *r);
void renderings_unpin(struct rendering *r);

/** Returns renderings without users, linked by `dead`, which the caller frees with their bytes. */
struct rendering *renderings_reap(struct renderings *t);

/** Forget streams that have stopped. */
void renderings_expire(struct renderings *t, uint64_t now_ns);
/** Find the next uses of at most `most` renderings that their stream has passed, or whose stream
 * has left or was forgotten. Returns whether there may be more. */
bool renderings_tidy(struct renderings *t, unsigned most, uint64_t now_ns);

#endif
