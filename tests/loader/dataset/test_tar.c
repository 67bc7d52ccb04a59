/* SPDX-License-Identifier: MIT */
/* Tests the format "tar:" through dataset.h: what a sample is and how it is labelled, which
 * archives are rejected, and archives that are truncated or changed at every byte.
 * test_tar_writers.sh tests archives by other writers. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/tar_writer.h"
#include "tests/loader/dataset/opened.h"
#include "tests/tree.h"

int __wrap_fsync(int fd);

/* Skip fsync(): the test writes thousands of indices, which need not survive it. */
int __wrap_fsync(int fd)
{
    (void)fd;
    return 0;
}

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

/* Return a time some ticks ahead of the clock from which the kernel takes file times, so that
 * thousands of openings need not wait for the next tick. */
int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
    int r = __real_clock_gettime(id, ret);

    ret->tv_nsec += id == CLOCK_REALTIME_COARSE ? 50000000 : 0;
    ret->tv_sec += ret->tv_nsec / 1000000000;
    ret->tv_nsec %= 1000000000;
    return r;
}

static struct tree tree;

static void setup(void)
{
    tree_init(&tree);
    cr_assert(eq(int, mkdir(tree_path(&tree, "data"), 0777), 0));
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(tar, .init = setup, .fini = teardown);

/* Write an archive of the members "name=bytes", up to NULL. */
static void archive(const char *name, const char *const *members)
{
    struct tar_writer *w;
    struct tar_written written;
    struct plenum_error err;

    cr_assert(eq(int, tar_writer_create(tree_path(&tree, name), &w, &err), 0), "%s", err.text);
    for (; *members; members++) {
        const char *equals = strchr(*members, '=');
        char *member = strndup(*members, (size_t)(equals - *members));

        cr_assert(eq(int, tar_writer_add(w, member, equals + 1, strlen(equals + 1), &err), 0));
        free(member);
    }
    cr_assert(eq(int, tar_writer_finish(w, &written, &err), 0), "%s", err.text);
    tar_writer_destroy(w);
}

#define ARCHIVE(name, ...) archive(name, (const char *const[]){__VA_ARGS__, NULL})

/* Compare "label name=bytes" of every sample with a list. */
static void expect_samples(const char *name, const char *const *want)
{
    struct dataset *d = opened(name);
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    char path[400], got[800];
    uint32_t n = 0;

    for (; want[n]; n++) {
        cr_assert(lt(u32, n, dataset_get_samples(d)), "%s is missing", want[n]);
        cr_assert(eq(int, dataset_read(d, n, &buffer, &err), 0), "%s", err.text);
        (void)snprintf(got, sizeof(got), "%d %s=%.*s", (int)dataset_get_label(d, n),
                       dataset_get_sample_path(d, n, path, sizeof(path)), (int)buffer.len,
                       (char *)buffer.bytes);
        cr_expect(eq(str, got, (char *)want[n]));
        for (int i = 0; i < DATASET_PADDING; i++)
            cr_assert(eq(u8, buffer.bytes[buffer.len + (size_t)i], 0));
    }
    cr_expect(eq(u32, dataset_get_samples(d), n));
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
}

/* Returns the least memory, in KiB, with which an archive can be indexed. */
static size_t least_memory(const char *name)
{
    size_t too_little = 1, enough = 8192;

    while (enough - too_little > 1) {
        size_t kib = (too_little + enough) / 2;
        struct dataset_options o = {.rebuild = true, .memory = kib * 1024};
        struct plenum_error err = {""};
        struct dataset *d = NULL;
        int r = dataset_open(name, &o, &d, &err);

        cr_assert(r == 0 || r == -ENOMEM, "%s", err.text);
        *(r == 0 ? &enough : &too_little) = kib;
        dataset_unref(d);
    }
    return enough * 1024;
}

#define EXPECT_SAMPLES(name, ...) expect_samples(name, (const char *const[]){__VA_ARGS__, NULL})

static const char *in_tree(const char *format, ...)
{
    static char text[4][1000];
    static unsigned next;
    char *to = text[next++ % 4];
    const char *percent = strstr(format, "%T");

    (void)snprintf(to, sizeof(text[0]), "%.*s%s%s", (int)(percent - format), format, tree.root,
                   percent + 2);
    return to;
}

Test(tar, samples_are_images_and_members_with_the_same_key)
{
    ARCHIVE("data/a.tar", "x/0001.jpg=one", "x/0001.cls=7", "x/0001.json={\"a\":1}",
            "x/0002.cls= 3\n", "x/0002.txt=a caption", "x/0002.JPEG=two", "y/0001.png=three",
            "y/0001.cls=0", "lonely.txt=no image", "y.z/0003.jpg=a dot in the folder",
            "y.z/0003.cls=1", "y.z/0003.seg.png=another field", ".hidden.jpg=is skipped!",
            "noextension=x", "./0004.cls=2", "./0004.jpg=five");
    EXPECT_SAMPLES(tree_path(&tree, "data/a.tar"), "7 x/0001.jpg=one", "3 x/0002.JPEG=two",
                   "0 y/0001.png=three", "1 y.z/0003.jpg=a dot in the folder", "2 0004.jpg=five");
}

Test(tar, raw_pixels_are_images)
{
    ARCHIVE("data/p.tar", "1.ppm=one", "1.cls=7", "2.PNM=two", "2.cls=8", "3.jpg=three",
            "3.pgm=a depth, not an image", "3.cls=9");
    EXPECT_SAMPLES(tree_path(&tree, "data/p.tar"), "7 1.ppm=one", "8 2.PNM=two", "9 3.jpg=three");
}

#ifdef HAVE_WEBP
Test(tar, webp_is_an_image_where_it_is_decoded)
{
    ARCHIVE("data/w.tar", "1.webp=one", "1.cls=7", "2.jpg=two", "2.small.webp=another field",
            "2.cls=8");
    EXPECT_SAMPLES(tree_path(&tree, "data/w.tar"), "7 1.webp=one", "8 2.jpg=two");
}
#endif

#ifdef HAVE_AVIF
Test(tar, avif_is_an_image_where_it_is_decoded)
{
    ARCHIVE("data/v.tar", "1.avif=one", "1.cls=7", "2.jpg=two", "2.small.avif=another field",
            "2.cls=8");
    EXPECT_SAMPLES(tree_path(&tree, "data/v.tar"), "7 1.avif=one", "8 2.jpg=two");
}
#endif

/* Names occur in the archive's tree, in the common tree, in the builder's names and in the
 * index. */
Test(tar, class_names_count_as_memory)
{
    enum { CLASSES = 300, LEN = 240 };
    char text[2 * CLASSES][LEN + 32];
    const char *members[2 * CLASSES + 1] = {NULL};
    size_t least[2];

    for (int named = 0; named < 2; named++) {
        for (int i = 0; i < CLASSES; i++) {
            (void)snprintf(text[2 * i], sizeof(text[0]), "%04d.jpg=x", i);
            (void)snprintf(text[2 * i + 1], sizeof(text[0]),
                           named ? "%04d.txt=n%0*d" : "%04d.txt=%0*d", i, named ? LEN - 1 : 1, i);
            members[2 * i] = text[2 * i];
            members[2 * i + 1] = text[2 * i + 1];
        }
        archive("data/a.tar", members);
        least[named] = least_memory(in_tree("tar,label=txt:%T/data/a.tar"));
    }
    cr_expect(ge(sz, least[1], least[0] + 4 * CLASSES * LEN), "%zu %zu", least[0], least[1]);
}

Test(tar, members_without_a_sample_are_counted)
{
    struct dataset *d;

    ARCHIVE("data/a.tar", "1.jpg=one", "1.cls=7", "1.txt=field", "notes.txt=x", "2.cls=9",
            "README=y");
    is_bounded(tree_path(&tree, "data/a.tar"));
    d = opened(tree_path(&tree, "data/a.tar"));
    cr_expect(eq(u64, dataset_get_skipped(d), 3));
    cr_expect(eq(u64, dataset_get_bytes(d), 3));
    cr_expect(eq(u32, dataset_get_classes(d), 8));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 7), ""));
    dataset_unref(d);
}

