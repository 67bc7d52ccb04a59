/* SPDX-License-Identifier: MIT */
/* jpeg.c - decodes one region of a JPEG with libjpeg-turbo, and chooses between it and our own
 * decoder.
 *
 * The pixels are those of a full decode with the accurate inverse DCT and fancy upsampling, cropped
 * to the region. The decoded part is chosen so that these pixels do not change:
 *
 * - Columns: jpeg_crop_scanline() begins at a whole MCU column, and the upsampler treats the first
 *   and last chroma sample of the row it sees as an edge of the image. So the cut row begins in an
 *   MCU that holds at least one pixel left of the region, and ends at least two pixels right of it.
 *   It is also never so narrow that the library would choose the plain upsampler for it, which it
 *   does when a component has fewer than 3 samples.
 * - Rows: jpeg_skip_scanlines() drops the rows above; it decodes the MCU row above the first one
 *   where the upsampler needs it. It is called once, from row 0, which is its simplest case.
 *   tests/loader/image/jpeg/test_jpeg.c compares regions at every offset with full decodes.
 * - Block smoothing, which guesses coefficients of progressive files that were never sent, is off:
 *   its rule has changed between versions of the library, and it looks beyond the region.
 *
 * Errors: the library calls error_exit() or, for a warning, emit_message(); these leave the library
 * by longjmp() to the setjmp() in open_library(), seek_library() or read_library(). No memory
 * leaks, because all memory of the library belongs to the decompress object.
 *
 * That object is created again for each image, which costs 0.1 us. If the object were kept, so
 * would its quantisation and Huffman tables, and a file without its own tables would be decoded
 * with those of the previous image: pixels would depend on history.
 *
 * By default, the library decodes only files that our own decoder (jpeg_own.h) does not support,
 * and files on which our decoder gives up. The library then starts at the top, and drops the rows
 * that were already delivered.
 *
 * CMYK: converted like Pillow's convert("RGB"). Pillow treats every four-component JPEG as
 * inverted, as Adobe writes them (JpegImagePlugin: rawmode "CMYK;I"), and computes
 * R = clip(K' - MULDIV255(C, K')) with K' = 255 - K (libImaging/Convert.c, cmyk2rgb), where
 * MULDIV255(a, b) is a * b / 255 rounded as ((t >> 8) + t) >> 8, t = a * b + 128
 * (libImaging/ImagingUtils.h). */
#include "config.h"

#include "loader/image/reader.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/image/exif.h"
#include "loader/image/jpeg/jpeg_marker.h"
#include "loader/image/jpeg/jpeg_own.h"
#include "loader/image/jpeg/jpeg_pixels.h"
#include "loader/image/jpeg/jpeg_tiles.h"
#include "loader/image/limits.h"
#include "loader/image/pack/pack.h"
#include "loader/image/pack/splice.h"
#include "loader/image/scratch.h"

/* Rows per read(): enough to make the cost of a call small, and few enough to stay in the cache. */
enum { STRIP_ROWS = 16 };

/* The rows begin STRIP_SKEW bytes into the strip; their pitch is a multiple of STRIP_UNIT. The
 * colour conversions for AVX2 and SSE2 write rows that begin at a multiple of the vector size past
 * the cache, to memory, from where the resize would have to load them again. Rows at other
 * addresses stay in the cache. */
enum { STRIP_SKEW = 16, STRIP_UNIT = 32 };

struct jpeg_reader {
    struct image_reader base;

    struct jpeg_decompress_struct d;
    bool live; /* d must be destroyed */
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;

    struct jpeg_error_mgr errors;
    jmp_buf escape; /* where a failure jumps to */
    int code;       /* error code of the failure */
    char message[JMSG_LENGTH_MAX + 100];

    bool in_header;       /* the header is still being read */
    const uint8_t *bytes; /* the file */
    size_t len;
    uint64_t blocks;

    struct jpeg_own *own;
    enum image_jpeg choice;
    bool ours;           /* Plenum's decoder has opened the file */
    struct rect region;  /* the requested region, within the part */
    uint32_t delivered;  /* rows of the region that were delivered */
    struct scratch hint; /* the tiles that were found */

