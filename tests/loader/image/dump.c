/* SPDX-License-Identifier: MIT */
/* dump.c - renders pixels for test_pillow.py, and writes files for other programs to read.
 *
 *     dump --kinds FOLDER   write one file of every kind in made.h to FOLDER, print their names
 *     dump --seeds FOLDER   write small files of every kind, for tests/fuzz/fuzz_image
 *     dump --packed FOLDER  write packed files, for tests/fuzz/fuzz_pack
 *     dump --pipeline N     print the text of random pipeline N
 *     dump <REQUESTS        answer requests, one per line: path TAB pipeline TAB seed TAB position
 *
 * The answer to a request is a line: "bad MESSAGE", or "ok" and the numbers of the geometry (box:
 * left top width height; resized: width height; window: left top width height; mirror). After "ok"
 * come height * width * 3 bytes of uint8 RGB. */
#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/image/image.h"
#include "loader/image/pack/pack.h"
#include "loader/image/resize/crop.h"
#include "tests/loader/image/made.h"
#include "tests/loader/image/random_pipeline.h"

static bool write_file(const char *folder, const char *name, const char *head, size_t head_len,
                       struct made m)
{
    char path[4096];
    FILE *f;
    bool ok;

    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    f = fopen(path, "wb");
    if (!f)
        return false;
    ok = fwrite(head, 1, head_len, f) == head_len && fwrite(m.bytes, 1, m.len, f) == m.len;
    free(m.bytes);
    return fclose(f) == 0 && ok;
}

static int write_kinds(const char *folder)
{
    for (size_t i = 0; i < made_kinds_count; i++) {
        struct made_jpeg spec = made_kinds[i];
        char name[32];

        spec.width = 157;
        spec.height = 211;
        (void)snprintf(name, sizeof(name), "%zu.jpg", i);
        if (!write_file(folder, name, "", 0, make_jpeg(&spec)))
            return 1;
        printf("%s\t%s\n", name, spec.name);
    }
#ifdef HAVE_WEBP
    for (size_t i = 0; i < made_webps_count; i++) {
        struct made_webp spec = made_webps[i];
        char name[32];

        spec.width = 157;
        spec.height = 211;
        (void)snprintf(name, sizeof(name), "%zu.webp", i);
        if (!write_file(folder, name, "", 0, make_webp(&spec)))
            return 1;
        printf("%s\t%s\n", name, spec.name);
    }
#endif
#ifdef HAVE_AVIF
    for (size_t i = 0; i < made_avifs_count; i++) {
        struct made_avif spec = made_avifs[i];
        char name[32];

        spec.width = 157;
        spec.height = 211;
        (void)snprintf(name, sizeof(name), "%zu.avif", i);
        if (!write_file(folder, name, "", 0, make_avif(&spec)))
            return 1;
        printf("%s\t%s\n", name, spec.name);
    }
#endif
    for (size_t i = 0; i < made_ppms_count; i++) {
        struct made_ppm spec = made_ppms[i];
        char name[32];

        spec.width = 157;
        spec.height = 211;
        (void)snprintf(name, sizeof(name), "%zu.%s", i, spec.grey ? "pgm" : "ppm");
        if (!write_file(folder, name, "", 0, make_ppm(&spec)))
            return 1;
        printf("%s\t%s\n", name, spec.name);
    }
    return 0;
}

/* Write seeds: four bytes that select how the file is rendered, then the file. */
static int write_seeds(const char *folder)
{
    static const int png_types[][2] = {{0, 1}, {0, 8}, {0, 16}, {2, 8}, {3, 4}, {4, 8}, {6, 16}};
    enum { PIPELINES = 24 /* in fuzz_image.c */, SCRIPTS = 20 };
    char name[32], head[4] = {0};

    for (size_t i = 0; i < made_kinds_count; i++) {
        struct made_jpeg spec = made_kinds[i];

        spec.width = 37;
        spec.height = 26;
        spec.orientation = (int)i % 9;
        head[0] = (char)(i % PIPELINES);
        (void)snprintf(name, sizeof(name), "%zu.jpg", i);
        if (!write_file(folder, name, head, sizeof(head), make_jpeg(&spec)))
            return 1;
    }
    for (uint32_t i = 0; i < SCRIPTS; i++) {
        struct made_jpeg spec = {.name = "script",
                                 .width = 20 + i,
                                 .height = 17,
                                 .colour = i % 4 == 3 ? MADE_GREY : MADE_COLOUR,
                                 .quality = i % 2 ? 95 : 60,
                                 .restart = i % 3 == 2 ? 2 : 0,
                                 .script = 1 + i};

        head[0] = (char)(i % PIPELINES);
        (void)snprintf(name, sizeof(name), "script%u.jpg", i);
        if (!write_file(folder, name, head, sizeof(head), make_jpeg(&spec)))
            return 1;
    }
    for (size_t i = 0; i < 2 * sizeof(png_types) / sizeof(png_types[0]); i++) {
        struct made_png spec = {.width = 19,
                                .height = 23,
                                .interlaced = i % 2,
                                .colour_type = png_types[i / 2][0],
                                .depth = png_types[i / 2][1],
                                .transparent = png_types[i / 2][0] < 4,
                                .orientation = 6};

        head[0] = (char)(i % PIPELINES);
        (void)snprintf(name, sizeof(name), "%zu.png", i);
        if (!write_file(folder, name, head, sizeof(head), make_png(&spec)))
            return 1;
    }
#ifdef HAVE_WEBP
    for (size_t i = 0; i < made_webps_count; i++) {
        struct made_webp spec = made_webps[i];

        spec.width = 29;
        spec.height = 22;
        head[0] = (char)(i % PIPELINES);
        (void)snprintf(name, sizeof(name), "%zu.webp", i);
        if (!write_file(folder, name, head, sizeof(head), make_webp(&spec)))
            return 1;
    }
#endif
#ifdef HAVE_AVIF
    for (size_t i = 0; i < made_avifs_count; i++) {
        struct made_avif spec = made_avifs[i];

        spec.width = 29;
        spec.height = 22;
        head[0] = (char)(i % PIPELINES);
        (void)snprintf(name, sizeof(name), "%zu.avif", i);
        if (!write_file(folder, name, head, sizeof(head), make_avif(&spec)))
            return 1;
    }
#endif
    for (size_t i = 0; i < made_ppms_count; i++) {
        struct made_ppm spec = made_ppms[i];

        spec.width = 29;
        spec.height = 22;
        head[0] = (char)(5 * i % PIPELINES);
        (void)snprintf(name, sizeof(name), "%zu.ppm", i);
        if (!write_file(folder, name, head, sizeof(head), make_ppm(&spec)))
            return 1;
    }
    return 0;
}

