/* SPDX-License-Identifier: MIT */
/* render.c - renders positions (position -> sample -> bytes -> pixels), and handles bad samples.
 *
 * A mixed position shows its own sample and that of another position, its partner. Each is rendered
 * as it would be without mixing: with the draws and the substitutes of its own position. Both are
 * rendered into scratch memory and combined from there.
 *
 * Every loader must show the same substitute for a bad sample, so Philox draws it from the
 * position. It is rendered with the random numbers of the position, like any sample that the order
 * shows there.
 *
 * If the data set has a hint cache, the hint of a sample says where its tiles begin. A hint never
 * changes a pixel, and if a hint cannot be written, the error is ignored. */
#include "config.h"

#include "loader/render/render.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/order/philox.h"
#include "common/util/error_set.h"
#include "loader/dataset/hint_cache.h"
#include "loader/image/ops/augment.h"
#include "loader/image/ops/mix.h"
#include "loader/render/boxes.h"
#include "loader/render/instance_masks.h"
#include "loader/render/keypoints.h"
#include "loader/render/mosaic.h"
#include "loader/render/slices.h"

enum {
    PROBES_MAX = 100,
    PARTNER = MOSAIC_PARTS, /* index of the partner's first picture */
    PAIR_KEPT = 64 << 20,   /* bytes that are kept from sample to sample */
};

/* Returns the largest number of positions in a run. */
static uint32_t longest_run(const struct render_spec *spec)
{
    uint32_t most = VIEWS_IMAGES_MAX / spec->views.images;

    if (spec->run == 0 || views_pictures(&spec->views) > 1)
        return 1;
    return spec->run < most ? spec->run : most;
}

uint32_t render_run(const struct render_spec *spec, uint64_t position, uint32_t most)
{
    uint32_t repeat = spec->order.repeat ? spec->order.repeat : 1, run = longest_run(spec);
    uint32_t left = repeat - (uint32_t)(position % order_positions(&spec->order) % repeat);

    most = most < run ? most : run;
    return left < most ? left : most;
}

static struct image_draw draw_of(const struct render_spec *spec, const struct render_try *try)
{
    return render_draw(spec, try->epoch, try->position);
}

static struct render_try partner_of(const struct render_spec *spec, const struct render_try *try)
{
    struct render_try partner = {
        .epoch = try->epoch, .position = order_partner(&spec->order, draw_of(spec, try).position)};

    memcpy(partner.bad, &try->bad[PARTNER], MOSAIC_PARTS * sizeof(partner.bad[0]));
    return partner;
}

/* Returns the try of the k-th picture of a position, apart from its partner's. */
static struct render_try part_of(const struct render_spec *spec, const struct render_try *try,
                                 uint32_t k)
{
    struct image_draw draw = draw_of(spec, try);
    uint64_t position = try->position;

    if (k > 0)
        position =
            order_mosaic(&spec->order, draw.epoch, draw.position, render_pipeline(spec)->block, k);
    return (struct render_try){.epoch = try->epoch, .position = position, .bad = {try->bad[k]}};
}

static uint32_t find_candidate(const struct render_spec *spec, const struct render_try *try)
{
    struct image_draw draw = draw_of(spec, try);

    assert(try->bad[0] <= PROBES_MAX);
    if (try->bad[0] == 0)
        return render_sample_at(spec, try->epoch, try->position);
    return order_substitute(&spec->order, draw.epoch, draw.position, try->bad[0] - 1U);
}

uint32_t render_candidate(const struct render_spec *spec, struct render_try *try)
{
    if (try->found != try->bad[0] + 1U) {
        try->sample = find_candidate(spec, try);
        try->found = try->bad[0] + 1U;
    }
    return try->sample;
}

/* List all images of a job, in the order of the text, position after position. Returns their
 * number. */
static uint32_t list_views(const struct render_job *job, struct image_view ret[VIEWS_IMAGES_MAX])
{
    const struct render_spec *spec = job->spec;
    uint32_t n = 0;

    assert(job->count > 0 && job->count * spec->views.images <= VIEWS_IMAGES_MAX);
    for (uint32_t at = 0; at < job->count; at++) {
        struct image_draw draw = draw_of(spec, job->try);

        draw.position += at;
        for (uint32_t i = 0; i < spec->views.count; i++)
            for (uint32_t k = 0; k < spec->views.view[i].count; k++, draw.view++)
                ret[n++] = (struct image_view){
                    .pipeline = &spec->views.view[i].pipeline,
                    .draw = draw,
                    .dst = job->dst[at].view[i] + k * render_view_bytes(spec, i),
                };
    }
    assert(n == job->count * spec->views.images);
    return n;
}

