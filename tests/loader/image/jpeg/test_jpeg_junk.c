/* SPDX-License-Identifier: MIT */
/* Tests junk: bytes in a JPEG's header that belong to no segment. Pipelines with the word junk
 * ignore it.
 *
 * Whatever bytes are between two segments, the pixels are those of the file without them. Our own
 * decoder and libjpeg agree on that, and on the number of these bytes. PLENUM_JPEG_FILES=N makes N
 * files. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/order/philox.h"
#include "common/util/util.h"
#include "loader/image/builtin.h"
#include "loader/image/image.h"
#include "loader/image/pack/pack.h"
#include "loader/image/reader.h"
#include "tests/loader/image/agree.h"
#include "tests/loader/image/made.h"

enum { PLACES = 64, JUNK_MAX = 300 };

static const struct image_store plain = {PLENUM_UINT8, PLENUM_NHWC, 3};

/* Where the segments up to the first SOS begin, and where the data of that scan begins. */
struct places {
    size_t at[PLACES];
    uint32_t count;
    size_t data;
};

static struct places places_of(const uint8_t *bytes, size_t len)
{
    struct places p = {.data = 2};
    uint8_t code = 0;

    while (code != 0xDA) {
        cr_assert(p.count < PLACES && p.data + 4 < len && bytes[p.data] == 0xFF);
        code = bytes[p.data + 1];
        p.at[p.count++] = p.data;
        p.data += 2 + ((size_t)bytes[p.data + 2] << 8 | bytes[p.data + 3]);
    }
    return p;
}

static void insert(struct made *m, size_t at, const uint8_t *junk, size_t count)
{
    m->bytes = realloc(m->bytes, m->len + count);
    memmove(m->bytes + at + count, m->bytes + at, m->len - at);
    memcpy(m->bytes + at, junk, count);
    m->len += count;
}

/* Returns junk in which no marker begins, chosen by `number`, and how many of its bytes libjpeg
 * counts: fill bytes FF do not count, and each FF 00 counts as two. */
static size_t make_junk(uint32_t number, uint8_t junk[JUNK_MAX], size_t *counted)
{
    struct philox_block d = philox_draw(41, number, 0, DRAW_SEED, 0);
    uint32_t parts = 1 + philox_below(d.word[0], number % 9 == 0 ? 40 : 4);
    size_t len = 0;

    for (uint32_t i = 0; i < parts; i++) {
        struct philox_block e = philox_draw(41, number, 1 + i, DRAW_SEED, 0);
        uint32_t kind = philox_below(e.word[0], 6);

        if (kind < 4) { /* a byte other than FF; often one that could end a marker */
            junk[len++] = kind == 0   ? 0xDA
                          : kind == 1 ? 0x00
                                      : (uint8_t)philox_below(e.word[1], 0xFF);
            ++*counted;
            continue;
        }
        for (uint32_t k = philox_below(e.word[1], 4); k > 0; k--)
            junk[len++] = 0xFF;
        /* append FF 00, so that the next byte does not complete a marker */
        if (kind == 4 || i + 1 < parts) {
            junk[len++] = 0xFF;
            junk[len++] = 0x00;
            *counted += 2;
        }
    }
    return len;
}

struct outcome {
    int r;
    struct image_header header;
    struct plenum_error err;
    uint8_t *rgb; /* [height][width][3]; malloc */
    size_t size;
};

static struct outcome read_all(struct image_reader *reader, bool junk, const struct made *m)
{
    /* a copy of exactly this size, so that sanitizers detect a read past the end */
    uint8_t *exact = malloc(m->len);
    struct outcome o = {.r = 0};
    struct image_rows rows;
    struct rect all = {0};
    uint8_t *to;

    memcpy(exact, m->bytes, m->len);
    reader->junk = junk;
    o.r = reader->ops->open(reader, exact, m->len, &o.header, &o.err);
    if (o.r == 0) {
        all.width = o.header.width;
        all.height = o.header.height;
        o.r = reader->ops->seek(reader, &all, &o.err);
    }
    o.size = (size_t)all.width * all.height * 3;
    o.rgb = to = calloc(o.size + 1, 1);
    for (uint32_t y = 0; o.r == 0 && y < all.height;) {
        o.r = reader->ops->read(reader, &rows, &o.err);
        for (uint32_t i = 0; o.r == 0 && i < rows.count; i++, y++)
            for (uint32_t x = 0; x < all.width; x++, to += 3)
                memcpy(to, rows.pixels + i * rows.pitch + 4 * x, 3);
    }
    reader->ops->close(reader);
    free(exact);
    return o;
}