/* Write seeds: four bytes that select the region, then the file, packed if it can be packed. */
static int write_packed(const char *folder)
{
    struct image_decoder *decoder;
    char name[32], head[4] = {0};

    if (image_decoder_create(&decoder) < 0)
        return 1;
    for (size_t i = 0; i < made_kinds_count; i++) {
        struct made_jpeg spec = made_kinds[i];
        struct pack_result packed;
        struct made m;

        spec.width = 128 - (uint32_t)i % 3;
        spec.height = 40;
        m = make_jpeg(&spec);
        if (image_pack(decoder, &(struct image_file){m.bytes, m.len}, &packed, NULL) < 0)
            return 1;
        if (packed.bytes) {
            free(m.bytes);
            m = (struct made){packed.bytes, packed.len};
        }
        head[i % 4] = (char)(40 + i);
        (void)snprintf(name, sizeof(name), "%zu.jpg", i);
        if (!write_file(folder, name, head, sizeof(head), m))
            return 1;
    }
    image_decoder_destroy(decoder);
    return 0;
}

static void answer(struct image_decoder *decoder, char *line)
{
    const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    const char *path = strtok(line, "\t"), *text = strtok(NULL, "\t");
    const char *seed = strtok(NULL, "\t"), *position = strtok(NULL, "\n");
    struct plenum_error err = {"the request is malformed"};
    struct crop_tables tables = {0};
    struct image_info info;
    struct image_draw draw;
    struct pipeline p;
    struct made m;
    struct crop c;
    uint8_t *pixels;
    bool swap;
    int r;

    if (!position || pipeline_parse(text, &p, &err) < 0) {
        printf("bad %s\n", err.text);
        return;
    }
    draw = (struct image_draw){.seed = strtoull(seed, NULL, 10),
                               .position = (uint32_t)strtoul(position, NULL, 10)};
    m = read_file(path);
    pixels = malloc((size_t)p.width * p.height * 3);
    r = image_render(decoder, &(struct image_view){.pipeline = &p, .draw = draw, .dst = pixels},
                     &store, &(struct image_file){m.bytes, m.len}, &err);
    if (r < 0) {
        printf("bad %s\n", err.text);
    } else {
        (void)image_verify(decoder, &(struct image_file){m.bytes, m.len}, &info, NULL);
        swap = p.exif && info.orientation >= 5;
        crop_locate(&p, &draw, swap ? info.height : info.width, swap ? info.width : info.height,
                    &tables, &c);
        printf("ok %u %u %u %u %u %u %u %u %u %u %d\n", c.box.left, c.box.top, c.box.width,
               c.box.height, c.width, c.height, c.window.left, c.window.top, p.width, p.height,
               c.mirror);
        (void)fwrite(pixels, 1, (size_t)p.width * p.height * 3, stdout);
    }
    free(pixels);
    free(m.bytes);
}

int main(int argc, char **argv)
{
    struct image_decoder *decoder;
    char line[8192];

    if (argc == 3 && strcmp(argv[1], "--kinds") == 0)
        return write_kinds(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--seeds") == 0)
        return write_seeds(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--packed") == 0)
        return write_packed(argv[2]);
    if (argc == 3 && strcmp(argv[1], "--pipeline") == 0) {
        random_pipeline(strtoull(argv[2], NULL, 10), line);
        return puts(line) < 0;
    }
    if (argc != 1 || image_decoder_create(&decoder) < 0)
        return 1;
    while (fgets(line, sizeof(line), stdin)) {
        answer(decoder, line);
        (void)fflush(stdout);
    }
    image_decoder_destroy(decoder);
    return 0;
}