/* Write the geometry of each position's images. */
static void tell_shown(const struct render_job *job, const struct image_view *views)
{
    for (uint32_t at = 0; at < job->count && job->dst[at].boxes; at++) {
        const struct render_target *dst = &job->dst[at];

        dst->size[0] = views->shown.height;
        dst->size[1] = views->shown.width;
        for (uint32_t k = 0; k < job->spec->views.images; k++, views++) {
            memcpy(dst->boxes + 4 * (size_t)k, views->shown.box, sizeof(views->shown.box));
            dst->flips[k] = (uint8_t)(views->shown.mirror | views->shown.upside_down << 1);
        }
    }
}

/* What a position's images show of one of its pictures. */
struct picture {
    const struct render_job *job;
    const struct render_file *file; /* the first one of a mosaic */
    struct moves_whole whole;       /* view NULL: the picture is not a part of a mosaic */
    struct moves_area area;         /* all of each image, or a part */
    bool joins;                     /* the images already show another picture */
    uint8_t *mask;                  /* if it joins: room for a mask, [height][width][2] */
};

/* List where the i-th field of each of `count` images is written, for one position after the
 * other. */
static void list_targets(const struct render_job *job, const struct image_view *views,
                         uint32_t count, uint32_t i, uint8_t *ret[VIEWS_IMAGES_MAX])
{
    const struct field_shape shape = render_field_shape(job->spec, i);
    uint32_t images = job->spec->views.images;

    for (uint32_t k = 0; k < count; k++) {
        bool first = k % images == 0;
        const struct pipeline *before = first ? NULL : views[k - 1].pipeline;

        ret[k] = first ? job->dst[k / images].field[i]
                       : ret[k - 1] +
                             field_image_bytes(&shape, (uint64_t)before->width * before->height);
    }
}

/* Returns the stored bytes of a sample's i-th field. */
static struct image_file value_of(const struct picture *picture, uint32_t i)
{
    const struct fields *fields = dataset_get_fields(picture->job->spec->dataset);
    const uint8_t *bytes = picture->file->fields.bytes;
    const uint32_t *lengths = (const void *)bytes;

    bytes += fields->count * sizeof(uint32_t);
    for (uint32_t k = 0; k < i; k++)
        bytes += fields->stored[k];
    return (struct image_file){bytes, lengths[i]};
}

/* Add the boxes, key points or instances of a sample's i-th field to an image's. */
static int add_objects(const struct picture *picture, const struct image_view *view, uint32_t i,
                       struct plenum_error *err)
{
    const struct render_job *job = picture->job;
    const struct field_spec *spec = &dataset_get_fields(job->spec->dataset)->spec[i];
    const struct field_shape shape = render_field_shape(job->spec, i);
    const uint64_t pixels = (uint64_t)view->pipeline->width * view->pipeline->height;
    const struct image_file value = value_of(picture, i);
    const uint32_t len = (uint32_t)value.len;
    struct boxes_target to = {.view = view,
                              .whole = picture->whole,
                              .area = picture->area,
                              .visible = spec->visible,
                              .most = shape.shape[0],
                              .dst = view->dst};

    if (!picture->joins)
        memset(view->dst, 0, field_image_bytes(&shape, pixels));
    if (shape.type == PLENUM_FIELD_INSTANCES)
        return instance_masks_add(&value, &to, job->scratch->decoder, &job->scratch->masks, err);
    if (shape.type == PLENUM_FIELD_KEYPOINTS) {
        keypoints_add(value.bytes, len,
                      &(struct keypoints_target){.view = view,
                                                 .whole = picture->whole,
                                                 .area = picture->area,
                                                 .spec = spec,
                                                 .shape = &shape,
                                                 .dst = view->dst});
        return 0;
    }
    to.most = field_boxes_most(shape.room);
    boxes_add(value.bytes, len / sizeof(struct plenum_box), &to);
    return 0;
}

