/* SPDX-License-Identifier: MIT */
/* render_room.c - lays out the memory that samples are read and rendered into, and checks what a
 * stream can show. */
#include "config.h"

#include "loader/render/render.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util/error_set.h"
#include "loader/render/mosaic.h"

void render_files_trim(struct render_files *files, size_t keep)
{
    for (uint32_t i = 0; i < RENDER_PICTURES_MAX; i++) {
        struct render_file *file = &files->of[i];

        if (file->image.cap > keep)
            dataset_buffer_fini(&file->image);
        if (file->fields.cap > keep)
            dataset_buffer_fini(&file->fields);
    }
}

uint64_t render_files_bytes(const struct render_files *files)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < RENDER_PICTURES_MAX; i++)
        bytes += files->of[i].image.len + files->of[i].fields.len;
    return bytes;
}

void render_files_clear(struct render_files *files)
{
    for (uint32_t i = 0; i < RENDER_PICTURES_MAX; i++)
        files->of[i].image.len = files->of[i].fields.len = 0;
}

void render_scratch_fini(struct render_scratch *scratch)
{
    image_decoder_destroy(scratch->decoder);
    render_files_trim(&scratch->files, 0);
    free(scratch->pair);
    mosaic_destroy(scratch->mosaic);
    dataset_buffer_fini(&scratch->hint);
    scratch_free(&scratch->masks);
    *scratch = (struct render_scratch){0};
}

int render_check_images(const struct dataset *dataset, const struct views *views,
                        struct plenum_error *err)
{
    return views_have_images(views) && !dataset_has_images(dataset)
               ? dataset_refuse_images(dataset, err)
               : 0;
}

int render_check_samples(const struct render_spec *spec, struct plenum_error *err)
{
    if (views_parts(&spec->views) == 1 || spec->order.n >= ORDER_MOSAIC_LEAST)
        return 0;
    return error_set(
        err, -EINVAL,
        "a mosaic needs at least %d samples, because it shows four different ones, but "
        "there are %u",
        ORDER_MOSAIC_LEAST, spec->order.n);
}

struct render_target render_target_in(const struct render_spec *spec, void *bytes)
{
    struct render_target target = {.boxes = NULL};
    uint8_t *at = bytes;

    for (uint32_t i = 0; i < spec->views.count; i++) {
        target.view[i] = at;
        at += spec->views.view[i].count * render_view_bytes(spec, i);
    }
    return target;
}

static uint64_t bytes_of_field(const struct render_spec *spec, uint32_t i)
{
    const struct field_shape shape = render_field_shape(spec, i);
    uint64_t bytes = 0;

    if (!shape.mask && !field_is_of_image(&shape))
        return shape.room;
    for (uint32_t k = 0; k < spec->views.count; k++) {
        const struct pipeline *p = &spec->views.view[k].pipeline;

        bytes +=
            spec->views.view[k].count * field_image_bytes(&shape, (uint64_t)p->width * p->height);
    }
    return bytes;
}

uint64_t render_field_bytes(const struct render_spec *spec)
{
    const struct fields *fields = dataset_get_fields(spec->dataset);
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < fields->count; i++)
        bytes += bytes_of_field(spec, i);
    return bytes;
}

void render_target_fields(const struct render_spec *spec, uint8_t *room, uint32_t *lengths,
                          struct render_target *target)
{
    const struct fields *fields = dataset_get_fields(spec->dataset);

    for (uint32_t i = 0; i < fields->count; i++) {
        uint64_t bytes = bytes_of_field(spec, i);

        lengths[i] = (uint32_t)bytes;
        target->field[i] = room;
        target->length[i] = field_varies(&fields->shape[i]) ? &lengths[i] : NULL;
        room += bytes;
    }
}

/* Runs of one sample are decoded once already. Samples in stores that are only copied would fill
 * the loader's memory for fetched ones. */
const char *render_cannot_share(const struct render_spec *spec)
{
    if (!views_have_images(&spec->views) || !dataset_has_images(spec->dataset))
        return "the data set has no images";
    if (spec->order.repeat > 1)
        return "they have --repeat";
    if (dataset_is_generated(spec->dataset))
        return "the data set is generated";
    return dataset_is_remote(spec->dataset) ? "the data set is in an object store" : NULL;
}
