/* jpeg_pack.c - a JPEG's coefficients, written anew as a baseline JPEG with restart markers.
 *
 * No pixel is computed: coefficients are read, entropy-coded with tables made for them, read back
 * and compared. What decides the colour space is written as libjpeg does for the colour space that
 * it found (JFIF for YCbCr and grey, Adobe for RGB); of all else in the header only EXIF's
 * orientation is kept. */
#include "config.h"

#include "loader/image/pack.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "common/error.h"
#include "common/util.h"
#include "loader/image/limits.h"

struct transcoder {
    struct jpeg_decompress_struct from, back;
    struct jpeg_compress_struct to;
    struct jpeg_progress_mgr progress;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    int code; /* of what failed, and its sentence: */
    enum pack_outcome outcome;
    char message[JMSG_LENGTH_MAX];

    size_t compressed; /* bytes behind the header */
    struct jpeg_destination_mgr destination;
    struct jpeg_transcoded result;
    size_t room; /* of result.bytes */
};

static _Noreturn void leave(struct transcoder *t, enum pack_outcome outcome, const char *why)
{
    t->code = -EOPNOTSUPP;
    t->outcome = outcome;
    (void)snprintf(t->message, sizeof(t->message), "%s", why);
    longjmp(t->escape, 1);
}

static void on_error(j_common_ptr cinfo)
{
    struct transcoder *t = container_of(cinfo->err, struct transcoder, errors);

    t->code = cinfo->err->msg_code == JERR_OUT_OF_MEMORY ? -ENOMEM : -EOPNOTSUPP;
    t->outcome = PACK_KEPT_ODD;
    cinfo->err->format_message(cinfo, t->message);
    longjmp(t->escape, 1);
}

