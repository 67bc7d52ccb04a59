/* SPDX-License-Identifier: MIT */
/* dataset.c - opening a data set by name: find its format, its index, or make one.
 *
 * An index lies in the cache folder under a hash of the data set's canonical name. Of several
 * processes that want it at once, the first takes a lock and builds; the others wait for the lock
 * and find it ready. Where the folder cannot be written, the index is kept in memory and built anew
 * each time. */
#include "config.h"

#include "loader/dataset/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/dataname.h"
#include "common/error.h"
#include "common/parallel.h"
#include "common/philox.h"
#include "common/text.h"
#include "common/util.h"
#include "loader/dataset/archive.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/format.h"
#include "loader/dataset/notes.h"
#include "loader/dataset/sums.h"

static const struct format *const formats[] = {
    &format_folder, &format_tar, &format_tfrecord, &format_list, &format_generated,
};

enum {
    FINGERPRINT_SAMPLES = 256,
    FINGERPRINT_BYTES = 64 * 1024, /* of each */
    READ_TRIES = 4,
    NOTES_TRIES = 20, /* 50 ms apart */
    HEAD_BYTES = 4096, /* of a file, to see what it is */
};

int dataset_buffer_reserve(struct dataset_buffer *buffer, size_t len)
{
    if (buffer->cap < len + DATASET_PADDING) {
        size_t cap = align_up(len + len / 4 + DATASET_PADDING, 65536);

        /* The old content is of no use: no copy. */
        free(buffer->bytes);
        buffer->bytes = malloc(cap);
        buffer->cap = buffer->bytes ? cap : 0;
        if (!buffer->bytes)
            return -ENOMEM;
    }
    buffer->len = len;
    memset(buffer->bytes + len, 0, DATASET_PADDING);
    return 0;
}

void dataset_buffer_fini(struct dataset_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct dataset_buffer){0};
}

bool dataset_is_image_name(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && (strcasecmp(dot, ".jpg") == 0 || strcasecmp(dot, ".jpeg") == 0 ||
                   strcasecmp(dot, ".png") == 0);
}

int dataset_default_cache(char *ret, size_t size)
{
    const char *cache = getenv("PLENUM_CACHE_DIR"), *home;

    if (cache && *cache)
        return snprintf(ret, size, "%s", cache) < (int)size ? 0 : -ENAMETOOLONG;
    cache = getenv("XDG_CACHE_HOME");
    if (cache && *cache)
        return snprintf(ret, size, "%s/plenum", cache) < (int)size ? 0 : -ENAMETOOLONG;
    home = getenv("HOME");
    if (home && *home)
        return snprintf(ret, size, "%s/.cache/plenum", home) < (int)size ? 0 : -ENAMETOOLONG;
    return -ENOENT;
}

/* What an index is of: whose cache it is in, the roots, and the data set, whose name is a client's
 * word and comes last. What a loader with other roots was allowed to index is another index. malloc.
 */
static char *subject_of(const struct dataset *d, uid_t owner)
{
    char *text = str_format("%lu\n%s", (unsigned long)owner, d->name);

    for (unsigned i = d->place.num_roots; text && i-- > 0;) {
        char *more = str_format("%s\n%s", d->place.roots[i], text);

        free(text);
        text = more;
    }
    return text;
}

/* Where this data set's index belongs, and what stands in it; no path when it cannot be kept. */
static int take_index_path(struct dataset *d, const struct dataset_options *options,
                           struct plenum_error *err)
{
    char cache[4096] = "";
    XXH128_hash_t hash;
    bool kept = cache_folder(options->cache_dir, cache, sizeof(cache)) == 0;

    d->subject = subject_of(d, cache_owner(cache));
    if (!d->subject)
        return error_set(err, -ENOMEM, "out of memory");
    hash = XXH3_128bits(d->subject, strlen(d->subject));
    if (kept)
        d->index_path = str_format("%s/%016llx%016llx.index", cache,
                                   (unsigned long long)hash.high64, (unsigned long long)hash.low64);
    return 0;
}

uint64_t dataset_settled(const struct stat *st)
{
    /* The coarsest clock of a file system is FAT's. */
    const uint64_t grain_ns = 2 * NS_PER_SEC;
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return dataset_mtime(st) + grain_ns <= (uint64_t)now.tv_sec * NS_PER_SEC ? INDEX_SETTLED : 0;
}

int dataset_has_changed(const struct dataset *d, const char *path, struct plenum_error *err)
{
    char name[PLACE_NAME_MAX];

    return error_set(err, -ESTALE,
                     "%s has changed since the data set was indexed: start the job again, or put "
                     "the file back",
                     place_name(&d->place, path, name, sizeof(name)));
}

