/* SPDX-License-Identifier: MIT */
/* Tests the format "list:", and the reader of its text. */
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
#include "loader/dataset/listfile.h"
#include "tests/loader/dataset/opened.h"
#include "tests/tree.h"

static struct tree tree;

static void setup(void)
{
    tree_init(&tree);
    tree_write_text(&tree, "a/1.jpg", "one");
    tree_write_text(&tree, "a/2.jpg", "number two");
    tree_write_text(&tree, "b/3 x.jpg", "three");
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(list, .init = setup, .fini = teardown);

/* ---- the text ---- */

struct text_case {
    char text[160];
    enum listfile_kind kind;
    char path[16], label[16];
    char want[200]; /* "line:path=label;...", or a message */
    int code;
};

#define NO_LABEL "; use list,label=none: for lists without labels"

ParameterizedTestParameters(listfile, reads)
{
    static struct text_case cases[] = {
        {"a 1\nb 2\n", LISTFILE_TEXT, "", "", "1:a=1;2:b=2;", 0},
        {"a 1\nb 2", LISTFILE_TEXT, "", "", "1:a=1;2:b=2;", 0},
        {"\n\n a  1 \r\n\r\n# c 3\nb 2\r\n", LISTFILE_TEXT, "", "", "3:a=1;6:b=2;", 0},
        {"x y z.jpg 7\n", LISTFILE_TEXT, "", "", "1:x y z.jpg=7;", 0},
        {"x y.jpg\tbig cat\tmore\n", LISTFILE_TEXT, "", "", "1:x y.jpg=big cat;", 0},
        {"\xef\xbb\xbf"
         "a 1\n",
         LISTFILE_TEXT, "", "", "1:a=1;", 0},
        {"", LISTFILE_TEXT, "", "", "", 0},
        {"a\n", LISTFILE_TEXT, "", "", "line 1 ('a') has no label" NO_LABEL, -EBADMSG},
        {"a 1\n\nb\n", LISTFILE_TEXT, "", "", "line 3 ('b') has no label" NO_LABEL, -EBADMSG},
        {"\t1\n", LISTFILE_TEXT, "", "", "line 1 names no file", -EBADMSG},
        {"a\t1\tz\n", LISTFILE_TEXT, "3", "1", "1:z=a;", 0},
        {"a,1\nb,2\n", LISTFILE_CSV, "", "", "1:a=1;2:b=2;", 0},
        {"\"a,b\",1\n\"say \"\"x\"\".jpg\" , 2 \n", LISTFILE_CSV, "", "",
         "1:a,b=1;2:say \"x\".jpg=2;", 0},
        {"\"a\nb\",1\nc,2\n", LISTFILE_CSV, "", "", "1:a\nb=1;3:c=2;", 0},
        {"id,Label,path\n5,cat,x\n", LISTFILE_CSV, "", "", "2:x=cat;", 0},
        {"id,Label,path\n5,cat,x\n", LISTFILE_CSV, "path", "id", "2:x=5;", 0},
        {"id,Label,path\n5,cat,x\n", LISTFILE_CSV, "3", "", "2:x=cat;", 0},
        {"id,Label,path\n5,cat,x\n", LISTFILE_CSV, "where", "",
         "its first line has no column 'where'", -EBADMSG},
        {"a,b\nc,d\n", LISTFILE_CSV, "", "", "1:a=b;2:c=d;", 0},
        {"filename,class\n", LISTFILE_CSV, "", "", "", 0},
        {"a,\"b", LISTFILE_CSV, "", "", "line 1: a closing quote is missing", -EBADMSG},
        {"x,1\n\"a\"b,1\n", LISTFILE_CSV, "", "", "line 2: something follows a closing quote",
         -EBADMSG},
        {"a,\n", LISTFILE_CSV, "", "", "line 1 ('a') has no label" NO_LABEL, -EBADMSG},
        {",,\n,\na,1\n", LISTFILE_CSV, "", "", "3:a=1;", 0},
        {"#a,1\n", LISTFILE_CSV, "", "", "1:#a=1;", 0},
        {"a b\t1\n", LISTFILE_TSV, "", "", "1:a b=1;", 0},
        {"a 1\n", LISTFILE_TSV, "", "", "line 1 ('a 1') has no label" NO_LABEL, -EBADMSG},
        {"image\ttarget\nx\t3\n", LISTFILE_TSV, "", "", "2:x=3;", 0},
        {"", LISTFILE_CSV, "path", "", "it is empty", -EBADMSG},
    };
    return cr_make_param_array(struct text_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct text_case *c, listfile, reads)
{
    size_t len = strlen(c->text);
    char *text = malloc(len + 1), got[512] = "";
    struct listfile list = {.text = text,
                            .len = len,
                            .kind = c->kind,
                            .path_column = c->path[0] ? c->path : NULL,
                            .label_column = c->label[0] ? c->label : NULL};
    struct listfile_line line;
    struct plenum_error err = {""};
    int r;

    memcpy(text, c->text, len);
    r = listfile_begin(&list, &err);
    while (r >= 0 && (r = listfile_next(&list, &line, &err)) > 0)
        (void)snprintf(got + strlen(got), sizeof(got) - strlen(got), "%zu:%s=%s;", line.number,
                       line.path, line.label);
    cr_expect(eq(int, r, c->code), "%s", c->text);
    cr_expect(eq(str, r < 0 ? err.text : got, c->want), "%s", c->text);
    free(text);
}

/* ---- the data set ---- */

static void reads(struct dataset *d, uint32_t sample, const char *text, int64_t label)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};

    cr_assert(eq(int, dataset_read(d, sample, &buffer, &err), 0), "%u: %s", sample, err.text);
    cr_expect(eq(sz, buffer.len, strlen(text)));
    cr_expect(eq(int, memcmp(buffer.bytes, text, buffer.len), 0), "sample %u", sample);
    cr_expect(eq(i64, dataset_get_label(d, sample), label));
    dataset_buffer_fini(&buffer);
}

