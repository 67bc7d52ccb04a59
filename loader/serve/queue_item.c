/* SPDX-License-Identifier: MIT */
/* queue_item.c - reads and renders the samples of one item, which may leave some of them to other
 * threads. */
#include "config.h"

#include "loader/serve/queue_item.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/serve/queue_priv.h"
#include "loader/serve/sharing.h"

enum {
    BUFFER_KEEP = 16 << 20, /* a buffer that grew beyond this is freed after its sample */
    PART_KEEP = 256 << 10,  /* the same limit for an item's parts after the first */
    /* An item leaves its remaining parts to other threads after a sample that exceeds one of these
     * limits: */
    LATE_NS = 1000000,  /* time to read it */
    LARGE = 256 << 10,  /* size in bytes */
    DEAR_NS = 50000000, /* time to render it */
};

void queue_item_add_part(struct item *item, uint32_t index, uint32_t count,
                         const struct render_try *try, const struct hold *hold)
{
    struct part *p = &item->parts[item->num_parts++];

    assert(item->num_parts <= PARTS_MAX && count > 0);
    p->index = index;
    p->count = count;
    p->try = *try;
    p->hold = *hold;
    p->code = 0;
    item->samples += count;
    item->copies += hold->way == RENDERINGS_COPY;
}

static void free_retries(struct list *retries)
{
    struct list *link;

    while ((link = list_pop_first(retries)))
        free(container_of(link, struct retry, link));
}

/* Add retries for the positions of a part, `each` positions per retry, to the front of the list.
 * Returns false when out of memory. */
static bool add_retries(struct list *retries, struct queue_request *request,
                        const struct part *part, uint32_t each)
{
    assert(each > 0 && part->count % each == 0);
    for (uint32_t i = 0; i < part->count; i += each) {
        struct retry *retry = malloc(sizeof(*retry));

        if (!retry)
            return false;
        *retry = (struct retry){
            .request = request, .index = part->index + i, .count = each, .try = part->try};
        retry->try.position += i;
        retry->try.found = 0;
        retry->hold = part->hold;
        list_add_first(retries, &retry->link);
    }
    return true;
}

/* Remove the parts from `first` onwards from an item and add them to `left`. Changes nothing and
 * returns false when out of memory. */
static bool leave_parts(struct item *item, uint32_t first, struct list *left)
{
    assert(first > 0); /* an item keeps its first part */
    for (uint32_t i = first; i < item->num_parts; i++)
        if (!add_retries(left, item->request, &item->parts[i], item->parts[i].count)) {
            free_retries(left);
            return false;
        }
    for (; item->num_parts > first; item->num_parts--) {
        item->samples -= item->parts[item->num_parts - 1].count;
        item->copies -= item->parts[item->num_parts - 1].hold.way == RENDERINGS_COPY;
    }
    return true;
}

void queue_item_read(struct item *item, struct list *left)
{
    const struct render_spec *spec = item->request->stream->spec;
    uint64_t begin = time_now_ns(), cpu = time_cpu_ns(), bytes = 0;

    assert(item->state == ITEM_READING && item->num_parts > 0);
    for (uint32_t i = 0; i < item->num_parts; i++) {
        struct part *p = &item->parts[i];

        if (p->hold.way == RENDERINGS_COPY)
            continue;
        if (i > 0 && (bytes > LARGE || time_now_ns() - begin > LATE_NS) &&
            leave_parts(item, i, left))
            break;
        render_files_clear(&p->files);
        p->code = render_read(spec, &p->try, &p->files, &p->err);
        bytes += render_files_bytes(&p->files);
    }
    item->read_ns = time_now_ns() - begin;
    item->cpu_ns = time_cpu_ns() - cpu;
}

/* Returns where to write the pixels of a sample of a batch. */
static struct render_target target_of(const struct queue_stream *s, uint8_t *slot, uint32_t index)
{
    const struct views *views = &s->spec->views;
    struct render_target target = {.boxes = NULL};