/* Copy a rectangle of a mask, with `item` bytes per number. */
static void paste_mask(const struct rect *rect, const struct pipeline *pipeline, uint32_t item,
                       const uint8_t *from, uint8_t *to)
{
    size_t pitch = (size_t)pipeline->width * item;

    assert(rect->left + rect->width <= pipeline->width);
    assert(rect->top + rect->height <= pipeline->height);
    for (uint32_t y = rect->top; y < rect->top + rect->height; y++) {
        size_t at = y * pitch + (size_t)rect->left * item;

        memcpy(to + at, from + at, (size_t)rect->width * item);
    }
}

/* Render the masks of images from a sample's i-th field. */
static int render_masks(const struct picture *picture, struct image_view *masks, uint32_t count,
                        uint32_t i, struct plenum_error *err)
{
    const struct render_job *job = picture->job;
    const struct fields *fields = dataset_get_fields(job->spec->dataset);

    const struct image_file file = value_of(picture, i);

    return image_render_masks(job->scratch->decoder, masks, count, fields->shape[i].room, &file,
                              err);
}

/* Write the masks that belong to images. A picture that joins others replaces a rectangle of
 * theirs. */
static int put_masks(const struct picture *picture, const struct image_view *views, uint32_t count,
                     uint32_t i, struct plenum_error *err)
{
    const uint32_t item = dataset_get_fields(picture->job->spec->dataset)->shape[i].room;
    struct image_view masks[VIEWS_IMAGES_MAX];
    int r;

    memcpy(masks, views, count * sizeof(masks[0]));
    if (picture->joins)
        masks[0].dst = picture->mask;
    r = render_masks(picture, masks, count, i, err);
    if (r == 0 && picture->joins)
        paste_mask(&picture->area.rect, views[0].pipeline, item, picture->mask, views[0].dst);
    return r;
}

/* Set the error about a field of a picture's sample; returns `r`. */
static int about_field(const struct picture *picture, const struct field_spec *spec, int r,
                       struct plenum_error *err)
{
    const struct render_job *job = picture->job;
    uint32_t sample = render_candidate(job->spec, job->try);
    char name[400];

    return error_prefix(err, r, "%s: field '%s' ('%s')",
                        dataset_get_sample_name(job->spec->dataset, sample, name, sizeof(name)),
                        spec->name, spec->source);
}

/* Write the masks, boxes, key points and instances among the fields of a picture into each
 * position's target, cropped and moved like its images. */
static int put_followers(const struct picture *picture, struct image_view *views, uint32_t count,
                         struct plenum_error *err)
{
    const struct fields *fields = dataset_get_fields(picture->job->spec->dataset);
    uint8_t *to[VIEWS_IMAGES_MAX];
    int r = 0;

    for (uint32_t i = 0; i < fields->count && r == 0; i++) {
        const struct field_shape *shape = &fields->shape[i];

        if (!shape->mask && !field_is_of_image(shape))
            continue; /* only followers of a partner have been read */
        list_targets(picture->job, views, count, i, to);
        for (uint32_t k = 0; k < count && r == 0; k++) {
            views[k].dst = to[k];
            if (!shape->mask)
                r = add_objects(picture, &views[k], i, err);
        }
        if (shape->mask)
            r = put_masks(picture, views, count, i, err);
        if (r < 0)
            return about_field(picture, &fields->spec[i], r, err);
    }
    return r;
}

/* Set the boxes on which iou_crop depends. */
static void set_boxes(const struct picture *picture, struct image_view *views, uint32_t count)
{
    const struct fields *fields = dataset_get_fields(picture->job->spec->dataset);
    const struct dataset_buffer *record = &picture->file->fields;
    const uint32_t *lengths = (const void *)record->bytes;

    for (uint32_t k = 0; k < count && record->len > 0; k++) {
        const uint8_t *bytes = record->bytes + fields->count * sizeof(uint32_t);
        int at = views_find_boxes(views[k].pipeline, fields);

        if (at < 0)
            continue;
        for (int i = 0; i < at; i++)
            bytes += fields->stored[i];
        views[k].boxes =
            (struct image_boxes){bytes, (uint32_t)(lengths[at] / sizeof(struct plenum_box))};
    }
}

