/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/net/wire.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/order/orderplan.h"
#include "common/pipeline/pipeline.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

_Static_assert(WIRE_PLAN_MAX == (int)ORDERPLAN_TEXT_MAX && WIRE_SETS_MAX == (int)MIXTURE_SETS_MAX,
               "a plan fits into its message");

static const char wire_magic[8] = "plenum";
enum { SLOT_ALIGN = 4096 };

uint32_t wire_get_views(const struct wire_open *open, struct wire_view ret[VIEWS_MAX])
{
    if (open->views == 0) {
        ret[0] = (struct wire_view){1, open->height, open->width};
        return 1;
    }
    assert(open->views <= VIEWS_MAX);
    memcpy(ret, open->view, open->views * sizeof(*ret));
    return open->views;
}

uint32_t wire_images(const struct wire_open *open)
{
    struct wire_view view[VIEWS_MAX];
    uint32_t views = wire_get_views(open, view), images = 0;

    for (uint32_t i = 0; i < views; i++)
        images += view[i].count;
    return images;
}

void wire_open_set_views(struct wire_open *open, const struct views *views)
{
    assert(views->count >= 1 && views->count <= VIEWS_MAX);
    (void)snprintf(open->pipeline, sizeof(open->pipeline), "%s", views->text);
    open->views = views->named ? views->count : 0;
    for (uint32_t i = 0; i < open->views; i++)
        open->view[i] = (struct wire_view){views->view[i].count, views->view[i].pipeline.height,
                                           views->view[i].pipeline.width};
    open->height = views->view[0].pipeline.height;
    open->width = views->view[0].pipeline.width;
    open->mix = views_mix(views);
}

uint64_t wire_sample_bytes(const struct wire_open *open)
{
    struct wire_view view[VIEWS_MAX];
    uint32_t views = wire_get_views(open, view);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < views; i++)
        bytes += view[i].count * wire_image_bytes(open, &view[i]);
    return bytes;
}

uint64_t wire_field_bytes(const struct wire_open *open, const struct field_shape *field)
{
    struct wire_view view[VIEWS_MAX];
    uint32_t views = wire_get_views(open, view);
    uint64_t bytes = 0;

    if (!field->mask && !field_is_of_image(field))
        return field->room;
    for (uint32_t i = 0; i < views; i++)
        bytes += view[i].count * field_image_bytes(field, (uint64_t)view[i].width * view[i].height);
    return bytes;
}

int wire_slot_init(const struct wire_open *open, struct wire_slot *ret)
{
    const uint64_t limit = UINT64_C(1) << 40;
    uint64_t count = wire_batch_count(open), sample = wire_sample_bytes(open), at = 0;
    struct wire_view view[VIEWS_MAX];
    uint32_t views = wire_get_views(open, view);
    struct wire_slot s = {0};

    if (sample > 0 && count > limit / sample)
        return -EOVERFLOW;
    for (uint32_t i = 0; i < views; i++) {
        s.pixels_at[i] = at;
        at = align_up(at + count * view[i].count * wire_image_bytes(open, &view[i]), 64);
    }
    s.labels_at = at;
    s.samples_at = s.labels_at + count * sizeof(int64_t);
    s.end = s.samples_at + count * sizeof(uint32_t);
    s.labels2_at = s.weights_at = 0;
    if (open->mix) {
        s.labels2_at = align_up(s.end, sizeof(int64_t));
        s.weights_at = s.labels2_at + count * sizeof(int64_t);
        s.end = s.weights_at + count * sizeof(float);
    }
    if (open->geometry) {
        s.boxes_at = align_up(s.end, sizeof(float));
        s.sizes_at = s.boxes_at + count * wire_images(open) * 4 * sizeof(float);
        s.flips_at = s.sizes_at + count * 2 * sizeof(uint32_t);
        s.end = s.flips_at + count * wire_images(open);
    }
    for (uint32_t i = 0; i < open->num_fields; i++) {
        const struct field_shape *field = &open->field[i];
        uint64_t bytes = wire_field_bytes(open, field);

        if (bytes > 0 && count > limit / bytes)
            return -EOVERFLOW;
        if (field_varies(field)) {
            s.lengths_at[i] = align_up(s.end, 64);
            s.end = s.lengths_at[i] + count * sizeof(uint32_t);
        }
        s.fields_at[i] = align_up(s.end, 64);
        s.end = s.fields_at[i] + count * bytes;
    }
    assert(s.labels_at % sizeof(int64_t) == 0 && s.samples_at % sizeof(uint32_t) == 0);
    assert(s.labels2_at % sizeof(int64_t) == 0 && s.boxes_at % sizeof(float) == 0);
    s.bytes = align_up(s.end, SLOT_ALIGN);
    assert(s.bytes % SLOT_ALIGN == 0);
    *ret = s;
    return 0;
}

