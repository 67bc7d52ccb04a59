/* SPDX-License-Identifier: MIT */
/* text_mode.c - see text_mode.h. */
#include "config.h"

#include "common/data/text_mode.h"

#include <string.h>

/* If all of ALL_MIN LFs follow a CR, this is not a coincidence: it happens in one of 256^5 = 2^40
 * files. Of FEW_MIN LFs, one in 256 should follow a CR; it is even less likely that at most one in
 * FEW does. */
enum { ALL_MIN = 5, FEW_MIN = 12000, FEW = 8192 };

/* Files with at least this many bytes but no CR have lost their CRs: if all other values occur, one
 * of 2^92 files of random bytes has no CR. */
enum { STRIPPED_MIN = 16384 };

/* An LF in an archive is binary if a byte that text does not contain is at most this far away. */
enum { NEAR = 4 };

static const char added[] = "each LF became CR LF", removed[] = "each CR LF became LF",
                  stripped[] = "each CR was removed";

/* Check the signature of a PNG, which begins with \x89PNG CR LF ^Z LF. */
static const char *judge_png(const uint8_t *bytes, size_t len)
{
    if (len < 7 || memcmp(bytes, "\x89PNG", 4) != 0)
        return NULL;
    if (memcmp(bytes + 4, "\n\x1A\n", 3) == 0)
        return removed;
    if (len >= 10 && memcmp(bytes + 4, "\r\r\n\x1A\r\n", 6) == 0)
        return added;
    if (len >= 9 && memcmp(bytes + 4, "\r\n\x1A\r\n", 5) == 0)
        return added; /* the copy did not change CR LF */
    return NULL;
}

/* Returns whether these may be uncompressed pixels, as in a PPM or some PNGs. These are not random,
 * since a dark image has many LFs and few CRs. A PNG whose signature is intact was not copied in
 * text mode. */
static bool has_raw_pixels(const uint8_t *bytes, size_t len)
{
    return (len >= 4 && memcmp(bytes, "\x89PNG", 4) == 0) ||
           (len >= 2 && (memcmp(bytes, "P5", 2) == 0 || memcmp(bytes, "P6", 2) == 0));
}

/* Returns whether each LF follows a CR; then `*ret` is the number of LFs. */
static bool are_pairs(const uint8_t *bytes, size_t len, size_t *ret)
{
    const uint8_t *at = bytes, *end = bytes + len;

    *ret = 0;
    for (; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++) {
        if (at == bytes || at[-1] != '\r')
            return false;
        (*ret)++;
    }
    return true;
}

static size_t count_lines(const uint8_t *bytes, size_t len)
{
    size_t lines;

    return are_pairs(bytes, len, &lines) ? lines : 0;
}

/* Returns the number of lines in comments and similar segments, whose text may end lines with CR
 * LF. A copy in text mode would have made such a segment longer than its length field, so if
 * another segment follows it, its lines are original. `*rest`: where the segments end. */
static size_t lines_of_segments(const uint8_t *bytes, size_t len, size_t *rest)
{
    size_t at = 2, lines = 0;

    while (len - at > 4 && bytes[at] == 0xFF && bytes[at + 1] != 0xDA) {
        size_t all = 2 + ((size_t)bytes[at + 2] << 8 | bytes[at + 3]);

        if (all >= len - at || bytes[at + all] != 0xFF)
            break;
        if (bytes[at + 1] == 0xFE || (bytes[at + 1] & 0xF0) == 0xE0)
            lines += count_lines(bytes + at, all);
        at += all;
    }
    *rest = at;
    return lines;
}

/* Like lines_of_segments(), and adds the lines of text after the image. */
static size_t lines_of_jpeg(const uint8_t *bytes, size_t len)
{
    size_t at, lines = lines_of_segments(bytes, len, &at);
    const uint8_t *end = memmem(bytes + at, len - at, "\xFF\xD9", 2);

    return lines + (end ? count_lines(end, (size_t)(bytes + len - end)) : 0);
}