/* Render a file's images. Also keeps a hint that the decoder found. */
static int decode(const struct picture *picture, struct image_view *views, uint32_t count,
                  const struct image_store *store, struct plenum_error *err)
{
    const struct render_job *job = picture->job;
    const struct render_spec *spec = job->spec;
    struct render_scratch *scratch = job->scratch;
    const struct image_file file = {picture->file->image.bytes, picture->file->image.len};
    uint32_t sample = render_candidate(spec, job->try), number = sample;
    struct hint_cache *hints = dataset_get_hints(dataset_find_set(spec->dataset, &number));
    struct image_tiles tiles = {0};
    char name[400];
    int r;

    if (!scratch->decoder) {
        r = image_decoder_create(&scratch->decoder);
        if (r < 0)
            return error_set(err, r, "out of memory");
    }
    image_decoder_use_jpeg(scratch->decoder, spec->jpeg);
    image_decoder_use_tiles(scratch->decoder, hints ? &tiles : NULL);
    if (hints)
        (void)hint_cache_get(hints, number, &scratch->hint, &tiles.hint, &tiles.len);
    set_boxes(picture, views, count);
    r = image_render_views(scratch->decoder, views, count, store, &file, err);
    image_decoder_use_tiles(scratch->decoder, NULL);
    if (r < 0)
        return error_prefix(err, r, "%s",
                            dataset_get_sample_name(spec->dataset, sample, name, sizeof(name)));
    if (tiles.found)
        (void)hint_cache_put(hints, number, tiles.found, tiles.found_len, tiles.found_max,
                             tiles.len);
    return 0;
}

bool render_goes_on(const struct render_spec *spec, struct render_try *try, int code,
                    struct plenum_error *err)
{
    uint8_t *bad = &try->bad[try->at];

    if (code != -EBADMSG || spec->bad != PLENUM_BAD_SUBSTITUTE)
        return false;
    if (*bad < PROBES_MAX) {
        (*bad)++;
        return true;
    }
    (void)error_prefix(err, code, "no substitute for a bad sample was found in %d tries; the last",
                       PROBES_MAX);
    return false;
}

/* Read the file and the fields of a sample. The fields of other positions are needed only if some
 * follow the pixels. */
static int read_sample(const struct render_spec *spec, struct render_try *try, bool own,
                       struct render_file *file, struct plenum_error *err)
{
    uint32_t sample = render_candidate(spec, try);
    int r = 0;

    if (views_have_images(&spec->views))
        r = dataset_read(spec->dataset, sample, &file->image, err);
    if (r < 0 || (!own && !fields_follow_pixels(dataset_get_fields(spec->dataset))))
        return r;
    return dataset_read_fields(spec->dataset, sample, &file->fields, err);
}

/* Read what the pictures of a position need, apart from its partner's, and set try->at. */
static int read_pictures(const struct render_spec *spec, struct render_try *try, bool own,
                         struct render_file *files, struct plenum_error *err)
{
    int r = 0;

    for (uint32_t k = 0; k < views_parts(&spec->views) && r == 0; k++) {
        struct render_try part = part_of(spec, try, k);

        try->at = k;
        r = read_sample(spec, k > 0 ? &part : try, own && k == 0, &files[k], err);
    }
    return r;
}

int render_read(const struct render_spec *spec, struct render_try *try, struct render_files *files,
                struct plenum_error *err)
{
    struct image_draw draw = draw_of(spec, try);
    struct render_try partner;
    struct mix_plan plan;
    int r = read_pictures(spec, try, true, files->of, err);

    mix_draw(render_pipeline(spec), &draw, &plan);
    if (r < 0 || !plan.mixed)
        return r;
    partner = partner_of(spec, try);
    r = read_pictures(spec, &partner, false, &files->of[PARTNER], err);
    try->at = PARTNER + partner.at;
    return r;
}

/* Write pixels that need no file. */
static int render_slices(struct image_view *views, uint32_t count, const struct image_store *store,
                         struct plenum_error *err)
{
    for (uint32_t i = 0; i < count; i++) {
        const struct pipeline *p = views[i].pipeline;
        int r = slices_render(&views[i].draw, (size_t)p->width * p->height, store, views[i].dst);

        if (r < 0)
            return error_set(err, r, "out of memory");
        views[i].shown = (struct image_shown){.height = p->height,
                                              .width = p->width,
                                              .box = {0, 0, (float)p->width, (float)p->height}};
    }
    return 0;
}

/* Render images of a picture, or of a sample that needs no file. */
static int render_pixels(const struct picture *picture, struct image_view *views, uint32_t count,
                         const struct image_store *store, struct plenum_error *err)
{
    const struct render_spec *spec = picture->job->spec;
    uint32_t sample = render_candidate(spec, picture->job->try);

    if (!views_have_images(&spec->views))
        return 0;
    if (dataset_is_generated(dataset_find_set(spec->dataset, &sample)))
        return render_slices(views, count, store, err);
    return decode(picture, views, count, store, err);
}

