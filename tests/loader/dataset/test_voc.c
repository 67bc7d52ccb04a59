/* SPDX-License-Identifier: MIT */
/* Tests the format "voc:", and the reader of its XML files. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/voc_xml.h"
#include "tests/loader/dataset/detection.h"
#include "tests/loader/dataset/opened.h"
#include "tests/tree.h"

static struct tree tree;

#define BOX "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>30</xmax><ymax>4.5</ymax></bndbox>"
#define OBJECT(name, rest) "<object><name>" name "</name>" rest BOX "</object>"
#define FILE_OF(objects) "<annotation>" objects "</annotation>"
#define DIFFICULT "<difficult>1</difficult>"

/* ---- XML ---- */

static int note_object(void *arg, const struct voc_object *o, struct plenum_error *err)
{
    char *got = arg;
    size_t at = strlen(got);

    (void)err;
    (void)snprintf(got + at, 400 - at, "%s%s%s:%g,%g,%g,%g;", o->name, o->difficult ? "!" : "",
                   o->truncated ? "/" : "", o->edges[0], o->edges[1], o->edges[2], o->edges[3]);
    return 0;
}

struct xml_case {
    char text[400];
    char want[120]; /* the objects, or a message */
};

ParameterizedTestParameters(voc_xml, reads)
{
    static struct xml_case cases[] = {
        {FILE_OF(""), ""},
        {"<annotation/>", ""},
        {FILE_OF(OBJECT("cat", "")), "cat:1,2,30,4.5;"},
        {"\xef\xbb\xbf<?xml version='1.0'?>\n<!-- <x> -->\n<annotation a='>' b=\"/\">" OBJECT(
             " dog ", DIFFICULT "<truncated>1</truncated>") "\n</annotation>\n",
         "dog!/:1,2,30,4.5;"},
        {FILE_OF("<object><bndbox><ymax>4</ymax><xmax> 3 </xmax><ymin>2</ymin><xmin>1e0</xmin>"
                 "</bndbox><name>a&amp;&#66;&#x43;<![CDATA[<&]]></name></object>"),
         "a&BC<&:1,2,3,4;"},
        {FILE_OF("<object><part><name>head</name>" BOX "</part><name>person</name>" BOX
                 "</object>" OBJECT("car", "<difficult>0</difficult>")),
         "person:1,2,30,4.5;car:1,2,30,4.5;"},
        {FILE_OF("<name>x</name><x><object/></x>"), ""},
        {FILE_OF(OBJECT("cat", "<difficult>true</difficult>")),
         "line 1: <difficult> and <truncated> must be 0 or 1, once"},
        {FILE_OF(OBJECT("cat", "<truncated>01</truncated>")),
         "line 1: <difficult> and <truncated> must be 0 or 1, once"},
        {FILE_OF(OBJECT("cat", "<difficult/>")),
         "line 1: <difficult> and <truncated> must be 0 or 1, once"},
        {FILE_OF(OBJECT("cat", "<difficult>1<x/></difficult>")),
         "line 1: <difficult> and <truncated> must be 0 or 1, once"},
        {FILE_OF(OBJECT("cat", "<difficult>1</difficult>\n<difficult>0</difficult>")),
         "line 2: <difficult> and <truncated> must be 0 or 1, once"},
        {"", "line 1: it is not an <annotation>"},
        {"<a></a>", "line 1: it is not an <annotation>"},
        {"<annotation></annotation>\n<annotation/>", "line 2: it is not an <annotation>"},
        {"x<annotation/>", "line 1: it has something outside its elements"},
        {"<annotation>\n<a></b></annotation>", "line 2: </b> ends an element that is not open"},
        {"<annotation><a>", "line 1: <a> has no end"},
        {"<annotation", "line 1: an element's '>' is missing"},
        {"<annotation></annotation", "line 1: an element's '>' is missing"},
        {"<annotation a></annotation>", "line 1: an attribute has no value"},
        {"<annotation a=b></annotation>", "line 1: an attribute's value is not in quotes"},
        {"<annotation a='b></annotation>", "line 1: ''' is missing"},
        {"<annotation>< a/></annotation>", "the name of an element or attribute is missing"},
        {"<annotation><!-- </annotation>", "line 1: '-->' is missing"},
        {"<!DOCTYPE a []><annotation/>", "line 1: document type declarations are not supported"},
        {"<annotation>&lol;</annotation>", "line 1: an entity other than &amp; &lt; &gt; &quot;"},
        {"<annotation>&#xd800;</annotation>", "line 1: an entity other than"},
        {"<annotation>&", "line 1: an entity other than"},
        {FILE_OF("<object><name>a</name></object>"),
         "line 1: this <object> lacks its <name>, or an edge of its <bndbox>"},
        {FILE_OF("<object>" BOX "</object>"), "this <object> lacks its <name>"},
        {FILE_OF(OBJECT("", "")), "line 1: the name of an object is empty, or is given twice"},
        {FILE_OF(OBJECT("a", "<name>b</name>")),
         "the name of an object is empty, or is given twice"},
        {FILE_OF(OBJECT("a", BOX)), "line 1: a box has the same edge twice"},
        {FILE_OF("<object><bndbox><xmin>a</xmin></bndbox></object>"),
         "line 1: an edge of a box is not a number"},
        {FILE_OF("<object><bndbox><xmin>1e999</xmin></bndbox></object>"),
         "line 1: an edge of a box is too large"},
    };
    return cr_make_param_array(struct xml_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct xml_case *c, voc_xml, reads)
{
    struct plenum_error err = {""};
    char got[400] = "";
    int r = voc_xml_read(c->text, strlen(c->text), note_object, got, NULL, &err);

    cr_expect(eq(int, r, !c->want[0] || strstr(c->want, ":1,2,") ? 0 : -EBADMSG), "%s: %s", c->text,
              err.text);
    if (r == 0)
        cr_expect(eq(str, got, c->want), "%s", c->text);
    else
        cr_expect(ne(ptr, (void *)strstr(err.text, c->want), NULL), "%s: '%s' lacks '%s'", c->text,
                  err.text, c->want);
}

Test(voc_xml, depth_is_limited)
{
    struct plenum_error err = {""};
    char text[200 * 3 + 20] = "<annotation>", got[400];

    for (int i = 0; i < 200; i++)
        strcat(text, "<a>");
    cr_expect(eq(int, voc_xml_read(text, strlen(text), note_object, got, NULL, &err), -EBADMSG));
    cr_expect(eq(str, err.text, "line 1: elements are nested more than 32 deep"));
}

/* ---- the data set ---- */

static void setup(void)
{
    tree_init(&tree);
    tree_write_text(&tree, "JPEGImages/1.jpg", "one");
    tree_write_text(&tree, "JPEGImages/a.2.jpg", "two");
    tree_write_text(&tree, "JPEGImages/3.png", "three");
    tree_write_text(&tree, "Annotations/1.xml", FILE_OF(""));
    tree_write_text(&tree, "Annotations/a.2.xml",
                    FILE_OF(OBJECT("dog", "") OBJECT("cat", DIFFICULT)));
    tree_write_text(&tree, "Annotations/3.xml", FILE_OF(OBJECT("dog", "")));
    tree_write_text(&tree, "Annotations/other.xml", FILE_OF(OBJECT("bird", "")));
    tree_write_text(&tree, "ImageSets/Main/train.txt", "a.2\n1\r\n\n");
    tree_write_text(&tree, "ImageSets/Main/val.txt", "3");
    tree_write_text(&tree, "ImageSets/Main/dog_train.txt", "a.2  1\n");
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(voc, .init = setup, .fini = teardown);

#define EDGES "\"truncated\":0,\"bndbox\":{\"xmin\":1,\"ymin\":2,\"xmax\":30,\"ymax\":4.5}}"

static const char first[] = "{\"category_id\":2,\"id\":1,\"difficult\":0," EDGES;
static const char hard[] = "{\"category_id\":1,\"id\":2,\"difficult\":1," EDGES;

Test(voc, samples_are_the_lines_of_a_split)
{
    struct dataset *d = opened_in(&tree, "voc:", "");
    char name[600], text[400];

    cr_assert(eq(u32, dataset_get_samples(d), 2));
    cr_expect(eq(str, dataset_get_sample_path(d, 0, name, sizeof(name)), "JPEGImages/a.2.jpg"));
    cr_expect(eq(str, dataset_get_sample_path(d, 1, name, sizeof(name)), "JPEGImages/1.jpg"));
    cr_expect(eq(u32, dataset_get_classes(d), 3), "classes of all files");
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 0), "bird"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 2), "dog"));
    (void)snprintf(text, sizeof(text), "[%s,%s]", first, hard);
    has_field(d, 0, "objects", text);
    (void)snprintf(text, sizeof(text), "[%s]", hard);
    has_field(d, 0, "difficult", text);
    has_field(d, 1, "objects", "[]");
    has_field(d, 1, "difficult", "[]");
    dataset_unref(d);
    d = opened_in(&tree, "voc,difficult=drop:", "");
    (void)snprintf(text, sizeof(text), "[%s]", first);
    has_field(d, 0, "objects", text);
    dataset_unref(d);
    d = opened_in(&tree, "voc,split=val:", "");
    has_field(d, 0, "objects", text);
    cr_expect(eq(str, dataset_get_sample_path(d, 0, name, sizeof(name)), "JPEGImages/3.png"));
    dataset_unref(d);
}

