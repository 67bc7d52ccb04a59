/* SPDX-License-Identifier: MIT */
/* Tests the format "yolo:", and the readers of its data.yaml and label files. */
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
#include <criterion/parameterized.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/yolo_label.h"
#include "loader/dataset/yolo_yaml.h"
#include "tests/loader/dataset/detection.h"
#include "tests/loader/dataset/opened.h"
#include "tests/tree.h"

static struct tree tree;

/* ---- data.yaml ---- */

struct yaml_case {
    char text[200];
    char want[160]; /* the contents, or a message */
};

ParameterizedTestParameters(yolo_yaml, reads)
{
    static struct yaml_case cases[] = {
        {"train: a\nnc: 0\n", "train=a;"},
        {"\xef\xbb\xbf---\r\npath: /x y # root\r\ntrain:  'it''s'\r\nnc: 1\r\n",
         "path=/x y;train=it's;0=class_0;"},
        {"train: [a, \"b, \\\"c\\\"\", 'd' ]\nnc: 0", "train=a;train=b, \"c\";train=d;"},
        {"val: [a,\n  b,\n]\nnc: 0", "val=a;val=b;"},
        {"test:\n- a\n-  b # c\nnc: 0", "test=a;test=b;"},
        {"test:\n  - a#b\n\n # c\n  - d\nnc: 0", "test=a#b;test=d;"},
        {"test: # none\nval: ~\ntrain: null\nnc: 0", ""},
        {"names:\n  0: a\n  '1': b c\nnc: 2", "0=a;1=b c;"},
        {"names: {1: b, 0: don't}", "0=don't;1=b;"},
        {"\"names\":\n- a\n- '1'\n", "0=a;1=1;"},
        {"nc: 1\ndownload: |\n  a: [\n\n   : - {\nx: y\nauthor:\n- z\n# c\n  - {\ntrain: t",
         "train=t;0=class_0;"},
        {"nc: 0\nkpt_shape: [17, 3]", "points=17x3;"},
        {"train: a\n", "it has no class names: add names, or their number nc"},
        {"names: [a]\nnc: 2", "nc is 2, but names has 1 classes"},
        {"names:\n  0: a\n  2: b\n", "names has no class 1, but 3 classes"},
        {"names:\n  0: a\n  0: b\n", "line 3: this class has two names"},
        {"names:\n  a: b\n", "line 2: the keys of names must be class numbers, from 0 to 65535"},
        {"names:\n  70000: b\n", "line 2: the keys of names must be class numbers"},
        {"names:\n  0: a\n   1: b\n", "line 3: it is indented differently from the line before it"},
        {"names:\n  0: a\n\t1: b\n",
         "line 3: it is indented with a tab, which YAML does not allow"},
        {"names:\n  - a\n  b\n", "line 3: this is neither - ELEMENT nor KEY: VALUE"},
        {"names: [a, b", "a closing bracket is missing"},
        {"names: [a\n b]", "line 2: a comma is missing before this element"},
        {"names: [a,,b]", "line 1: an element is empty"},
        {"names: [a] b", "line 1: something follows the closing bracket"},
        {"names: {a}", "line 1: a mapping needs KEY: VALUE"},
        {"names: *all", "line 1: this kind of value is not supported: write a string"},
        {"train: |\n  x\n", "this kind of value is not supported"},
        {"train: a: b", "line 1: a value with a colon must be in quotes"},
        {"train: 'a' b", "line 1: a string in quotes must end on its line, and nothing may follow"},
        {"train: \"\\n\"", "line 1: this escape in a string is not supported: use single quotes"},
        {"train: a\n  b\n", "it continues a value that is complete"},
        {"train: a\ntrain: b\n", "line 2: this key is given twice"},
        {"path: [a]\n", "line 1: this must be a single value"},
        {"train: {a: b}\n", "line 1: this must not be a mapping"},
        {"names: a\n", "this must be a list"},
        {"nc: x\n", "nc must be a number of classes, at most 65536"},
        {"  train: a\n", "line 1: this is not KEY: VALUE"},
        {"%YAML 1.2\n# c\n---\nnc: 0\ntrain: a\n...\n", "train=a;"},
        {"--- # c\nnames:\n- a\n...  \n\n# c\n...\n", "0=a;"},
        {"x: |\n  y\n...\nnc: z", "line 4: another document begins here, but a file must have"},
        {"nc: 0\n---\nnc: 1\n", "line 2: another document begins here, but a file must have only"},
        {"--- nc: 0\n", "line 1: nothing may follow --- on its line"},
        {"%YAML 1.2\nnc: 0\n", "line 2: a line --- must follow those that begin with %"},
        {"names: [a,\n---\nb]", "line 2: a closing bracket is missing"},
        {"train: ...\nnc: 0\n ...", "line 3: it continues a value that is complete"},
        {"train: a\rval: b\r\rnames:\r- c\r", "train=a;val=b;0=c;"},
        {"x: 1\r\r\ntrain: |\r\n", "line 3: this kind of value is not supported"},
        {"train:\ta\t# c\nnc:\t1 \t\r\n", "train=a;0=class_0;"},
        {"'train' : a 'b # c'\n\"nc\": 0", "train=a 'b;"},
        {"train: 'a # b' # c\nval: [\"a # b\", c#d] # e\nnc: 0", "train=a # b;val=a # b;val=c#d;"},
        {"names:\n  ['a',\n   \"b\", # c\n   c\n  ]\nnc: 3", "0=a;1=b;2=c;"},
        {"names: [\n'a'\n, b\n]\n", "0=a;1=b;"},
        {"names:\n  {0: a,\n1: b}\ntrain:\n  a b\nval:\n", "train=a b;0=a;1=b;"},
        {"train:\n  a\n  b\n", "line 3: it continues a value that is complete"},
        {"<<: *all\nnc: 0", "line 1: this kind of value is not supported"},
        {"nc: 0\nkpt_shape: [17, 4]", "kpt_shape must be [N, 2] or [N, 3], with N key points"},
    };
    return cr_make_param_array(struct yaml_case, cases, ARRAY_LEN(cases));
}