static struct image_reader *ours, *library;

static void setup(void)
{
    cr_assert(jpeg_reader_create(&ours) == 0 && jpeg_reader_create(&library) == 0);
    jpeg_reader_use(ours, IMAGE_JPEG_PLENUM, NULL);
    jpeg_reader_use(library, IMAGE_JPEG_LIBJPEG, NULL);
}

static void teardown(void)
{
    ours->ops->destroy(ours);
    library->ops->destroy(library);
}

TestSuite(jpeg_junk, .init = setup, .fini = teardown, .timeout = 600);

/* Read with both decoders, which must agree on decision, message, count and pixels. */
static struct outcome read_by_both(bool junk, const struct made *m, const char *what)
{
    struct outcome a = read_all(ours, junk, m), b = read_all(library, junk, m);

    cr_assert(a.r == b.r && strcmp(a.err.text, b.err.text) == 0, "%s: %d '%s', libjpeg: %d '%s'",
              what, a.r, a.err.text, b.r, b.err.text);
    cr_assert(eq(sz, a.header.junk, b.header.junk));
    cr_assert(a.r < 0 || (a.size == b.size && memcmp(a.rgb, b.rgb, a.size) == 0), "%s", what);
    free(b.rgb);
    return a;
}

static uint32_t files_wanted(uint32_t usual)
{
    const char *text = getenv("PLENUM_JPEG_FILES");
    uint64_t n;

    return text && parse_u64(text, UINT32_MAX, &n) == 0 ? (uint32_t)n : usual;
}

static struct made make_file(uint32_t i)
{
    struct made_jpeg spec = made_kinds[i % made_kinds_count];

    spec.width = 1 + i % 37;
    spec.height = 1 + i % 29;
    spec.seed = i;
    spec.orientation = (int)(i / made_kinds_count % 9);
    return make_jpeg(&spec);
}

Test(jpeg_junk, between_any_segments_changes_nothing)
{
    uint32_t files = files_wanted(3000), by_ours = 0;

    for (uint32_t i = 0; i < files; i++) {
        struct made m = make_file(i), clean = {malloc(m.len), m.len};
        struct places p = places_of(m.bytes, m.len);
        struct outcome want, got;
        uint8_t junk[JUNK_MAX];
        size_t counted = 0, len;
        char what[100], says[60];

        memcpy(clean.bytes, m.bytes, m.len);
        want = read_by_both(i % 2, &clean, "clean");
        for (uint32_t k = 0; k <= i % 3 && p.count > 0;
             k++) { /* from the end, so that earlier positions stay valid */
            uint32_t place = p.count - 1 - (k * 7 + i / 3) % p.count;

            len = make_junk(3 * i + k, junk, &counted);
            insert(&m, p.at[place], junk, len);
            p.count = place;
            if (k == 0)
                (void)snprintf(says, sizeof(says), " %zu extraneous bytes before marker", counted);
        }
        (void)snprintf(what, sizeof(what), "file %u, %zu bytes counted", i, counted);
        got = read_by_both(true, &m, what);
        cr_assert(got.r == want.r, "%s: %s", what, got.err.text);
        cr_assert(eq(sz, got.header.junk, counted), "%s", what);
        cr_assert(eq(int, got.header.orientation, want.header.orientation), "%s", what);
        cr_assert(eq(int, got.header.progressive, want.header.progressive), "%s", what);
        cr_assert(got.size == want.size && memcmp(got.rgb, want.rgb, want.size) == 0, "%s", what);
        by_ours += got.r == 0;
        free(got.rgb);

        got = read_by_both(false, &m, what);
        if (counted > 0) {
            cr_assert(eq(int, got.r, -EBADMSG), "%s: without the word junk, the file is bad", what);
            cr_assert(ne(ptr, strstr(got.err.text, " before marker 0x"), NULL), "%s: %s", what,
                      got.err.text);
            if (i % 3 == 0)
                cr_assert(ne(ptr, strstr(got.err.text, says), NULL), "%s: %s", what, got.err.text);
        } else {
            cr_assert(eq(int, got.r, want.r), "%s", what);
        }
        free(got.rgb);
        free(want.rgb);
        free(clean.bytes);
        free(m.bytes);
    }
    cr_expect(by_ours > files * 9 / 10, "%u of %u files are good", by_ours, files);
}

