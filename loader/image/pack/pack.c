/* SPDX-License-Identifier: MIT */
/* pack.c - recognises packed JPEGs, creates them, and proves that a file may be packed.
 *
 * A file counts as packed if it has our segment, the checksum in that segment is correct, and its
 * header and markers are as required for a packed file. The checksum covers all bytes. So such a
 * file is, byte for byte, one that image_pack() has proved to decode completely without a warning,
 * and a decoder of a part of it makes the same decision and produces the same pixels as a decoder
 * of the whole file. Any other file is decoded as if it had no such segment.
 *
 * A checksum is not a signature: any writer can construct a file with a correct one. So nothing
 * that determines a pixel is taken from the segment: the positions of the intervals are read from
 * the markers, which a decoder of the whole file also uses. A forged file can only have its own
 * pixels, or be bad; docs/packed.md describes the remaining risk.
 *
 * Why the whole file is read, which takes 10 us for a photograph: a checksum that covered less
 * would not cover the data above the crop, which decides whether a sample is bad; and markers are
 * numbered modulo 8, so a single marker does not identify its position. */
#include "config.h"

#include "loader/image/pack/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "loader/image/limits.h"
#include "loader/image/pack/splice.h"
#include "loader/image/ppm.h"

/* Offsets in the segment, from its marker on. Numbers are big-endian, like everywhere in a JPEG. */
enum {
    AT_NAME = 4,      /* "Plenum\0" */
    AT_VERSION = 11,  /* 1 byte */
    AT_CHECKSUM = 12, /* 8 bytes */
    SEGMENT_SIZE = 20,
    SEGMENT_VERSION = 1,
    /* The shortest intervals that we choose. A marker, the bits that pad a byte, and DC values
     * without a prediction cost 5 bytes per interval; shorter intervals save more decoding. */
    INTERVAL_MIN = 2,         /* MCUs */
    INTERVAL_BYTES_MIN = 112, /* bytes of compressed data, on average */
};

static const uint8_t segment_name[7] = "Plenum";

static uint32_t get16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t value = 0;

    for (int i = 0; i < 8; i++)
        value = value << 8 | p[i];
    return value;
}

static void put64(uint8_t *p, uint64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        p[i] = (uint8_t)value;
}

/* Returns the checksum of all bytes except its own eight. */
static uint64_t checksum_of(const uint8_t *bytes, size_t len, size_t segment)
{
    size_t at = segment + AT_CHECKSUM;
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, bytes, at);
    (void)XXH3_64bits_update(&state, bytes + at + 8, len - at - 8);
    return XXH3_64bits_digest(&state);
}

/* A file's header while it is being read. */
struct header {
    const uint8_t *bytes;
    size_t len;
    struct pack_layout layout;
    uint32_t components;
};

/* Returns the end of the segment at `at`, or 0 if a packed file cannot have it. */
static size_t segment_end(const struct header *h, size_t at)
{
    size_t size;

    if (h->len - at < 4 || h->bytes[at] != 0xFF)
        return 0;
    size = get16(h->bytes + at + 2);
    return size < 2 || size > h->len - at - 2 ? 0 : at + 2 + size;
}

/* Returns the position of Plenum's segment, or 0. The file may be of any kind, so this is only a
 * guess. */
static size_t find_segment(const struct header *h)
{
    size_t at = 2, end;

    if (h->len < 2 || h->bytes[0] != 0xFF || h->bytes[1] != 0xD8)
        return 0;
    while (at < h->len && (end = segment_end(h, at)) > 0 && h->bytes[at + 1] != 0xDA) {
        if (h->bytes[at + 1] == 0xE9 && end - at >= AT_NAME + sizeof(segment_name) &&
            memcmp(h->bytes + at + AT_NAME, segment_name, sizeof(segment_name)) == 0)
            return at;
        at = end;
    }
    return 0;
}

/* Read an APP9 segment. Returns whether it is the first, with Plenum's size and version. */
static bool read_segment(struct header *h, size_t at, size_t end)
{
    if (h->layout.segment || end - at != SEGMENT_SIZE ||
        h->bytes[at + AT_VERSION] != SEGMENT_VERSION)
        return false;
    h->layout.segment = at;
    h->layout.segment_end = end;
    return true;
}