Test(list, samples_are_its_lines_in_their_order)
{
    char text[600], name[600];
    struct dataset *d;

    (void)snprintf(text, sizeof(text), "b/3 x.jpg 7\n%s 0\na/2.jpg 7\na/1.jpg 3\n",
                   tree_path(&tree, "a/1.jpg"));
    tree_write_text(&tree, "list.txt", text);
    d = opened_in(&tree, "list:", "list.txt");
    cr_assert(eq(u32, dataset_get_samples(d), 4), "a file may be listed twice");
    cr_expect(eq(u32, dataset_get_classes(d), 8));
    reads(d, 0, "three", 7);
    reads(d, 1, "one", 0);
    reads(d, 2, "number two", 7);
    reads(d, 3, "one", 3);
    cr_expect(eq(str, dataset_get_sample_name(d, 2, name, sizeof(name)),
                 (char *)tree_path(&tree, "a/2.jpg")));
    cr_expect(eq(str, dataset_get_sample_name(d, 1, name, sizeof(name)),
                 (char *)tree_path(&tree, "a/1.jpg")));
    dataset_unref(d);
    d = opened_in(&tree, "", "list.txt");
    cr_expect(eq(int, strncmp(dataset_get_name(d), "list:/", 6), 0), "recognised");
    dataset_unref(d);
}

Test(list, names_of_classes_are_numbered_in_byte_order)
{
    struct dataset *d;

    tree_write_text(&tree, "l.csv", "a/1.jpg,dog\na/2.jpg,Cat\nb/3 x.jpg,ant eater\n");
    d = opened_in(&tree, "list:", "l.csv");
    cr_expect(eq(u32, dataset_get_classes(d), 3));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 0), "Cat"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 1), "ant eater"));
    reads(d, 0, "one", 2);
    reads(d, 1, "number two", 0);
    reads(d, 2, "three", 1);
    dataset_unref(d);
}

static void gather(void *arg, const char *key, const void *value, size_t len, bool exact)
{
    char *text = arg;

    (void)exact;
    (void)snprintf(text + strlen(text), 200, "%s=%.*s;", key, (int)len, (const char *)value);
}

