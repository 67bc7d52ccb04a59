/* SPDX-License-Identifier: MIT */
/* Tests the format "folder:" through dataset.h: order, labels, names, detected changes and
 * errors. */
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
#include "loader/dataset/dataset.h"
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

TestSuite(folder, .init = setup, .fini = teardown);

static void expect_sample(struct dataset *d, uint32_t sample, const char *name, int64_t label)
{
    char got[512], want[512];

    (void)snprintf(want, sizeof(want), "%s/data/%s", tree.root, name);
    cr_expect(eq(str, dataset_get_sample_name(d, sample, got, sizeof(got)), want));
    cr_expect(eq(i64, dataset_get_label(d, sample), label), "%s", name);
}

Test(folder, order_labels_and_names_equal_those_of_image_folder)
{
    struct dataset *d;

    tree_write_text(&tree, "data/b/z.jpg", "1");
    tree_write_text(&tree, "data/b/a.JPEG", "22");
    tree_write_text(&tree, "data/b/deep/er/x.png", "333");
    tree_write_text(&tree, "data/b/deep.jpg", "4444"); /* '.' sorts before '/' */
    tree_write_text(&tree, "data/B/upper.jpg", "5");
    tree_write_text(&tree, "data/a10/1.jpg", "6");
    tree_write_text(&tree, "data/a9/1.jpg", "7");
    tree_write_text(&tree, "data/a9/notes.txt", "not an image");
    tree_write_text(&tree, "data/a9/jpg", "not an image");
    tree_write_text(&tree, "data/a9/.hidden.jpg", "skipped without a word");
    tree_write_text(&tree, "data/.git/x.jpg", "no class");
    tree_write_text(&tree, "data/stray.jpg", "belongs to no class");
    cr_assert(eq(int, mkdir(tree_path(&tree, "data/empty"), 0777), 0));

    is_bounded(tree_path(&tree, "data"));
    d = opened(tree_path(&tree, "data"));
    cr_assert(eq(u32, dataset_get_samples(d), 7));
    cr_expect(eq(u32, dataset_get_classes(d), 5), "an empty folder is also a class");
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 0), "B"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 1), "a10"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 2), "a9"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 4), "empty"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 5), ""));
    expect_sample(d, 0, "B/upper.jpg", 0);
    expect_sample(d, 1, "a10/1.jpg", 1);
    expect_sample(d, 2, "a9/1.jpg", 2);
    expect_sample(d, 3, "b/a.JPEG", 3);
    expect_sample(d, 4, "b/deep.jpg", 3);
    expect_sample(d, 5, "b/deep/er/x.png", 3);
    expect_sample(d, 6, "b/z.jpg", 3);
    cr_expect(eq(u64, dataset_get_bytes(d), 1 + 1 + 1 + 2 + 4 + 3 + 1));
    cr_expect(eq(u64, dataset_get_skipped(d), 3));
    dataset_unref(d);
}

Test(folder, reads_the_bytes_and_zeros_after_them)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    struct dataset *d;
    char *large = malloc(300000);

    memset(large, 'x', 300000);
    tree_write(&tree, "data/a/1.jpg", large, 300000);
    tree_write_text(&tree, "data/a/2.jpg", "short");
    d = opened(tree_path(&tree, "data"));
    cr_assert(eq(int, dataset_read(d, 0, &buffer, &err), 0), "%s", err.text);
    cr_expect(eq(sz, buffer.len, 300000));
    cr_expect(eq(int, memcmp(buffer.bytes, large, 300000), 0));
    cr_assert(eq(int, dataset_read(d, 1, &buffer, &err), 0), "%s", err.text);
    cr_expect(eq(sz, buffer.len, 5));
    cr_expect(eq(int, memcmp(buffer.bytes, "short", 5), 0));
    for (int i = 0; i < DATASET_PADDING; i++)
        cr_expect(eq(u8, buffer.bytes[5 + i], 0));
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
    free(large);
}

