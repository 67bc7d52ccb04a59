/* SPDX-License-Identifier: MIT */
/* preview.c - plenumctl preview: a contact sheet of samples as a training program gets them.
 *
 * People see at once what tests do not: wrong labels, bad crops, mirrored text. Below each picture
 * stands what was drawn for it, as many lines as the sample with the most of it needs. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/parallel.h"
#include "common/util.h"
#include "loader/ctl/ctl.h"
#include "loader/ctl/font.h"
#include "loader/image/augment_text.h"
#include "loader/image/encode.h"

enum {
    SCALE = 2, /* of the letters */
    LINE = (FONT_HEIGHT + 1) * SCALE,
    LETTER = (FONT_WIDTH + 1) * SCALE,
    SMALL_BELOW = 18 * LETTER, /* cells of fewer pixels have words of small letters */
    WORD_LINES = 8,            /* at most */
    WORDS_MAX = 2 * AUGMENT_TEXT_MAX,
    GAP = 8,
    SEAM = 2,               /* between the images of a sample */
    SHEET_SIDE_MAX = 65500, /* a JPEG's limit */
};

struct arguments {
    struct ctl_stream_args stream;
    uint64_t epoch, position;
    uint32_t count, columns;
};

#define AT(field) offsetof(struct arguments, field)

static const struct option_def defs[] = {
    CTL_STREAM_OPTIONS(struct arguments, stream),
    {"count", 'n', "N", OPTION_U32, AT(count), 1, 10000,
     .help = "samples on the sheet (default 24)"},
    {"columns", 0, "N", OPTION_U32, AT(columns), 1, 1000,
     .help = "in a row (default: a wide sheet)"},
    {"epoch", 'e', "E", OPTION_U64, AT(epoch), 0, UINT32_MAX, .help = "of this epoch (default 0)"},
    {"position", 0, "P", OPTION_U64, AT(position), 0, UINT32_MAX,
     .help = "from this position of the epoch on (default 0)"},
};

static const struct options_program program = {
    .name = "plenumctl preview",
    .usage = "DATASET OUT.jpg [options]",
    .summary = "Draw a contact sheet of samples as the pipeline makes them, with their labels.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = ctl_words,
};

/* The sheet that is being drawn; cells do not overlap, so threads draw them without a lock. */
struct sheet {
    const struct ctl_stream *stream;
    const struct arguments *args;
    uint8_t *pixels; /* [height][width][3] */
    uint32_t width, height, columns, cell_width, cell_height, top;
    uint32_t word_lines, word_scale;
    struct render_scratch *scratch; /* [threads] */
};

/* Where a line stands, and how it looks. */
struct line {
    uint32_t x, y, max_width, scale;
    uint8_t ink;
};

static void draw_text(struct sheet *s, const struct line *at, const char *text)
{
    uint32_t step = (FONT_WIDTH + 1) * at->scale;

    for (uint32_t used = 0; *text && used + step <= at->max_width; text++, used += step) {
        const uint8_t *rows = font_glyph(*text);

        for (uint32_t y = 0; y < FONT_HEIGHT * at->scale; y++)
            for (uint32_t x = 0; x < FONT_WIDTH * at->scale; x++)
                if (rows[y / at->scale] >> (FONT_WIDTH - 1 - x / at->scale) & 1)
                    memset(s->pixels + ((size_t)(at->y + y) * s->width + at->x + used + x) * 3,
                           at->ink, 3);
    }
}

/* The bytes of the first line of `text`, which ends between words or with one that is too long. */
static size_t line_length(const char *text, size_t letters)
{
    size_t len = 0;

    for (;;) {
        const char *comma = strstr(text + len, ", ");
        size_t next = comma ? (size_t)(comma - text) : strlen(text);

        if (len > 0 && next > letters)
            return len - 2;
        if (!comma)
            return next;
        len = next + 2;
    }
}

/* Of a cell: the images of a view stand in a row, the views below each other. */
static uint32_t images_width(const struct render_spec *spec)
{
    uint32_t width = 0;

    for (uint32_t i = 0; i < spec->views.count; i++) {
        const struct view *view = &spec->views.view[i];

        width = (uint32_t)max_u64(width, view->count * (view->pipeline.width + SEAM) - SEAM);
    }
    return width;
}

static uint32_t images_height(const struct render_spec *spec)
{
    uint32_t height = 0;

    for (uint32_t i = 0; i < spec->views.count; i++)
        height += spec->views.view[i].pipeline.height + SEAM;
    return height - SEAM;
}

static uint32_t word_letters(const struct sheet *s)
{
    return images_width(&s->stream->spec) / ((FONT_WIDTH + 1) * s->word_scale);
}

/* What was drawn for the sample of a cell, of each image of its views; a data set that is generated
 * has no operations. */
