/* SPDX-License-Identifier: MIT */
/* cmd_preview.c - plenumctl preview: draws a contact sheet of samples as a training program
 * receives them.
 *
 * People notice at once what tests do not: wrong labels, bad crops, mirrored text, shifted masks.
 * Below each picture are the values drawn for it, and its captions. All cells have room for the
 * lines of the sample with the most lines, so all samples are rendered before the sheet is laid
 * out. A page of HTML (preview_html.c) is laid out by the browser. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"
#include "loader/ctl/font.h"
#include "loader/ctl/preview_fields.h"
#include "loader/ctl/preview_html.h"
#include "loader/image/encode.h"
#include "loader/image/ops/augment_text.h"

enum {
    SCALE = 2, /* scale of the letters */
    LINE = (FONT_HEIGHT + 1) * SCALE,
    LETTER = (FONT_WIDTH + 1) * SCALE,
    SMALL_BELOW = 18 * LETTER, /* cells narrower than this use small letters below the label */
    WORD_LINES = 8, /* maximum number of lines for the drawn values, and for each field */
    WORDS_MAX = 2 * AUGMENT_TEXT_MAX,
    GAP = 8,
    SEAM = 2,               /* pixels between the images of a sample */
    SHEET_SIDE_MAX = 65500, /* a JPEG's limit */
};

enum sheet_form { SHEET_JPEG, SHEET_PNG, SHEET_HTML, SHEET_UNKNOWN };

struct preview_arguments {
    struct ctl_stream_args stream;
    uint64_t epoch, position;
    uint32_t count, columns;
};

#define AT(field) offsetof(struct preview_arguments, field)

static const struct option_def defs[] = {
    CTL_STREAM_OPTIONS(struct preview_arguments, stream),
    {"count", 'n', "N", OPTION_U32, AT(count), 1, 10000,
     .help = "samples on the sheet (default 24)"},
    {"columns", 0, "N", OPTION_U32, AT(columns), 1, 1000,
     .help = "samples in a row (default: a wide sheet)"},
    {"epoch", 'e', "E", OPTION_U64, AT(epoch), 0, UINT32_MAX, .help = "epoch (default 0)"},
    {"position", 0, "P", OPTION_U64, AT(position), 0, UINT32_MAX,
     .help = "first position in the epoch (default 0)"},
    {"fields", 0, "FIELDS", OPTION_TEXT, AT(stream.fields), .once = true,
     .help = "draw masks, instances, boxes and key points, and print other fields: "
             "NAME:SOURCE:KIND, ..."},
};

static const struct options_program program = {
    .name = "plenumctl preview",
    .usage = "DATASET SHEET [options]",
    .summary = "Draw a contact sheet of samples as the pipeline renders them, with their labels.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = ctl_words,
};

/* A rendered sample. */
struct cell {
    uint8_t *pixels; /* [render_bytes()], with some fields drawn; NULL on a page */
    char *words;     /* lines below its label, each ended by a newline; or its part of a page */
    struct render_result result;
    bool failed;
};

/* The sheet. Threads render different cells; then one thread draws. */
struct sheet {
    const struct ctl_stream *stream;
    const struct preview_arguments *args;
    enum sheet_form form;
    struct canvas canvas;
    uint32_t columns, cell_width, cell_height, top;
    uint32_t word_lines, word_scale;
    struct render_scratch *scratch; /* [threads] */
    struct cell *cells;             /* [args->count] */
};

static size_t count_letters(const char *text, size_t len)
{
    size_t letters = 0;

    for (size_t i = 0; i < len; i++)
        letters += ((unsigned char)text[i] & 0xC0) != 0x80; /* the first byte of a character */
    return letters;
}

/* Returns the length in bytes of the first line of `text`, which is wrapped at separators to at
 * most `letters` letters. A longer word has its own line. */
static size_t line_length(const char *text, const char *separator, size_t letters)
{
    size_t len = 0, gap = strlen(separator);

    assert(gap > 0); /* otherwise the search would not advance */
    for (;;) {
        const char *end = strstr(text + len, separator);
        size_t next = end ? (size_t)(end - text) : strlen(text);

        if (len > 0 && count_letters(text, next) > letters)
            return len - gap;
        if (!end)
            return next;
        len = next + gap;
    }
}