Test(tar, labels_come_from_where_the_name_says)
{
    ARCHIVE("data/a.tar", "1.jpg=a", "1.cls=3", "1.txt=zebra\n",
            "1.json={\"label\": 5, \"m\": {\"k\": "
            "\"n02\"}}",
            "2.jpg=b", "2.cls=4", "2.txt=  ant ",
            "2.json={\"m\": {\"k\": \"n01\"}, "
            "\"label\": 6}");
    EXPECT_SAMPLES(in_tree("tar:%T/data/a.tar"), "3 1.jpg=a", "4 2.jpg=b");
    EXPECT_SAMPLES(in_tree("tar,label=cls:%T/data/a.tar"), "3 1.jpg=a", "4 2.jpg=b");
    EXPECT_SAMPLES(in_tree("tar,label=json:%T/data/a.tar"), "5 1.jpg=a", "6 2.jpg=b");
    EXPECT_SAMPLES(in_tree("tar,label=json.m.k:%T/data/a.tar"), "1 1.jpg=a", "0 2.jpg=b");
    EXPECT_SAMPLES(in_tree("tar,label=txt:%T/data/a.tar"), "1 1.jpg=a", "0 2.jpg=b");
    EXPECT_SAMPLES(in_tree("tar,label=none:%T/data/a.tar"), "0 1.jpg=a", "0 2.jpg=b");
    refused(in_tree("tar,label=folder:%T/data/a.tar"), -EBADMSG, "'1.jpg' is not in a folder");
    refused(in_tree("tar,label=other:%T/data/a.tar"), -EBADMSG, "there is no .other next to it");
    refused(in_tree("tar,label=json.:%T/data/a.tar"), -EINVAL, "use label=EXTENSION");
    refused(in_tree("folder,label=cls:%T/data"), -EINVAL, "there is no setting 'label'");
}

Test(tar, large_members_are_no_labels)
{
    static char json[(1 << 20) + 100];
    struct dataset *d;

    memset(json, ' ', sizeof(json) - 1);
    memcpy(json, "1.json={\"objects\": [] }", 22);
    ARCHIVE("data/a.tar", "1.jpg=x", "1.cls=3", json);
    d = opened(in_tree("%T/data/a.tar"));
    cr_expect(eq(i64, dataset_get_label(d, 0), 3));
    dataset_unref(d);
    ARCHIVE("data/b.tar", "1.jpg=x", json);
    refused(in_tree("%T/data/b.tar"), -EBADMSG,
            "'1.jpg' has no label: there is no .cls, and a file next to it has ");
    refused(in_tree("tar,label=json:%T/data/a.tar"), -EBADMSG, "that is not a label");
}

Test(tar, without_cls_the_json_decides_and_then_the_txt)
{
    ARCHIVE("data/a.tar", "1.jpg=a", "1.json={\"label\": 5}", "2.jpg=b", "2.txt= 6 ", "3.jpg=c",
            "3.json={\"other\": 1}", "3.txt=1", "4.jpg=d", "4.json={\"label\": 1}", "4.cls=2");
    EXPECT_SAMPLES(tree_path(&tree, "data/a.tar"), "5 1.jpg=a", "6 2.jpg=b", "1 3.jpg=c",
                   "2 4.jpg=d");
}

Test(tar, folders_can_be_classes)
{
    struct dataset *d;

    ARCHIVE("data/a.tar", "train/dog/1.x.jpg=a", "train/cat/1.jpg=b", "train/cat/1.png=c");
    ARCHIVE("data/b.tar", "train/ape/1.jpg=d", "train/dog/1.x.jpg=e");
    EXPECT_SAMPLES(in_tree("tar,label=folder:%T/data/{a,b}.tar"), "2 train/dog/1.x.jpg=a",
                   "1 train/cat/1.jpg=b", "1 train/cat/1.png=c", "0 train/ape/1.jpg=d",
                   "2 train/dog/1.x.jpg=e");
    d = opened(in_tree("tar,label=folder:%T/data/{a,b}.tar"));
    cr_expect(eq(u32, dataset_get_classes(d), 3));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 1), "cat"));
    dataset_unref(d);
}

