/* SPDX-License-Identifier: MIT */
/* Checks that the rule for labels is the same in all formats, and the classes of "classes=". */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/tar_writer.h"
#include "tests/loader/dataset/opened.h"
#include "tests/records.h"
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

TestSuite(label, .init = setup, .fini = teardown);

/* ---- one data set of each format, with a label that is written in one way ---- */

static void write_tar(const char *name, const char *extension, const char *const *labels)
{
    struct tar_writer *w;
    struct tar_written written;
    struct plenum_error err;
    char member[300];

    cr_assert(eq(int, tar_writer_create(tree_path(&tree, name), &w, &err), 0), "%s", err.text);
    for (int i = 0; labels[i]; i++) {
        (void)snprintf(member, sizeof(member), "%s%s%d.jpg", extension ? "" : labels[i],
                       extension ? "" : "/", i);
        cr_assert(eq(int, tar_writer_add(w, member, "x", 1, &err), 0));
        if (!extension)
            continue;
        (void)snprintf(member, sizeof(member), "%d.%s", i, extension);
        cr_assert(eq(int, tar_writer_add(w, member, labels[i], strlen(labels[i]), &err), 0));
    }
    cr_assert(eq(int, tar_writer_finish(w, &written, &err), 0), "%s", err.text);
    tar_writer_destroy(w);
}

/* Write each label in `form`, in which %s is the label. */
static void write_formed(const char *name, const char *extension, const char *form,
                         const char *const *labels)
{
    char texts[16][200];
    const char *formed[17] = {NULL};

    for (int i = 0; labels[i]; i++) {
        const char *hole = strstr(form, "%s");

        (void)snprintf(texts[i], sizeof(texts[i]), "%.*s%s%s", (int)(hole - form), form, labels[i],
                       hole + 2);
        formed[i] = texts[i];
    }
    write_tar(name, extension, formed);
}

static void write_records(const char *name, const char *const *labels)
{
    struct bytes f = {0}, file = {0};

    for (int i = 0; labels[i]; i++) {
        f.len = 0;
        example_put_bytes(&f, "image/encoded", "x", 1);
        example_put_bytes(&f, "image/class/label", labels[i], strlen(labels[i]));
        record_put(&file, &f);
    }
    tree_write_bytes(&tree, name, &file);
    bytes_fini(&f);
    bytes_fini(&file);
}

static void write_list(const char *name, const char *const *labels)
{
    char text[4000] = "path,label\n";

    tree_write_text(&tree, "x.jpg", "x");
    for (int i = 0; labels[i]; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "x.jpg,\"%s\"\n",
                       labels[i]);
    tree_write_text(&tree, name, text);
}

static void write_folders(const char *name, const char *const *labels)
{
    char path[300];

    for (int i = 0; labels[i]; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s/%d.jpg", name, labels[i], i);
        tree_write_text(&tree, path, "x");
    }
}

/* Each format: how its data set is written, and the prefix of its path. */
static const struct way {
    const char *name, *before, *file;
    bool may_be_name; /* without classes= */
} ways[] = {{"cls", "tar", "cls.tar", false},
            {"txt", "tar,label=txt", "txt.tar", true},
            {"JSON text", "tar", "json.tar", true},
            {"TFRecord", "tfrecord", "x.tfrecord", true},
            {"list", "list", "l.csv", true}};

static void write_way(const struct way *way, const char *const *labels)
{
    if (way == &ways[0])
        write_tar(way->file, "cls", labels);
    else if (way == &ways[1])
        write_tar(way->file, "txt", labels);
    else if (way == &ways[2])
        write_formed(way->file, "json", "{\"x\": NaN, \"label\": \"%s\"}", labels);
    else if (way == &ways[3])
        write_records(way->file, labels);
    else
        write_list(way->file, labels);
}

/* Open a data set. Returns 0 with the data set in `*ret`, or the error. */
static int open_way(const struct way *way, const char *settings, struct dataset **ret,
                    struct plenum_error *err)
{
    struct dataset_options options = {.rebuild = true};
    char name[600];