static int check_views(const struct wire_open *open, struct plenum_error *err)
{
    struct wire_view view[VIEWS_MAX];
    uint32_t views, images = 0;

    if (open->views > VIEWS_MAX)
        return error_set(err, -EINVAL, "%u views were requested; at most %d are possible",
                         open->views, VIEWS_MAX);
    views = wire_get_views(open, view);
    if (open->views == 0 && open->width == 0 && open->height == 0)
        return 0; /* the pipeline is "none" */
    for (uint32_t i = 0; i < views; i++) {
        const struct wire_view *v = &view[i];

        if (v->width == 0 || v->width > PIPELINE_SIDE_MAX || v->height == 0 ||
            v->height > PIPELINE_SIDE_MAX)
            return error_set(err, -EINVAL, "images of %u x %u pixels are out of range", v->height,
                             v->width);
        if (v->count == 0 || v->count > VIEWS_IMAGES_MAX - images)
            return error_set(err, -EINVAL,
                             "a view of %u images was requested; 1 to %d are possible, counting "
                             "all views of a sample",
                             v->count, VIEWS_IMAGES_MAX);
        images += v->count;
    }
    if (view[0].width != open->width || view[0].height != open->height)
        return error_set(err, -EINVAL, "the first view has %u x %u pixels, not %u x %u",
                         view[0].height, view[0].width, open->height, open->width);
    return 0;
}

/* Check that there are shapes for all requested fields or, while they are unknown, for none. */
static int check_fields(const struct wire_open *open, struct plenum_error *err)
{
    struct fields fields;
    int r = fields_parse(open->fields, &fields, err);

    if (r < 0)
        return r;
    if (open->num_fields > 0 && open->num_fields != fields.count)
        return error_set(err, -EINVAL, "%u fields were requested, but shapes of %u were sent",
                         fields.count, open->num_fields);
    for (uint32_t i = 0; i < open->num_fields; i++)
        if (!field_shape_is_valid(&open->field[i]))
            return error_set(err, -EINVAL, "the field '%s' has an impossible shape",
                             fields.spec[i].name);
    return 0;
}

int wire_open_check_share(const struct wire_open *open, uint32_t per_step, uint32_t offset,
                          struct plenum_error *err)
{
    if (per_step > UINT32_C(1) << 28)
        return error_set(err, -EINVAL, "a step of %u samples is too large", per_step);
    if (open->local > per_step || offset > per_step - open->local)
        return error_set(err, -EINVAL, "an instance cannot take samples %u to %u of a step of %u",
                         offset, offset + open->local, per_step);
    if (open->deal && (per_step % open->deal || offset % open->deal || open->local % open->deal))
        return error_set(
            err, -EINVAL,
            "positions %u to %u of a step of %u cannot be dealt to replicas of %u each", offset,
            offset + open->local, per_step, open->deal);
    return 0;
}