Test(tar, a_file_beside_the_archives_names_the_classes)
{
    struct dataset *d;

    ARCHIVE("data/a.tar", "1.jpg=a", "1.cls=1");
    tree_write_text(&tree, "data/classes.txt", "ant\nbee\n\nwasp\n");
    make_old_in(&tree, "data/a.tar");
    make_old_in(&tree, "data/classes.txt");
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(u32, dataset_get_classes(d), 4));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 1), "bee"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 2), ""));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 3), "wasp"));
    dataset_unref(d);
    tree_write_text(&tree, "data/classes.txt", "ant\nbug");
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(u32, dataset_get_classes(d), 2), "the index is rebuilt");
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 1), "bug"));
    dataset_unref(d);
    /* Fewer names than labels. */
    tree_write_text(&tree, "data/classes.txt", "ant\n");
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(u32, dataset_get_classes(d), 2));
    dataset_unref(d);
}

Test(tar, names_expand_to_archives_in_order)
{
    char name[40], member[40];
    struct dataset *d;

    for (int i = 8; i < 13; i++) {
        (void)snprintf(name, sizeof(name), "data/x-%03d.tar", i);
        (void)snprintf(member, sizeof(member), "1.jpg=%d", i);
        ARCHIVE(name, member, "1.cls=1");
    }
    EXPECT_SAMPLES(in_tree("%T/data/x-{009..011}.tar"), "1 1.jpg=9", "1 1.jpg=10", "1 1.jpg=11");
    EXPECT_SAMPLES(in_tree("%T/data/x-{012,008}.tar"), "1 1.jpg=12", "1 1.jpg=8");
    EXPECT_SAMPLES(in_tree("%T/data/x-01*.tar"), "1 1.jpg=10", "1 1.jpg=11", "1 1.jpg=12");
    EXPECT_SAMPLES(tree_path(&tree, "data"), "1 1.jpg=8", "1 1.jpg=9", "1 1.jpg=10", "1 1.jpg=11",
                   "1 1.jpg=12");
    d = opened(in_tree("%T/data/../data/x-{008..009}.tar"));
    cr_expect(
        eq(str, (char *)dataset_get_name(d), (char *)in_tree("tar:%T/data/x-{008..009}.tar")));
    dataset_unref(d);
    refused(in_tree("%T/data/x-{008..020}.tar"), -ENOENT, "x-013.tar: No such file");
    refused(in_tree("%T/data/y-*.tar"), -ENOENT, "no file matches 'y-*.tar'");
    refused(in_tree("%T/data/x-{008,008}.tar"), -EINVAL, "x-008.tar is given twice");
    refused(in_tree("tar:%T/nowhere/x.tar"), -ENOENT, "No such file");
    refused(in_tree("tar:%T/nowhere/x{1,2}.tar"), -ENOENT, "nowhere");
}

Test(tar, archives_in_several_folders_have_their_common_folder_as_root)
{
    char text[600];
    struct dataset *d;
    uint8_t first[16];

    for (int i = 0; i < 2; i++) {
        (void)mkdir(tree_path(&tree, i ? "data/q" : "data/p"), 0777);
        (void)mkdir(tree_path(&tree, i ? "other/q" : "other"), 0777);
    }
    (void)mkdir(tree_path(&tree, "other/p"), 0777);
    for (int i = 0; i < 2; i++) {
        ARCHIVE(i ? "other/p/1.tar" : "data/p/1.tar", "1.jpg=a", "1.cls=1");
        ARCHIVE(i ? "other/q/1.tar" : "data/q/1.tar", "1.jpg=b", "1.cls=1");
    }
    d = opened(in_tree("%T/data/{p,q}/1.tar"));
    (void)snprintf(text, sizeof(text), "%s/data/q/1.tar: 1.jpg", tree.root);
    cr_expect(eq(str, dataset_get_sample_name(d, 1, text + 300, 300), text));
    memcpy(first, dataset_get_fingerprint(d), 16);
    dataset_unref(d);
    d = opened(in_tree("%T/other/{p,q}/1.tar"));
    cr_expect(eq(int, memcmp(first, dataset_get_fingerprint(d), 16), 0),
              "the fingerprint does "
              "not depend on the folder");
    dataset_unref(d);
}

struct refusal {
    char why[40], sentence[100];
    char members[6][60];
};