/* Describe what was read. */
static void describe(const struct yolo_yaml *y, char *ret, size_t size)
{
    static const char *const splits[] = {"train", "val", "test"};
    size_t n = 0;

    ret[0] = '\0';
    if (y->path)
        n += (size_t)snprintf(ret + n, size - n, "path=%s;", y->path);
    for (int s = 0; s < YOLO_SPLITS; s++)
        for (size_t i = 0; i < y->splits[s].count; i++)
            n += (size_t)snprintf(ret + n, size - n, "%s=%s;", splits[s], y->splits[s].all[i]);
    for (size_t i = 0; i < y->names.count; i++)
        n += (size_t)snprintf(ret + n, size - n, "%zu=%s;", i, y->names.all[i]);
    if (y->num_points)
        (void)snprintf(ret + n, size - n, "points=%ux%u;", y->num_points, y->point_values);
}

ParameterizedTest(struct yaml_case *c, yolo_yaml, reads)
{
    struct yolo_yaml y = {.path = NULL};
    struct plenum_error err = {""};
    char got[400];
    int r = yolo_yaml_parse(c->text, strlen(c->text), &y, &err);

    describe(&y, got, sizeof(got));
    if (r == 0)
        cr_expect(eq(str, got, c->want), "%s", c->text);
    else
        cr_expect(ne(ptr, (void *)strstr(err.text, c->want), NULL), "%s: '%s' lacks '%s'", c->text,
                  err.text, c->want);
    cr_expect(eq(int, r == 0, !c->want[0] || strchr(c->want, ';') != NULL), "%s: %s", c->text,
              err.text);
    yolo_yaml_fini(&y);
}

/* ---- label files ---- */

struct label_case {
    char text[120];
    uint32_t points, values;
    char want[200]; /* JSON, or a message */
};