/* The pictures of a mosaic. */
struct mosaic_job {
    struct image_view *whole;
    struct render_try try[MOSAIC_PARTS];
    struct render_job job[MOSAIC_PARTS];
    struct picture picture[MOSAIC_PARTS];
    struct image_view view[MOSAIC_PARTS];
};

static void list_parts(const struct picture *picture, struct mosaic_job *m)
{
    const struct render_job *job = picture->job;

    for (uint32_t k = 0; k < MOSAIC_PARTS; k++) {
        const struct mosaic_part *part = mosaic_get_part(job->scratch->mosaic, k);

        m->try[k] = part_of(job->spec, job->try, k);
        m->job[k] = *job;
        m->job[k].try = &m->try[k];
        m->picture[k] = *picture;
        m->picture[k].job = &m->job[k];
        m->picture[k].file += k;
        m->picture[k].whole = (struct moves_whole){m->whole, part->left, part->top};
        m->picture[k].joins = picture->joins || k > 0;
        m->view[k] = (struct image_view){.pipeline = &part->pipeline,
                                         .draw = m->whole->draw,
                                         .dst = mosaic_get_room(job->scratch->mosaic)};
    }
}

/* Write the mask of a mosaic. */
static int put_mosaic_mask(const struct picture *picture, struct mosaic_job *m, uint32_t i,
                           uint8_t *dst, struct plenum_error *err)
{
    const uint32_t item = dataset_get_fields(picture->job->spec->dataset)->shape[i].room;
    struct mosaic *mosaic = picture->job->scratch->mosaic;

    if (mosaic_begin_mask(mosaic, item) < 0)
        return error_set(err, -ENOMEM, "out of memory for a mask");
    for (uint32_t k = 0; k < MOSAIC_PARTS; k++) {
        struct image_view mask = m->view[k];
        int r;

        picture->job->try->at = k;
        mask.dst = mosaic_get_room(mosaic);
        r = render_masks(&m->picture[k], &mask, 1, i, err);
        if (r < 0)
            return about_field(&m->picture[k],
                               &dataset_get_fields(picture->job->spec->dataset)->spec[i], r, err);
        mosaic_put_mask(mosaic, k);
    }
    mosaic_finish_mask(mosaic, picture->joins ? picture->mask : dst);
    if (picture->joins)
        paste_mask(&picture->area.rect, m->whole->pipeline, item, picture->mask, dst);
    return 0;
}

/* Like put_followers(), for the pictures of a mosaic. */
static int put_mosaic_followers(const struct picture *picture, struct mosaic_job *m,
                                struct plenum_error *err)
{
    const struct fields *fields = dataset_get_fields(picture->job->spec->dataset);
    int r = 0;

    for (uint32_t i = 0; i < fields->count && r == 0; i++) {
        uint8_t *dst = picture->job->dst->field[i];

        for (uint32_t k = 0; k < MOSAIC_PARTS && field_is_of_image(&fields->shape[i]); k++) {
            m->view[k].dst = dst;
            r = add_objects(&m->picture[k], &m->view[k], i, err);
        }
        if (fields->shape[i].mask)
            r = put_mosaic_mask(picture, m, i, dst, err);
    }
    return r;
}

/* Render a mosaic, and set try->at. */
static int render_mosaic(const struct picture *picture, struct image_view *view,
                         struct plenum_error *err)
{
    static const struct image_store planes = {PLENUM_UINT8, PLENUM_NCHW, 3};
    const struct render_job *job = picture->job;
    struct render_scratch *scratch = job->scratch;
    struct mosaic_job m = {.whole = view};
    int r = 0;

    if ((!scratch->mosaic && mosaic_create(&scratch->mosaic) < 0) ||
        mosaic_begin(scratch->mosaic, view) < 0)
        return error_set(err, -ENOMEM, "out of memory for a mosaic");
    list_parts(picture, &m);
    for (uint32_t k = 0; k < MOSAIC_PARTS; k++) {
        job->try->at = k;
        r = render_pixels(&m.picture[k], &m.view[k], 1, &planes, err);
        if (r < 0)
            return r;
        mosaic_put_part(scratch->mosaic, k);
    }
    mosaic_finish(scratch->mosaic, &m.view[0].shown, &job->spec->store);
    return job->dst->field[0] ? put_mosaic_followers(picture, &m, err) : 0;
}

