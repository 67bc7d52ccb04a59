/* SPDX-License-Identifier: MIT */
/* Tests the format "coco:", and the reader of large JSON files. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/json_stream.h"
#include "tests/loader/dataset/detection.h"
#include "tests/loader/dataset/opened.h"
#include "tests/tree.h"

static struct tree tree;

/* ---- JSON in pieces ---- */

struct pieces {
    const char *text;
    size_t len, at, each;
    char got[400];
};

static int64_t read_piece(void *arg, void *bytes, size_t len)
{
    struct pieces *p = arg;
    size_t n = min_u64(min_u64(len, p->each), p->len - p->at);

    memcpy(bytes, p->text + p->at, n);
    p->at += n;
    return (int64_t)n;
}

static int note_item(void *arg, const struct json_item *item, struct plenum_error *err)
{
    struct pieces *p = arg;
    size_t at = strlen(p->got);

    (void)err;
    if (item->value.at)
        cr_assert(eq(
            int,
            memcmp(p->text + item->at, item->value.at, (size_t)(item->value.end - item->value.at)),
            0));
    if (!item->value.at)
        (void)snprintf(p->got + at, sizeof(p->got) - at, "%s[;", item->member);
    else
        (void)snprintf(p->got + at, sizeof(p->got) - at, "%s%s%d=%.*s;", item->member,
                       item->is_list ? "#" : "@", (int)item->number,
                       (int)(item->value.end - item->value.at), item->value.at);
    return 0;
}

struct json_case {
    char text[120];
    char want[160]; /* the items, or a part of the message */
    int code;
};

