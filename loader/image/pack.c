/* pack.c - what a packed JPEG looks like: reading and writing its APP9 segment, and proving that a
 * file may be packed.
 *
 * The checksum covers all bytes of the file. So a file that pack_read() accepts is, byte for byte,
 * one that image_pack() has proved to decode whole without a warning, and a decoder that looks at a
 * part of it comes to the same decision and the same pixels as one that looks at all. Any other
 * file is decoded as if it had no such segment. (A checksum is no signature: a file that somebody
 * made up to deceive decodes to something, or is bad, but is never read out of its bounds.)
 *
 * Why not one checksum an interval: XXH3 reads a photograph in 10 us, one that covered less would
 * leave open what lies above the crop, and that decides whether a sample is bad. */
#include "config.h"

#include "loader/image/pack.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/error.h"
#include "common/philox.h"
#include "loader/image/limits.h"
#include "loader/image/rect.h"

/* Of the segment, from its marker on. Numbers are big-endian, as all in a JPEG. */
enum {
    AT_NAME = 4,      /* "Plenum\0" */
    AT_VERSION = 11,  /* 1 byte */
    AT_CHECKSUM = 12, /* 8 */
    AT_INTERVAL = 20, /* 2 */
    AT_COUNT = 22,    /* 4: intervals */
    AT_LENGTHS = 26,
    SEGMENT_VERSION = 1,
    SEGMENT_MAX = 2 + 65535,
    /* More would not surely fit: an interval has less than 2^21 bytes, 3 of the segment's. */
    INTERVALS_MAX = 21000,
    /* The shortest intervals that are chosen. A marker, its length in the segment and DC values
     * without a prediction cost 12 bytes an interval; finer ones save more decoding. */
    INTERVAL_MIN = 2,         /* MCUs */
    INTERVAL_BYTES_MIN = 144, /* of compressed data, on average */
    PROVE_CROPS = 2,          /* of each file that is packed */
};

static const uint8_t segment_name[7] = "Plenum";

static uint32_t get16(const uint8_t *p)
{
    return (uint32_t)p[0] << 8 | p[1];
}

static uint32_t get32(const uint8_t *p)
{
    return get16(p) << 16 | get16(p + 2);
}

static void put_big(uint8_t *p, uint64_t value, unsigned bytes)
{
    while (bytes > 0) {
        p[--bytes] = (uint8_t)value;
        value >>= 8;
    }
}

/* Of all bytes but the checksum's own eight. */
static uint64_t checksum_of(const uint8_t *bytes, size_t len, size_t segment)
{
    size_t at = segment + AT_CHECKSUM;
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, bytes, at);
    (void)XXH3_64bits_update(&state, bytes + at + 8, len - at - 8);
    return XXH3_64bits_digest(&state);
}

/* A file's header while it is read. */
struct header {
    const uint8_t *bytes;
    size_t len;
    struct pack_layout layout;
    uint32_t components;
    uint32_t restart; /* DRI's interval */
    uint32_t count;   /* the segment's intervals */
};

/* The segment at `at`: its end, or 0 where there is none that could be in a packed file. */
static size_t segment_end(const struct header *h, size_t at)
{
    size_t size;

    if (h->len - at < 4 || h->bytes[at] != 0xFF)
        return 0;
    size = get16(h->bytes + at + 2);
    return size < 2 || size > h->len - at - 2 ? 0 : at + 2 + size;
}

static bool is_ours(const struct header *h, size_t at, size_t end)
{
    return h->bytes[at + 1] == 0xE9 && end - at >= AT_NAME + sizeof(segment_name) &&
           memcmp(h->bytes + at + AT_NAME, segment_name, sizeof(segment_name)) == 0;
}

