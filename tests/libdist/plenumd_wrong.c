/* SPDX-License-Identifier: MIT */
/* plenumd_wrong.c - makes plenumd misbehave. Linked to it, this is plenumd-wrong, whose environment
 * selects how it misbehaves:
 *
 *     nothing                          one sample is wrong, in one channel of its last pixel
 *     PLENUM_WRONG_DISK=1              nothing can be read
 *     PLENUM_WRONG_VERSION=MAJOR.MINOR the pixels are right, but it reports that protocol version:
 *                                      messages of an older minor version lack the fields that it
 *                                      did not know, those of a newer one have extra fields */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/net/wire.h"
#include "common/util/error_set.h"
#include "loader/render/render.h"

enum { WRONG_SAMPLE = 11, OPENED_BYTES_AT_FIRST = 4 * 4 + 16, MORE_BYTES = 24 };

typedef int render_call(const struct render_job *, struct render_result *, struct plenum_error *);
render_call __real_render_bytes_of, __wrap_render_bytes_of;

int __wrap_render_bytes_of(const struct render_job *job, struct render_result *result,
                           struct plenum_error *err)
{
    const struct render_spec *spec = job->spec;
    uint32_t last = spec->views.count - 1;
    int r = __real_render_bytes_of(job, result, err);

    if (getenv("PLENUM_WRONG_DISK"))
        return error_set(err, -EIO, "the disk is broken");
    if (r == 0 && result->sample == WRONG_SAMPLE && !getenv("PLENUM_WRONG_VERSION"))
        job->dst->view[last][render_view_bytes(spec, last) - 1] ^= 1;
    return r;
}

/* Gets the protocol version to report. Returns false if it is the true one. */
static bool played(unsigned *major, unsigned *minor)
{
    const char *text = getenv("PLENUM_WRONG_VERSION");

    return text && sscanf(text, "%u.%u", major, minor) == 2;
}

/* Changes the frame that begins there: removes the fields that this minor version lacks (0: none),
 * or adds fields that the program does not know. */
static int change(struct frame_buffer *b, size_t begin, int r, size_t known)
{
    unsigned major, minor;
    size_t len;

    if (r < 0 || !played(&major, &minor))
        return r;
    if (minor > WIRE_MINOR)
        for (unsigned i = 0; i < MORE_BYTES; i++)
            frame_put_u8(b, 0xa5);
    else if (known)
        b->len = begin + FRAME_HEADER_BYTES + known;
    len = b->len - begin - FRAME_HEADER_BYTES;
    for (unsigned i = 0; i < 4; i++)
        b->bytes[begin + i] = (uint8_t)(len >> (8 * i));
    return b->failed ? -ENOMEM : 0;
}

void __real_wire_hello_init(struct wire_hello *, const char *),
    __wrap_wire_hello_init(struct wire_hello *, const char *);

void __wrap_wire_hello_init(struct wire_hello *m, const char *name)
{
    unsigned major, minor;

    __real_wire_hello_init(m, name);
    if (played(&major, &minor)) {
        m->major = (uint16_t)major;
        m->minor = (uint16_t)minor;
    }
}

int __real_wire_put_hello(struct frame_buffer *, const struct wire_hello *),
    __wrap_wire_put_hello(struct frame_buffer *, const struct wire_hello *);

int __wrap_wire_put_hello(struct frame_buffer *b, const struct wire_hello *m)
{
    size_t begin = b->len, known = 8 + 2 + 2 + 4 + strlen(m->versions) + 4 + strlen(m->name);

    return change(b, begin, __real_wire_put_hello(b, m), m->minor < WIRE_MINOR_JOB ? known : 0);
}

#define CHANGED(message, type, known)                                                             \
    int __real_wire_put_##message(struct frame_buffer *, uint64_t, const struct type *),          \
        __wrap_wire_put_##message(struct frame_buffer *, uint64_t, const struct type *);          \
    int __wrap_wire_put_##message(struct frame_buffer *b, uint64_t request, const struct type *m) \
    {                                                                                             \
        size_t begin = b->len;                                                                    \
                                                                                                  \
        return change(b, begin, __real_wire_put_##message(b, request, m), known);                 \
    }

static size_t opened_known(void)
{
    unsigned major, minor;

    return played(&major, &minor) && minor < WIRE_MINOR_SUBSET ? OPENED_BYTES_AT_FIRST : 0;
}

CHANGED(opened, wire_opened, opened_known())
CHANGED(done, wire_done, 0)
CHANGED(stats, wire_stats, 0)

int __real_wire_get_render(struct frame_reader *, struct wire_render *),
    __wrap_wire_get_render(struct frame_reader *, struct wire_render *);

int __wrap_wire_get_render(struct frame_reader *r, struct wire_render *ret)
{
    unsigned major, minor;
    int result = __real_wire_get_render(r, ret);

    if (played(&major, &minor) && minor < WIRE_MINOR_RESHAPE)
        ret->per_step = ret->offset = 0;
    return result;
}
