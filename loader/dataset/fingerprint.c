/* SPDX-License-Identifier: MIT */
/* fingerprint.c - computes the fingerprint of a data set.
 *
 * It covers names, sizes and labels of all samples, and the first bytes of some of them, because
 * reading all bytes would take hours. common/data/datasum.c combines the parts into one hash, and
 * reports where two data sets differ. */
#include "config.h"

#include "loader/dataset/dataset_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/data/png_depth.h"
#include "common/order/philox.h"
#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "loader/dataset/picture_size.h"
#include "loader/dataset/remote.h"
#include "loader/image/exif.h"

/* The state of reading the first bytes of some samples, in parallel because storage may be slow. */
struct fingerprint_heads {
    struct dataset *dataset;
    uint32_t samples[FINGERPRINT_SAMPLES];
    XXH128_hash_t hashes[FINGERPRINT_SAMPLES];
    struct plenum_error err;
    atomic_bool failed;
    atomic_uint deep, turned, as_stored; /* for struct index_checked */
};

/* Read the head of a sample that is a file, and store it in the index. */
static int read_file_head(const struct fingerprint_heads *h, uint64_t index,
                          struct dataset_buffer *buffer, struct plenum_error *err)
{
    struct dataset *d = h->dataset;
    struct index_head head = {.sample = h->samples[index]};
    const struct index_sample *sample = &d->index.samples[head.sample];
    char path[DATASET_PATH_MAX];
    int r = dataset_read_head(d, sample, buffer, &head.stamp, err);

    if (r < 0)
        return r;
    if (head.stamp.mtime_ns != sample->where) {
        d->format->file(d, sample, path, sizeof(path));
        return dataset_has_changed(d, path, err);
    }
    index_set_head(&d->index, index, &head);
    return 0;
}

/* Count a JPEG that EXIF turns. If its annotations give its size, this shows on which picture they
 * were made: the stored one, or the one that viewers show. */
static void count_turned(struct fingerprint_heads *h, const struct index_sample *sample,
                         const struct dataset_buffer *buffer)
{
    const struct format *format = h->dataset->format;
    struct picture_size stored;
    uint32_t stated[2] = {0, 0};
    uint8_t orientation = 1;

    if (buffer->len > 2 && memcmp(buffer->bytes, "\xff\xd8", 2) == 0)
        orientation = exif_of_jpeg(buffer->bytes, buffer->len);
    if (orientation == 1)
        return;
    stored = picture_size_find(buffer->bytes, buffer->len);
    if (exif_swaps(orientation) && format->stated_size)
        format->stated_size(h->dataset, sample, stated);
    if (stated[0] != stated[1] && stated[0] == stored.width && stated[1] == stored.height)
        (void)atomic_fetch_add(&h->as_stored, 1);
    else
        (void)atomic_fetch_add(&h->turned, 1);
}

static int hash_head(void *arg, uint64_t index, unsigned thread)
{
    struct fingerprint_heads *h = arg;
    const struct index_sample *sample = &h->dataset->index.samples[h->samples[index]];
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    int r = 0;

    (void)thread;
    if (h->dataset->index.header->heads > 0)
        r = read_file_head(h, index, &buffer, &err);
    else if (sample->len > 0 && sample->len <= DATASET_SAMPLE_MAX && !(sample->flags & INDEX_BAD))
        r = h->dataset->format->read(h->dataset, sample, &buffer, &err);
    if (r < 0 && !atomic_exchange(&h->failed, true))
        h->err = err;
    if (r >= 0 && buffer.len > 0) { /* otherwise it is a bad sample; only its size is covered */
        h->hashes[index] = XXH3_128bits(buffer.bytes, min_u64(buffer.len, FINGERPRINT_BYTES));
        (void)atomic_fetch_add(&h->deep, png_is_deep(buffer.bytes, buffer.len));
        count_turned(h, sample, &buffer);
    }
    dataset_buffer_fini(&buffer);
    return r;
}

static int sum_heads(struct dataset *d, const struct dataset_options *options, struct datasum *sum,
                     struct index_checked *checked, struct plenum_error *err)
{
    uint32_t n = d->index.header->samples;
    struct fingerprint_heads *heads = calloc(1, sizeof(*heads));
    struct parallel loop = {.threads = d->remote ? REMOTE_THREADS : options->threads,
                            .turn = hash_head,
                            .cancel = options->cancel,
                            .arg = heads};
    int r;

