/* SPDX-License-Identifier: MIT */
/* Checks that rendering from a data set that keeps hints of tiles gives the same pixels as without
 * hints, in the first epoch and in later ones, by several threads, and whatever happens to the
 * hints or to the files. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/hint_cache.h"
#include "loader/render/render.h"
#include "tests/loader/image/made.h"
#include "tests/tree.h"

enum { SIDE = 32, BYTES = SIDE * SIDE * 3 };

static struct tree tree;

static void setup(void)
{
    tree_init(&tree);
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(tiles, .init = setup, .fini = teardown);

static void write_photo(uint32_t number, uint32_t width, uint32_t height)
{
    struct made_jpeg spec = {.name = "photo", .width = width, .height = height};
    char name[64];
    struct made m;

    spec.colour = number % 5 == 4 ? MADE_GREY : MADE_COLOUR;
    spec.restart = number % 4 == 3 ? 3 : 0;
    spec.quality = 92;
    spec.seed = number;
    m = make_jpeg(&spec);
    (void)snprintf(name, sizeof(name), "data/c/%02u.jpg", number);
    tree_write(&tree, name, m.bytes, m.len);
    free(m.bytes);
}

static struct render_spec opened(bool hints)
{
    struct dataset_options options = {.hints = hints};
    struct render_spec spec = {.store = {PLENUM_UINT8, PLENUM_NHWC, 3}, .jpeg = IMAGE_JPEG_PLENUM};
    struct plenum_error err;

    cr_assert(eq(int, dataset_open(tree_path(&tree, "data"), &options, &spec.dataset, &err), 0),
              "%s", err.text);
    cr_assert(eq(int, views_parse("rrc(32) flip(0.5)", &spec.views, &err), 0));
    spec.order = (struct order){.seed = 7, .n = dataset_get_samples(spec.dataset), .repeat = 1};
    spec.bad = PLENUM_BAD_FAIL;
    return spec;
}

static int render(const struct render_spec *spec, struct render_scratch *scratch, uint64_t epoch,
                  uint64_t position, uint8_t *to)
{
    struct render_result result;

    return render_position(spec, scratch, (struct order_place){epoch, position}, to, &result, NULL);
}

struct work {
    const struct render_spec *spec;
    const uint8_t *want; /* [epochs][samples][BYTES] */
    uint64_t epochs, skew;
    int different;
};

static void *render_all(void *arg)
{
    struct work *w = arg;
    uint64_t n = dataset_get_samples(w->spec->dataset);
    struct render_scratch scratch = {0};
    uint8_t got[BYTES];

    for (uint64_t e = 0; e < w->epochs; e++)
        for (uint64_t i = 0; i < n; i++) {
            uint64_t position = (i + w->skew) % n;

            w->different += render(w->spec, &scratch, e, position, got) < 0 ||
                            memcmp(got, w->want + (e * n + position) * BYTES, BYTES) != 0;
        }
    render_scratch_fini(&scratch);
    return NULL;
}

/* Render without hints. */
static uint8_t *want_of(uint64_t epochs)
{
    struct render_spec spec = opened(false);
    uint64_t n = dataset_get_samples(spec.dataset);
    uint8_t *want = malloc(epochs * n * BYTES);
    struct render_scratch scratch = {0};

    cr_assert(eq(ptr, dataset_get_hints(spec.dataset), NULL));
    for (uint64_t e = 0; e < epochs; e++)
        for (uint64_t i = 0; i < n; i++)
            cr_assert(eq(int, render(&spec, &scratch, e, i, want + (e * n + i) * BYTES), 0));
    render_scratch_fini(&scratch);
    dataset_unref(spec.dataset);
    return want;
}

Test(tiles, several_threads_and_epochs)
{
    enum { EPOCHS = 6, THREADS = 4 };
    uint8_t *want;

    for (uint32_t i = 0; i < 20; i++)
        write_photo(i, 120 + i * 7, 200 - i * 5);
    want = want_of(EPOCHS);
    for (int round = 0; round < 2; round++) {
        struct render_spec spec = opened(true);
        struct hint_cache *hints = dataset_get_hints(spec.dataset);
        struct work work[THREADS];
        pthread_t threads[THREADS];

        cr_assert(ne(ptr, hints, NULL));
        for (uint64_t i = 0; i < THREADS; i++) {
            work[i] = (struct work){&spec, want, EPOCHS, i * 3, 0};
            cr_assert(eq(int, pthread_create(&threads[i], NULL, render_all, &work[i]), 0));
        }
        for (int i = 0; i < THREADS; i++) {
            (void)pthread_join(threads[i], NULL);
            cr_expect(eq(int, work[i].different, 0));
        }
        /* The same crops need no more rows than before. */
        cr_expect(round == 0 ? hint_cache_written(hints) > 2000 : hint_cache_written(hints) == 0,
                  "%llu", (unsigned long long)hint_cache_written(hints));
        cr_expect(eq(int, hint_cache_state(hints), 0));
        dataset_unref(spec.dataset);
    }
    free(want);
}

