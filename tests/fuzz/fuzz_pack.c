/* SPDX-License-Identifier: MIT */
/* fuzz_pack.c - reads arbitrary bytes as a packed JPEG with a correct checksum, and as a JPEG to be
 * packed.
 *
 * The first four bytes select a region; the rest is the file. The region's pixels must equal those
 * of a decode of the whole file (see forge_agrees()), and files that image_pack() packs must pass
 * pack_prove() and keep their pixels. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/image/pack/pack.h"
#include "tests/loader/image/forge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void check_packing(struct image_decoder *decoder, struct image_reader *reader,
                          const uint8_t *bytes, size_t len, struct rect region)
{
    struct pack_result packed;
    struct plenum_error err = {""};
    uint8_t *a, *b;

    if (image_pack(decoder, &(struct image_file){bytes, len}, &packed, &err) < 0)
        return;
    require(packed.bytes || err.text[0], "kept unchanged without a reason");
    if (!packed.bytes)
        return;
    require(pack_prove(packed.bytes, packed.len, &err) == 1, err.text);
    a = forge_read(reader, true, bytes, len, region);
    b = forge_read(reader, false, packed.bytes, packed.len, region);
    require(a && b, "the original or the packed file cannot be decoded");
    require(memcmp(a, b, (size_t)region.width * region.height * 3) == 0, "packing changes pixels");
    free(a);
    free(b);
    free(packed.bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct image_decoder *decoder;
    static struct image_reader *reader;
    uint32_t width, height;
    uint8_t orientation, *bytes;
    struct rect region;
    char why[200];
    bool shown;

    if (!decoder && (image_decoder_create(&decoder) < 0 || jpeg_reader_create(&reader) < 0))
        abort();
    if (size < 6 || data[4] != 0xFF || data[5] != 0xD8)
        return 0;
    size -= 4;
    bytes = malloc(size);
    if (!bytes)
        abort();
    memcpy(bytes, data + 4, size);
    (void)forge_sign(bytes, size);
    if (oracle_header(bytes, size, &width, &height, &orientation) == 0 && width > 0 && height > 0 &&
        (uint64_t)width * height <= 1 << 16) {
        region = (struct rect){.left = data[0] * width / 256, .top = data[1] * height / 256};
        region.width = 1 + data[2] * (width - region.left - 1) / 256;
        region.height = 1 + data[3] * (height - region.top - 1) / 256;
        /* Files without Plenum's segment are ordinary JPEGs: only pack them. */
        if (forge_find(bytes, size) > 0)
            require(forge_agrees(reader, bytes, size, region, why, &shown), why);
        check_packing(decoder, reader, bytes, size, region);
    }
    free(bytes);
    return 0;
}
