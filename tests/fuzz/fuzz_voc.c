/* SPDX-License-Identifier: MIT */
/* fuzz_voc.c - reads arbitrary bytes as an XML file of Pascal VOC: each object has a name and
 * finite edges, or there is an error message. */
#include "config.h"

#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset/voc_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

static int take(void *arg, const struct voc_object *object, struct plenum_error *err)
{
    size_t *count = arg;

    (void)err;
    require(object->name[0] && strlen(object->name) < 512);
    for (int i = 0; i < 4; i++)
        require(isfinite(object->edges[i]));
    ++*count;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plenum_error err = {""};
    struct voc_picture picture;
    size_t count = 0;
    int r = voc_xml_read((const char *)data, size, take, &count, &picture, &err);

    require(r == 0 || (r == -EBADMSG && err.text[0]));
    require(count <= size);
    return 0;
}
