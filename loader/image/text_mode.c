/* SPDX-License-Identifier: MIT */
/* text_mode.c - see text_mode.h. */
#include "config.h"

#include "loader/image/text_mode.h"

#include <string.h>

/* ALL_MIN LFs all follow a CR by chance in one of 256^5 = 2^40 files. Of FEW_MIN LFs, one in 256
 * should follow a CR; that at most one in FEW does is less likely still. */
enum { ALL_MIN = 5, FEW_MIN = 12000, FEW = 8192 };

static const char added[] = "each LF became CR LF", removed[] = "each CR LF became LF";

/* A PNG begins with \x89PNG CR LF ^Z LF. */
static const char *judge_png(const uint8_t *bytes, size_t len)
{
    if (len < 7 || memcmp(bytes, "\x89PNG", 4) != 0)
        return NULL;
    if (memcmp(bytes + 4, "\n\x1A\n", 3) == 0)
        return removed;
    if (len >= 10 && memcmp(bytes + 4, "\r\r\n\x1A\r\n", 6) == 0)
        return added;
    if (len >= 9 && memcmp(bytes + 4, "\r\n\x1A\r\n", 5) == 0)
        return added; /* by a copy that leaves a CR LF alone */
    return NULL;
}

/* Pixels that are stored as they are, of a PPM or in a PNG, are not random: of a dark image many
 * bytes are LFs, and few CRs. A PNG whose signature is intact was not copied in text mode. */
static bool has_raw_pixels(const uint8_t *bytes, size_t len)
{
    return (len >= 4 && memcmp(bytes, "\x89PNG", 4) == 0) ||
           (len >= 2 && (memcmp(bytes, "P5", 2) == 0 || memcmp(bytes, "P6", 2) == 0));
}

bool text_mode_added(const uint8_t *bytes, size_t len, size_t from)
{
    const uint8_t *at = bytes, *end = bytes + len;
    size_t lines = 0;

    for (; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++) {
        if (at == bytes || at[-1] != '\r')
            return false;
        lines += (size_t)(at - bytes) >= from;
    }
    return lines >= ALL_MIN;
}

static bool are_few_pairs(const uint8_t *bytes, size_t len)
{
    const uint8_t *at = bytes, *end = bytes + len;
    size_t lines = 0, pairs = 0;

    for (; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++) {
        lines++;
        pairs += at > bytes && at[-1] == '\r'; /* CR CR LF has left one */
    }
    return lines >= FEW_MIN && pairs <= lines / FEW && memchr(bytes, '\r', len);
}

const char *text_mode_change(const uint8_t *bytes, size_t len)
{
    const char *png = judge_png(bytes, len);

    if (png)
        return png;
    return text_mode_added(bytes, len, 0) ? added : NULL;
}

bool text_mode_removed(const uint8_t *bytes, size_t len)
{
    return !has_raw_pixels(bytes, len) && are_few_pairs(bytes, len);
}
