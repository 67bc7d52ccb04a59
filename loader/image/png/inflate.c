/* SPDX-License-Identifier: MIT */
/* inflate.c - decompresses zlib streams, with tables of codes.
 *
 * The next bits of the input are in a 64-bit word, with the first one lowest. A table has an entry
 * for each value of the next 11 bits (8 for distances), whose low bits are a code:
 *
 *     31..16  length, distance, or first entry of a table for longer codes; or one or two literals
 *     15..12  literals, the table for longer codes, the end of a block, or no code at all
 *     11..8   bits of the code; or of the index of a table for longer codes; or number of literals
 *      7..0   bits to consume: the code or codes, and the extra bits of a length or distance
 *
 * The input is read up to eight bytes plus a word beyond its end, where the bytes may have any
 * values. The use of such bytes is detected at the end of a block or of a run. */
#include "config.h"

#include "loader/image/png/inflate.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

#include "common/util/util.h"

enum {
    LENGTHS_BITS = 7, /* bits looked up for the code of code lengths */
    CODE_BITS = 15,
    SYMBOLS = 288,
    END_OF_BLOCK = 256,
    BEYOND = 8,
    PAIRS_PAY = 8192, /* pairs are worthwhile from this many bytes of input on */
};

enum { LONGER = 1 << 12, END = 1 << 13, NONE = 1 << 14, LITERAL = 1 << 15 };

#define OF(base, extra) ((base) << 16 | (extra))

static const uint32_t lengths[SYMBOLS - 256] = {
    END,        OF(3, 0),   OF(4, 0),   OF(5, 0),   OF(6, 0),   OF(7, 0),   OF(8, 0),  OF(9, 0),
    OF(10, 0),  OF(11, 1),  OF(13, 1),  OF(15, 1),  OF(17, 1),  OF(19, 2),  OF(23, 2), OF(27, 2),
    OF(31, 2),  OF(35, 3),  OF(43, 3),  OF(51, 3),  OF(59, 3),  OF(67, 4),  OF(83, 4), OF(99, 4),
    OF(115, 4), OF(131, 5), OF(163, 5), OF(195, 5), OF(227, 5), OF(258, 0), NONE,      NONE,
};

static const uint32_t reaches[32] = {
    OF(1, 0),     OF(2, 0),     OF(3, 0),     OF(4, 0),      OF(5, 1),      OF(7, 1),
    OF(9, 2),     OF(13, 2),    OF(17, 3),    OF(25, 3),     OF(33, 4),     OF(49, 4),
    OF(65, 5),    OF(97, 5),    OF(129, 6),   OF(193, 6),    OF(257, 7),    OF(385, 7),
    OF(513, 8),   OF(769, 8),   OF(1025, 9),  OF(1537, 9),   OF(2049, 10),  OF(3073, 10),
    OF(4097, 11), OF(6145, 11), OF(8193, 12), OF(12289, 12), OF(16385, 13), OF(24577, 13),
    NONE,         NONE,
};

/* Returns the entry of a symbol whose code has `bits` bits. */
static uint32_t entry_of(uint32_t symbol, bool distance, uint32_t bits)
{
    if (distance)
        return reaches[symbol] + (bits << 8 | bits);
    if (symbol < 256)
        return symbol << 16 | LITERAL | 1 << 8 | bits;
    return lengths[symbol - 256] + (bits << 8 | bits);
}

/* --- bits --- */

/* Make at least 56 bits valid. */
static inline void fill(const uint8_t **in, uint64_t *bits, uint32_t *count)
{
    uint64_t word;

    memcpy(&word, *in, 8);
    *bits |= le64toh(word) << *count;
    *in += (63 - *count) >> 3;
    *count |= 56;
}

static inline uint32_t low(uint64_t bits, uint32_t count)
{
    return (uint32_t)(bits & ((UINT64_C(1) << count) - 1));
}

static uint32_t take(struct inflate *s, uint32_t count)
{
    uint32_t r = low(s->bits, count);

    assert(count <= s->count);
    s->bits >>= count;
    s->count -= count;
    return r;
}

/* Returns whether no bits were consumed beyond the end. */
static bool is_inside(const struct inflate *s)
{
    return s->in <= s->end || (size_t)(s->in - s->end) <= s->count / 8;
}

/* Make at least 56 bits valid. Returns false if that would read too far beyond the input. */
static bool more(struct inflate *s)
{
    if (s->in > s->end + BEYOND)
        return false;
    fill(&s->in, &s->bits, &s->count);
    return true;
}

/* --- tables --- */

