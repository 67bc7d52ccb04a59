/* SPDX-License-Identifier: MIT */
/* Tests the format "tfrecord:" on files written by tests/records.c. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "tests/records.h"
#include "tests/loader/dataset/opened.h"
#include "tests/tree.h"

static struct tree tree;

static void setup(void)
{
    tree_init(&tree);
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(tfrecord, .init = setup, .fini = teardown);

static void reads(struct dataset *d, uint32_t sample, const void *bytes, size_t len, int64_t label)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};

    cr_assert(eq(int, dataset_read(d, sample, &buffer, &err), 0), "%u: %s", sample, err.text);
    cr_expect(eq(sz, buffer.len, len));
    cr_expect(eq(int, memcmp(buffer.bytes, bytes, len), 0), "sample %u", sample);
    for (int i = 0; i < DATASET_PADDING; i++)
        cr_expect(eq(u8, buffer.bytes[len + (size_t)i], 0));
    cr_expect(eq(i64, dataset_get_label(d, sample), label));
    dataset_buffer_fini(&buffer);
}

static void is_bad(struct dataset *d, uint32_t sample, int code, const char *sentence)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};

    cr_expect(eq(int, dataset_read(d, sample, &buffer, &err), code));
    cr_expect(ne(ptr, (void *)strstr(err.text, sentence), NULL), "'%s' lacks '%s'", err.text,
              sentence);
    dataset_buffer_fini(&buffer);
}

Test(tfrecord, images_labels_and_names_in_the_order_of_files_and_records)
{
    struct bytes one = {0}, two = {0};
    char *large = malloc(3 << 20), name[512];
    struct dataset *d;

    for (size_t i = 0; i < 3 << 20; i++)
        large[i] = (char)(i * 7919 >> 3);
    record_put_image(&one, "first", 5, 3, "n01.JPEG");
    record_put_image(&one, large, 3 << 20, 0, "n02.JPEG"); /* larger than one read */
    record_put_image(&two, "last", 4, 7, NULL);
    tree_write_bytes(&tree, "train-00000-of-00002", &one);
    tree_write_bytes(&tree, "train-00001-of-00002", &two);
    is_bounded(tree_path(&tree, "train-0000{0..1}-of-00002"));
    d = opened_in(&tree, "tfrecord:", "train-0000{0..1}-of-00002");
    cr_assert(eq(u32, dataset_get_samples(d), 3));
    cr_expect(eq(u32, dataset_get_classes(d), 8));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 3), ""));
    reads(d, 0, "first", 5, 3);
    reads(d, 1, large, 3 << 20, 0);
    reads(d, 2, "last", 4, 7);
    (void)dataset_get_sample_name(d, 1, name, sizeof(name));
    cr_expect(ne(ptr, (void *)strstr(name, "train-00000-of-00002, n02.JPEG"), NULL), "%s", name);
    (void)dataset_get_sample_name(d, 2, name, sizeof(name));
    cr_expect(ne(ptr, (void *)strstr(name, "train-00001-of-00002, record at byte 0"), NULL), "%s",
              name);
    dataset_unref(d);
    /* The format is detected from the contents. */
    d = opened_in(&tree, "", "train-*-of-00002");
    cr_expect(eq(u32, dataset_get_samples(d), 3));
    cr_expect(eq(int, strncmp(dataset_get_name(d), "tfrecord:/", 10), 0));
    dataset_unref(d);
    d = opened_in(&tree, "", "train-00001-of-00002");
    cr_expect(eq(u32, dataset_get_samples(d), 1));
    dataset_unref(d);
    bytes_fini(&one);
    bytes_fini(&two);
    free(large);
}

