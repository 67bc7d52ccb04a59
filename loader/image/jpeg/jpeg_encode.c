/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/image/encode.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

struct encoder {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    jmp_buf failed;
};

static void on_error(j_common_ptr c)
{
    struct encoder *e = (struct encoder *)c->client_data;

    longjmp(e->failed, 1);
}

static void on_message(j_common_ptr c)
{
    (void)c;
}

static void set_sampling(j_compress_ptr c, enum encode_subsampling s)
{
    static const int factors[][2] = {
        [ENCODE_420] = {2, 2}, [ENCODE_422] = {2, 1}, [ENCODE_444] = {1, 1},
        [ENCODE_440] = {1, 2}, [ENCODE_411] = {4, 1},
    };

    c->comp_info[0].h_samp_factor = factors[s][0];
    c->comp_info[0].v_samp_factor = factors[s][1];
}

static int encode(struct encoder *e, const struct encode_options *o, unsigned char **bytes,
                  unsigned long *len)
{
    j_compress_ptr c = &e->c;

    if (setjmp(e->failed))
        return -EINVAL;
    jpeg_create_compress(c);
    jpeg_mem_dest(c, bytes, len);
    c->image_width = o->width;
    c->image_height = o->height;
    c->input_components = o->cmyk ? 4 : o->grey ? 1 : 3;
    c->in_color_space = o->cmyk ? JCS_CMYK : o->grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(c);
    if (o->cmyk)
        c->write_Adobe_marker = TRUE;
    jpeg_set_quality(c, o->quality ? o->quality : 90, TRUE);
    if (!o->grey && !o->cmyk)
        set_sampling(c, o->subsampling);
    if (o->progressive)
        jpeg_simple_progression(c);
    c->optimize_coding = o->optimize;
    c->restart_in_rows = (int)o->restart;
    c->dct_method = JDCT_ISLOW;
    jpeg_start_compress(c, TRUE);
    while (c->next_scanline < c->image_height) {
        JSAMPROW row = (JSAMPROW)(uintptr_t)(o->pixels + (size_t)c->next_scanline * o->width *
                                                             (unsigned)c->input_components);

        (void)jpeg_write_scanlines(c, &row, 1);
    }
    jpeg_finish_compress(c);
    return 0;
}

int encode_jpeg(const struct encode_options *options, uint8_t **ret, size_t *ret_len)
{
    /* This is on the heap, because local variables would be undefined after longjmp(). */
    struct job {
        struct encoder e;
        unsigned char *bytes;
        unsigned long len;
    } *job = calloc(1, sizeof(*job));
    int r;

    if (!job)
        return -ENOMEM;
    job->e.c.err = jpeg_std_error(&job->e.errors);
    job->e.errors.error_exit = on_error;
    job->e.errors.output_message = on_message;
    job->e.c.client_data = &job->e;
    r = encode(&job->e, options, &job->bytes, &job->len);
    jpeg_destroy_compress(&job->e.c);
    if (r < 0) {
        free(job->bytes);
    } else {
        *ret = job->bytes;
        *ret_len = job->len;
    }
    free(job);
    return r;
}
