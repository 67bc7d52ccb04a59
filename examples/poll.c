/* SPDX-License-Identifier: MIT */
/* poll.c - wait for batches with poll(), together with other descriptors.
 *
 *     cc poll.c -o poll $(pkg-config --cflags --libs plenum)
 *     ./poll photos
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include <plenum/plenum.h>

int main(int argc, char **argv)
{
    struct plenum_stream *stream;
    struct plenum_stream_options options;
    struct plenum_batch batch;
    struct plenum_error err;
    uint64_t hash = 0;

    plenum_stream_options_init(&options);
    options.dataset = argc > 1 ? argv[1] : "photos";
    options.pipeline = "rrc(224) flip(0.5)";
    options.seed = 1;
    options.micro_batch = 32;
    options.epochs = 1;
    int r = plenum_stream_open(NULL, &options, &stream, &err);
    if (r < 0)
        goto fail;
    struct pollfd ready = {.fd = plenum_stream_get_fd(stream, &err), .events = POLLIN};
    while (r == 0 || r == -EAGAIN) {
        if (r == -EAGAIN)
            poll(&ready, 1, -1); // add your own descriptors here
        r = plenum_stream_next(stream, 0, &batch, &err);
        if (r < 0)
            continue;
        hash += plenum_batch_hash(&batch);
        plenum_batch_release(&batch);
    }
    plenum_stream_destroy(stream);
    if (r != -ENODATA)
        goto fail;
    printf("%016" PRIx64 "\n", hash);
    return 0;
fail:
    fprintf(stderr, "poll: %s\n", err.text);
    return 1;
}