Test(tfrecord, a_copy_in_text_mode_is_reported)
{
    struct bytes file = {0};
    uint8_t *image = malloc(1 << 20);

    for (uint32_t i = 0; i < 4; i++) {
        fill_random(image, 1 << 20, i);
        record_put_image(&file, image, 1 << 20, (int64_t)i, NULL);
    }
    tree_write_bytes(&tree, "x.tfrecord", &file);
    copy_as_text(&tree, "x.tfrecord", "added.tfrecord", true);
    refused(tree_path(&tree, "added.tfrecord"), -EBADMSG,
            "added.tfrecord: it was copied in text mode (each LF became CR LF): copy it again");
    copy_as_text(&tree, "x.tfrecord", "removed.tfrecord", false);
    refused(tree_path(&tree, "removed.tfrecord"), -EBADMSG,
            "; the file was probably copied in text mode (each CR LF became LF): copy it again");
    bytes_fini(&file);
    free(image);
}

Test(tfrecord, settings_select_features_of_other_names_and_types)
{
    struct bytes f = {0}, file = {0};
    struct dataset *d;

    for (int i = 0; i < 4; i++) {
        f.len = 0;
        example_put_bytes(&f, "text", i % 2 ? "dog" : "cat", 3);
        example_put_bytes(&f, "jpeg", i % 2 ? "odd" : "even!", i % 2 ? 3 : 5);
        example_put_int(&f, "number", -1 + i);
        example_put_float(&f, "real", 1);
        record_put(&file, &f);
    }
    tree_write_bytes(&tree, "x.tfrecord", &file);
    d = opened_in(&tree, "tfrecord,image=jpeg,label=number,label-offset=1:", "x.tfrecord");
    cr_expect(eq(u32, dataset_get_classes(d), 4));
    reads(d, 0, "even!", 5, 0);
    reads(d, 3, "odd", 3, 3);
    dataset_unref(d);
    d = opened_in(&tree, "tfrecord,label=text,image=jpeg,name=text:", "x.tfrecord");
    cr_expect(eq(u32, dataset_get_classes(d), 2));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 1), "dog"));
    reads(d, 1, "odd", 3, 1);
    dataset_unref(d);
    refused_in(&tree, "tfrecord:", "x.tfrecord", -EBADMSG,
               "no feature 'image/encoded' with exactly one byte string; its features: text, jpeg, "
               "number, real (choose one with image=FEATURE)");
    refused_in(&tree, "tfrecord,image=jpeg:", "x.tfrecord", -EBADMSG,
               "has no label: no feature "
               "'image/class/label'");
    d = opened_in(&tree, "tfrecord,image=jpeg,label=real:", "x.tfrecord");
    reads(d, 3, "odd", 3, 1);
    dataset_unref(d);
    refused_in(&tree, "tfrecord,image=jpeg,label=number:", "x.tfrecord", -EBADMSG,
               "x.tfrecord: the label of the record at byte 0: label '-1' is out of range: class "
               "numbers are 0 to 2147483646 (see label-offset)");
    refused_in(&tree, "tfrecord,image=jpeg,label=number,label-offset=-2:", "x.tfrecord", -EBADMSG,
               "out of range with the label-offset");
    refused_in(&tree, "tfrecord,image=jpeg,label=text,label-offset=1:", "x.tfrecord", -EINVAL,
               "label-offset needs labels that are numbers");
    refused_in(&tree, "tfrecord,picture=jpeg:", "x.tfrecord", -EINVAL,
               "there is no setting 'picture'");
    bytes_fini(&f);
    bytes_fini(&file);
}

struct gathered {
    char text[512];
};

static void gather(void *arg, const char *key, const void *value, size_t len, bool exact)
{
    struct gathered *g = arg;

    (void)exact;
    (void)snprintf(g->text + strlen(g->text), sizeof(g->text) - strlen(g->text), "%s=%.*s;", key,
                   (int)len, (const char *)value);
}

Test(tfrecord, the_other_features_are_found_by_sample)
{
    struct bytes file = {0};
    struct gathered g = {""};
    struct plenum_error err = {""};
    struct dataset *d;

    record_put_image(&file, "a", 1, 1, "one");
    record_put_image(&file, "b", 1, 2, "two");
    tree_write_bytes(&tree, "x", &file);
    d = opened_in(&tree, "tfrecord:", "x");
    cr_assert(eq(int, dataset_fields(d, 1, gather, &g, &err), 0), "%s", err.text);
    cr_expect(eq(str, g.text,
                 "image/height=64;image/class/label=2;image/filename=two;image/object/bbox/"
                 "xmin=0.25;image/format=JPEG;"));
    dataset_unref(d);
    bytes_fini(&file);
}