/* Returns the next code of `bits` bits; codes are reversed. */
static inline uint32_t next_code(uint32_t code, uint32_t bits)
{
    uint32_t bit = UINT32_C(1) << (bits - 1);

    while (code & bit)
        bit >>= 1;
    return bit ? (code & (bit - 1)) | bit : 0;
}

/* Count the codes of each length. Returns false if there are too many or too few of them. Distances
 * may have no code, or one of a single bit. */
static bool count_codes(const uint8_t *bits, uint32_t symbols, bool distance,
                        uint32_t counts[CODE_BITS + 1])
{
    uint32_t space = 0;

    memset(counts, 0, (CODE_BITS + 1) * sizeof(*counts));
    for (uint32_t i = 0; i < symbols; i++)
        counts[bits[i]]++;
    for (uint32_t i = 1; i <= CODE_BITS; i++)
        space += counts[i] << (CODE_BITS - i);
    return space == 1 << CODE_BITS ||
           (distance && (counts[0] == symbols || (counts[0] == symbols - 1 && counts[1] == 1)));
}

/* Returns the number of index bits of a table for codes that share their first `above` bits. The
 * next of them has `bits` bits, and `left` codes of this length are left. */
static uint32_t table_bits(const uint32_t counts[CODE_BITS + 1], uint32_t left, uint32_t bits,
                           uint32_t above)
{
    uint32_t wide = bits - above, space = left;

    while (space < UINT32_C(1) << wide && wide + above < CODE_BITS) {
        wide++;
        space = 2 * space + counts[wide + above];
    }
    return wide;
}

/* Fill in a table for `main` bits, followed by those for longer codes. */
static bool make_table(const uint8_t *bits, uint32_t symbols, bool distance, uint32_t main,
                       uint32_t *table, uint32_t room)
{
    uint32_t counts[CODE_BITS + 1], at[CODE_BITS + 2], code = 0, used = 1;
    uint32_t lower = UINT32_MAX, begin = 0;
    uint16_t sorted[SYMBOLS];
    const uint16_t *next = sorted;

    assert(symbols <= SYMBOLS && main <= CODE_BITS && UINT32_C(1) << main <= room);
    if (!count_codes(bits, symbols, distance, counts))
        return false;
    at[1] = 0;
    for (uint32_t i = 1; i <= CODE_BITS; i++)
        at[i + 1] = at[i] + counts[i];
    for (uint32_t i = 0; i < symbols; i++)
        if (bits[i])
            sorted[at[bits[i]]++] = (uint16_t)i;
    /* A table for codes of up to n bits is the one for n - 1 bits twice, plus the codes of n
     * bits. */
    table[0] = NONE | 1;
    for (uint32_t n = 1; n <= main; n++) {
        memcpy(table + used, table, used * sizeof(*table));
        used *= 2;
        for (uint32_t left = counts[n]; left > 0; left--) {
            table[code] = entry_of(*next++, distance, n);
            code = next_code(code, n);
        }
    }
    assert(used == UINT32_C(1) << main);
    for (uint32_t n = main + 1; n <= CODE_BITS; n++)
        for (uint32_t left = counts[n]; left > 0; left--) {
            uint32_t entry;

            if (low(code, main) != lower) {
                uint32_t wide = table_bits(counts, left, n, main);

                if (used + (UINT32_C(1) << wide) > room)
                    return false;
                lower = low(code, main);
                begin = used;
                used += UINT32_C(1) << wide;
                table[lower] = begin << 16 | LONGER | wide << 8 | main;
            }
            assert(begin + (code >> main) < used && used <= room);
            entry = entry_of(*next++, distance, n - main);
            for (uint32_t i = begin + (code >> main); i < used; i += UINT32_C(1) << (n - main))
                table[i] = entry;
            code = next_code(code, n);
        }
    return true;
}

/* Give an entry two literals if both fit into the looked-up bits. This goes from the last entry to
 * the first: the second literal's entry has a lower index, and is not paired yet. */
static void pair_literals(uint32_t *table)
{
    for (uint32_t i = 1 << INFLATE_LITERAL_BITS; i-- > 0;) {
        uint32_t one = table[i], two = table[i >> (one & 31)];
        uint32_t bits = (one & 31) + (two & 31);

        if (one & two & LITERAL && bits <= INFLATE_LITERAL_BITS)
            table[i] = (two >> 16 & 255) << 24 | (one & 0xFF0000) | LITERAL | 2 << 8 | bits;
    }
}

