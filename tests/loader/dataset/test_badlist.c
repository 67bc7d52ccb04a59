/* SPDX-License-Identifier: MIT */
/* Tests lists of bad samples: they are read as written, damaged ones are rejected, and they affect
 * a data set as specified. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/badlist.h"
#include "tests/loader/dataset/opened.h"
#include "tests/tree.h"

static struct tree tree;
static const uint8_t mine[16] = {1, 2, 3, 0xfe}, others[16] = {1, 2, 3, 0xff};

static void setup(void)
{
    tree_init(&tree);
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(badlist, .init = setup, .fini = teardown);

static char *read_whole(const char *path, size_t *len)
{
    int fd = open(path, O_RDONLY);
    struct stat st;
    char *text;

    cr_assert(ge(int, fd, 0));
    cr_assert(eq(int, fstat(fd, &st), 0));
    *len = (size_t)st.st_size;
    text = malloc(*len + 1);
    cr_assert(eq(int, io_pread_all(fd, text, *len, 0), 0));
    (void)close(fd);
    return text;
}

/* Parse a copy of the text, because badlist_parse() takes ownership of it. */
static int parse(const char *text, size_t len, const uint8_t fingerprint[16], struct badlist *ret)
{
    char *copy = malloc(len + 1);

    memcpy(copy, text, len);
    return badlist_parse(copy, len, fingerprint, 1000, ret);
}

Test(badlist, lists_are_read_as_written)
{
    for (uint32_t every = 1; every < 2000; every += every / 2 + 1) {
        struct dataset_bad bad[1000];
        const char *path = tree_path(&tree, "list");
        struct badlist list;
        uint32_t count = 0;

        for (uint32_t i = every / 3; i < 1000; i += every)
            bad[count++] =
                (struct dataset_bad){i, i % 2 ? "odd \"reason\"" : "two\nlines", i % 3 == 0,
                                     i % 5 ? i * UINT64_C(0x9E3779B97F4A7C15) : 0};
        cr_assert(eq(int, badlist_write(path, "folder:/a\nb", mine, bad, count), 0));
        cr_assert(eq(int, badlist_read(path, mine, 1000, &list), 0));
        cr_assert(eq(u32, list.count, count));
        for (uint32_t i = 0; i < count; i++) {
            cr_assert(eq(u32, list.samples[i].sample, bad[i].sample));
            cr_assert(eq(int, list.samples[i].junk, bad[i].junk));
            cr_assert(eq(u64, list.samples[i].content, bad[i].content));
            cr_assert(eq(str, (char *)list.samples[i].reason,
                         bad[i].sample % 2 ? "odd \"reason\"" : "two?lines"));
        }
        for (uint32_t i = 0; i < 1000; i++) {
            int64_t want = -1; /* found by a linear search */

            for (uint32_t k = 0; k < count; k++)
                if (bad[k].sample == i)
                    want = k;
            cr_assert(eq(i64, badlist_find(&list, i), want));
        }
        badlist_fini(&list);
        cr_expect(eq(int, badlist_read(path, others, 1000, &list), 0));
        cr_expect(eq(u32, list.count, 0), "another data set's list has no entries for this one");
        badlist_fini(&list);
        if (count > 0)
            cr_expect(eq(int, badlist_read(path, mine, bad[count - 1].sample, &list), -EBADMSG));
    }
}

Test(badlist, the_hash_covers_the_sample_numbers)
{
    struct dataset_bad a[] = {{3, "x", false, 0}, {5, "y", false, 0}},
                       b[] = {{3, "z", false, 0}, {5, "z", false, 0}},
                       c[] = {{3, "x", false, 0}, {6, "y", false, 0}};
    struct badlist one = {a, 2, NULL}, two = {b, 2, NULL}, three = {c, 2, NULL},
                   four = {a, 1, NULL}, none = {0};

    cr_expect(eq(u64, badlist_hash(&one), badlist_hash(&two)), "reasons do not change the hash");
    cr_expect(ne(u64, badlist_hash(&one), badlist_hash(&three)));
    cr_expect(ne(u64, badlist_hash(&one), badlist_hash(&four)));
    cr_expect(eq(u64, badlist_hash(&none), 0));
}