/* Read a SOF0, or a SOF1, which differs in the allowed sizes of tables. */
static bool read_frame(struct header *h, size_t at, size_t end)
{
    struct pack_layout *l = &h->layout;
    const uint8_t *p = h->bytes + at;
    uint32_t across = 1, down = 1;

    if (l->size_at || end - at < 10 || p[4] != 8)
        return false;
    l->size_at = at + 5;
    l->height = get16(p + 5);
    l->width = get16(p + 7);
    h->components = p[9];
    if ((h->components != 1 && h->components != 3) || end - at != 10 + 3 * h->components)
        return false;
    for (uint32_t i = 0; i < h->components; i++) {
        uint32_t x = p[11 + 3 * i] >> 4, y = p[11 + 3 * i] & 15;

        if (x < 1 || x > 4 || y < 1 || y > 4)
            return false;
        across = x > across ? x : across;
        down = y > down ? y : down;
    }
    /* A single component has MCUs of one block, whatever its factors are. */
    l->mcu_width = h->components == 1 ? 8 : 8 * across;
    l->mcu_height = h->components == 1 ? 8 : 8 * down;
    return l->width > 0 && l->height > 0 && l->width <= IMAGE_SIDE_MAX &&
           l->height <= IMAGE_SIDE_MAX && (uint64_t)l->width * l->height <= IMAGE_PIXELS_MAX;
}

static bool read_interval(struct header *h, size_t at, size_t end)
{
    if (h->layout.interval || end - at != 6)
        return false;
    h->layout.interval = get16(h->bytes + at + 4);
    return true;
}

/* Parse a file written by jpeg_pack.c, which has these segments and no others. */
static bool read_header(struct header *h)
{
    for (size_t at = 2, end;; at = end) {
        end = at < h->len ? segment_end(h, at) : 0;
        if (end == 0)
            return false;
        switch (h->bytes[at + 1]) {
        case 0xE0: /* APP0: JFIF */
        case 0xE1: /* APP1: EXIF */
        case 0xEE: /* APP14: Adobe */
        case 0xDB: /* DQT */
        case 0xC4: /* DHT */
            break;
        case 0xE9:
            if (!read_segment(h, at, end))
                return false;
            break;
        case 0xC0:
        case 0xC1:
            if (!read_frame(h, at, end))
                return false;
            break;
        case 0xDD: /* DRI */
            if (!read_interval(h, at, end))
                return false;
            break;
        case 0xDA: /* SOS: of all components */
            h->layout.data = end;
            return end - at > 4 && h->bytes[at + 4] == h->components && h->layout.segment;
        default:
            return false;
        }
    }
}

/* Check that the intervals divide the rows. */
static bool read_intervals(struct header *h)
{
    struct pack_layout *l = &h->layout;
    uint32_t mcus;

    if (!l->size_at || l->interval == 0)
        return false;
    mcus = (l->width + l->mcu_width - 1) / l->mcu_width;
    if (mcus % l->interval != 0)
        return false;
    l->across = mcus / l->interval;
    l->down = (l->height + l->mcu_height - 1) / l->mcu_height;
    /* Each interval has at least one byte and a marker. This limits the memory that the caller
     * reserves. */
    return (uint64_t)l->across * l->down <= (h->len - l->data) / 3 && h->len <= UINT32_MAX;
}

enum { BLOCK = 64, SPARE = BLOCK };

/* Returns a bit for each of the next BLOCK bytes: set if it is 0xFF and the byte after it is not 0.
 * Reads one byte more. */
static uint64_t find_markers(const uint8_t *p)
{
    uint64_t mask = 0;

#ifdef __SSE2__
    for (uint32_t i = 0; i < BLOCK; i += 16) {
        __m128i here = _mm_loadu_si128((const __m128i *)(const void *)(p + i));
        __m128i next = _mm_loadu_si128((const __m128i *)(const void *)(p + i + 1));
        __m128i found = _mm_andnot_si128(_mm_cmpeq_epi8(next, _mm_setzero_si128()),
                                         _mm_cmpeq_epi8(here, _mm_set1_epi8(-1)));

        mask |= (uint64_t)(uint32_t)_mm_movemask_epi8(found) << i;
    }
#else
    for (uint32_t i = 0; i < BLOCK; i++)
        mask |= (uint64_t)(p[i] == 0xFF && p[i + 1] != 0) << i;
#endif
    return mask;
}

/* Record the ends of all markers that begin in [at, end). `ends` has room for `count` + SPARE.
 * Returns their number; if there are more than `count`, a number above `count`.
 *
 * The first two markers of a block are written whether or not they exist, because no processor can
 * predict that: the mispredictions at each of a photograph's markers would cost more than
 * everything else. */
