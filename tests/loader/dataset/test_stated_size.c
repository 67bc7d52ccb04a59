/* SPDX-License-Identifier: MIT */
/* Tests the sizes that annotations give for pictures, and the warning about EXIF. */
#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "tests/tree.h"

static struct tree tree;

/* Write a picture of 40 x 20 that EXIF turns. */
static void write_turned(const char *name, char orientation)
{
    char exif[] = "\xff\xe1\0\x22"
                  "Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0?\0\0\0\0\0\0";
    char bytes[20000];
    ssize_t n;
    int fd;

    exif[28] = orientation;
    tree_write_jpeg(&tree, name, 40, 20, 1);
    fd = open(tree_path(&tree, name), O_RDWR);
    n = read(fd, bytes, sizeof(bytes));
    cr_assert(n > 2 && n < (ssize_t)sizeof(bytes));
    cr_assert(eq(int, pwrite(fd, exif, 36, 2) == 36, 1));
    cr_assert(eq(int, pwrite(fd, bytes + 2, (size_t)n - 2, 38) == n - 2, 1));
    (void)close(fd);
}

static void setup(void)
{
    tree_init(&tree);
    write_turned("a.jpg", 1);
    write_turned("b.jpg", 6);
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(stated_size, .init = setup, .fini = teardown);

#define BOX "\"bbox\":[1,2,3,4]"

/* Check the warnings of pipelines without and with exif: their beginnings, or "". */
static void warns(const char *name, const char *fields, const char *without, const char *with)
{
    struct dataset_options options = {.fields = fields};
    struct plenum_error err = {""};
    struct dataset *d;
    char text[600];

    for (int i = 0; i < 2; i++) { /* the second time with the index */
        cr_assert(eq(int, dataset_open(name, &options, &d, &err), 0), "%s", err.text);
        cr_expect(eq(int,
                     strncmp(dataset_warn_of_exif(d, false, text, sizeof(text)), without,
                             strlen(without) + !*without),
                     0),
                  "%s, without exif: '%s'", name, text);
        cr_expect(eq(int,
                     strncmp(dataset_warn_of_exif(d, true, text, sizeof(text)), with,
                             strlen(with) + !*with),
                     0),
                  "%s, with exif: '%s'", name, text);
        dataset_unref(d);
    }
}

static const char turned[] =
    "1 of the 2 pictures that were checked are stored turned (EXIF), but the pipeline lacks exif";
static const char as_stored[] = "the pipeline turns pictures by EXIF, but the annotations of 1 of "
                                "the 2 that were checked give the size as stored";
static const char boxes[] = "objects:objects:boxes";

static void write_coco(const char *size)
{
    char text[1000];

    (void)snprintf(text, sizeof(text),
                   "{\"images\":[{\"id\":1,\"file_name\":\"a.jpg\"},{\"id\":2,\"file_name\":"
                   "\"b.jpg\"%s}],\"categories\":[{\"id\":1,\"name\":\"x\"}],\"annotations\":["
                   "{\"id\":1,\"image_id\":2,\"category_id\":1," BOX "}]}",
                   size);
    tree_write_text(&tree, "x.json", text);
}

Test(stated_size, cocos_sizes_show_which_picture_has_the_boxes)
{
    static const struct {
        const char *size;
        const char *without, *with;
    } cases[] = {
        {"", turned, ""},
        {",\"width\":20,\"height\":40", turned, ""},
        {",\"width\":40,\"height\":20", "", as_stored},
        {",\"width\":40", turned, ""},
        {",\"width\":40.0,\"height\":20", "", as_stored},
        {",\"width\":\"40\",\"height\":\"20\"", turned, ""},
        {",\"width\":-40,\"height\":20", turned, ""},
        {",\"width\":4294967336,\"height\":20", turned, ""}, /* 40, modulo 2^32 */
    };
    char name[600];

    (void)snprintf(name, sizeof(name), "coco:%s", tree_path(&tree, "x.json"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        write_coco(cases[i].size);
        warns(name, boxes, cases[i].without, cases[i].with);
    }
    write_turned("b.jpg", 3); /* upside down: the size does not show it */
    write_coco(",\"width\":40,\"height\":20");
    warns(name, boxes, turned, "");
    write_turned("b.jpg", 1);
    warns(name, boxes, "", "");
}

Test(stated_size, streams_without_boxes_have_no_warning)
{
    char name[600];

    write_coco("");
    (void)snprintf(name, sizeof(name), "coco:%s", tree_path(&tree, "x.json"));
    warns(name, NULL, "", "");
    tree_write_text(&tree, "list.csv",
                    "path,label,boxes,number\na.jpg,0,[],1\nb.jpg,0,\"[{\"\"bbox\"\": [1,2,3,4],"
                    "\"\"category_id\"\":1}]\",2\n");
    (void)snprintf(name, sizeof(name), "list:%s", tree_path(&tree, "list.csv"));
    warns(name, "number:number:int64", "", "");
    warns(name, "number:number:int64,boxes:boxes:boxes", turned, "");
}

Test(stated_size, vocs_sizes_show_which_picture_has_the_boxes)
{
    static const char *const sizes[] = {
        "<size><width>20</width><height>40</height></size>",
        "<size><height> 20 </height><width>40</width><depth>3</depth></size>",
        "<object><width>40</width><height>20</height><name>x</name><bndbox><xmin>1</xmin><ymin>1"
        "</ymin><xmax>2</xmax><ymax>2</ymax></bndbox></object>",
        "<size><width>40</width><height>0</height></size>"};
    char name[600], text[300];
    struct dataset *d;
    struct plenum_error err;
    uint32_t got[2];

    write_turned("JPEGImages/a.jpg", 1);
    write_turned("JPEGImages/b.jpg", 8);
    tree_write_text(&tree, "Annotations/a.xml", "<annotation/>");
    tree_write_text(&tree, "ImageSets/Main/train.txt", "a\nb\n");
    (void)snprintf(name, sizeof(name), "voc:%s", tree_path(&tree, ""));
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        (void)snprintf(text, sizeof(text), "<annotation>%s</annotation>", sizes[i]);
        (void)unlink(tree_path(&tree, "Annotations/b.xml")); /* so that the folder changes */
        tree_write_text(&tree, "Annotations/b.xml", text);
        warns(name, boxes, i == 1 ? "" : turned, i == 1 ? as_stored : "");
    }
    cr_assert(eq(int, dataset_open(name, NULL, &d, &err), 0), "%s", err.text);
    dataset_get_stated_size(d, 0, got);
    cr_expect(eq(u32, got[0] + got[1], 0));
    dataset_get_stated_size(d, 1, got);
    cr_expect(eq(u32, got[0], 40));
    cr_expect(eq(u32, got[1], 0));
    dataset_unref(d);
}

Test(stated_size, yolos_boxes_are_those_of_turned_pictures)
{
    char name[600];

    write_turned("images/a.jpg", 1);
    write_turned("images/b.jpg", 5);
    tree_write_text(&tree, "labels/a.txt", "0 0.5 0.5 0.1 0.1\n");
    tree_write_text(&tree, "data.yaml", "train: images\nnc: 1\n");
    (void)snprintf(name, sizeof(name), "yolo:%s", tree_path(&tree, ""));
    warns(name, boxes, turned, "");
}