/* Features that no field can name: with a byte of 0 in their names, or a name that is too long. */
Test(tfrecord, features_are_found_only_by_their_whole_name)
{
    struct bytes f = {0}, file = {0};
    struct plenum_error err = {""};
    struct gathered g = {""};
    struct dataset *d;
    char key[131];

    memset(key, 'x', sizeof(key) - 1);
    key[sizeof(key) - 1] = '\0';
    example_put_bytes(&f, "caption\1", "other", 5);
    *(char *)memchr(f.p, '\1', f.len) = '\0';
    example_put_bytes(&f, key, "long", 4);
    example_put_bytes(&f, "caption", "right", 5);
    example_put_int(&f, "image/class/label", 1);
    example_put_bytes(&f, "image/encoded", "x", 1);
    record_put(&file, &f);
    tree_write_bytes(&tree, "x", &file);
    d = opened_in(&tree, "tfrecord:", "x");
    cr_assert(eq(int, dataset_fields(d, 0, gather, &g, &err), 0), "%s", err.text);
    cr_expect(eq(str, g.text, "caption=right;image/class/label=1;"));
    dataset_unref(d);
    bytes_fini(&f);
    bytes_fini(&file);
}

Test(tfrecord, other_files_are_rejected_with_a_message)
{
    struct bytes file = {0}, f = {0};

    tree_write_text(&tree, "text", "this is not a TFRecord file, as one can see");
    refused_in(&tree, "tfrecord:", "text", -EBADMSG,
               "is not a TFRecord file, or it is compressed or damaged");
    refused_in(&tree, "tfrecord:", "nothing", -ENOENT, "No such file");
    refused_in(&tree, "tfrecord:", "nothing-{0..1}", -ENOENT, "nothing-0: No such file");
    refused_in(&tree, "tfrecord:", "nothing-*", -ENOENT, "no file matches 'nothing-*'");
    tree_write(&tree, "empty", "", 0);
    refused_in(&tree, "tfrecord:", "empty", -EBADMSG, "contains no samples");
    record_put_raw(&file, "\xff\xff\xff no Example", 14);
    tree_write_bytes(&tree, "raw", &file);
    refused_in(&tree, "tfrecord:", "raw", -EBADMSG,
               "the record at byte 0 is not a "
               "tf.train.Example");
    file.len = 0;
    record_put(&file, &f);
    tree_write_bytes(&tree, "bare", &file);
    refused_in(&tree, "tfrecord:", "bare", -EBADMSG, "its features: none");
    refused_in(&tree, "tfrecord:", "{text,text}", -EINVAL, "text is given twice");
    bytes_fini(&file);
    bytes_fini(&f);
}

Test(tfrecord, numbers_and_names_are_not_mixed)
{
    struct bytes f = {0}, one = {0}, two = {0};

    example_put_bytes(&f, "image/encoded", "x", 1);
    example_put_int(&f, "image/class/label", 5);
    record_put(&one, &f);
    f.len = 0;
    example_put_bytes(&f, "image/encoded", "x", 1);
    example_put_bytes(&f, "image/class/label", "cat", 3);
    record_put(&two, &f);
    tree_write_bytes(&tree, "x-0", &one);
    tree_write_bytes(&tree, "x-1", &two);
    refused_in(&tree, "tfrecord:", "x-{0,1}", -EBADMSG,
               "x-1: label 'cat' is a name, but '5', another label of the data set, is a number");
    refused_in(&tree, "tfrecord:", "x-{1,0}", -EBADMSG,
               "x-0: label '5' is a number, but 'cat', another label of the data set, is a name");
    bytes_fini(&f);
    bytes_fini(&one);
    bytes_fini(&two);
}