/* Of a file of the data set. */
static int file_error(const struct dataset *d, const char *path, int r, struct plenum_error *err)
{
    char name[PLACE_NAME_MAX];

    if (r == -ENODATA)
        return error_set(err, -ESTALE, "%s: the file has become shorter",
                         place_name(&d->place, path, name, sizeof(name)));
    return place_error(&d->place, err, r, path);
}

int dataset_read_file(const struct dataset *d, const char *path, const struct index_sample *sample,
                      struct dataset_buffer *buffer, struct plenum_error *err)
{
    uint32_t number = (uint32_t)(sample - d->index.samples);
    int fd = place_open(&d->place, path, 0), r;
    struct stat st;
    bool touched;

    if (fd < 0)
        return file_error(d, path, fd, err);
    if (fstat(fd, &st) < 0) {
        r = -errno;
        (void)close(fd);
        return file_error(d, path, r, err);
    }
    touched = dataset_mtime(&st) != sample->where;
    if ((uint64_t)st.st_size != sample->len || (touched && !d->sums)) {
        (void)close(fd);
        return dataset_has_changed(d, path, err);
    }
    r = dataset_buffer_reserve(buffer, sample->len);
    if (r == 0)
        r = io_pread_all(fd, buffer->bytes, sample->len, 0);
    (void)close(fd);
    if (r == 0 && touched && !sums_same(d->sums, number, buffer->bytes, buffer->len))
        return dataset_has_changed(d, path, err);
    if (r == 0 && !touched && d->sums)
        sums_note(d->sums, number, buffer->bytes, buffer->len);
    if (r == -EBADMSG) /* some file systems' word for a bad checksum; ours for a bad image */
        r = -EIO;
    return r < 0 ? file_error(d, path, r, err) : 0;
}

void dataset_announce_file(const struct dataset *d, const char *path)
{
    int fd = place_open(&d->place, path, 0);

    if (fd < 0)
        return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    (void)close(fd);
}

/* The first bytes of the samples that enter the fingerprint, read side by side (media may be slow).
 */
struct heads {
    const struct dataset *dataset;
    uint32_t samples[FINGERPRINT_SAMPLES];
    XXH128_hash_t hashes[FINGERPRINT_SAMPLES];
    struct plenum_error err;
    atomic_bool failed;
};

static int hash_head(void *arg, uint64_t index, unsigned thread)
{
    struct heads *h = arg;
    const struct index_sample *sample = &h->dataset->index.samples[h->samples[index]];
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    size_t len;
    int r;

    (void)thread;
    if (sample->len == 0 || sample->len > DATASET_SAMPLE_MAX || (sample->flags & INDEX_BAD))
        return 0; /* a bad sample; its size is in the fingerprint */
    r = h->dataset->format->read(h->dataset, sample, &buffer, &err);
    if (r == 0) {
        len = buffer.len < FINGERPRINT_BYTES ? buffer.len : FINGERPRINT_BYTES;
        h->hashes[index] = XXH3_128bits(buffer.bytes, len);
    } else if (!atomic_exchange(&h->failed, true)) {
        h->err = err;
    }
    dataset_buffer_fini(&buffer);
    return r;
}

static int sum_heads(const struct dataset *d, const struct dataset_options *options,
                     struct datasum *sum, struct plenum_error *err)
{
    uint32_t n = d->index.header->samples;
    struct heads *heads = calloc(1, sizeof(*heads));
    struct parallel loop = {
        .threads = options->threads, .turn = hash_head, .cancel = options->cancel, .arg = heads};
    int r;

    if (!heads)
        return error_set(err, -ENOMEM, "out of memory");
    heads->dataset = d;
    loop.count = n < FINGERPRINT_SAMPLES ? n : FINGERPRINT_SAMPLES;
    for (uint32_t i = 0; i < loop.count; i++)
        heads->samples[i] =
            n <= FINGERPRINT_SAMPLES
                ? i
                : philox_below(philox_draw(0, i, 0, DRAW_FINGERPRINT, 0).word[0], n);
    r = parallel_run(&loop);
    if (r < 0)
        (void)error_set(err, r, "%s", heads->err.text);
    sum->heads = XXH3_64bits(heads->hashes, loop.count * sizeof(heads->hashes[0]));
    free(heads);
    return r;
}

struct segments {
    const struct index *index;
    struct datasum *sum;
};

/* Names, sizes and labels of one segment. */
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

        if (sample->container != last) { /* names of containers, where they begin */
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

/* What an index is of, in parts. */
static int sum_of(const struct dataset *d, const struct dataset_options *options,
                  struct datasum *sum, struct plenum_error *err)
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
    return sum_heads(d, options, sum, err);
}