static uint32_t list_markers(const uint8_t *bytes, size_t at, size_t end, uint32_t count,
                             uint32_t *ends)
{
    uint32_t number = 0;

    for (; at < end && number <= count; at += BLOCK) {
        uint64_t mask;

        if (end - at > BLOCK) {
            mask = find_markers(bytes + at);
        } else {
            uint8_t last[BLOCK + 1] = {0};

            memcpy(last, bytes + at, end - at);
            mask = find_markers(last);
        }
        for (int i = 0; i < 2; i++) {
            ends[number] = (uint32_t)at + (uint32_t)__builtin_ctzll(mask | UINT64_C(1) << 63) + 2;
            number += mask != 0;
            mask &= mask - 1;
        }
        for (; mask; mask &= mask - 1)
            ends[number++] = (uint32_t)at + (uint32_t)__builtin_ctzll(mask) + 2;
    }
    return number;
}

/* Find the markers. They must be numbered consecutively, and EOI must be the end of the file. */
static bool read_markers(const struct header *h, uint32_t *ends)
{
    uint32_t count = h->layout.across * h->layout.down, wrong = 0;

    if (list_markers(h->bytes, h->layout.data, h->len, count, ends) != count ||
        ends[count - 1] != h->len)
        return false;
    for (uint32_t i = 0; i + 1 < count; i++)
        wrong |= h->bytes[ends[i] - 1] ^ (0xD0 + i % 8);
    return wrong == 0 && h->bytes[h->len - 1] == 0xD9;
}

int pack_read(const uint8_t *bytes, size_t len, struct scratch *scratch, struct pack_layout *ret,
              struct plenum_error *err)
{
    struct header h = {.bytes = bytes, .len = len};
    size_t segment = find_segment(&h);

    if (segment == 0)
        return 0;
    if (len - segment < SEGMENT_SIZE ||
        get64(bytes + segment + AT_CHECKSUM) != checksum_of(bytes, len, segment))
        return error_set(err, -EBADMSG,
                         "the file has changed since it was packed: its checksum is wrong");
    if (read_header(&h) && read_intervals(&h)) {
        if (scratch_reserve(scratch, ((size_t)h.layout.across * h.layout.down + SPARE) * 4) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        if (read_markers(&h, scratch->bytes)) {
            *ret = h.layout;
            ret->ends = scratch->bytes;
            return 1;
        }
    }
    return error_set(err, -EBADMSG, "it is marked as packed, but is not a valid packed file");
}

uint32_t pack_interval(uint32_t mcus, uint32_t rows, size_t bytes)
{
    for (uint32_t interval = INTERVAL_MIN; interval <= mcus / 2; interval++) {
        uint64_t count = (uint64_t)(mcus / interval) * rows;

        if (mcus % interval == 0 && bytes / count >= INTERVAL_BYTES_MIN)
            return interval;
    }
    return mcus;
}

/* Returns where to put our segment: after the first segments, so that programs that look for JFIF
 * at the usual position still find it. */
static size_t segment_offset(const uint8_t *bytes, size_t len)
{
    size_t at = 2;

    while (at + 4 <= len && bytes[at + 1] >= 0xE0 && bytes[at + 1] <= 0xEF)
        at += 2 + get16(bytes + at + 2);
    return at;
}

/* Put the segment into a baseline JPEG with restart markers. */
static int add_segment(const struct jpeg_transcoded *from, uint8_t **ret, size_t *ret_len)
{
    size_t at = segment_offset(from->bytes, from->len), len = from->len + SEGMENT_SIZE;
    uint8_t *bytes = malloc(len), *segment = bytes + at;

    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, from->bytes, at);
    memcpy(segment, "\xFF\xE9\x00", 3);
    segment[3] = SEGMENT_SIZE - 2;
    memcpy(segment + AT_NAME, segment_name, sizeof(segment_name));
    segment[AT_VERSION] = SEGMENT_VERSION;
    memcpy(segment + SEGMENT_SIZE, from->bytes + at, from->len - at);
    put64(segment + AT_CHECKSUM, checksum_of(bytes, len, at));
    *ret = bytes;
    *ret_len = len;
    return 0;
}

enum { PARTS = 4 };

/* A packed file, cut into four parts, or fewer if it has few intervals. */
struct cut {
    struct pack_layout layout;
    struct scratch ends, parts[PARTS];
    struct jpeg_part list[1 + PARTS];
    size_t count;
};