int wire_open_check(const struct wire_open *open, struct plenum_error *err)
{
    struct wire_slot slot;
    int r;

    if (!open->dataset[0])
        return error_set(err, -EINVAL, "the data set's name is empty");
    if (open->per_step == 0 || open->local == 0 || open->steps == 0 || open->slots == 0)
        return error_set(err, -EINVAL, "an empty batch, step or ring was requested");
    if (open->steps > 65536 || open->slots > 4096)
        return error_set(err, -EINVAL, "a batch of %u steps or a ring of %u slots is too large",
                         open->steps, open->slots);
    r = wire_open_check_share(open, open->per_step, open->offset, err);
    if (r < 0)
        return r;
    if (wire_batch_count(open) > UINT32_MAX)
        return error_set(err, -EINVAL, "a batch of %llu samples is too large",
                         (unsigned long long)wire_batch_count(open));
    if (open->shuffle == ORDER_BLOCK && open->block == 0)
        return error_set(err, -EINVAL, "shuffle=block needs blocks of at least one sample");
    if (open->plan[0] && (!orderplan_is(open->plan) || open->shuffle != ORDER_GLOBAL ||
                          open->subset.first || open->subset.end || open->repeat > 1 || open->span))
        return error_set(err, -EINVAL,
                         "a plan has its own shuffle, subset and repeat, and no parts: the request "
                         "has some of its own");
    if (open->subset.end && open->subset.end <= open->subset.first)
        return error_set(err, -EINVAL, "a subset without samples was requested");
    r = check_views(open, err);
    if (r < 0)
        return r;
    r = check_fields(open, err);
    if (r < 0)
        return r;
    if (open->channels != 3 && open->channels != 4)
        return error_set(err, -EINVAL, "%u channels were requested; 3 or 4 are possible",
                         open->channels);
    if (wire_slot_init(open, &slot) < 0)
        return error_set(err, -EINVAL, "a batch of more than 1 TiB was requested");
    if (slot.bytes != open->slot_bytes)
        return error_set(err, -EINVAL,
                         "the two sides disagree about the size of a slot (%llu and %llu bytes)",
                         (unsigned long long)open->slot_bytes, (unsigned long long)slot.bytes);
    return 0;
}

int wire_order(const struct wire_open *open, uint32_t samples, struct order *order,
               struct order_steps *steps, struct plenum_error *err)
{
    struct order o = {.seed = open->seed, .shuffle = open->shuffle, .block = open->block};
    int r = order_init(&o, samples, &open->subset, open->repeat, err);

    if (r < 0)
        return r;
    *order = o;
    *steps = (struct order_steps){.n = order_positions(&o),
                                  .per_step = open->per_step,
                                  .last = open->last,
                                  .span = open->span};
    return 0;
}

void wire_hello_init(struct wire_hello *m, const char *name)
{
    *m = (struct wire_hello){.major = WIRE_MAJOR, .minor = WIRE_MINOR};
    memcpy(m->magic, wire_magic, sizeof(m->magic));
    strncpy(m->name, name, sizeof(m->name) - 1);
}

int wire_hello_check(const struct wire_hello *m, struct plenum_error *err)
{
    if (memcmp(m->magic, wire_magic, sizeof(m->magic)) != 0)
        return error_set(err, -EPROTONOSUPPORT, "the other side does not speak Plenum's protocol");
    if (m->major != WIRE_MAJOR)
        return error_set(err, -EPROTONOSUPPORT,
                         "the other side speaks protocol %u.%u and this side %d.%d: install the "
                         "same major version on both",
                         m->major, m->minor, WIRE_MAJOR, WIRE_MINOR);
    return 0;
}

bool wire_hello_has_version(const struct wire_hello *m, const char *version)
{
    size_t len = strlen(version);

    for (const char *p = m->versions; *p;) {
        size_t n = strcspn(p, " ");

        if (n == len && memcmp(p, version, n) == 0)
            return true;
        p += n;
        p += strspn(p, " ");
    }
    return false;
}

int wire_put_hello(struct frame_buffer *b, const struct wire_hello *m)
{
    size_t begin = frame_begin(b, WIRE_HELLO, 0);

    frame_put_bytes(b, m->magic, sizeof(m->magic));
    frame_put_u16(b, m->major);
    frame_put_u16(b, m->minor);
    frame_put_text(b, m->versions);
    frame_put_text(b, m->name);
    frame_put_text(b, m->job);
    return frame_end(b, begin);
}

int wire_get_hello(struct frame_reader *r, struct wire_hello *ret)
{
    frame_get_bytes(r, ret->magic, sizeof(ret->magic));
    ret->major = frame_get_u16(r);
    ret->minor = frame_get_u16(r);
    frame_get_text(r, ret->versions, sizeof(ret->versions));
    frame_get_text(r, ret->name, sizeof(ret->name));
    ret->job[0] = 0;
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_JOB */
        frame_get_text(r, ret->job, sizeof(ret->job));
    return frame_got(r);
}

