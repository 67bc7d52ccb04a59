/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/net/status.h"

enum { STREAMS = 3 };

static struct wire_status_stream streams[STREAMS];
static struct status status;

static void set_up(void)
{
    status = (struct status){.loader = {.version = "0.1.0",
                                        .host = "host",
                                        .pid = 4711,
                                        .threads = 1,
                                        .io_threads = 1,
                                        .streams = STREAMS,
                                        .samples = 123456789,
                                        .substituted = 9018,
                                        .loops = "avx2, JPEGs by Plenum",
                                        .lanes = 1},
                             .streams = streams};
    status.loader.lane[0].streams = STREAMS;
    for (unsigned i = 0; i < STREAMS; i++) {
        streams[i] = (struct wire_status_stream){.id = 7654 + i,
                                                 .rate = 3210000,
                                                 .waited = 987000,
                                                 .bound = WIRE_BOUND_TRANSPORT,
                                                 .cores = 12500,
                                                 .epoch = 83,
                                                 .position = 76,
                                                 .epoch_samples = 100};
        strcpy(streams[i].client, "tr\303\244in.py instance 0 of job pid-31930 (pid 31930)");
        strcpy(streams[i].dataset, "folder:/data/photos");
        strcpy(streams[i].pipeline,
               "rrc(224) color_jitter(0.6:1.4) and all that follows, to the end");
    }
    streams[1].substituted = 90184;
    streams[0].num_sets = 2;
    streams[0].sets[0] = (struct wire_status_set){"photos", 1000, 75};
    streams[0].sets[1] = (struct wire_status_set){"art", 1000, 25};
}

/* Write the table to `text`, and split it into at most 64 lines. Returns their number. */
static unsigned write_lines(unsigned width, unsigned height, char *text, size_t size,
                            char *lines[64])
{
    FILE *f = fmemopen(text, size, "w");
    unsigned count = 0;

    status_write_text(f, &status, width, height, "");
    (void)fclose(f);
    for (char *line = strtok(text, "\n"); line && count < 64; line = strtok(NULL, "\n"))
        lines[count++] = line;
    return count;
}

static size_t columns_of(const char *line)
{
    size_t n = 0;

    for (; *line; line++)
        n += (*line & 0xc0) != 0x80;
    return n;
}

/* Returns the column after a word of a line, or 0 if the line does not have it. */
static size_t column_behind(const char *line, const char *word)
{
    const char *at = strstr(line, word);
    char before[512];

    if (!at)
        return 0;
    (void)snprintf(before, sizeof(before), "%.*s%s", (int)(at - line), line, word);
    return columns_of(before);
}

/* No line is wider than the terminal, and no number is truncated. */
Test(status, a_table_has_all_numbers_in_any_width, .init = set_up)
{
    for (unsigned width = 60; width <= 200; width++) {
        char text[8192], all[8192] = "", *lines[64];
        unsigned count = write_lines(width, 0, text, sizeof(text), lines), rows = 0;
        const char *header = NULL;

        for (unsigned i = 0; i < count; i++) {
            (void)strcat(strcat(all, lines[i]), "\n");
            cr_expect(le(sz, columns_of(lines[i]), width), "%u: %s", width, lines[i]);
            if (strstr(lines[i], "BOUND BY"))
                header = lines[i];
            if (!strstr(lines[i], "transport"))
                continue;
            rows++;
            cr_assert(ne(ptr, (void *)header, NULL));
            cr_expect(eq(sz, column_behind(lines[i], "3210"), column_behind(header, "SAMPLES/S")));
            cr_expect(eq(sz, column_behind(lines[i], "98.7%"), column_behind(header, "WAITED")));
            cr_expect(eq(sz, column_behind(lines[i], "12.5"), column_behind(header, "CORES")));
            cr_expect(eq(sz, columns_of(lines[i]), columns_of(header)), "%u: BAD is the last",
                      width);
            cr_expect(ne(ptr, (void *)strstr(lines[i], "tr\303\244in.py"), NULL), "%s", lines[i]);
        }
        cr_expect(eq(u32, rows, STREAMS));
        cr_expect(ne(ptr, (void *)strstr(all, "83  76%"), NULL), "%s", all);
        cr_expect(ne(ptr, (void *)strstr(all, "9018 bad ones replaced"), NULL), "%s", all);
        cr_expect(ne(ptr, (void *)strstr(all, "0 clients rejected\n"), NULL), "%s", all);
        cr_expect(ne(ptr, (void *)strstr(all, "JPEGs by Plenum\n"), NULL), "%s", all);
        cr_expect(ne(ptr, (void *)strstr(all, "90184 bad samples replaced"), NULL), "%s", all);
        cr_expect(ne(ptr, (void *)strstr(all, "last epoch photos 75.0%, art 25.0%"), NULL), "%s",
                  all);
    }
}

/* The table reports how many streams do not fit. */
Test(status, a_table_fits_into_any_height, .init = set_up)
{
    for (unsigned height = 10; height <= 30; height++)
        for (unsigned width = 60; width <= 120; width += 20) {
            char text[8192], *lines[64];
            unsigned count = write_lines(width, height, text, sizeof(text), lines), rows = 0;
            unsigned left_out = 0;

            cr_expect(le(u32, count, height));
            for (unsigned i = 0; i < count; i++) {
                rows += strstr(lines[i], "transport") != NULL;
                (void)sscanf(lines[i], " and %u more", &left_out);
            }
            cr_expect(eq(u32, rows + left_out, STREAMS), "%u x %u", width, height);
        }
}

Test(status, a_long_name_ends_with_dots, .init = set_up)
{
    char text[8192], *lines[64];
    unsigned count = write_lines(80, 0, text, sizeof(text), lines);

    cr_expect(ne(ptr, (void *)strstr(lines[count - 2], "tr\303\244in.py instance 0 ... "), NULL),
              "%s", lines[count - 2]);
    streams[STREAMS - 1].client[0] = '\0';
    count = write_lines(120, 0, text, sizeof(text), lines);
    cr_expect(eq(sz, columns_of(lines[count - 2]), 117)); /* names have at most 60 columns */
}
