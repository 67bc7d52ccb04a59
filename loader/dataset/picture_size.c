/* SPDX-License-Identifier: MIT */
/* picture_size.c - finds the sizes of images, and reads no more of them than that takes. The
 * decoders (loader/image) check far more. An image that they reject may have a size here; a stream
 * then substitutes it like any bad sample. */
#include "config.h"

#include "loader/dataset/picture_size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/dataset/dataset_priv.h"
#include "loader/dataset/number.h"
#include "loader/dataset/remote.h"
#include "loader/image/big_endian.h"
#include "loader/image/jpeg/jpeg_marker.h"

static uint32_t get_be16(const uint8_t *at)
{
    return (uint32_t)at[0] << 8 | at[1];
}

static uint32_t little(const uint8_t *at, unsigned bytes)
{
    uint32_t value = 0;

    while (bytes-- > 0)
        value = value << 8 | at[bytes];
    return value;
}

static struct picture_size size_of(uint32_t width, uint32_t height)
{
    if (width == 0 || width > UINT16_MAX || height == 0 || height > UINT16_MAX)
        return (struct picture_size){0};
    return (struct picture_size){(uint16_t)width, (uint16_t)height};
}

static struct picture_size find_jpeg(const uint8_t *bytes, size_t len)
{
    struct jpeg_markers m = {.bytes = bytes, .len = len, .at = 2};

    while (jpeg_markers_next(&m))
        if (jpeg_markers_at_frame(&m))
            return m.size >= 5 ? size_of(get_be16(m.data + 3), get_be16(m.data + 1))
                               : (struct picture_size){0};
    return (struct picture_size){0};
}

static struct picture_size find_webp(const uint8_t *bytes, size_t len)
{
    if (len < 30)
        return (struct picture_size){0};
    if (memcmp(bytes + 12, "VP8X", 4) == 0)
        return size_of(little(bytes + 24, 3) + 1, little(bytes + 27, 3) + 1);
    if (memcmp(bytes + 12, "VP8L", 4) == 0) {
        uint32_t bits = little(bytes + 21, 4);

        return size_of((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1);
    }
    return size_of(little(bytes + 26, 2) & 0x3FFF, little(bytes + 28, 2) & 0x3FFF);
}

/* Returns the next number of a PPM's header, after white space and comments, or 0 if there is
 * none. */
static uint32_t ppm_number(const uint8_t *bytes, size_t len, size_t *at)
{
    uint32_t value = 0;

    while (*at < len && (strchr(" \t\r\n\v\f", bytes[*at]) || bytes[*at] == '#')) {
        if (bytes[*at] == '#')
            while (*at < len && bytes[*at] != '\n')
                ++*at;
        else
            ++*at;
    }
    for (; *at < len && number_is_digit((char)bytes[*at]) && value <= UINT16_MAX; ++*at)
        value = value * 10 + (bytes[*at] - (uint32_t)'0');
    return value;
}

static struct picture_size find_ppm(const uint8_t *bytes, size_t len)
{
    size_t at = 2;
    uint32_t width = ppm_number(bytes, len, &at);

    return size_of(width, ppm_number(bytes, len, &at));
}

/* Returns the largest "ispe" of an AVIF, which is that of the whole image: those of tiles and
 * thumbnails are smaller. */
static struct picture_size find_avif(const uint8_t *bytes, size_t len, int depth)
{
    enum { DEPTH = 4 }; /* meta, iprp, ipco, ispe */
    struct picture_size most = {0};

    while (len >= 8) {
        uint32_t size = get_be32(bytes), skip = memcmp(bytes + 4, "meta", 4) == 0 ? 12 : 8;
        size_t end = size == 0 || size > len ? len : size;
        struct picture_size found = {0};

        if (size == 1 || end < skip) /* a box with a 64-bit size, or one that is too small */
            break;
        if (memcmp(bytes + 4, "ispe", 4) == 0 && end >= 20)
            found = size_of(get_be32(bytes + 12), get_be32(bytes + 16));
        else if (depth < DEPTH && (skip == 12 || memcmp(bytes + 4, "iprp", 4) == 0 ||
                                   memcmp(bytes + 4, "ipco", 4) == 0))
            found = find_avif(bytes + skip, end - skip, depth + 1);
        if ((uint32_t)found.width * found.height > (uint32_t)most.width * most.height)
            most = found;
        bytes += end;
        len -= end;
    }
    return most;
}

struct picture_size picture_size_find(const uint8_t *bytes, size_t len)
{
    if (len >= 2 && memcmp(bytes, "\xFF\xD8", 2) == 0)
        return find_jpeg(bytes, len);
    if (len >= 24 && memcmp(bytes, "\x89PNG\r\n\x1A\n\0\0\0\rIHDR", 16) == 0)
        return size_of(get_be32(bytes + 16), get_be32(bytes + 20));
    if (len >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
        return find_webp(bytes, len);
    if (len >= 12 && memcmp(bytes + 4, "ftyp", 4) == 0)
        return find_avif(bytes, len, 0);
    if (len >= 2 && bytes[0] == 'P' && (bytes[1] == '5' || bytes[1] == '6'))
        return find_ppm(bytes, len);
    return (struct picture_size){0};
}

/* ---- all samples ---- */

struct measuring {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct picture_size *sizes;     /* [samples] */
    struct dataset_buffer *buffers; /* [threads] */
    atomic_bool failed;
    struct plenum_error err; /* the first failure */
};

/* Read the beginning of a sample, or all of it if the format cannot read a part. */
static int read_beginning(const struct dataset *d, uint32_t sample, struct dataset_buffer *buffer,
                          struct plenum_error *err)
{
    struct index_sample part = d->index.samples[sample];
    struct stamp stamp;
    int r;