ParameterizedTestParameters(yolo_label, reads)
{
    static struct label_case cases[] = {
        {"", 0, 0, "[]"},
        {"\n \r\n", 0, 0, "[]"},
        {"0 0.5 0.5 0.25 1\r\n\n2.0\t.5 5e-1 0.5 0.5", 0, 0,
         "[{\"category_id\":4,\"id\":1,\"bbox\":[75,0,50,100]},"
         "{\"category_id\":7,\"id\":3,\"bbox\":[50,25,100,50]}]"},
        {"1 0.1 0.2 0.5 0.3 0.2 0.9\n", 0, 0,
         "[{\"category_id\":0,\"id\":1,\"bbox\":[20,20,80,70]}]"},
        {"0 0.5 0.5 0.5 0.5 0.1 0.2 0 0.5 1 2\n", 2, 3,
         "[{\"category_id\":4,\"id\":1,\"bbox\":[50,25,100,50],\"num_keypoints\":2,\"keypoints\":"
         "[20,20,0,100,100,2]}]"},
        {"0 0.5 0.5 0.5 0.5 0.1 0.2\n", 1, 2,
         "[{\"category_id\":4,\"id\":1,\"bbox\":[50,25,100,50],\"num_keypoints\":1,\"keypoints\":"
         "[20,20,2]}]"},
        {"x 0.5 0.5 0.25 1\n", 0, 0, "line 1: it does not begin with the number of a class"},
        {"0 0 0 0 0\n1.5 0.5 0.5 0.25 1\n", 0, 0, "line 2: it does not begin with the number"},
        {"0 0.5 0.5 0.25 nan\n", 0, 0, "line 1: it has something that is not a decimal number"},
        {"0 0.5 0.5 0.25\n", 0, 0, "line 1: 3 numbers follow the class: a box has 4"},
        {"0 0.5 0.5 0.25 1 1\n", 0, 0, "line 1: 5 numbers follow the class: a box has 4"},
        {"0 0.5 0.5 0.25 1 1 1\n", 2, 2,
         "line 1: 6 numbers follow the class, but with this "
         "kpt_shape 8 must"},
        {"3 0.5 0.5 0.25 1\n", 0, 0,
         "line 1: the class is 3, but data.yaml has the classes 0 to 2"},
        {"-1 0.5 0.5 0.25 1\n", 0, 0,
         "line 1: the class is -1, but data.yaml has the classes 0 to"},
        {"0 50 0.5 0.25 1\n", 0, 0,
         "line 1: 50 is not a fraction of the picture's width or height, from 0 to 1"},
        {"0 0.5 0.5 0.25 -0.5\n", 0, 0, "line 1: -0.5 is not a fraction of the picture's"},
    };
    return cr_make_param_array(struct label_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct label_case *c, yolo_label, reads)
{
    static const int32_t classes[] = {4, 0, 7};
    struct yolo_label_form form = {200, 100, classes, 3, c->points, c->values};
    struct plenum_error err = {""};
    char *got = NULL;
    int r = yolo_label_read(c->text, strlen(c->text), &form, &got, &err);

    cr_expect(eq(int, r, c->want[0] == '[' ? 0 : -EBADMSG), "%s: %s", c->text, err.text);
    if (r == 0)
        cr_expect(eq(str, got, c->want));
    else
        cr_expect(ne(ptr, (void *)strstr(err.text, c->want), NULL), "'%s' lacks '%s'", err.text,
                  c->want);
    free(got);
}

/* ---- the data set ---- */

static void setup(void)
{
    tree_init(&tree);
    tree_write_jpeg(&tree, "images/train/b.jpg", 40, 20, 1);
    tree_write_jpeg(&tree, "images/train/a/c.jpg", 20, 40, 2);
    tree_write_jpeg(&tree, "images/val/d.jpg", 10, 10, 3);
    tree_write_text(&tree, "labels/train/b.txt", "1 0.5 0.5 0.5 0.5\n");
    tree_write_text(&tree, "data.yaml",
                    "path: .\ntrain: images/train\nval: ./images/val/\nnames: [cat, dog]\n");
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(yolo, .init = setup, .fini = teardown);

static const char dog[] = "[{\"category_id\":1,\"id\":1,\"bbox\":[10,5,20,10]}]";

Test(yolo, samples_are_the_pictures_of_a_split_by_path)
{
    struct dataset *d = opened_in(&tree, "yolo:", "data.yaml");
    char name[600];

    cr_assert(eq(u32, dataset_get_samples(d), 2));
    cr_expect(eq(str, dataset_get_sample_path(d, 0, name, sizeof(name)), "images/train/a/c.jpg"));
    cr_expect(eq(str, dataset_get_sample_path(d, 1, name, sizeof(name)), "images/train/b.jpg"));
    cr_expect(eq(u32, dataset_get_classes(d), 2));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 1), "dog"));
    has_field(d, 0, "objects", "[]");
    has_field(d, 1, "objects", dog);
    dataset_unref(d);
    d = opened_in(&tree, "yolo,split=val:", "");
    cr_assert(eq(u32, dataset_get_samples(d), 1));
    has_field(d, 0, "objects", "[]");
    dataset_unref(d);
    refused_in(&tree, "yolo,split=test:", "", -EINVAL, "data.yaml: it has no 'test'");
    refused_in(&tree, "yolo,split=x:", "", -EINVAL, "split=x: it must be train, val or test");
}

