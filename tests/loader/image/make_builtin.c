/* SPDX-License-Identifier: MIT */
/* make_builtin.c - writes loader/image/builtin.c: `make_builtin >builtin.c`.
 *
 * It is kept to show where the bytes come from. A different libjpeg may encode the images
 * differently, so the builtin.c in the source tree is authoritative, not this program's output. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/util/util.h"
#include "tests/loader/image/made.h"

static const struct made_jpeg images[] = {
    {"4:2:0, odd size", 37, 29, MADE_COLOUR, "22 11 11", .quality = 75, .seed = 1},
    {"4:2:2", 40, 24, MADE_COLOUR, "21 11 11", .quality = 75, .seed = 2},
    {"4:4:4", 25, 31, MADE_COLOUR, "11 11 11", .quality = 75, .seed = 3},
    {"grey", 33, 27, MADE_GREY, "11", .quality = 75, .seed = 4},
    {"progressive", 41, 35, MADE_COLOUR, "22 11 11", .quality = 60, .progressive = true, .seed = 5},
    {"4:4:0", 24, 40, MADE_COLOUR, "12 11 11", .quality = 75, .seed = 6},
    {"arithmetic", 35, 37, MADE_COLOUR, "22 11 11", .quality = 75, .arithmetic = true, .seed = 7},
};

int main(void)
{
    puts("/* builtin.c - written by tests/loader/image/make_builtin.c; never write it again: the\n"
         " * hashes in selftest.c are of these bytes. */\n"
         "#include \"config.h\"\n\n"
         "#include \"loader/image/builtin.h\"\n\n"
         "#include \"common/util/util.h\"\n\n"
         "/* clang-format off */");
    for (size_t i = 0; i < ARRAY_LEN(images); i++) {
        struct made m = make_jpeg(&images[i]);

        printf("\nstatic const uint8_t image_%zu[] = {", i);
        for (size_t k = 0; k < m.len; k++)
            printf("%s%d,", k % 20 ? " " : "\n    ", m.bytes[k]);
        printf("\n};\n");
        free(m.bytes);
    }
    puts("/* clang-format on */\n\nconst struct builtin_image builtin_images[] = {");
    for (size_t i = 0; i < ARRAY_LEN(images); i++)
        printf("    {\"%s\", image_%zu, sizeof(image_%zu)},\n", images[i].name, i, i);
    puts("};\nconst size_t builtin_images_count = ARRAY_LEN(builtin_images);");
    return 0;
}
