/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/loader/image/png/png_ways.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <plenum/error.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/png/inflate.h"
#include "loader/image/png/png_own.h"

enum { PIXELS_MAX = 1 << 20, DATA_MAX = 1 << 22 };

/* The result of reading a file. */
struct outcome {
    int r;
    uint32_t rows;
    struct plenum_error err;
    struct image_header header;
    uint8_t *pixels; /* [PIXELS_MAX][3] */
};

struct png_ways {
    struct image_reader *ours, *library;
    struct png_own *own;
    struct outcome got, want;
    bool was_own;
};

static void *must(void *p)
{
    if (!p)
        abort();
    return p;
}

struct png_ways *png_ways_create(void)
{
    struct png_ways *w = must(calloc(1, sizeof(*w)));

    w->got.pixels = must(malloc((size_t)PIXELS_MAX * 3));
    w->want.pixels = must(malloc((size_t)PIXELS_MAX * 3));
    if (png_reader_create(&w->ours) < 0 || png_reader_create(&w->library) < 0 ||
        png_own_create(&w->own) < 0)
        abort();
    png_reader_use(w->library, true);
    return w;
}

void png_ways_destroy(struct png_ways *w)
{
    w->ours->ops->destroy(w->ours);
    w->library->ops->destroy(w->library);
    png_own_destroy(w->own);
    free(w->got.pixels);
    free(w->want.pixels);
    free(w);
}

bool png_ways_were_good(const struct png_ways *w)
{
    return w->want.r == 0;
}

bool png_ways_were_own(const struct png_ways *w)
{
    return w->was_own;
}

static bool is_small(const struct outcome *o)
{
    return (uint64_t)o->header.width * o->header.height <= PIXELS_MAX;
}

static struct rect choose_region(const struct image_header *h, const uint32_t dice[4])
{
    struct rect r = {.left = dice[0] % h->width, .top = dice[1] % h->height};

    r.width = 1 + dice[2] % (h->width - r.left);
    r.height = 1 + dice[3] % (h->height - r.top);
    if (dice[0] >> 30 == 0) /* the whole image */
        r = (struct rect){.width = h->width, .height = h->height};
    else if (dice[0] >> 30 == 1) /* to the end */
        r.height = h->height - r.top;
    return r;
}

static void keep(struct outcome *o, const struct image_rows *rows, uint32_t width)
{
    uint8_t *to = o->pixels + (size_t)o->rows * width * 3;

    for (uint32_t i = 0; i < rows->count; i++)
        for (uint32_t x = 0; x < width; x++, to += 3)
            memcpy(to, rows->pixels + i * rows->pitch + (size_t)x * 4, 3);
    o->rows += rows->count;
}

static void run(struct image_reader *reader, const uint8_t *bytes, size_t len, uint32_t mask,
                const uint32_t dice[4], struct outcome *o)
{
    struct image_rows rows;
    struct rect region;

    o->rows = 0;
    o->err.text[0] = 0;
    o->header = (struct image_header){0};
    reader->mask = mask;
    o->r = reader->ops->open(reader, bytes, len, &o->header, &o->err);
    if (o->r == 0 && is_small(o)) {
        region = choose_region(&o->header, dice);
        o->r = reader->ops->seek(reader, &region, &o->err);
        while (o->r == 0 && o->rows < region.height) {
            o->r = reader->ops->read(reader, &rows, &o->err);
            if (o->r == 0)
                keep(o, &rows, region.width);
        }
    }
    reader->ops->close(reader);
}

/* Run our decoder directly, because the reader does not show whether it gave up. */
static bool run_own(struct png_own *own, const uint8_t *bytes, size_t len, uint32_t mask,
                    const uint32_t dice[4])
{
    struct image_header header;
    struct image_rows rows;
    struct rect region;
    uint32_t done = 0;
    bool good = false;

    if (png_own_open(own, bytes, len, mask, &header) == 0) {
        region = choose_region(&header, dice);
        good = png_own_seek(own, &region) == 0;
        while (good && done < region.height) {
            good = png_own_read(own, &rows) == 0;
            if (good)
                done += rows.count;
        }
    }
    png_own_close(own);
    return good;
}

bool png_ways_agree(struct png_ways *w, const uint8_t *bytes, size_t len, uint32_t mask,
                    const uint32_t dice[4], char why[300])
{
    struct outcome *got = &w->got, *want = &w->want;
    /* A copy of exactly this size, so that sanitizers detect a read past the end. */
    uint8_t *exact = must(malloc(len + !len));
    struct rect region = {0};

    if (len > 0)
        memcpy(exact, bytes, len);
    why[0] = 0;
    run(w->library, exact, len, mask, dice, want);
    run(w->ours, exact, len, mask, dice, got);
    w->was_own = want->r == 0 && is_small(want) && run_own(w->own, exact, len, mask, dice);
    free(exact);
    if (want->header.width > 0)
        region = choose_region(&want->header, dice);
    if (got->r != want->r || (got->r == 0 && got->rows != want->rows) ||
        strcmp(got->err.text, want->err.text) != 0)
        (void)snprintf(why, 300, "%d after %u rows (%.80s), by libpng %d after %u rows (%.80s)",
                       got->r, got->rows, got->err.text, want->r, want->rows, want->err.text);
    else if (got->header.width != want->header.width || got->header.height != want->header.height ||
             got->header.orientation != want->header.orientation || got->header.rgb)
        (void)snprintf(why, 300, "another header");
    else if (want->r == 0 &&
             memcmp(got->pixels, want->pixels, (size_t)want->rows * region.width * 3) != 0)
        (void)snprintf(why, 300, "other pixels");
    if (why[0])
        (void)snprintf(why + strlen(why), 300 - strlen(why), "; region %ux%u+%u+%u, mask %u",
                       region.width, region.height, region.left, region.top, mask);
    return !why[0];
}

