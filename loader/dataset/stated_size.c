/* SPDX-License-Identifier: MIT */
/* stated_size.c - the sizes of pictures that their annotations give, and EXIF.
 *
 * Cameras store many photographs turned, and EXIF says how to show them. Most programs for drawing
 * boxes show the turned picture, so the boxes are for that, but some do not; and of the programs
 * that train, some turn pictures, and others do not. Nothing is wrong in a single file, so the
 * fingerprint counts such pictures among those that it reads, and a stream with boxes warns. */
#include "config.h"

#include <stdio.h>
#include <string.h>

#include "common/order/mixture.h"
#include "common/util/util.h"
#include "loader/dataset/dataset_priv.h"

void dataset_get_stated_size(const struct dataset *dataset, uint32_t sample, uint32_t *ret)
{
    dataset = dataset_find_set(dataset, &sample);
    ret[0] = ret[1] = 0;
    if (dataset->format->stated_size)
        dataset->format->stated_size(dataset, &dataset->index.samples[sample], ret);
}

/* Returns whether the stream has fields that follow pixels, or could. */
static bool has_places(const struct dataset *d)
{
    const struct fields *fields = dataset_get_fields(d);

    for (uint32_t i = 0; i < fields->count; i++)
        if (dataset_has_object_classes(d) || fields->shape[i].mask ||
            field_is_of_image(&fields->shape[i]))
            return true;
    return false;
}

static void warn_of_sets(const struct dataset *d, bool exif, char *ret, size_t size)
{
    struct dataset_set sets[MIXTURE_SETS_MAX];
    uint32_t count = dataset_get_sets(d, sets);
    char text[400];
    size_t len = 0;

    for (uint32_t i = 0; i < count && len < size; i++) {
        if (dataset_warn_of_exif(sets[i].dataset, exif, text, sizeof(text))[0])
            len += (size_t)snprintf(ret + len, size - len, "%s%s: %s", len > 0 ? "; " : "",
                                    sets[i].name, text);
    }
}

char *dataset_warn_of_exif(const struct dataset *dataset, bool exif, char *ret, size_t size)
{
    const struct index_header *h = dataset->index.header;
    unsigned checked = (unsigned)min_u64(h->samples, FINGERPRINT_SAMPLES);

    ret[0] = '\0';
    if (dataset_get_plan(dataset))
        warn_of_sets(dataset, exif, ret, size);
    else if (!has_places(dataset) || !dataset_has_images(dataset))
        return ret;
    else if (!exif && h->checked.turned > 0)
        (void)snprintf(ret, size,
                       "%u of the %u pictures that were checked are stored turned (EXIF), but the "
                       "pipeline lacks exif, so boxes may miss their objects: begin the pipeline "
                       "with exif, unless they were drawn on the pictures as stored",
                       h->checked.turned, checked);
    else if (exif && h->checked.as_stored > 0)
        (void)snprintf(ret, size,
                       "the pipeline turns pictures by EXIF, but the annotations of %u of the %u "
                       "that were checked give the size as stored, so boxes may miss their "
                       "objects: remove exif from the pipeline",
                       h->checked.as_stored, checked);
    return ret;
}