static bool make_tables(struct inflate *s, const uint8_t *bits, uint32_t literals,
                        uint32_t distances)
{
    if (!make_table(bits, literals, false, INFLATE_LITERAL_BITS, s->literals, INFLATE_LITERALS) ||
        !make_table(bits + literals, distances, true, INFLATE_DISTANCE_BITS, s->distances,
                    INFLATE_DISTANCES))
        return false;
    if (s->end - s->in > PAIRS_PAY)
        pair_literals(s->literals);
    return true;
}

/* --- blocks --- */

static bool use_fixed_codes(struct inflate *s)
{
    uint8_t bits[SYMBOLS + 32];

    if (s->fixed)
        return true;
    memset(bits, 8, 144);
    memset(bits + 144, 9, 112);
    memset(bits + 256, 7, 24);
    memset(bits + 280, 8, 8);
    memset(bits + SYMBOLS, 5, 32);
    s->fixed = true;
    return make_tables(s, bits, SYMBOLS, 32);
}

/* Read the lengths of the codes, which are coded themselves. */
static bool read_lengths(struct inflate *s, const uint32_t *table, uint8_t *bits, uint32_t count)
{
    static const struct {
        uint8_t extra, least;
    } repeats[3] = {{2, 3}, {3, 3}, {7, 11}};

    for (uint32_t i = 0; i < count;) {
        uint32_t entry, symbol, times;

        if (!more(s))
            return false;
        entry = table[low(s->bits, LENGTHS_BITS)];
        (void)take(s, entry & 255);
        symbol = entry >> 16 & 255;
        if (symbol < 16) {
            bits[i++] = (uint8_t)symbol;
            continue;
        }
        times = repeats[symbol - 16].least + take(s, repeats[symbol - 16].extra);
        if (times > count - i || (symbol == 16 && i == 0))
            return false;
        memset(bits + i, symbol == 16 ? bits[i - 1] : 0, times);
        i += times;
    }
    return true;
}

static bool read_codes(struct inflate *s)
{
    static const uint8_t order[19] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                      11, 4,  12, 3, 13, 2, 14, 1, 15};
    uint32_t literals = 257 + take(s, 5), distances = 1 + take(s, 5), count = 4 + take(s, 4);
    uint32_t table[1 << LENGTHS_BITS];
    uint8_t bits[SYMBOLS + 32] = {0};

    s->fixed = false;
    if (literals > 286 || distances > 30)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        if (i % 16 == 0 && !more(s))
            return false;
        bits[order[i]] = (uint8_t)take(s, 3);
    }
    if (!make_table(bits, 19, false, LENGTHS_BITS, table, ARRAY_LEN(table)) ||
        !read_lengths(s, table, bits, literals + distances))
        return false;
    return bits[END_OF_BLOCK] && make_tables(s, bits, literals, distances);
}

/* Skip to the next whole byte. */
static bool align(struct inflate *s)
{
    if (!is_inside(s))
        return false;
    s->in -= s->count / 8;
    assert(s->in <= s->end);
    s->bits = s->count = 0;
    return true;
}

static bool begin_stored(struct inflate *s)
{
    if (!align(s) || s->end - s->in < 4)
        return false;
    s->stored = s->in[0] | (size_t)s->in[1] << 8;
    if ((s->in[2] | (size_t)s->in[3] << 8) != (s->stored ^ 0xFFFF))
        return false;
    s->in += 4;
    s->state = INFLATE_STORED;
    return true;
}

static bool begin_block(struct inflate *s)
{
    if (!more(s))
        return false;
    s->last = take(s, 1);
    switch (take(s, 2)) {
    case 0:
        return begin_stored(s);
    case 1:
        s->state = INFLATE_CODES;
        return use_fixed_codes(s);
    case 2:
        s->state = INFLATE_CODES;
        return read_codes(s);
    default:
        return false;
    }
}

static bool end_block(struct inflate *s)
{
    s->state = s->last ? INFLATE_END : INFLATE_HEADER;
    return s->last ? align(s) : is_inside(s);
}

static bool copy_stored(struct inflate *s, uint8_t **out, const uint8_t *target)
{
    size_t count = min_u64(s->stored, (size_t)(target - *out));

    assert(s->in <= s->end && *out <= target);
    if (count > (size_t)(s->end - s->in))
        return false;
    memcpy(*out, s->in, count);
    *out += count;
    s->in += count;
    s->stored -= count;
    return s->stored > 0 || end_block(s);
}