Test(list, settings_and_further_columns)
{
    struct plenum_error err = {""};
    struct dataset *d;
    char text[400] = "";

    tree_write_text(&tree, "lists/l.csv",
                    "class,source,filename,year\n1,\"by, me\",1.jpg,1999\n3,,2.jpg,2001\n");
    refused_in(&tree, "list:", "lists/l.csv", -ENOENT, "lists/l.csv, line 2: ");
    d = opened_in(&tree, "list,base=../a,label-offset=-1:", "lists/l.csv");
    reads(d, 0, "one", 0);
    reads(d, 1, "number two", 2);
    cr_assert(eq(int, dataset_fields(d, 0, gather, text, &err), 0), "%s", err.text);
    cr_expect(eq(str, text, "source=by, me;year=1999;"));
    text[0] = '\0';
    cr_assert(eq(int, dataset_fields(d, 1, gather, text, &err), 0), "%s", err.text);
    cr_expect(eq(str, text, "source=;year=2001;"));
    dataset_unref(d);
    d = opened_in(&tree, "list,base=../a,label=year:", "lists/l.csv");
    cr_expect(eq(u32, dataset_get_classes(d), 2002));
    dataset_unref(d);
    tree_write_text(&tree, "t.txt", "a/1.jpg\t4\textra\n");
    d = opened_in(&tree, "list:", "t.txt");
    text[0] = '\0';
    cr_assert(eq(int, dataset_fields(d, 0, gather, text, &err), 0), "%s", err.text);
    cr_expect(eq(str, text, "column 3=extra;"));
    dataset_unref(d);
}

Test(list, malformed_lines_are_rejected_with_file_and_line)
{
    tree_write_text(&tree, "none", "# nothing\n");
    refused_in(&tree, "list:", "none", -EBADMSG, "contains no samples");
    tree_write_text(&tree, "x", "a/1.jpg 1\na/9.jpg 1\n");
    refused_in(&tree, "list:", "x", -ENOENT, "/x, line 2: ");
    refused_in(&tree, "list:", "x", -ENOENT, "a/9.jpg: No such file");
    tree_write_text(&tree, "x", "a 1\n");
    refused_in(&tree, "list:", "x", -EBADMSG, "x, line 1: a is not a file");
    tree_write_text(&tree, "x", "a/1.jpg 1\na/2.jpg\n");
    refused_in(&tree, "list:", "x", -EBADMSG, "/x: line 2 ('a/2.jpg') has no label");
    tree_write_text(&tree, "x", "a/1.jpg 1\na/2.jpg -1\n");
    refused_in(&tree, "list:", "x", -EBADMSG, "/x, line 2: label '-1' is out of range");
    tree_write_text(&tree, "x", "a/1.jpg 1\na/2.jpg -9223372036854775808\n");
    refused_in(&tree, "list,label-offset=-1:", "x", -EBADMSG, "is out of range");
    tree_write_text(&tree, "x", "a/1.jpg 2147483647\n");
    refused_in(&tree, "list:", "x", -EBADMSG, "out of range");
    tree_write_text(&tree, "x", "a/1.jpg 99999999999999999999999\n");
    refused_in(&tree, "list:", "x", -EBADMSG, "out of range");
    tree_write_text(&tree, "x", "a/1.jpg 2\na/2.jpg two\n");
    refused_in(
        &tree, "list:", "x", -EBADMSG,
        "/x, line 2: label 'two' is a name, but '2', another label of the data set, is a number");
    tree_write(&tree, "x", "a/1.jpg\0 1\n", 11);
    refused_in(&tree, "list:", "x", -EBADMSG, "contains zero bytes");
    refused_in(&tree, "list:", "nowhere", -ENOENT, "No such file");
    refused_in(&tree, "list:", "a", -EISDIR, "Is a directory");
    refused_in(&tree, "list,base=nowhere:", "x", -ENOENT, "No such file");
    refused_in(&tree, "list,root=x:", "x", -EINVAL,
               "its settings: base, classes, image, label, label-offset, path");
}

static void make_old(const char *name)
{
    struct timespec then[2] = {{1000000000, 0}, {1000000000, 0}};

    cr_assert(eq(int, utimensat(AT_FDCWD, tree_path(&tree, name), then, 0), 0));
}

