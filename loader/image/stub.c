#include "config.h"
#include "loader/image/image.h"
#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include "common/error.h"
int image_decoder_create(struct image_decoder **ret)
{
    *ret = malloc(1);
    return 0;
}
void image_decoder_destroy(struct image_decoder *d)
{
    free(d);
}
int image_render(struct image_decoder *d, const struct pipeline *p, const struct image_draw *draw,
                 const struct image_store *store, const uint8_t *bytes, size_t len, void *dst,
                 struct plenum_error *err)
{
    (void)d;
    if (len < 4 || bytes[0] != 0xff)
        return error_set(err, -EBADMSG, "not a JPEG");
    size_t n = (size_t)p->side * p->side * store->channels;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)dst)[i] = (uint8_t)(bytes[i % len] + draw->position + draw->epoch * 7);
    if (store->dtype == PLENUM_INT8)
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)dst)[i] ^= 0x80;
    return 0;
}
int image_self_test(enum pipeline_version v, struct plenum_error *err)
{
    (void)v;
    (void)err;
    return 0;
}