    *ret = NULL;
    (void)snprintf(name, sizeof(name), "%s%s:%s", way->before, settings,
                   tree_path(&tree, way->file));
    return dataset_open(name, &options, ret, err);
}

Test(label, every_format_has_the_same_numbers)
{
    static const struct {
        const char *text;
        int64_t label; /* -1: rejected */
    } cases[] = {{"10", 10},
                 {"10.0", 10},
                 {"+10", 10},
                 {"010", 10},
                 {"1e1", 10},
                 {" 10 ", 10},
                 {"10.", 10},
                 {"1.0e+01", 10},
                 {"0", 0},
                 {"-0.0", 0},
                 {"1.5", -1},
                 {"-1.0", -1},
                 {"-1", -1},
                 {"nan", -1},
                 {"NaN", -1},
                 {"inf", -1},
                 {"1e400", -1},
                 {"0x10", -1},
                 {"1,000", -1},
                 {"1_000", -1},
                 {"1 000", -1},
                 {"1099511627776", -1},
                 {"2147483647", -1},
                 {"2^40", -1},
                 {"tensor(1)", -1},
                 {"[1]", -1},
                 {"b'1'", -1},
                 {"1;", -1},
                 {"#1", -1},
                 {"$1", -1},
                 {"1L", -1},
                 {"1.0f", -1},
                 {"1-", -1},
                 {"1/2", -1},
                 {"1\xe2\x80\x8b", -1},
                 {"\xc2\xb9", -1},
                 {"None", -1},
                 {"null", -1},
                 {"NA", -1},
                 {"N/A", -1}};

    for (size_t w = 0; w < ARRAY_LEN(ways); w++)
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            struct plenum_error err = {""};
            struct dataset *d;
            int r;

            write_way(&ways[w], (const char *const[]){"3", cases[i].text, NULL});
            r = open_way(&ways[w], "", &d, &err);
            cr_expect(eq(int, r, cases[i].label < 0 ? -EBADMSG : 0), "%s '%s': %s", ways[w].name,
                      cases[i].text, err.text);
            if (r == 0) {
                cr_expect(eq(i64, dataset_get_label(d, 1), cases[i].label), "%s '%s'", ways[w].name,
                          cases[i].text);
                dataset_unref(d);
            } else { /* the message names the file and the place in it */
                cr_expect(strstr(err.text, ways[w].file) &&
                              (strstr(err.text, "line 3") || strstr(err.text, "'1.") ||
                               strstr(err.text, "at byte")),
                          "%s '%s': %s", ways[w].name, cases[i].text, err.text);
            }
        }
}

Test(label, numbers_of_json_and_of_floats_are_numbers_too)
{
    static const float floats[] = {0, 2, 10};
    struct bytes f = {0}, file = {0};
    struct dataset *d;

    write_formed("n.tar", "json", "{\"label\": %s}",
                 (const char *const[]){"0.0", "2", "1.0e1", NULL});
    for (size_t i = 0; i < ARRAY_LEN(floats); i++) {
        f.len = 0;
        example_put_bytes(&f, "image/encoded", "x", 1);
        example_put_float(&f, "image/class/label", floats[i]);
        record_put(&file, &f);
    }
    tree_write_bytes(&tree, "n.tfrecord", &file);
    for (int i = 0; i < 2; i++) {
        d = i ? opened_in(&tree, "tfrecord:", "n.tfrecord") : opened_in(&tree, "tar:", "n.tar");
        for (uint32_t k = 0; k < 3; k++)
            cr_expect(eq(i64, dataset_get_label(d, k), (int64_t)floats[k]));
        dataset_unref(d);
    }
    write_formed("bad.tar", "json", "{\"label\": %s}", (const char *const[]){"1", "NaN", NULL});
    refused_in(&tree, "tar:", "bad.tar", -EBADMSG, "'1.json': label 'NaN' looks like a number");
    write_formed("bad.tar", "json", "{\"label\": %s}", (const char *const[]){"1", "2.5", NULL});
    refused_in(&tree, "tar:", "bad.tar", -EBADMSG, "'1.json': label '2.5' is not an integer");
    file.len = f.len = 0;
    example_put_bytes(&f, "image/encoded", "x", 1);
    example_put_float(&f, "image/class/label", 0.5f);
    record_put(&file, &f);
    tree_write_bytes(&tree, "n.tfrecord", &file);
    refused_in(&tree, "tfrecord:", "n.tfrecord", -EBADMSG,
               "the label of the record at byte 0: label '0.5' is not an integer");
    bytes_fini(&f);
    bytes_fini(&file);
}

