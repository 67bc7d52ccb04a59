/* SPDX-License-Identifier: MIT */
/* fuzz_shelf.c - reads arbitrary bytes as a file of the cache of samples. The header and the
 * checksums of rows are corrected, so that the code after the checks is reached. Rows that are
 * reported must be within bounds, and reading them must return bytes that match their checksum, or
 * an error. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/util.h"
#include "tests/loader/cache/open_shelf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ROW = 48, ROWS_AT = 4096, FOUND_MAX = 64 };

struct found {
    uint32_t count, number[FOUND_MAX];
    struct keep_bytes bytes[FOUND_MAX];
};

static bool note_found(void *arg, uint32_t number, const struct keep_bytes *bytes)
{
    struct found *f = arg;

    if (number >= SHELF_ROWS || bytes->len == 0 || bytes->len > SHELF_RECORD_MAX)
        abort();
    if (f->count == FOUND_MAX)
        return false;
    f->number[f->count] = number;
    f->bytes[f->count++] = *bytes;
    return true;
}

/* Write the input after the header that shelf_write() has written. Rows whose last byte is odd get
 * correct checksums. */
static void write_file(const char *path, const uint8_t *data, size_t size)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    uint8_t row[ROW];

    if (fd < 0)
        abort();
    for (size_t i = 0; (i + 1) * ROW <= size && i < SHELF_ROWS; i++) {
        uint64_t check;

        memcpy(row, data + i * ROW, ROW);
        if (row[ROW - 1] & 1) {
            row[35] = 0; /* most lengths are possible */
            check = XXH3_64bits_withSeed(row, ROW - 8, i);
            memcpy(row + ROW - 8, &check, sizeof(check));
        }
        if (pwrite(fd, row, ROW, (off_t)(ROWS_AT + i * ROW)) != ROW)
            abort();
    }
    if (size % 3 == 0 && ftruncate(fd, (off_t)size) < 0) /* in the header or in the rows */
        abort();
    (void)close(fd);
}

static void read_found(const struct shelf *s, const struct found *f)
{
    static uint8_t bytes[SHELF_RECORD_MAX];

    for (uint32_t i = 0; i < f->count; i++) {
        int r = shelf_read(s, f->number[i], &f->bytes[i], bytes);

        if (r == 0 && shelf_hash(&f->bytes[i].key, bytes, f->bytes[i].len) != f->bytes[i].hash)
            abort();
        if (r < 0 && r != -EBADMSG)
            abort();
    }
}

static bool note_followed(void *arg, uint32_t number, const struct keep_bytes *bytes)
{
    return bytes && note_found(arg, number, bytes);
}

/* Read what another process has written. */
static void follow(const char *folder)
{
    struct found found = {0};
    struct shelf *s;

    if (shelf_attach(folder, &s, NULL) < 0)
        abort();
    (void)shelf_follow(s, note_followed, &found);
    read_found(s, &found);
    shelf_close(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char folder[64], path[100], lock[100];
    struct found found = {0};
    struct keep_bytes one = {.key = {{1, 2}}, .len = 1};
    struct shelf *s;

    (void)snprintf(folder, sizeof(folder), "/tmp/plenum-fuzz-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    (void)snprintf(path, sizeof(path), "%s/0000.samples", folder);
    (void)snprintf(lock, sizeof(lock), "%s/lock", folder);
    if (open_shelf(folder, note_found, &found, &s, NULL) == 0) {
        one.hash = shelf_hash(&one.key, "x", 1);
        if (shelf_write(s, 7, &one, "x") == 0) {
            shelf_close(s);
            write_file(path, data, size);
            follow(folder);
            if (open_shelf(folder, note_found, &found, &s, NULL) < 0)
                abort();
            read_found(s, &found);
        }
        shelf_close(s);
    }
    (void)unlink(path);
    (void)unlink(lock);
    (void)rmdir(folder);
    return 0;
}
