/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/util/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum { LINE_MOST = 1 << 20 };

size_t text_utf8_length(const unsigned char *p)
{
    static const struct {
        unsigned char mask, lead;
        uint32_t least; /* overlong forms are invalid */
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

size_t text_put_utf8(uint32_t code, char ret[4])
{
    assert(code < 0x110000);
    if (code < 0x80) {
        ret[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        ret[0] = (char)(0xc0 | code >> 6);
        ret[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        ret[0] = (char)(0xe0 | code >> 12);
        ret[1] = (char)(0x80 | (code >> 6 & 0x3f));
        ret[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    ret[0] = (char)(0xf0 | code >> 18);
    ret[1] = (char)(0x80 | (code >> 12 & 0x3f));
    ret[2] = (char)(0x80 | (code >> 6 & 0x3f));
    ret[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

char *text_make_plain(char *text)
{
    const unsigned char *from = (const unsigned char *)text;
    unsigned char *to = (unsigned char *)text;

    while (*from) {
        size_t len = text_utf8_length(from);
        /* A byte that is not UTF-8 is most likely part of a file name in another character set.
         * Such bytes are kept, except those that are control characters there. */
        bool control = *from < 0x20 || *from == 0x7f ||
                       (len == 2 && *from == 0xc2 && from[1] < 0xa0) || (len == 0 && *from < 0xa0);

        len = len ? len : 1;
        if (control)
            *to++ = '?';
        else
            for (size_t i = 0; i < len; i++)
                *to++ = from[i];
        assert(to <= from + len); /* the text does not grow */
        from += len;
    }
    *to = '\0';
    return text;
}

bool text_is_listed(const char *list, const char *name)
{
    size_t len = strlen(name);

    while (*list) {
        size_t n = strcspn(list, ",");

        if (n == len && memcmp(list, name, len) == 0)
            return true;
        list += n;
        list += *list == ',';
    }
    return false;
}

/* Remove a byte order mark, which some Windows editors write before the first line. */
static void drop_mark(FILE *file, char *line, size_t len)
{
    if (len >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0 && ftello(file) == (off_t)len)
        memmove(line, line + 3, len - 3 + 1);
}

int text_read_line(FILE *file, const char *path, char **line, size_t *cap, struct plenum_error *err)
{
    size_t len = 0;
    int c = 0;

    errno = 0;
    while (c != '\n' && (c = getc_unlocked(file)) != EOF) {
        if (c == '\0')
            return error_set(err, -EINVAL, "%s contains a zero byte: is it a text file?", path);
        if (len == LINE_MOST)
            return error_set(err, -EINVAL, "%s has a line of more than 1 MiB: is it a text file?",
                             path);
        if (array_reserve(line, cap, len + 2, 1) < 0) /* one more byte, and a NUL */
            return error_set(err, -ENOMEM, "cannot read %s: out of memory", path);
        (*line)[len++] = (char)c;
        (*line)[len] = '\0';
    }
    if (ferror(file)) {
        int r = errno ? -errno : -EIO;

        return error_set(err, r, "cannot read %s: %s", path, strerror(-r));
    }
    if (len > 0)
        drop_mark(file, *line, len);
    return len > 0;
}

int text_lines_open(struct text_lines *lines, const char *path)
{
    lines->fd = open(path, O_RDONLY | O_CLOEXEC);
    lines->at = lines->len = 0;
    return lines->fd < 0 ? -errno : 0;
}

/* Returns the next byte, or -1. */
static int next_byte(struct text_lines *l)
{
    ssize_t n;

    if (l->at == l->len) {
        do
            n = read(l->fd, l->bytes, sizeof(l->bytes));
        while (n < 0 && errno == EINTR);
        if (n <= 0)
            return -1;
        l->at = 0;
        l->len = (size_t)n;
    }
    return (unsigned char)l->bytes[l->at++];
}

bool text_lines_next(struct text_lines *lines, char *line, size_t size)
{
    size_t len = 0, count = 0;
    int c;

    while ((c = next_byte(lines)) >= 0 && c != '\n') {
        count++;
        if (len + 1 < size)
            line[len++] = (char)c;
    }
    line[len] = '\0';
    return c >= 0 || count > 0;
}

void text_lines_close(struct text_lines *lines)
{
    io_close(&lines->fd);
}