static void put_shapes(struct frame_buffer *b, const struct field_shape *shape, uint32_t count)
{
    assert(count <= FIELDS_MAX);
    frame_put_u32(b, count);
    for (uint32_t i = 0; i < count; i++)
        frame_put_bytes(b, &shape[i], sizeof(shape[i])); /* only u32 members, in wire form */
}

static uint32_t get_shapes(struct frame_reader *r, struct field_shape *shape)
{
    uint32_t count = frame_get_choice(r, FIELDS_MAX + 1);

    for (uint32_t i = 0; i < count; i++) {
        frame_get_bytes(r, &shape[i], sizeof(shape[i]));
        if (!r->bad && !field_shape_is_valid(&shape[i]))
            r->bad = true;
    }
    return r->bad ? 0 : count;
}

int wire_put_open(struct frame_buffer *b, uint64_t request, const struct wire_open *m)
{
    size_t begin = frame_begin(b, WIRE_OPEN, request);

    assert(m->views <= VIEWS_MAX);
    frame_put_text(b, m->dataset);
    frame_put_text(b, m->pipeline);
    frame_put_u64(b, m->seed);
    frame_put_u32(b, (uint32_t)m->shuffle);
    frame_put_u32(b, m->block);
    frame_put_u32(b, (uint32_t)m->last);
    frame_put_u32(b, (uint32_t)m->bad);
    frame_put_u32(b, m->per_step);
    frame_put_u32(b, m->offset);
    frame_put_u32(b, m->local);
    frame_put_u32(b, m->steps);
    frame_put_u32(b, (uint32_t)m->dtype);
    frame_put_u32(b, (uint32_t)m->layout);
    frame_put_u32(b, m->channels);
    frame_put_u32(b, m->width);
    frame_put_u32(b, m->slots);
    frame_put_u64(b, m->slot_bytes);
    frame_put_u32(b, m->subset.first);
    frame_put_u32(b, m->subset.end);
    frame_put_u32(b, m->repeat);
    frame_put_u64(b, m->span);
    frame_put_u32(b, m->deal);
    frame_put_u32(b, m->mix);
    frame_put_u32(b, m->height);
    frame_put_u32(b, m->views);
    for (uint32_t i = 0; i < m->views; i++) {
        frame_put_u32(b, m->view[i].count);
        frame_put_u32(b, m->view[i].height);
        frame_put_u32(b, m->view[i].width);
    }
    frame_put_u32(b, m->geometry);
    frame_put_text(b, m->fields);
    put_shapes(b, m->field, m->num_fields);
    frame_put_text(b, m->plan);
    return frame_end(b, begin);
}

