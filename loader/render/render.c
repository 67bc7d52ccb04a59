/* render.c - position -> sample -> bytes -> pixels, and what happens when a sample is bad.
 *
 * A bad sample must not make a difference between loaders: the one that stands in for it is drawn
 * by Philox from the position, so every loader that meets the bad sample shows the same other one.
 * It is drawn with the draws of the position, like any sample that the order could have put there.
 *
 * Where the data set keeps notes, each sample's is where its tiles begin. It makes no difference to
 * what is rendered, and what becomes of writing one is of no importance here. */
#include "config.h"

#include "loader/render/render.h"

#include <errno.h>

#include "common/error.h"
#include "common/philox.h"
#include "loader/dataset/notes.h"
#include "loader/render/slices.h"

enum { PROBES_MAX = 100 };

void render_scratch_fini(struct render_scratch *scratch)
{
    image_decoder_destroy(scratch->decoder);
    dataset_buffer_fini(&scratch->buffer);
    dataset_buffer_fini(&scratch->note);
    *scratch = (struct render_scratch){0};
}

static int decode(const struct render_spec *spec, struct render_scratch *scratch,
                  const struct image_draw *draw, uint32_t sample,
                  const struct dataset_buffer *bytes, void *dst, struct plenum_error *err)
{
    struct notes *notes = dataset_get_notes(spec->dataset);
    struct image_tiles tiles = {0};
    char name[400];
    int r;

    if (!scratch->decoder) {
        r = image_decoder_create(&scratch->decoder);
        if (r < 0)
            return error_set(err, r, "out of memory");
    }
    image_decoder_use_jpeg(scratch->decoder, spec->jpeg);
    image_decoder_use_tiles(scratch->decoder, notes ? &tiles : NULL);
    if (notes)
        (void)notes_get(notes, sample, &scratch->note, &tiles.note, &tiles.len);
    r = image_render(scratch->decoder, &spec->pipeline, draw, &spec->store, bytes->bytes,
                     bytes->len, dst, err);
    image_decoder_use_tiles(scratch->decoder, NULL);
    if (r == 0 && tiles.found)
        (void)notes_put(notes, sample, tiles.found, tiles.found_len, tiles.found_max);
    if (r < 0)
        return error_prefix(err, r, "%s",
                            dataset_get_sample_name(spec->dataset, sample, name, sizeof(name)));
    return 0;
}

/* Read (unless `early` holds it) and decode one sample. */
static int try_sample(const struct render_spec *spec, struct render_scratch *scratch,
                      const struct image_draw *draw, uint32_t sample, void *dst,
                      struct plenum_error *err)
{
    int r = dataset_read(spec->dataset, sample, &scratch->buffer, err);

    return r < 0 ? r : decode(spec, scratch, draw, sample, &scratch->buffer, dst, err);
}

int render_position(const struct render_spec *spec, struct render_scratch *scratch, uint64_t epoch,
                    uint64_t position, const struct dataset_buffer *early, int early_code,
                    const struct plenum_error *early_err, void *dst, struct render_result *ret,
                    struct plenum_error *err)
{
    struct image_draw draw = {.seed = spec->order.seed,
                              .epoch = (uint32_t)epoch,
                              .position = (uint32_t)(position % order_positions(&spec->order))};
    uint32_t sample = render_sample_at(spec, epoch, position), shown = sample;
    int r;

    if (dataset_is_made_up(spec->dataset)) {
        r = slices_render(&draw, spec->pipeline.side, &spec->store, dst);
        if (r < 0)
            (void)error_set(err, r, "out of memory");
    } else if (!early) {
        r = try_sample(spec, scratch, &draw, sample, dst, err);
    } else if (early_code < 0) {
        r = error_set(err, early_code, "%s", early_err->text);
    } else {
        r = decode(spec, scratch, &draw, sample, early, dst, err);
    }
    for (uint32_t j = 0; r == -EBADMSG && spec->bad == PLENUM_BAD_SUBSTITUTE && j < PROBES_MAX;
         j++) {
        struct philox_block block =
            philox_draw(draw.seed, draw.position, draw.epoch, DRAW_PROBE, j);

        shown = spec->order.first + philox_below(block.word[0], spec->order.n);
        r = try_sample(spec, scratch, &draw, shown, dst, err);
    }
    if (r == -EBADMSG && spec->bad == PLENUM_BAD_SUBSTITUTE)
        return error_prefix(
            err, r, "no substitute for a bad sample was found in %d tries; the last", PROBES_MAX);
    if (r < 0)
        return r;
    *ret = (struct render_result){.label = dataset_get_label(spec->dataset, shown),
                                  .sample = shown,
                                  .substituted = shown != sample};
    return 0;
}