/* Write in place, so that a test that writes thousands of files does not wait for the disk each
 * time. */
static void overwrite(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_TRUNC);

    cr_assert(eq(int, io_write_all(fd, bytes, len), 0));
    (void)close(fd);
}

/* No byte of the hint cache, whatever its value, changes a pixel. */
Test(tiles, every_byte_of_the_hints)
{
    enum { EPOCHS = 2 };
    static uint8_t bytes[1 << 14], changed[1 << 14];
    struct render_spec spec;
    struct work work;
    char path[4096];
    uint8_t *want;
    struct stat st;
    int fd;

    write_photo(0, 160, 120);
    write_photo(1, 130, 150);
    want = want_of(EPOCHS);
    spec = opened(true);
    work = (struct work){&spec, want, EPOCHS, 0, 0};
    (void)render_all(&work);
    cr_assert(gt(u64, hint_cache_written(dataset_get_hints(spec.dataset)), 300));
    (void)snprintf(path, sizeof(path), "%s.notes", dataset_get_index_path(spec.dataset));
    dataset_unref(spec.dataset);
    fd = open(path, O_RDONLY);
    cr_assert(eq(int, fstat(fd, &st), 0));
    cr_assert(le(i64, st.st_size, (int64_t)sizeof(bytes)));
    cr_assert(eq(int, io_pread_all(fd, bytes, (size_t)st.st_size, 0), 0));
    (void)close(fd);
    for (size_t i = 0; i < (size_t)st.st_size; i++) {
        memcpy(changed, bytes, sizeof(bytes));
        changed[i] ^= i % 2 ? 0x40 : 0x05;
        overwrite(path, changed, (size_t)st.st_size);
        spec = opened(true);
        (void)render_all(&work);
        dataset_unref(spec.dataset);
        cr_assert(eq(int, work.different, 0), "byte %zu", i);
    }
    free(want);
}

/* The old hint of a file that is rewritten with the same size and time has no effect. */
Test(tiles, files_that_change)
{
    enum { EPOCHS = 3 };
    const char *path = tree_path(&tree, "data/c/00.jpg");
    struct render_spec spec;
    struct work work;
    struct made a, b;
    uint8_t *want;
    struct stat st;

    write_photo(0, 200, 200);
    write_photo(1, 200, 200);
    a = read_file(path);
    b = read_file(tree_path(&tree, "data/c/01.jpg"));
    /* The shorter file is padded after the end of its image, to the length of the longer one. */
    cr_assert(a.bytes && b.bytes);
    if (a.len < b.len) {
        struct made t = a;

        a = b;
        b = t;
    }
    b.bytes = realloc(b.bytes, a.len);
    memset(b.bytes + b.len, 0, a.len - b.len);
    tree_write(&tree, "data/c/00.jpg", a.bytes, a.len);
    cr_assert(eq(int, stat(path, &st), 0));
    spec = opened(true);
    want = want_of(EPOCHS);
    work = (struct work){&spec, want, EPOCHS, 0, 0};
    (void)render_all(&work);
    cr_expect(eq(int, work.different, 0));
    free(want);

    {
        struct timespec times[2] = {st.st_atim, st.st_mtim};
        int fd = open(path, O_WRONLY);

        cr_assert(eq(i64, pwrite(fd, b.bytes, a.len, 0), (int64_t)a.len));
        (void)close(fd);
        cr_assert(eq(int, utimensat(AT_FDCWD, path, times, 0), 0));
    }
    want = want_of(EPOCHS);
    work.want = want;
    (void)render_all(&work);
    /* The open data set no longer shows a file that has changed, so one sample per epoch is
     * different. */
    cr_expect(eq(int, work.different, EPOCHS));
    dataset_unref(spec.dataset);
    free(want);
    free(a.bytes);
    free(b.bytes);
}