int wire_get_open(struct frame_reader *r, struct wire_open *ret)
{
    frame_get_text(r, ret->dataset, sizeof(ret->dataset));
    frame_get_text(r, ret->pipeline, sizeof(ret->pipeline));
    ret->seed = frame_get_u64(r);
    ret->shuffle = (enum order_shuffle)frame_get_choice(r, ORDER_BLOCK + 1);
    ret->block = frame_get_u32(r);
    ret->last = (enum order_last)frame_get_choice(r, ORDER_DROP + 1);
    ret->bad = (enum plenum_bad)frame_get_choice(r, PLENUM_BAD_FAIL + 1);
    ret->per_step = frame_get_u32(r);
    ret->offset = frame_get_u32(r);
    ret->local = frame_get_u32(r);
    ret->steps = frame_get_u32(r);
    ret->dtype = (enum plenum_dtype)frame_get_choice(r, PLENUM_UINT8 + 1);
    ret->layout = (enum plenum_layout)frame_get_choice(r, PLENUM_NCHW + 1);
    ret->channels = frame_get_u32(r);
    ret->width = ret->height = frame_get_u32(r);
    ret->slots = frame_get_u32(r);
    ret->slot_bytes = frame_get_u64(r);
    ret->subset = (struct order_subset){0};
    ret->repeat = 0;
    ret->span = 0;
    ret->deal = 0;
    ret->mix = false;
    ret->views = 0;
    ret->geometry = false;
    ret->fields[0] = '\0';
    ret->num_fields = 0;
    ret->plan[0] = '\0';
    if (!r->bad && r->at == r->end) /* from a client older than WIRE_MINOR_SUBSET */
        return 0;
    ret->subset.first = frame_get_u32(r);
    ret->subset.end = frame_get_u32(r);
    ret->repeat = frame_get_u32(r);
    ret->span = frame_get_u64(r);
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_DEAL */
        ret->deal = frame_get_u32(r);
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_MIX */
        ret->mix = frame_get_choice(r, 2);
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_SHAPE */
        ret->height = frame_get_u32(r);
    if (r->bad || r->at == r->end) /* older than WIRE_MINOR_VIEWS */
        return frame_got(r);
    ret->views = frame_get_choice(r, VIEWS_MAX + 1);
    for (uint32_t i = 0; i < ret->views; i++) {
        ret->view[i].count = frame_get_u32(r);
        ret->view[i].height = frame_get_u32(r);
        ret->view[i].width = frame_get_u32(r);
    }
    ret->geometry = frame_get_choice(r, 2);
    if (!r->bad && r->at < r->end) { /* since WIRE_MINOR_FIELDS */
        frame_get_text(r, ret->fields, sizeof(ret->fields));
        ret->num_fields = get_shapes(r, ret->field);
    }
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_PLAN */
        frame_get_text(r, ret->plan, sizeof(ret->plan));
    return frame_got(r);
}

int wire_put_ask_fields(struct frame_buffer *b, uint64_t request, const struct wire_ask_fields *m)
{
    size_t begin = frame_begin(b, WIRE_FIELDS, request);

    frame_put_text(b, m->dataset);
    frame_put_text(b, m->fields);
    frame_put_text(b, m->plan);
    return frame_end(b, begin);
}

int wire_get_ask_fields(struct frame_reader *r, struct wire_ask_fields *ret)
{
    frame_get_text(r, ret->dataset, sizeof(ret->dataset));
    frame_get_text(r, ret->fields, sizeof(ret->fields));
    ret->plan[0] = '\0';
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_PLAN */
        frame_get_text(r, ret->plan, sizeof(ret->plan));
    return frame_got(r);
}

int wire_put_fields(struct frame_buffer *b, uint64_t request, const struct wire_fields *m)
{
    size_t begin = frame_begin(b, WIRE_FIELDS, request);

    put_shapes(b, m->field, m->count);
    frame_put_bytes(b, m->hash, sizeof(m->hash));
    return frame_end(b, begin);
}

int wire_get_fields(struct frame_reader *r, struct wire_fields *ret)
{
    ret->count = get_shapes(r, ret->field);
    frame_get_bytes(r, ret->hash, sizeof(ret->hash));
    return frame_got(r);
}

int wire_put_opened(struct frame_buffer *b, uint64_t request, const struct wire_opened *m)
{
    size_t begin = frame_begin(b, WIRE_OPENED, request);

    frame_put_u32(b, m->samples);
    frame_put_u32(b, m->classes);
    frame_put_u32(b, m->threads);
    frame_put_u32(b, m->io_threads);
    frame_put_bytes(b, m->fingerprint, sizeof(m->fingerprint));
    frame_put_bytes(b, &m->sum, sizeof(m->sum)); /* only u64 fields, little-endian like the host */
    frame_put_u32(b, m->class_names);
    frame_put_text(b, m->warning);
    frame_put_u32(b, m->positions);
    frame_put_u32(b, m->sets);
    for (uint32_t i = 0; i < m->sets; i++) {
        frame_put_u32(b, m->set[i].samples);
        frame_put_bytes(b, m->set[i].hash, sizeof(m->set[i].hash));
    }
    frame_put_u32(b, m->reweighs);
    for (uint32_t i = 0; i < m->reweighs; i++) {
        frame_put_u64(b, m->reweigh[i].start);
        frame_put_u64(b, m->reweigh[i].hash);
    }
    return frame_end(b, begin);
}