/* Insert random bytes anywhere in the header: they may begin a segment, or be a marker without
 * one. */
Test(jpeg_junk, both_decoders_agree_on_any_junk)
{
    uint32_t files = files_wanted(6000), good = 0, forgiven = 0;

    for (uint32_t i = 0; i < files; i++) {
        struct made m = make_file(i);
        struct places p = places_of(m.bytes, m.len);
        struct philox_block d = philox_draw(43, i, 0, DRAW_SEED, 0);
        uint8_t junk[8];
        uint32_t len = 1 + philox_below(d.word[0], 8);
        size_t at = i % 2 ? p.at[philox_below(d.word[1], p.count)]
                          : 2 + philox_below(d.word[1], (uint32_t)p.data);
        struct outcome strict, got;
        char what[40];

        for (uint32_t k = 0; k < len; k++) {
            uint32_t word = philox_draw(43, i, 1 + k, DRAW_SEED, 0).word[0];

            junk[k] = word % 3 == 0 ? 0xFF : (uint8_t)(word >> 8);
        }
        insert(&m, at, junk, len);
        (void)snprintf(what, sizeof(what), "file %u", i);
        strict = read_by_both(false, &m, what);
        got = read_by_both(true, &m, what);
        cr_assert(strict.r < 0 || (got.r == 0 && got.size == strict.size &&
                                   memcmp(got.rgb, strict.rgb, got.size) == 0),
                  "%s: the word junk does not make a good file bad", what);
        cr_assert(strict.r < 0 || got.header.junk == 0,
                  "%s: a file that is good without the "
                  "word has no junk",
                  what);
        good += got.r == 0;
        forgiven += got.r == 0 && strict.r < 0;
        free(strict.rgb);
        free(got.rgb);
        free(m.bytes);
    }
    cr_expect(forgiven > files / 20 && good < files, "%u forgiven, %u good of %u", forgiven, good,
              files);
}

/* A length below 2 is invalid. libjpeg treats such a segment as empty, so the bytes after it count
 * as junk. */
Test(jpeg_junk, bytes_after_a_length_below_two_count_as_junk)
{
    struct made_jpeg spec = {.width = 40, .height = 30, .colour = MADE_COLOUR, .orientation = 6};
    uint8_t junk[] = {0xFF, 0xFE, 0, 0, 'a', 'b', 'c'};

    for (uint8_t i = 0; i < 4; i++) {
        struct made m = make_jpeg(&spec);
        struct outcome o;

        junk[1] = i / 2 ? 0xE5 : 0xFE;
        junk[3] = i % 2;
        insert(&m, 2, junk, sizeof(junk));
        o = read_by_both(false, &m, "without the word");
        cr_expect(eq(int, o.r, -EBADMSG));
        free(o.rgb);
        o = read_by_both(true, &m, "with it");
        cr_expect(eq(int, o.r, 0), "%s", o.err.text);
        cr_expect(eq(sz, o.header.junk, 3));
        cr_expect(eq(u8, o.header.orientation, 6));
        free(o.rgb);
        free(m.bytes);
    }
}

/* Returns the position after the table that the second scan begins with. */
static size_t behind_first_scan(const struct made *m, size_t at)
{
    while (m->bytes[at] != 0xFF || m->bytes[at + 1] == 0 ||
           (m->bytes[at + 1] >= 0xD0 && m->bytes[at + 1] <= 0xD7))
        at++;
    cr_assert(eq(u8, m->bytes[at + 1], 0xC4));
    return at + 2 + ((size_t)m->bytes[at + 2] << 8 | m->bytes[at + 3]);
}

Test(jpeg_junk, after_the_first_scan_header_is_still_an_error)
{
    struct made_jpeg spec = {.width = 40, .height = 30, .colour = MADE_COLOUR, .progressive = true};
    struct made m = make_jpeg(&spec);
    struct places p = places_of(m.bytes, m.len);
    struct outcome o;

    insert(&m, behind_first_scan(&m, p.data), (const uint8_t *)"abc", 3);
    o = read_by_both(true, &m, "between scans");
    cr_expect(eq(int, o.r, -EBADMSG));
    cr_expect(ne(ptr, strstr(o.err.text, "extraneous"), NULL), "%s", o.err.text);
    cr_expect(eq(sz, o.header.junk, 0));
    free(o.rgb);
    free(m.bytes);
}

