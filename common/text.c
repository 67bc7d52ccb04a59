/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/text.h"

#include <stdint.h>

#include "common/util.h"

size_t text_utf8_length(const unsigned char *p)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least; /* longer forms of smaller numbers are not allowed */
    } kinds[] = {{0x80, 0, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

    for (size_t len = 1; len <= ARRAY_LEN(kinds); len++) {
        uint32_t value = p[0] & (unsigned char)~kinds[len - 1].mask;

        if ((p[0] & kinds[len - 1].mask) != kinds[len - 1].lead)
            continue;
        for (size_t i = 1; i < len; i++) {
            if ((p[i] & 0xc0) != 0x80)
                return 0;
            value = value << 6 | (p[i] & 0x3f);
        }
        return value < kinds[len - 1].least || value > 0x10ffff ||
                       (value >= 0xd800 && value < 0xe000)
                   ? 0
                   : len;
    }
    return 0;
}

char *text_make_plain(char *text)
{
    const unsigned char *from = (const unsigned char *)text;
    unsigned char *to = (unsigned char *)text;

    while (*from) {
        size_t len = text_utf8_length(from);
        /* A byte that is no UTF-8 is of a file's name in another character set, most likely. */
        bool control = *from < 0x20 || *from == 0x7f ||
                       (len == 2 && *from == 0xc2 && from[1] < 0xa0) || (len == 0 && *from < 0xa0);

        len = len ? len : 1;
        if (control)
            *to++ = '?';
        else
            for (size_t i = 0; i < len; i++)
                *to++ = from[i];
        from += len;
    }
    *to = '\0';
    return text;
}