    if (!heads)
        return error_set(err, -ENOMEM, "out of memory");
    heads->dataset = d;
    loop.count = n < FINGERPRINT_SAMPLES ? n : FINGERPRINT_SAMPLES;
    assert(d->index.header->heads == 0 || d->index.header->heads == loop.count);
    for (uint32_t i = 0; i < loop.count; i++)
        heads->samples[i] =
            n <= FINGERPRINT_SAMPLES
                ? i
                : philox_below(philox_draw(0, i, 0, DRAW_FINGERPRINT, 0).word[0], n);
    r = parallel_run(&loop);
    if (r < 0)
        (void)error_set(err, r, "%s", heads->err.text);
    *checked = (struct index_checked){.deep = atomic_load(&heads->deep),
                                      .turned = atomic_load(&heads->turned),
                                      .as_stored = atomic_load(&heads->as_stored)};
    sum->heads = XXH3_64bits(heads->hashes, loop.count * sizeof(heads->hashes[0]));
    free(heads);
    return r;
}

struct segments {
    const struct index *index;
    struct datasum *sum;
};

/* Hash the names, sizes and labels of one segment. */
static int sum_segment(void *arg, uint64_t segment, unsigned thread)
{
    struct segments *s = arg;
    const struct index *index = s->index;
    uint32_t begin = datasum_segment_begin(index->header->samples, (unsigned)segment);
    uint32_t end = datasum_segment_begin(index->header->samples, (unsigned)segment + 1);
    XXH3_state_t names, sizes, labels;

    (void)thread;
    (void)XXH3_64bits_reset(&names);
    (void)XXH3_64bits_reset(&sizes);
    (void)XXH3_64bits_reset(&labels);
    for (uint32_t i = begin; i < end; i++) {
        const struct index_sample *sample = &index->samples[i];
        const char *name = index_name(index, sample->name);
        uint32_t last = i > begin ? index->samples[i - 1].container : UINT32_MAX;

        if (sample->container != last) { /* hash each container's name once */
            const char *text = index_name(index, index->containers[sample->container].name);

            (void)XXH3_64bits_update(&names, text, strlen(text) + 1);
        }
        (void)XXH3_64bits_update(&names, name, strlen(name) + 1);
        (void)XXH3_64bits_update(&sizes, &sample->len, sizeof(sample->len));
        (void)XXH3_64bits_update(&labels, &sample->label, sizeof(sample->label));
    }
    s->sum->segments[segment] = (struct datasum_segment){.names = XXH3_64bits_digest(&names),
                                                         .sizes = XXH3_64bits_digest(&sizes),
                                                         .labels = XXH3_64bits_digest(&labels)};
    return 0;
}

size_t fingerprint_heads(const struct dataset *d, size_t samples)
{
    bool files = d->format->whole_files && dataset_has_images(d) && !d->remote;

    return files ? min_u64(samples, FINGERPRINT_SAMPLES) : 0;
}

int fingerprint_sum(struct dataset *d, const struct dataset_options *options, struct datasum *sum,
                    struct index_checked *checked, struct plenum_error *err)
{
    const struct index *index = &d->index;
    struct segments segments = {.index = index, .sum = sum};
    struct parallel loop = {.count = DATASUM_SEGMENTS,
                            .threads = options->threads,
                            .turn = sum_segment,
                            .cancel = options->cancel,
                            .arg = &segments};
    XXH3_state_t state;

    *sum = (struct datasum){.samples = index->header->samples,
                            .classes = index->header->classes,
                            .bytes = index->header->bytes};
    (void)XXH3_64bits_reset(&state);
    for (uint32_t i = 0; i < index->header->class_names; i++) {
        const char *name = index_name(index, index->classes[i]);

        (void)XXH3_64bits_update(&state, name, strlen(name) + 1);
    }
    if (index->header->class_names > 0)
        sum->class_names = XXH3_64bits_digest(&state);
    if (parallel_run(&loop) < 0)
        return -ECANCELED;
    return sum_heads(d, options, sum, checked, err);
}

/* Returns whether the first bytes of a sample that is a file are unchanged. */
static bool head_holds(const struct dataset *d, const struct index_head *head)
{
    const struct index_sample *sample = &d->index.samples[head->sample];
    struct dataset_buffer buffer = {0};
    char path[DATASET_PATH_MAX];
    struct stamp now = {0};
    struct stat st;
    int r;

    d->format->file(d, sample, path, sizeof(path));
    r = scope_stat(&d->scope, path, &st);
    if (r == 0 && (head->stamp.flags & STAMP_SETTLED) &&
        stamp_compare(&head->stamp, &st) == STAMP_SAME)
        return true;
    if (r == 0)
        r = dataset_read_head(d, sample, &buffer, &now, NULL);
    dataset_buffer_fini(&buffer);
    return r == 0 && now.content == head->stamp.content;
}

bool fingerprint_holds(const struct dataset *d)
{
    for (uint64_t i = 0; i < d->index.header->heads; i++)
        if (!head_holds(d, &d->index.heads[i]))
            return false;
    return true;
}
