/* SPDX-License-Identifier: MIT */
/* indexing.c - finds or builds the index of a data set.
 *
 * The file name of an index is a hash of the data set's canonical name. When several processes need
 * an index at once, the first one takes a lock and builds it; the others wait for the lock, and
 * then find the index. If the cache folder is not writable, the index is kept in memory and rebuilt
 * each time. */
#include "config.h"

#include "loader/dataset/dataset_priv.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/cache_limit.h"
#include "loader/dataset/sidecar.h"

/* Returns the subject of an index (malloc): the names of images, the roots, the owner of the cache,
 * the classes of "classes=", the folder without links (a link in its path may change), and the name
 * of the data set, which comes last because a client chose it. So loaders with different roots, and
 * builds that decode other formats, have different indices. */
static char *subject_of(const struct dataset *d, uid_t owner)
{
    char classes[32] = "", *text, *all;

    /* A list of different classes means a different index. */
    if (d->classes)
        (void)snprintf(classes, sizeof(classes), " %016llx", (unsigned long long)d->classes->hash);
    text = str_format("%lu%s\n%s\n%s", (unsigned long)owner, classes, d->scope.folder, d->name);
    for (unsigned i = d->scope.num_roots; text && i-- > 0;) {
        char *more = str_format("%s\n%s", d->scope.roots[i], text);

        free(text);
        text = more;
    }
    all = text ? str_format("%s\n%s", dataset_image_names(), text) : NULL;
    free(text);
    return all;
}

/* Set the index's identity and path; there is no path if it cannot be stored. */
static int set_index_path(struct dataset *d, const struct dataset_options *options,
                          struct plenum_error *err)
{
    char cache[4096] = "";
    XXH128_hash_t hash;
    bool kept = cache_folder(options->cache_dir, cache, sizeof(cache)) == 0;

