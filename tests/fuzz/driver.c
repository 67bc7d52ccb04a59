/* SPDX-License-Identifier: MIT */
/* driver.c - runs a fuzz target in builds without libFuzzer. Each argument is a file or a folder of
 * files. The target runs once with each file, and with --mutate N also N times with some bytes
 * changed. The changes are the same on every run. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/order/philox.h"
#include "common/util/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long runs;
static uint32_t mutations;

/* Change a few bytes; sometimes also cut off the end or remove some bytes from the middle. */
static void run_mutated(const uint8_t *bytes, size_t len)
{
    for (uint32_t i = 0; i < mutations && len > 0; i++) {
        struct philox_block dice = philox_draw(0, i, (uint32_t)runs, DRAW_SAMPLE_SET, 7);
        size_t n = len;
        uint8_t *copy;

        if (dice.word[0] % 4 == 0)
            n = philox_below(dice.word[1], (uint32_t)len);
        /* exactly this size, so that sanitizers report a read past the end */
        copy = malloc(n + !n);
        if (!copy)
            abort();
        memcpy(copy, bytes, n);
        for (uint32_t k = 0; k < dice.word[2] % 5 && n > 0; k++) {
            struct philox_block d = philox_draw(1, i, (uint32_t)runs, DRAW_SAMPLE_SET, k);
            size_t at = philox_below(d.word[0], (uint32_t)n);

            if (d.word[1] % 3 == 0)
                copy[at] = (uint8_t)(d.word[2] % 2 ? 0xff : 0);
            else if (d.word[1] % 3 == 1)
                copy[at] ^= (uint8_t)(1 << d.word[2] % 8);
            else
                memmove(copy + at, copy + philox_below(d.word[2], (uint32_t)(at + 1)), n - at);
        }
        (void)LLVMFuzzerTestOneInput(copy, n);
        free(copy);
        runs++;
    }
}

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = NULL;
    size_t len = 0, room = 0, n = 1;

    if (!f) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        return 1;
    }
    while (n > 0) {
        if (len == room) {
            room = room ? 2 * room : 1 << 16;
            bytes = realloc(bytes, room);
            if (!bytes)
                abort();
        }
        n = fread(bytes + len, 1, room - len, f);
        len += n;
    }
    (void)fclose(f);
    /* exactly this size, so that sanitizers report a read past the end */
    bytes = realloc(bytes, len + !len);
    if (!bytes)
        abort();
    (void)LLVMFuzzerTestOneInput(bytes, len);
    runs++;
    run_mutated(bytes, len);
    free(bytes);
    return 0;
}

static int run_folder(const char *folder)
{
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort), r = count < 0;

    for (int i = 0; i < count; i++) {
        char *path = str_format("%s/%s", folder, names[i]->d_name);

        if (!path)
            abort();
        if (names[i]->d_name[0] != '.')
            r |= run_file(path);
        free(path);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return r;
}

int main(int argc, char **argv)
{
    int r = 0;

    for (int i = 1; i < argc; i++) {
        struct stat s;

        if (strcmp(argv[i], "--mutate") == 0 && i + 1 < argc) {
            mutations = (uint32_t)strtoul(argv[++i], NULL, 10);
            continue;
        }
        r |= stat(argv[i], &s) == 0 && S_ISDIR(s.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
    }
    printf("%lu inputs\n", runs);
    return r;
}
