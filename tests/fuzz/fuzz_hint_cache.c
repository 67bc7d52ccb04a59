/* SPDX-License-Identifier: MIT */
/* fuzz_hint_cache.c - reads arbitrary bytes as a hint cache. Checksums are corrected, so that the
 * code after the checks is reached. Each hint that is found is then used to decode a JPEG, as if it
 * were that file's hint. Memory accesses must stay in bounds, and stored hints must be found. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/util.h"
#include "loader/dataset/hint_cache.h"
#include "loader/image/reader.h"
#include "tests/loader/image/made.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SAMPLES = 4, FILE_MAX = 8192 };

static const struct hint_cache_key subject = {.samples = SAMPLES, .bytes = FILE_MAX * 25};

/* Correct the checksums of the header and of the pieces that slots point to. */
static void correct(uint8_t *bytes, size_t size)
{
    struct hint_cache_header h;

    if (size < sizeof(h) + SAMPLES * sizeof(uint64_t))
        return;
    memcpy(&h, bytes, sizeof(h));
    h.checksum = XXH3_64bits(&h, offsetof(struct hint_cache_header, checksum));
    memcpy(bytes, &h, sizeof(h));
    for (size_t i = 0; i < SAMPLES; i++) {
        struct hint_record piece;
        uint64_t at;

        memcpy(&at, bytes + sizeof(h) + i * sizeof(at), sizeof(at));
        if (at > size - sizeof(piece))
            continue;
        memcpy(&piece, bytes + at, sizeof(piece));
        if (piece.len > size - sizeof(piece) - at)
            continue;
        piece.checksum = XXH3_64bits(bytes + at + sizeof(piece.checksum),
                                     sizeof(piece) - sizeof(piece.checksum) + piece.len);
        memcpy(bytes + at, &piece, sizeof(piece));
    }
}

/* A JPEG, and a hint with all of its tiles. */
static struct {
    struct image_reader *reader;
    struct made file;
    uint8_t hint[4096];
    size_t len;
} jpeg;

static void read_jpeg(struct image_tiles *tiles, const struct rect *region)
{
    struct image_header header;
    struct image_rows rows;
    int r;

    jpeg.reader->tiles = tiles;
    r = jpeg.reader->ops->open(jpeg.reader, jpeg.file.bytes, jpeg.file.len, &header, NULL);
    if (r == 0)
        r = jpeg.reader->ops->seek(jpeg.reader, region, NULL);
    for (uint32_t y = 0; r == 0 && y < region->height; y += rows.count)
        r = jpeg.reader->ops->read(jpeg.reader, &rows, NULL);
    jpeg.reader->ops->close(jpeg.reader);
    if (r < 0) /* the file itself is good */
        abort();
}

static void make_file(void)
{
    struct made_jpeg spec = {
        .name = "fuzz", .width = 130, .height = 90, .colour = MADE_COLOUR, .quality = 92};
    struct rect last = {129, 89, 1, 1};
    struct image_tiles tiles = {0};

    jpeg.file = make_jpeg(&spec);
    if (jpeg_reader_create(&jpeg.reader) < 0)
        abort();
    jpeg_reader_use(jpeg.reader, IMAGE_JPEG_PLENUM, NULL);
    read_jpeg(&tiles, &last);
    if (!tiles.found || tiles.found_len > sizeof(jpeg.hint))
        abort();
    memcpy(jpeg.hint, tiles.found, tiles.found_len);
    jpeg.len = tiles.found_len;
}

/* Decode with a valid head (except for the number of rows) and any tiles, then with these bytes as
 * the whole hint. */
static void use_as_tiles(const uint8_t *hint, size_t len)
{
    static uint8_t bytes[sizeof(jpeg.hint)];
    struct image_tiles tiles = {.hint = bytes, .len = jpeg.len};
    struct rect regions[] = {{0, 0, 130, 90}, {60, 40, 30, 20}, {100, 80, 10, 10}};

    memcpy(bytes, jpeg.hint, jpeg.len);
    if (len > 0)
        memcpy(bytes + 16, hint, min_u64(len, jpeg.len - 16));
    for (size_t i = 0; i < ARRAY_LEN(regions); i++)
        read_jpeg(&tiles, &regions[i]);
    tiles.hint = hint;
    tiles.len = len;
    read_jpeg(&tiles, &regions[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[FILE_MAX];
    struct dataset_buffer buffer = {0};
    struct hint_cache *hints;
    const uint8_t *hint;
    char path[64];
    size_t len;
    int fd;

    if (!jpeg.reader)
        make_file();
    if (size > sizeof(bytes))
        return 0;
    fd = memfd_create("hints", MFD_CLOEXEC);
    memcpy(bytes, data, size);
    correct(bytes, size);
    if (fd < 0 || fchmod(fd, 0600) < 0 || io_write_all(fd, bytes, size) < 0)
        abort();
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (hint_cache_open(path, &subject, &hints) == 0) {
        for (uint32_t i = 0; i < SAMPLES; i++)
            if (hint_cache_get(hints, i, &buffer, &hint, &len))
                use_as_tiles(hint, len);
        for (uint32_t i = 0; i < SAMPLES; i++) {
            size_t had = hint_cache_get(hints, i, &buffer, &hint, &len) ? len : 0;

            if (hint_cache_put(hints, i, data, 10 + i, 100, had) == 0 &&
                (!hint_cache_get(hints, i, &buffer, &hint, &len) || len != 10 + i ||
                 memcmp(hint, data, len) != 0))
                abort();
        }
        hint_cache_close(hints);
    }
    dataset_buffer_fini(&buffer);
    (void)close(fd);
    return 0;
}