/* Labels that look like missing values or like numbers with punctuation are names only if a list
 * contains them. */
Test(label, listed_names_may_look_like_numbers)
{
    static const char *const labels[] = {"#1", "None", "<NA>", "tensor(1)", NULL};
    char settings[600];

    tree_write_text(&tree, "classes", "None\n#1\ntensor(1)\n<NA>\n");
    (void)snprintf(settings, sizeof(settings), ",classes=%s", tree_path(&tree, "classes"));
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        static const int64_t want[] = {1, 0, 3, 2};
        struct plenum_error err = {""};
        struct dataset *d;

        write_way(&ways[w], labels);
        cr_expect(eq(int, open_way(&ways[w], "", &d, &err), -EBADMSG), "%s", ways[w].name);
        cr_expect(ne(ptr, (void *)strstr(err.text, "list it with classes=FILE"), NULL), "%s",
                  err.text);
        cr_assert(eq(int, open_way(&ways[w], settings, &d, &err), 0), "%s: %s", ways[w].name,
                  err.text);
        for (uint32_t i = 0; i < 4; i++)
            cr_expect(eq(i64, dataset_get_label(d, i), want[i]), "%s", ways[w].name);
        dataset_unref(d);
    }
}

/* An int64 of 48 to 57 is a digit and seven bytes of 0. */
Test(label, binary_integers_are_refused)
{
    struct bytes f = {0}, file = {0};
    struct plenum_error err;

    for (int64_t value = 0; value < 64; value++) {
        struct tar_writer *w;
        struct tar_written written;
        size_t width = value % 2 ? 2 : sizeof(value); /* 2: the low bytes */

        cr_assert(eq(int, tar_writer_create(tree_path(&tree, "b.tar"), &w, &err), 0));
        cr_assert(eq(int, tar_writer_add(w, "0.jpg", "x", 1, &err), 0));
        cr_assert(eq(int, tar_writer_add(w, "0.cls", &value, width, &err), 0));
        cr_assert(eq(int, tar_writer_finish(w, &written, &err), 0));
        tar_writer_destroy(w);
        refused_in(&tree, "tar:", "b.tar", -EBADMSG, "the label in '0.cls' contains a zero byte");
        f.len = file.len = 0;
        example_put_bytes(&f, "image/encoded", "x", 1);
        example_put_bytes(&f, "image/class/label", &value, width);
        record_put(&file, &f);
        tree_write_bytes(&tree, "b.tfrecord", &file);
        refused_in(&tree, "tfrecord:", "b.tfrecord", -EBADMSG, "record at byte 0: label '");
    }
    bytes_fini(&f);
    bytes_fini(&file);
}

Test(label, names_and_numbers_are_not_mixed)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct plenum_error err = {""};
        struct dataset *d;

        write_way(&ways[w], (const char *const[]){"1", "cat", NULL});
        cr_expect(eq(int, open_way(&ways[w], "", &d, &err), -EBADMSG), "%s", ways[w].name);
        if (ways[w].may_be_name)
            cr_expect(ne(ptr, (void *)strstr(err.text, "is a name, but '1'"), NULL), "%s: %s",
                      ways[w].name, err.text);
    }
}

/* ---- classes= ---- */

static void settings_with(const char *classes, char *ret, size_t size)
{
    (void)snprintf(ret, size, ",classes=%s", tree_path(&tree, classes));
}

static void has_classes(struct dataset *d, const char *const *names)
{
    uint32_t count = 0;

    for (; names[count]; count++)
        cr_expect(eq(str, (char *)dataset_get_class_name(d, count), (char *)names[count]));
    cr_expect(eq(u32, dataset_get_classes(d), count));
    cr_expect(eq(u32, dataset_get_class_names(d), count));
}

