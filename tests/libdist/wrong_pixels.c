/* wrong_pixels.c - linked to plenumd, it makes one sample wrong: plenumd-wrong, for the tests of verification. With
 * PLENUM_WRONG_DISK in its environment it can read nothing. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "common/error.h"
#include "loader/render/render.h"

enum { WRONG_SAMPLE = 11 };

typedef int render_call(const struct render_spec *, struct render_scratch *, uint64_t, uint64_t, const struct dataset_buffer *, int,
                        const struct plenum_error *, void *, struct render_result *, struct plenum_error *);
render_call __real_render_position, __wrap_render_position;

int __wrap_render_position(const struct render_spec *spec, struct render_scratch *scratch, uint64_t epoch, uint64_t position,
                           const struct dataset_buffer *buffer, int code, const struct plenum_error *read_err, void *pixels,
                           struct render_result *result, struct plenum_error *err)
{
    int r = __real_render_position(spec, scratch, epoch, position, buffer, code, read_err, pixels, result, err);

    if (getenv("PLENUM_WRONG_DISK"))
        return error_set(err, -EIO, "the disk is broken");
    if (r == 0 && result->sample == WRONG_SAMPLE)
        ((uint8_t *)pixels)[render_bytes(spec) - 1] ^= 1; /* one level of one channel of the last pixel */
    return r;
}