ParameterizedTestParameters(json_stream, reads)
{
    static struct json_case cases[] = {
        {"{}", "", 0},
        {" \n{ \"a\" : 1 , \"b\":[ ] }\n ", "a@0=1;b[;", 0},
        {"\xef\xbb\xbf{\"a\":[1, \"x,]\" ,{\"b\":[2]},[3]]}",
         "a[;a#0=1;a#1=\"x,]\";a#2={\"b\":[2]};a#3=[3];", 0},
        {"{\"a\":\"\\\\\",\"b\":\"\\\"}\",\"c\":{\"]\":\"}\"}}",
         "a@0=\"\\\\\";b@0=\"\\\"}\";c@0={\"]\":\"}\"};", 0},
        {"{\"\\u0061\":true}", "a@0=true;", 0},
        {"{\"a\\u0000b\":null}", "@0=null;", 0},
        {"{\"0123456789012345678901234567890123456789012345678901234567890123\":1}", "@0=1;", 0},
        {"", "it is not JSON: it is empty, at byte 0", -EBADMSG},
        {"[1]", "it is not a JSON object, in braces", -EBADMSG},
        {"{\"a\":1", "it is not JSON: a comma or a closing bracket is missing, at byte 6",
         -EBADMSG},
        {"{\"a\":[1,2", "it is not JSON: a comma or a closing bracket is missing, at byte 9",
         -EBADMSG},
        {"{\"a\":[1 2]}", "it is not JSON: a comma or a closing bracket is missing, at byte 8",
         -EBADMSG},
        {"{\"a\":[1,]}", "the value that begins at byte 8: it is not JSON: a value is missing",
         -EBADMSG},
        {"{\"a\":1,}", "it is not JSON: a string in double quotes is missing, at byte 7", -EBADMSG},
        {"{a:1}", "it is not JSON: a string in double quotes is missing, at byte 1", -EBADMSG},
        {"{\"a\" 1}", "it is not JSON: a colon is missing, at byte 5", -EBADMSG},
        {"{\"a\":}", "the value that begins at byte 5: it is not JSON", -EBADMSG},
        {"{\"a\":12\"b\"}", "the value that begins at byte 5: it is not JSON", -EBADMSG},
        {"{\"a\":[{]}]}", "the value that begins at byte 6: it is not JSON", -EBADMSG},
        {"{\"a\":{\"b\":\"x}", "the value that begins at byte 5: it is not JSON", -EBADMSG},
        {"{\"a\":\"\xff\"}", "the value that begins at byte 5: it is not JSON", -EBADMSG},
        {"{} x", "it is not JSON: something follows the value, at byte 3", -EBADMSG},
    };
    return cr_make_param_array(struct json_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct json_case *c, json_stream, reads)
{
    for (size_t each = 1; each < 8; each++) {
        struct pieces p = {.text = c->text, .len = strlen(c->text), .each = each};
        struct json_source source = {.read = read_piece, .arg = &p};
        struct plenum_error err = {""};

        cr_expect(eq(int, json_stream_read(&source, note_item, &p, &err), c->code), "%s: %s",
                  c->text, err.text);
        if (c->code == 0)
            cr_expect(eq(str, p.got, c->want), "%s", c->text);
        else
            cr_expect(ne(ptr, (void *)strstr(err.text, c->want), NULL), "%s: '%s' lacks '%s'",
                      c->text, err.text, c->want);
    }
}

static int count_item(void *arg, const struct json_item *item, struct plenum_error *err)
{
    struct pieces *p = arg;

    (void)err;
    if (item->value.at) /* the value is whole, wherever the window moved */
        cr_assert(eq(int, memcmp(item->value.at, "[\"", 2), 0));
    p->got[0] = (char)(p->got[0] + (item->value.at != NULL));
    return 0;
}

Test(json_stream, values_may_be_larger_than_the_window)
{
    enum { VALUE = 3 << 20, COUNT = 3 };
    char *text = malloc(COUNT * (VALUE + 8) + 16);
    struct pieces p = {.text = text, .each = 100000};
    struct json_source source = {.read = read_piece, .arg = &p};
    struct plenum_error err = {""};

    p.len = (size_t)sprintf(text, "{\"a\":[");
    for (int i = 0; i < COUNT; i++) {
        p.len += (size_t)sprintf(text + p.len, "%s[\"", i ? "," : "");
        memset(text + p.len, '}', VALUE);
        p.len += VALUE;
        p.len += (size_t)sprintf(text + p.len, "\"]");
    }
    p.len += (size_t)sprintf(text + p.len, "]}");
    cr_expect(eq(int, json_stream_read(&source, count_item, &p, &err), 0), "%s", err.text);
    cr_expect(eq(int, p.got[0], COUNT));
    free(text);
}

/* A list of a value that never ends. */
static int64_t read_endless(void *arg, void *bytes, size_t len)
{
    struct pieces *p = arg;

    memset(bytes, '[', len);
    if (p->at == 0)
        memcpy(bytes, "{\"a\":[\"", 7);
    p->at += len;
    return (int64_t)len;
}

Test(json_stream, a_value_without_an_end_takes_bounded_memory)
{
    struct pieces p = {.at = 0};
    struct json_source source = {.read = read_endless, .arg = &p};
    struct plenum_error err = {""};

    cr_expect(eq(int, json_stream_read(&source, note_item, &p, &err), -EBADMSG));
    cr_expect(eq(str, err.text, "a value in it has more than 64 MiB"));
    cr_expect(le(sz, p.at, (size_t)200 << 20));
}

/* ---- the data set ---- */

static void setup(void)
{
    tree_init(&tree);
    tree_write_text(&tree, "train2017/7.jpg", "seven");
    tree_write_text(&tree, "train2017/12.jpg", "number twelve");
    tree_write_text(&tree, "train2017/30.jpg", "thirty");
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(coco, .init = setup, .fini = teardown);

#define IMAGES                                                                             \
    "\"images\":[{\"id\":30,\"file_name\":\"30.jpg\"},{\"file_name\":\"7.jpg\",\"id\":7}," \
    "{\"id\":12,\"file_name\":\"12.jpg\",\"width\":4}]"
#define CATEGORIES                                                                        \
    "\"categories\":[{\"id\":90,\"name\":\"toothbrush\"},{\"id\":1,\"name\":\"person\"}," \
    "{\"id\":3,\"name\":\"car\",\"supercategory\":\"vehicle\"}]"
#define OBJECT(id, image, category, rest) \
    "{\"id\":" #id ",\"image_id\":" #image ",\"category_id\":" #category rest "}"
#define BOX ",\"bbox\":[1,2,3,4]"

/* Write a file of annotations. */
static void write_annotations(const char *annotations)
{
    char text[3000];

    (void)snprintf(text, sizeof(text),
                   "{\"info\":{}," IMAGES ",\"annotations\":[%s]," CATEGORIES "}", annotations);
    tree_write_text(&tree, "annotations/instances_train2017.json", text);
}

#define FIRST OBJECT(5, 30, 90, ",\"bbox\": [ 1.50, 2, 3e1,\n4 ], \"iscrowd\": 0")
#define SECOND OBJECT(4, 7, 1, ",\"segmentation\":[[1,2]]" BOX)
#define THIRD OBJECT(9, 30, 3, BOX ",\"iscrowd\":1,\"area\":12")
#define FOURTH OBJECT(2, 30, 1, BOX ",\"keypoints\":[1, 2, 2],\"num_keypoints\":1")

static const char some[] = FIRST "," SECOND "," THIRD "," FOURTH;

Test(coco, samples_are_its_images_by_id_and_labels_are_zero)
{
    struct dataset *d;
    char name[600];

    write_annotations(some);
    d = opened_in(&tree, "coco:", "annotations/instances_train2017.json");
    cr_assert(eq(u32, dataset_get_samples(d), 3));
    for (uint32_t i = 0; i < 3; i++)
        cr_expect(eq(i64, dataset_get_label(d, i), 0));
    cr_expect(eq(str, dataset_get_sample_path(d, 0, name, sizeof(name)), "train2017/7.jpg"));
    cr_expect(eq(str, dataset_get_sample_name(d, 1, name, sizeof(name)),
                 (char *)tree_path(&tree, "train2017/12.jpg")));
    cr_expect(eq(str, dataset_get_sample_path(d, 2, name, sizeof(name)), "train2017/30.jpg"));
    cr_expect(eq(u64, dataset_get_bytes(d), 5 + 13 + 6));
    dataset_unref(d);
}

Test(coco, only_members_of_objects_count)
{
    struct dataset *d;

    write_annotations(
        OBJECT(5, 7, 1, BOX ",\"iscrowd\":0,\"num_keypoints\":{\"iscrowd\":1,\"id\":6}") "," OBJECT(
            6, 30, 1, BOX));
    d = opened_in(&tree, "coco:", "");
    has_field(d, 0, "crowds", "[]");
    has_faults(d, "");
    dataset_unref(d);
}

Test(coco, crowds_are_those_that_python_takes_for_one)
{
    static const char *const flags[] = {"0", "1", "false", "true", "0.0", "1e0"};
    char annotations[200], want[120];
    struct dataset *d;

    for (size_t i = 0; i < ARRAY_LEN(flags); i++) {
        (void)snprintf(annotations, sizeof(annotations), OBJECT(5, 7, 1, ",\"iscrowd\":%s" BOX),
                       flags[i]);
        write_annotations(annotations);
        d = opened_in(&tree, "coco:", "");
        (void)snprintf(want, sizeof(want),
                       "[{\"category_id\":0,\"id\":5,\"iscrowd\":%zu,\"bbox\":[1,2,3,4]}]", i % 2);
        has_field(d, 0, "objects", want);
        dataset_unref(d);
    }
}

Test(coco, objects_are_numbered_by_category_and_crowds_are_separate)
{
    struct dataset *d;

    write_annotations(some);
    d = opened_in(&tree, "coco:", "");
    has_field(d, 0, "objects", "[{\"category_id\":0,\"id\":4,\"iscrowd\":0,\"bbox\":[1,2,3,4]}]");
    has_field(d, 0, "crowds", "[]");
    has_field(d, 0, "image_id", "7");
    has_field(d, 1, "objects", "[]");
    has_field(d, 1, "image_id", "12");
    has_field(d, 2, "objects",
              "[{\"category_id\":2,\"id\":5,\"iscrowd\":0,\"bbox\":[1.50,2,3e1,4]},"
              "{\"category_id\":1,\"id\":9,\"iscrowd\":1,\"bbox\":[1,2,3,4]},"
              "{\"category_id\":0,\"id\":2,\"iscrowd\":0,\"bbox\":[1,2,3,4],"
              "\"keypoints\":[1,2,2],\"num_keypoints\":1}]");
    has_field(d, 2, "crowds", "[ {\"category_id\":1,\"id\":9,\"iscrowd\":0,\"bbox\":[1,2,3,4]}]");
    cr_expect(eq(u32, dataset_get_classes(d), 3));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 0), "person"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 1), "car"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 2), "toothbrush"));
    dataset_unref(d);
}

