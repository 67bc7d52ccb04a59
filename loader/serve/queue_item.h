/* SPDX-License-Identifier: MIT */
/* queue_item.h - reads and renders an item: some samples of a request, which one thread reads and
 * another renders. An item belongs to the thread that works on it, so nothing here takes a lock. */
#ifndef LOADER_SERVE_QUEUE_ITEM_H
#define LOADER_SERVE_QUEUE_ITEM_H

#include <stdint.h>

#include <plenum/error.h>

#include "common/util/list.h"
#include "loader/render/render.h"
#include "loader/serve/fair_queue.h"
#include "loader/serve/queue.h"

enum { PARTS_MAX = 32 }; /* per item */

/* How a sample uses a shared rendering. Starts as zeros: it does not. */
struct hold {
    struct rendering *rendering; /* pinned, or NULL */
    enum renderings_way way;
    bool done; /* it was rendered, or copied */
};

/* A sample that needs a substitute because its bytes were bad, a part that its item left to other
 * threads, or a sample that waits for another stream's rendering. It holds no buffer until it is in
 * an item again. */
struct retry {
    struct list link;
    struct queue_request *request;
    uint32_t index, count; /* as in struct part */
    struct render_try try;
    struct hold hold;
};

enum item_state { ITEM_FREE, ITEM_READING, ITEM_READ, ITEM_RENDERING };

/* A sample of a batch, or a run of positions that show the same sample (render_run()). */
struct part {
    uint32_t index; /* the sample's index in its batch */
    uint32_t count; /* length of the run, in consecutive samples of the batch */
    struct render_try try;
    struct render_files files;
    struct hold hold;
    int code; /* result of the last operation on this part; `err` holds its message */
    struct plenum_error err;
};

/* Some samples of one request that are being processed. A FREE item is protected by the queue's
 * lock, and a READ one by the lock of its node queue; in the other states, an item belongs to one
 * thread. */
struct item {
    enum item_state state; /* only item_move() writes it */
    struct list link;      /* in the free items, or in a node queue */
    struct queue_request *request;
    struct flow_turn turn;
    struct part parts[PARTS_MAX];
    uint32_t num_parts, samples; /* 0 when FREE */
    uint32_t copies;             /* parts that are copied from shared renderings */
    uint64_t read_ns, cpu_ns;
};

/* The outcome of rendering an item. */
struct outcome {
    int code; /* if negative, the request fails with this code and `err` */
    struct plenum_error err;
    /* Samples that need a substitute, that belong to a bad run and may each need a different one,
     * or that are left to other threads because those before them were slow to render. */
    struct list retries;
    /* Parked samples of other requests to copy, whose rendering has ended. */
    struct list copies;
    uint32_t rendered, substituted; /* numbers of samples */
};

/** Append a sample, or a run of `count` of them, to an item. */
void queue_item_add_part(struct item *item, uint32_t index, uint32_t count,
                         const struct render_try *try, const struct hold *hold);
/** Read an item's files. If some samples are more expensive than expected, the parts after them go
 * to `left`. */
void queue_item_read(struct item *item, struct list *left);
/** Render an item's samples into their slot. `ret` starts with code 0 and empty lists. `scratch`
 * may be NULL if all of them are copied. */
void queue_item_render(struct render_scratch *scratch, struct item *item, struct outcome *ret);
/** Copy a sample whose rendering is ready to its slot. Returns 0 or a negative code with `err`. */
int queue_item_copy(struct retry *retry, struct render_result *ret, struct plenum_error *err);
/** Free buffers that have grown large. */
void queue_item_trim(struct item *item);
/** Free an item's buffers. */
void queue_item_fini(struct item *item);

#endif