Test(yolo, splits_may_be_lists_and_lists_of_folders)
{
    struct dataset *d;

    tree_write_text(&tree, "train.txt", "./images/train/b.jpg\r\n\nimages/val/d.jpg\n");
    tree_write_text(&tree, "data.yaml", "train: train.txt\nnc: 2\n");
    d = opened_in(&tree, "yolo:", "");
    cr_assert(eq(u32, dataset_get_samples(d), 2));
    has_field(d, 0, "objects", dog);
    dataset_unref(d);
    tree_write_text(&tree, "data.yaml", "train:\n- images/val\n- images/train\nnc: 2\n");
    d = opened_in(&tree, "yolo:", "");
    cr_assert(eq(u32, dataset_get_samples(d), 3));
    has_field(d, 1, "objects", dog);
    dataset_unref(d);
    tree_write_text(&tree, "data.yaml", "train: ../images/train\nnc: 2\n"); /* one ../ too many */
    dataset_unref(opened_in(&tree, "yolo:", ""));
    tree_write_text(&tree, "train.txt", "images/train/b.jpg\nimages/x.jpg\nimages/y.jpg\n");
    tree_write_text(&tree, "data.yaml", "train: train.txt\nnc: 2\n");
    refused_in(&tree, "yolo:", "", -ENOENT,
               "data.yaml, 'train': 2 of 3 pictures cannot be found or used, the first: ");
}

Test(yolo, the_root_may_be_named)
{
    char name[200];

    tree_write_text(&tree, "far/data.yaml", "path: coco8\ntrain: images/train\nnc: 2\n");
    refused_in(&tree, "yolo:", "far/data.yaml", -ENOENT,
               "is not a folder: name the folder, as in yolo,root=FOLDER:FILE");
    (void)snprintf(name, sizeof(name), "yolo,root=%s:", tree_path(&tree, ""));
    dataset_unref(opened_in(&tree, name, "far/data.yaml"));
    tree_write_text(&tree, "data.yaml", "train: x\nnc: 2\nnames: 7\n");
    refused_in(&tree, "yolo:", "", -EBADMSG, "data.yaml: line 3: this must be a list");
}

Test(yolo, classes_may_be_those_of_a_list)
{
    struct dataset *d;
    char name[200];

    tree_write_text(&tree, "classes.txt", "bird\ndog\ncat\nmouse\n");
    tree_write_text(&tree, "labels/train/b.txt", "0 0.5 0.5 0.5 0.5\n");
    (void)snprintf(name, sizeof(name), "yolo,classes=%s:", tree_path(&tree, "classes.txt"));
    d = opened_in(&tree, name, "");
    cr_expect(eq(u32, dataset_get_classes(d), 4));
    has_field(d, 1, "objects", "[{\"category_id\":2,\"id\":1,\"bbox\":[10,5,20,10]}]");
    dataset_unref(d);
    d = opened_in(&tree, name, ""); /* with the index */
    has_field(d, 1, "objects", "[{\"category_id\":2,\"id\":1,\"bbox\":[10,5,20,10]}]");
    dataset_unref(d);
}

Test(yolo, bad_label_files_name_the_line)
{
    struct dataset *d;

    tree_write_text(&tree, "labels/train/b.txt", "1 0.5 0.5 0.5 0.5\n2 0.5 0.5 0.5 0.5\n");
    tree_write_text(&tree, "labels/train/a/c.txt", "1 0.5 0.5 0.5 0.5\n");
    tree_write_text(&tree, "images/train/a/c.jpg", "no picture");
    d = opened_in(&tree, "yolo:", "");
    has_bad_fields(d, 0, -EBADMSG, "labels/train/a/c.txt: the size of its picture is not known");
    has_bad_fields(d, 1, -EBADMSG, "labels/train/b.txt: line 2: the class is 2, but data.yaml has");
    dataset_unref(d);
}

Test(yolo, a_label_file_that_is_too_large_is_the_fault_of_its_sample)
{
    struct dataset *d;

    tree_write_text(&tree, "labels/train/a/c.txt", "");
    cr_assert(eq(int, truncate(tree_path(&tree, "labels/train/a/c.txt"), (16 << 20) + 1), 0));
    d = opened_in(&tree, "yolo:", "");
    has_bad_fields(d, 0, -EBADMSG, "labels/train/a/c.txt has more than 16 MiB");
    has_field(d, 1, "objects", dog);
    dataset_unref(d);
}