ParameterizedTestParameters(tar, what_cannot_be_right_is_refused)
{
    static struct refusal cases[] = {
        {"no label", "'1.jpg' has no label", {"1.jpg=x", "2.jpg=y", "2.cls=1"}},
        {"the label lies elsewhere",
         "'1.jpg' has no label",
         {"1.jpg=x", "2.jpg=y", "2.cls=1", "1.cls=1"}},
        {"no number", "'1.cls' is 'cat', which is not an integer", {"1.jpg=x", "1.cls=cat"}},
        {"a fraction", "'1.cls': label '1.5' is not an integer", {"1.jpg=x", "1.cls=1.5"}},
        {"empty", "the label in '1.cls' is empty", {"1.jpg=x", "1.cls="}},
        {"negative", "'1.cls': label '-1' is out of range", {"1.jpg=x", "1.cls=-1"}},
        {"too large", "class numbers are 0 to 2147483646", {"1.jpg=x", "1.cls=2147483647"}},
        {"far too large", "is out of range", {"1.jpg=x", "1.cls=99999999999999999999"}},
        {"no JSON", "'1.json': it is not JSON", {"1.jpg=x", "1.json={\"label\": 1"}},
        {"a JSON fraction",
         "'1.json': label '1.5' is not an integer",
         {"1.jpg=x", "1.json={\"label\": 1.5}"}},
        {"twice",
         "'a.jpg' occurs twice",
         {"a.jpg=x", "a.cls=1", "b.jpg=y", "b.cls=2", "a.jpg=x", "a.cls=1"}},
        {"two images", "'1' has two images", {"1.jpg=x", "1.png=y", "1.cls=0"}},
#ifdef HAVE_WEBP
        {"JPEG and WebP", "'1' has two images: .jpg and .webp", {"1.jpg=x", "1.webp=y", "1.cls=0"}},
#endif
        {"JPEG and PPM", "'1' has two images: .jpg and .ppm", {"1.jpg=x", "1.ppm=y", "1.cls=0"}},
        {"two labels", "'1.cls' occurs twice", {"1.jpg=x", "1.cls=0", "1.cls=1"}},
        {"numbers and names",
         "'2.json': label 'cat' is a name, but '0', another label of the data set",
         {"1.jpg=x", "1.cls=0", "2.jpg=y", "2.json={\"label\": \"cat\"}"}},
        {"no image", "contains no images", {"1.txt=x", "1.cls=0", "2.gif=y"}},
    };
    return cr_make_param_array(struct refusal, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct refusal *c, tar, what_cannot_be_right_is_refused)
{
    const char *members[7] = {0};
    char where[200];

    for (size_t i = 0; i < 6 && c->members[i][0]; i++)
        members[i] = c->members[i];
    archive("data/bad.tar", members);
    refused(tree_path(&tree, "data/bad.tar"), -EBADMSG, c->sentence);
    /* Whatever the fault, the message names the archive. */
    (void)snprintf(where, sizeof(where), "%s/data/bad.tar", tree.root);
    refused(tree_path(&tree, "data/bad.tar"), -EBADMSG, where);
}

Test(tar, labels_of_different_archives_are_of_one_kind)
{
    ARCHIVE("data/a.tar", "1.jpg=x", "1.json={\"label\": 1}");
    ARCHIVE("data/b.tar", "1.jpg=x", "1.json={\"label\": \"cat\"}");
    refused(tree_path(&tree, "data"), -EBADMSG,
            "b.tar, 1.jpg: label 'cat' is a name, but '1', another label");
}

struct compressed {
    char suffix[16], mark[8], program[12];
    size_t len;
};

ParameterizedTestParameters(tar, compressed_archives_are_refused_with_the_way_out)
{
    static struct compressed cases[] = {
        {".tar.gz", "\x1F\x8B\x08", "gzip", 3},
        {".tgz", "\x1F\x8B\x08", "gzip", 3},
        {".tar.zst", "\x28\xB5\x2F\xFD", "zstd", 4},
        {".tar.xz",
         "\xFD"
         "7zXZ\0",
         "xz", 6},
        {".tar.bz2", "BZh9", "bzip2", 4},
        {".tar.lz4", "\x04\x22\x4D\x18", "lz4", 4},
        {".tar", "\x1F\x8B\x08", "gzip", 3}, /* whatever its name is */
    };
    return cr_make_param_array(struct compressed, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct compressed *c, tar, compressed_archives_are_refused_with_the_way_out)
{
    char name[40], way[40], bytes[600] = "";

    (void)snprintf(name, sizeof(name), "data/x%s", c->suffix);
    memcpy(bytes, c->mark, c->len);
    tree_write(&tree, name, bytes, sizeof(bytes));
    (void)snprintf(way, sizeof(way), "decompress it with '%s -d'", c->program);
    refused(tree_path(&tree, name), -EOPNOTSUPP, way);
}

Test(tar, other_files_are_rejected)
{
    char junk[2000];

    memset(junk, 'j', sizeof(junk));
    tree_write(&tree, "data/junk.tar", junk, sizeof(junk));
    refused(tree_path(&tree, "data/junk.tar"), -EBADMSG, "junk.tar: it is not a tar archive");
    tree_write(&tree, "data/empty.tar", "", 0);
    refused(tree_path(&tree, "data/empty.tar"), -EBADMSG, "empty (0 bytes)");
    cr_assert(eq(int, mkdir(tree_path(&tree, "data/folder.tar"), 0777), 0));
    refused(in_tree("tar:%T/data/{folder,junk}.tar"), -EINVAL, "folder.tar: it is not a file");
    memset(junk, 0, sizeof(junk));
    tree_write(&tree, "data/zeros.tar", junk, sizeof(junk));
    refused(tree_path(&tree, "data/zeros.tar"), -EBADMSG, "contains no images");
}

Test(tar, a_copy_in_text_mode_is_reported)
{
    struct tar_writer *w;
    struct tar_written written;
    struct plenum_error err;
    uint8_t *image = malloc(4 << 20);

    cr_assert(eq(int, tar_writer_create(tree_path(&tree, "data/x.tar"), &w, &err), 0));
    fill_random(image, 4 << 20, 1);
    cr_assert(eq(int, tar_writer_add(w, "0.jpg", image, 4 << 20, &err), 0));
    cr_assert(eq(int, tar_writer_add(w, "0.txt", "1\r\n", 3, &err), 0));
    cr_assert(eq(int, tar_writer_finish(w, &written, &err), 0));
    tar_writer_destroy(w);
    copy_as_text(&tree, "data/x.tar", "data/added.tar", true);
    refused(tree_path(&tree, "data/added.tar"), -EBADMSG,
            "added.tar: it was copied in text mode (each LF became CR LF): copy it again");
    copy_as_text(&tree, "data/x.tar", "data/removed.tar", false);
    refused(tree_path(&tree, "data/removed.tar"), -EBADMSG,
            "; the file was probably copied in text mode (each CR LF became LF): copy it again");
    free(image);
}

/* Some editors write captions with CR LF, which alone does not mean a copy in text mode. */
Test(tar, captions_are_no_sign_of_a_copy_in_text_mode)
{
    struct dataset *d = NULL;
    struct plenum_error err;

    ARCHIVE("data/x.tar", "0.jpg=x", "0.txt=a\r\nb\r\n", "1.txt=c\r\nd\r\n", "1.jpg=x",
            "2.txt=e\r\nf\r\n");
    cr_assert(eq(int, truncate(tree_path(&tree, "data/x.tar"), 4700), 0));
    cr_assert(
        eq(int, dataset_open(in_tree("tar,label=none:%T/data/x.tar"), NULL, &d, &err), -EBADMSG));
    cr_expect(strstr(err.text, "damaged") && !strstr(err.text, "text mode"), "%s", err.text);
}

/* A folder counts as a folder of archives only if it has no sub-folders, which could be classes. */
Test(tar, a_plain_path_is_recognised)
{
    struct dataset *d;

    ARCHIVE("data/a.tar", "1.jpg=x", "1.cls=0");
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(int, strncmp(dataset_get_name(d), "tar:", 4), 0));
    dataset_unref(d);
    tree_write_text(&tree, "data/cats/1.jpg", "x");
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(int, strncmp(dataset_get_name(d), "folder:", 7), 0));
    dataset_unref(d);
    d = opened(in_tree("tar:%T/data"));
    cr_expect(eq(u32, dataset_get_samples(d), 1));
    dataset_unref(d);
}