/* Read the sets of a plan. Every sample belongs to one of them. */
static void get_sets(struct frame_reader *r, struct wire_opened *ret)
{
    uint64_t samples = 0;

    ret->positions = frame_get_u32(r);
    ret->sets = frame_get_choice(r, WIRE_SETS_MAX + 1);
    for (uint32_t i = 0; i < ret->sets; i++) {
        ret->set[i].samples = frame_get_u32(r);
        frame_get_bytes(r, ret->set[i].hash, sizeof(ret->set[i].hash));
        samples += ret->set[i].samples;
    }
    if (ret->sets > 0 && (samples != ret->samples || ret->positions == 0))
        r->bad = true;
}

int wire_get_opened(struct frame_reader *r, struct wire_opened *ret)
{
    ret->samples = frame_get_u32(r);
    ret->classes = frame_get_u32(r);
    ret->threads = frame_get_u32(r);
    ret->io_threads = frame_get_u32(r);
    frame_get_bytes(r, ret->fingerprint, sizeof(ret->fingerprint));
    ret->sum = (struct datasum){0};
    ret->class_names = 0;
    ret->warning[0] = '\0';
    ret->positions = ret->sets = ret->reweighs = 0;
    if (!r->bad && r->at == r->end) /* from a loader older than WIRE_MINOR_SUBSET */
        return 0;
    frame_get_bytes(r, &ret->sum, sizeof(ret->sum));
    if (!r->bad && r->at < r->end) { /* since WIRE_MINOR_CLASSES */
        ret->class_names = frame_get_u32(r);
        frame_get_text(r, ret->warning, sizeof(ret->warning));
        if (ret->class_names != 0 && ret->class_names != ret->classes)
            r->bad = true;
    }
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_PLAN */
        get_sets(r, ret);
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_REWEIGH */
        ret->reweighs = frame_get_choice(r, WIRE_REWEIGHS_MAX + 1);
    for (uint32_t i = 0; i < ret->reweighs; i++) {
        ret->reweigh[i].start = frame_get_u64(r);
        ret->reweigh[i].hash = frame_get_u64(r);
    }
    return frame_got(r);
}

int wire_put_render(struct frame_buffer *b, uint64_t request, const struct wire_render *m)
{
    size_t begin = frame_begin(b, WIRE_RENDER, request);

    frame_put_u64(b, m->epoch);
    frame_put_u64(b, m->position);
    frame_put_u32(b, m->slot);
    frame_put_u64(b, m->waited_ns);
    frame_put_u32(b, m->per_step);
    frame_put_u32(b, m->offset);
    return frame_end(b, begin);
}

int wire_get_render(struct frame_reader *r, struct wire_render *ret)
{
    ret->epoch = frame_get_u64(r);
    ret->position = frame_get_u64(r);
    ret->slot = frame_get_u32(r);
    ret->waited_ns = r->at < r->end ? frame_get_u64(r) : WIRE_UNKNOWN;
    ret->per_step = ret->offset = 0;
    if (!r->bad && r->at < r->end) { /* since WIRE_MINOR_RESHAPE */
        ret->per_step = frame_get_u32(r);
        ret->offset = frame_get_u32(r);
    }
    return frame_got(r);
}

int wire_put_done(struct frame_buffer *b, uint64_t request, const struct wire_done *m)
{
    size_t begin = frame_begin(b, WIRE_DONE, request);

    frame_put_u32(b, (uint32_t)m->status);
    frame_put_u32(b, m->substituted);
    frame_put_u64(b, m->queue_ns);
    frame_put_u64(b, m->read_ns);
    frame_put_u64(b, m->render_ns);
    frame_put_u64(b, m->total_ns);
    frame_put_text(b, m->text);
    frame_put_u64(b, m->rest_ns);
    return frame_end(b, begin);
}

/* Read a status, which is 0 or a negative errno value. */
static int get_code(struct frame_reader *r)
{
    int32_t code = (int32_t)frame_get_u32(r);

    r->bad |= code > 0 || code < -4095;
    return r->bad ? 0 : code;
}

/* Read the text of an error; if it is empty, use the text of the code. */
static void get_reason(struct frame_reader *r, int code, char *ret, size_t size)
{
    frame_get_text(r, ret, size);
    if (code < 0 && !*ret)
        (void)snprintf(ret, size, "%s", strerror(-code));
}

