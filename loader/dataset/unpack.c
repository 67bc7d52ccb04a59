/* SPDX-License-Identifier: MIT */
/* unpack.c - decompresses blocks. snappy's raw format is decoded here; libzstd and zlib decode zstd
 * and gzip, if the build has them. Other formats are not supported. */
#include "config.h"

#include "loader/dataset/unpack.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <string.h>

#ifdef HAVE_ZLIB
#include <zlib.h>
#endif
#ifdef HAVE_ZSTD
#include <zstd.h>
#endif

#include "common/util/error_set.h"
#include "common/util/util.h"

static const char *const names[UNPACK_CODECS] = {
    [UNPACK_NONE] = "nothing", [UNPACK_SNAPPY] = "snappy",   [UNPACK_GZIP] = "gzip",
    [UNPACK_LZO] = "lzo",      [UNPACK_BROTLI] = "brotli",   [UNPACK_LZ4] = "lz4",
    [UNPACK_ZSTD] = "zstd",    [UNPACK_LZ4_RAW] = "lz4_raw",
};

const char *unpack_name(enum unpack_codec codec)
{
    return (unsigned)codec < UNPACK_CODECS ? names[codec] : "an unknown method";
}

int unpack_check(enum unpack_codec codec, struct plenum_error *err)
{
#ifndef HAVE_ZSTD
    if (codec == UNPACK_ZSTD)
        return error_set(
            err, -EOPNOTSUPP,
            "it is compressed with zstd, and this build has no libzstd (configure found "
            "none, or --without-zstd was given)");
#endif
#ifndef HAVE_ZLIB
    if (codec == UNPACK_GZIP)
        return error_set(
            err, -EOPNOTSUPP,
            "it is compressed with gzip, and this build has no zlib (configure found none, "
            "or --without-zlib was given)");
#endif
    if (codec == UNPACK_NONE || codec == UNPACK_SNAPPY || codec == UNPACK_GZIP ||
        codec == UNPACK_ZSTD)
        return 0;
    return error_set(
        err, -EOPNOTSUPP,
        "it is compressed with %s, which is not supported: write it uncompressed, or with "
        "snappy, gzip or zstd",
        unpack_name(codec));
}

bool unpack_is_possible(enum unpack_codec codec, uint64_t packed_len, uint64_t len)
{
    /* The largest ratio that each format can reach. snappy: 64 bytes for a copy of 3 bytes;
     * deflate: 258 bytes for 2 bits; lz4: 255 bytes for one byte of a length; zstd: a block of 128
     * KiB for a header of 3 bytes and one repeated byte. */
    static const uint32_t most[UNPACK_CODECS] = {[UNPACK_SNAPPY] = 22,
                                                 [UNPACK_GZIP] = 1032,
                                                 [UNPACK_LZ4] = 255,
                                                 [UNPACK_ZSTD] = (128 << 10) / 4,
                                                 [UNPACK_LZ4_RAW] = 255};

    return (unsigned)codec >= UNPACK_CODECS || most[codec] == 0 || len / most[codec] <= packed_len;
}

/* ---- snappy ---- */

/* The state of decoding: the rest of the input, and the output. */
struct snappy {
    const uint8_t *at, *end;
    uint8_t *bytes;
    size_t len, have;
};

/* Take a little-endian integer of `count` bytes, at most 4. */
static bool take(struct snappy *s, unsigned count, uint32_t *ret)
{
    uint32_t value = 0;

    if ((size_t)(s->end - s->at) < count)
        return false;
    for (unsigned i = 0; i < count; i++)
        value |= (uint32_t)s->at[i] << 8 * i;
    s->at += count;
    *ret = value;
    return true;
}

/* Take the length of the output, which comes first, as a varint. */
static bool take_length(struct snappy *s, uint64_t *ret)
{
    uint32_t byte = 0x80;

    *ret = 0;
    for (unsigned shift = 0; shift < 35 && (byte & 0x80); shift += 7) {
        if (!take(s, 1, &byte))
            return false;
        *ret |= (uint64_t)(byte & 0x7f) << shift;
    }
    return !(byte & 0x80);
}

