/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/jpeg/jpeg_tiles.h"

#include <assert.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/util.h"

enum {
    MCUS_MIN = 4,  /* minimum MCUs per tile, except for the last tile of a row */
    TILES_MIN = 8, /* minimum tiles per image: fewer would save little time */
    SHARE = 32,    /* a hint may take 1/32 of the file's size */
};

/* The beginning of a hint. For each tile, the bits since the previous tile (u16) and the DC
 * predictions follow, in the byte order of the machine. */
struct hint_head {
    uint64_t hash;
    uint32_t len;
    uint16_t mcus, rows;
};

static size_t tile_bytes(const struct jpeg_tiles *t)
{
    return sizeof(uint16_t) * (1 + t->components);
}

static size_t hint_bytes(const struct jpeg_tiles *t, uint32_t rows)
{
    assert(rows <= t->rows_max);
    return sizeof(struct hint_head) + (size_t)rows * t->across * tile_bytes(t);
}

void jpeg_tiles_fini(struct jpeg_tiles *t)
{
    scratch_free(&t->room);
    *t = (struct jpeg_tiles){0};
}

/* Choose the size of tiles: a restart interval if rows consist of several; otherwise, the smallest
 * that the size limit of hints allows. 0 if there is none. */
static void choose(struct jpeg_tiles *t, const struct jpeg_frame *f)
{
    bool whole = f->restart > 0 && f->mcus % f->restart == 0 && f->restart < f->mcus;

    for (uint32_t mcus = whole ? f->restart : MCUS_MIN;; mcus *= 2) {
        t->mcus = mcus < f->mcus ? mcus : f->mcus;
        t->across = (f->mcus + t->mcus - 1) / t->mcus;
        if (hint_bytes(t, f->rows) <= t->len / SHARE && t->across * f->rows >= TILES_MIN)
            return;
        if (whole || t->mcus == f->mcus)
            break;
    }
    t->mcus = 0;
}

/* Load the tiles of a hint, if it belongs to this file. */
static void load_hint(struct jpeg_tiles *t, const uint8_t *hint, size_t len)
{
    struct hint_head head;
    uint64_t at = t->tiles[0].at;

    if (len < sizeof(head))
        return;
    memcpy(&head, hint, sizeof(head));
    if (head.hash != t->hash || head.len != t->len || head.mcus != t->mcus ||
        head.rows > t->rows_max || len != hint_bytes(t, head.rows))
        return;
    hint += sizeof(head);
    for (size_t i = 1; i <= (size_t)head.rows * t->across; i++, hint += tile_bytes(t)) {
        struct jpeg_tile *tile = &t->tiles[i];
        uint16_t bits;

        memcpy(&bits, hint, sizeof(bits));
        at += bits;
        if (at / 8 >= t->len)
            return;
        *tile = (struct jpeg_tile){.at = (uint32_t)at};
        memcpy(tile->dc, hint + sizeof(bits), t->components * sizeof(tile->dc[0]));
    }
    assert(t->tiles[(size_t)head.rows * t->across].at == at);
    t->rows = t->known = head.rows;
}

int jpeg_tiles_begin(struct jpeg_tiles *t, const struct jpeg_frame *f, const uint8_t *bytes,
                     size_t len, const uint8_t *hint, size_t hint_len)
{
    t->mcus = t->rows = t->known = 0;
    if (len > UINT32_MAX / 8 || f->rows > UINT16_MAX || f->mcus > UINT16_MAX)
        return 0;
    t->len = (uint32_t)len;
    t->rows_max = f->rows;
    t->components = f->count;
    choose(t, f);
    if (t->mcus == 0)
        return 0;
    if (scratch_reserve(&t->room, ((size_t)f->rows * t->across + 1) * sizeof(*t->tiles)) < 0) {
        t->mcus = 0;
        return -ENOMEM;
    }
    t->tiles = t->room.bytes;
    t->tiles[0] = (struct jpeg_tile){.at = (uint32_t)f->data * 8};
    t->hash = XXH3_64bits(bytes, len);
    load_hint(t, hint, hint_len);
    return 0;
}

size_t jpeg_tiles_hint_max(const struct jpeg_tiles *t)
{
    return hint_bytes(t, t->rows_max);
}

size_t jpeg_tiles_hint(const struct jpeg_tiles *t, uint8_t *to)
{
    struct hint_head head = {.hash = t->hash, .len = t->len, .mcus = (uint16_t)t->mcus};
    uint8_t *at = to + sizeof(head);
    uint32_t row = 0;

    assert(t->mcus > 0 && t->known <= t->rows && t->rows <= t->rows_max);
    for (; row < t->rows; row++) {
        for (uint32_t i = 0; i < t->across; i++, at += tile_bytes(t)) {
            const struct jpeg_tile *tile = &t->tiles[(size_t)row * t->across + i + 1];
            uint32_t bits = tile->at - tile[-1].at;
            uint16_t few = (uint16_t)bits;

            if (bits != few)
                goto out; /* this does not fit into 16 bits, so the hint ends here */
            memcpy(at, &few, sizeof(few));
            memcpy(at + sizeof(few), tile->dc, t->components * sizeof(tile->dc[0]));
        }
    }
out:
    if (row <= t->known)
        return 0;
    head.rows = (uint16_t)row;
    memcpy(to, &head, sizeof(head));
    return hint_bytes(t, row);
}