Test(folder, names_of_all_kinds_are_found)
{
    static const char *const names[] = {"with space.jpg", "ümlaut.jpg",    "\xff\xfe not utf-8.jpg",
                                        "quote\".jpg",    "new\nline.jpg", "-dash.jpg"};
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    struct dataset *d;
    char path[300];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof(path), "data/a/%s", names[i]);
        tree_write_text(&tree, path, names[i]);
    }
    d = opened(tree_path(&tree, "data"));
    cr_assert(eq(u32, dataset_get_samples(d), ARRAY_LEN(names)));
    for (uint32_t i = 0; i < ARRAY_LEN(names); i++) {
        cr_assert(eq(int, dataset_read(d, i, &buffer, &err), 0), "%s", err.text);
        (void)dataset_get_sample_name(d, i, path, sizeof(path));
        cr_expect(eq(int, memcmp(strrchr(path, '/') + 1, buffer.bytes, buffer.len), 0));
    }
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
}

Test(folder, links_to_folders_and_files_are_followed)
{
    struct dataset *d;

    tree_write_text(&tree, "elsewhere/x.jpg", "1");
    tree_write_text(&tree, "data/a/1.jpg", "2");
    cr_assert(eq(int, symlink("../elsewhere", tree_path(&tree, "data/b")), 0));
    cr_assert(eq(int, symlink("../../elsewhere/x.jpg", tree_path(&tree, "data/a/0.jpg")), 0));
    d = opened(tree_path(&tree, "data"));
    cr_assert(eq(u32, dataset_get_samples(d), 3));
    expect_sample(d, 0, "a/0.jpg", 0);
    expect_sample(d, 2, "b/x.jpg", 1);
    dataset_unref(d);
}

Test(folder, detection_data_sets_are_recognised)
{
    static const struct {
        const char *files[2], *name, *open;
    } cases[] = {
        {{"annotations/instances_val.json", "val/a.jpg"}, "COCO", "coco:"},
        {{"valid/_annotations.coco.json", "valid/a.jpg"}, "COCO", "coco:"},
        {{"data.yaml", "train/images/a.jpg"}, "YOLO", "yolo:"},
        {{"labels/a.txt", "images/a.jpg"}, "YOLO", "yolo:FILE, with a data.yaml that names "},
        {{"Annotations/a.xml", "JPEGImages/a.jpg"}, "Pascal VOC", "voc:"},
        {{"annotations/a.json", "val/a.jpg"}, NULL, NULL},
        {{"Annotations/a.xml", "pictures/a.jpg"}, NULL, NULL},
        {{"annotations", "images/a.jpg"}, NULL, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char path[700], want[900];
        struct dataset *d;

        for (size_t k = 0; k < 2; k++) {
            (void)snprintf(path, sizeof(path), "set%zu/%s", i, cases[i].files[k]);
            tree_write_text(&tree, path, "x");
        }
        (void)snprintf(path, sizeof(path), "%s/set%zu", tree.root, i);
        d = opened(path);
        (void)snprintf(want, sizeof(want),
                       "it is arranged like a data set of %s, but is read as a folder of classes, "
                       "without boxes: open it as %s%s",
                       cases[i].name ? cases[i].name : "", cases[i].open ? cases[i].open : "",
                       path);
        if (!cases[i].name)
            (void)snprintf(want, sizeof(want), "it is arranged like");
        cr_expect(eq(int, strstr(dataset_get_warning(d), want) != NULL, cases[i].name != NULL),
                  "%s: %s", path, dataset_get_warning(d));
        dataset_unref(d);
        (void)snprintf(want, sizeof(want), "folder:%s", path); /* this is what the user wants */
        d = opened(want);
        cr_expect(eq(ptr, (void *)strstr(dataset_get_warning(d), "it is arranged like"), NULL),
                  "%s", want);
        dataset_unref(d);
    }
}

Test(folder, files_of_annotations_are_recognised)
{
    char text[700];

    tree_write_text(&tree, "x.yaml", "train: images\nnc: 1\n");
    tree_write_text(&tree, "x.json", "{\"images\": [], \"annotations\": []}\n");
    (void)snprintf(text, sizeof(text),
                   "if it is the data.yaml of a YOLO data set, open it as yolo:%s",
                   tree_path(&tree, "x.yaml"));
    refused(tree_path(&tree, "x.yaml"), -EINVAL, text);
    (void)snprintf(text, sizeof(text), "if it has the annotations of COCO, open it as coco:%s",
                   tree_path(&tree, "x.json"));
    refused(tree_path(&tree, "x.json"), -EINVAL, text);
}

Test(folder, other_folders_are_rejected_with_a_message)
{
    char text[600];

    refused(tree_path(&tree, "nowhere"), -ENOENT, "No such file");
    (void)snprintf(text, sizeof(text), "folder:%s/nowhere", tree.root);
    refused(text, -ENOENT, "No such file");
    tree_write_text(&tree, "file.bin", "x");
    refused(tree_path(&tree, "file.bin"), -EINVAL, "its format is unknown");
    (void)snprintf(text, sizeof(text), "folder:%s/file.bin", tree.root);
    refused(text, -ENOTDIR, "Not a directory");
    cr_assert(eq(int, mkdir(tree_path(&tree, "void"), 0777), 0));
    refused(tree_path(&tree, "void"), -EBADMSG, "contains no images");
    tree_write_text(&tree, "void/a/x.heic", "");
    tree_write_text(&tree, "void/a/x.txt", "");
    tree_write_text(&tree, "void/b/y.BMP", "");
    refused(tree_path(&tree, "void"), -EBADMSG,
            "there are 2 images in other formats or with other extensions (1 .bmp, 1 .heic): "
            "convert them");
    tree_write_text(&tree, "void/b/y.jfif", "");
    tree_write_text(&tree, "void/b/z.jpe", "");
    refused(tree_path(&tree, "void"), -EBADMSG,
            "there are 4 images in other formats or with other extensions (1 .bmp, 1 .heic, "
            "1 .jfif, 1 .jpe): convert or rename them");
    tree_write_text(&tree, "flat/1.jpg", "x");
    refused(tree_path(&tree, "flat"), -EBADMSG, "none in a sub-folder");
    tree_write_text(&tree, "named/a/1.jfif", "x");
    refused(tree_path(&tree, "named"), -EBADMSG,
            "there is 1 image in other formats or with other extensions (1 .jfif): "
            "rename it to .jpg");
    refused("", -ENOENT, "data set ''");
}

/* A class whose images all have other formats is reported, too. */
Test(folder, a_class_with_only_other_formats_is_reported)
{
    struct dataset *d;

    tree_write_text(&tree, "data/a/1.jpg", "one");
    tree_write_text(&tree, "data/b/2.tiff", "two");
    tree_write_text(&tree, "data/b/3.bmp", "three");
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(u32, dataset_get_classes(d), 2));
    cr_expect(
        eq(str, (char *)dataset_get_warning(d),
           "2 images in other formats or with other extensions (1 .bmp, 1 .tiff) are left out: "
           "convert them; 1 folder without other images counts as a class: 'b'"));
    dataset_unref(d);
}