/* The place of our segment, or 0. Any file may come here: it is only a guess what it is. */
static size_t find_segment(const struct header *h)
{
    size_t at = 2, end;

    if (h->len < 2 || h->bytes[0] != 0xFF || h->bytes[1] != 0xD8)
        return 0;
    while (at < h->len && (end = segment_end(h, at)) > 0 && h->bytes[at + 1] != 0xDA) {
        if (is_ours(h, at, end))
            return at;
        at = end;
    }
    return 0;
}

static bool take_ours(struct header *h, size_t at, size_t end)
{
    const uint8_t *p = h->bytes + at;

    if (h->layout.segment || end - at < AT_LENGTHS || p[AT_VERSION] != SEGMENT_VERSION)
        return false;
    h->layout.segment = at;
    h->layout.segment_end = end;
    h->layout.lengths = at + AT_LENGTHS;
    h->layout.interval = get16(p + AT_INTERVAL);
    h->count = get32(p + AT_COUNT);
    return true;
}

/* SOF0, or SOF1, which differs in how large the tables may be. */
static bool take_frame(struct header *h, size_t at, size_t end)
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
    /* A single component has no MCUs of several blocks, whatever its factors. */
    l->mcu_width = h->components == 1 ? 8 : 8 * across;
    l->mcu_height = h->components == 1 ? 8 : 8 * down;
    return l->width > 0 && l->height > 0 && l->width <= IMAGE_SIDE_MAX &&
           l->height <= IMAGE_SIDE_MAX && (uint64_t)l->width * l->height <= IMAGE_PIXELS_MAX;
}

/* A file as jpeg_pack.c writes it: these segments, and no other. */
static bool take_header(struct header *h)
{
    size_t at = 2, end;

    for (;; at = end) {
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
            if (!take_ours(h, at, end))
                return false;
            break;
        case 0xC0:
        case 0xC1:
            if (!take_frame(h, at, end))
                return false;
            break;
        case 0xDD: /* DRI */
            if (end - at != 6 || h->restart)
                return false;
            h->restart = get16(h->bytes + at + 4);
            break;
        case 0xDA: /* SOS: of all components */
            h->layout.data = end;
            return end - at > 4 && h->bytes[at + 4] == h->components;
        default:
            return false;
        }
    }
}

/* Do the intervals fill the image and the file? */
static bool check_intervals(struct header *h)
{
    struct pack_layout *l = &h->layout;
    uint32_t mcus = (l->width + l->mcu_width - 1) / l->mcu_width;
    size_t at = l->lengths, rest = h->len - l->data;

    if (l->interval == 0 || l->interval != h->restart || mcus % l->interval != 0)
        return false;
    l->across = mcus / l->interval;
    l->down = (l->height + l->mcu_height - 1) / l->mcu_height;
    if (h->count != (uint64_t)l->across * l->down || h->count > l->segment_end - at)
        return false;
    for (uint32_t i = 0; i < h->count; i++) {
        uint32_t value = 0;
        unsigned shift = 0;

        for (;; shift += 7) {
            if (at == l->segment_end || shift > 21)
                return false;
            value |= (uint32_t)(h->bytes[at] & 0x7F) << shift;
            if (!(h->bytes[at++] & 0x80))
                break;
        }
        if (value < 3 || value > rest) /* a byte at least, and a marker */
            return false;
        rest -= value;
    }
    return rest == 0 && at == l->segment_end;
}

int pack_read(const uint8_t *bytes, size_t len, struct pack_layout *ret, struct plenum_error *err)
{
    struct header h = {.bytes = bytes, .len = len};
    size_t segment = find_segment(&h);
    const uint8_t *sum = bytes + segment + AT_CHECKSUM;

    if (segment == 0)
        return 0;
    if (len - segment < AT_LENGTHS ||
        ((uint64_t)get32(sum) << 32 | get32(sum + 4)) != checksum_of(bytes, len, segment))
        return error_set(err, -EBADMSG,
                         "the file is not as it was when it was packed: its checksum "
                         "is wrong");
    if (!take_header(&h) || !h.layout.segment || !h.layout.size_at || !check_intervals(&h))
        return error_set(err, -EBADMSG,
                         "the file says that it is packed, but is not as a packed "
                         "file must be");
    *ret = h.layout;
    return 1;
}