Test(coco, classes_may_be_the_ids_or_those_of_a_list)
{
    struct dataset *d;
    char name[200];

    write_annotations(OBJECT(5, 7, 90, BOX));
    d = opened_in(&tree, "coco,classes=numbers:", "");
    has_field(d, 0, "objects", "[{\"category_id\":90,\"id\":5,\"iscrowd\":0,\"bbox\":[1,2,3,4]}]");
    cr_expect(eq(u32, dataset_get_classes(d), 91));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 90), "toothbrush"));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 2), ""));
    dataset_unref(d);

    tree_write_text(&tree, "classes.txt", "toothbrush\nhair drier\ncar\nperson\n");
    (void)snprintf(name, sizeof(name), "coco,classes=%s:", tree_path(&tree, "classes.txt"));
    d = opened_in(&tree, name, "");
    has_field(d, 0, "objects", "[{\"category_id\":0,\"id\":5,\"iscrowd\":0,\"bbox\":[1,2,3,4]}]");
    cr_expect(eq(u32, dataset_get_classes(d), 4));
    cr_expect(eq(str, (char *)dataset_get_class_name(d, 3), "person"));
    dataset_unref(d);

    tree_write_text(&tree, "classes.txt", "toothbrush\ncar\n");
    refused_in(&tree, name, "", -EBADMSG, "class 'person' is not listed in");
}

