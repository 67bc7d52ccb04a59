/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/net/status.h"
#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/log.h"
#include "common/util/text.h"
#include "common/util/util.h"

static char line[4096];

static void keep_line(const char *text, size_t len)
{
    memcpy(line, text, len);
    line[len] = '\0';
}

Test(text, cursor_movements_become_question_marks)
{
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"", ""},
        {"plain, with spaces", "plain, with spaces"},
        {"a\nb\x1b[2Jc\x7f", "a?b?[2Jc?"},
        {"C1: \xc2\x9b"
         "2J, \xc2\x85, \xc2\x80\xc2\x9f",
         "C1: ?2J, ?, ??"},
        {"k\xc3\xa4se \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0.",
         "k\xc3\xa4se \xe2\x82\xac \xf0\x9f\x98\x80 \xc2\xa0."},
        {"latin-1: \xe9\xff, and its CSI: \x9b", "latin-1: \xe9\xff, and its CSI: ?"},
        {"cut off \xe2\x82", "cut off \xe2?"},
        {"long forms \xc0\x9b \xe0\x82\x9b", "long forms \xc0? \xe0??"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[128];

        strcpy(text, cases[i].text);
        cr_expect(eq(str, text_make_plain(text), (char *)cases[i].want));
    }
}

/* Checks each path by which foreign text reaches a terminal. */
Test(text, no_output_passes_cursor_movements_to_a_terminal)
{
    static const char csi[] = "\xc2\x9b", name[] = "evil \xc2\x9b"
                                                   "2J";
    static struct wire_status_stream stream;
    struct status status = {.loader = {.streams = 1, .lanes = 1}, .streams = &stream};
    struct plenum_error err;
    struct json j = {0};
    char *text = NULL;
    size_t len;

    (void)error_set(&err, -1, "client %s", name);
    cr_expect(eq(str, err.text, "client evil ?2J"));
    log_set_sink(keep_line);
    log_warn("client %s", name);
    cr_expect(eq(ptr, strstr(line, csi), NULL));
    log_set_format(LOG_JSON);
    log_warn("client %s", name);
    cr_expect(eq(ptr, strstr(line, csi), NULL));
    cr_expect(ne(ptr, strstr(line, "evil ?2J"), NULL));
    strcpy(stream.client, name);
    strcpy(stream.dataset, name);
    strcpy(stream.pipeline, name);
    j.file = open_memstream(&text, &len);
    status_write_text(j.file, &status, 200, 0, "");
    status_write_json(j.file, &status);
    (void)fclose(j.file);
    cr_expect(eq(ptr, strstr(text, csi), NULL), "%s", text);
    cr_expect(ne(ptr, strstr(text, "evil \\u009b2J"), NULL), "JSON loses nothing");
    free(text);
}

/* Compares the result with a plain loop over the bytes, for lines of all lengths around the buffer
 * sizes. */
Test(text, characters_of_each_length_are_valid_utf8)
{
    static const uint32_t codes[] = {0x01,   0x7f,   0x80,    0x7ff,   0x800,
                                     0xffff, 0x20ac, 0x10000, 0x10ffff};
    static const size_t lengths[] = {1, 1, 2, 2, 3, 3, 3, 4, 4};
    char bytes[5] = "";

    for (size_t i = 0; i < ARRAY_LEN(codes); i++) {
        memset(bytes, 0, sizeof(bytes));
        cr_expect(eq(sz, text_put_utf8(codes[i], bytes), lengths[i]));
        cr_expect(eq(sz, text_utf8_length((const unsigned char *)bytes), lengths[i]));
    }
    memset(bytes, 0, sizeof(bytes));
    (void)text_put_utf8(0x20ac, bytes);
    cr_expect(eq(str, bytes, "\xe2\x82\xac"));
}

Test(text, only_whole_names_are_found_in_a_list)
{
    static const char *const lists[] = {"eth1", "eth10,eth1", "eth10,eth1,lo", "eth1,eth10"};
    static const char *const others[] = {"", "eth10", "eth10,veth1", "eth10,eth", ",", "eth1 "};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        cr_expect(text_is_listed(lists[i], "eth1"), "%s", lists[i]);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        cr_expect(not(text_is_listed(others[i], "eth1")), "%s", others[i]);
}

Test(text, lines_of_any_length_are_read)
{
    char path[] = "/tmp/plenum-text-XXXXXX", got[64], want[64];
    size_t lengths[] = {0, 1, 62, 63, 64, 1022, 1023, 1024, 1025, 0, 5000, 3};
    int fd = mkstemp(path);
    struct text_lines lines;

    for (int ends = 0; ends < 2; ends++) { /* whether the last line ends with a newline */
        cr_assert(fd >= 0 && ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0);
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
            for (size_t k = 0; k < lengths[i]; k++)
                cr_assert(eq(int, io_write_all(fd, &"abc"[(i + k) % 3], 1), 0));
            if (ends || i + 1 < ARRAY_LEN(lengths))
                cr_assert(eq(int, io_write_all(fd, "\n", 1), 0));
        }
        cr_assert(eq(int, text_lines_open(&lines, path), 0));
        for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
            size_t len = lengths[i] < sizeof(want) ? lengths[i] : sizeof(want) - 1;

            for (size_t k = 0; k < len; k++)
                want[k] = "abc"[(i + k) % 3];
            want[len] = '\0';
            cr_assert(text_lines_next(&lines, got, sizeof(got)));
            cr_expect(eq(str, got, want), "line %zu", i);
        }
        cr_expect(not(text_lines_next(&lines, got, sizeof(got))));
        text_lines_close(&lines);
    }
    (void)unlink(path);
    io_close(&fd);
    cr_expect(eq(int, text_lines_open(&lines, path), -ENOENT));
}