/* Make a member of an archive a link: its type, target and checksum. */
static void make_link(const char *name, const char *member, char type, const char *target)
{
    int fd = open(tree_path(&tree, name), O_RDWR);
    char header[512];
    unsigned sum = 0;

    cr_assert(ge(int, fd, 0));
    for (off_t at = 0; pread(fd, header, 512, at) == 512; at += 512) {
        if (strcmp(header, member) != 0)
            continue;
        header[156] = type;
        (void)snprintf(header + 157, 100, "%s", target);
        memset(header + 148, ' ', 8);
        for (int i = 0; i < 512; i++)
            sum += (unsigned char)header[i];
        (void)snprintf(header + 148, 8, "%06o", sum);
        cr_assert(eq(i64, pwrite(fd, header, 512, at), 512));
        (void)close(fd);
        return;
    }
    cr_fatal("no member %s", member);
}

Test(tar, hard_links_are_followed_and_other_links_refused)
{
    ARCHIVE("data/a.tar", "a/1.jpg=first", "a/1.cls=1", "b/2.jpg=", "b/2.cls=2", "b/3.jpg=last",
            "b/3.cls=3");
    make_link("data/a.tar", "b/2.jpg", '1', "a/1.jpg");
    EXPECT_SAMPLES(tree_path(&tree, "data/a.tar"), "1 a/1.jpg=first", "2 b/2.jpg=first",
                   "3 b/3.jpg=last");
    make_link("data/a.tar", "b/2.jpg", '1', "a/9.jpg");
    refused(tree_path(&tree, "data/a.tar"), -EBADMSG, "a link to 'a/9.jpg', which is not an image");
    make_link("data/a.tar", "b/2.jpg", '1', "b/2.jpg");
    refused(tree_path(&tree, "data/a.tar"), -EBADMSG, "a link to 'b/2.jpg'");
    make_link("data/a.tar", "b/2.jpg", '2', "a/1.jpg");
    refused(tree_path(&tree, "data/a.tar"), -EBADMSG, "'b/2.jpg' is a symbolic link");
}

Test(tar, names_of_all_kinds_and_lengths)
{
    static const char *const kinds[] = {"with space", "\xC3\xBCmlaut", "\xff\xfe not utf-8",
                                        "new\nline", "-dash"};
    struct tar_writer *w;
    struct tar_written written;
    struct plenum_error err;
    struct dataset *d;
    char *names[300], got[1000];
    uint32_t n = 0;

    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        names[n++] = str_format("%s", kinds[i]);
    for (int len = 90; len < 280; len += 3) { /* up to and beyond each field's end */
        char *name = malloc(600);

        memset(name, 'n', 600);
        name[len] = 0;
        if (len % 2)
            name[len / 2] = '/';
        names[n++] = name;
    }
    cr_assert(eq(int, tar_writer_create(tree_path(&tree, "data/a.tar"), &w, &err), 0));
    for (uint32_t i = 0; i < n; i++) {
        char *image = str_format("%s.jpg", names[i]), *label = str_format("%s.cls", names[i]);

        cr_assert(eq(int, tar_writer_add(w, image, &i, sizeof(i), &err), 0));
        cr_assert(eq(int, tar_writer_add(w, label, "1", 1, &err), 0));
        free(image);
        free(label);
    }
    cr_assert(eq(int, tar_writer_finish(w, &written, &err), 0));
    tar_writer_destroy(w);
    d = opened(tree_path(&tree, "data/a.tar"));
    cr_assert(eq(u32, dataset_get_samples(d), n));
    for (uint32_t i = 0; i < n; i++) {
        struct dataset_buffer buffer = {0};

        (void)dataset_get_sample_path(d, i, got, sizeof(got));
        cr_expect(eq(int, strncmp(got, names[i], strlen(names[i])), 0));
        cr_expect(eq(str, got + strlen(names[i]), ".jpg"));
        cr_assert(eq(int, dataset_read(d, i, &buffer, &err), 0));
        cr_expect(eq(int, memcmp(buffer.bytes, &i, sizeof(i)), 0));
        dataset_buffer_fini(&buffer);
        free(names[i]);
    }
    dataset_unref(d);
}

Test(tar, empty_and_huge_members_are_bad_samples)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    struct dataset *d;

    ARCHIVE("data/a.tar", "1.jpg=", "1.cls=1", "2.jpg=x", "2.cls=1");
    d = opened(tree_path(&tree, "data/a.tar"));
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), -EBADMSG));
    cr_expect(ne(ptr, (void *)strstr(err.text, "a.tar: 1.jpg: the file is empty"), NULL), "%s",
              err.text);
    cr_expect(eq(int, dataset_read(d, 1, &buffer, &err), 0));
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
}