/* Returns the width of a cell's images: each view's images form a row, and the views' rows are
 * below each other. */
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

    assert(spec->views.count > 0);
    for (uint32_t i = 0; i < spec->views.count; i++)
        height += spec->views.view[i].pipeline.height + SEAM;
    return height - SEAM;
}

static uint32_t word_letters(const struct sheet *s)
{
    return images_width(&s->stream->spec) / ((FONT_WIDTH + 1) * s->word_scale);
}

/* Describe the values drawn for the sample of a cell, for each image of its views. Generated images
 * have none. */
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

/* Add text, wrapped to the width of a cell. */
static void add_lines(const struct sheet *s, FILE *words, const char *text, const char *separator)
{
    for (uint32_t i = 1; *text; i++) {
        size_t len = line_length(text, separator, word_letters(s));
        const char *next = text + len + strspn(text + len, separator);

        if (i == WORD_LINES && *next) {
            fprintf(words, "...\n");
            return;
        }
        fprintf(words, "%.*s\n", (int)len, text);
        text = next;
    }
}

/* Draw a field on each image of a sample. `value` has those of each image, in order. */
static void draw_field(const struct sheet *s, const struct field_shape *shape, uint8_t *pixels,
                       const uint8_t *value)
{
    const struct views *views = &s->stream->spec.views;

    for (uint32_t i = 0; i < views->count; i++) {
        const struct pipeline *p = &views->view[i].pipeline;
        struct canvas image = {.pixels = pixels, .width = p->width, .height = p->height};
        size_t count = (size_t)image.width * image.height;

        for (uint32_t k = 0; k < views->view[i].count; k++, image.pixels += count * 3) {
            if (shape->mask)
                preview_mask(&image, value, shape->room);
            else if (shape->type == PLENUM_FIELD_KEYPOINTS)
                preview_keypoints(&image, shape, value);
            else if (shape->type == PLENUM_FIELD_INSTANCES)
                preview_instances(&image, value);
            else
                preview_boxes(&image, s->stream->dataset, value);
            value += field_image_bytes(shape, count);
        }
        pixels = image.pixels;
    }
}

/* Draw masks, boxes and key points, and add the other fields to the words. Masks are drawn first,
 * so that boxes and their classes stay legible. */
static void show_fields(const struct sheet *s, struct cell *cell, FILE *words,
                        const struct render_target *target, const uint32_t *lengths)
{
    const struct fields *fields = dataset_get_fields(s->stream->dataset);
    char text[WORDS_MAX];

    for (uint32_t i = 0; i < fields->count; i++)
        if (preview_is_area(&fields->shape[i]))
            draw_field(s, &fields->shape[i], cell->pixels, target->field[i]);
    for (uint32_t i = 0; i < fields->count; i++) {
        const struct field_shape shape = render_field_shape(&s->stream->spec, i);

        if (preview_is_area(&shape))
            continue;
        if (field_is_of_image(&shape))
            draw_field(s, &shape, cell->pixels, target->field[i]);
        else
            add_lines(s, words,
                      preview_value(fields->spec[i].name, &shape, target->field[i], lengths[i],
                                    text, sizeof(text)),
                      " ");
    }
}

static int render_words(const struct sheet *s, struct cell *cell, uint64_t index,
                        const struct render_target *target, const uint32_t *lengths)
{
    char text[WORDS_MAX];
    size_t len;
    FILE *words = open_memstream(&cell->words, &len);

    if (!words)
        return -ENOMEM;
    describe(s, index, text);
    add_lines(s, words, text, ", ");
    if (!cell->failed)
        show_fields(s, cell, words, target, lengths);
    return fclose(words) == 0 ? 0 : -ENOMEM;
}

/* Write the cell's part of a page, which contains its pixels. */
static int render_html(struct cell *cell, const struct preview_sample *sample)
{
    size_t len;
    FILE *page = open_memstream(&cell->words, &len);
    int r;

    if (!page)
        return -ENOMEM;
    r = preview_html_sample(page, sample);
    free(cell->pixels);
    cell->pixels = NULL;
    return fclose(page) == 0 ? r : -ENOMEM;
}

/* Render the pixels and everything else of a cell, with `values` [render_field_bytes()] for the
 * fields. */