Test(list, changes_of_the_list_and_of_its_files_are_detected)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err = {""};
    struct stat first, second;
    struct dataset *d;

    tree_write_text(&tree, "x", "a/1.jpg 1\na/2.jpg 0\n");
    make_old("x");
    d = opened_in(&tree, "list:", "x");
    cr_assert(eq(int, stat(dataset_get_index_path(d), &first), 0));
    dataset_unref(d);
    d = opened_in(&tree, "list:", "x");
    cr_assert(eq(int, stat(dataset_get_index_path(d), &second), 0));
    cr_expect(eq(u64, first.st_ino, second.st_ino), "the index is used again");
    tree_write_text(&tree, "a/1.jpg", "changed");
    cr_expect(eq(int, dataset_read(d, 0, &buffer, &err), -ESTALE));
    cr_expect(ne(ptr, (void *)strstr(err.text, "a/1.jpg has changed since"), NULL), "%s", err.text);
    cr_expect(eq(int, dataset_read(d, 1, &buffer, &err), 0));
    dataset_unref(d);
    d = opened_in(&tree, "list:", "x");
    reads(d, 0, "changed", 1);
    dataset_unref(d);
    tree_write_text(&tree, "x", "a/1.jpg 1\na/2.jpg 5\n"); /* the same size as before */
    d = opened_in(&tree, "list:", "x");
    reads(d, 1, "number two", 5);
    dataset_unref(d);
    tree_write_text(&tree, "x", "a/1.jpg 1\na/2.jpg 6\n"); /* within the resolution of the clock */
    d = opened_in(&tree, "list:", "x");
    reads(d, 1, "number two", 6);
    dataset_unref(d);
    dataset_buffer_fini(&buffer);
}

Test(list, thousands_of_lines_by_any_number_of_threads)
{
    struct dataset_options options = {.rebuild = true};
    char *text = malloc(5000 * 16 + 1), *p = text, name[600];
    uint8_t one[16];

    for (int i = 0; i < 5000; i++)
        p += sprintf(p, "a/%d.jpg %d\n", 1 + i % 2, i % 7);
    tree_write_text(&tree, "x", text);
    (void)snprintf(name, sizeof(name), "list:%s", tree_path(&tree, "x"));
    for (options.threads = 1; options.threads <= 5; options.threads++) {
        struct dataset *d = NULL;

        cr_assert(eq(int, dataset_open(name, &options, &d, NULL), 0));
        cr_expect(eq(u32, dataset_get_samples(d), 5000));
        if (options.threads == 1)
            memcpy(one, dataset_get_fingerprint(d), 16);
        cr_expect(eq(int, memcmp(one, dataset_get_fingerprint(d), 16), 0));
        reads(d, 4999, "number two", 4999 % 7);
        dataset_unref(d);
    }
    free(text);
}

/* With roots, links are resolved, and paths outside are refused, even if they are only named. */
Test(list, nothing_outside_the_roots_is_served)
{
    const char *roots[] = {NULL};
    struct dataset_options options = {.roots = roots, .num_roots = 1};
    struct plenum_error err = {""};
    struct dataset *d = NULL;
    char name[600], root[600];

    (void)snprintf(root, sizeof(root), "%s", tree_path(&tree, "a"));
    roots[0] = root;
    tree_write_text(&tree, "a/inside", "1.jpg 0\n");
    tree_write_text(&tree, "a/outside", "1.jpg 0\n../b/3 x.jpg 0\n");
    tree_write_text(&tree, "a/linked", "link.jpg 0\n");
    cr_assert(eq(int, symlink("../b/3 x.jpg", tree_path(&tree, "a/link.jpg")), 0));
    (void)snprintf(name, sizeof(name), "list:%s", tree_path(&tree, "a/inside"));
    is_bounded(name);
    cr_assert(eq(int, dataset_open(name, &options, &d, &err), 0), "%s", err.text);
    dataset_unref(d);
    for (int i = 0; i < 3; i++) {
        static const char *const names[] = {"outside", "linked", "inside"};

        (void)snprintf(name, sizeof(name), "list%s:%s/a/%s", i == 2 ? ",base=.." : "", tree.root,
                       names[i]);
        cr_expect(eq(int, dataset_open(name, &options, &d, &err), -EACCES), "%s", name);
        cr_expect(ne(ptr, (void *)strstr(err.text, "is not below a --root"), NULL));
        if (i == 2)
            continue;
        cr_assert(eq(int, dataset_open(name, NULL, &d, &err), 0), "%s", err.text);
        dataset_unref(d); /* the index that this client was allowed to build stays */
        cr_expect(eq(int, dataset_open(name, &options, &d, &err), -EACCES),
                  "the index of another client opens nothing");
    }
}