Test(tar, an_index_is_reused_and_rebuilt_when_an_archive_changes)
{
    struct stat first, second;
    struct dataset *d;

    ARCHIVE("data/a.tar", "1.jpg=x", "1.cls=0");
    ARCHIVE("data/b.tar", "1.jpg=y", "1.cls=0");
    make_old_in(&tree, "data/a.tar");
    make_old_in(&tree, "data/b.tar");
    d = opened(tree_path(&tree, "data"));
    cr_assert(eq(int, stat(dataset_get_index_path(d), &first), 0));
    dataset_unref(d);
    d = opened(tree_path(&tree, "data"));
    cr_assert(eq(int, stat(dataset_get_index_path(d), &second), 0));
    cr_expect(eq(u64, first.st_ino, second.st_ino), "the index was not rebuilt");
    dataset_unref(d);
    ARCHIVE("data/b.tar", "1.jpg=z", "1.cls=0"); /* of equal size, a moment later */
    EXPECT_SAMPLES(tree_path(&tree, "data"), "0 1.jpg=x", "0 1.jpg=z");
    /* Write it again, within the resolution of the file system's clock. */
    ARCHIVE("data/b.tar", "1.jpg=w", "1.cls=0");
    EXPECT_SAMPLES(tree_path(&tree, "data"), "0 1.jpg=x", "0 1.jpg=w");
    ARCHIVE("data/c.tar", "1.jpg=v", "1.cls=0");
    EXPECT_SAMPLES(tree_path(&tree, "data"), "0 1.jpg=x", "0 1.jpg=w", "0 1.jpg=v");
    cr_assert(eq(int, unlink(tree_path(&tree, "data/a.tar")), 0));
    EXPECT_SAMPLES(tree_path(&tree, "data"), "0 1.jpg=w", "0 1.jpg=v");
}

Test(tar, an_open_archive_that_changed_or_shrank_is_reported)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    struct dataset *d;
    char index[600];

    ARCHIVE("data/a.tar", "1.jpg=x", "1.cls=0", "2.jpg=y", "2.cls=0");
    ARCHIVE("data/b.tar", "1.jpg=x", "1.cls=0");
    make_old_in(&tree, "data/a.tar");
    make_old_in(&tree, "data/b.tar");
    d = opened(tree_path(&tree, "data"));
    (void)snprintf(index, sizeof(index), "%s", dataset_get_index_path(d));
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), 0));
    cr_assert(eq(int, truncate(tree_path(&tree, "data/a.tar"), 700), 0));
    (void)usleep(20000); /* small samples are compared in the next tick of the kernel's clock */
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), -ESTALE));
    cr_expect(ne(ptr, (void *)strstr(err.text, "data/a.tar has changed"), NULL), "%s", err.text);
    cr_expect(eq(int, access(index, F_OK), -1), "the index was deleted, so the next open scans "
                                                "again");
    cr_expect(eq(int, dataset_read(d, 2, &buffer, &err), 0));
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
}

/* Small samples are copied from a mapping. If an archive is truncated between two reads, too
 * quickly to be detected, that is an error, too, and the process survives. */
Test(tar, a_truncated_mapped_archive_is_reported)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    struct dataset *d;

    for (int i = 0; i < 20; i++) {
        ARCHIVE("data/a.tar", "1.jpg=x", "1.cls=0", "2.jpg=y", "2.cls=0");
        make_old_in(&tree, "data/a.tar");
        d = opened(tree_path(&tree, "data"));
        cr_expect(eq(int, dataset_read(d, 1, &buffer, &err), 0));
        cr_expect(eq(int, memcmp(buffer.bytes, "y", 2), 0), "the sample has its bytes, followed "
                                                            "by zeros");
        cr_assert(eq(int, truncate(tree_path(&tree, "data/a.tar"), 0), 0));
        cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), -ESTALE));
        cr_expect(ne(ptr, (void *)strstr(err.text, "a.tar"), NULL), "%s", err.text);
        dataset_unref(d);
    }
    dataset_buffer_fini(&buffer);
}

/* An archive that is replaced as a whole while it is open is served as it was. */
Test(tar, a_replaced_archive_is_still_served)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    struct dataset *d;

    ARCHIVE("data/a.tar", "1.jpg=old", "1.cls=0");
    d = opened(in_tree("%T/data/a.tar"));
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), 0));
    ARCHIVE("data/new", "1.jpg=new", "1.cls=0");
    cr_assert(eq(int, rename(tree_path(&tree, "data/new"), tree_path(&tree, "data/a.tar")), 0));
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), 0), "%s", err.text);
    cr_expect(eq(int, memcmp(buffer.bytes, "old", 3), 0));
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
}

Test(tar, more_archives_than_descriptors)
{
    struct rlimit limit = {40, 40};
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    struct dataset *d;
    char name[40], member[40];

    for (int i = 0; i < 60; i++) {
        (void)snprintf(name, sizeof(name), "data/%02d.tar", i);
        (void)snprintf(member, sizeof(member), "1.jpg=%d", i);
        ARCHIVE(name, member, "1.cls=0");
    }
    cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
    d = opened(tree_path(&tree, "data"));
    for (uint32_t i = 0; i < 180; i++) {
        cr_assert(eq(int, dataset_read(d, i % 60, &buffer, &err), 0), "%s", err.text);
        (void)snprintf(name, sizeof(name), "%u", i % 60);
        cr_expect(eq(int, memcmp(buffer.bytes, name, buffer.len), 0));
        dataset_announce(d, i % 60);
    }
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
}