/* Returns the hash of an image's renderings, computed like in image_self_test(). */
static uint64_t hash_renderings(struct image_decoder *decoder, const char *word,
                                const struct made *m)
{
    static const char *const stages[] = {"rrc(32) flip(0.5)", "resize(40) center_crop(32)"};
    uint8_t pixels[32 * 32 * 3];
    XXH3_state_t state;

    (void)XXH3_64bits_reset(&state);
    for (size_t i = 0; i < ARRAY_LEN(stages); i++)
        for (uint32_t position = 0; position < 6; position++) {
            struct image_draw draw = {.seed = 2022, .epoch = 1, .position = position};
            struct plenum_error err = {""};
            struct pipeline p;
            char text[80];

            (void)snprintf(text, sizeof(text), "%s %s", word, stages[i]);
            cr_assert(eq(int, pipeline_parse(text, &p, &err), 0), "%s", err.text);
            cr_assert(
                eq(int,
                   image_render(decoder,
                                &(struct image_view){.pipeline = &p, .draw = draw, .dst = pixels},
                                &plain, &(struct image_file){m->bytes, m->len}, &err),
                   0),
                "%s", err.text);
            (void)XXH3_64bits_update(&state, pixels, sizeof(pixels));
        }
    return XXH3_64bits_digest(&state);
}

/* The golden images of docs/pixels.md, 9, have junk inserted before each of their segments. */
Test(jpeg_junk, golden_images_keep_their_hashes)
{
    static const uint64_t golden[] = {0xe20d40e5981fb5ef, 0x80a20cd99c763e1c, 0x028d8b19ff641ad6,
                                      0xcb16095ebc23249d, 0xb24c734ffe3eac34, 0xb17fc19c926dae45,
                                      0x523a269d3b15380e};
    struct image_decoder *decoder;

    cr_assert(eq(sz, builtin_images_count, ARRAY_LEN(golden)));
    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (size_t i = 0; i < builtin_images_count; i++) {
        const struct builtin_image *image = &builtin_images[i];
        struct places p = places_of(image->bytes, image->len);
        struct made m = {malloc(image->len), image->len};
        struct plenum_error err = {""};
        struct image_draw draw = {.seed = 1};
        uint8_t pixels[32 * 32 * 3];
        struct image_info info;
        struct pipeline without, with;
        char why[200];
        int r = -1;

        memcpy(m.bytes, image->bytes, image->len);
        for (uint32_t k = p.count; k-- > 0;)
            insert(&m, p.at[k], (const uint8_t *)"\xDA\x00\xFF\xFF\x00junk\xFF", 10);
        for (enum image_jpeg jpeg = IMAGE_JPEG_PLENUM; jpeg <= IMAGE_JPEG_LIBJPEG; jpeg++) {
            image_decoder_use_jpeg(decoder, jpeg);
            cr_expect(eq(u64, hash_renderings(decoder, "junk", &m), golden[i]), "%s", image->name);
            cr_expect(eq(u64, hash_renderings(decoder, "exif junk", &m), golden[i]), "%s",
                      image->name);
        }
        cr_assert(eq(int, pipeline_parse("exif junk rrc(32)", &with, &err), 0));
        cr_expect(oracle_agrees(decoder, &(struct rendering){&with, &draw, &plain, m.bytes, m.len},
                                why, &r, NULL),
                  "%s", why);
        cr_expect(eq(int, r, 0));
        cr_expect(
            eq(int, image_verify(decoder, &(struct image_file){m.bytes, m.len}, &info, &err), 0),
            "%s", err.text);
        cr_expect(eq(sz, info.junk, 8 * (size_t)p.count));
        cr_assert(eq(int, pipeline_parse("rrc(32)", &without, &err), 0));
        cr_expect(
            eq(int,
               image_render(decoder,
                            &(struct image_view){.pipeline = &without, .draw = draw, .dst = pixels},
                            &plain, &(struct image_file){m.bytes, m.len}, &err),
               -EBADMSG));
        free(m.bytes);
    }
    image_decoder_destroy(decoder);
}

