/* driver.c - what runs a fuzz target where libFuzzer does not: each argument is a file, or a folder
 * of files, to be put through it once. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned long runs;

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
    bytes = realloc(bytes, len + !len); /* so that a sanitizer sees a byte read too far */
    if (!bytes)
        abort();
    (void)LLVMFuzzerTestOneInput(bytes, len);
    free(bytes);
    runs++;
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

        r |= stat(argv[i], &s) == 0 && S_ISDIR(s.st_mode) ? run_folder(argv[i]) : run_file(argv[i]);
    }
    printf("%lu inputs\n", runs);
    return r;
}