/* Returns the number of open archives below a folder. */
static unsigned kept_of(const char *folder)
{
    char path[64], target[512];
    unsigned count = 0;

    for (int fd = 0; fd < 256; fd++) {
        ssize_t n;

        (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        n = readlink(path, target, sizeof(target) - 1);
        if (n < 0)
            continue;
        target[n] = '\0';
        count += strncmp(target, folder, strlen(folder)) == 0 && strstr(target, ".tar");
    }
    return count;
}

Test(tar, a_data_set_leaves_descriptors_for_others)
{
    enum { MANY = 300, FEW = 4 };
    struct rlimit limit = {256, 256};
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    struct dataset *many, *few;
    char name[40], first[512], second[512];

    cr_assert(eq(int, mkdir(tree_path(&tree, "first"), 0700), 0));
    cr_assert(eq(int, mkdir(tree_path(&tree, "second"), 0700), 0));
    for (int i = 0; i < MANY + FEW; i++) {
        (void)snprintf(name, sizeof(name), "%s/%03d.tar", i < MANY ? "first" : "second", i);
        ARCHIVE(name, "1.jpg=x", "1.cls=0");
    }
    (void)snprintf(first, sizeof(first), "%s", tree_path(&tree, "first"));
    (void)snprintf(second, sizeof(second), "%s", tree_path(&tree, "second"));
    cr_assert(eq(int, setrlimit(RLIMIT_NOFILE, &limit), 0));
    for (int round = 0; round < 2; round++) { /* descriptors are free again after a close */
        many = opened(first);
        few = opened(second);
        for (uint32_t i = 0; i < MANY; i++)
            cr_assert(eq(int, dataset_read(many, i, &buffer, &err), 0), "%s", err.text);
        for (uint32_t i = 0; i < FEW; i++)
            cr_assert(eq(int, dataset_read(few, i, &buffer, &err), 0), "%s", err.text);
        cr_expect(eq(u32, kept_of(second), FEW));
        cr_expect(eq(u32, kept_of(first), 256 / 4 * 3 / 2), "a data set keeps at most half of "
                                                            "the available descriptors open");
        dataset_unref(few);
        dataset_unref(many);
    }
    dataset_buffer_fini(&buffer);
}

Test(tar, every_archive_must_really_be_below_a_root)
{
    char data[512];
    const char *root = data;
    struct dataset_options options = {.roots = &root, .num_roots = 1};
    struct plenum_error err = {""};
    struct dataset *d = NULL;

    (void)snprintf(data, sizeof(data), "%s", tree_path(&tree, "data"));
    ARCHIVE("data/a.tar", "1.jpg=x", "1.cls=0");
    ARCHIVE("secret.tar", "1.jpg=x", "1.cls=0");
    cr_expect(eq(int, dataset_open(tree_path(&tree, "data/a.tar"), &options, &d, &err), 0));
    dataset_unref(d);
    cr_assert(eq(int, symlink("../secret.tar", tree_path(&tree, "data/b.tar")), 0));
    cr_expect(eq(int, dataset_open(in_tree("%T/data/{a,b}.tar"), &options, &d, &err), -EACCES));
    cr_expect(ne(ptr, (void *)strstr(err.text, "/b.tar"), NULL), "%s", err.text);
    /* Files outside the roots are not examined, not even to report what is wrong with the name. */
    cr_expect(eq(int, dataset_open(in_tree("%T/data/../{secret,secret}.tar"), &options, &d, &err),
                 -EACCES));
    cr_expect(eq(int, dataset_open(in_tree("%T/data/{a,a}.tar"), &options, &d, &err), -EINVAL));
}

/* --- truncated and changed at every byte ---
 *
 * These tests try every fifth byte, with a different offset in each block of 512, or all bytes with
 * PLENUM_EVERY_BYTE=1. */

static size_t stride(void)
{
    return getenv("PLENUM_EVERY_BYTE") ? 1 : 5;
}

static struct made_archive {
    char bytes[12000];
    size_t len;
} whole;

static void make_whole(void)
{
    char name[150] = "";
    FILE *f;

    memset(name, 'l', 120);
    memcpy(name + 120, ".jpg=a long name", 17);
    ARCHIVE("data/whole.tar", "a/1.jpg=one image", "a/1.cls=1", "a/2.json={\"label\": 2}",
            "a/2.png=another image", name, "3.jpg=x", "3.txt=1");
    f = fopen(tree_path(&tree, "data/whole.tar"), "rb");
    whole.len = fread(whole.bytes, 1, sizeof(whole.bytes), f);
    (void)fclose(f);
    cr_assert(gt(sz, whole.len, 5000));
    cr_assert(lt(sz, whole.len, sizeof(whole.bytes)));
}

/* Open an archive of these bytes, with its index in memory. Returns NULL if it is rejected, with a
 * message that names it. */
static struct dataset *open_bytes(const char *bytes, size_t len)
{
    struct dataset_options options = {
        .threads = 1, .rebuild = true, .cache_dir = "/proc/plenum/no/such/folder"};
    struct plenum_error err = {""};
    struct dataset *d = NULL;
    const char *place;
    int r;

    tree_write(&tree, "data/cut.tar", bytes, len);
    r = dataset_open(in_tree("tar,label=none:%T/data/cut.tar"), &options, &d, &err);
    cr_assert(r == 0 || strstr(err.text, "cut.tar") != NULL, "%d '%s'", r, err.text);
    place = strstr(err.text, "near byte ");
    cr_assert(place == NULL || strtoull(place + 10, NULL, 10) <= len, "%zu bytes: %s", len,
              err.text);
    return d;
}

/* Returns the next length to truncate to. `last`, the largest truncated length, is always tried,
 * and so is the next. */
static size_t next_length(size_t len, size_t last)
{
    if (len < last && len + stride() > last)
        return last;
    return len == last ? last + 1 : len + stride();
}

Test(tar, truncated_at_every_byte)
{
    size_t end;

    make_whole();
    end = whole.len - 1024;
    for (size_t len = 0; len <= whole.len; len = next_length(len, end + 511)) {
        struct dataset *d = open_bytes(whole.bytes, len);

        /* With one block of the end mark it is complete; with less, it may have been truncated.
         */
        cr_assert(len >= end + 512 ? d != NULL : d == NULL, "%zu bytes of %zu", len, whole.len);
        if (d)
            cr_assert(eq(u32, dataset_get_samples(d), 4));
        dataset_unref(d);
    }
}

/* Each byte is changed in two ways. Headers have a checksum, so no sample is silently lost or
 * moved. Data has none, so only the member with that byte differs. */
Test(tar, changed_at_every_byte)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    uint32_t served = 0, turned_away = 0;

    make_whole();
    for (size_t at = 0; at < whole.len * 2; at += at % 2 ? 2 * stride() - 1 : 1) {
        static const char *const want[] = {"one image", "another image", "a long name", "x"};
        char *byte = &whole.bytes[at / 2], saved = *byte;
        uint32_t differing = 0, n;
        struct dataset *d;

        *byte = (char)(at % 2 ? *byte ^ 0x01 : *byte ^ 0x60);
        d = open_bytes(whole.bytes, whole.len);
        n = d ? dataset_get_samples(d) : 0;
        served += d != NULL;
        turned_away += d == NULL;
        for (uint32_t i = 0; i < n; i++) {
            cr_assert(eq(int, dataset_read(d, i, &buffer, &err), 0), "%s", err.text);
            differing += n != 4 || buffer.len != strlen(want[i]) ||
                         memcmp(buffer.bytes, want[i], buffer.len) != 0;
        }
        /* A name in a separate record has no checksum, so an image may no longer be one. */
        if (d && n != 4)
            cr_assert(eq(u32, n, 3), "byte %zu", at / 2);
        else
            cr_assert(le(u32, differing, 1), "byte %zu", at / 2);
        dataset_unref(d);
        *byte = saved;
    }
    cr_expect(served > 100 / stride() && turned_away > 1000 / stride(), "%u %u", served,
              turned_away);
    dataset_buffer_fini(&buffer);
}