Test(tfrecord, the_last_feature_of_a_name_counts)
{
    struct bytes f = {0}, file = {0};
    struct dataset *d;

    example_put_bytes(&f, "image/encoded", "first", 5);
    example_put_int(&f, "image/class/label", 1);
    example_put_bytes(&f, "image/encoded", "second", 6);
    example_put_int(&f, "image/class/label", 2);
    record_put(&file, &f);
    tree_write_bytes(&tree, "x", &file);
    d = opened_in(&tree, "tfrecord:", "x");
    reads(d, 0, "second", 6, 2);
    dataset_unref(d);
    bytes_fini(&f);
    bytes_fini(&file);
}

/* The first bytes of these images occur in the record many times; the stored offset must still be
 * right.
 */
Test(tfrecord, repetitive_images_are_found)
{
    static const size_t lens[] = {1, 63, 64, 65, 1000, 70000};
    struct bytes f = {0}, file = {0};
    char zeros[70001] = {0};
    struct dataset *d;

    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        f.len = 0;
        zeros[lens[i] - 1] = 'e';
        example_put_bytes(&f, "decoy", zeros, lens[i] - 1);
        example_put_bytes(&f, "decoy2", zeros, lens[i] - 1);
        example_put_bytes(&f, "image/encoded", zeros, lens[i]);
        example_put_int(&f, "image/class/label", (int64_t)i);
        /* more than is read together with the image */
        example_put_bytes(&f, "later", zeros, 70000);
        record_put(&file, &f);
        zeros[lens[i] - 1] = 0;
    }
    tree_write_bytes(&tree, "x", &file);
    d = opened_in(&tree, "tfrecord:", "x");
    for (uint32_t i = 0; i < ARRAY_LEN(lens); i++) {
        zeros[lens[i] - 1] = 'e';
        reads(d, i, zeros, lens[i], i);
        zeros[lens[i] - 1] = 0;
    }
    dataset_unref(d);
    bytes_fini(&f);
    bytes_fini(&file);
}

Test(tfrecord, a_record_with_a_wrong_checksum_is_a_bad_sample)
{
    struct bytes file = {0};
    struct dataset *d;
    size_t second;

    record_put_image(&file, "good", 4, 1, "a");
    second = file.len;
    record_put_image(&file, "damaged", 7, 2, "b");
    record_put_image(&file, "good too", 8, 3, "c");
    file.p[second + 60] ^= 1;
    tree_write_bytes(&tree, "x", &file);
    d = opened_in(&tree, "tfrecord:", "x");
    cr_assert(eq(u32, dataset_get_samples(d), 3));
    reads(d, 0, "good", 4, 1);
    is_bad(d, 1, -EBADMSG, "is damaged: its checksum is wrong");
    reads(d, 2, "good too", 8, 3);
    dataset_unref(d);
    bytes_fini(&file);
}

static void write_at(const char *name, size_t at, uint8_t byte, bool keep_time)
{
    int fd = open(tree_path(&tree, name), O_RDWR);
    struct stat st;

    cr_assert(eq(int, fstat(fd, &st), 0));
    cr_assert(eq(i64, pwrite(fd, &byte, 1, (off_t)at), 1));
    if (keep_time)
        cr_assert(eq(int, futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}), 0));
    else
        cr_assert(eq(int, futimens(fd, (struct timespec[2]){{1000, 0}, {1000, 0}}), 0));
    (void)close(fd);
}

