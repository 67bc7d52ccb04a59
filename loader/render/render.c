/* SPDX-License-Identifier: MIT */
/* render.c - position -> sample -> bytes -> pixels, and what happens when a sample is bad.
 *
 * Every loader must show the same substitute for a bad sample. So Philox draws it from the
 * position. It is rendered with the random numbers of the position, like any sample that the order
 * shows there.
 *
 * Where the data set has a hint cache, the hint of a sample says where its tiles begin. It changes
 * no pixel, and an error of writing one is ignored. */
#include "config.h"

#include "loader/render/render.h"

#include <assert.h>
#include <errno.h>

#include "common/error.h"
#include "common/philox.h"
#include "loader/dataset/hint_cache.h"
#include "loader/render/slices.h"

enum { PROBES_MAX = 100 };

void render_scratch_fini(struct render_scratch *scratch)
{
    image_decoder_destroy(scratch->decoder);
    dataset_buffer_fini(&scratch->buffer);
    dataset_buffer_fini(&scratch->hint);
    *scratch = (struct render_scratch){0};
}

static int decode(const struct render_spec *spec, struct render_scratch *scratch,
                  const struct image_draw *draw, uint32_t sample,
                  const struct dataset_buffer *bytes, void *dst, struct plenum_error *err)
{
    struct hint_cache *hints = dataset_get_hints(spec->dataset);
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
        (void)hint_cache_get(hints, sample, &scratch->hint, &tiles.hint, &tiles.len);
    r = image_render(scratch->decoder, &spec->pipeline, draw, &spec->store, bytes->bytes,
                     bytes->len, dst, err);
    image_decoder_use_tiles(scratch->decoder, NULL);
    if (r < 0)
        return error_prefix(err, r, "%s",
                            dataset_get_sample_name(spec->dataset, sample, name, sizeof(name)));
    if (tiles.found)
        (void)hint_cache_put(hints, sample, tiles.found, tiles.found_len, tiles.found_max);
    return 0;
}

uint32_t render_candidate(const struct render_spec *spec, const struct render_try *try)
{
    uint32_t position = (uint32_t)(try->position % order_positions(&spec->order));
    struct philox_block block;

    assert(try->bad <= PROBES_MAX);
    if (try->bad == 0)
        return render_sample_at(spec, try->epoch, try->position);
    block = philox_draw(spec->order.seed, position, (uint32_t)try->epoch, DRAW_PROBE, try->bad - 1);
    return spec->order.first + philox_below(block.word[0], spec->order.n);
}

bool render_goes_on(const struct render_spec *spec, struct render_try *try, int code,
                    struct plenum_error *err)
{
    if (code != -EBADMSG || spec->bad != PLENUM_BAD_SUBSTITUTE)
        return false;
    if (try->bad < PROBES_MAX) {
        try->bad++;
        return true;
    }
    (void)error_prefix(err, code, "no substitute for a bad sample was found in %d tries; the last",
                       PROBES_MAX);
    return false;
}

int render_bytes_of(const struct render_spec *spec, struct render_scratch *scratch,
                    const struct render_try *try, const struct dataset_buffer *bytes, void *dst,
                    struct render_result *ret, struct plenum_error *err)
{
    struct image_draw draw = {.seed = spec->order.seed,
                              .epoch = (uint32_t)try->epoch,
                              .position =
                                  (uint32_t)(try->position % order_positions(&spec->order))};
    uint32_t shown = render_candidate(spec, try);
    int r;

    if (dataset_is_generated(spec->dataset)) {
        r = slices_render(&draw, spec->pipeline.side, &spec->store, dst);
        if (r < 0)
            (void)error_set(err, r, "out of memory");
    } else {
        r = decode(spec, scratch, &draw, shown, bytes, dst, err);
    }
    if (r < 0)
        return r;
    *ret = (struct render_result){.label = dataset_get_label(spec->dataset, shown),
                                  .sample = shown,
                                  .substituted =
                                      shown != render_sample_at(spec, try->epoch, try->position)};
    return 0;
}

int render_position(const struct render_spec *spec, struct render_scratch *scratch, uint64_t epoch,
                    uint64_t position, void *dst, struct render_result *ret,
                    struct plenum_error *err)
{
    struct render_try try = {.epoch = epoch, .position = position};
    int r;

    do {
        r = dataset_read(spec->dataset, render_candidate(spec, &try), &scratch->buffer, err);
        if (r >= 0)
            r = render_bytes_of(spec, scratch, &try, &scratch->buffer, dst, ret, err);
    } while (render_goes_on(spec, &try, r, err));
    return r;
}