/* A truncated list would let bad samples through, and change the data set's fingerprint. */
Test(badlist, truncated_or_changed_at_any_byte_it_is_rejected)
{
    struct dataset_bad bad[] = {
        {3, "cut off", false, 0x1234}, {40, "no JPEG", true, UINT64_MAX}, {999, "empty", false, 0}};
    struct badlist list;
    size_t len;
    char *text;

    cr_assert(eq(int, badlist_write(tree_path(&tree, "list"), "x", mine, bad, 3), 0));
    text = read_whole(tree_path(&tree, "list"), &len);
    for (size_t cut = 0; cut < len; cut++)
        cr_expect(eq(int, parse(text, cut, mine, &list), -EBADMSG), "cut at %zu", cut);
    for (size_t at = 0; at < len; at++)
        for (int bit = 0; bit < 8; bit++) {
            text[at] = (char)(text[at] ^ 1 << bit);
            cr_expect(eq(int, parse(text, len, mine, &list), -EBADMSG), "bit %d of byte %zu", bit,
                      at);
            text[at] = (char)(text[at] ^ 1 << bit);
        }
    cr_expect(eq(int, parse(text, len, mine, &list), 0));
    badlist_fini(&list);
    free(text);
}

static void write_set(const char *name)
{
    char path[128];

    for (int i = 0; i < 10; i++) {
        (void)snprintf(path, sizeof(path), "%s/a/%d.jpg", name, i);
        tree_write_text(&tree, path, "content");
    }
}

static void keep(const char *name, const struct dataset_bad *bad, uint32_t count,
                 struct dataset_kept *kept)
{
    struct dataset_options options = {.forget_bad = true};
    struct plenum_error err = {""};
    struct dataset *d = NULL;

    cr_assert(eq(int, dataset_open(tree_path(&tree, name), &options, &d, &err), 0), "%s", err.text);
    cr_assert(eq(int, dataset_keep_bad(d, bad, count, kept, &err), 0), "%s", err.text);
    dataset_unref(d);
}

/* Check how many bad samples are known, and the fingerprint. */
static void expect_known(const char *name, uint32_t want, const uint8_t fingerprint[16])
{
    struct dataset *d = opened(tree_path(&tree, name));

    cr_expect(eq(u32, dataset_get_known_bad(d), want), "%s", name);
    cr_expect(eq(int, memcmp(dataset_get_fingerprint(d), fingerprint, 16), 0), "%s", name);
    dataset_unref(d);
}

Test(badlist, samples_on_it_are_refused_and_part_of_the_fingerprint)
{
    struct dataset_bad bad[] = {{3, "it is cut off", false, 0}, {7, "it is not JPEG", false, 0}};
    struct dataset_kept kept, again;
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    uint8_t without[16];
    struct dataset *d;

    write_set("data");
    d = opened(tree_path(&tree, "data"));
    memcpy(without, dataset_get_fingerprint(d), 16);
    dataset_unref(d);
    keep("data", bad, 2, &kept);
    cr_expect(kept.changed);
    cr_expect(ne(int, memcmp(kept.fingerprint, without, 16), 0));
    expect_known("data", 2, kept.fingerprint);
    d = opened(tree_path(&tree, "data"));
    for (uint32_t i = 0; i < 10; i++) {
        int r = dataset_read(d, i, &buffer, &err);

        cr_expect(eq(int, r, i == 3 || i == 7 ? -EBADMSG : 0));
        if (i == 7)
            cr_expect(
                ne(ptr, strstr(err.text, "data/a/7.jpg is known to be bad: it is not JPEG"), NULL),
                "%s", err.text);
    }
    dataset_buffer_fini(&buffer);
    dataset_unref(d);

    keep("data", bad, 2, &again);
    cr_expect(not(again.changed), "writing an equal list does not change the fingerprint");
    keep("data", bad, 1, &again);
    cr_expect(again.changed);
    cr_expect(ne(int, memcmp(kept.fingerprint, again.fingerprint, 16), 0),
              "a different list gives a different fingerprint");
    keep("data", NULL, 0, &again);
    cr_expect(again.changed);
    cr_expect(eq(int, memcmp(again.fingerprint, without, 16), 0));
    expect_known("data", 0, without);
}

/* For a pipeline with the word junk, some samples on the list are good, so the list and the
 * fingerprint differ. For all other pipelines, it does not matter which samples these are. */