Test(tfrecord, changes_of_an_open_file_are_detected)
{
    struct bytes file = {0};
    struct dataset *d;

    record_put_image(&file, "one", 3, 1, "a");
    record_put_image(&file, "two", 3, 2, "b");
    tree_write_bytes(&tree, "x", &file);
    d = opened_in(&tree, "tfrecord:", "x");
    reads(d, 0, "one", 3, 1);
    /* A bit flips on the disk: nothing was written, and no time has changed. */
    write_at("x", 60, file.p[60] ^ 4, true);
    is_bad(d, 0, -EBADMSG, "checksum is wrong");
    write_at("x", 60, file.p[60], true);
    reads(d, 0, "one", 3, 1);
    /* Another process has written to it. */
    write_at("x", 60, file.p[60] ^ 4, false);
    is_bad(d, 0, -ESTALE, "has changed since the data set was indexed");
    dataset_unref(d);

    tree_write_bytes(&tree, "y", &file);
    d = opened_in(&tree, "tfrecord:", "y");
    cr_assert(eq(int, truncate(tree_path(&tree, "y"), 70), 0));
    is_bad(d, 1, -ESTALE, "has changed");
    dataset_unref(d);

    /* A file that is replaced: the open data set keeps working, and the next dataset_open() sees
     * the new file. */
    tree_write_bytes(&tree, "z", &file);
    d = opened_in(&tree, "tfrecord:", "z");
    reads(d, 0, "one", 3, 1);
    file.len = 0;
    record_put_image(&file, "three", 5, 3, "a");
    tree_write_bytes(&tree, "new", &file);
    cr_assert(eq(int, rename(tree_path(&tree, "new"), tree_path(&tree, "z")), 0));
    reads(d, 1, "two", 3, 2);
    dataset_unref(d);
    d = opened_in(&tree, "tfrecord:", "z");
    reads(d, 0, "three", 5, 3);
    dataset_unref(d);
    bytes_fini(&file);
}

Test(tfrecord, parts_add_up_to_the_whole)
{
    struct bytes file = {0};
    char name[64], format[64];

    for (int i = 0; i < 7; i++) {
        file.len = 0;
        for (int k = 0; k <= i; k++)
            record_put_image(&file, "x", 1, i, NULL);
        (void)snprintf(name, sizeof(name), "x-%d", i);
        tree_write_bytes(&tree, name, &file);
    }
    for (unsigned parts = 1; parts <= 7; parts++) {
        int64_t label = 0, left = 1;

        for (unsigned part = 0; part < parts; part++) {
            struct dataset *d;

            (void)snprintf(format, sizeof(format), "tfrecord,part=%u/%u:", part, parts);
            d = opened_in(&tree, format, "x-{0..6}");
            for (uint32_t i = 0; i < dataset_get_samples(d); i++) {
                cr_assert(eq(i64, dataset_get_label(d, i), label));
                if (--left == 0)
                    left = ++label + 1;
            }
            dataset_unref(d);
        }
        cr_expect(eq(i64, label, 7), "%u parts", parts);
    }
    cr_assert(eq(int, unlink(tree_path(&tree, "x-6")), 0));
    dataset_unref(opened_in(
        &tree, "tfrecord,part=0/2:", "x-{0..6}")); /* the other part may be on another host */
    refused_in(&tree, "tfrecord,part=1/2:", "x-{0..6}", -ENOENT, "x-6: No such file");
    refused_in(&tree, "tfrecord,part=0/8:", "x-{0..6}", -EINVAL, "has 7 files");
    refused_in(&tree, "tfrecord,part=2/2:", "x-{0..6}", -EINVAL,
               "part=2/2 must be i/k with i below k");
    refused_in(&tree, "tfrecord,part=-2/-1:", "x-{0..6}", -EINVAL, "must be i/k");
    refused_in(&tree, "tfrecord,part=1:", "x-{0..6}", -EINVAL, "must be i/k");
    refused_in(&tree, "tfrecord,part=-1/2:", "x-{0..6}", -EINVAL, "must be i/k");
    refused_in(&tree, "tfrecord,part=0/2x:", "x-{0..6}", -EINVAL, "must be i/k");
    bytes_fini(&file);
}

Test(tfrecord, more_archives_than_descriptors_can_be_read)
{
    struct rlimit limit = {.rlim_cur = 64, .rlim_max = 64};
    struct bytes file = {0};
    struct dataset *d;
    char name[64];

    for (int i = 0; i < 200; i++) {
        file.len = 0;
        record_put_image(&file, &i, sizeof(i), i, NULL);
        (void)snprintf(name, sizeof(name), "x-%03d", i);
        tree_write_bytes(&tree, name, &file);
    }
    cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
    d = opened_in(&tree, "tfrecord:", "x-*");
    for (int round = 0; round < 2; round++)
        for (uint32_t i = 0; i < 200; i++)
            reads(d, i, &i, sizeof(i), i);
    dataset_unref(d);
    bytes_fini(&file);
}