/* Copy a match. Up to 15 extra bytes are written. */
static inline uint8_t *copy_match(uint8_t *out, uint32_t distance, uint32_t length)
{
    const uint8_t *from = out - distance;
    uint8_t *end = out + length;

    if (distance >= 16) {
        do {
            memcpy(out, from, 16);
            out += 16;
            from += 16;
        } while (out < end);
    } else {
        uint32_t step = distance < 8 ? distance : 8;

        do {
            uint64_t word; /* its first `step` bytes are valid */

            memcpy(&word, from, 8);
            memcpy(out, &word, 8);
            out += step;
            from += step;
        } while (out < end);
    }
    return end;
}

/* Returns a length, or a distance, including its extra bits. */
static inline uint32_t value_of(uint32_t entry, uint64_t bits)
{
    return (entry >> 16) + (low(bits, entry & 63) >> (entry >> 8 & 15));
}

/* Write one literal, or two; the byte after one may be overwritten, too. */
static inline uint8_t *put_literals(uint8_t *out, uint32_t entry)
{
    uint16_t both = htole16((uint16_t)(entry >> 16));

    memcpy(out, &both, 2);
    return out + (entry >> 8 & 15);
}

static bool decode_codes(struct inflate *s, const uint8_t *first, uint8_t **ret, uint8_t *target)
{
    const uint8_t *in = s->in, *const limit = s->end + BEYOND;
    uint8_t *out = *ret;
    uint64_t bits = s->bits;
    uint32_t count = s->count, entry = 0;

#define USE(entry) (bits >>= ((entry)&63), count -= ((entry)&255))
#define LOOK(table, width) s->table[low(bits, width)]
    while (out < target) {
        uint32_t length, distance;

        if (in > limit)
            return false;
        fill(&in, &bits, &count);
        entry = LOOK(literals, INFLATE_LITERAL_BITS);
        /* 56 bits are enough for five look-ups. */
        for (int i = 0; i < 4 && entry & LITERAL; i++) {
            USE(entry);
            out = put_literals(out, entry);
            entry = LOOK(literals, INFLATE_LITERAL_BITS);
        }
        if (entry & LITERAL) {
            USE(entry);
            out = put_literals(out, entry);
            continue;
        }
        fill(&in, &bits, &count);
        if (entry & LONGER) {
            USE(entry);
            entry = s->literals[(entry >> 16) + low(bits, entry >> 8 & 15)];
            if (entry & LITERAL) {
                USE(entry);
                out = put_literals(out, entry);
                continue;
            }
        }
        if (entry & (END | NONE)) {
            USE(entry);
            break;
        }
        length = value_of(entry, bits);
        USE(entry);
        entry = LOOK(distances, INFLATE_DISTANCE_BITS);
        if (entry & LONGER) {
            USE(entry);
            entry = s->distances[(entry >> 16) + low(bits, entry >> 8 & 15)];
        }
        distance = value_of(entry, bits);
        if (entry & NONE || distance > (size_t)(out - first))
            return false;
        USE(entry);
        out = copy_match(out, distance, length);
    }
#undef USE
#undef LOOK
    assert(out >= *ret && out < target + INFLATE_BEHIND_OUT);
    s->in = in;
    s->bits = bits;
    s->count = count;
    *ret = out;
    if (entry & NONE)
        return false;
    return entry & END ? end_block(s) : is_inside(s);
}

/* --- the stream --- */

bool inflate_start(struct inflate *s, const uint8_t *in, size_t len, uint64_t total)
{
    /* The stream must be deflate, without a dictionary, with a valid checksum, and with a window
     * that contains every match. */
    if (len < 2 || (in[0] & 15) != 8 || in[0] >> 4 > 7 || in[1] & 32 ||
        (in[0] << 8 | in[1]) % 31 != 0 ||
        (UINT64_C(256) << (in[0] >> 4)) < min_u64(total, INFLATE_WINDOW))
        return false;
    s->in = in + 2;
    s->end = in + len;
    s->bits = s->count = 0;
    s->state = INFLATE_HEADER;
    s->last = s->fixed = false;
    return true;
}

bool inflate_run(struct inflate *s, const uint8_t *first, uint8_t **out, uint8_t *target)
{
    bool good = true;

    assert(first <= *out && *out <= target);
    while (good && *out < target && s->state != INFLATE_END) {
        if (s->state == INFLATE_HEADER)
            good = begin_block(s);
        else if (s->state == INFLATE_STORED)
            good = copy_stored(s, out, target);
        else
            good = decode_codes(s, first, out, target);
    }
    return good;
}

bool inflate_is_whole(const struct inflate *s, uint32_t adler)
{
    uint32_t found;

    assert(s->state == INFLATE_END && s->in <= s->end);
    if (s->end - s->in != 4)
        return false;
    memcpy(&found, s->in, 4);
    return be32toh(found) == adler;
}