Test(badlist, pipelines_with_junk_ignore_entries)
{
    struct dataset_bad bad[] = {{3, "it is cut off", false, 0}, {7, "4 bytes", true, 0}}, old[2];
    struct dataset_options options = {.junk = true};
    struct dataset_kept kept, again;
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    struct dataset *d;

    write_set("data");
    keep("data", bad, 1, &kept);
    cr_assert(eq(int, dataset_open(tree_path(&tree, "data"), &options, &d, &err), 0));
    cr_expect(eq(int, memcmp(dataset_get_fingerprint(d), kept.fingerprint, 16), 0));
    dataset_unref(d);

    keep("data", bad, 2, &again);
    expect_known("data", 2, again.fingerprint);
    cr_assert(eq(int, dataset_open(tree_path(&tree, "data"), &options, &d, &err), 0));
    cr_expect(eq(u32, dataset_get_known_bad(d), 1));
    cr_expect(eq(int, memcmp(dataset_get_fingerprint(d), kept.fingerprint, 16), 0),
              "a sample with junk is read as if it were not on the list");
    cr_expect(eq(int, dataset_read(d, 3, &buffer, &err), -EBADMSG));
    cr_expect(eq(int, dataset_read(d, 7, &buffer, &err), 0));
    dataset_unref(d);
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(int, dataset_read(d, 7, &buffer, &err), -EBADMSG));
    cr_expect(ne(ptr, strstr(err.text, "data/a/7.jpg is known to be bad: 4 bytes"), NULL), "%s",
              err.text);
    dataset_unref(d);

    memcpy(old, bad, sizeof(old)); /* as written by a version that does not know the word */
    old[1].junk = false;
    keep("data", old, 2, &kept);
    cr_expect(kept.changed, "the lists differ for pipelines with junk");
    cr_expect(eq(int, memcmp(kept.fingerprint, again.fingerprint, 16), 0),
              "the fingerprint is "
              "equal for other pipelines");
    cr_assert(eq(int, dataset_open(tree_path(&tree, "data"), &options, &d, &err), 0));
    cr_expect(eq(int, memcmp(dataset_get_fingerprint(d), kept.fingerprint, 16), 0),
              "two loaders with these lists have different fingerprints");
    dataset_unref(d);
    dataset_buffer_fini(&buffer);
}

Test(badlist, belongs_to_the_data_not_to_its_name)
{
    struct dataset_bad bad[] = {{3, "it is cut off", false, 0}};
    struct dataset_options options = {0};
    const char *roots[] = {tree.root};
    struct dataset_kept kept;
    struct dataset *d;

    write_set("data");
    write_set("copy");
    write_set("more");
    tree_write_text(&tree, "more/a/10.jpg", "x");
    keep("data", bad, 1, &kept);
    expect_known("copy", 1, kept.fingerprint);
    d = opened(tree_path(&tree, "more"));
    cr_expect(eq(u32, dataset_get_known_bad(d), 0));
    dataset_unref(d);
    options.roots = roots; /* a service has a separate index file */
    options.num_roots = 1;
    cr_assert(eq(int, dataset_open(tree_path(&tree, "data"), &options, &d, NULL), 0));
    cr_expect(eq(u32, dataset_get_known_bad(d), 1));
    dataset_unref(d);
}

/* Get the path of the data set's list, which must be valid. */
static void path_of_list(char ret[512])
{
    struct dataset *d = opened(tree_path(&tree, "data"));

    (void)snprintf(ret, 512, "%s", dataset_get_bad_path(d));
    cr_expect(eq(str, (char *)dataset_get_warning(d), ""));
    dataset_unref(d);
}

/* If it were used, any user who can write to a shared folder could decide which samples other
 * users' runs show. */
Test(badlist, one_that_other_users_can_write_is_ignored)
{
    struct dataset_bad bad[] = {{3, "it is cut off", false, 0}};
    struct dataset_kept kept;
    struct dataset *d;
    char path[512];

    write_set("data");
    keep("data", bad, 1, &kept);
    path_of_list(path);
    cr_assert(eq(int, chmod(path, 0620), 0));
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(u32, dataset_get_known_bad(d), 0));
    cr_expect(ne(ptr, (void *)strstr(dataset_get_warning(d), path), NULL));
    cr_expect(ne(ptr, (void *)strstr(dataset_get_warning(d), "is ignored"), NULL));
    dataset_unref(d);
}

Test(badlist, a_damaged_list_is_named)
{
    struct dataset_bad bad[] = {{3, "it is cut off", false, 0}};
    struct plenum_error err = {""};
    struct dataset_kept kept;
    struct dataset *d;
    char path[512];

    write_set("data");
    keep("data", bad, 1, &kept);
    path_of_list(path);
    cr_assert(eq(int, truncate(path, 60), 0));
    cr_expect(eq(int, dataset_open(tree_path(&tree, "data"), NULL, &d, &err), -EBADMSG));
    cr_expect(ne(ptr, strstr(err.text, path), NULL), "%s", err.text);
    cr_expect(ne(ptr,
                 strstr(err.text, "the list of bad samples is damaged: remove it, or rebuild it"),
                 NULL),
              "%s", err.text);
    keep("data", bad, 1, &kept);
    cr_expect(kept.changed);
    expect_known("data", 1, kept.fingerprint);
}
