/* SPDX-License-Identifier: MIT */
/* fuzz_yolo.c - reads arbitrary bytes as a data.yaml, and as a label file with and without key
 * points. An accepted data.yaml is complete, and objects are valid JSON. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset/json_find.h"
#include "loader/dataset/yolo_label.h"
#include "loader/dataset/yolo_yaml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

static void read_yaml(const char *text, size_t size)
{
    struct yolo_yaml y = {.path = NULL};
    struct plenum_error err = {""};
    int r = yolo_yaml_parse(text, size, &y, &err);

    require(r == 0 || (r == -EBADMSG && err.text[0]));
    if (r == 0)
        require(y.nc < 0 || (size_t)y.nc == y.names.count);
    for (size_t i = 0; i < y.names.count && r == 0; i++)
        require(y.names.all[i] && strlen(y.names.all[i]) <= size + 20);
    for (int s = 0; s < YOLO_SPLITS; s++)
        for (size_t i = 0; i < y.splits[s].count; i++)
            require(strlen(y.splits[s].all[i]) <= size);
    yolo_yaml_fini(&y);
}

static void read_label(const char *text, size_t size, uint32_t points, uint32_t values)
{
    static const int32_t classes[] = {4, 0, 7};
    struct yolo_label_form form = {640, 480, classes, 3, points, values};
    struct plenum_error err = {""};
    struct json_at json, rest, each;
    char *objects = NULL;
    int r = yolo_label_read(text, size, &form, &objects, &err);

    require(r == 0 || (r == -EBADMSG && err.text[0]));
    if (r < 0)
        return;
    require(json_parse(objects, strlen(objects), &json, &err) == 0);
    for (rest = json_begin(json); json_next(&rest, &each);)
        require(json_type(each) == JSON_AT_OBJECT);
    free(objects);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;

    read_yaml(text, size);
    read_label(text, size, 0, 0);
    read_label(text, size, 1, 2);
    read_label(text, size, 2, 3);
    return 0;
}