static int render_contents(const struct sheet *s, uint64_t index, struct render_scratch *scratch,
                           uint8_t *values)
{
    const struct render_spec *spec = &s->stream->spec;
    struct order_place place = {s->args->epoch, s->args->position + index};
    struct cell *cell = &s->cells[index];
    struct render_target target = render_target_in(spec, cell->pixels);
    float boxes[VIEWS_IMAGES_MAX][4] = {{0}};
    uint32_t lengths[FIELDS_MAX], size[2] = {0};
    uint8_t flips[VIEWS_IMAGES_MAX];
    struct plenum_error err;

    render_target_fields(spec, values, lengths, &target);
    target.boxes = boxes[0];
    target.size = size;
    target.flips = flips;
    cell->failed = render_whole(spec, scratch, place, &target, &cell->result, &err) < 0;
    if (cell->failed) {
        memset(cell->pixels, 0x60, render_bytes(spec)); /* a grey cell shows where it failed */
        fprintf(stderr, "plenumctl preview: %s\n", err.text);
    }
    if (s->form != SHEET_HTML)
        return render_words(s, cell, index, &target, lengths);
    return render_html(cell, &(struct preview_sample){s->stream, place, &cell->result, &target,
                                                      lengths, cell->failed ? err.text : NULL});
}

static int render_cell(void *arg, uint64_t index, unsigned thread)
{
    struct sheet *s = arg;
    struct cell *cell = &s->cells[index];
    uint8_t *values;
    int r = -ENOMEM;

    assert(index < s->args->count && !cell->pixels && !cell->words);
    cell->pixels = malloc(render_bytes(&s->stream->spec));
    values = malloc(render_field_bytes(&s->stream->spec) + 1);
    if (cell->pixels && values)
        r = render_contents(s, index, &s->scratch[thread], values);
    free(values);
    return r;
}

static uint32_t count_lines(const char *words)
{
    uint32_t lines = 0;

    for (; *words; words++)
        lines += *words == '\n';
    return lines;
}

static void draw_words(const struct sheet *s, struct line at, char *words)
{
    char *rest, *line = strtok_r(words, "\n", &rest);

    for (; line; line = strtok_r(NULL, "\n", &rest), at.y += (FONT_HEIGHT + 1) * at.scale)
        canvas_write(&s->canvas, &at, line);
}

/* Draw a class, and its share of the label if there are two. */
static void draw_label(const struct sheet *s, const struct line *at, int64_t label, float weight)
{
    const char *class = dataset_get_class_name(s->stream->dataset, (uint32_t)label);
    char text[128];

    if (weight < 1)
        (void)snprintf(text, sizeof(text), "%.2f: %lld %s", (double)weight, (long long)label,
                       class);
    else
        (void)snprintf(text, sizeof(text), "%lld %s", (long long)label, class);
    canvas_write(&s->canvas, at, text);
}

/* Draw the label, or both of a mixed sample, unless the classes are those of objects. */
static void draw_labels(const struct sheet *s, struct line *at, const struct render_result *result)
{
    if (dataset_has_object_classes(s->stream->dataset))
        return;
    draw_label(s, at, result->label, result->weight);
    at->y += LINE;
    if (result->weight < 1) {
        draw_label(s, at, result->label2, 1 - result->weight);
        at->y += LINE;
    }
}

static void draw_result(const struct sheet *s, struct line at, const struct cell *cell)
{
    const struct render_result *result = &cell->result;
    char text[64];

    draw_labels(s, &at, result);
    at.ink = 0x808080;
    at.scale = s->word_scale;
    (void)snprintf(text, sizeof(text), "sample %u%s", result->sample,
                   result->substituted ? " (substitute)" : "");
    canvas_write(&s->canvas, &at, text);
    at.y += LINE;
    at.ink = 0x202020;
    draw_words(s, at, cell->words);
}

/* Draw all images of a sample. */
static void draw_images(const struct sheet *s, uint32_t left, uint32_t top, const uint8_t *bytes)
{
    const struct views *views = &s->stream->spec.views;

    assert(left + images_width(&s->stream->spec) <= s->canvas.width);
    assert(top + images_height(&s->stream->spec) <= s->canvas.height);
    for (uint32_t i = 0; i < views->count; i++) {
        uint32_t width = views->view[i].pipeline.width, height = views->view[i].pipeline.height;

        for (uint32_t k = 0; k < views->view[i].count; k++)
            for (uint32_t y = 0; y < height; y++, bytes += (size_t)width * 3)
                memcpy(s->canvas.pixels +
                           ((size_t)(top + y) * s->canvas.width + left + k * (width + SEAM)) * 3,
                       bytes, (size_t)width * 3);
        top += height + SEAM;
    }
}