static bool is_white(uint8_t c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Returns the number of lines in a PPM's header, which is text: three numbers, with white space and
 * comments. */
static size_t lines_of_ppm(const uint8_t *bytes, size_t len)
{
    size_t at = 2;

    for (int numbers = 0; numbers < 3; numbers++) {
        while (at < len && (is_white(bytes[at]) || bytes[at] == '#'))
            if (bytes[at++] == '#')
                while (at < len && bytes[at] != '\n')
                    at++;
        while (at < len && bytes[at] >= '0' && bytes[at] <= '9')
            at++;
    }
    return count_lines(bytes, at);
}

/* Returns the number of lines of XMP metadata, whose beginning and end are marked. */
static size_t lines_of_xmp(const uint8_t *bytes, size_t len)
{
    static const char begin[] = "<x:xmpmeta", end[] = "</x:xmpmeta>";
    const uint8_t *from = memmem(bytes, len, begin, sizeof(begin) - 1);
    const uint8_t *to =
        from ? memmem(from, (size_t)(bytes + len - from), end, sizeof(end) - 1) : NULL;

    return to ? count_lines(from, (size_t)(to - from)) : 0;
}

/* Returns the number of lines of text in an image file. */
static size_t lines_of_text(const uint8_t *bytes, size_t len)
{
    if (len >= 4 && bytes[0] == 0xFF && bytes[1] == 0xD8)
        return lines_of_jpeg(bytes, len);
    if (len >= 3 && bytes[0] == 'P')
        return lines_of_ppm(bytes, len);
    return lines_of_xmp(bytes, len);
}

static bool is_added(const uint8_t *bytes, size_t len)
{
    size_t lines;

    return are_pairs(bytes, len, &lines) && lines >= ALL_MIN &&
           lines >= ALL_MIN + lines_of_text(bytes, len);
}

static bool are_few_pairs(const uint8_t *bytes, size_t len)
{
    const uint8_t *at = bytes, *end = bytes + len;
    size_t lines = 0, pairs = 0;

    for (; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++) {
        lines++;
        pairs += at > bytes && at[-1] == '\r'; /* a CR CR LF leaves a pair */
    }
    return lines >= FEW_MIN && pairs <= lines / FEW && memchr(bytes, '\r', len);
}

static bool are_crs_stripped(const uint8_t *bytes, size_t len)
{
    bool seen[256] = {false};
    size_t values = 0;

    if (len < STRIPPED_MIN || memchr(bytes, '\r', len))
        return false;
    for (size_t i = 0; i < len; i++) {
        values += !seen[bytes[i]];
        seen[bytes[i]] = true;
    }
    return values == 255;
}

const char *text_mode_change(const uint8_t *bytes, size_t len)
{
    const char *png = judge_png(bytes, len);

    if (png)
        return png;
    if (is_added(bytes, len))
        return added;
    return !has_raw_pixels(bytes, len) && are_crs_stripped(bytes, len) ? stripped : NULL;
}

bool text_mode_removed(const uint8_t *bytes, size_t len)
{
    return !has_raw_pixels(bytes, len) && are_few_pairs(bytes, len);
}

/* Returns whether a control character is near the LF. Text has none except white space, and
 * archives are padded with zeros. */
static bool is_binary(const uint8_t *bytes, size_t len, size_t at)
{
    size_t begin = at < NEAR ? 0 : at - NEAR, end = len - at > NEAR ? at + NEAR + 1 : len;

    for (size_t i = begin; i < end; i++)
        if (bytes[i] != 0 && bytes[i] < ' ' && !is_white(bytes[i]))
            return true;
    return false;
}

const char *text_mode_archive_change(const uint8_t *bytes, size_t len)
{
    const uint8_t *at = bytes, *end = bytes + len;
    size_t lines, binary = 0;

    if (!are_pairs(bytes, len, &lines) || lines < ALL_MIN)
        return NULL;
    for (; binary < ALL_MIN && at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        binary += is_binary(bytes, len, (size_t)(at - bytes));
    return binary >= ALL_MIN ? added : NULL;
}

bool text_mode_archive_removed(const uint8_t *bytes, size_t len)
{
    const uint8_t *at = bytes, *end = bytes + len;
    size_t crs = 0;

    if (!are_few_pairs(bytes, len))
        return false;
    for (; at < end && (at = memchr(at, '\r', (size_t)(end - at))); at++)
        crs++;
    return crs >= FEW_MIN / 2; /* uncompressed dark pixels have LFs but hardly any CRs */
}