uint32_t pack_interval(uint32_t mcus, uint32_t rows, size_t bytes)
{
    for (uint32_t interval = INTERVAL_MIN; interval <= mcus / 2; interval++) {
        uint64_t count = (uint64_t)(mcus / interval) * rows;

        if (mcus % interval == 0 && count <= INTERVALS_MAX && bytes / count >= INTERVAL_BYTES_MIN)
            return interval;
    }
    return mcus;
}

/* Behind the first segments, so that those still find JFIF who look for it at the usual place. */
static size_t place_of_segment(const uint8_t *bytes, size_t len)
{
    size_t at = 2;

    while (at + 4 <= len && bytes[at + 1] >= 0xE0 && bytes[at + 1] <= 0xEF)
        at += 2 + get16(bytes + at + 2);
    return at;
}

/* The intervals' lengths, as the segment holds them. Returns the end of what was written, or NULL
 * where that is too long; `*count` is how many. */
static uint8_t *write_lengths(const uint8_t *bytes, size_t len, size_t data, uint8_t *to,
                              const uint8_t *end, uint32_t *count)
{
    size_t begin = data;

    *count = 0;
    for (size_t at = data; at + 1 < len; at++) {
        size_t length;

        if (bytes[at] != 0xFF || bytes[at + 1] == 0)
            continue;
        at++;
        length = at + 1 - begin;
        begin = at + 1;
        for (; length >= 0x80; length >>= 7) {
            if (to == end)
                return NULL;
            *to++ = (uint8_t)(length | 0x80);
        }
        if (to == end)
            return NULL;
        *to++ = (uint8_t)length;
        (*count)++;
    }
    return begin == len ? to : NULL;
}

/* Put the segment into a baseline JPEG with restart markers: 0, -ENOMEM, or -EBADMSG. */
static int add_segment(const struct jpeg_transcoded *from, uint8_t **ret, size_t *ret_len)
{
    struct header h = {.bytes = from->bytes, .len = from->len};
    size_t place = place_of_segment(from->bytes, from->len), size;
    uint8_t *bytes, *end;
    uint32_t count;

    if (!take_header(&h))
        return -EBADMSG;
    bytes = malloc(from->len + SEGMENT_MAX);
    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, from->bytes, place);
    end = write_lengths(from->bytes, from->len, h.layout.data, bytes + place + AT_LENGTHS,
                        bytes + place + SEGMENT_MAX, &count);
    if (!end) {
        free(bytes);
        return -EBADMSG;
    }
    size = (size_t)(end - (bytes + place));
    put_big(bytes + place, 0xFFE9, 2);
    put_big(bytes + place + 2, size - 2, 2);
    memcpy(bytes + place + AT_NAME, segment_name, sizeof(segment_name));
    bytes[place + AT_VERSION] = SEGMENT_VERSION;
    put_big(bytes + place + AT_INTERVAL, h.restart, 2);
    put_big(bytes + place + AT_COUNT, count, 4);
    memcpy(end, from->bytes + place, from->len - place);
    *ret_len = from->len + size;
    put_big(bytes + place + AT_CHECKSUM, checksum_of(bytes, *ret_len, place), 8);
    *ret = bytes;
    return 0;
}

/* A part of an image that an image of 1 x 1 pixels has, too, drawn by `number`. */
static struct rect draw_region(const struct pack_layout *l, uint64_t seed, uint32_t number)
{
    struct philox_block a = philox_draw(seed, number, 0, DRAW_SEED, 0);
    struct philox_block b = philox_draw(seed, number, 0, DRAW_SEED, 1);
    /* Half of them have a quarter of the sides or less: what a crop seldom is, but leaves most out.
     */
    uint32_t divisor = b.word[0] & 1 ? 4 : 1;
    struct rect r = {.width = 1 + philox_below(a.word[0], (l->width + divisor - 1) / divisor),
                     .height = 1 + philox_below(a.word[1], (l->height + divisor - 1) / divisor)};