/* image_pack() keeps files with junk, unless `junk` is set; then it removes the junk. */
Test(jpeg_junk, is_packed_on_request)
{
    const struct pack_resize forgiving = {.junk = true},
                             smaller = {.longest = 40, .quality = 90, .junk = true};
    struct made_jpeg spec = {.width = 120, .height = 90, .colour = MADE_COLOUR, .orientation = 6};
    struct made m = make_jpeg(&spec);
    struct places p = places_of(m.bytes, m.len);
    struct image_decoder *decoder;
    struct pack_result packed, want;
    struct plenum_error err = {""};

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    for (int way = 0; way < 3; way++) {
        const struct pack_resize *resize = way == 2 ? &smaller : &forgiving;
        struct made junk = {malloc(m.len), m.len};
        int (*pack)(struct image_decoder *, const struct pack_resize *, const struct image_file *,
                    struct pack_result *, struct plenum_error *) =
            way == 1 ? image_pack_raw : image_pack_resized;

        memcpy(junk.bytes, m.bytes, m.len);
        insert(&junk, p.at[1], (const uint8_t *)"junk", 4);
        cr_assert(eq(int,
                     image_pack(decoder, &(struct image_file){junk.bytes, junk.len}, &packed, &err),
                     0));
        cr_expect(eq(int, packed.outcome, PACK_KEPT_BAD));
        cr_expect(eq(str, err.text,
                     "4 bytes before the first scan belong to no segment; a pipeline that begins "
                     "with the word junk tolerates them"));
        cr_expect(eq(ptr, packed.bytes, NULL));
        cr_assert(eq(
            int, pack(decoder, resize, &(struct image_file){junk.bytes, junk.len}, &packed, &err),
            0));
        cr_assert(
            eq(int, pack(decoder, resize, &(struct image_file){m.bytes, m.len}, &want, &err), 0));
        cr_expect(eq(int, packed.outcome, want.outcome));
        cr_expect(packed.outcome < PACK_KEPT_PACKED && packed.len == want.len &&
                      memcmp(packed.bytes, want.bytes, want.len) == 0,
                  "the packed file equals that of the file without junk, way %d", way);
        free(packed.bytes);
        free(want.bytes);
        free(junk.bytes);
    }
    image_decoder_destroy(decoder);
    free(m.bytes);
}

/* Hints for a file with junk serve pipelines with the word junk; for other pipelines the file stays
 * bad. */
Test(jpeg_junk, tiles_are_found_after_it)
{
    struct made_jpeg spec = {.width = 400, .height = 300, .colour = MADE_COLOUR};
    struct made m = make_jpeg(&spec);
    struct places p = places_of(m.bytes, m.len);
    struct image_draw draw = {.seed = 1};
    struct plenum_error err = {""};
    struct image_tiles tiles = {0};
    struct image_decoder *decoder;
    struct pipeline without;
    uint8_t hint[4096], pixels[32 * 32 * 3];
    uint64_t want;

    cr_assert(eq(int, image_decoder_create(&decoder), 0));
    image_decoder_use_jpeg(decoder, IMAGE_JPEG_PLENUM);
    want = hash_renderings(decoder, "exif", &m);
    insert(&m, p.at[1], (const uint8_t *)"junk", 4);
    cr_assert(
        eq(int, image_find_tiles(decoder, &(struct image_file){m.bytes, m.len}, &tiles, &err), 0),
        "%s", err.text);
    cr_assert(tiles.found && tiles.found_len <= sizeof(hint));
    memcpy(hint, tiles.found, tiles.found_len);
    tiles = (struct image_tiles){.hint = hint, .len = tiles.found_len};
    image_decoder_use_tiles(decoder, &tiles);
    cr_expect(eq(u64, hash_renderings(decoder, "exif junk", &m), want));
    cr_expect(eq(ptr, (void *)(uintptr_t)tiles.found, NULL),
              "no new hint is returned when one was supplied");
    cr_assert(eq(int, pipeline_parse("rrc(32)", &without, &err), 0));
    cr_expect(
        eq(int,
           image_render(decoder,
                        &(struct image_view){.pipeline = &without, .draw = draw, .dst = pixels},
                        &plain, &(struct image_file){m.bytes, m.len}, &err),
           -EBADMSG));
    image_decoder_destroy(decoder);
    free(m.bytes);
}