Test(voc, classes_may_be_those_of_a_list)
{
    char name[200], text[400];
    struct dataset *d;

    tree_write_text(&tree, "classes.txt", "mouse\nbird\ndog\ncat\n");
    (void)snprintf(name, sizeof(name),
                   "voc,split=val,classes=%s:", tree_path(&tree, "classes.txt"));
    (void)snprintf(text, sizeof(text), "[%s]", first);
    for (int i = 0; i < 2; i++) { /* the second time with the index */
        d = opened_in(&tree, name, "");
        cr_expect(eq(u32, dataset_get_classes(d), 4));
        has_field(d, 0, "objects", text);
        dataset_unref(d);
    }
    tree_write_text(&tree, "classes.txt", "cat\ndog\n");
    refused_in(&tree, name, "", -EBADMSG, "Annotations/other.xml: class 'bird' is not listed in");
    refused_in(&tree, "voc,classes=numbers:", "", -EINVAL,
               "voc,classes=numbers: the classes of this format have names");
}

Test(voc, refuses_wrong_settings_and_lists)
{
    refused_in(&tree, "voc,difficult=x:", "", -EINVAL, "difficult=x: it must be keep or drop");
    refused_in(&tree, "voc,split=../Main/val:", "", -EINVAL, "it must be the name of a list in");
    refused_in(&tree, "voc,split=test:", "", -ENOENT, "ImageSets/Main/test.txt: No such file");
    refused_in(&tree, "voc,split=dog_train:", "", -EBADMSG,
               "ImageSets/Main/dog_train.txt: line 1 has more than the name of a picture");
    tree_write_text(&tree, "ImageSets/Main/val.txt", "3\nnone\nno\n");
    refused_in(&tree, "voc,split=val:", "", -ENOENT,
               "2 of 3 pictures cannot be found or used, the first: ");
    tree_write_text(&tree, "ImageSets/Main/val.txt", "\n");
    refused_in(&tree, "voc,split=val:", "", -EBADMSG, "contains no samples");
}