/* Render one sample, without mixing: the candidate of this try, or the sample that a run of
 * positions shares. */
static int render_alone(const struct picture *picture, struct plenum_error *err)
{
    const struct render_job *job = picture->job;
    struct image_view views[VIEWS_IMAGES_MAX];
    uint32_t images = list_views(job, views);
    int r;

    assert(job->count == 1 || (job->try->bad[0] == 0 && render_run(job->spec, job->try->position,
                                                                   job->count) == job->count));
    if (views_parts(&job->spec->views) > 1) {
        r = render_mosaic(picture, views, err);
    } else {
        r = render_pixels(picture, views, images, &job->spec->store, err);
        if (r == 0 && job->dst->field[0] && views_have_images(&job->spec->views))
            r = put_followers(picture, views, images, err);
    }
    if (r == 0)
        tell_shown(job, views);
    return r;
}

/* Make room for a sample and its partner. Returns 0 or -ENOMEM. */
static int reserve_pair(struct render_scratch *scratch, uint64_t bytes, struct plenum_error *err)
{
    if (bytes <= scratch->pair_bytes)
        return 0;
    free(scratch->pair);
    scratch->pair = malloc(bytes);
    scratch->pair_bytes = scratch->pair ? bytes : 0;
    return scratch->pair ? 0
                         : error_set(err, -ENOMEM, "out of memory for %llu bytes of pixels",
                                     (unsigned long long)bytes);
}

/* Free the room for a sample and its partner if it is unusually large. */
static void trim_pair(struct render_scratch *scratch)
{
    if (scratch->pair_bytes <= PAIR_KEPT)
        return;
    free(scratch->pair);
    scratch->pair = NULL;
    scratch->pair_bytes = 0;
}

/* Returns the bytes of a sample, its partner, and its partner's mask. */
static uint64_t pair_bytes(const struct render_spec *spec)
{
    return 2 * render_bytes(spec) + 2 * views_pixels(&spec->views);
}

uint64_t render_working_bytes(const struct render_spec *spec)
{
    uint64_t bytes = views_mix(&spec->views) ? pair_bytes(spec) : 0;

    if (views_parts(&spec->views) > 1)
        bytes += mosaic_most_bytes(render_pipeline(spec));
    if (spec->masks) /* three planes of each image, as image_render_masks() creates them, and the
                        scratch memory of instance_masks_show() */
        bytes += (3 + 6) * longest_run(spec) * views_pixels(&spec->views);
    for (uint32_t i = 0; i < spec->views.count; i++)
        bytes += longest_run(spec) * spec->views.view[i].count *
                 augment_most_bytes(&spec->views.view[i].pipeline);
    return bytes + bytes / 4; /* the size that scratch_reserve() allocates */
}

static int render_pair(const struct render_job *job, const struct mix_plan *plan,
                       struct render_result *ret, struct plenum_error *err)
{
    const struct render_spec *spec = job->spec;
    struct render_scratch *scratch = job->scratch;
    struct render_try partner = partner_of(spec, job->try);
    const struct pipeline *pipeline = render_pipeline(spec);
    const struct mix_format format = {pipeline->width, pipeline->height, spec->store};
    struct render_job own = *job, other = *job;
    struct picture first = {.job = &own, .file = &job->files->of[0]};
    struct picture second = {.job = &other, .file = &job->files->of[PARTNER], .joins = true};
    struct render_target one = *job->dst, two;
    int r = reserve_pair(scratch, pair_bytes(spec), err);

    assert(job->count == 1); /* runs are not mixed */
    if (r < 0)
        return r;
    if (plan->cut) {
        first.area = (struct moves_area){MOVES_OUTSIDE, plan->rect};
        second.area = (struct moves_area){MOVES_INSIDE, plan->rect};
    }
    one.view[0] = scratch->pair; /* the geometry and the fields are those of the sample itself */
    own.dst = &one;
    r = render_alone(&first, err);
    if (r < 0)
        return r;
    two = render_target_in(spec, scratch->pair + render_bytes(spec));
    memcpy(two.field, job->dst->field, sizeof(two.field));
    second.mask = scratch->pair + 2 * render_bytes(spec);
    other.try = &partner;
    other.dst = &two;
    r = render_alone(&second, err);
    job->try->at = PARTNER + partner.at;
    if (r < 0)
        return r;
    mix_store(plan, image_kernels(0), &format, one.view[0], two.view[0], job->dst->view[0]);
    ret->label2 = dataset_get_label(spec->dataset, render_candidate(spec, &partner));
    ret->weight = (float)plan->weight / (1 << MIX_WEIGHT_BITS); /* exact as floats */
    trim_pair(scratch);
    return 0;
}