Test(label, listed_classes_keep_their_numbers_in_every_format)
{
    static const char *const listed[] = {"dog", "ant", "cat", "bee", NULL};
    char settings[600];

    tree_write_text(&tree, "classes",
                    "\xef\xbb\xbf"
                    "dog\r\nant\ncat\nbee\n\n");
    settings_with("classes", settings, sizeof(settings));
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct plenum_error err = {""};
        struct dataset *d;

        write_way(&ways[w], (const char *const[]){"cat", "dog", "cat", NULL});
        cr_assert(eq(int, open_way(&ways[w], settings, &d, &err), 0), "%s: %s", ways[w].name,
                  err.text);
        cr_expect(eq(i64, dataset_get_label(d, 0), 2), "%s", ways[w].name);
        cr_expect(eq(i64, dataset_get_label(d, 1), 0), "%s", ways[w].name);
        cr_expect(eq(i64, dataset_get_label(d, 2), 2), "%s", ways[w].name);
        has_classes(d, listed);
        cr_expect(ne(ptr, (void *)strstr(dataset_get_name(d), settings), NULL), "%s",
                  dataset_get_name(d));
        dataset_unref(d);
        write_way(&ways[w], (const char *const[]){"cat", "cow", NULL});
        cr_expect(eq(int, open_way(&ways[w], settings, &d, &err), -EBADMSG), "%s", ways[w].name);
        cr_expect(strstr(err.text, "class 'cow' is not listed in ") &&
                      strstr(err.text, ways[w].file),
                  "%s", err.text);
        write_way(&ways[w], (const char *const[]){"3.0", "0", NULL});
        cr_assert(eq(int, open_way(&ways[w], settings, &d, &err), 0), "%s: %s", ways[w].name,
                  err.text);
        cr_expect(eq(i64, dataset_get_label(d, 0), 3), "%s", ways[w].name);
        has_classes(d, listed);
        dataset_unref(d);
        write_way(&ways[w], (const char *const[]){"4", NULL});
        cr_expect(eq(int, open_way(&ways[w], settings, &d, &err), -EBADMSG), "%s", ways[w].name);
    }
}

Test(label, another_folder_numbers_the_classes)
{
    static const char *const listed[] = {"ant", "bee", "cat", NULL};
    struct dataset *d;
    char before[700];

    write_folders("train", (const char *const[]){"ant", "bee", "cat", NULL});
    tree_write_text(&tree, "train/__MACOSX/x.jpg", "x");
    write_folders("val", (const char *const[]){"ant", "cat", NULL});
    tree_write_text(&tree, "val/lost+found/x.jpg", "x");
    (void)snprintf(before, sizeof(before), "folder,classes=%s:", tree_path(&tree, "train"));
    d = opened_in(&tree, before, "val");
    has_classes(d, listed);
    cr_expect(eq(i64, dataset_get_label(d, 0), 0));
    cr_expect(eq(i64, dataset_get_label(d, 1), 2));
    cr_expect(eq(str, (char *)dataset_get_warning(d), ""));
    dataset_unref(d);
    write_tar("v.tar", NULL, (const char *const[]){"cat", "bee", NULL});
    (void)snprintf(before, sizeof(before),
                   "tar,label=folder,classes=%s:", tree_path(&tree, "train"));
    d = opened_in(&tree, before, "v.tar");
    has_classes(d, listed);
    cr_expect(eq(i64, dataset_get_label(d, 0), 2));
    cr_expect(eq(i64, dataset_get_label(d, 1), 1));
    dataset_unref(d);
    write_folders("val", (const char *const[]){"cow", NULL});
    (void)snprintf(before, sizeof(before), "folder,classes=%s:", tree_path(&tree, "train"));
    refused_in(&tree, before, "val", -EBADMSG, "val/cow: class 'cow' is not listed in ");
    /* One more class: a different list, so a different index. */
    write_folders("train", (const char *const[]){"cow", NULL});
    d = opened_in(&tree, before, "val");
    cr_expect(eq(u32, dataset_get_classes(d), 4));
    dataset_unref(d);
}

