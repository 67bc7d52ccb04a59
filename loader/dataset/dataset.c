/* dataset.c - opening a data set by name: find its format, its index, or make one.
 *
 * An index lies in the cache folder under a hash of the data set's canonical name. Of several
 * processes that want it at once, the first takes a lock and builds; the others wait for the lock
 * and find it ready. Where the folder cannot be written, the index is kept in memory and built anew
 * each time. */
#include "config.h"

#include "loader/dataset/dataset.h"

#include <errno.h>
#include <fcntl.h>
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

#include "common/error.h"
#include "common/parallel.h"
#include "common/philox.h"
#include "common/util.h"
#include "loader/dataset/format.h"

/* A plain path is given to the first that recognises it. */
static const struct format *const formats[] = {
    &format_tar,
    &format_folder,
};

/* The coarsest clock of a file system (FAT's). */
static const uint64_t grain_ns = 2 * NS_PER_SEC;

enum {
    FINGERPRINT_SAMPLES = 256,
    FINGERPRINT_BYTES = 64 * 1024, /* of each */
    READ_TRIES = 4,
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

uint64_t dataset_mtime_ns(const struct stat *st)
{
    return (uint64_t)st->st_mtim.tv_sec * NS_PER_SEC + (uint64_t)st->st_mtim.tv_nsec;
}

bool dataset_mtime_settled(uint64_t mtime_ns)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_REALTIME, &now);
    return mtime_ns + grain_ns <= (uint64_t)now.tv_sec * NS_PER_SEC;
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

/* mkdir -p: 0 or -errno. */
static int make_folders(const char *path)
{
    char part[4096];
    size_t len = strlen(path);

    if (len >= sizeof(part))
        return -ENAMETOOLONG;
    memcpy(part, path, len + 1);
    for (char *p = part + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        (void)mkdir(part, 0755);
        *p = '/';
    }
    return mkdir(part, 0755) < 0 && errno != EEXIST ? -errno : 0;
}

/* Where this data set's index belongs; NULL when it cannot be kept. */
static char *index_path_of(const struct dataset *d, const struct dataset_options *options)
{
    char cache[4096];
    XXH128_hash_t hash;

    if (options->cache_dir)
        (void)snprintf(cache, sizeof(cache), "%s", options->cache_dir);
    else if (dataset_default_cache(cache, sizeof(cache)) < 0)
        return NULL;
    if (make_folders(cache) < 0)
        return NULL;
    hash = XXH3_128bits(d->name, strlen(d->name));
    return str_format("%s/%016llx%016llx.index", cache, (unsigned long long)hash.high64,
                      (unsigned long long)hash.low64);
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
    if (sample->len == 0 || sample->len > DATASET_SAMPLE_MAX)
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

/* 128 bits of all names, sizes and labels in order, and of some samples' first bytes. */
static int fingerprint_of(const struct dataset *d, const struct dataset_options *options,
                          uint8_t ret[16], struct plenum_error *err)
{
    const struct index *index = &d->index;
    uint32_t n = index->header->samples;
    struct parallel loop = {.threads = options->threads, .turn = hash_head};
    struct heads *heads = calloc(1, sizeof(*heads));
    XXH128_canonical_t canonical;
    XXH3_state_t state;
    int r;

    if (!heads)
        return error_set(err, -ENOMEM, "out of memory");
    (void)XXH3_128bits_reset(&state);
    for (uint32_t i = 0; i < n; i++) {
        const struct index_sample *s = &index->samples[i];
        const char *folder = index_name(index, index->containers[s->container].name);
        const char *name = index_name(index, s->name);
        uint32_t numbers[2] = {s->len, (uint32_t)s->label};

        (void)XXH3_128bits_update(&state, folder, strlen(folder) + 1);
        (void)XXH3_128bits_update(&state, name, strlen(name) + 1);
        (void)XXH3_128bits_update(&state, numbers, sizeof(numbers));
    }
    heads->dataset = d;
    loop.count = n < FINGERPRINT_SAMPLES ? n : FINGERPRINT_SAMPLES;
    loop.arg = heads;
    for (uint32_t i = 0; i < loop.count; i++)
        heads->samples[i] =
            n <= FINGERPRINT_SAMPLES
                ? i
                : philox_below(philox_draw(0, i, 0, DRAW_FINGERPRINT, 0).word[0], n);
    r = parallel_run(&loop);
    if (r < 0)
        (void)error_set(err, r, "%s", heads->err.text);
    for (uint32_t i = 0; i < loop.count; i++) {
        XXH128_canonicalFromHash(&canonical, heads->hashes[i]);
        (void)XXH3_128bits_update(&state, canonical.digest, sizeof(canonical.digest));
    }
    XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state));
    memcpy(ret, canonical.digest, 16);
    free(heads);
    return r;
}

/* Scan and fingerprint; the index is then in memory. */
static int build(struct dataset *d, const struct dataset_options *options, struct plenum_error *err)
{
    struct index_builder b = {0};
    uint8_t fingerprint[16] = {0};
    int r;

    r = d->format->scan(d, options, &b, err);
    if (r == 0) {
        r = index_build(&b, fingerprint, &d->index);
        if (r < 0)
            (void)error_set(err, r, "out of memory");
    }
    if (r == 0) {
        /* The fingerprint reads samples, for which it needs an index: so there are two rounds. */
        r = fingerprint_of(d, options, fingerprint, err);
        index_close(&d->index);
    }
    if (r == 0) {
        r = index_build(&b, fingerprint, &d->index);
        if (r < 0)
            (void)error_set(err, r, "out of memory");
    }
    index_builder_fini(&b);
    return r;
}