Test(voc, bad_files_name_the_line)
{
    struct dataset *d;

    tree_write_text(&tree, "Annotations/1.xml", "<annotation>\n<object></object>\n</annotation>");
    tree_write_text(&tree, "ImageSets/Main/train.txt", "1\n4\n");
    tree_write_text(&tree, "JPEGImages/4.jpg", "four");
    d = opened_in(&tree, "voc:", "");
    has_bad_fields(d, 0, -EBADMSG, "Annotations/1.xml: line 2: this <object> lacks its <name>");
    has_bad_fields(d, 1, -EBADMSG, "Annotations/4.xml: the file does not exist");
    dataset_unref(d);
}

Test(voc, a_file_that_is_too_large_is_the_fault_of_its_sample)
{
    struct dataset *d;

    cr_assert(eq(int, truncate(tree_path(&tree, "Annotations/a.2.xml"), (16 << 20) + 1), 0));
    make_old_in(&tree, "Annotations/a.2.xml");
    make_old_in(&tree, "Annotations");
    make_old_in(&tree, "ImageSets/Main/train.txt");
    for (int i = 0; i < 2; i++) { /* the second time with the index */
        d = opened_in(&tree, "voc:", "");
        has_bad_fields(d, 0, -EBADMSG, "Annotations/a.2.xml has more than 16 MiB");
        has_field(d, 1, "objects", "[]");
        dataset_unref(d);
    }
    d = opened_in(&tree, "voc:", "");
    cr_assert(eq(int, truncate(tree_path(&tree, "Annotations/a.2.xml"), (16 << 20) + 2), 0));
    has_bad_fields(d, 0, -ESTALE, "Annotations/a.2.xml has changed since");
    dataset_unref(d);
    cr_assert(eq(int, truncate(tree_path(&tree, "Annotations/1.xml"), 16 << 20), 0));
    d = opened_in(&tree, "voc:", "");
    has_bad_fields(d, 1, -EBADMSG,
                   "Annotations/1.xml: line 1: it has something outside its elements");
    dataset_unref(d);
}

Test(voc, changed_files_are_noticed)
{
    struct dataset *d;

    make_old_in(&tree, "Annotations/1.xml");
    make_old_in(&tree, "Annotations");
    make_old_in(&tree, "ImageSets/Main/train.txt");
    d = opened_in(&tree, "voc:", "");
    tree_write_text(&tree, "Annotations/1.xml", FILE_OF(OBJECT("fox", "")));
    has_bad_fields(d, 1, -ESTALE, "Annotations/1.xml has changed since the data set was indexed");
    dataset_unref(d);
    d = opened_in(&tree, "voc:", ""); /* the index is made again */
    cr_expect(eq(u32, dataset_get_classes(d), 4));
    dataset_unref(d);
    tree_write_text(&tree, "ImageSets/Main/train.txt", "1\n");
    d = opened_in(&tree, "voc:", "");
    cr_expect(eq(u32, dataset_get_samples(d), 1));
    dataset_unref(d);
}

Test(voc, pictures_that_are_listed_twice_are_found)
{
    struct dataset *d;

    tree_write_text(&tree, "ImageSets/Main/train.txt", "1\na.2\n1\n");
    d = opened_in(&tree, "voc:", "");
    has_faults(d, "2: ImageSets/Main/train.txt lists it twice, as samples 0 and 2\n");
    dataset_unref(d);
}

Test(voc, indexing_is_bounded)
{
    char name[200];

    (void)snprintf(name, sizeof(name), "voc:%s", tree_path(&tree, ""));
    is_bounded(name);
}