Test(label, a_changed_list_makes_a_new_index)
{
    struct dataset *d;
    char before[700];

    write_folders("d", (const char *const[]){"a", "b", NULL});
    make_old_in(&tree, "d");
    tree_write_text(&tree, "c", "b\na\n");
    make_old_in(&tree, "c");
    (void)snprintf(before, sizeof(before), "folder,classes=%s:", tree_path(&tree, "c"));
    d = opened_in(&tree, before, "d");
    cr_expect(eq(i64, dataset_get_label(d, 0), 0));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 0), "b"));
    dataset_unref(d);
    tree_write_text(&tree, "c", "a\nb\n"); /* a list of equal length and age */
    make_old_in(&tree, "c");
    d = opened_in(&tree, before, "d");
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 0), "a"));
    dataset_unref(d);
}

Test(label, paths_of_lists_may_contain_any_character)
{
    struct dataset *d;
    char before[700];

    write_folders("d", (const char *const[]){"a", NULL});
    tree_write_text(&tree, "c,d:e\\f=g h", "b\na\n");
    (void)snprintf(before, sizeof(before), "folder,classes=%s/c\\,d\\:e\\\\f=g h:", tree.root);
    d = opened_in(&tree, before, "d");
    cr_expect(eq(i64, dataset_get_label(d, 0), 1));
    cr_expect(eq(int, strncmp(dataset_get_name(d), before, strlen(before)), 0), "%s",
              dataset_get_name(d));
    dataset_unref(d);
}

Test(label, numbers_within_names_in_a_different_order)
{
    static const struct {
        const char *names[5], *warning; /* NULL: none */
    } cases[] = {
        {{"class_1", "class_10", "class_2"}, "so 'class_10' is class 1 and 'class_2' is class 2:"},
        {{"n1.a", "n10.a", "n2.a"}, "so 'n10.a' is class 1 and 'n2.a' is class 2:"},
        {{"10", "11", "1x"}, NULL},
        {{"10d", "2d", "3d"}, "so '10d' is class 0 and '2d' is class 1:"},
        {{"a10", "a11", "a2"}, "so 'a11' is class 1 and 'a2' is class 2:"},
        {{"a11b", "a1b", "a21b"}, "so 'a11b' is class 0 and 'a1b' is class 1:"},
        {{"a21b", "a31b", "a3b"}, "so 'a31b' is class 1 and 'a3b' is class 2:"},
        {{"v2_5", "v2_50", "v2_6"}, "so 'v2_50' is class 1 and 'v2_6' is class 2:"},
        {{"c_18446744073709551617", "c_18446744073709551618", "c_2"},
         "so 'c_18446744073709551618' is class 1 and 'c_2' is class 2:"},
        {{"c_01", "c_02", "c_10"}, NULL},
        {{"c_08", "c_10", "c_9"}, "so 'c_10' is class 1 and 'c_9' is class 2:"},
        {{"c_1", "c_2", "c_3"}, NULL},
        {{"c_1", "c_10", "c_2", "other"}, NULL},
        {{"a_10", "a_9", "b_1"}, NULL},
        {{"fold1_10", "fold2_9"}, NULL},
        {{"a", "aa", "aaa"}, NULL},
        {{"c_10"}, NULL},
        {{"1.10", "1.5"}, NULL},
        {{"n01440764", "n01443537", "n01484850"}, NULL},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char folder[16];
        struct dataset *d;

        (void)snprintf(folder, sizeof(folder), "n%zu", i);
        write_folders(folder, cases[i].names);
        d = opened_in(&tree, "folder:", folder);
        if (cases[i].warning)
            cr_expect(ne(ptr, (void *)strstr(dataset_get_warning(d), cases[i].warning), NULL),
                      "%s: %s", cases[i].warning, dataset_get_warning(d));
        else
            cr_expect(eq(str, (char *)dataset_get_warning(d), ""), "case %zu", i);
        dataset_unref(d);
    }
}