static void cut_fini(struct cut *c)
{
    scratch_free(&c->ends);
    for (size_t i = 0; i < PARTS; i++)
        scratch_free(&c->parts[i]);
}

/* Cut the file into parts, and list these. Returns the result of pack_read(), or -ENOMEM. */
static int cut_all(struct cut *c, const uint8_t *bytes, size_t len, struct plenum_error *err)
{
    const struct pack_layout *l = &c->layout;
    int r = pack_read(bytes, len, &c->ends, &c->layout, err);

    for (uint32_t i = 0; i < PARTS && r > 0; i++) {
        struct splice s = {.right = l->across / 2, .bottom = l->down / 2};
        struct jpeg_part *part = &c->list[c->count];

        if (i & 1) {
            s.left = s.right;
            s.right = l->across;
        }
        if (i & 2) {
            s.top = s.bottom;
            s.bottom = l->down;
        }
        if (s.left == s.right || s.top == s.bottom)
            continue;
        if (splice_write(&s, l, bytes, len, &c->parts[i], &part->len) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        part->bytes = c->parts[i].bytes;
        part->left = s.left * l->interval;
        part->top = s.top;
        c->count++;
    }
    return r;
}

int pack_prove(const uint8_t *bytes, size_t len, struct plenum_error *err)
{
    struct cut cut = {0};
    int r = cut_all(&cut, bytes, len, err), compared;

    if (r > 0) {
        compared = jpeg_compare_parts(bytes, len, cut.list, cut.count, err);
        if (compared < 0)
            r = error_prefix(err, compared, "packed, but");
    }
    cut_fini(&cut);
    return r;
}

/* Check that the packed file and each of its parts have the coefficients of the original. */
static int prove(const uint8_t *bytes, size_t len, struct pack_result *packed,
                 struct plenum_error *err)
{
    struct cut cut = {.list = {{.bytes = packed->bytes, .len = packed->len}}, .count = 1};
    int r = cut_all(&cut, packed->bytes, packed->len, err);

    if (r > 0) {
        packed->whole_row = cut.layout.across == 1;
        r = jpeg_compare_parts(bytes, len, cut.list, cut.count, err);
    } else if (r == 0) {
        r = error_set(err, -EBADMSG, "it cannot be read back");
    }
    cut_fini(&cut);
    return r;
}

/* Transcode, add the segment, and compare coefficients and pixels with those of the original. */
static int pack(struct image_decoder *decoder, const struct image_file *file,
                const struct image_info *info, struct pack_result *ret, struct plenum_error *err)
{
    struct jpeg_transcoded t;
    struct image_info again;
    int r;

    r = jpeg_transcode(file->bytes, file->len, info->orientation, &t, &ret->outcome, err);
    if (r < 0)
        return r;
    r = add_segment(&t, &ret->bytes, &ret->len);
    free(t.bytes);
    ret->outcome = PACK_KEPT_ODD;
    if (r < 0)
        return r;
    r = prove(file->bytes, file->len, ret, err);
    if (r < 0)
        return r;
    r = image_verify(decoder, &(struct image_file){ret->bytes, ret->len}, &again, err);
    if (r < 0)
        return r;
    if (again.pixels != info->pixels || again.orientation != info->orientation)
        return error_set(err, -EBADMSG, "its pixels would change if it were packed");
    ret->outcome = t.converted ? PACK_CONVERTED : PACK_BASELINE;
    return 0;
}

/* Pack a JPEG of the target's size, created from a file that decodes. */
static int resize_and_pack(struct image_decoder *decoder, const struct image_file *file,
                           const struct pack_target *target, struct pack_result *ret,
                           struct plenum_error *err)
{
    struct image_file small;
    struct image_info info;
    uint8_t *bytes;
    int r = pack_resize_encode(decoder, file, target, &bytes, &small.len, err);

    if (r < 0)
        return r;
    small.bytes = bytes;
    r = image_verify(decoder, &small, &info, err);
    info.orientation = target->orientation;
    if (r == 0)
        r = pack(decoder, &small, &info, ret, err);
    if (r == 0)
        ret->outcome = PACK_RESIZED;
    free(bytes);
    return r;
}

/* Write the pixels of a file that decodes, and compare them after reading them back. `pixels` is
 * the hash of the file's own pixels. */
static int write_raw(struct image_decoder *decoder, const struct image_file *file,
                     const struct pack_target *target, uint64_t pixels, struct pack_result *ret,
                     struct plenum_error *err)
{
    const size_t count = 3 * (size_t)target->width * target->height;
    struct image_info again;
    int r = pack_resize_raw(decoder, file, target, &ret->bytes, &ret->len, err);

    if (r < 0)
        return r;
    ret->outcome = PACK_KEPT_ODD;
    r = image_verify(decoder, &(struct image_file){ret->bytes, ret->len}, &again, err);
    if (r < 0)
        return r;
    if (again.width != target->width || again.height != target->height ||
        again.orientation != target->orientation ||
        again.pixels != XXH3_64bits(ret->bytes + ret->len - count, count) ||
        (!target->resized && again.pixels != pixels))
        return error_set(err, -EBADMSG, "its pixels would change if they were raw");
    ret->outcome = target->resized ? PACK_RAW_RESIZED : PACK_RAW;
    return 0;
}

/* Check the kind of file, and pack it. */
static int check_and_pack(struct image_decoder *decoder, const struct pack_resize *resize, bool raw,
                          const struct image_file *file, struct pack_result *ret,
                          struct plenum_error *err)
{
    struct pack_target target = {.resize = resize};
    struct image_info info;
    int r = image_verify(decoder, file, &info, err);

    if (r < 0)
        return r;
    if (info.junk > 0 && !(resize && resize->junk))
        return image_refuse_junk(info.junk, err);
    target.width = info.width;
    target.height = info.height;
    target.orientation = info.orientation;
    target.resized =
        resize && pack_resize_sides(resize, info.width, info.height, &target.width, &target.height);
    if (raw && 3 * (uint64_t)target.width * target.height <= PACK_RAW_MAX - PPM_HEADER_MAX)
        return write_raw(decoder, file, &target, info.pixels, ret, err);
    if (target.resized)
        return resize_and_pack(decoder, file, &target, ret, err);
    if (strcmp(info.format, "JPEG") != 0) {
        ret->outcome = PACK_KEPT_PNG;
        return error_set(err, -EOPNOTSUPP, "it is a %s", info.format);
    }
    if (pack_prove(file->bytes, file->len, NULL) > 0) {
        ret->outcome = PACK_KEPT_PACKED;
        return error_set(err, -EOPNOTSUPP, "it is already packed");
    }
    return pack(decoder, file, &info, ret, err);
}

static int pack_any(struct image_decoder *decoder, const struct pack_resize *resize, bool raw,
                    const struct image_file *file, struct pack_result *ret,
                    struct plenum_error *err)
{
    struct pack_result result = {.outcome = PACK_KEPT_BAD};
    int r = check_and_pack(decoder, resize, raw, file, &result, err);

    if (r < 0) {
        free(result.bytes);
        result.bytes = NULL;
        result.len = 0;
    }
    if (r == -ENOMEM)
        return error_set(err, r, "out of memory");
    /* This build has no decoder for the file, but another build would resize it or store raw
     * pixels. A file kept for another reason already has its outcome. */
    if (r == -ENOTSUP && result.outcome == PACK_KEPT_BAD &&
        (raw || (resize && (resize->longest || resize->shortest))))
        return r;
    *ret = result;
    return 0;
}

int image_pack_resized(struct image_decoder *decoder, const struct pack_resize *resize,
                       const struct image_file *file, struct pack_result *ret,
                       struct plenum_error *err)
{
    return pack_any(decoder, resize, false, file, ret, err);
}

int image_pack_raw(struct image_decoder *decoder, const struct pack_resize *resize,
                   const struct image_file *file, struct pack_result *ret, struct plenum_error *err)
{
    return pack_any(decoder, resize, true, file, ret, err);
}

int image_pack(struct image_decoder *decoder, const struct image_file *file,
               struct pack_result *ret, struct plenum_error *err)
{
    return pack_any(decoder, NULL, false, file, ret, err);
}

const char *pack_outcome_name(enum pack_outcome outcome)
{
    static const char *const names[PACK_OUTCOMES] = {
        [PACK_BASELINE] = "baseline",
        [PACK_CONVERTED] = "converted",
        [PACK_RESIZED] = "resized",
        [PACK_RAW] = "raw",
        [PACK_RAW_RESIZED] = "raw-resized",
        [PACK_KEPT_PACKED] = "kept-packed",
        [PACK_KEPT_PNG] = "kept-png",
        [PACK_KEPT_CMYK] = "kept-cmyk",
        [PACK_KEPT_ARITHMETIC] = "kept-arithmetic",
        [PACK_KEPT_ODD] = "kept-odd",
        [PACK_KEPT_BAD] = "kept-bad",
    };

    return names[outcome];
}