/* Check an image format that builds may lack: a build that cannot decode it serves the others, and
 * reports how many images it has left out. `mixed` is the extension in mixed case; `listed` is its
 * form in the list of image names. */
static void is_an_image_where_it_is_decoded(bool decoded, const char *ending, const char *mixed,
                                            const char *listed)
{
    char first[32], second[32], name[64], warning[100];
    struct dataset *d;

    (void)snprintf(first, sizeof(first), "a/2.%s", mixed);
    (void)snprintf(second, sizeof(second), "b/3.%s", ending);
    tree_write_text(&tree, "data/a/1.jpg", "one");
    (void)snprintf(name, sizeof(name), "data/%s", first);
    tree_write_text(&tree, name, "two");
    (void)snprintf(name, sizeof(name), "data/%s", second);
    tree_write_text(&tree, name, "three");
    tree_write_text(&tree, "data/b/4.png", "four");
    d = opened(tree_path(&tree, "data"));
    (void)snprintf(warning, sizeof(warning),
                   "2 images in other formats or with other extensions (2 .%s) are left out: "
                   "convert them",
                   ending);
    cr_assert(eq(u32, dataset_get_samples(d), decoded ? 4 : 2));
    cr_expect(eq(str, (char *)dataset_get_warning(d), decoded ? "" : warning));
    if (decoded) {
        expect_sample(d, 1, first, 0);
        expect_sample(d, 2, second, 1);
        cr_expect(strstr(dataset_image_names(), listed) != NULL);
    }
    dataset_unref(d);
}

Test(folder, webp_is_an_image_where_it_is_decoded)
{
#ifdef HAVE_WEBP
    const bool decoded = true;
#else
    const bool decoded = false;
#endif

    is_an_image_where_it_is_decoded(decoded, "webp", "WebP", "*.png, *.webp, *.");
}

Test(folder, avif_is_an_image_where_it_is_decoded)
{
#ifdef HAVE_AVIF
    const bool decoded = true;
#else
    const bool decoded = false;
#endif

    is_an_image_where_it_is_decoded(decoded, "avif", "Avif", ", *.avif, *.ppm and *.pnm");
}

