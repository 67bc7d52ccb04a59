/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/ctl/html.h"

#include <stdbool.h>

#include "common/util/text.h"
#include "common/util/util.h"

/* Returns how a character with a meaning in HTML is written, or NULL. */
static const char *entity(char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return NULL;
    }
}

static bool is_control(const unsigned char *p)
{
    return (*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0);
}

void html_put_text(FILE *page, const char *text)
{
    const unsigned char *p = (const unsigned char *)text;

    while (*p) {
        size_t len = text_utf8_length(p);
        const char *name = entity((char)*p);

        if (name)
            fputs(name, page);
        else if (len == 0 || is_control(p))
            fputs("\xef\xbf\xbd", page); /* U+FFFD */
        else
            fwrite(p, 1, len, page);
        p += len > 0 ? len : 1;
    }
}

void html_put_data(FILE *page, const char *type, const uint8_t *bytes, size_t len)
{
    static const char *const digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    fprintf(page, "data:%s;base64,", type);
    for (size_t i = 0; i < len; i += 3) {
        size_t count = min_u64(3, len - i);
        uint32_t bits = (uint32_t)bytes[i] << 16;

        bits |= count > 1 ? (uint32_t)bytes[i + 1] << 8 : 0;
        bits |= count > 2 ? bytes[i + 2] : 0;
        for (unsigned k = 0; k < 4; k++)
            putc(k > count ? '=' : digits[bits >> (18 - 6 * k) & 63], page);
    }
}
