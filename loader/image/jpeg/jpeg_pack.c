/* SPDX-License-Identifier: MIT */
/* jpeg_pack.c - rewrites a JPEG's coefficients as a baseline JPEG with restart markers, and proves
 * that the coefficients are equal.
 *
 * No pixel is computed: coefficients are read, and entropy-coded with tables that are made for
 * them. The markers that determine the colour space are written as libjpeg does for the colour
 * space that it found (JFIF for YCbCr and grey, Adobe for RGB); of the rest of the header only
 * EXIF's orientation is kept. */
#include "config.h"

#include "loader/image/pack/pack.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/image/limits.h"

/* The error handler, which both kinds of libjpeg's objects share. */
struct trap {
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    bool in_header; /* the header is still being read */
    int code;       /* error code of the failure */
    enum pack_outcome outcome;
    char message[JMSG_LENGTH_MAX];
};

MESSAGE static _Noreturn void leave(struct trap *t, int code, enum pack_outcome outcome,
                                    const char *why)
{
    t->code = code;
    t->outcome = outcome;
    (void)snprintf(t->message, sizeof(t->message), "%s", why);
    longjmp(t->escape, 1);
}

static struct trap *trap_of(j_common_ptr cinfo)
{
    return container_of(cinfo->err, struct trap, errors);
}

static void on_error(j_common_ptr cinfo)
{
    char what[JMSG_LENGTH_MAX];

    if (cinfo->err->msg_code == JERR_OUT_OF_MEMORY)
        leave(trap_of(cinfo), -ENOMEM, PACK_KEPT_ODD, "out of memory");
    cinfo->err->format_message(cinfo, what);
    leave(trap_of(cinfo), -EBADMSG, PACK_KEPT_ODD, what);
}

/* Treat warnings as errors: the file is damaged, if only after the part that a renderer reads.
 * Bytes between the segments of the header are an exception: the caller decides about them, and
 * they are never written. */