/* ---- every byte ---- */

/* A small file and its contents. */
struct small {
    struct bytes file;
    size_t ends[4]; /* of records */
};

static const char *const images[3] = {"first image", "the second", "3"};

static void make_small(struct small *s)
{
    *s = (struct small){0};
    for (int i = 0; i < 3; i++) {
        struct bytes f = {0};

        example_put_bytes(&f, "image/encoded", images[i], strlen(images[i]));
        example_put_int(&f, "image/class/label", i);
        record_put(&s->file, &f);
        s->ends[i + 1] = s->file.len;
        bytes_fini(&f);
    }
}

/* Check that dataset_open() fails with a message that names the file, or that all delivered samples
 * are correct. Returns the number of samples; `*bad` is the number of bad ones. */
static int survives(const uint8_t *bytes, size_t len, int *bad)
{
    struct dataset_options options = {.cache_dir = "/dev/null/none", .threads = 1};
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};
    struct dataset *d = NULL;
    char name[600];
    int count, r;

    *bad = 0;
    tree_write(&tree, "small", bytes, len);
    (void)snprintf(name, sizeof(name), "tfrecord:%s", tree_path(&tree, "small"));
    r = dataset_open(name, &options, &d, &err);
    if (r < 0) {
        cr_assert(eq(int, r, -EBADMSG), "%s", err.text);
        cr_assert(ne(ptr, (void *)strstr(err.text, tree_path(&tree, "small")), NULL), "%s",
                  err.text);
        return -1;
    }
    count = (int)dataset_get_samples(d);
    cr_assert(le(int, count, 3));
    for (int i = 0; i < count; i++) {
        r = dataset_read(d, (uint32_t)i, &buffer, &err);
        if (r < 0) {
            cr_assert(eq(int, r, -EBADMSG));
            ++*bad;
            continue;
        }
        cr_assert(eq(sz, buffer.len, strlen(images[i])));
        cr_assert(eq(int, memcmp(buffer.bytes, images[i], buffer.len), 0));
        cr_assert(eq(i64, dataset_get_label(d, (uint32_t)i), i));
    }
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
    return count;
}

Test(tfrecord, truncated_at_every_byte_it_has_whole_records_or_is_rejected, .timeout = 600)
{
    struct small s;
    int bad;

    make_small(&s);
    for (size_t len = 0; len <= s.file.len; len++) {
        int whole = -1, got;

        for (int i = 1; i <= 3; i++)
            if (len == s.ends[i])
                whole = i;
        got = survives(s.file.p, len, &bad);
        cr_assert(eq(int, got, whole), "cut at byte %zu of %zu", len, s.file.len);
        cr_assert(eq(int, bad, 0));
    }
    bytes_fini(&s.file);
}

Test(tfrecord, no_flipped_bit_is_ever_delivered, .timeout = 600)
{
    struct small s;
    int bad;

    make_small(&s);
    for (size_t at = 0; at < s.file.len; at++)
        for (int bit = 0; bit < 8; bit++) {
            int got;
            size_t record = at < s.ends[1] ? 0 : at < s.ends[2] ? 1 : 2;

            s.file.p[at] ^= (uint8_t)(1 << bit);
            got = survives(s.file.p, s.file.len, &bad);
            /* A change in a length or its checksum is rejected; one in the data or its checksum
             * makes one sample bad. */
            if (at - s.ends[record] < 12)
                cr_assert(eq(int, got, -1), "bit %d of byte %zu", bit, at);
            else
                cr_assert(eq(int, got, 3), "bit %d of byte %zu", bit, at);
            cr_assert(eq(int, bad, got == 3), "bit %d of byte %zu", bit, at);
            s.file.p[at] ^= (uint8_t)(1 << bit);
        }
    bytes_fini(&s.file);
}