static void draw_cell(const struct sheet *s, uint32_t index)
{
    const struct render_spec *spec = &s->stream->spec;
    const struct cell *cell = &s->cells[index];
    uint32_t x = GAP + index % s->columns * s->cell_width;
    uint32_t y = s->top + index / s->columns * s->cell_height;
    struct line below = {x, y + images_height(spec) + SCALE, images_width(spec), SCALE, 0x202020};

    assert(index < s->args->count && cell->pixels);
    if (cell->failed)
        canvas_write(&s->canvas, &below, "failed");
    else
        draw_result(s, below, cell);
    draw_images(s, x, y, cell->pixels);
}

static void choose_columns(struct sheet *s)
{
    uint32_t count = s->args->count;

    assert(count > 0);
    s->columns = s->args->columns;
    if (s->columns == 0) /* a sheet about one and a half times as wide as high */
        for (s->columns = 1; s->columns * s->columns * 2 < count * 3; s->columns++)
            ;
    if (s->columns > count)
        s->columns = count;
    s->word_scale = images_width(&s->stream->spec) < SMALL_BELOW ? 1 : SCALE;
}

/* Lay out the cells, with room for s->word_lines lines of words. Returns -EINVAL if they do not
 * fit. */
static int lay_out(struct sheet *s, struct plenum_error *err)
{
    const struct render_spec *spec = &s->stream->spec;
    uint32_t rows = (s->args->count + s->columns - 1) / s->columns;

    assert(rows > 0 && rows * s->columns >= s->args->count);
    s->cell_width = images_width(spec) + GAP;
    s->cell_height = images_height(spec) + (views_mix(&spec->views) ? 3U : 2U) * LINE +
                     s->word_lines * (FONT_HEIGHT + 1) * s->word_scale + GAP;
    s->top = 2 * LINE + 2 * GAP;
    s->canvas.width = GAP + s->columns * s->cell_width;
    s->canvas.height = s->top + rows * s->cell_height;
    if (s->canvas.width <= SHEET_SIDE_MAX && s->canvas.height <= SHEET_SIDE_MAX)
        return 0;
    return error_set(err, -EINVAL,
                     "a sheet of %u x %u pixels is too large: use fewer samples, another "
                     "--columns, or the form .html",
                     s->canvas.width, s->canvas.height);
}

static void draw_title(const struct sheet *s)
{
    char text[VIEWS_TEXT_MAX + 64];
    struct line at = {GAP, GAP, s->canvas.width - 2 * GAP, SCALE, 0x202020};

    (void)snprintf(text, sizeof(text), "%s", dataset_get_name(s->stream->dataset));
    canvas_write(&s->canvas, &at, text);
    (void)snprintf(text, sizeof(text), "%s, seed %llu, epoch %llu", s->stream->spec.views.text,
                   (unsigned long long)s->args->stream.seed, (unsigned long long)s->args->epoch);
    at.y += LINE;
    at.ink = 0x808080;
    canvas_write(&s->canvas, &at, text);
}

static int render_cells(struct sheet *s, struct plenum_error *err)
{
    struct parallel loop = {
        .count = s->args->count, .threads = parallel_cpus(), .turn = render_cell, .arg = s};
    int r;

    s->scratch = calloc(loop.threads, sizeof(*s->scratch));
    s->cells = calloc(s->args->count, sizeof(*s->cells));
    if (!s->scratch || !s->cells)
        return error_set(err, -ENOMEM, "out of memory");
    r = parallel_run(&loop);
    for (unsigned i = 0; i < loop.threads; i++)
        render_scratch_fini(&s->scratch[i]);
    if (r < 0)
        return error_set(err, r, "%s", strerror(-r));
    return 0;
}

static int draw(struct sheet *s, struct plenum_error *err)
{
    size_t bytes;
    int r;

    choose_columns(s);
    r = lay_out(s, err); /* without words, to reject an impossible sheet before rendering */
    r = r < 0 ? r : render_cells(s, err);
    for (uint32_t i = 0; i < s->args->count && r == 0; i++)
        s->word_lines = (uint32_t)max_u64(s->word_lines, count_lines(s->cells[i].words));
    r = r < 0 ? r : lay_out(s, err);
    if (r < 0)
        return r;
    bytes = (size_t)s->canvas.width * s->canvas.height * 3;
    s->canvas.pixels = malloc(bytes);
    if (!s->canvas.pixels)
        return error_set(err, -ENOMEM, "out of memory");
    memset(s->canvas.pixels, 0xf8, bytes);
    draw_title(s);
    for (uint32_t i = 0; i < s->args->count; i++)
        draw_cell(s, i);
    return 0;
}