Test(folder, raw_pixels_are_images)
{
    struct dataset *d;

    tree_write_text(&tree, "data/a/1.jpg", "one");
    tree_write_text(&tree, "data/a/2.PPM", "two");
    tree_write_text(&tree, "data/b/3.pnm", "three");
    tree_write_text(&tree, "data/b/3.pgm", "a mask of that image");
    d = opened(tree_path(&tree, "data"));
    cr_assert(eq(u32, dataset_get_samples(d), 3));
    expect_sample(d, 1, "a/2.PPM", 0);
    expect_sample(d, 2, "b/3.pnm", 1);
    cr_expect(eq(str, (char *)dataset_get_warning(d),
                 "1 image in other formats or with other extensions (1 .pgm) is left out: "
                 "convert it"));
    dataset_unref(d);
}

Test(folder, loops_of_links_are_rejected)
{
    tree_write_text(&tree, "data/a/1.jpg", "x");
    cr_assert(eq(int, symlink("..", tree_path(&tree, "data/a/up")), 0));
    refused(tree_path(&tree, "data"), -ELOOP, "leads back into a folder above");
    tree_write_text(&tree, "other/a/1.jpg", "x");
    cr_assert(eq(int, symlink("self.jpg", tree_path(&tree, "other/a/self.jpg")), 0));
    refused(tree_path(&tree, "other"), -ELOOP, "go in a circle");
    tree_write_text(&tree, "third/a/1.jpg", "x");
    cr_assert(eq(int, symlink("gone.jpg", tree_path(&tree, "third/a/lost.jpg")), 0));
    refused(tree_path(&tree, "third"), -ENOENT, "leads nowhere");
    /* A class that is missing at the moment is an error: if it were skipped, the next one would get
     * its label. */
    tree_write_text(&tree, "fourth/b/1.jpg", "x");
    cr_assert(eq(int, symlink("gone", tree_path(&tree, "fourth/a")), 0));
    refused(tree_path(&tree, "fourth"), -ENOENT, "fourth/a: the symbolic link leads nowhere");
}

static void make_old(const char *name)
{
    make_old_in(&tree, name);
}

static void make_all_old(void)
{
    make_old("data/b/c");
    make_old("data/b");
    make_old("data/a");
    make_old("data");
}

Test(folder, an_index_is_reused_and_rebuilt_when_a_file_is_added_or_removed)
{
    struct dataset *d;
    struct stat first, second;

    tree_write_text(&tree, "data/a/1.jpg", "x");
    tree_write_text(&tree, "data/b/c/2.jpg", "y");
    make_all_old();
    d = opened(tree_path(&tree, "data"));
    cr_assert(ne(ptr, (void *)dataset_get_index_path(d), NULL));
    cr_assert(eq(int, stat(dataset_get_index_path(d), &first), 0));
    dataset_unref(d);

    d = opened(tree_path(&tree, "data"));
    cr_assert(eq(int, stat(dataset_get_index_path(d), &second), 0));
    cr_expect(eq(u64, first.st_ino, second.st_ino), "the index was not rebuilt");
    dataset_unref(d);

    tree_write_text(&tree, "data/b/c/3.jpg", "z");
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(u32, dataset_get_samples(d), 3), "a file that was added two folders down is "
                                                  "found");
    dataset_unref(d);

    /* Add another file at once, within the resolution of the file system's clock. */
    tree_write_text(&tree, "data/b/c/4.jpg", "z");
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(u32, dataset_get_samples(d), 4), "a file that was added within the clock's "
                                                  "resolution is found");
    dataset_unref(d);

    make_all_old();
    dataset_unref(opened(tree_path(&tree, "data")));
    cr_assert(eq(int, unlink(tree_path(&tree, "data/a/1.jpg")), 0));
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(u32, dataset_get_samples(d), 3), "a removed file is gone");
    dataset_unref(d);
}

