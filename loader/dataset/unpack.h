/* SPDX-License-Identifier: MIT */
/* unpack.h - decompresses blocks of known size: pages of Parquet files, and whole MDS shards. */
#ifndef LOADER_DATASET_UNPACK_H
#define LOADER_DATASET_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** The compression formats, with Parquet's numbers. */
enum unpack_codec {
    UNPACK_NONE = 0,
    UNPACK_SNAPPY = 1,
    UNPACK_GZIP = 2,
    UNPACK_LZO = 3,
    UNPACK_BROTLI = 4,
    UNPACK_LZ4 = 5,
    UNPACK_ZSTD = 6,
    UNPACK_LZ4_RAW = 7,
    UNPACK_CODECS,
};

/** Returns the name of a codec: "zstd" and so on. */
const char *unpack_name(enum unpack_codec codec);

/** Check that this build can decompress a codec. Returns 0, or -EOPNOTSUPP with `err` set to "it is
 * compressed with lzo, which ...". */
int unpack_check(enum unpack_codec codec, struct plenum_error *err);

enum { UNPACK_MAX = 1 << 30 }; /* bytes of a block, decompressed */

/** Returns whether `packed_len` compressed bytes can become `len` bytes. Each format has a maximum
 * ratio, so a header that claims more is damaged. Check this before allocating memory. */
bool unpack_is_possible(enum unpack_codec codec, uint64_t packed_len, uint64_t len);

/** A compressed block, and room for exactly the decompressed bytes. */
struct unpack_block {
    const uint8_t *packed;
    size_t packed_len;
    uint8_t *bytes;
    size_t len;
};

/**
 * Decompress a block. Returns 0; -EBADMSG if it is damaged or has another size; -EOPNOTSUPP if
 * unpack_check() rejects the codec; or -ENOMEM.
 */
int unpack(enum unpack_codec codec, const struct unpack_block *block);

#endif