    assert(index < wire_batch_count(s->open));
    for (uint32_t i = 0; i < views->count; i++)
        target.view[i] = slot + s->layout->pixels_at[i] +
                         (uint64_t)index * views->view[i].count * render_view_bytes(s->spec, i);
    if (s->open->geometry) {
        target.boxes =
            (float *)(void *)(slot + s->layout->boxes_at) + (uint64_t)index * views->images * 4;
        target.size = (uint32_t *)(void *)(slot + s->layout->sizes_at) + (uint64_t)index * 2;
        target.flips = slot + s->layout->flips_at + (uint64_t)index * views->images;
    }
    for (uint32_t i = 0; i < s->open->num_fields; i++) {
        target.field[i] =
            slot + s->layout->fields_at[i] + index * wire_field_bytes(s->open, &s->open->field[i]);
        if (field_varies(&s->open->field[i]))
            target.length[i] = (uint32_t *)(void *)(slot + s->layout->lengths_at[i]) + index;
    }
    return target;
}

/* Write a part's pixels, labels and sample numbers to its slot. */
static int render_part(struct render_scratch *scratch, const struct queue_request *request,
                       struct part *p, struct render_result *result)
{
    const struct queue_stream *s = request->stream;
    uint8_t *slot = ring_slot(s->ring, request->slot);
    struct render_target targets[VIEWS_IMAGES_MAX];
    const struct render_job job = {
        .spec = s->spec,
        .scratch = scratch,
        .try = &p->try,
        .files = &p->files,
        .count = p->count,
        .dst = targets,
    };
    int r;

    assert(p->count <= VIEWS_IMAGES_MAX);
    for (uint32_t i = 0; i < p->count; i++)
        targets[i] = target_of(s, slot, p->index + i);
    r = p->hold.rendering ? sharing_render(&job, s, &p->hold, result, &p->err)
                          : render_bytes_of(&job, result, &p->err);
    if (r < 0)
        return r;
    for (uint32_t i = p->index; i < p->index + p->count; i++) {
        ((int64_t *)(void *)(slot + s->layout->labels_at))[i] = result->label;
        ((uint32_t *)(void *)(slot + s->layout->samples_at))[i] = result->sample;
        if (s->open->mix) {
            ((int64_t *)(void *)(slot + s->layout->labels2_at))[i] = result->label2;
            ((float *)(void *)(slot + s->layout->weights_at))[i] = result->weight;
        }
    }
    return 0;
}

void queue_item_render(struct render_scratch *scratch, struct item *item, struct outcome *ret)
{
    struct queue_request *r = item->request;
    uint64_t begin = time_now_ns();

    assert(item->state == ITEM_RENDERING && ret->code == 0 && list_is_empty(&ret->retries));
    ret->code = ring_check(r->stream->ring, &ret->err);
    for (struct part *p = item->parts; p < item->parts + item->num_parts && ret->code == 0; p++) {
        struct render_result result = {0};

        if (p > item->parts && time_now_ns() - begin > DEAR_NS &&
            add_retries(&ret->retries, r, p, p->count)) {
            p->hold = (struct hold){0}; /* the retry has it */
            continue;
        }
        if (p->code == 0)
            p->code = render_part(scratch, r, p, &result);
        if (p->code == 0) {
            ret->rendered += p->count;
            ret->substituted += result.substituted;
        } else if (p->count > 1 ? p->code == -EBADMSG
                                : render_goes_on(r->stream->spec, &p->try, p->code, &p->err)) {
            if (!add_retries(&ret->retries, r, p, 1))
                ret->code = error_set(&ret->err, -ENOMEM, "out of memory");
            else
                p->hold = (struct hold){0};
        } else {
            ret->code = p->code;
            ret->err = p->err;
        }
    }
    assert(ret->rendered <= item->samples && ret->substituted <= ret->rendered);
}

int queue_item_copy(struct retry *retry, struct render_result *ret, struct plenum_error *err)
{
    const struct queue_request *request = retry->request;
    struct part p = {
        .index = retry->index, .count = retry->count, .try = retry->try, .hold = retry->hold};
    int r = ring_check(request->stream->ring, err);

    assert(p.hold.way == RENDERINGS_COPY);
    if (r == 0 && (r = render_part(NULL, request, &p, ret)) < 0)
        *err = p.err;
    retry->hold = p.hold;
    return r;
}

void queue_item_trim(struct item *item)
{
    for (uint32_t i = 0; i < item->num_parts; i++)
        render_files_trim(&item->parts[i].files, i == 0 ? BUFFER_KEEP : PART_KEEP);
}

void queue_item_fini(struct item *item)
{
    for (uint32_t i = 0; i < PARTS_MAX; i++)
        render_files_trim(&item->parts[i].files, 0);
}