Test(folder, a_damaged_index_is_rebuilt)
{
    struct dataset *d;
    char path[512];
    struct stat st;
    int fd;

    tree_write_text(&tree, "data/a/1.jpg", "x");
    tree_write_text(&tree, "data/a/2.jpg", "y");
    make_old("data/a");
    make_old("data");
    d = opened(tree_path(&tree, "data"));
    (void)snprintf(path, sizeof(path), "%s", dataset_get_index_path(d));
    dataset_unref(d);
    cr_assert(eq(int, stat(path, &st), 0));
    for (off_t at = 0; at < st.st_size; at += 7) {
        uint8_t byte;

        fd = open(path, O_RDWR);
        cr_assert(eq(i64, pread(fd, &byte, 1, at), 1));
        byte ^= 0x10;
        cr_assert(eq(i64, pwrite(fd, &byte, 1, at), 1));
        (void)close(fd);
        d = opened(tree_path(&tree, "data"));
        cr_expect(eq(u32, dataset_get_samples(d), 2));
        dataset_unref(d);
    }
    for (off_t len = 0; len < st.st_size; len += 5) {
        cr_assert(eq(int, truncate(path, len), 0));
        d = opened(tree_path(&tree, "data"));
        cr_expect(eq(u32, dataset_get_samples(d), 2));
        dataset_unref(d);
    }
}

Test(folder, a_file_that_changed_or_shrank_is_reported)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};
    struct dataset *d;

    tree_write_text(&tree, "data/a/1.jpg", "one");
    tree_write_text(&tree, "data/a/2.jpg", "two");
    tree_write_text(&tree, "data/a/3.jpg", "three");
    make_old("data/a");
    make_old("data");
    d = opened(tree_path(&tree, "data"));
    tree_write_text(&tree, "data/a/1.jpg", "longer than before");
    cr_assert(eq(int, unlink(tree_path(&tree, "data/a/2.jpg")), 0));
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), -ESTALE));
    cr_expect(ne(ptr, (void *)strstr(err.text, "1.jpg has changed since"), NULL), "%s", err.text);
    cr_expect(eq(int, dataset_read(d, 1, &buffer, &err), -ENOENT));
    cr_expect(ne(ptr, (void *)strstr(err.text, "2.jpg"), NULL), "%s", err.text);
    cr_expect(eq(int, dataset_read(d, 2, &buffer, &err), 0));
    dataset_unref(d);

    /* The next dataset_open() sees the current files, although no folder's time shows the first
     * file. */
    tree_write_text(&tree, "data/a/2.jpg", "two");
    make_old("data/a");
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), 0));
    cr_expect(eq(sz, buffer.len, strlen("longer than before")));
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
}

static void touch(const char *name)
{
    struct timespec times[2] = {{.tv_sec = 1234567890}, {.tv_sec = 1234567890}};

    cr_assert(eq(int, utimensat(AT_FDCWD, tree_path(&tree, name), times, 0), 0));
}

/* A new mtime is not a change if the file's hash is known. */
Test(folder, a_file_that_was_touched_has_not_changed)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};
    struct dataset *d;

    tree_write_text(&tree, "data/a/1.jpg", "one");
    tree_write_text(&tree, "data/a/2.jpg", "two");
    tree_write_text(&tree, "data/a/3.jpg", "six");
    make_old("data/a/1.jpg");
    make_old("data/a");
    make_old("data");
    d = opened(tree_path(&tree, "data"));
    cr_assert(eq(int, dataset_read(d, 0, &buffer, &err), 0));
    cr_assert(eq(int, dataset_read(d, 1, &buffer, &err), 0));
    touch("data/a/1.jpg");
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), 0), "%s", err.text);
    cr_expect(eq(int, memcmp(buffer.bytes, "one", 3), 0));
    dataset_unref(d);

    /* Another process knows the hash, too, from the same index. */
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), 0), "%s", err.text);
    /* Without a recorded hash, an unchanged size does not prove that a file is the same. */
    touch("data/a/3.jpg");
    cr_expect(eq(int, dataset_read(d, 2, &buffer, &err), -ESTALE));
    tree_write_text(&tree, "data/a/2.jpg", "2wo");
    touch("data/a/2.jpg");
    cr_expect(eq(int, dataset_read(d, 1, &buffer, &err), -ESTALE));
    cr_expect(ne(ptr, (void *)strstr(err.text, "2.jpg has changed since"), NULL), "%s", err.text);
    dataset_unref(d);

    /* The data set has a new index now. */
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(int, dataset_read(d, 1, &buffer, &err), 0));
    cr_expect(eq(int, memcmp(buffer.bytes, "2wo", 3), 0));
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
}