int wire_get_done(struct frame_reader *r, struct wire_done *ret)
{
    ret->status = get_code(r);
    ret->substituted = frame_get_u32(r);
    ret->queue_ns = frame_get_u64(r);
    ret->read_ns = frame_get_u64(r);
    ret->render_ns = frame_get_u64(r);
    ret->total_ns = frame_get_u64(r);
    get_reason(r, ret->status, ret->text, sizeof(ret->text));
    ret->rest_ns = !r->bad && r->at < r->end ? frame_get_u64(r) : 0;
    return frame_got(r);
}

int wire_put_stats(struct frame_buffer *b, uint64_t request, const struct wire_stats *m)
{
    size_t begin = frame_begin(b, WIRE_STATS, request);

    frame_put_u64(b, m->uptime_ns);
    frame_put_u64(b, m->sessions);
    frame_put_u64(b, m->samples);
    frame_put_u64(b, m->substituted);
    frame_put_u64(b, m->queued);
    frame_put_u64(b, m->ring_bytes);
    frame_put_u64(b, m->threads);
    return frame_end(b, begin);
}

int wire_get_stats(struct frame_reader *r, struct wire_stats *ret)
{
    ret->uptime_ns = frame_get_u64(r);
    ret->sessions = frame_get_u64(r);
    ret->samples = frame_get_u64(r);
    ret->substituted = frame_get_u64(r);
    ret->queued = frame_get_u64(r);
    ret->ring_bytes = frame_get_u64(r);
    ret->threads = frame_get_u64(r);
    return frame_got(r);
}

int wire_put_error(struct frame_buffer *b, uint64_t request, const struct wire_error *m)
{
    size_t begin = frame_begin(b, WIRE_ERROR, request);

    frame_put_u32(b, (uint32_t)m->code);
    frame_put_text(b, m->text);
    return frame_end(b, begin);
}

int wire_get_error(struct frame_reader *r, struct wire_error *ret)
{
    ret->code = get_code(r);
    get_reason(r, ret->code, ret->text, sizeof(ret->text));
    r->bad |= ret->code == 0;
    return frame_got(r);
}

int wire_put_progress(struct frame_buffer *b, uint64_t request, const struct wire_progress *m)
{
    size_t begin = frame_begin(b, WIRE_PROGRESS, request);

    frame_put_u64(b, m->done);
    frame_put_u64(b, m->total);
    frame_put_text(b, m->text);
    return frame_end(b, begin);
}

int wire_get_progress(struct frame_reader *r, struct wire_progress *ret)
{
    ret->done = frame_get_u64(r);
    ret->total = frame_get_u64(r);
    frame_get_text(r, ret->text, sizeof(ret->text));
    return frame_got(r);
}

int wire_put_ask_name(struct frame_buffer *b, uint64_t request, const struct wire_ask_name *m)
{
    size_t begin = frame_begin(b, WIRE_NAME, request);

    frame_put_u32(b, m->number);
    frame_put_u32(b, m->of);
    return frame_end(b, begin);
}

int wire_get_ask_name(struct frame_reader *r, struct wire_ask_name *ret)
{
    ret->number = frame_get_u32(r);
    ret->of = WIRE_NAMED_SAMPLE;
    if (!r->bad && r->at < r->end) /* since WIRE_MINOR_CLASSES */
        ret->of = (enum wire_named)frame_get_choice(r, WIRE_NAMED_COUNT);
    return frame_got(r);
}

int wire_put_name(struct frame_buffer *b, uint64_t request, const struct wire_name *m)
{
    size_t begin = frame_begin(b, WIRE_NAME, request);

    frame_put_text(b, m->text);
    return frame_end(b, begin);
}

int wire_get_name(struct frame_reader *r, struct wire_name *ret)
{
    frame_get_text(r, ret->text, sizeof(ret->text));
    return frame_got(r);
}

int wire_put_empty(struct frame_buffer *b, enum wire_type type, uint64_t request)
{
    return frame_end(b, frame_begin(b, (uint16_t)type, request));
}