Test(yolo, changed_files_are_noticed)
{
    struct dataset *d;

    make_old_in(&tree, "labels/train/b.txt");
    make_old_in(&tree, "data.yaml");
    make_old_in(&tree, "images/train");
    make_old_in(&tree, "images/train/a");
    d = opened_in(&tree, "yolo:", "");
    tree_write_text(&tree, "labels/train/b.txt", "0 0.5 0.5 0.5 0.5\n");
    has_bad_fields(d, 1, -ESTALE, "labels/train/b.txt has changed since the data set was indexed");
    tree_write_text(&tree, "labels/train/a/c.txt", "");
    has_bad_fields(d, 0, -ESTALE, "labels/train/a/c.txt has changed since");
    dataset_unref(d);
    d = opened_in(&tree, "yolo:", ""); /* the index is made again */
    has_field(d, 1, "objects", "[{\"category_id\":0,\"id\":1,\"bbox\":[10,5,20,10]}]");
    dataset_unref(d);
    tree_write_jpeg(&tree, "images/train/a/e.jpg", 40, 20, 1);
    d = opened_in(&tree, "yolo:", "");
    cr_expect(eq(u32, dataset_get_samples(d), 3));
    dataset_unref(d);
    tree_write_text(&tree, "data.yaml", "train: images/val\nnc: 2\n");
    d = opened_in(&tree, "yolo:", "");
    cr_expect(eq(u32, dataset_get_samples(d), 1));
    dataset_unref(d);
}

Test(yolo, label_files_are_compared_by_their_bytes)
{
    struct dataset *d = opened_in(&tree, "yolo:", "");
    struct stat st;

    make_old_in(&tree, "labels/train/b.txt");
    has_field(d, 1, "objects", dog);
    cr_assert(eq(int, stat(tree_path(&tree, "labels/train/b.txt"), &st), 0));
    tree_write_text(&tree, "labels/train/b.txt", "0 0.5 0.5 0.5 0.5\n");
    cr_assert(eq(int,
                 utimensat(AT_FDCWD, tree_path(&tree, "labels/train/b.txt"),
                           (struct timespec[]){st.st_atim, st.st_mtim}, 0),
                 0));
    has_bad_fields(d, 1, -ESTALE, "labels/train/b.txt has changed since the data set was indexed");
    dataset_unref(d);
}

Test(yolo, images_may_be_in_the_path_of_the_root)
{
    struct dataset *d;

    tree_write_text(&tree, "images/data.yaml", "train: train\nnc: 2\n");
    d = opened_in(&tree, "yolo:", "images/data.yaml");
    cr_assert(eq(u32, dataset_get_samples(d), 2));
    has_field(d, 0, "objects", "[]");
    has_field(d, 1, "objects", dog);
    has_faults(d, "");
    dataset_unref(d);
}

Test(yolo, label_files_behind_links_that_lead_nowhere_are_refused)
{
    tree_write_text(&tree, "labels/train/a/x.txt", "");
    cr_assert(eq(int, symlink("/nonexistent", tree_path(&tree, "labels/train/a/c.txt")), 0));
    refused_in(&tree, "yolo:", "", -EBADMSG,
               "labels/train/a/c.txt: the symbolic link leads nowhere");
    cr_assert(eq(int, rename(tree_path(&tree, "labels"), tree_path(&tree, "others")), 0));
    cr_assert(eq(int, symlink("/nonexistent", tree_path(&tree, "labels")), 0));
    refused_in(&tree, "yolo:", "", -EBADMSG, "labels: the symbolic link leads nowhere");
}

Test(yolo, a_split_without_any_label_file_is_a_warning)
{
    struct dataset *d = opened_in(&tree, "yolo:", "");

    cr_expect(eq(str, (char *)dataset_get_warning(d), ""));
    dataset_unref(d);
    d = opened_in(&tree, "yolo,split=val:", "");
    cr_expect(eq(str, (char *)dataset_get_warning(d),
                 "no picture has a label file, so none has objects: that of the first would be "
                 "labels/val/d.txt"));
    dataset_unref(d);
}

Test(yolo, label_files_without_a_picture_are_found)
{
    struct dataset *d;

    tree_write_text(&tree, "labels/train/classes.txt", "cat\n");
    tree_write_text(&tree, "labels/train/x.y.txt", "");
    d = opened_in(&tree, "yolo:", "");
    has_faults(d, "-1: the label file labels/train/x.y.txt has no picture in images/train\n");
    dataset_unref(d);
}

Test(yolo, indexing_is_bounded)
{
    char name[200];

    (void)snprintf(name, sizeof(name), "yolo:%s", tree_path(&tree, ""));
    is_bounded(name);
}