    bool packed;
    struct pack_layout layout; /* if packed */
    /* `intervals`: the ends of a packed file's intervals; `spliced`: a file made of some of
     * them. */
    struct scratch intervals, spliced;
    const uint8_t *part; /* the bytes to decode: the file, or those spliced from it */
    size_t part_len;

    uint32_t offset;    /* offset of the region within the rows that the library writes */
    uint32_t width;     /* width of the region */
    uint32_t rows_left; /* rows of the region that are left */
    size_t pitch;       /* pitch of the rows in `strip`, in bytes */
    struct scratch strip;
};

static struct jpeg_reader *reader_of(j_common_ptr cinfo)
{
    return container_of(cinfo->err, struct jpeg_reader, errors);
}

/* Describe the position of an error in the file. */
static int describe_position(const struct jpeg_reader *j, char *text, size_t size)
{
    const struct jpeg_decompress_struct *d = &j->d;

    if (j->in_header)
        return snprintf(text, size, "in the header");
    if (d->output_scanline > 0 || j->rows_left > 0)
        return snprintf(text, size, "near row %u of %u", d->output_scanline, d->output_height);
    if (d->input_scan_number > 1)
        return snprintf(text, size, "in scan %d", d->input_scan_number);
    return snprintf(text, size, "in the image data");
}

MESSAGE_FORMAT(3, 4)
static _Noreturn void leave(struct jpeg_reader *j, int code, const char *format, ...)
{
    va_list args;

    j->code = code;
    va_start(args, format);
    (void)vsnprintf(j->message, sizeof(j->message), format, args);
    va_end(args);
    longjmp(j->escape, 1);
}

static _Noreturn void on_error(j_common_ptr cinfo)
{
    struct jpeg_reader *j = reader_of(cinfo);
    char what[JMSG_LENGTH_MAX], place[48];

    if (cinfo->err->msg_code == JERR_OUT_OF_MEMORY)
        leave(j, -ENOMEM, "JPEG decoder: out of memory");
    (void)describe_position(j, place, sizeof(place));
    cinfo->err->format_message(cinfo, what);
    leave(j, -EBADMSG, "JPEG decoder: %s, %s", what, place);
}

/* Handle a message of libjpeg. Level 0 and above are traces; -1 is a warning, which means that the
 * file is damaged. */