Test(coco, splits_are_found_in_folders)
{
    write_annotations(some);
    dataset_unref(opened_in(&tree, "coco,split=train2017:", ""));
    refused_in(&tree, "coco,split=val:", "", -ENOENT,
               "there is no annotations/instances_val.json: choose one of the splits train2017, as "
               "in coco,split=NAME:FOLDER");
    refused_in(
        &tree, "coco:", "train2017", -ENOENT,
        "there is neither annotations/instances_train.json nor train/_annotations.coco.json");
    refused_in(&tree, "coco,split=train2017:", "annotations/instances_train2017.json", -EINVAL,
               "this chooses a file in a folder, but");
    tree_write_text(&tree, "annotations/instances_train2014.json", "{}");
    refused_in(&tree, "coco:", "", -EINVAL, "several splits begin with 'train': choose one of");
    dataset_unref(opened_in(&tree, "coco,split=train2017:", ""));

    tree_write_text(&tree, "rf/valid/a.jpg", "a");
    tree_write_text(&tree, "rf/valid/_annotations.coco.json",
                    "{\"images\":[{\"id\":0,\"file_name\":\"a.jpg\"}],\"annotations\":[],"
                    "\"categories\":[]}");
    dataset_unref(opened_in(&tree, "coco,split=valid:", "rf"));
}