Test(label, ambiguous_lists_are_rejected)
{
    char before[700];

    write_folders("d", (const char *const[]){"a", NULL});
    tree_write_text(&tree, "c", "a\nb\na\n");
    (void)snprintf(before, sizeof(before), "folder,classes=%s:", tree_path(&tree, "c"));
    refused_in(&tree, before, "d", -EBADMSG, "'a' appears twice, in lines 1 and 3");
    tree_write_text(&tree, "c", "\n");
    refused_in(&tree, before, "d", -EBADMSG, "names no class");
    tree_write(&tree, "c", "a\0b", 3);
    refused_in(&tree, before, "d", -EBADMSG, "zero bytes");
    refused_in(&tree, "folder,classes=/no/such/file:", "d", -ENOENT, "/no/such/file: No such file");
    write_tar("n.tar", "cls", (const char *const[]){"1", NULL});
    refused_in(&tree, "tar,label=none,classes=numbers:", "n.tar", -EINVAL, "there are no labels");
    refused_in(&tree, "folder,label-offset=1:", "d", -EINVAL, "classes=numbers");
}

/* A label that contains a zero byte never equals the part before that byte. */
Test(label, strings_with_zero_bytes_are_rejected)
{
    struct bytes f = {0}, file = {0};

    write_formed("j.tar", "json", "{\"label\": \"%s\"}",
                 (const char *const[]){"a", "a\\u0000b", NULL});
    refused_in(&tree, "tar:", "j.tar", -EBADMSG, "/j.tar: '1.json': a string contains U+0000");
    example_put_bytes(&f, "image/encoded", "x", 1);
    example_put_bytes(&f, "image/class/label", "a\0b", 3);
    example_put_bytes(&f, "image/filename", "1\0.jpg", 6);
    record_put(&file, &f);
    tree_write_bytes(&tree, "r", &file);
    refused_in(&tree, "tfrecord:", "r", -EBADMSG,
               "/r: the label of the record at byte 0: label 'a' contains zero bytes");
    bytes_fini(&f);
    bytes_fini(&file);
}

Test(label, names_with_zero_bytes_are_rejected)
{
    struct bytes f = {0}, file = {0};

    example_put_bytes(&f, "image/encoded", "x", 1);
    example_put_int(&f, "image/class/label", 1);
    example_put_bytes(&f, "image/filename", "1\0.jpg", 6);
    record_put(&file, &f);
    tree_write_bytes(&tree, "r", &file);
    refused_in(
        &tree, "tfrecord:", "r", -EBADMSG,
        "/r: the name of the record at byte 0, its feature 'image/filename', contains zero bytes");
    dataset_unref(opened_in(&tree, "tfrecord,name=other:", "r"));
    tree_write(&tree, "d/classes.txt", "a\0b\nc\n", 6);
    write_tar("d/n.tar", "cls", (const char *const[]){"1", NULL});
    refused_in(&tree, "tar:", "d", -EBADMSG,
               "d/classes.txt contains zero bytes, so it is not a list");
    tree_write(&tree, "d/classes.txt", "a\nc\n\0", 5);
    refused_in(&tree, "tar:", "d", -EBADMSG,
               "d/classes.txt contains zero bytes, so it is not a list");
    bytes_fini(&f);
    bytes_fini(&file);
}

Test(label, a_list_outside_the_roots_is_refused)
{
    char name[700], root[300];
    const char *roots[] = {root};
    struct dataset_options options = {.roots = roots, .num_roots = 1};
    struct plenum_error err = {""};
    struct dataset *d = NULL;

    write_folders("in/d", (const char *const[]){"a", NULL});
    tree_write_text(&tree, "out", "a\n");
    tree_write_text(&tree, "in/list", "b\na\n");
    (void)snprintf(root, sizeof(root), "%s", tree_path(&tree, "in"));
    (void)snprintf(name, sizeof(name), "folder,classes=%s/out:%s/in/d", tree.root, tree.root);
    cr_expect(eq(int, dataset_open(name, &options, &d, &err), -EACCES));
    cr_expect(ne(ptr, (void *)strstr(err.text, "is not below a --root"), NULL), "%s", err.text);
    (void)snprintf(name, sizeof(name), "folder,classes=%s/in/list:%s/in/d", tree.root, tree.root);
    cr_assert(eq(int, dataset_open(name, &options, &d, &err), 0), "%s", err.text);
    cr_expect(eq(i64, dataset_get_label(d, 0), 1));
    dataset_unref(d);
}