static void describe(const struct sheet *s, uint64_t index, char text[WORDS_MAX])
{
    const struct render_spec *spec = &s->stream->spec;
    struct image_draw draw = render_draw(spec, s->args->epoch, s->args->position + index);
    size_t len = 0;

    text[0] = '\0';
    if (dataset_is_generated(spec->dataset))
        return;
    for (uint32_t i = 0; i < spec->views.count; i++) {
        const struct view *view = &spec->views.view[i];

        for (uint32_t k = 0; k < view->count; k++, draw.view++) {
            char words[AUGMENT_TEXT_MAX];

            augment_describe(&view->pipeline, &draw, words, sizeof(words));
            if (!spec->views.named)
                len += (size_t)snprintf(text + len, WORDS_MAX - len, "%s", words);
            else if (words[0])
                len += (size_t)snprintf(text + len, WORDS_MAX - len, "%s%s %u: %s", len ? ", " : "",
                                        view->name, k + 1, words);
            if (len >= WORDS_MAX)
                return;
        }
    }
}

static uint32_t count_lines(const struct sheet *s, uint64_t index)
{
    char text[WORDS_MAX], *at = text;
    uint32_t lines = 0;

    describe(s, index, text);
    for (; *at && lines < WORD_LINES; lines++) {
        at += line_length(at, word_letters(s));
        at += strspn(at, ", ");
    }
    return lines;
}

static void draw_words(struct sheet *s, struct line at, uint64_t index)
{
    char text[WORDS_MAX], *line = text;

    describe(s, index, text);
    for (uint32_t i = 1; *line; i++, at.y += (FONT_HEIGHT + 1) * at.scale) {
        size_t len = line_length(line, word_letters(s));
        char *next = line + len + strspn(line + len, ", ");

        if (i == WORD_LINES && *next) {
            draw_text(s, &at, "...");
            return;
        }
        line[len] = '\0';
        draw_text(s, &at, line);
        line = next;
    }
}

/* A class, and its share of the label where there are two. */
static void draw_label(struct sheet *s, const struct line *at, int64_t label, float weight)
{
    const char *class = dataset_get_class_name(s->stream->dataset, (uint32_t)label);
    char text[128];

    if (weight < 1)
        (void)snprintf(text, sizeof(text), "%.2f: %lld %s", (double)weight, (long long)label,
                       class);
    else
        (void)snprintf(text, sizeof(text), "%lld %s", (long long)label, class);
    draw_text(s, at, text);
}

static void draw_result(struct sheet *s, struct line at, uint64_t index,
                        const struct render_result *result)
{
    char text[64];

    draw_label(s, &at, result->label, result->weight);
    at.y += LINE;
    if (result->weight < 1) {
        draw_label(s, &at, result->label2, 1 - result->weight);
        at.y += LINE;
    }
    at.ink = 0x80;
    at.scale = s->word_scale;
    (void)snprintf(text, sizeof(text), "sample %u%s", result->sample,
                   result->substituted ? " (substitute)" : "");
    draw_text(s, &at, text);
    at.y += LINE;
    at.ink = 0x20;
    draw_words(s, at, index);
}

/* All images of a sample, as render_position() has made them. */
static void draw_images(struct sheet *s, uint32_t left, uint32_t top, const uint8_t *bytes)
{
    const struct views *views = &s->stream->spec.views;

    for (uint32_t i = 0; i < views->count; i++) {
        uint32_t width = views->view[i].pipeline.width, height = views->view[i].pipeline.height;

        for (uint32_t k = 0; k < views->view[i].count; k++)
            for (uint32_t y = 0; y < height; y++, bytes += (size_t)width * 3)
                memcpy(s->pixels + ((size_t)(top + y) * s->width + left + k * (width + SEAM)) * 3,
                       bytes, (size_t)width * 3);
        top += height + SEAM;
    }
}

static int draw_cell(void *arg, uint64_t index, unsigned thread)
{
    struct sheet *s = arg;
    const struct render_spec *spec = &s->stream->spec;
    uint32_t width = images_width(spec), height = images_height(spec);
    uint32_t x = GAP + (uint32_t)(index % s->columns) * s->cell_width;
    uint32_t y = s->top + (uint32_t)(index / s->columns) * s->cell_height;
    struct line below = {x, y + height + SCALE, width, SCALE, 0x20};
    struct render_result result;
    struct plenum_error err;
    uint8_t *cell = malloc(render_bytes(spec));
    int r;

    if (!cell)
        return -ENOMEM;
    r = render_position(spec, &s->scratch[thread], s->args->epoch, s->args->position + index, cell,
                        &result, &err);
    if (r < 0) {
        memset(cell, 0x60, render_bytes(spec)); /* a grey cell shows where it failed */
        draw_text(s, &below, "failed");
        fprintf(stderr, "plenumctl preview: %s\n", err.text);
    } else {
        draw_result(s, below, index, &result);
    }
    draw_images(s, x, y, cell);
    free(cell);
    return 0;
}

