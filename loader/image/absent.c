/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/absent.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static int absent_reader_open(struct image_reader *reader, const uint8_t *bytes, size_t len,
                              struct image_header *ret, struct plenum_error *err)
{
    const struct absent_reader *a = container_of(reader, struct absent_reader, base);

    (void)bytes;
    (void)len;
    (void)ret;
    return error_set(err, -ENOTSUP,
                     "this is %s image, and this loader was built without %s: install %s-dev "
                     "(Fedora, RHEL: %s-devel) and rebuild it, or convert the image",
                     a->an, a->library, a->library, a->library);
}

static void absent_reader_close(struct image_reader *reader)
{
    (void)reader;
}

static void absent_reader_destroy(struct image_reader *reader)
{
    free(container_of(reader, struct absent_reader, base));
}

int absent_reader_create(bool (*knows)(const uint8_t *bytes, size_t len), const char *an,
                         const char *library, struct image_reader **ret)
{
    struct absent_reader *a = malloc(sizeof(*a));

    if (!a)
        return -ENOMEM;
    *a = (struct absent_reader){
        /* open() always fails, so the other functions are never called. */
        .ops = {.knows = knows,
                .open = absent_reader_open,
                .close = absent_reader_close,
                .destroy = absent_reader_destroy},
        .an = an,
        .library = library,
    };
    a->base.ops = &a->ops;
    *ret = &a->base;
    return 0;
}