/* A warning while reading: the file is damaged behind what a decoder of pixels reads. */
static void on_message(j_common_ptr cinfo, int level)
{
    if (level < 0)
        on_error(cinfo);
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

/* Called often while scans are read. A decoder of pixels ends with the scan that completes the
 * image; further ones would change it. */
static void on_progress(j_common_ptr cinfo)
{
    struct transcoder *t = container_of(cinfo->err, struct transcoder, errors);

    if (!jpeg_has_multiple_scans(&t->from) && t->from.input_scan_number > 1)
        leave(t, PACK_KEPT_ODD, "there are further scans behind its last one");
}

/* libjpeg's own destination in memory loses track of it when an error comes up. */
static void make_room(struct transcoder *t, size_t used)
{
    size_t room = t->room ? 2 * t->room : 1 << 16;
    uint8_t *bytes = realloc(t->result.bytes, room);

    if (!bytes) {
        t->code = -ENOMEM;
        longjmp(t->escape, 1);
    }
    t->result.bytes = bytes;
    t->room = room;
    t->destination.next_output_byte = bytes + used;
    t->destination.free_in_buffer = room - used;
}

static void destination_begin(j_compress_ptr c)
{
    make_room(container_of(c->dest, struct transcoder, destination), 0);
}

/* Called when all of it is used. */
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

static void check_form(struct transcoder *t)
{
    struct jpeg_decompress_struct *d = &t->from;
    uint64_t blocks = 0;

    if (d->num_components == 4)
        leave(t, PACK_KEPT_CMYK, "it has four components (CMYK)");
    if (d->arith_code)
        leave(t, PACK_KEPT_ARITHMETIC, "it is arithmetic coded");
    if (d->num_components != 1 && d->num_components != 3)
        leave(t, PACK_KEPT_ODD, "it is neither grey nor colour");
    for (int i = 0; i < d->num_components; i++)
        blocks += (uint64_t)d->comp_info[i].width_in_blocks * d->comp_info[i].height_in_blocks;
    if (blocks > IMAGE_BLOCKS_MAX)
        leave(t, PACK_KEPT_ODD, "it has more pixels than are packed");
}

static jvirt_barray_ptr *read_all(struct transcoder *t, struct jpeg_decompress_struct *d,
                                  const uint8_t *bytes, size_t len)
{
    jpeg_create_decompress(d);
    d->mem->max_memory_to_use = 0;
    d->progress = d == &t->from ? &t->progress : NULL;
    jpeg_mem_src(d, bytes, (unsigned long)len);
    (void)jpeg_read_header(d, TRUE);
    if (d == &t->from) {
        check_form(t);
        t->compressed = d->src->bytes_in_buffer;
    }
    return jpeg_read_coefficients(d);
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

static void write_all(struct transcoder *t, jvirt_barray_ptr *coefficients, uint8_t orientation)
{
    struct jpeg_decompress_struct *d = &t->from;
    struct jpeg_compress_struct *c = &t->to;
    bool single = d->num_components == 1;

    jpeg_create_compress(c);
    c->mem->max_memory_to_use = 0;
    c->dest = &t->destination;
    jpeg_copy_critical_parameters(d, c);
    c->optimize_coding = TRUE;
    c->restart_interval =
        pack_interval(units(d->image_width, d->max_h_samp_factor, single),
                      units(d->image_height, d->max_v_samp_factor, single), t->compressed);
    jpeg_write_coefficients(c, coefficients);
    if (orientation != 1)
        write_orientation(c, orientation);
    jpeg_finish_compress(c);
}

static bool same_component(struct transcoder *t, int index, jvirt_barray_ptr a, jvirt_barray_ptr b)
{
    const jpeg_component_info *x = &t->from.comp_info[index], *y = &t->back.comp_info[index];

    if (x->component_id != y->component_id || x->h_samp_factor != y->h_samp_factor ||
        x->v_samp_factor != y->v_samp_factor || x->width_in_blocks != y->width_in_blocks ||
        x->height_in_blocks != y->height_in_blocks ||
        memcmp(x->quant_table->quantval, y->quant_table->quantval,
               sizeof(x->quant_table->quantval)) != 0)
        return false;
    for (JDIMENSION row = 0; row < x->height_in_blocks; row++) {
        JBLOCKROW p = *t->from.mem->access_virt_barray((j_common_ptr)&t->from, a, row, 1, FALSE);
        JBLOCKROW q = *t->back.mem->access_virt_barray((j_common_ptr)&t->back, b, row, 1, FALSE);

        if (memcmp(p, q, x->width_in_blocks * sizeof(*p)) != 0)
            return false;
    }
    return true;
}

/* Read back what was written and compare it with what was read. */
static void prove(struct transcoder *t, jvirt_barray_ptr *coefficients)
{
    jvirt_barray_ptr *again = read_all(t, &t->back, t->result.bytes, t->result.len);
    const struct jpeg_decompress_struct *a = &t->from, *b = &t->back;

    if (a->image_width != b->image_width || a->image_height != b->image_height ||
        a->num_components != b->num_components || a->jpeg_color_space != b->jpeg_color_space)
        leave(t, PACK_KEPT_ODD, "its header cannot be written anew");
    for (int i = 0; i < a->num_components; i++)
        if (!same_component(t, i, coefficients[i], again[i]))
            leave(t, PACK_KEPT_ODD, "its coefficients are not the same when it is written anew");
}

static int transcode(struct transcoder *t, const uint8_t *bytes, size_t len, uint8_t orientation)
{
    jvirt_barray_ptr *coefficients;

    if (setjmp(t->escape))
        return t->code;
    coefficients = read_all(t, &t->from, bytes, len);
    t->result.converted = jpeg_has_multiple_scans(&t->from);
    write_all(t, coefficients, orientation);
    prove(t, coefficients);
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
    t->from.err = t->back.err = t->to.err = jpeg_std_error(&t->errors);
    t->errors.error_exit = on_error;
    t->errors.emit_message = on_message;
    t->errors.output_message = on_output;
    t->progress.progress_monitor = on_progress;
    t->destination = (struct jpeg_destination_mgr){.init_destination = destination_begin,
                                                   .empty_output_buffer = destination_grow,
                                                   .term_destination = destination_end};
    r = transcode(t, bytes, len, orientation);
    if (t->from.mem)
        jpeg_destroy_decompress(&t->from);
    if (t->back.mem)
        jpeg_destroy_decompress(&t->back);
    if (t->to.mem)
        jpeg_destroy_compress(&t->to);
    if (r == 0) {
        *ret = t->result;
    } else {
        *outcome = t->outcome;
        (void)error_set(err, r, "%s", r == -ENOMEM ? "out of memory" : t->message);
        free(t->result.bytes);
    }
    free(t);
    return r;
}
