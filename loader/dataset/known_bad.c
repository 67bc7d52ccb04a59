/* SPDX-License-Identifier: MIT */
/* known_bad.c - manages the known bad samples of a data set, and their part in its fingerprint.
 * badlist.c reads and writes the list.
 *
 * Pipelines with the word `junk` show some of the listed samples. For these pipelines, the data set
 * is opened with options.junk: its list is then shorter, and its checksum and fingerprint differ.
 * So a loader whose list does not mark these samples has a different fingerprint. */
#include "config.h"

#include "loader/dataset/dataset_priv.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/cache.h"

/* Set the path of the list of bad samples, or NULL without a cache folder. The path contains the
 * fingerprint of the data set without the list, so the list is found under any name of the data
 * set, and can be copied to other hosts. */
static int set_bad_path(struct dataset *d, const struct dataset_options *options,
                        struct plenum_error *err)
{
    char cache[4096], hex[33];

    if (cache_folder(options->cache_dir, cache, sizeof(cache)) < 0)
        return 0;
    datasum_hex(d->index.header->fingerprint, hex);
    assert(!d->bad_path);
    d->bad_path = str_format("%s/%s.bad", cache, hex);
    return d->bad_path ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* Compute the checksum and the fingerprint with a list. */
static void sum_with(const struct dataset *d, const struct badlist *list, struct datasum *sum,
                     uint8_t fingerprint[16])
{
    *sum = d->index.header->sum;
    sum->bad = badlist_hash(list);
    datasum_fingerprint(sum, fingerprint);
}

/* Read the list. A list that we may not read, or that other users can write, is ignored with a
 * warning. */
static int read_list(struct dataset *d, struct plenum_error *err)
{
    const struct index_header *h = d->index.header;
    int r = badlist_read(d->bad_path, h->fingerprint, h->samples, &d->bad);

    switch (r) {
    case -EPERM:
        dataset_add_warning(
            d, d->bad_path,
            " is ignored, because it belongs to another user or others may write to it");
        return 0;
    case -EACCES:
        dataset_add_warning(d, d->bad_path, " may be a list of bad samples, but cannot be read");
        return 0;
    case -EBADMSG:
        return error_set(err, r, "%s: %s", d->bad_path,
                         "the list of bad samples is damaged: remove it, or rebuild it with "
                         "plenumctl verify");
    default:
        return r < 0 ? error_set(err, r, "%s: %s", d->bad_path, strerror(-r)) : r;
    }
}

int known_bad_load(struct dataset *d, const struct dataset_options *options,
                   struct plenum_error *err)
{
    int r = dataset_is_generated(d) ? 0 : set_bad_path(d, options, err);

    if (r < 0)
        return r;
    if (d->bad_path && !options->forget_bad) {
        r = read_list(d, err);
        if (r < 0)
            return r;
        if (options->junk)
            badlist_forgive_junk(&d->bad);
    }
    sum_with(d, &d->bad, &d->sum, d->fingerprint);
    return 0;
}

/* Returns whether two lists differ for any pipeline. */
static bool differ(const struct badlist *before, const struct dataset_bad *bad, uint32_t count)
{
    const struct badlist now = {.samples = (struct dataset_bad *)bad, .count = count};
    bool changed = before->count != count || badlist_hash(before) != badlist_hash(&now);

    for (uint32_t i = 0; !changed && i < count; i++)
        changed = before->samples[i].junk != bad[i].junk;
    return changed;
}

int dataset_keep_bad(const struct dataset *dataset, const struct dataset_bad *bad, uint32_t count,
                     struct dataset_kept *ret, struct plenum_error *err)
{
    const struct index_header *h = dataset->index.header;
    const char *path = dataset->bad_path;
    struct badlist now = {.samples = (struct dataset_bad *)bad, .count = count}, before;
    struct dataset_kept kept;
    struct datasum sum;
    int r;

    if (!path)
        return error_set(
            err, -EROFS,
            "the list of bad samples cannot be saved: there is no cache folder; see --cache-dir");
    r = badlist_read(path, h->fingerprint, h->samples, &before);
    kept.changed = r < 0 || differ(&before, bad, count);
    badlist_fini(&before);
    if (count > 0)
        r = badlist_write(path, dataset->name, h->fingerprint, bad, count);
    else
        r = cache_remove(path);
    if (count == 0 && r == -ENOENT)
        r = 0;
    if (r < 0)
        return error_set(err, r, "%s: the list of bad samples cannot be saved: %s", path,
                         strerror(-r));
    sum_with(dataset, &now, &sum, kept.fingerprint);
    *ret = kept;
    return 0;
}

const char *dataset_get_bad_path(const struct dataset *dataset)
{
    return dataset->bad_path;
}

uint32_t dataset_get_known_bad(const struct dataset *dataset)
{
    struct dataset_set sets[MIXTURE_SETS_MAX];
    uint32_t count = dataset_get_sets(dataset, sets), bad = dataset->bad.count;

    for (uint32_t i = 0; i < count; i++)
        bad += dataset_get_known_bad(sets[i].dataset);
    return bad;
}

const struct dataset_bad *known_bad_find(const struct dataset *d, uint32_t sample)
{
    int64_t at = d->bad.count ? badlist_find(&d->bad, sample) : -1;

    return at < 0 ? NULL : &d->bad.samples[at];
}

void known_bad_forget(const struct dataset *d, uint32_t sample)
{
    const struct index_header *h = d->index.header;
    struct badlist list;
    int64_t at;

    if (badlist_read(d->bad_path, h->fingerprint, h->samples, &list) < 0)
        return;
    at = badlist_find(&list, sample);
    if (at >= 0) {
        list.count--;
        memmove(&list.samples[at], &list.samples[at + 1],
                (list.count - (size_t)at) * sizeof(*list.samples));
        if (list.count > 0)
            (void)badlist_write(d->bad_path, d->name, h->fingerprint, list.samples, list.count);
        else
            (void)cache_remove(d->bad_path);
    }
    badlist_fini(&list);
}

const char *dataset_get_why_bad(const struct dataset *dataset, uint32_t sample)
{
    const struct dataset_bad *bad;

    dataset = dataset_find_set(dataset, &sample);
    bad = known_bad_find(dataset, sample);
    return bad ? bad->reason : NULL;
}