static void lay_out(struct sheet *s)
{
    const struct render_spec *spec = &s->stream->spec;
    uint32_t count = s->args->count, rows;

    assert(count > 0);
    s->columns = s->args->columns;
    if (s->columns == 0) /* about three wide to two high */
        for (s->columns = 1; s->columns * s->columns * 2 < count * 3; s->columns++)
            ;
    if (s->columns > count)
        s->columns = count;
    s->word_scale = images_width(spec) < SMALL_BELOW ? 1 : SCALE;
    for (uint32_t i = 0; i < count; i++)
        s->word_lines = (uint32_t)max_u64(s->word_lines, count_lines(s, i));
    s->cell_width = images_width(spec) + GAP;
    s->cell_height = images_height(spec) + (views_mix(&spec->views) ? 3U : 2U) * LINE +
                     s->word_lines * (FONT_HEIGHT + 1) * s->word_scale + GAP;
    s->top = 2 * LINE + 2 * GAP;
    rows = (count + s->columns - 1) / s->columns;
    s->width = GAP + s->columns * s->cell_width;
    s->height = s->top + rows * s->cell_height;
}

static void draw_title(struct sheet *s)
{
    char text[VIEWS_TEXT_MAX + 64];

    (void)snprintf(text, sizeof(text), "%s", dataset_get_name(s->stream->dataset));
    draw_text(s, &(struct line){GAP, GAP, s->width - 2 * GAP, SCALE, 0x20}, text);
    (void)snprintf(text, sizeof(text), "%s, seed %llu, epoch %llu", s->stream->spec.views.text,
                   (unsigned long long)s->args->stream.seed, (unsigned long long)s->args->epoch);
    draw_text(s, &(struct line){GAP, GAP + LINE, s->width - 2 * GAP, SCALE, 0x80}, text);
}

static int draw(struct sheet *s, struct plenum_error *err)
{
    struct parallel loop = {
        .count = s->args->count, .threads = parallel_cpus(), .turn = draw_cell, .arg = s};
    int r = 0;

    lay_out(s);
    if (s->width > SHEET_SIDE_MAX || s->height > SHEET_SIDE_MAX)
        return error_set(err, -EINVAL,
                         "a sheet of %u x %u pixels is too large for a JPEG: fewer "
                         "samples, or another --columns, are needed",
                         s->width, s->height);
    s->pixels = malloc((size_t)s->width * s->height * 3);
    s->scratch = calloc(loop.threads, sizeof(*s->scratch));
    if (!s->pixels || !s->scratch)
        return error_set(err, -ENOMEM, "out of memory");
    memset(s->pixels, 0xf8, (size_t)s->width * s->height * 3);
    draw_title(s);
    r = parallel_run(&loop);
    for (unsigned i = 0; i < loop.threads; i++)
        render_scratch_fini(&s->scratch[i]);
    return r < 0 ? error_set(err, r, "%s", strerror(-r)) : 0;
}

static int write_sheet(const struct sheet *s, const char *path, struct plenum_error *err)
{
    struct encode_options encode = {.pixels = s->pixels,
                                    .width = s->width,
                                    .height = s->height,
                                    .quality = 92,
                                    .subsampling = ENCODE_444};
    uint8_t *bytes;
    size_t len;
    int r = encode_jpeg(&encode, &bytes, &len);

    if (r < 0)
        return error_set(err, r, "the sheet could not be made a JPEG");
    r = ctl_write_file(path, bytes, len, err);
    free(bytes);
    return r;
}

static int run(int argc, char **argv)
{
    struct arguments a = {.stream = CTL_STREAM_DEFAULTS, .count = 24};
    struct ctl_stream stream;
    struct sheet sheet = {.stream = &stream, .args = &a};
    char name[4096];
    struct plenum_error err;
    int r;

    r = ctl_start(&program, &a, argc, argv, 2, "a data set and a file to write are");
    if (r >= 0)
        return r;
    if (ctl_stream_open(argv[1], &a.stream, &stream, &err) < 0)
        return ctl_fail("preview", &err);
    if (!views_have_images(&stream.spec.views)) {
        r = error_set(&err, -EINVAL, "the pipeline 'none' has no images to be shown");
        goto out;
    }
    r = draw(&sheet, &err);
    if (r < 0)
        goto out;
    r = write_sheet(&sheet, argv[2], &err);
    if (r < 0)
        goto out;
    printf("%s: %u x %u pixels, %u samples of %s\n", argv[2], sheet.width, sheet.height, a.count,
           ctl_plain_name(stream.dataset, name, sizeof(name)));

out:
    free(sheet.scratch);
    free(sheet.pixels);
    ctl_stream_close(&stream);
    return r < 0 ? ctl_fail("preview", &err) : 0;
}

const struct ctl_command ctl_preview = {
    .name = "preview",
    .summary = "a contact sheet of augmented samples with their labels",
    .run = run,
};
