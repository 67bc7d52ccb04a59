/* SPDX-License-Identifier: MIT */
/* thumbnail.c - renders a thumbnail in a thread (blocking.h), because its storage may hang.
 *
 * The HTTP connection and the job share a thumbnail. The result is set once, by the thread that has
 * rendered the thumbnail, or by the connection when it has waited for too long. */
#include "config.h"

#include "loader/serve/thumbnail.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/util.h"
#include "loader/image/encode.h"
#include "loader/serve/openings.h"

struct thumbnail {
    struct blocking_job job;
    struct session_view view;
    uint32_t index;
    struct blocking *blocking;
    char group[sizeof(((struct session_view *)0)->user) + 16];
    /* Owned by the thread until the result is settled. */
    uint8_t *png;
    size_t len;
    struct plenum_error err;
    /* Any thread, holding mu. */
    struct lock mu;
    unsigned refs;
    int result; /* -EINPROGRESS until it is settled */
    void (*ready)(void *arg);
    void *arg;
};

struct thumbnail *thumbnail_create(const struct session_view *view, uint32_t index,
                                   struct blocking *blocking, void (*ready)(void *arg), void *arg)
{
    struct thumbnail *t = malloc(sizeof(*t));

    if (!t) {
        openings_release(blocking, view->user, view->dataset);
        return NULL;
    }
    *t = (struct thumbnail){.view = *view,
                            .index = index,
                            .blocking = blocking,
                            .refs = 2,
                            .result = -EINPROGRESS,
                            .ready = ready,
                            .arg = arg};
    (void)snprintf(t->group, sizeof(t->group), "thumbnail %s", view->user);
    lock_init(&t->mu);
    return t;
}

static void drop(struct thumbnail *t, unsigned refs)
{
    lock_acquire(&t->mu);
    assert(t->refs >= refs);
    t->refs -= refs;
    refs = t->refs;
    lock_release(&t->mu);
    if (refs > 0)
        return;
    openings_release(t->blocking, t->view.user, t->view.dataset);
    free(t->png);
    lock_fini(&t->mu);
    free(t);
}

/* Set the result. ready() is called with the lock held, so that it has returned when
 * thumbnail_give_up() returns. */
static void settle(struct thumbnail *t, int result)
{
    lock_acquire(&t->mu);
    if (t->result == -EINPROGRESS) {
        t->result = result;
        t->ready(t->arg);
    }
    lock_release(&t->mu);
}

static int make(struct thumbnail *t, const struct render_spec *spec, uint8_t *pixels)
{
    const struct session_view *v = &t->view;
    struct encode_options picture = {.pixels = pixels, .width = v->width, .height = v->height};
    struct render_scratch scratch = {0};
    struct render_result result;
    struct order_place place = {
        v->epoch, v->position + order_deal(v->per_step, v->deal, v->offset + t->index)};
    int r = render_position(spec, &scratch, place, pixels, &result, &t->err);

    render_scratch_fini(&scratch);
    if (r < 0)
        return r;
    r = encode_png(&picture, &t->png, &t->len);
    return r < 0 ? error_set(&t->err, r, "out of memory") : 0;
}

static void work(struct blocking_job *job)
{
    struct thumbnail *t = container_of(job, struct thumbnail, job);
    const struct session_view *v = &t->view;
    struct render_spec spec = {.dataset = v->dataset,
                               .order = v->order,
                               .store = {PLENUM_UINT8, PLENUM_NHWC, 3},
                               .bad = v->bad,
                               .jpeg = v->jpeg};
    uint8_t *pixels;
    int r = views_parse(v->pipeline, &spec.views, &t->err);

    if (r == 0 && !views_have_images(&spec.views))
        r = error_set(&t->err, -ENOENT, "the stream has no images\n");
    if (r < 0) {
        settle(t, r);
        return;
    }
    pixels = malloc(render_bytes(&spec)); /* only the first image is shown */
    settle(t, pixels ? make(t, &spec, pixels) : error_set(&t->err, -ENOMEM, "out of memory"));
    free(pixels);
}

static void done(struct blocking_job *job)
{
    struct thumbnail *t = container_of(job, struct thumbnail, job);

    if (job->code < 0)
        settle(t, error_set(&t->err, job->code, "the loader has no thread left to make it"));
    drop(t, 1);
}

void thumbnail_begin(struct thumbnail *thumbnail)
{
    thumbnail->job = (struct blocking_job){
        .work = work, .done = done, .off_loop = true, .group = thumbnail->group, .limit = 1};
    blocking_start(thumbnail->blocking, &thumbnail->job);
}

void thumbnail_give_up(struct thumbnail *thumbnail)
{
    settle(thumbnail, -ETIMEDOUT);
}

int thumbnail_get(struct thumbnail *thumbnail, const void **png, size_t *len, const char **sentence)
{
    struct thumbnail *t = thumbnail;
    int r;

    lock_acquire(&t->mu);
    r = t->result;
    lock_release(&t->mu);
    *png = r == 0 ? t->png : NULL;
    *len = r == 0 ? t->len : 0;
    *sentence = r == 0 ? "" : r == -ETIMEDOUT ? "its storage is not responding\n" : t->err.text;
    return r;
}

void thumbnail_abandon(struct thumbnail *thumbnail)
{
    if (thumbnail)
        drop(thumbnail, 2);
}

void thumbnail_forget(struct thumbnail *thumbnail)
{
    drop(thumbnail, blocking_cancel(&thumbnail->job) ? 2 : 1);
}