/* Scan and sum up; the index is then in memory. */
static int build(struct dataset *d, const struct dataset_options *options, struct plenum_error *err)
{
    struct index_memory memory = {.limit = options->memory};
    struct index_builder b = {.memory = &memory};
    char limit[32];
    struct datasum sum;
    int r;

    r = d->format->scan(d, options, &b, err);
    if (r == 0 && b.num_samples == 0)
        r = error_set(err, -EBADMSG, "%s holds no samples", d->name);
    if (r == 0) {
        r = index_builder_set_subject(&b, d->subject);
        if (r == 0)
            r = index_builder_set_warning(&b);
        if (r == 0)
            r = index_build(&b, &d->index);
        if (r < 0)
            (void)error_set(err, r, "out of memory");
    }
    index_builder_fini(&b);
    if (r < 0 && atomic_load(&memory.over))
        return error_set(err, -ENOMEM,
                         "%s: to index it would take more than %s of memory, which is what this "
                         "loader has for that; make several data sets of it, or give the loader more",
                         d->name, format_bytes(memory.limit, limit, sizeof(limit)));
    if (r < 0)
        return r;
    r = sum_of(d, options, &sum, err);
    if (r == 0)
        index_set_sum(&d->index, &sum);
    return r == 0 ? dataset_check_cancel(options) : r; /* what was not there may have been called off */
}

static bool open_fresh(struct dataset *d)
{
    if (!d->index_path || index_open(d->index_path, &d->index) < 0)
        return false;
    if (strcmp(index_subject(&d->index), d->subject) == 0 && d->format->fresh(d))
        return true;
    index_close(&d->index);
    return false;
}

static void forget_path(struct dataset *d)
{
    free(d->index_path);
    d->index_path = NULL;
}

/* Be the one that builds: 0, and the lock, or -1 where there can be none. Another that builds is
 * waited for so many times, or until it is done (UINT_MAX); -EALREADY: it goes on. -ECANCELED. */