static void on_message(j_common_ptr cinfo, int level)
{
    if (level < 0 && !(trap_of(cinfo)->in_header && cinfo->err->msg_code == JWRN_EXTRANEOUS_DATA))
        on_error(cinfo);
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

/* Reject scans after the one that completes the image: a renderer stops there, but here they would
 * change the coefficients. Called often while scans are read. */
static void on_progress(j_common_ptr cinfo)
{
    j_decompress_ptr d = (j_decompress_ptr)cinfo;

    if (!jpeg_has_multiple_scans(d) && d->input_scan_number > 1)
        leave(trap_of(cinfo), -EBADMSG, PACK_KEPT_ODD,
              "it has scans after the one that completes the image");
}

static void trap_init(struct trap *t)
{
    (void)jpeg_std_error(&t->errors);
    t->errors.error_exit = on_error;
    t->errors.emit_message = on_message;
    t->errors.output_message = on_output;
    t->progress.progress_monitor = on_progress;
}

static void check_form(struct trap *t, const struct jpeg_decompress_struct *d)
{
    uint64_t blocks = 0;

    if (d->num_components == 4)
        leave(t, -EBADMSG, PACK_KEPT_CMYK, "it has four components (CMYK)");
    if (d->arith_code)
        leave(t, -EBADMSG, PACK_KEPT_ARITHMETIC, "it is arithmetic coded");
    if (d->num_components != 1 && d->num_components != 3)
        leave(t, -EBADMSG, PACK_KEPT_ODD, "it is neither grey nor colour");
    for (int i = 0; i < d->num_components; i++)
        blocks += (uint64_t)d->comp_info[i].width_in_blocks * d->comp_info[i].height_in_blocks;
    if (blocks > IMAGE_BLOCKS_MAX)
        leave(t, -EBADMSG, PACK_KEPT_ODD, "it has too many pixels to be packed");
}

/* A file whose coefficients have been read. */
struct packed_source {
    struct jpeg_decompress_struct d;
    jvirt_barray_ptr *coefficients;
    size_t compressed; /* bytes after the header */
};

static void source_read(struct trap *t, struct packed_source *s, const uint8_t *bytes, size_t len)
{
    s->d.err = &t->errors;
    jpeg_create_decompress(&s->d);
    s->d.mem->max_memory_to_use = 0; /* otherwise the library reads an environment variable */
    s->d.progress = &t->progress;
    jpeg_mem_src(&s->d, bytes, (unsigned long)len);
    t->in_header = true;
    (void)jpeg_read_header(&s->d, TRUE);
    t->in_header = false;
    check_form(t, &s->d);
    s->compressed = s->d.src->bytes_in_buffer;
    s->coefficients = jpeg_read_coefficients(&s->d);
}

static void source_fini(struct packed_source *s)
{
    if (s->d.mem)
        jpeg_destroy_decompress(&s->d);
    *s = (struct packed_source){0};
}

struct transcoder {
    struct trap trap;
    struct packed_source from;
    struct jpeg_compress_struct to;
    struct jpeg_destination_mgr destination;
    struct jpeg_transcoded result;
    size_t room; /* allocated bytes of result.bytes */
};

/* Enlarge the output buffer, whose first `used` bytes are kept. We do not use libjpeg's own memory
 * destination, because it loses track of its buffer when an error occurs. */
static void make_room(struct transcoder *t, size_t used)
{
    size_t room = t->room ? 2 * t->room : 1 << 16;
    uint8_t *bytes = realloc(t->result.bytes, room);

    if (!bytes)
        leave(&t->trap, -ENOMEM, PACK_KEPT_ODD, "out of memory");
    t->result.bytes = bytes;
    t->room = room;
    t->destination.next_output_byte = bytes + used;
    t->destination.free_in_buffer = room - used;
}

static void destination_begin(j_compress_ptr c)
{
    make_room(container_of(c->dest, struct transcoder, destination), 0);
}

/* Grow the buffer, all of which is used. */
static boolean destination_grow(j_compress_ptr c)
{
    struct transcoder *t = container_of(c->dest, struct transcoder, destination);

    make_room(t, t->room);
    return TRUE;
}

static void destination_end(j_compress_ptr c)
{
    struct transcoder *t = container_of(c->dest, struct transcoder, destination);

    t->result.len = t->room - t->destination.free_in_buffer;
}

static void write_orientation(j_compress_ptr c, uint8_t orientation)
{
    /* TIFF, big-endian, one directory with one entry. */
    const uint8_t block[] = {
        'E', 'x',         'i', 'f', 0, 0,        /* mark */
        'M', 'M',         0,   42,  0, 0, 0, 8,  /* header */
        0,   1,                                  /* entries */
        1,   0x12,        0,   3,   0, 0, 0, 1,  /* orientation: one SHORT */
        0,   orientation, 0,   0,   0, 0, 0, 0}; /* its value; no more directories */

    jpeg_write_marker(c, JPEG_APP0 + 1, block, sizeof(block));
}

static uint32_t units(uint32_t length, int factor, bool single)
{
    uint32_t unit = single ? 8 : 8 * (uint32_t)factor;

    return (length + unit - 1) / unit;
}

static void write_all(struct transcoder *t, uint8_t orientation)
{
    struct jpeg_decompress_struct *d = &t->from.d;
    struct jpeg_compress_struct *c = &t->to;
    bool single = d->num_components == 1;

    c->err = &t->trap.errors;
    jpeg_create_compress(c);
    c->mem->max_memory_to_use = 0;
    c->dest = &t->destination;
    jpeg_copy_critical_parameters(d, c);
    c->optimize_coding = TRUE;
    c->restart_interval =
        pack_interval(units(d->image_width, d->max_h_samp_factor, single),
                      units(d->image_height, d->max_v_samp_factor, single), t->from.compressed);
    jpeg_write_coefficients(c, t->from.coefficients);
    if (orientation != 1)
        write_orientation(c, orientation);
    jpeg_finish_compress(c);
}

static int transcode(struct transcoder *t, const uint8_t *bytes, size_t len, uint8_t orientation)
{
    if (setjmp(t->trap.escape))
        return t->trap.code;
    source_read(&t->trap, &t->from, bytes, len);
    t->result.converted = jpeg_has_multiple_scans(&t->from.d);
    write_all(t, orientation);
    return 0;
}

int jpeg_transcode(const uint8_t *bytes, size_t len, uint8_t orientation,
                   struct jpeg_transcoded *ret, enum pack_outcome *outcome,
                   struct plenum_error *err)
{
    struct transcoder *t = calloc(1, sizeof(*t));
    int r;

    if (!t)
        return error_set(err, -ENOMEM, "out of memory");
    trap_init(&t->trap);
    t->destination = (struct jpeg_destination_mgr){.init_destination = destination_begin,
                                                   .empty_output_buffer = destination_grow,
                                                   .term_destination = destination_end};
    r = transcode(t, bytes, len, orientation);
    source_fini(&t->from);
    if (t->to.mem)
        jpeg_destroy_compress(&t->to);
    if (r < 0) {
        *outcome = t->trap.outcome;
        r = error_set(err, r == -ENOMEM ? r : -EOPNOTSUPP, "%s", t->trap.message);
        free(t->result.bytes);
    } else {
        *ret = t->result;
    }
    free(t);
    return r;
}

struct comparison {
    struct trap trap;
    struct packed_source whole, part;
};

static const JCOEF *block_row(struct packed_source *s, int component, JDIMENSION row)
{
    return (*s->d.mem->access_virt_barray((j_common_ptr)&s->d, s->coefficients[component], row, 1,
                                          FALSE))[0];
}

static bool same_component(struct comparison *c, int index, const struct jpeg_part *part)
{
    const jpeg_component_info *x = &c->whole.d.comp_info[index], *y = &c->part.d.comp_info[index];
    bool single = c->whole.d.num_components == 1;
    uint32_t left = part->left * (single ? 1 : (uint32_t)x->h_samp_factor);
    uint32_t top = part->top * (single ? 1 : (uint32_t)x->v_samp_factor);

    if (x->component_id != y->component_id || x->h_samp_factor != y->h_samp_factor ||
        x->v_samp_factor != y->v_samp_factor ||
        memcmp(x->quant_table->quantval, y->quant_table->quantval,
               sizeof(x->quant_table->quantval)) != 0 ||
        left > x->width_in_blocks || y->width_in_blocks > x->width_in_blocks - left ||
        top > x->height_in_blocks || y->height_in_blocks > x->height_in_blocks - top)
        return false;
    for (JDIMENSION row = 0; row < y->height_in_blocks; row++)
        if (memcmp(block_row(&c->whole, index, top + row) + (size_t)left * DCTSIZE2,
                   block_row(&c->part, index, row),
                   (size_t)y->width_in_blocks * sizeof(JBLOCK)) != 0)
            return false;
    return true;
}

static int compare(struct comparison *c, const uint8_t *bytes, size_t len,
                   const struct jpeg_part *parts, size_t count)
{
    const struct jpeg_decompress_struct *a = &c->whole.d, *b = &c->part.d;

    if (setjmp(c->trap.escape))
        return c->trap.code;
    source_read(&c->trap, &c->whole, bytes, len);
    for (size_t i = 0; i < count; i++) {
        source_fini(&c->part);
        source_read(&c->trap, &c->part, parts[i].bytes, parts[i].len);
        if (a->num_components != b->num_components || a->jpeg_color_space != b->jpeg_color_space)
            leave(&c->trap, -EBADMSG, PACK_KEPT_ODD, "its colours are not the same in every part");
        for (int k = 0; k < a->num_components; k++)
            if (!same_component(c, k, &parts[i]))
                leave(&c->trap, -EBADMSG, PACK_KEPT_ODD,
                      "its coefficients are not the same in every part");
    }
    return 0;
}

int jpeg_compare_parts(const uint8_t *bytes, size_t len, const struct jpeg_part *parts,
                       size_t count, struct plenum_error *err)
{
    struct comparison *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return error_set(err, -ENOMEM, "out of memory");
    trap_init(&c->trap);
    r = compare(c, bytes, len, parts, count);
    if (r < 0)
        (void)error_set(err, r, "%s", c->trap.message);
    source_fini(&c->part);
    source_fini(&c->whole);
    free(c);
    return r;
}