Test(label, numbers_as_names_of_folders)
{
    static const char *const names[] = {"0", "1", "10", "2", NULL};
    struct dataset *d;

    write_folders("d", names);
    write_tar("d.tar", NULL, names);
    for (int i = 0; i < 2; i++) {
        d = i ? opened_in(&tree, "tar,label=folder:", "d.tar") : opened_in(&tree, "folder:", "d");
        cr_expect(eq(i64, dataset_get_label(d, 2), 2));
        cr_expect(ne(ptr, (void *)strstr(dataset_get_warning(d), "classes=numbers"), NULL), "%s",
                  dataset_get_warning(d));
        dataset_unref(d);
        d = i ? opened_in(&tree, "tar,label=folder,classes=numbers:", "d.tar")
              : opened_in(&tree, "folder,classes=numbers:", "d");
        cr_expect(eq(u32, dataset_get_classes(d), 11));
        cr_expect(eq(str, (char *)dataset_get_class_name(d, 10), "10"));
        cr_expect(eq(i64, dataset_get_label(d, i ? 2 : 3), 10));
        cr_expect(eq(str, (char *)dataset_get_warning(d), ""));
        dataset_unref(d);
    }
    d = opened_in(&tree, "folder,classes=numbers,label-offset=2:", "d");
    cr_expect(eq(i64, dataset_get_label(d, 0), 2));
    dataset_unref(d);
    write_folders("d", (const char *const[]){"x", NULL});
    refused_in(&tree, "folder,classes=numbers:", "d", -EBADMSG, "d/x: label 'x' is not an integer");
    write_folders("p", (const char *const[]){"00", "01", "02", "10", NULL});
    d = opened_in(&tree, "folder:", "p");
    cr_expect(eq(str, (char *)dataset_get_warning(d), ""));
    dataset_unref(d);
    /* With a list of such names, labels are names, too, and are found by their value. */
    tree_write_text(&tree, "c", "0\n1\n10\n2\n");
    write_list("l.csv", (const char *const[]){"10", "2.0", "00", NULL});
    {
        char before[700];

        (void)snprintf(before, sizeof(before), "list,classes=%s:", tree_path(&tree, "c"));
        d = opened_in(&tree, before, "l.csv");
        cr_expect(eq(i64, dataset_get_label(d, 0), 2));
        cr_expect(eq(i64, dataset_get_label(d, 1), 3));
        cr_expect(eq(i64, dataset_get_label(d, 2), 0));
        dataset_unref(d);
    }
}

/* ---- folders that are not classes ---- */

Test(label, system_files_are_skipped_at_every_level)
{
    static const char *const left[] = {"__MACOSX",     "lost+found", "$RECYCLE.BIN",
                                       "$Recycle.Bin", "@eaDir",     "System Volume Information",
                                       "#recycle",     "@Recycle",   ".AppleDouble",
                                       "@tmp",         "#snapshot",  ".hidden",
                                       "RECYCLER",     "~snapshot",  "PaxHeaders.4711"};
    char path[300];
    struct dataset *d;
    struct tar_writer *w;
    struct tar_written written;

    write_folders("d", (const char *const[]){"a", "b", NULL});
    cr_assert(eq(int, tar_writer_create(tree_path(&tree, "d.tar"), &w, NULL), 0));
    cr_assert(eq(int, tar_writer_add(w, "./top/a/0.jpg", "x", 1, NULL), 0));
    for (size_t i = 0; i < ARRAY_LEN(left); i++)
        for (int deep = 0; deep < 2; deep++) {
            (void)snprintf(path, sizeof(path), "d/%s%s/x.jpg", deep ? "a/" : "", left[i]);
            tree_write_text(&tree, path, "x");
            (void)snprintf(path, sizeof(path), "top/%s%s/x%zu.jpg", deep ? "a/" : "", left[i], i);
            if (left[i][0] != '.')
                cr_assert(eq(int, tar_writer_add(w, path, "x", 1, NULL), 0));
        }
    tree_write_text(&tree, "d/a/Thumbs.db", "x");
    cr_assert(eq(int, tar_writer_add(w, "../.up/b/1.jpg", "x", 1, NULL), 0));
    cr_assert(eq(int, tar_writer_finish(w, &written, NULL), 0));
    tar_writer_destroy(w);
    for (int i = 0; i < 2; i++) {
        d = i ? opened_in(&tree, "tar,label=folder:", "d.tar") : opened_in(&tree, "", "d");
        has_classes(d, (const char *const[]){"a", "b", NULL});
        cr_expect(eq(u32, dataset_get_samples(d), 2));
        cr_expect(eq(str, (char *)dataset_get_warning(d), ""));
        dataset_unref(d);
    }
    /* Next to archives, they are not classes. */
    tree_write_text(&tree, "t/lost+found/x", "x");
    tree_write_text(&tree, "t/@eaDir/1.tar/x", "x");
    write_tar("t/1.tar", "cls", (const char *const[]){"1", NULL});
    d = opened_in(&tree, "", "t");
    cr_expect(eq(int, strncmp(dataset_get_name(d), "tar:", 4), 0), "%s", dataset_get_name(d));
    dataset_unref(d);
}