/* --- chunks --- */

static uint32_t get32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void put32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

uint32_t png_slow_crc(const uint8_t *bytes, size_t len)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < len; i++) {
        crc ^= bytes[i];
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? 0xEDB88320 ^ crc >> 1 : crc >> 1;
    }
    return ~crc;
}

/* Returns whether the chunk at `at` is complete. The next one begins 12 bytes plus its length
 * later. */
static bool is_chunk(const uint8_t *bytes, size_t len, size_t at)
{
    return len >= 12 && at <= len - 12 && get32(bytes + at) <= len - 12 - at;
}

static bool is_idat(const uint8_t *bytes, size_t at)
{
    return memcmp(bytes + at + 4, "IDAT", 4) == 0;
}

/* Collect the data of all IDATs; `places`, if not NULL, receives the position of each byte. */
static size_t collect(const uint8_t *bytes, size_t len, uint8_t *to, size_t *places)
{
    size_t sum = 0;

    for (size_t at = 8; is_chunk(bytes, len, at); at += get32(bytes + at) + (size_t)12)
        for (size_t i = 0; is_idat(bytes, at) && i < get32(bytes + at); i++) {
            if (places)
                places[sum] = at + 8 + i;
            to[sum++] = bytes[at + 8 + i];
        }
    return sum;
}

static uint32_t slow_adler(const uint8_t *bytes, size_t len)
{
    uint32_t a = 1, b = 0;

    for (size_t i = 0; i < len; i++) {
        a = (a + bytes[i]) % 65521;
        b = (b + a) % 65521;
    }
    return b << 16 | a;
}

/* Correct the Adler-32 sum after the compressed data; our own inflate finds where the data ends. */
static void mend_adler(uint8_t *bytes, size_t len)
{
    uint8_t *data = must(calloc(1, len + INFLATE_BEHIND_IN)), sum[4];
    uint8_t *room = must(malloc((size_t)DATA_MAX + INFLATE_BEHIND_OUT)), *out = room;
    size_t *places = must(malloc((len + 1) * sizeof(*places)));
    size_t count = collect(bytes, len, data, places);
    struct inflate s;

    if (inflate_start(&s, data, count, 0) && inflate_run(&s, room, &out, room + DATA_MAX) &&
        inflate_ended(&s) && s.end - s.in >= 4) {
        put32(sum, slow_adler(room, (size_t)(out - room)));
        for (size_t i = 0; i < 4; i++)
            bytes[places[(size_t)(s.in - data) + i]] = sum[i];
    }
    free(data);
    free(room);
    free(places);
}

void png_mend(uint8_t *bytes, size_t len, bool data)
{
    if (data)
        mend_adler(bytes, len);
    for (size_t at = 8; is_chunk(bytes, len, at); at += get32(bytes + at) + (size_t)12) {
        size_t n = get32(bytes + at);

        put32(bytes + at + 8 + n, png_slow_crc(bytes + at + 4, 4 + n));
    }
}

static uint8_t *put_idat(uint8_t *to, const uint8_t *bytes, size_t len)
{
    put32(to, (uint32_t)len);
    memcpy(to + 4, "IDAT", 4);
    memcpy(to + 8, bytes, len);
    put32(to + 8 + len, png_slow_crc(to + 4, 4 + len));
    return to + 12 + len;
}

struct made png_cut(const struct made *file, uint32_t most, uint32_t seed)
{
    uint8_t *data = must(malloc(file->len)), *bytes = must(malloc(28 * file->len + 4096)), *to;
    size_t first = 8, last, count = collect(file->bytes, file->len, data, NULL);

    while (!is_idat(file->bytes, first))
        first += get32(file->bytes + first) + (size_t)12;
    last = first;
    while (is_idat(file->bytes, last))
        last += get32(file->bytes + last) + (size_t)12;
    memcpy(bytes, file->bytes, first);
    to = bytes + first;
    for (size_t done = 0; done < count;) {
        struct philox_block d = philox_draw(seed, (uint32_t)done, (uint32_t)(to - bytes), 0, 0);
        size_t n = min_u64(philox_below(d.word[0], most + 1), count - done);

        to = put_idat(to, data + done, n);
        done += n;
    }
    memcpy(to, file->bytes + last, file->len - last);
    free(data);
    return (struct made){bytes, (size_t)(to - bytes) + file->len - last};
}