static void put_time_back(const char *name)
{
    struct timespec times[2] = {{.tv_sec = 1600000000}, {.tv_sec = 1600000000}};

    cr_assert(eq(int, utimensat(AT_FDCWD, tree_path(&tree, name), times, 0), 0));
}

/* Archives are multiples of 10 KiB, so another archive often has the same size. */
Test(tar, an_archive_of_the_same_size_and_time_is_detected)
{
    ARCHIVE("data/x.tar", "1.jpg=a", "1.cls=0", "2.jpg=b", "2.cls=1");
    put_time_back("data/x.tar");
    EXPECT_SAMPLES(in_tree("tar:%T/data/x.tar"), "0 1.jpg=a", "1 2.jpg=b");
    ARCHIVE("data/x.tar", "1.jpg=a", "1.cls=1", "2.jpg=b", "2.cls=0", "3.jpg=c", "3.cls=0");
    put_time_back("data/x.tar");
    EXPECT_SAMPLES(in_tree("tar:%T/data/x.tar"), "1 1.jpg=a", "0 2.jpg=b", "0 3.jpg=c");
}

static void has_classes(uint32_t classes, const char *first)
{
    struct dataset *d = opened_in(&tree, "tar:", "data/x.tar");

    cr_expect(eq(u32, dataset_get_classes(d), classes));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 0), (char *)first));
    dataset_unref(d);
}

Test(tar, a_classes_txt_that_is_added_or_removed_is_detected)
{
    ARCHIVE("data/x.tar", "1.jpg=a", "1.cls=0", "2.jpg=b", "2.cls=3");
    put_time_back("data/x.tar");
    put_time_back("data");
    has_classes(4, "");
    tree_write_text(&tree, "data/classes.txt", "cat\ndog\na\nb\nc\nd\n");
    put_time_back("data/classes.txt");
    put_time_back("data");
    has_classes(6, "cat");
    tree_write_text(&tree, "data/classes.txt", "dog\ncat\na\nb\nc\nd\n");
    put_time_back("data/classes.txt");
    has_classes(6, "dog");
    cr_assert(eq(int, unlink(tree_path(&tree, "data/classes.txt")), 0));
    put_time_back("data");
    has_classes(4, "");
}

static int read_code(struct dataset *d, uint32_t sample)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    int r = dataset_read(d, sample, &buffer, &err);

    dataset_buffer_fini(&buffer);
    return r;
}

/* Write one archive's bytes over another's, in place. */
static void overwrite(const char *name, const char *with)
{
    int from = open(tree_path(&tree, with), O_RDONLY), to = open(tree_path(&tree, name), O_WRONLY);
    struct stat st;
    char *bytes;

    cr_assert(eq(int, fstat(from, &st), 0));
    bytes = malloc((size_t)st.st_size);
    cr_assert(eq(int, io_pread_all(from, bytes, (size_t)st.st_size, 0), 0));
    cr_assert(eq(int, io_write_all(to, bytes, (size_t)st.st_size), 0));
    free(bytes);
    (void)close(from);
    (void)close(to);
}

Test(tar, an_open_archive_may_get_another_mode_or_a_link_but_no_other_samples)
{
    struct dataset *d;

    ARCHIVE("data/x.tar", "1.jpg=a", "1.cls=0", "2.jpg=", "2.cls=1");
    put_time_back("data/x.tar");
    d = opened_in(&tree, "tar:", "data/x.tar");
    cr_expect(eq(int, read_code(d, 0), 0));
    cr_expect(eq(int, read_code(d, 1), -EBADMSG), "it is empty");
    cr_assert(eq(int, chmod(tree_path(&tree, "data/x.tar"), 0600), 0));
    cr_expect(eq(int, read_code(d, 0), 0), "another mode");
    cr_assert(eq(int, link(tree_path(&tree, "data/x.tar"), tree_path(&tree, "data/backup")), 0));
    cr_expect(eq(int, read_code(d, 1), -EBADMSG), "another link");
    cr_expect(eq(int, read_code(d, 0), 0));

    ARCHIVE("new", "1.jpg=a", "1.cls=0", "2.jpg=b", "2.cls=1");
    overwrite("data/x.tar", "new");
    put_time_back("data/x.tar");
    cr_expect(eq(int, read_code(d, 1), -ESTALE), "a sample that was empty when it was indexed "
                                                 "has changed");
    dataset_unref(d);
    EXPECT_SAMPLES(in_tree("tar:%T/data/x.tar"), "0 1.jpg=a", "1 2.jpg=b");
}
