/* SPDX-License-Identifier: MIT */
/* preview_html.h - writes a contact sheet as a page of HTML, which needs no other file and no
 * script. */
#ifndef LOADER_CTL_PREVIEW_HTML_H
#define LOADER_CTL_PREVIEW_HTML_H

#include <stdint.h>
#include <stdio.h>

#include "loader/ctl/ctl.h"

/** A sample that has been rendered, or not. All members are borrowed. */
struct preview_sample {
    const struct ctl_stream *stream;
    struct order_place place;
    const struct render_result *result;
    const struct render_target *target; /* with pixels, geometry and fields */
    const uint32_t *lengths;            /* of the fields */
    const char *failure;                /* why it was not rendered; NULL: it was */
};

/** Write the page's start, for `columns` samples in a row; 0: as many as fit. */
void preview_html_begin(FILE *page, const struct ctl_stream *stream, uint64_t epoch,
                        uint32_t columns);
/** Write one sample: its images with masks, boxes and key points, and its captions. Returns 0, or
 * -errno if an image cannot be encoded. */
int preview_html_sample(FILE *page, const struct preview_sample *sample);
void preview_html_end(FILE *page);

#endif