/* Write one line of text. All fields of a position draw the same line number, so that matching
 * lines of two files stay together. */
static void put_line(const struct image_draw *draw, const char *text, uint32_t text_len,
                     uint32_t room, uint8_t *dst, uint32_t *ret_len)
{
    const char *at = text, *end = text + text_len, *line = NULL;
    uint32_t word = image_draw_words(draw, DRAW_LINE, 0).word[0], count = 0;
    size_t len = 0;

    while (field_next_line(&at, end, &len))
        count++;
    assert(count > 0); /* the record was created with at least one */
    at = text;
    for (uint32_t k = philox_below(word, count) + 1; k > 0; k--)
        line = field_next_line(&at, end, &len);
    assert(line && len <= room);
    memcpy(dst, line, len);
    memset(dst + len, 0, room - len);
    *ret_len = (uint32_t)len;
}

/* Write the fields of all positions of a run, which show one sample. */
static void put_fields(const struct render_job *job)
{
    const struct fields *fields = dataset_get_fields(job->spec->dataset);
    const struct dataset_buffer *record = &job->files->of[0].fields;
    struct image_draw draw = draw_of(job->spec, job->try);

    for (uint32_t at = 0; at < job->count && job->dst[at].field[0]; at++, draw.position++) {
        const uint32_t *lengths = (const void *)record->bytes;
        const uint8_t *bytes = record->bytes + fields->count * sizeof(uint32_t);
        const struct render_target *dst = &job->dst[at];

        for (uint32_t i = 0; i < fields->count; bytes += fields->stored[i++]) {
            uint32_t room = fields->shape[i].room;

            assert(dst->field[i]);
            if (fields->spec[i].as == FIELD_AS_LINE) {
                put_line(&draw, (const char *)bytes, lengths[i], room, dst->field[i],
                         dst->length[i]);
                continue;
            }
            if (!fields->shape[i].mask && !field_is_of_image(&fields->shape[i]))
                memcpy(dst->field[i], bytes, room);
            if (dst->length[i])
                *dst->length[i] = lengths[i];
        }
    }
}

int render_bytes_of(const struct render_job *job, struct render_result *ret,
                    struct plenum_error *err)
{
    const struct render_spec *spec = job->spec;
    struct render_try *try = job->try;
    struct image_draw draw = draw_of(spec, try);
    uint32_t shown = render_candidate(spec, try);
    struct render_result result = {
        .label = dataset_get_label(spec->dataset, shown),
        .sample = shown,
        .substituted =
            try->bad[0] > 0 && shown != render_sample_at(spec, try->epoch, try->position),
        .weight = 1,
    };
    struct mix_plan plan;
    int r;

    result.label2 = result.label;
    mix_draw(render_pipeline(spec), &draw, &plan);
    try->at = 0;
    r = plan.mixed ? render_pair(job, &plan, &result, err)
                   : render_alone(&(struct picture){.job = job, .file = &job->files->of[0]}, err);
    if (r < 0)
        return r;
    put_fields(job);
    *ret = result;
    return 0;
}

int render_whole(const struct render_spec *spec, struct render_scratch *scratch,
                 struct order_place place, const struct render_target *dst,
                 struct render_result *ret, struct plenum_error *err)
{
    struct render_try try = {.epoch = place.epoch, .position = place.position};
    const struct render_job job = {
        .spec = spec,
        .scratch = scratch,
        .try = &try,
        .files = &scratch->files,
        .count = 1,
        .dst = dst,
    };
    int r;

    do {
        r = render_read(spec, &try, &scratch->files, err);
        if (r >= 0)
            r = render_bytes_of(&job, ret, err);
    } while (render_goes_on(spec, &try, r, err));
    return r;
}

int render_position(const struct render_spec *spec, struct render_scratch *scratch,
                    struct order_place place, void *dst, struct render_result *ret,
                    struct plenum_error *err)
{
    struct render_target target = render_target_in(spec, dst);

    return render_whole(spec, scratch, place, &target, ret, err);
}