Test(folder, an_empty_or_huge_file_is_a_bad_sample)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};
    struct dataset *d;

    tree_write_text(&tree, "data/a/0.jpg", "");
    tree_write_text(&tree, "data/a/1.jpg", "x");
    cr_assert(
        eq(int, truncate(tree_path(&tree, "data/a/1.jpg"), (off_t)DATASET_SAMPLE_MAX + 1), 0));
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), -EBADMSG));
    cr_expect(ne(ptr, (void *)strstr(err.text, "0.jpg: the file is empty"), NULL), "%s", err.text);
    cr_expect(eq(int, dataset_read(d, 1, &buffer, &err), -EBADMSG));
    cr_expect(ne(ptr, (void *)strstr(err.text, "larger than"), NULL), "%s", err.text);
    dataset_unref(d);
}

static void fingerprint(const char *name, uint8_t ret[16])
{
    struct dataset *d = opened(tree_path(&tree, name));

    memcpy(ret, dataset_get_fingerprint(d), 16);
    dataset_unref(d);
}

static void write_set(const char *name, int files, const char *content)
{
    char path[128];

    for (int i = 0; i < files; i++) {
        (void)snprintf(path, sizeof(path), "%s/%c/%04d.jpg", name, 'a' + i % 3, i);
        tree_write_text(&tree, path, content);
    }
}

Test(folder, the_fingerprint_covers_content_not_place_or_time)
{
    uint8_t one[16], two[16];

    write_set("one", 300, "content");
    write_set("two/elsewhere", 300, "content");
    fingerprint("one", one);
    fingerprint("two/elsewhere", two);
    cr_expect(eq(int, memcmp(one, two, 16), 0), "a copy in another place has the same fingerprint");

    write_set("three", 300, "CONTENT");
    fingerprint("three", two);
    cr_expect(ne(int, memcmp(one, two, 16), 0), "different content of equal size changes the "
                                                "fingerprint");
    write_set("four", 299, "content");
    fingerprint("four", two);
    cr_expect(ne(int, memcmp(one, two, 16), 0), "one file less");
    write_set("five", 300, "content");
    cr_assert(eq(
        int, rename(tree_path(&tree, "five/a/0000.jpg"), tree_path(&tree, "five/a/0000b.jpg")), 0));
    fingerprint("five", two);
    cr_expect(ne(int, memcmp(one, two, 16), 0), "another name");
    write_set("six", 300, "content");
    cr_assert(eq(int, rename(tree_path(&tree, "six/c"), tree_path(&tree, "six/d")), 0));
    fingerprint("six", two);
    cr_expect(ne(int, memcmp(one, two, 16), 0), "another class");
}

Test(folder, the_number_of_threads_changes_nothing)
{
    struct dataset_options options = {.rebuild = true};
    uint8_t one[16];

    write_set("data", 200, "x");
    for (options.threads = 1; options.threads <= 8; options.threads++) {
        struct dataset *d = NULL;

        cr_assert(eq(int, dataset_open(tree_path(&tree, "data"), &options, &d, NULL), 0));
        if (options.threads == 1)
            memcpy(one, dataset_get_fingerprint(d), 16);
        cr_expect(eq(int, memcmp(one, dataset_get_fingerprint(d), 16), 0));
        dataset_unref(d);
    }
}

Test(folder, works_without_a_cache_folder)
{
    struct dataset *d;

    write_set("data", 10, "x");
    (void)setenv("PLENUM_CACHE_DIR", "/proc/nothing/can/be/written/here", 1);
    d = opened(tree_path(&tree, "data"));
    cr_expect(eq(ptr, (void *)dataset_get_index_path(d), NULL));
    cr_expect(eq(u32, dataset_get_samples(d), 10));
    dataset_unref(d);
}

Test(folder, relative_and_linked_names_are_one_data_set)
{
    struct dataset *a, *b;
    char here[512];

    write_set("data", 10, "x");
    cr_assert(eq(int, symlink("data", tree_path(&tree, "link")), 0));
    a = opened(tree_path(&tree, "link"));
    (void)snprintf(here, sizeof(here), "folder:%s", tree_path(&tree, "data"));
    cr_expect(eq(str, (char *)dataset_get_name(a), here));
    cr_assert(eq(int, chdir(tree.root), 0));
    b = opened("folder:./data/../data");
    cr_expect(eq(str, (char *)dataset_get_name(b), here));
    dataset_unref(a);
    dataset_unref(b);
}