static bool put_literal(struct snappy *s, uint8_t tag)
{
    uint32_t len = tag >> 2;

    if (len >= 60 && !take(s, len - 59, &len))
        return false;
    if (len >= s->len - s->have || len >= (size_t)(s->end - s->at))
        return false;
    memcpy(s->bytes + s->have, s->at, (size_t)len + 1);
    s->at += (size_t)len + 1;
    s->have += (size_t)len + 1;
    return true;
}

/* Copy earlier bytes of the output. They may overlap with the bytes that are written. */
static bool put_copy(struct snappy *s, uint8_t tag)
{
    static const unsigned offset_bytes[] = {0, 1, 2, 4};
    size_t len = (tag & 3) == 1 ? 4 + (tag >> 2 & 7) : 1 + (tag >> 2);
    uint32_t offset;

    if (!take(s, offset_bytes[tag & 3], &offset))
        return false;
    if ((tag & 3) == 1)
        offset |= (uint32_t)(tag >> 5) << 8;
    if (offset == 0 || offset > s->have || len > s->len - s->have)
        return false;
    if (offset >= len)
        memcpy(s->bytes + s->have, s->bytes + s->have - offset, len);
    else
        for (size_t i = 0; i < len; i++)
            s->bytes[s->have + i] = s->bytes[s->have + i - offset];
    s->have += len;
    return true;
}

static int unpack_snappy(const struct unpack_block *b)
{
    struct snappy s = {
        .at = b->packed, .end = b->packed + b->packed_len, .bytes = b->bytes, .len = b->len};
    uint64_t len;

    if (!take_length(&s, &len) || len != b->len)
        return -EBADMSG;
    while (s.at < s.end) {
        uint8_t tag = *s.at++;

        assert(s.have <= s.len);
        if (!((tag & 3) == 0 ? put_literal(&s, tag) : put_copy(&s, tag)))
            return -EBADMSG;
    }
    return s.have == s.len ? 0 : -EBADMSG;
}

/* ---- the libraries ---- */

#ifdef HAVE_ZLIB
/* Decompress a block, which may consist of several gzip streams. */
static int inflate_all(z_stream *z, const struct unpack_block *b)
{
    int r;

    assert(b->packed_len <= UINT_MAX && b->len <= UINT_MAX);
    z->next_in = (uint8_t *)(uintptr_t)b->packed; /* zlib does not write to it */
    z->avail_in = (unsigned)b->packed_len;
    z->next_out = b->bytes;
    z->avail_out = (unsigned)b->len;
    do {
        r = inflate(z, Z_FINISH);
        if (r != Z_STREAM_END)
            return r == Z_MEM_ERROR ? -ENOMEM : -EBADMSG;
        r = z->avail_in > 0 ? inflateReset(z) : Z_OK;
    } while (r == Z_OK && z->avail_in > 0);
    return r == Z_OK && z->avail_out == 0 ? 0 : -EBADMSG;
}

static int unpack_gzip(const struct unpack_block *b)
{
    enum { GZIP_OR_ZLIB = 15 + 32 };
    z_stream z = {0};
    int r;

    if (b->packed_len > UINT_MAX || b->len > UINT_MAX)
        return -EBADMSG;
    if (inflateInit2(&z, GZIP_OR_ZLIB) != Z_OK)
        return -ENOMEM;
    r = inflate_all(&z, b);
    (void)inflateEnd(&z);
    return r;
}
#endif

#ifdef HAVE_ZSTD
static int unpack_zstd(const struct unpack_block *b)
{
    return ZSTD_decompress(b->bytes, b->len, b->packed, b->packed_len) == b->len ? 0 : -EBADMSG;
}
#endif

int unpack(enum unpack_codec codec, const struct unpack_block *block)
{
    if (codec == UNPACK_SNAPPY)
        return unpack_snappy(block);
#ifdef HAVE_ZLIB
    if (codec == UNPACK_GZIP)
        return unpack_gzip(block);
#endif
#ifdef HAVE_ZSTD
    if (codec == UNPACK_ZSTD)
        return unpack_zstd(block);
#endif
    return -EOPNOTSUPP;
}