    if (d->format->whole_files) {
        r = dataset_read_head(d, &part, buffer, &stamp, err);
        return r < 0 ? dataset_read(d, sample, buffer, err) : r; /* dataset_read() retries */
    }
    if (!d->format->reads_part || part.len <= FINGERPRINT_BYTES)
        return dataset_read(d, sample, buffer, err);
    part.len = FINGERPRINT_BYTES;
    r = d->format->read(d, &part, buffer, err);
    return r < 0 ? dataset_read(d, sample, buffer, err) : r; /* dataset_read() retries */
}

static int measure_sample(void *arg, uint64_t index, unsigned thread)
{
    struct measuring *m = arg;
    struct dataset_buffer *buffer = &m->buffers[thread];
    uint32_t sample = (uint32_t)index, len = m->dataset->index.samples[sample].len;
    struct picture_size *size = &m->sizes[sample];
    struct plenum_error err;
    int r;

    if (len == 0 || len > DATASET_SAMPLE_MAX)
        return 0;
    r = read_beginning(m->dataset, sample, buffer, &err);
    if (r == 0)
        *size = picture_size_find(buffer->bytes, buffer->len);
    if (r == 0 && size->width == 0 &&
        buffer->len < len) { /* the size may follow a long preview or profile */
        r = dataset_read(m->dataset, sample, buffer, &err);
        if (r == 0)
            *size = picture_size_find(buffer->bytes, buffer->len);
    }
    if (r == -EBADMSG) /* a bad sample has no size */
        return 0;
    if (r < 0 && !atomic_exchange(&m->failed, true))
        m->err = err;
    return r;
}

static void show_measuring(void *arg, uint64_t done, uint64_t total)
{
    const struct measuring *m = arg;

    if (m->options->progress)
        m->options->progress(m->options->progress_arg, "sizes of images", done, total);
}

static int measure_all(void *arg, void **ret, size_t *len, struct plenum_error *err)
{
    struct measuring *m = arg;
    const struct dataset *d = m->dataset;
    struct parallel loop = {.count = dataset_get_samples(d),
                            .threads = d->remote ? REMOTE_THREADS : m->options->threads,
                            .turn = measure_sample,
                            .progress = show_measuring,
                            .cancel = m->options->cancel,
                            .arg = m};
    int r = -ENOMEM;

    if (loop.threads == 0)
        loop.threads = parallel_cpus();
    m->sizes = calloc(loop.count, sizeof(*m->sizes));
    m->buffers = calloc(loop.threads, sizeof(*m->buffers));
    if (m->sizes && m->buffers)
        r = parallel_run(&loop);
    for (unsigned i = 0; m->buffers && i < loop.threads; i++)
        dataset_buffer_fini(&m->buffers[i]);
    free(m->buffers);
    if (r < 0) {
        free(m->sizes);
        return atomic_load(&m->failed)
                   ? error_set(err, r, "%s", m->err.text)
                   : error_set(err, r, "%s", r == -ENOMEM ? "out of memory" : strerror(-r));
    }
    *ret = m->sizes;
    *len = loop.count * sizeof(*m->sizes);
    return 0;
}

static bool sizes_hold(void *arg, const void *bytes, size_t len)
{
    const struct measuring *m = arg;

    (void)bytes; /* any sizes are possible */
    return len == dataset_get_samples(m->dataset) * sizeof(struct picture_size);
}

int picture_size_open_all(const struct dataset *dataset, const struct dataset_options *options,
                          struct kept_table *ret, struct plenum_error *err)
{
    struct measuring m = {.dataset = dataset, .options = options};
    struct kept_recipe recipe = {
        .key = "sizes", .make = measure_all, .holds = sizes_hold, .arg = &m};

    if (dataset_is_generated(dataset) || !dataset_has_images(dataset))
        return error_set(err, -EINVAL, "%s has no images with a width and a height",
                         dataset_get_name(dataset));
    return kept_table_open(dataset, options, &recipe, ret, err);
}
