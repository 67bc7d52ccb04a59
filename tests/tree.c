/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "tests/tree.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/image/encode.h"

static void die(const char *what)
{
    perror(what);
    abort();
}

void tree_init(struct tree *tree)
{
    const char *tmp = getenv("TMPDIR");

    (void)snprintf(tree->root, sizeof(tree->root), "%.40s/plenum-test-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(tree->root))
        die(tree->root);
    (void)setenv("PLENUM_CACHE_DIR", tree_path(tree, "cache"), 1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void tree_fini(struct tree *tree)
{
    (void)nftw(tree->root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *tree_path(const struct tree *tree, const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *path = paths[next++ % 8];

    (void)snprintf(path, sizeof(paths[0]), "%s/%s", tree->root, name);
    return path;
}

void tree_write(const struct tree *tree, const char *name, const void *bytes, size_t len)
{
    char path[512];
    FILE *f;

    (void)snprintf(path, sizeof(path), "%s", tree_path(tree, name));
    for (char *p = path + strlen(tree->root) + 1; *p; p++)
        if (*p == '/') {
            *p = '\0';
            (void)mkdir(path, 0777);
            *p = '/';
        }
    f = fopen(path, "wb");
    if (!f || (len && fwrite(bytes, len, 1, f) != 1) || fclose(f) != 0)
        die(path);
}

void tree_write_text(const struct tree *tree, const char *name, const char *text)
{
    tree_write(tree, name, text, strlen(text));
}

void tree_write_jpeg(const struct tree *tree, const char *name, unsigned width, unsigned height,
                     unsigned number)
{
    uint8_t *pixels = malloc((size_t)width * height * 3), *bytes;
    struct encode_options e = {.pixels = pixels, .width = width, .height = height, .quality = 80};
    size_t len;

    for (unsigned y = 0; y < height; y++)
        for (unsigned x = 0; x < width; x++) {
            pixels[(y * width + x) * 3] = (uint8_t)(x * 3 + number * 37);
            pixels[(y * width + x) * 3 + 1] = (uint8_t)(y * 5 + number * 11);
            pixels[(y * width + x) * 3 + 2] = (uint8_t)((x ^ y) + number * 101);
        }
    if (encode_jpeg(&e, &bytes, &len) < 0)
        die("encode_jpeg");
    tree_write(tree, name, bytes, len);
    free(bytes);
    free(pixels);
}