static int take_lock(const struct dataset *d, const struct dataset_options *options,
                     unsigned tries, int *ret)
{
    struct timespec pause = {.tv_nsec = 50000000};
    char *path = str_format("%s.lock", d->index_path);
    int lock = path ? cache_open_lock(path) : -1;

    free(path);
    *ret = -1;
    while (lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) < 0) {
        int r = dataset_check_cancel(options);

        if (errno != EWOULDBLOCK && errno != EINTR)
            break; /* a file system without locks: built twice at worst, and renamed as a whole */
        if (r == 0 && tries != UINT_MAX && tries-- <= 1)
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

static int open_or_build(struct dataset *d, const struct dataset_options *options,
                         struct plenum_error *err)
{
    int lock = -1, r = take_index_path(d, options, err);

    if (r < 0)
        return r;
    if (!options->rebuild && options->how != DATASET_NO_WAITING && open_fresh(d))
        return 0;
    if (options->how == DATASET_IF_FRESH)
        return error_set(err, -EINPROGRESS, "%s has no index, or an old one", d->name);
    if (d->index_path) {
        r = take_lock(d, options, options->how == DATASET_NO_WAITING ? 1 : UINT_MAX, &lock);
        if (r < 0)
            return error_set(err, r, "another process indexes %s", d->name);
        if (lock < 0)
            forget_path(d);
        if (!options->rebuild && open_fresh(d)) { /* somebody else built it while we waited */
            io_close(&lock);
            return 0;
        }
    }
    if (d->index_path) /* we hold the lock: nobody else writes it */
        cache_remove_leftovers(d->index_path);
    r = build(d, options, err);
    if (r == 0 && d->index_path) {
        struct index mapped;

        if (index_write(&d->index, d->index_path) < 0) {
            forget_path(d);
        } else if (index_open(d->index_path, &mapped) == 0) {
            index_close(&d->index); /* pages of a file can be dropped when memory is short */
            d->index = mapped;
        }
    }
    io_close(&lock);
    (void)malloc_trim(0); /* what building took is of no more use to a loader that runs for weeks */
    return r;
}

/* Where there can be none, every file whose time has changed counts as changed. */
static void open_sums(struct dataset *d)
{
    char *path = d->index_path ? str_format("%s.sums", d->index_path) : NULL;

    if (path)
        (void)sums_open(path, d->index.header->checksum, &d->sums);
    free(path);
}

/* They make things quicker, and nothing depends on them: so this cannot fail. */
static void open_notes(struct dataset *d, const struct dataset_options *options)
{
    const struct index_header *h = d->index.header;
    struct notes_subject subject = {.samples = h->samples, .bytes = h->bytes};
    char *path = d->index_path ? str_format("%s.notes", d->index_path) : NULL;
    int lock;

    memcpy(subject.fingerprint, h->fingerprint, sizeof(subject.fingerprint));
    d->notes_code = path ? notes_open(path, &subject, false, &d->notes) : -EROFS;
    if (d->notes_code == -ENOENT || d->notes_code == -ESTALE) {
        /* Others hold it for long only while they index; that is not worth waiting for. */
        d->notes_code = take_lock(d, options, NOTES_TRIES, &lock);
        if (d->notes_code == 0)
            d->notes_code = lock >= 0 ? notes_open(path, &subject, true, &d->notes) : -EROFS;
        io_close(&lock);
    }
    free(path);
}

/* Where the list of bad samples belongs: it is named after the data set's fingerprint without it,
 * so it is found under whatever name the data is opened, and can be copied to other hosts. NULL
 * where there is no cache folder. */
static int take_bad_path(struct dataset *d, const struct dataset_options *options,
                         struct plenum_error *err)
{
    char cache[4096], hex[33];

    if (cache_folder(options->cache_dir, cache, sizeof(cache)) < 0)
        return 0;
    datasum_hex(d->index.header->fingerprint, hex);
    d->bad_path = str_format("%s/%s.bad", cache, hex);
    return d->bad_path ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* The fingerprint with a list. */
static void sum_with(const struct dataset *d, const struct badlist *list, struct datasum *sum,
                     uint8_t fingerprint[16])
{
    *sum = d->index.header->sum;
    sum->bad = badlist_hash(list);
    datasum_fingerprint(sum, fingerprint);
}

/* One more clause of the warning, which is for terminals and logs: it may hold names of others. */
static void add_warning(struct dataset *d, const char *what, const char *more)
{
    size_t at = strlen(d->warning);

    if (at > 0)
        at += (size_t)snprintf(d->warning + at, sizeof(d->warning) - at, "; ");
    if (at < sizeof(d->warning))
        (void)snprintf(d->warning + at, sizeof(d->warning) - at, "%s%s", what, more);
    (void)text_make_plain(d->warning);
}

/* What verify found, and what it makes of the fingerprint. */
static int take_bad(struct dataset *d, const struct dataset_options *options,
                    struct plenum_error *err)
{
    const struct index_header *h = d->index.header;
    int r = dataset_is_made_up(d) ? 0 : take_bad_path(d, options, err);

    if (r == 0 && d->bad_path && !options->forget_bad) {
        r = badlist_read(d->bad_path, h->fingerprint, h->samples, &d->bad);
        if (r == -EPERM) {
            add_warning(d, d->bad_path,
                        " belongs to another user, or others may write to it: it is passed over");
            r = 0;
        } else if (r == -EACCES) {
            add_warning(d, d->bad_path, ", a list of bad samples, if it is there, may not be read");
            r = 0;
        }
        if (r < 0)
            (void)error_set(err, r, "%s: %s", d->bad_path,
                            r == -EBADMSG ? "the list of bad samples is damaged: remove it, or "
                                            "make it anew by plenumctl verify"
                                          : strerror(-r));
    }
    if (r == 0)
        sum_with(d, &d->bad, &d->sum, d->fingerprint);
    return r;
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
        return error_set(err, -EROFS,
                         "the list of bad samples cannot be kept: there is no cache folder; see "
                         "--cache-dir");
    r = badlist_read(path, h->fingerprint, h->samples, &before);
    kept.changed = r < 0 || badlist_hash(&before) != badlist_hash(&now);
    badlist_fini(&before);
    if (count > 0)
        r = badlist_write(path, dataset->name, h->fingerprint, bad, count);
    else
        r = cache_remove(path);
    if (count == 0 && r == -ENOENT)
        r = 0;
    if (r < 0)
        return error_set(err, r, "%s: the list of bad samples cannot be kept: %s", path,
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
    return dataset->bad.count;
}

const char *dataset_get_why_bad(const struct dataset *dataset, uint32_t sample)
{
    int64_t at = dataset->bad.count ? badlist_find(&dataset->bad, sample) : -1;

    return at < 0 ? NULL : dataset->bad.samples[at].reason;
}

/* ---- names ---- */

static const struct format *find_format(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (strlen(formats[i]->name) == len && memcmp(name, formats[i]->name, len) == 0)
            return formats[i];
    return NULL;
}

/* How compressed files begin. */
static const char *compression_of(const struct dataset_place *place)
{
    static const struct {
        const char *name, *magic;
        size_t len;
    } known[] = {{"gzip", "\x1f\x8b", 2},
                 {"zstd", "\x28\xb5\x2f\xfd", 4},
                 {"xz",
                  "\xfd"
                  "7zXZ",
                  5},
                 {"bzip2", "BZh", 3},
                 {"zip", "PK\3\4", 4}};

    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (place->head_len >= known[i].len &&
            memcmp(place->head, known[i].magic, known[i].len) == 0)
            return known[i].name;
    return NULL;
}

/* What lies at a path, with its first bytes in `head` [size]: 0 or -errno. */
static int look_at(const struct place *p, const char *path, uint8_t *head, size_t size,
                   struct dataset_place *ret)
{
    int64_t n;
    int fd, r;

    *ret = (struct dataset_place){.path = path, .head = head};
    r = place_stat(p, path, &ret->st);
    if (r < 0 || !S_ISREG(ret->st.st_mode))
        return r;
    fd = place_open(p, path, 0);
    if (fd < 0)
        return fd;
    n = io_pread_some(fd, head, size, 0);
    if (n > 0)
        ret->head_len = (size_t)n;
    (void)close(fd);
    return n < 0 ? (int)n : 0;
}

/* What is not ours to read may lie anywhere, and come and go; but what cannot be looked at for
 * another reason might have decided. */
static bool may_pass_over(int code)
{
    return code == -ENOENT || code == -EACCES || code == -EPERM || code == -ELOOP || code == -EXDEV;
}

bool format_has_name(const struct format *format, const char *name)
{
    for (unsigned i = 0; i < format->num_patterns; i++)
        if (name[0] != '.' && fnmatch(format->patterns[i], name, 0) == 0)
            return true;
    return false;
}

/* The format of archives that calls its files so, if the file is one. */
static int take_archive(const struct place *p, const char *path, const char *name,
                        const struct format **ret)
{
    struct dataset_place place;
    uint8_t head[HEAD_BYTES];

    for (size_t i = 0; i < ARRAY_LEN(formats) && !*ret; i++) {
        int r = format_has_name(formats[i], name) ? look_at(p, path, head, sizeof(head), &place) : 1;

        if (r < 0)
            return r;
        if (r == 0 && formats[i]->recognise(&place))
            *ret = formats[i];
    }
    return 0;
}

/* An entry of a folder that may hold archives, of this format if of any: 1 when it decides. */
static int take_entry(const struct place *p, int fd, const char *folder, const char *name,
                      const struct format **format, struct plenum_error *err)
{
    char path[PLACE_NAME_MAX];
    struct stat st;
    int r = place_stat_entry(p, fd, folder, name, &st);

    if (r == 0 && S_ISDIR(st.st_mode)) { /* classes, which decide */
        *format = NULL;
        return 1;
    }
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (r == 0 && !*format)
        r = take_archive(p, path, name, format);
    return r == 0 || may_pass_over(r) ? 0 : place_error(p, err, r, path);
}

/* A folder without folders may hold archives: the format of the first that is one, or NULL. */
static int archives_of(const struct place *p, const char *folder, const struct format **ret,
                       struct plenum_error *err)
{
    struct dirent *entry;
    DIR *dir;
    int r = place_open_folder(p, folder, &dir);

    *ret = NULL;
    if (r < 0) /* the format will say why it cannot be read */
        return may_pass_over(r) ? 0 : place_error(p, err, r, folder);
    while (r == 0 && (errno = 0, entry = readdir(dir)))
        if (entry->d_name[0] != '.')
            r = take_entry(p, dirfd(dir), folder, entry->d_name, ret, err);
    if (r == 0 && errno)
        r = place_error(p, err, -errno, folder);
    (void)closedir(dir);
    return r < 0 ? r : 0;
}

/* The first file that a pattern stands for: malloc. */
static int first_of(const struct place *p, const char *pattern, char **ret,
                    struct plenum_error *err)
{
    struct pattern_list list = {0};
    size_t len = strcspn(pattern, "{*?[");
    char *folder;
    int r;

    while (len > 0 && pattern[len - 1] != '/')
        len--;
    folder = len > 1 ? strndup(pattern, len - 1) : strdup(len ? "" : ".");
    r = folder ? pattern_expand(p, folder, pattern + len, &list, err) : -ENOMEM;
    if (r == 0 && list.count > 0)
        *ret = strdup(list.paths[0]);
    if (r == 0 && !*ret)
        r = -ENOMEM;
    if (r == -ENOMEM)
        (void)error_set(err, r, "out of memory");
    pattern_list_fini(&list);
    free(folder);
    return r;
}

/* What a plain path is, or the first of the files that it stands for. */
static int look_at_plain(const struct place *p, const char *name, uint8_t *head, size_t size,
                         struct dataset_place *ret, struct plenum_error *err)
{
    int r = look_at(p, name, head, size, ret);
    char *first = NULL;

    if (r == 0)
        return 0;
    if (r != -ENOENT || !pattern_is_magic(name))
        return r == -EXDEV ? place_error(p, err, r, name) : error_set(err, r, "%s", strerror(-r));
    r = first_of(p, name, &first, err);
    if (r < 0)
        return r;
    r = look_at(p, first, head, size, ret);
    ret->path = name;
    if (r < 0)
        r = place_error(p, err, r, first);
    free(first);
    return r;
}

/* The format of a plain path, or of the first of the files that it stands for. */
static int recognise_path(const struct place *p, const char *name, const struct format **ret,
                          struct plenum_error *err)
{
    const struct format *format = NULL;
    struct dataset_place place;
    uint8_t head[HEAD_BYTES];
    const char *what;
    int r = look_at_plain(p, name, head, sizeof(head), &place, err);

    if (r < 0)
        return r;
    if (S_ISDIR(place.st.st_mode))
        r = archives_of(p, name, &format, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(formats) && !format; i++)
        if (formats[i]->recognise && formats[i]->recognise(&place))
            format = formats[i];
    *ret = format;
    if (format)
        return 0;
    what = compression_of(&place);
    if (what)
        return error_set(err, -EINVAL,
                         "it is compressed (%s), and samples cannot be read from the middle of it: "
                         "uncompress it; images are compressed themselves",
                         what);
    return error_set(err, -EINVAL,
                     "it is of no known format: name a folder with one sub-folder for each class, "
                     "archives, a list of files, or FORMAT:PATH");
}

static int by_key(const void *a, const void *b)
{
    const struct dataset_setting *x = a, *y = b;

    return strcmp(x->key, y->key);
}

/* The settings of the name, in the order of their keys, each of which the format must know. */
static int take_settings(struct dataset *d, const struct dataname *name, struct plenum_error *err)
{
    const char *at = name->settings, *key, *value;
    size_t key_len, value_len;

    while (name->format && dataname_next_setting(&at, name->settings + name->settings_len, &key,
                                                 &key_len, &value, &value_len)) {
        struct dataset_setting *s = &d->settings[d->num_settings];
        const struct format *f = d->format;
        bool known = false;

        for (unsigned i = 0; i < f->num_settings; i++)
            known = known || (strlen(f->settings[i].key) == key_len &&
                              memcmp(f->settings[i].key, key, key_len) == 0);
        if (!known) {
            char list[256] = "";

            for (unsigned i = 0; i < f->num_settings; i++)
                (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s",
                               i ? ", " : "", f->settings[i].key);
            return error_set(err, -EINVAL, "%s: has no setting '%.*s'; its settings: %s", f->name,
                             (int)key_len, key, list[0] ? list : "none");
        }
        for (unsigned i = 0; i < d->num_settings; i++)
            if (strlen(d->settings[i].key) == key_len &&
                memcmp(d->settings[i].key, key, key_len) == 0)
                return error_set(err, -EINVAL, "setting '%s' is given twice", d->settings[i].key);
        s->key = strndup(key, key_len);
        s->value = strndup(value, value_len);
        d->num_settings++; /* no more than the format knows, as none comes twice */
        if (!s->key || !s->value)
            return error_set(err, -ENOMEM, "out of memory");
    }
    qsort(d->settings, d->num_settings, sizeof(d->settings[0]), by_key);
    return 0;
}

const char *dataset_setting(const struct dataset *dataset, const char *key, const char *absent)
{
    for (unsigned i = 0; i < dataset->num_settings; i++)
        if (strcmp(dataset->settings[i].key, key) == 0)
            return dataset->settings[i].value;
    return absent;
}

int dataset_setting_number(const struct dataset *dataset, const char *key, int64_t absent,
                           int64_t *ret, struct plenum_error *err)
{
    const char *text = dataset_setting(dataset, key, NULL);
    uint64_t value;

    *ret = absent;
    if (!text)
        return 0;
    if (parse_u64(text + (*text == '-'), UINT64_C(1) << 31, &value) < 0)
        return error_set(err, -EINVAL, "%s=%s: a whole number is needed", key, text);
    *ret = *text == '-' ? -(int64_t)value : (int64_t)value;
    return 0;
}

/* Before anything is looked at: does it lie below a root, or would it if it were there? What lies
 * elsewhere is none of a client's business, not even whether it is there. */
static int check_place(const struct place *p, const char *name, struct plenum_error *err)
{
    const char *path = dataname_path(name);
    struct stat st;

    if (!path || !*path || p->num_roots == 0 || place_stat(p, path, &st) != -EXDEV)
        return 0;
    return place_error(p, err, -EXDEV, path);
}

int dataset_enter(struct dataset *d, const char *path, struct plenum_error *err)
{
    int r = place_enter(&d->place, *path ? path : ".");

    if (r == -EXDEV)
        return place_error(&d->place, err, r, path);
    return r < 0 ? error_set(err, r, "data set '%s:%s': %s", d->format->name, d->where,
                             strerror(-r))
                 : 0;
}

/* "format,key=value:where" of what is known by now. */
static char *canonical_name(const struct dataset *d)
{
    char settings[2048] = "";

    for (unsigned i = 0; i < d->num_settings; i++)
        (void)snprintf(settings + strlen(settings), sizeof(settings) - strlen(settings), ",%s=%s",
                       d->settings[i].key, d->settings[i].value);
    return str_format("%s%s:%s", d->format->name, settings, d->where);
}

/* The format that a name says. */
static int take_format(struct dataset *d, const struct dataname *parts, struct plenum_error *err)
{
    char list[256] = "";

    d->format = find_format(parts->format, parts->format_len);
    if (d->format && *parts->where)
        return 0;
    if (d->format)
        return error_set(err, -ENOENT, "nothing is named behind the colon");
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        (void)snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s:", i ? ", " : "",
                       formats[i]->name);
    return error_set(err, -EINVAL, "there is no format '%.*s:', but %s", (int)parts->format_len,
                     parts->format, list);
}

/* Format, settings and place of a name. "auto:" is a plain path with settings. */
static int take_name(struct dataset *d, const char *name, struct plenum_error *err)
{
    struct dataname parts;
    struct stat st;
    bool plain;
    int r;

    dataname_split(name, &parts);
    plain = !parts.format || (parts.format_len == 4 && memcmp(parts.format, "auto", 4) == 0);
    if (!plain && !find_format(parts.format, parts.format_len) &&
        place_stat(&d->place, name, &st) == 0) {
        parts = (struct dataname){.where = name}; /* a file whose name has a colon */
        plain = true;
    }
    r = plain ? recognise_path(&d->place, parts.where, &d->format, err)
              : take_format(d, &parts, err);
    if (r == 0 && parts.settings_len >= 1024)
        r = error_set(err, -EINVAL, "its settings are too long");
    if (r < 0)
        return error_prefix(err, r, "data set '%s'", name);
    d->where = strdup(parts.where);
    if (!d->where)
        return error_set(err, -ENOMEM, "out of memory");
    return take_settings(d, &parts, err);
}

int dataset_open(const char *name, const struct dataset_options *options, struct dataset **ret,
                 struct plenum_error *err)
{
    static const struct dataset_options defaults;
    struct dataset *d;
    int r;

    if (!options)
        options = &defaults;
    d = malloc(sizeof(*d));
    if (!d)
        return error_set(err, -ENOMEM, "out of memory");
    *d = (struct dataset){.place.fd = -1, .refs = 1};
    r = place_init(&d->place, options->roots, options->num_roots);
    if (r < 0)
        (void)error_set(err, r, "out of memory");
    d->place.cancel = options->cancel;
    if (r == 0)
        r = check_place(&d->place, name, err);
    if (r == 0)
        r = take_name(d, name, err);
    if (r == 0)
        r = d->format->locate(d, options, err);
    if (r == 0) {
        d->name = canonical_name(d);
        if (!d->name)
            r = error_set(err, -ENOMEM, "out of memory");
    }
    if (r == 0 && d->format->scan)
        r = open_or_build(d, options, err);
    if (r == 0 && d->format->scan && *index_warning(&d->index))
        add_warning(d, index_warning(&d->index), "");
    if (r == 0)
        r = take_bad(d, options, err);
    if (r == -ECANCELED)
        (void)error_set(err, r, "data set '%s': nobody waits for it any more", name);
    if (r < 0) {
        dataset_unref(d);
        return r;
    }
    d->place.cancel = NULL; /* it lives no longer than the opening */
    if (d->format->whole_files)
        open_sums(d);
    if (options->notes && !dataset_is_made_up(d))
        open_notes(d, options);
    *ret = d;
    return 0;
}

struct dataset *dataset_ref(struct dataset *dataset)
{
    (void)atomic_fetch_add_explicit(&dataset->refs, 1, memory_order_relaxed);
    return dataset;
}

bool dataset_unref_unless_last(struct dataset *dataset)
{
    unsigned refs = atomic_load(&dataset->refs);

    while (refs > 1)
        if (atomic_compare_exchange_weak(&dataset->refs, &refs, refs - 1))
            return true;
    return false;
}

void dataset_unref(struct dataset *dataset)
{
    if (!dataset || atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) != 1)
        return;
    if (!dataset_is_made_up(dataset))
        index_close(&dataset->index);
    archive_forget(dataset);
    pattern_list_fini(&dataset->files);
    if (dataset->format && dataset->format->release)
        dataset->format->release(dataset);
    for (unsigned i = 0; i < dataset->num_settings; i++) {
        free(dataset->settings[i].key);
        free(dataset->settings[i].value);
    }
    place_fini(&dataset->place);
    dataset_unref(dataset->inner);
    notes_close(dataset->notes);
    sums_close(dataset->sums);
    badlist_fini(&dataset->bad);
    free(dataset->where);
    free(dataset->index_path);
    free(dataset->subject);
    free(dataset->bad_path);
    free(dataset->name);
    free(dataset);
}

const char *dataset_get_name(const struct dataset *dataset)
{
    return dataset->name;
}

uint32_t dataset_get_samples(const struct dataset *dataset)
{
    return dataset->index.header->samples;
}

uint32_t dataset_get_classes(const struct dataset *dataset)
{
    return dataset->index.header->classes;
}

const uint8_t *dataset_get_fingerprint(const struct dataset *dataset)
{
    return dataset->fingerprint;
}

uint64_t dataset_get_bytes(const struct dataset *dataset)
{
    return dataset->index.header->bytes;
}

uint64_t dataset_get_passed_over(const struct dataset *dataset)
{
    return dataset->index.header->passed_over;
}

const char *dataset_get_warning(const struct dataset *dataset)
{
    return dataset->warning;
}

uint32_t dataset_get_class_names(const struct dataset *dataset)
{
    return dataset->index.header->class_names;
}

const char *dataset_get_index_path(const struct dataset *dataset)
{
    return dataset->index_path;
}

struct notes *dataset_get_notes(const struct dataset *dataset)
{
    return dataset->notes;
}

int dataset_get_notes_code(const struct dataset *dataset)
{
    return dataset->notes_code;
}

const struct datasum *dataset_get_sum(const struct dataset *dataset)
{
    return &dataset->sum;
}

bool dataset_is_made_up(const struct dataset *dataset)
{
    return dataset->index.header == &dataset->made_up;
}

int64_t dataset_get_label(const struct dataset *dataset, uint32_t sample)
{
    if (dataset->inner)
        return dataset_get_label(dataset->inner, sample);
    if (dataset_is_made_up(dataset))
        return sample % dataset->made_up.classes;
    return dataset->index.samples[sample].label;
}

const char *dataset_get_class_name(const struct dataset *dataset, uint32_t label)
{
    const struct index *index = &dataset->index;

    if (dataset->inner)
        return dataset_get_class_name(dataset->inner, label);
    return label < index->header->class_names ? index_name(index, index->classes[label]) : "";
}

uint64_t dataset_get_sample_bytes(const struct dataset *dataset, uint32_t sample)
{
    return dataset_is_made_up(dataset) ? 0 : dataset->index.samples[sample].len;
}

uint32_t dataset_get_containers(const struct dataset *dataset)
{
    return dataset->index.header->containers;
}

uint32_t dataset_get_container(const struct dataset *dataset, uint32_t sample)
{
    return dataset_is_made_up(dataset) ? 0 : dataset->index.samples[sample].container;
}

char *dataset_get_sample_name(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size)
{
    if (dataset_is_made_up(dataset))
        (void)snprintf(ret, size, "%s, sample %u", dataset->name, sample);
    else
        dataset->format->describe(dataset, &dataset->index.samples[sample], ret, size);
    return ret;
}

char *dataset_get_sample_path(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size)
{
    if (dataset->format->path)
        dataset->format->path(dataset, &dataset->index.samples[sample], ret, size);
    else
        (void)snprintf(ret, size, "%010u", sample);
    return ret;
}

/* Worth another try after a moment: a network file system's hiccup, a short table of descriptors.
 */
static bool transient(int r)
{
    return r == -EIO || r == -EAGAIN || r == -EINTR || r == -ETIMEDOUT || r == -EMFILE ||
           r == -ENFILE || r == -ENOBUFS;
}

int dataset_read(const struct dataset *dataset, uint32_t sample, struct dataset_buffer *buffer,
                 struct plenum_error *err)
{
    const struct index_sample *s = &dataset->index.samples[sample];
    struct timespec pause = {.tv_nsec = 10000000};
    const char *known;
    char name[512];
    int r;

    if (dataset_is_made_up(dataset))
        return 0;
    known = dataset_get_why_bad(dataset, sample);
    if (known)
        return error_set(err, -EBADMSG, "%s is known to be bad: %s",
                         dataset_get_sample_name(dataset, sample, name, sizeof(name)), known);
    if (s->len == 0 || s->len > DATASET_SAMPLE_MAX)
        return error_set(err, -EBADMSG, "%s: %s",
                         dataset_get_sample_name(dataset, sample, name, sizeof(name)),
                         s->len == 0 ? "the file is empty" : "the file is larger than 256 MiB");
    for (int i = 1;; i++) {
        r = dataset->format->read(dataset, s, buffer, err);
        if (!transient(r) || i == READ_TRIES)
            break;
        (void)nanosleep(&pause, NULL);
        pause.tv_nsec *= 4;
    }
    /* The next open is to find out what lies there now. Only a file that we wrote is deleted. */
    if (r == -ESTALE && dataset->index_path)
        (void)cache_remove(dataset->index_path);
    return r;
}

int dataset_fields(const struct dataset *dataset, uint32_t sample, dataset_field *field, void *arg,
                   struct plenum_error *err)
{
    if (dataset_is_made_up(dataset) || !dataset->format->fields)
        return 0;
    return dataset->format->fields(dataset, &dataset->index.samples[sample], field, arg, err);
}

void dataset_announce(const struct dataset *dataset, uint32_t sample)
{
    const struct index_sample *s = &dataset->index.samples[sample];

    if (!dataset_is_made_up(dataset) && s->len > 0 && s->len <= DATASET_SAMPLE_MAX)
        dataset->format->announce(dataset, s);
}