static void on_message(j_common_ptr cinfo, int level)
{
    struct jpeg_reader *j = reader_of(cinfo);
    char what[JMSG_LENGTH_MAX];

    if (level >= 0)
        return;
    if (!j->in_header || cinfo->err->msg_code != JWRN_EXTRANEOUS_DATA)
        on_error(cinfo);
    if (j->base.junk)
        return;
    j->base.refused_junk = true;
    cinfo->err->format_message(cinfo, what);
    leave(j, -EBADMSG, "JPEG decoder: %s, in the header", what);
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

static void source_nothing(j_decompress_ptr d)
{
    (void)d;
}

/* Handle a request for more input. The library already has the whole file, so the file is
 * truncated. */
static boolean source_fill(j_decompress_ptr d)
{
    struct jpeg_reader *j = reader_of((j_common_ptr)d);
    char place[48];

    (void)describe_position(j, place, sizeof(place));
    leave(j, -EBADMSG, "the JPEG file is cut off: it ends after %zu bytes, %s", j->part_len, place);
}

static void source_skip(j_decompress_ptr d, long count)
{
    if (count <= 0)
        return;
    if ((size_t)count > d->src->bytes_in_buffer)
        (void)source_fill(d);
    d->src->next_input_byte += count;
    d->src->bytes_in_buffer -= (size_t)count;
}

/* Reject a file with too many scans. The library calls this at least once for each row of MCUs. */
static void on_progress(j_common_ptr cinfo)
{
    struct jpeg_reader *j = reader_of(cinfo);
    int scans = j->d.input_scan_number;

    if (scans > IMAGE_SCANS_MAX || j->blocks * (uint64_t)scans > IMAGE_BLOCK_VISITS_MAX)
        leave(j, -EBADMSG, "a JPEG of %ux%u pixels with more than %d scans is not supported",
              j->d.image_width, j->d.image_height, scans - 1);
}

static void check_limits(struct jpeg_reader *j)
{
    const struct jpeg_decompress_struct *d = &j->d;
    size_t header = j->part_len - d->src->bytes_in_buffer;

    if ((uint64_t)d->image_width * d->image_height > IMAGE_PIXELS_MAX)
        leave(j, -EBADMSG, "%ux%u pixels are more than the limit of %d", d->image_width,
              d->image_height, IMAGE_PIXELS_MAX);
    if (header > IMAGE_HEADER_MAX)
        leave(j, -EBADMSG, "the JPEG header has %zu bytes, more than the limit of %d", header,
              IMAGE_HEADER_MAX);
    if (d->num_components != 1 && d->num_components != 3 && d->num_components != 4)
        leave(j, -EBADMSG, "a JPEG with %d components is neither grey, colour nor CMYK",
              d->num_components);
    for (int i = 0; i < d->num_components; i++)
        j->blocks += (uint64_t)d->comp_info[i].width_in_blocks * d->comp_info[i].height_in_blocks;
    if (jpeg_has_multiple_scans(&j->d) && j->blocks > IMAGE_BLOCKS_MAX)
        leave(j, -EBADMSG, "%ux%u pixels are too many for a JPEG with several scans",
              d->image_width, d->image_height);
}

/* Returns the second byte of a JPEG's SOFn marker, 0xC0 + n, or 0 if there is none. `*bits`, unless
 * NULL, receives the bits per sample. */
static uint8_t frame_code(const uint8_t *bytes, size_t len, uint8_t *bits)
{
    struct jpeg_markers m = {bytes, len, .at = 2};

    while (jpeg_markers_next(&m)) {
        if (!jpeg_markers_at_frame(&m))
            continue;
        if (bits)
            *bits = m.size > 0 ? m.data[0] : 8;
        return m.code;
    }
    return 0;
}

/* Count the bytes before the first scan that belong to no segment. */
static size_t count_junk(const uint8_t *bytes, size_t len)
{
    struct jpeg_markers m = {bytes, len, .at = 2};

    while (jpeg_markers_next(&m)) {
    }
    return m.junk;
}

/* Reject coding processes that docs/pixels.md does not define, because their result would depend on
 * the version of the library. */
static void check_process(struct jpeg_reader *j)
{
    uint8_t bits = 8, code = frame_code(j->part, j->part_len, &bits);

    if (code % 4 == 3)
        leave(j, -EBADMSG, "a lossless JPEG is not supported");
    if (code % 8 >= 5)
        leave(j, -EBADMSG, "a hierarchical JPEG is not supported");
    if (bits != 8)
        leave(j, -EBADMSG, "a JPEG with %u bits per sample is not supported, only 8", bits);
}

static void start(struct jpeg_reader *j)
{
    check_process(j);
    /* Set this before the next line, which may fail, because the object must be destroyed even
     * then. */
    j->live = true;
    jpeg_create_decompress(&j->d);
    j->d.mem->max_memory_to_use = 0; /* otherwise the library reads an environment variable */
    j->d.src = &j->source;
    j->d.progress = &j->progress;
    j->in_header = true;
    (void)jpeg_read_header(&j->d, TRUE);
    j->in_header = false;
    check_limits(j);
    j->d.out_color_space = j->d.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
    j->d.dct_method = JDCT_ISLOW;
    j->d.do_fancy_upsampling = TRUE;
    j->d.do_block_smoothing = FALSE;
}

/* Let the library read the header. */
static int open_library(struct jpeg_reader *j, struct plenum_error *err)
{
    if (j->live)
        jpeg_destroy_decompress(&j->d);
    j->live = j->ours = j->in_header = false;
    j->d = (struct jpeg_decompress_struct){.err = &j->errors};
    j->source.next_input_byte = j->part;
    j->source.bytes_in_buffer = j->part_len;
    j->blocks = 0;
    j->rows_left = 0;
    if (setjmp(j->escape))
        return error_set(err, j->code, "%s", j->message);
    start(j);
    return 0;
}

static void jpeg_reader_close(struct image_reader *reader)
{
    struct jpeg_reader *j = container_of(reader, struct jpeg_reader, base);

    if (j->live)
        jpeg_destroy_decompress(&j->d);
    j->live = false;
    if (j->own)
        jpeg_own_close(j->own);
    scratch_trim(&j->strip, 4 << 20);
    scratch_trim(&j->intervals, 1 << 20);
    scratch_trim(&j->spliced, 16 << 20);
}

static bool jpeg_reader_knows(const uint8_t *bytes, size_t len)
{
    return len >= 2 && bytes[0] == 0xFF && bytes[1] == 0xD8;
}

/* Open the part with Plenum's decoder, or with the library if Plenum's does not support it. */
static int open_part(struct jpeg_reader *j, uint32_t *width, uint32_t *height,
                     struct plenum_error *err)
{
    int r = 0;

    j->ours = j->choice != IMAGE_JPEG_LIBJPEG &&
              jpeg_own_open(j->own, j->part, j->part_len, j->base.junk, width, height) == 0;
    if (!j->ours) {
        r = open_library(j, err);
        *width = j->d.image_width;
        *height = j->d.image_height;
    }
    return r;
}

static int jpeg_reader_open(struct image_reader *reader, const uint8_t *bytes, size_t len,
                            struct image_header *ret, struct plenum_error *err)
{
    struct jpeg_reader *j = container_of(reader, struct jpeg_reader, base);
    int r = 0;

    jpeg_reader_close(reader);
    j->bytes = j->part = bytes;
    j->len = j->part_len = len;
    j->ours = reader->refused_junk = false;
    *ret = (struct image_header){0};
    if (!reader->whole)
        r = pack_read(bytes, len, &j->intervals, &j->layout, NULL);
    if (r == -ENOMEM)
        return error_set(err, r, "out of memory");
    j->packed = r > 0;
    if (j->packed) { /* libjpeg checked the header when the file was packed */
        ret->width = j->layout.width;
        ret->height = j->layout.height;
    } else {
        r = open_part(j, &ret->width, &ret->height, err);
        if (r < 0)
            return r;
    }
    ret->orientation = exif_of_jpeg(bytes, len);
    ret->progressive = frame_code(bytes, len, NULL) % 4 == 2;
    ret->junk = reader->junk ? count_junk(bytes, len) : 0;
    return 0;
}

/* Compute the columns that must be decoded for the region's pixels to be right: see the top of the
 * file. */
static void widen(uint32_t unit, uint32_t mcu, uint32_t whole, const struct rect *region,
                  uint32_t *begin, uint32_t *end)
{
    uint32_t least = 3 * unit;

    *begin = region->left > 0 ? (region->left - 1) / mcu * mcu : 0;
    *end = region->left + region->width + 2;
    if (*end < *begin + least)
        *end = *begin + least;
    if (*end > whole)
        *end = whole;
    if (*begin > 0 && *end - *begin < least)
        *begin -= mcu;
}

/* Like widen(), but for splicing, and for both axes: one row above the region and one below it are
 * enough. */
static struct rect widen_both(const struct pack_layout *l, const struct rect *region)
{
    uint32_t begin, end, bottom = region->top + region->height;
    struct rect r = {.top = region->top - (region->top > 0)};

    widen(l->mcu_width / DCTSIZE, l->mcu_width, l->width, region, &begin, &end);
    r.left = begin;
    r.width = end - begin;
    r.height = bottom + (bottom < l->height) - r.top;
    return r;
}

/* Choose the part of a packed file to decode: one that contains the region, or the whole file. Make
 * j->region relative to it. Returns 0 or -ENOMEM. */
static int choose_part(struct jpeg_reader *j)
{
    struct rect wide, pixels;
    struct splice splice;
    int r;

    j->part = j->bytes;
    j->part_len = j->len;
    wide = widen_both(&j->layout, &j->region);
    if (!splice_plan(&j->layout, &wide, &splice))
        return 0;
    r = splice_write(&splice, &j->layout, j->bytes, j->len, &j->spliced, &j->part_len);
    if (r < 0)
        return r;
    j->part = j->spliced.bytes;
    pixels = splice_pixels(&splice, &j->layout);
    j->region.left -= pixels.left;
    j->region.top -= pixels.top;
    return 0;
}

static void seek(struct jpeg_reader *j, const struct rect *region)
{
    uint32_t begin, end;
    JDIMENSION left, width;

    (void)jpeg_start_decompress(&j->d);
    widen((uint32_t)j->d.max_h_samp_factor, DCTSIZE * (uint32_t)j->d.max_h_samp_factor,
          j->d.output_width, region, &begin, &end);
    left = begin;
    width = end - begin;
    jpeg_crop_scanline(&j->d, &left, &width);
    j->offset = region->left - left;
    j->width = region->width;
    j->rows_left = region->height;
    if (region->top > 0)
        (void)jpeg_skip_scanlines(&j->d, region->top);
}

static int seek_library(struct jpeg_reader *j, const struct rect *region, struct plenum_error *err)
{
    if (setjmp(j->escape))
        return error_set(err, j->code, "%s", j->message);
    seek(j, region);
    j->pitch = align_up((size_t)j->d.output_width * 4, STRIP_UNIT);
    if (scratch_reserve(&j->strip, STRIP_SKEW + STRIP_ROWS * j->pitch) < 0)
        return error_set(err, -ENOMEM, "out of memory for rows of %u pixels", j->d.output_width);
    return 0;
}

static int jpeg_reader_seek(struct image_reader *reader, const struct rect *region,
                            struct plenum_error *err)
{
    struct jpeg_reader *j = container_of(reader, struct jpeg_reader, base);
    uint32_t width, height;
    int r;

    j->region = *region;
    j->delivered = 0;
    if (j->packed) {
        if (choose_part(j) < 0)
            return error_set(err, -ENOMEM, "out of memory for %zu bytes", j->len);
        r = open_part(j, &width, &height, err);
        if (r < 0)
            return r;
    }
    if (j->ours) {
        r = reader->tiles && !j->packed
                ? jpeg_own_use_hint(j->own, reader->tiles->hint, reader->tiles->len)
                : 0;
        if (r == 0)
            r = jpeg_own_seek(j->own, &j->region);
        if (r == 0)
            return 0;
        if (r < 0)
            return error_set(err, r, "out of memory for rows of %u pixels", region->width);
    }
    r = j->ours ? open_library(j, err) : 0;
    return r < 0 ? r : seek_library(j, &j->region, err);
}

/* Convert inverted CMYK to RGB, in place. */
static void rgb_of_cmyk(uint8_t *pixel, uint32_t count)
{
    for (; count > 0; count--, pixel += 4) {
        uint8_t k = pixel[3];

        for (int c = 0; c < 3; c++)
            pixel[c] = (uint8_t)(k - jpeg_times_255th(255u - pixel[c], k));
    }
}

static void read_rows(struct jpeg_reader *j, uint8_t *pixels, size_t pitch, uint32_t count)
{
    JSAMPROW rows[STRIP_ROWS];
    uint32_t done = 0;

    for (uint32_t i = 0; i < count; i++)
        rows[i] = pixels + i * pitch;
    while (done < count) {
        JDIMENSION n = jpeg_read_scanlines(&j->d, rows + done, count - done);

        if (n == 0)
            leave(j, -EBADMSG, "JPEG decoder: it returned no further rows at row %u",
                  j->d.output_scanline);
        done += n;
    }
}

static int read_library(struct jpeg_reader *j, struct image_rows *ret, struct plenum_error *err)
{
    uint32_t count = j->rows_left < STRIP_ROWS ? j->rows_left : STRIP_ROWS;
    uint8_t *pixels = (uint8_t *)j->strip.bytes + STRIP_SKEW;

    if (setjmp(j->escape))
        return error_set(err, j->code, "%s", j->message);
    read_rows(j, pixels, j->pitch, count);
    j->rows_left -= count;
    pixels += (size_t)j->offset * 4;
    if (j->d.out_color_space == JCS_CMYK)
        for (uint32_t i = 0; i < count; i++)
            rgb_of_cmyk(pixels + i * j->pitch, j->width);
    *ret = (struct image_rows){pixels, j->pitch, count};
    return 0;
}

/* Read the next rows with the library, which starts at the top, because Plenum's decoder gave
 * up. */
static int read_instead(struct jpeg_reader *j, struct image_rows *ret, struct plenum_error *err)
{
    uint32_t drop = j->delivered;
    int r = open_library(j, err);

    if (r < 0)
        return r;
    r = seek_library(j, &j->region, err);
    if (r < 0)
        return r;
    for (;;) {
        r = read_library(j, ret, err);
        if (r < 0)
            return r;
        if (ret->count > drop)
            break;
        drop -= ret->count;
    }
    ret->pixels += drop * ret->pitch;
    ret->count -= drop;
    return 0;
}

/* Return the tiles that were found while decoding. */
static int return_hint(struct jpeg_reader *j, struct image_tiles *ret, struct plenum_error *err)
{
    const struct jpeg_tiles *tiles = jpeg_own_get_tiles(j->own);
    size_t max;

    if (!tiles)
        return 0;
    max = jpeg_tiles_hint_max(tiles);
    if (scratch_reserve(&j->hint, max) < 0)
        return error_set(err, -ENOMEM, "out of memory for %zu bytes", max);
    ret->found_len = jpeg_tiles_hint(tiles, j->hint.bytes);
    ret->found_max = max;
    ret->found = ret->found_len > 0 ? j->hint.bytes : NULL;
    return 0;
}

static int jpeg_reader_read(struct image_reader *reader, struct image_rows *ret,
                            struct plenum_error *err)
{
    struct jpeg_reader *j = container_of(reader, struct jpeg_reader, base);

    if (!j->ours)
        return read_library(j, ret, err);
    if (jpeg_own_read(j->own, ret) == JPEG_OWN_GIVES_UP)
        return read_instead(j, ret, err);
    j->delivered += ret->count;
    if (reader->tiles && j->delivered == j->region.height)
        return return_hint(j, reader->tiles, err);
    return 0;
}

static void jpeg_reader_destroy(struct image_reader *reader)
{
    struct jpeg_reader *j = container_of(reader, struct jpeg_reader, base);

    jpeg_reader_close(reader);
    jpeg_own_destroy(j->own);
    scratch_free(&j->strip);
    scratch_free(&j->hint);
    scratch_free(&j->intervals);
    scratch_free(&j->spliced);
    free(j);
}

static const struct image_reader_ops jpeg_reader_ops = {
    .knows = jpeg_reader_knows,
    .open = jpeg_reader_open,
    .seek = jpeg_reader_seek,
    .read = jpeg_reader_read,
    .close = jpeg_reader_close,
    .destroy = jpeg_reader_destroy,
};

static const struct jpeg_kernels *best_kernels(void)
{
    size_t best = 0;

    while (!jpeg_kernels[best]->usable())
        best++;
    return jpeg_kernels[best];
}

enum image_jpeg jpeg_reader_choice(enum image_jpeg jpeg)
{
    if (jpeg != IMAGE_JPEG_AUTO)
        return jpeg;
#ifdef __x86_64__
    /* On x86-64, libjpeg-turbo always has vector loops, and these overflow exactly like Plenum's
     * (docs/pixels.md, 4.1). On other processors, this is not known. */
    if (best_kernels() == &jpeg_portable)
        return IMAGE_JPEG_LIBJPEG;
#endif
    return IMAGE_JPEG_PLENUM;
}

void jpeg_reader_use(struct image_reader *reader, enum image_jpeg jpeg, const char *kernels)
{
    struct jpeg_reader *j = container_of(reader, struct jpeg_reader, base);
    const struct jpeg_kernels *chosen = best_kernels();

    for (size_t i = 0; kernels && jpeg_kernels[i]; i++)
        if (jpeg_kernels[i]->usable() && strcmp(jpeg_kernels[i]->name, kernels) == 0)
            chosen = jpeg_kernels[i];
    j->choice = jpeg_reader_choice(jpeg);
    jpeg_own_use(j->own, chosen);
}

int jpeg_reader_create(struct image_reader **ret)
{
    struct jpeg_reader *j = malloc(sizeof(*j));

    if (!j)
        return -ENOMEM;
    *j = (struct jpeg_reader){
        .base = {.ops = &jpeg_reader_ops},
        .source =
            {
                .init_source = source_nothing,
                .fill_input_buffer = source_fill,
                .skip_input_data = source_skip,
                .resync_to_restart = jpeg_resync_to_restart,
                .term_source = source_nothing,
            },
        .progress = {.progress_monitor = on_progress},
    };
    (void)jpeg_std_error(&j->errors);
    j->errors.error_exit = on_error;
    j->errors.emit_message = on_message;
    j->errors.output_message = on_output;
    if (jpeg_own_create(&j->own) < 0) {
        jpeg_reader_destroy(&j->base);
        return -ENOMEM;
    }
    jpeg_reader_use(&j->base, IMAGE_JPEG_AUTO, NULL);
    *ret = &j->base;
    return 0;
}