    r.left = philox_below(a.word[2], l->width - r.width + 1);
    r.top = philox_below(a.word[3], l->height - r.height + 1);
    return r;
}

int pack_prove(struct image_decoder *decoder, const uint8_t *bytes, size_t len, uint64_t seed,
               uint32_t crops, struct plenum_error *err)
{
    struct pack_layout layout;
    int r = pack_read(bytes, len, &layout, err);

    if (r <= 0)
        return r;
    for (uint32_t i = 0; i < crops; i++) {
        struct rect region = draw_region(&layout, seed, i);
        uint64_t whole, part;

        r = image_hash(decoder, bytes, len, &region, true, &whole, err);
        if (r == 0)
            r = image_hash(decoder, bytes, len, &region, false, &part, err);
        if (r < 0)
            return r;
        if (whole != part)
            return error_set(err, -EBADMSG,
                             "the packed JPEG has other pixels when only the %ux%u at %u,%u are "
                             "decoded",
                             region.width, region.height, region.left, region.top);
    }
    return 0;
}

/* Transcode, add the segment, and compare the pixels with those of the file as it was. */
static int pack(struct image_decoder *decoder, const uint8_t *bytes, size_t len,
                const struct image_info *info, struct pack_result *ret, struct plenum_error *err)
{
    struct jpeg_transcoded t;
    struct pack_layout layout;
    struct image_info again;
    int r;

    r = jpeg_transcode(bytes, len, info->orientation, &t, &ret->outcome, err);
    if (r < 0)
        return r;
    r = add_segment(&t, &ret->bytes, &ret->len);
    free(t.bytes);
    if (r == -ENOMEM)
        return error_set(err, r, "out of memory");
    ret->outcome = PACK_KEPT_ODD;
    if (r < 0)
        return error_set(err, -EOPNOTSUPP, "it has more intervals than a packed file can list");
    if (pack_read(ret->bytes, ret->len, &layout, err) <= 0)
        return -EOPNOTSUPP;
    r = image_verify(decoder, ret->bytes, ret->len, &again, err);
    if (r == -ENOMEM)
        return r;
    if (r < 0 || again.pixels != info->pixels || again.orientation != info->orientation)
        return error_set(err, -EOPNOTSUPP, "its pixels are not the same when it is packed");
    r = pack_prove(decoder, ret->bytes, ret->len, 0, PROVE_CROPS, err);
    if (r < 0)
        return r == -ENOMEM ? r : -EOPNOTSUPP;
    ret->outcome = t.converted ? PACK_CONVERTED : PACK_BASELINE;
    ret->across = layout.across;
    return 0;
}

int image_pack(struct image_decoder *decoder, const uint8_t *bytes, size_t len,
               struct pack_result *ret, struct plenum_error *err)
{
    struct pack_result result = {.outcome = PACK_KEPT_BAD};
    struct image_info info;
    struct pack_layout layout;
    int r;

    r = image_verify(decoder, bytes, len, &info, err);
    if (r == 0 && strcmp(info.format, "JPEG") != 0) {
        result.outcome = PACK_KEPT_PNG;
        r = error_set(err, -EOPNOTSUPP, "it is a %s", info.format);
    } else if (r == 0 && pack_read(bytes, len, &layout, NULL) > 0) {
        result.outcome = PACK_KEPT_PACKED;
        r = error_set(err, -EOPNOTSUPP, "it is packed already");
    } else if (r == 0) {
        r = pack(decoder, bytes, len, &info, &result, err);
    }
    if (r < 0) {
        free(result.bytes);
        result.bytes = NULL;
        result.len = 0;
    }
    if (r == -ENOMEM)
        return r;
    *ret = result;
    return 0;
}
