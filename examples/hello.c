/* SPDX-License-Identifier: MIT */
/* hello.c - read one epoch of a data set, batch by batch.
 *
 *     cc hello.c -o hello $(pkg-config --cflags --libs plenum)
 *     ./hello photos
 *     plenumrun -n 2 ./hello photos
 */
#include <errno.h>
#include <stdio.h>

#include <plenum/plenum.h>

int main(int argc, char **argv)
{
    struct plenum_job *job = NULL;
    struct plenum_stream *stream = NULL;
    struct plenum_stream_options options;
    struct plenum_batch batch;
    struct plenum_error err;
    unsigned long images = 0;
    int r;

    if (plenum_job_open(&job, &err) < 0)
        goto fail;
    plenum_stream_options_init(&options);
    options.dataset = argc > 1 ? argv[1] : "photos";
    options.pipeline = "rrc(224) flip(0.5)";
    options.micro_batch = 32;
    options.epochs = 1;
    if (plenum_stream_open(plenum_job_get_info(job), &options, &stream, &err) < 0)
        goto fail;

    while ((r = plenum_stream_next(stream, PLENUM_FOREVER, &batch, &err)) == 0) {
        images += batch.num_valid; // train here: batch.pixels, batch.labels, batch.valid
        plenum_batch_release(&batch);
    }
    if (r != -ENODATA) // the end of the last epoch
        goto fail;

    printf("%lu images\n", images);
    plenum_stream_destroy(stream);
    plenum_job_close(job);
    return 0;

fail:
    fprintf(stderr, "hello: %s\n", err.text);
    plenum_stream_destroy(stream);
    plenum_job_close(job);
    return 1;
}