static void sheet_fini(struct sheet *s)
{
    for (uint32_t i = 0; s->cells && i < s->args->count; i++) {
        free(s->cells[i].pixels);
        free(s->cells[i].words);
    }
    free(s->cells);
    free(s->scratch);
    free(s->canvas.pixels);
}

static int write_picture(struct sheet *s, const char *path, struct plenum_error *err)
{
    struct encode_options encode = {.quality = 92, .subsampling = ENCODE_444};
    uint8_t *bytes;
    size_t len;
    int r = draw(s, err);

    if (r < 0)
        return r;
    encode.pixels = s->canvas.pixels;
    encode.width = s->canvas.width;
    encode.height = s->canvas.height;
    r = (s->form == SHEET_PNG ? encode_png : encode_jpeg)(&encode, &bytes, &len);
    if (r < 0)
        return error_set(err, r, "the sheet could not be encoded as a %s",
                         s->form == SHEET_PNG ? "PNG" : "JPEG");
    r = ctl_write_file(path, bytes, len, err);
    free(bytes);
    if (r == 0)
        printf("%s: %u x %u pixels, ", path, s->canvas.width, s->canvas.height);
    return r;
}

static int write_page(struct sheet *s, const char *path, struct plenum_error *err)
{
    char *bytes = NULL;
    size_t len;
    FILE *page;
    int r = render_cells(s, err);

    if (r < 0)
        return r;
    page = open_memstream(&bytes, &len);
    if (!page)
        return error_set(err, -ENOMEM, "out of memory");
    preview_html_begin(page, s->stream, s->args->epoch, s->args->columns);
    for (uint32_t i = 0; i < s->args->count; i++) {
        fputs(s->cells[i].words, page);
        free(s->cells[i].words);
        s->cells[i].words = NULL;
    }
    preview_html_end(page);
    r = fclose(page) == 0 ? ctl_write_file(path, bytes, len, err)
                          : error_set(err, -ENOMEM, "out of memory");
    free(bytes);
    if (r == 0)
        printf("%s: ", path);
    return r;
}

static enum sheet_form form_of(const char *path)
{
    static const struct {
        const char *extension;
        enum sheet_form form;
    } forms[] = {{".jpg", SHEET_JPEG},
                 {".jpeg", SHEET_JPEG},
                 {".png", SHEET_PNG},
                 {".html", SHEET_HTML},
                 {".htm", SHEET_HTML}};
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < ARRAY_LEN(forms); i++)
        if (strcasecmp(dot, forms[i].extension) == 0)
            return forms[i].form;
    return SHEET_UNKNOWN;
}

static int run(int argc, char **argv)
{
    struct preview_arguments a = {.stream = CTL_STREAM_DEFAULTS, .count = 24};
    struct ctl_stream stream;
    struct sheet sheet = {.stream = &stream, .args = &a};
    char name[4096];
    struct plenum_error err;
    int r;

    r = ctl_start(&program, &a, argc, argv, 2, "a data set and a file to write are");
    if (r >= 0)
        return r;
    sheet.form = form_of(argv[2]);
    if (sheet.form == SHEET_UNKNOWN) {
        fprintf(stderr, "%s: %s: name the sheet .jpg, .png or .html\n", program.name, argv[2]);
        return 2;
    }
    if (ctl_stream_open(argv[1], &a.stream, &stream, &err) < 0)
        return ctl_fail("preview", &err);
    if (!views_have_images(&stream.spec.views)) {
        r = error_set(&err, -EINVAL, "the pipeline 'none' has no images to show");
        goto out;
    }
    r = sheet.form == SHEET_HTML ? write_page(&sheet, argv[2], &err)
                                 : write_picture(&sheet, argv[2], &err);
    if (r == 0)
        printf("%u samples of %s\n", a.count, ctl_plain_name(stream.dataset, name, sizeof(name)));

out:
    sheet_fini(&sheet);
    ctl_stream_close(&stream);
    return r < 0 ? ctl_fail("preview", &err) : 0;
}

const struct ctl_command ctl_preview = {
    .name = "preview",
    .summary = "draw a contact sheet of augmented samples with their labels",
    .run = run,
};