Test(label, the_folder_above_train_and_val_causes_a_warning)
{
    struct dataset *d;

    write_folders("d", (const char *const[]){"train", "Val", "test2017", "dev_set", NULL});
    write_folders("e", (const char *const[]){"train", "bus", NULL});
    write_tar("d.tar", NULL, (const char *const[]){"train", "val", NULL});
    d = opened_in(&tree, "", "d");
    cr_expect(ne(ptr, (void *)strstr(dataset_get_warning(d), "name one part"), NULL), "%s",
              dataset_get_warning(d));
    dataset_unref(d);
    d = opened_in(&tree, "tar,label=folder:", "d.tar");
    cr_expect(ne(ptr, (void *)strstr(dataset_get_warning(d), "name one part"), NULL), "%s",
              dataset_get_warning(d));
    dataset_unref(d);
    d = opened_in(&tree, "", "e");
    cr_expect(eq(str, (char *)dataset_get_warning(d), ""));
    dataset_unref(d);
}

Test(label, one_number_in_two_spellings_is_one_class_with_a_warning)
{
    for (size_t w = 0; w < ARRAY_LEN(ways); w++) {
        struct plenum_error err = {""};
        struct dataset *d;

        write_way(&ways[w], (const char *const[]){"1", "2", "01", NULL});
        cr_assert(eq(int, open_way(&ways[w], "", &d, &err), 0), "%s: %s", ways[w].name, err.text);
        cr_expect(eq(i64, dataset_get_label(d, 0), 1));
        cr_expect(eq(i64, dataset_get_label(d, 2), 1));
        cr_expect(strstr(dataset_get_warning(d), "labels '1' (") &&
                      strstr(dataset_get_warning(d), " and '01' (") &&
                      strstr(dataset_get_warning(d), ways[w].file),
                  "%s: %s", ways[w].name, dataset_get_warning(d));
        dataset_unref(d);
        write_way(&ways[w], (const char *const[]){"1", "2", "1", NULL});
        cr_assert(eq(int, open_way(&ways[w], "", &d, &err), 0), "%s: %s", ways[w].name, err.text);
        cr_expect(eq(str, (char *)dataset_get_warning(d), ""));
        dataset_unref(d);
        write_way(&ways[w], (const char *const[]){"cat", "1", NULL});
        cr_expect(eq(int, open_way(&ways[w], "", &d, &err), -EBADMSG));
        cr_expect(strstr(err.text, ways[w].file) != NULL, "%s: %s", ways[w].name, err.text);
        write_way(&ways[w], (const char *const[]){"\xd9\xa1", NULL});
        cr_expect(eq(int, open_way(&ways[w], "", &d, &err), -EBADMSG));
        cr_expect(strstr(err.text, ways[w].file) != NULL, "%s: %s", ways[w].name, err.text);
    }
}