static bool open_fresh(struct dataset *d)
{
    if (!d->index_path || index_open(d->index_path, &d->index) < 0)
        return false;
    if (d->format->fresh(d))
        return true;
    index_close(&d->index);
    return false;
}

static void forget_path(struct dataset *d)
{
    free(d->index_path);
    d->index_path = NULL;
}

static int open_or_build(struct dataset *d, const struct dataset_options *options,
                         struct plenum_error *err)
{
    char *lock_path;
    int lock = -1, r;

    d->index_path = index_path_of(d, options);
    if (!options->rebuild && open_fresh(d))
        return 0;
    if (d->index_path) {
        lock_path = str_format("%s.lock", d->index_path);
        lock = lock_path ? open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0644) : -1;
        free(lock_path);
        if (lock < 0)
            forget_path(d);
        else
            while (flock(lock, LOCK_EX) < 0 && errno == EINTR)
                ;
        if (!options->rebuild && open_fresh(d)) { /* somebody else built it while we waited */
            io_close(&lock);
            return 0;
        }
    }
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
    return r;
}

/* The parts of a data set's name. */
struct parts {
    const struct format *format;
    char options[512]; /* between a comma and the colon; "": none */
    const char *path;
};

/* "format:path" or "format,options:path". 1, 0 when the name does not begin so, or an error. */
static int split_name(const char *name, const struct format *format, struct parts *ret,
                      struct plenum_error *err)
{
    size_t len = strlen(format->name);
    const char *colon = strchr(name, ':');

    if (!colon || strncmp(name, format->name, len) != 0 || (name[len] != ':' && name[len] != ','))
        return 0;
    ret->format = format;
    ret->path = colon + 1;
    ret->options[0] = 0;
    if (name[len] == ',' &&
        snprintf(ret->options, sizeof(ret->options), "%.*s", (int)(colon - name - (int)len - 1),
                 name + len + 1) >= (int)sizeof(ret->options))
        return error_set(err, -EINVAL, "its options are too long");
    return 1;
}

/* What a name says, or a plain path whose format shows. */
static int find_format(const char *name, struct parts *ret, struct plenum_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        int r = split_name(name, formats[i], ret, err);

        if (r != 0)
            return r < 0 ? r : 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (formats[i]->recognise(name)) {
            *ret = (struct parts){.format = formats[i], .path = name};
            return 0;
        }
    if (access(name, F_OK) < 0)
        return error_set(err, -errno, "%s", strerror(errno));
    return error_set(
        err, -EINVAL,
        "it is of no known format: name a folder with one sub-folder for each class, or "
        "tar archives");
}

int dataset_open(const char *name, const struct dataset_options *options, struct dataset **ret,
                 struct plenum_error *err)
{
    static const struct dataset_options defaults;
    struct parts parts;
    struct dataset *d;
    int r;

    if (!options)
        options = &defaults;
    r = find_format(name, &parts, err);
    if (r < 0)
        return error_prefix(err, r, "data set '%s'", name);
    d = malloc(sizeof(*d));
    if (!d)
        return error_set(err, -ENOMEM, "out of memory");
    *d = (struct dataset){.format = parts.format, .root_fd = -1, .refs = 1};
    r = d->format->resolve(d, parts.options[0] ? parts.options : NULL, parts.path, options, err);
    if (r < 0)
        (void)error_prefix(err, r, "data set '%s'", name);
    else
        r = open_or_build(d, options, err);
    if (r < 0)
        dataset_unref(d);
    else
        *ret = d;
    return r;
}

struct dataset *dataset_ref(struct dataset *dataset)
{
    (void)atomic_fetch_add_explicit(&dataset->refs, 1, memory_order_relaxed);
    return dataset;
}

void dataset_unref(struct dataset *dataset)
{
    if (!dataset || atomic_fetch_sub_explicit(&dataset->refs, 1, memory_order_acq_rel) != 1)
        return;
    index_close(&dataset->index);
    io_close(&dataset->root_fd);
    if (dataset->format->release)
        dataset->format->release(dataset);
    free(dataset->index_path);
    free(dataset->root);
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
    return dataset->index.header->fingerprint;
}

uint64_t dataset_get_bytes(const struct dataset *dataset)
{
    return dataset->index.header->bytes;
}

uint64_t dataset_get_passed_over(const struct dataset *dataset)
{
    return dataset->index.header->passed_over;
}

const char *dataset_get_index_path(const struct dataset *dataset)
{
    return dataset->index_path;
}

int64_t dataset_get_label(const struct dataset *dataset, uint32_t sample)
{
    return dataset->index.samples[sample].label;
}

uint64_t dataset_get_sample_bytes(const struct dataset *dataset, uint32_t sample)
{
    return dataset->index.samples[sample].len;
}

const char *dataset_get_class_name(const struct dataset *dataset, uint32_t label)
{
    const struct index *index = &dataset->index;

    return label < index->header->classes ? index_name(index, index->classes[label]) : "";
}

char *dataset_get_sample_name(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size)
{
    dataset->format->describe(dataset, &dataset->index.samples[sample], ret, size);
    return ret;
}

char *dataset_get_sample_path(const struct dataset *dataset, uint32_t sample, char *ret,
                              size_t size)
{
    dataset->format->path(dataset, &dataset->index.samples[sample], ret, size);
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
    char name[512];
    int r;

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
        (void)unlink(dataset->index_path);
    return r;
}

void dataset_announce(const struct dataset *dataset, uint32_t sample)
{
    const struct index_sample *s = &dataset->index.samples[sample];

    if (s->len > 0 && s->len <= DATASET_SAMPLE_MAX)
        dataset->format->announce(dataset, s);
}