Test(coco, pictures_are_found_or_named)
{
    static const char *const folders[] = {"images/x", "images", "data", "."};
    char path[64];

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        struct dataset *d;

        (void)snprintf(path, sizeof(path), "set%zu/%s/p.jpg", i, folders[i]);
        tree_write_text(&tree, path, "picture");
        (void)snprintf(path, sizeof(path), "set%zu/labels_x.json", i);
        tree_write_text(&tree, path,
                        "{\"images\":[{\"id\":1,\"file_name\":\"p.jpg\"}],\"categories\":[]}");
        d = opened_in(&tree, "coco:", path);
        has_field(d, 0, "objects", "[]");
        dataset_unref(d);
    }
    tree_write_text(&tree, "far/p.jpg", "picture");
    tree_write_text(&tree, "a/b.json",
                    "{\"images\":[{\"id\":1,\"file_name\":\"p.jpg\"}],\"categories\":[]}");
    refused_in(&tree, "coco:", "a/b.json", -ENOENT, "its first picture, 'p.jpg', is neither in");
    dataset_unref(opened_in(&tree, "coco,images=../far:", "a/b.json"));
    refused_in(&tree, "coco,images=../train2017:", "a/b.json", -ENOENT, "a/b.json: ");
}

struct bad_case {
    char annotations[200];
    char sentence[160];
};