    d->subject = subject_of(d, cache_owner(cache));
    if (!d->subject || sidecar_init(d) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    hash = XXH3_128bits(d->subject, strlen(d->subject));
    if (kept)
        d->index_path = str_format("%s/%016llx%016llx.index", cache,
                                   (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    return 0;
}

/* Scan the format's samples into an index in memory. */
static int scan(struct dataset *d, const struct dataset_options *options, struct index_builder *b,
                struct plenum_error *err)
{
    int r = d->format->scan(d, options, b, err);

    if (r < 0)
        return r;
    if (b->num_samples == 0)
        return error_set(err, -EBADMSG, "%s contains no samples", d->name);
    r = index_builder_set_subject(b, d->subject);
    if (r < 0)
        return error_set(err, r, "out of memory");
    r = index_builder_set_warning(b);
    if (r < 0)
        return error_set(err, r, "out of memory");
    r = index_build(b, fingerprint_heads(d, b->num_samples), &d->index);
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

/* Scan the data set into an index in memory, and compute its checksum. */
static int build(struct dataset *d, const struct dataset_options *options, struct plenum_error *err)
{
    struct index_memory memory = {.limit = options->memory};
    struct index_builder b = {.memory = &memory, .rule = &d->labels};
    char limit[32];
    struct datasum sum;
    struct index_checked checked;
    int r = scan(d, options, &b, err);

    index_builder_fini(&b);
    if (r < 0 && atomic_load(&memory.over))
        return error_set(
            err, -ENOMEM,
            "%s: indexing it would take more than %s of memory, the most that this loader may use "
            "for that; split it into several data sets, or give the loader more memory",
            d->name, format_bytes(memory.limit, limit, sizeof(limit)));
    if (r < 0)
        return r;
    r = fingerprint_sum(d, options, &sum, &checked, err);
    if (r < 0)
        return r;
    index_set_sum(&d->index, &sum, &checked);
    return dataset_check_cancel(
        options); /* files may seem to be missing because dataset_open() was cancelled */
}

/* Returns whether this is the subject of an index of the data set. That of an uploaded index names
 * no user. */
static bool is_subject(const struct dataset *d, const char *subject)
{
    return strcmp(subject, d->subject) == 0 || sidecar_is_subject(d, subject);
}

static bool open_fresh(struct dataset *d)
{
    if (!d->index_path || index_open(d->index_path, &d->index) < 0)
        return false;
    if (is_subject(d, index_subject(&d->index)) && d->format->fresh(d) && fingerprint_holds(d)) {
        d->index_hold = cache_hold(d->index_path, NULL);
        return true;
    }
    index_close(&d->index);
    return false;
}

static void forget_path(struct dataset *d)
{
    free(d->index_path);
    d->index_path = NULL;
}

/* Take the lock by polling, because blocking in flock() cannot be cancelled and would occupy a
 * thread. Within one loader, openings of an index are queued (openings.c), so only processes
 * compete here. Their order does not matter: the one that gets the lock builds the index, and the
 * others then find it. */
int indexing_lock(const struct dataset *d, const struct dataset_options *options, unsigned tries,
                  int *ret)
{
    struct timespec pause = {.tv_nsec = 50000000};
    char *path = str_format("%s.lock", d->index_path);
    int lock = path ? cache_open_lock(path) : -1;

    assert(d->index_path && tries > 0);
    free(path);
    *ret = -1;
    while (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0) {
        int r = dataset_check_cancel(options);

        if (errno != EWOULDBLOCK && errno != EINTR)
            break; /* a file system without locks: at worst, the index is built twice */
        if (r >= 0 && tries != UINT_MAX && tries-- <= 1)
            r = -EALREADY;
        if (r < 0) {
            (void)close(lock);
            return r;
        }
        if (options->progress)
            options->progress(options->progress_arg, "waiting for another process to index it", 0,
                              0);
        (void)nanosleep(&pause, NULL);
    }
    *ret = lock;
    return 0;
}

/* Write the index that was built, and map it. */
static void keep_index(struct dataset *d, const struct dataset_options *options)
{
    struct index mapped;

    if (index_write(&d->index, d->index_path) < 0) {
        forget_path(d);
    } else if (index_open(d->index_path, &mapped) == 0) {
        /* The kernel can drop pages of the mapped file when memory is short. */
        index_close(&d->index);
        d->index = mapped;
        d->index_hold = cache_hold(d->index_path, options->user);
    }
}

int indexing_open(struct dataset *d, const struct dataset_options *options,
                  struct plenum_error *err)
{
    int lock = -1, r = set_index_path(d, options, err);

    if (r < 0)
        return r;
    if (!options->rebuild && options->how != DATASET_NO_WAITING && open_fresh(d))
        return 0;
    if (options->how == DATASET_IF_FRESH)
        return error_set(err, -EINPROGRESS, "%s has no up-to-date index", d->name);
    if (d->index_path) {
        r = indexing_lock(d, options, options->how == DATASET_NO_WAITING ? 1 : UINT_MAX, &lock);
        if (r < 0)
            return error_set(err, r, "another process is indexing %s", d->name);
        if (lock < 0)
            forget_path(d);
        /* Another process may have built or uploaded it. */
        if (!options->rebuild && (open_fresh(d) || (sidecar_fetch(d) && open_fresh(d)))) {
            io_close(&lock);
            return 0;
        }
    }
    if (d->index_path) /* we hold the lock: no other process writes it */
        cache_remove_leftovers(d->index_path);
    assert(!d->index_path || lock >= 0);
    r = build(d, options, err);
    if (r >= 0 && d->index_path)
        keep_index(d, options);
    io_close(&lock);
    if (r >= 0 && d->index_path && !cache_trim(d->index_path, &options->limits, options->user)) {
        io_close(&d->index_hold);
        forget_path(d); /* otherwise files beside it would never be removed */
    }
    (void)malloc_trim(0); /* return the memory used for building, because a loader runs for weeks */
    return r;
}