ParameterizedTestParameters(coco, refuses_annotations)
{
    static struct bad_case cases[] = {
        {OBJECT(5, 8, 1, BOX),
         "instances_train2017.json: the annotation with id 5 belongs to image 8, but no image "
         "has this id"},
        {OBJECT(5, 7, 2, BOX),
         "the annotation with id 5, of '7.jpg', has the category 2, but no category has this "
         "id"},
        {OBJECT(5, 7, 1, ""), "entry 0 of \"annotations\": it has no \"bbox\""},
        {OBJECT(5, 7, 1, BOX) ",{\"image_id\":7}", "entry 1 of \"annotations\": it has no \"id\""},
        {"{\"id\":\"a\"}",
         "entry 0 of \"annotations\": its \"id\" is not a whole number, but a string"},
        {"{\"id\":1.5}", "its \"id\" is not a whole number, but a number"},
        {"7", "entry 0 of \"annotations\": it has no \"id\""},
        {OBJECT(5, 7, 1, BOX ",\"iscrowd\":\"1\""),
         "instances_train2017.json: entry 0 of \"annotations\": the \"iscrowd\" of the annotation "
         "with id 5 is not 0, 1, true or false, but a string"},
        {OBJECT(5, 7, 1, BOX ",\"iscrowd\":2"), "is not 0, 1, true or false, but a number"},
        {OBJECT(5, 7, 1, BOX ",\"iscrowd\":0.5"), "is not 0, 1, true or false, but a number"},
        {OBJECT(5, 7, 1, BOX ",\"iscrowd\":NaN"), "is not 0, 1, true or false, but a number"},
        {OBJECT(5, 7, 1, BOX ",\"iscrowd\":null"), "is not 0, 1, true or false, but null"},
        {OBJECT(5, 7, 1, BOX ",\"iscrowd\":[1]"), "is not 0, 1, true or false, but a list"},
    };
    return cr_make_param_array(struct bad_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct bad_case *c, coco, refuses_annotations, .init = setup, .fini = teardown)
{
    write_annotations(c->annotations);
    refused_in(&tree, "coco:", "", -EBADMSG, c->sentence);
}

ParameterizedTestParameters(coco, refuses_files)
{
    static struct bad_case cases[] = {
        {"", "it is not JSON: it is empty, at byte 0"},
        {"{\"annotations\":[]}", "it has no list \"images\", so it does not describe objects"},
        {"{\"images\":[]}", "it has no list \"categories\""},
        {"{\"images\":{}}", "its \"images\" is not a list"},
        {"{\"images\":[],\"images\":[]}", "it has two lists \"images\""},
        {"{\"images\":[],\"categories\":[]}", "contains no samples"},
        {"{\"images\":[{\"id\":1}]}", "entry 0 of \"images\": it has no string \"file_name\""},
        {"{\"images\":[{\"id\":1,\"file_name\":\"a\\u0000b\"}]}",
         "its \"file_name\" is empty, or has a NUL or half a character"},
        {"{\"images\":[{\"id\":1,\"file_name\":\"7.jpg\"},{\"id\":1,\"file_name\":\"b\"}],"
         "\"categories\":[]}",
         "the images '7.jpg' and 'b' have the same id, 1"},
        {"{\"images\":[],\"categories\":[{\"id\":1,\"name\":\"a\"},{\"id\":1,\"name\":\"b\"}]}",
         "the categories 'a' and 'b' have the same id, 1"},
        {"{\"images\":[{\"id\":1,\"file_name\":\"7.jpg\"},{\"id\":2,\"file_name\":\"b\"},"
         "{\"id\":3,\"file_name\":\"c\"}],\"categories\":[]}",
         "2 of 3 pictures cannot be found or used, the first: "},
    };
    return cr_make_param_array(struct bad_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct bad_case *c, coco, refuses_files, .init = setup, .fini = teardown)
{
    struct plenum_error err = {""};
    struct dataset *d = NULL;
    char name[200];

    tree_write_text(&tree, "annotations/instances_train2017.json", c->annotations);
    (void)snprintf(name, sizeof(name), "coco:%s", tree_path(&tree, ""));
    cr_expect(lt(int, dataset_open(name, NULL, &d, &err), 0));
    cr_expect(ne(ptr, (void *)strstr(err.text, c->sentence), NULL), "'%s' lacks '%s'", err.text,
              c->sentence);
}

Test(coco, ids_with_classes_numbers_are_class_numbers)
{
    tree_write_text(&tree, "annotations/instances_train2017.json",
                    "{\"images\":[{\"id\":1,\"file_name\":\"7.jpg\"}],"
                    "\"categories\":[{\"id\":-1,\"name\":\"a\"}]}");
    dataset_unref(opened_in(&tree, "coco:", ""));
    refused_in(&tree, "coco,classes=numbers:", "", -EBADMSG,
               "with classes=numbers, ids of categories must be 0 to 1048575, not -1");
}

Test(coco, a_changed_file_is_read_again)
{
    struct dataset *d;

    write_annotations(OBJECT(5, 7, 90, BOX));
    make_old_in(&tree, "annotations/instances_train2017.json");
    d = opened_in(&tree, "coco:", "");
    has_field(d, 0, "objects", "[{\"category_id\":2,\"id\":5,\"iscrowd\":0,\"bbox\":[1,2,3,4]}]");
    dataset_unref(d);
    write_annotations(OBJECT(6, 7, 90, BOX)); /* of the same size */
    make_old_in(&tree, "annotations/instances_train2017.json");
    d = opened_in(&tree, "coco:", "");
    has_field(d, 0, "objects", "[{\"category_id\":2,\"id\":6,\"iscrowd\":0,\"bbox\":[1,2,3,4]}]");
    dataset_unref(d);
}

Test(coco, indexing_is_bounded)
{
    char name[200];

    write_annotations(some);
    (void)snprintf(name, sizeof(name), "coco:%s", tree_path(&tree, ""));
    is_bounded(name);
}

Test(coco, ids_that_are_used_twice_are_found)
{
    struct dataset *d;

    write_annotations(OBJECT(5, 7, 1, BOX) "," OBJECT(5, 30, 1, BOX) "," OBJECT(
        6, 7, 1, BOX) "," OBJECT(6, 7, 1, BOX));
    d = opened_in(&tree, "coco:", "");
    has_faults(d, "2: instances_train2017.json has two annotations with id 5, one of this image "
                  "and one of train2017/7.jpg: ids must be unique\n"
                  "0: instances_train2017.json has two annotations with id 6, one of this image "
                  "and one of this one: ids must be unique\n");
    dataset_unref(d);
}
