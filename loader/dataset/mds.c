/* SPDX-License-Identifier: MIT */
/* mds.c - implements "mds:FOLDER": data sets written by MosaicML Streaming's MDSWriter.
 *
 * FOLDER has an index.json, which lists the shards and their columns. Indexing reads the offsets of
 * samples, the sizes of their columns, and the labels. An image in an uncompressed shard is then
 * read like a member of a tar archive. A compressed shard is decompressed as a whole when one of
 * its samples is read, and kept for the next one. If a shard exists in both forms, the uncompressed
 * one is read. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/data/dataname.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/archive.h"
#include "loader/dataset/block_cache.h"
#include "loader/dataset/mds_shard.h"
#include "loader/dataset/remote.h"

enum {
    INDEX_MAX = 1 << 28, /* bytes of an index.json */
    FLAG_PACKED = 2,     /* `where` is an offset in the decompressed shard */
    FLAG_PIL = 4,        /* the image consists of pixels after a header */
    PPM_MAX = 48,        /* bytes of the header of a PPM */
    MODE_MAX = 3,        /* bytes of the mode of a PIL image */
};

static const char index_base[] = "index.json";

/* An index.json. */
struct index_file {
    char *path; /* absolute */
    struct stamp stamp;
};

/* The type of dataset->state. */
struct mds_set {
    struct mds_index index;
    struct index_file *files;
    size_t num_files, cap_files;
    uint32_t first; /* the number of the shard that is the data set's first file */
    struct block_cache *blocks;
    uint64_t block_bytes; /* decompressed size of all compressed shards */
    uint64_t largest;     /* decompressed size of the largest of them */
};

static int out_of_memory(struct plenum_error *err)
{
    return error_set(err, -ENOMEM, "out of memory");
}

static const struct mds_shard *shard_of(const struct dataset *d, size_t file)
{
    const struct mds_set *set = d->state;

    assert(set->first + file < set->index.count);
    return &set->index.shards[set->first + file];
}

/* ---- shards ---- */

static int unpack_shard(const struct mds_shard *s, const uint8_t *packed, uint8_t *bytes,
                        struct plenum_error *err)
{
    int r = unpack(s->codec, &(struct unpack_block){packed, s->packed_bytes, bytes, s->bytes});

    if (r == -EBADMSG)
        return error_set(err, r,
                         "it is damaged: it cannot be decompressed with %s to the %llu bytes that "
                         "index.json says",
                         unpack_name(s->codec), (unsigned long long)s->bytes);
    return r < 0 ? out_of_memory(err) : 0;
}

/* Describe the error of a read. That of an object is already described. */
static int read_failed(int r, struct plenum_error *err)
{
    if (err && err->text[0])
        return r;
    return error_set(err, r, "%s",
                     r == -ENODATA ? "it became shorter while it was read" : strerror(-r));
}

/* Read and decompress a shard into `*ret` (malloc). */
static int load_shard(const struct mds_shard *s, const struct source *source, uint8_t **ret,
                      struct plenum_error *err)
{
    uint8_t *packed = malloc(s->packed_bytes + 1), *bytes = malloc(s->bytes + 1);
    int r =
        packed && bytes ? source_get(source, packed, s->packed_bytes, 0, err) : out_of_memory(err);

    assert(s->packed && s->bytes <= UNPACK_MAX);
    if (r == 0)
        r = unpack_shard(s, packed, bytes, err);
    free(packed);
    if (r < 0)
        free(bytes);
    else
        *ret = bytes;
    return r;
}

/* Check the size of a shard's file, and that it can be decompressed. */
static int check_shard(const struct mds_shard *s, uint64_t size, struct plenum_error *err)
{
    uint64_t want = s->packed ? s->packed_bytes : s->bytes;

    if (size != want)
        return error_set(err, -EBADMSG,
                         "it has %llu bytes, but index.json says %llu: copy it again",
                         (unsigned long long)size, (unsigned long long)want);
    if (s->bytes > UINT32_MAX)
        return error_set(err, -EBADMSG, "index.json says that it has 4 GiB or more");
    if (!s->packed)
        return 0;
    if (s->bytes > UNPACK_MAX)
        return error_set(err, -EBADMSG,
                         "it has %llu bytes when it is decompressed, and 1 GiB is the most that is "
                         "supported: decompress it",
                         (unsigned long long)s->bytes);
    if (!unpack_is_possible(s->codec, s->packed_bytes, s->bytes))
        return error_set(err, -EBADMSG,
                         "index.json says that its %llu bytes become %llu, which is impossible",
                         (unsigned long long)s->packed_bytes, (unsigned long long)s->bytes);
    return unpack_check(s->codec, err);
}

/* ---- scanning ---- */

/* A shard that is being scanned. */
struct shard_scan {
    struct archive *a;
    const struct mds_shard *shard;
    struct mds_reader reader;
    struct mds_value *values; /* [columns]: the values of the sample */
    int image, label, name;   /* columns; -1: none */
};

static int damaged(uint32_t sample, struct plenum_error *err)
{
    return error_set(err, -EBADMSG,
                     "it is damaged: sample %u is not where the offset at byte %llu says", sample,
                     (unsigned long long)sizeof(uint32_t) * (sample + 1ULL));
}

static int find_column(const struct mds_layout *l, const char *key, const char *name,
                       struct plenum_error *err)
{
    int column = mds_layout_find(l, name);
    char list[400];

    if (column >= 0)
        return column;
    return error_set(err, -EBADMSG,
                     "it has no column '%s'; its columns: %s (choose one with mds,%s=COLUMN:)",
                     name, mds_layout_list(l, list, sizeof(list)), key);
}

/* Find the column of images: that of the setting, or the only one with the encoding of an image, or
 * "image". */
static int find_image(const struct dataset *d, const struct mds_layout *l, struct plenum_error *err)
{
    const char *name = dataset_setting(d, "image", NULL);
    int column = -1;
    unsigned count = 0;

    for (size_t i = 0; i < l->count && !name; i++)
        if (l->columns[i].kind == MDS_IMAGE || l->columns[i].kind == MDS_PIL) {
            column = (int)i;
            count++;
        }
    if (count != 1)
        column = find_column(l, "image", name ? name : "image", err);
    if (column >= 0 && l->columns[column].kind > MDS_PIL)
        return error_set(err, -EBADMSG,
                         "its column '%s' holds texts or numbers, not images (choose another with "
                         "mds,image=COLUMN:)",
                         l->columns[column].name);
    return column;
}

static int find_columns(struct shard_scan *s, struct plenum_error *err)
{
    const struct dataset *d = s->a->dataset;
    const struct mds_layout *l = s->shard->layout;
    const char *name = dataset_setting(d, "name", NULL);

    s->image = s->label = s->name = -1;
    if (dataset_has_images(d))
        s->image = find_image(d, l, err);
    if (s->image < -1)
        return s->image;
    if (archive_has_labels(d))
        s->label = find_column(l, "label", dataset_setting(d, "label", "label"), err);
    if (s->label < -1)
        return s->label;
    if (name)
        s->name = find_column(l, "name", name, err);
    return s->name < -1 ? s->name : 0;
}

/* Copy a value as text. Returns its length, or -errno. */
static int64_t copy_text(struct shard_scan *s, uint32_t sample, int column, char *ret, size_t size)
{
    const struct mds_column *c = &s->shard->layout->columns[column];
    const struct mds_value *v = &s->values[column];
    uint8_t number[8];
    int r;

    assert(size > MDS_TEXT_MAX);
    if (v->len >= size)
        return error_set(&s->a->err, -EBADMSG,
                         "sample %u: its value in column '%s' has %u bytes, so it is neither a "
                         "label nor a name",
                         sample, c->name, v->len);
    r = mds_get(&s->reader, v->at, c->kind < MDS_SIGNED ? (uint8_t *)ret : number, v->len);
    if (r < 0)
        return read_failed(r, &s->a->err);
    return c->kind < MDS_SIGNED ? v->len : (int64_t)mds_print(c, number, ret);
}

/* Add the label of a sample. Returns the label's number; -1 if there are no labels; or an -errno
 * below -1. */
static int64_t add_label(struct shard_scan *s, uint32_t sample)
{
    struct plenum_error *err = &s->a->err;
    char text[512];
    int64_t len, r;

    if (s->label < 0)
        return -1;
    len = copy_text(s, sample, s->label, text, sizeof(text));
    if (len < 0)
        return len;
    r = index_builder_add_label(&s->a->builder, LABEL_VALUE, text, (size_t)len, err);
    if (r == -EBADMSG)
        return error_prefix(err, -EBADMSG, "the label of sample %u, in column '%s'", sample,
                            s->shard->layout->columns[s->label].name);
    return r < 0 ? out_of_memory(err) : r;
}

/* Copy the sample's name, which is "" if it has none. Rejects names with zero bytes. */
static int copy_name(struct shard_scan *s, uint32_t sample, char ret[256])
{
    int64_t len = s->name < 0 ? 0 : copy_text(s, sample, s->name, ret, 256);

    if (len < 0)
        return (int)len;
    ret[len] = '\0';
    if (strlen(ret) == (size_t)len)
        return 0;
    return error_set(&s->a->err, -EBADMSG,
                     "the name of sample %u, in column '%s', contains zero bytes: names must be "
                     "text (choose another column with mds,name=COLUMN:)",
                     sample, s->shard->layout->columns[s->name].name);
}

static int add_sample(struct shard_scan *s, uint32_t number, uint64_t bytes)
{
    struct index_builder *b = &s->a->builder;
    const struct mds_value *image = s->image >= 0 ? &s->values[s->image] : NULL;
    struct index_sample sample = {.len = (uint32_t)bytes};
    char name[256];
    int64_t r = add_label(s, number);

    if (r < -1)
        return (int)r;
    sample.label = (int32_t)r;
    if (image) {
        bool pil = s->shard->layout->columns[s->image].kind == MDS_PIL;

        sample.where = image->at;
        sample.len = image->len;
        sample.flags = (s->shard->packed ? FLAG_PACKED : 0) | (pil ? FLAG_PIL : 0);
        b->packed += s->shard->packed;
        b->packed_bytes += s->shard->packed ? s->shard->bytes : 0;
    }
    r = copy_name(s, number, name);
    if (r < 0)
        return (int)r;
    r = index_builder_add_sample(b, &sample, name);
    if (r < 0)
        return error_set(&s->a->err, (int)r, "%s",
                         r == -EOVERFLOW ? "more samples than an index can hold" : "out of memory");
    return 0;
}

static int scan_samples(struct shard_scan *s)
{
    struct plenum_error *err = &s->a->err;
    struct mds_sample sample;
    uint32_t count;
    int r = mds_get(&s->reader, 0, &count, sizeof(count));

    if (r == 0 && count != s->shard->samples)
        return error_set(err, -EBADMSG,
                         "it is damaged, or not an MDS shard: it has %u samples at byte 0, but "
                         "index.json says %u",
                         count, s->shard->samples);
    for (uint32_t i = 0; i < s->shard->samples && r == 0; i++) {
        r = dataset_check_cancel(s->a->options);
        if (r == 0)
            r = mds_find_sample(&s->reader, i, &sample);
        if (r == 0)
            r = mds_find_values(&s->reader, &sample, s->values);
        if (r == -EBADMSG)
            return damaged(i, err);
        if (r == 0)
            r = add_sample(s, i, sample.end - sample.begin);
    }
    if (r < 0 && r != -ECANCELED && !err->text[0])
        return r == -EBADMSG ? error_set(err, r, "it is damaged: it ends before its samples")
                             : read_failed(r, err);
    return r;
}

static int scan_shard(struct shard_scan *s)
{
    struct index_memory *memory = s->a->builder.memory;
    size_t bytes = s->shard->packed ? s->shard->bytes + s->shard->packed_bytes : 0;
    uint8_t *unpacked = NULL;
    int r = find_columns(s, &s->a->err);

    if (r < 0)
        return r;
    s->values = calloc(s->shard->layout->count, sizeof(*s->values));
    if (!s->values)
        return out_of_memory(&s->a->err);
    if (index_memory_charge(memory, bytes) < 0) {
        free(s->values);
        return out_of_memory(&s->a->err);
    }
    if (s->shard->packed)
        r = load_shard(s->shard, &s->a->source, &unpacked, &s->a->err);
    s->reader = (struct mds_reader){
        .shard = s->shard, .bytes = unpacked, .source = s->a->source, .err = &s->a->err};
    if (r == 0)
        r = scan_samples(s);
    free(unpacked);
    index_memory_refund(memory, bytes);
    free(s->values);
    return r;
}

static int scan_file(struct archive *a)
{
    struct shard_scan s = {.a = a, .shard = shard_of(a->dataset, a->number)};
    int r = check_shard(s.shard, a->size, &a->err);

    if (r == 0)
        r = scan_shard(&s);
    (void)atomic_fetch_add(a->progress, a->size);
    if (r < 0 && r != -ECANCELED)
        return archive_prefix(a, r == -ENODATA ? -ESTALE : r);
    return r;
}

/* Append the shards, and the index.json files, on which the index also depends. */
static int merge(struct archive *files, size_t count, struct index_builder *b,
                 struct plenum_error *err)
{
    const struct mds_set *set = files[0].dataset->state;
    int r = archive_append(files, count, b, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < set->num_files; i++)
        if (index_builder_add_container(b, set->files[i].path, &set->files[i].stamp) < 0)
            return out_of_memory(err);
    return index_builder_settle_labels(b, err);
}

static int mds_scan(const struct dataset *dataset, const struct dataset_options *options,
                    struct index_builder *b, struct plenum_error *err)
{
    struct archive_work work = {.scan = scan_file, .merge = merge};
    int r = archive_has_labels(dataset) ? 0 : dataset_refuse_classes(dataset, err);

    if (r == 0)
        r = archive_scan(dataset, options, &work, b, err);
    if (r == 0 && b->num_samples == 0)
        r = error_set(err, -EBADMSG, "%s contains no samples", dataset->name);
    return r;
}

/* ---- the name ---- */

/* Like read_index(), but from a store. */
static int fetch_index(const struct dataset *d, const char *name, struct stamp *stamp, char **text,
                       struct plenum_error *err)
{
    int r = remote_read_whole(d, name, INDEX_MAX, text, stamp, err);

    if (r == 0 && !*text)
        r = error_set(err, -ENOENT, "%s: it was removed while it was read", name);
    return r;
}

/* Read an index.json (malloc), and note its stamp. */
static int read_index(const struct dataset *d, const char *path, struct stamp *stamp, char **text,
                      struct plenum_error *err)
{
    struct stat st;
    int fd, r;

    if (d->remote)
        return fetch_index(d, path, stamp, text, err);
    fd = scope_open(&d->scope, path, 0);
    if (fd < 0)
        return scope_error(&d->scope, err, fd, path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > INDEX_MAX) {
        (void)close(fd);
        return error_set(err, -EBADMSG, "%s is not the index of an MDS data set", path);
    }
    r = stamp_read(fd, &st, text, stamp);
    (void)close(fd);
    return r < 0 ? error_set(err, r, "%s: %s", path,
                             r == -ENODATA ? "it has become shorter" : strerror(-r))
                 : 0;
}

/* Join the path of a shard's file and the folder of its index.json (malloc). */
static int join(const struct dataset *d, const char *folder, const char *path, char **ret,
                struct plenum_error *err)
{
    if (d->remote)
        return remote_join(folder, path, ret, err);
    *ret = str_format("%s/%s", folder, path);
    return *ret ? 0 : out_of_memory(err);
}

static bool is_there(const struct dataset *d, const char *path)
{
    struct stat st;

    return d->remote ? remote_facts(d, path) != NULL : scope_stat(&d->scope, path, &st) != -ENOENT;
}

/* Add the path of a shard's file to `files`: the uncompressed one, if it exists. */
static int add_shard(struct dataset *d, const char *folder, struct mds_shard *s,
                     struct pattern_list *files, struct plenum_error *err)
{
    char *path;
    int r = join(d, folder, s->path, &path, err);

    if (r < 0)
        return r;
    if (s->packed_path && !is_there(d, path)) {
        free(path);
        r = join(d, folder, s->packed_path, &path, err);
        s->packed = true;
    }
    if (r < 0)
        return r;
    return pattern_list_add(files, path) < 0 ? out_of_memory(err) : 0;
}

/* Ask the store which of the shards, starting at number `begin`, exist uncompressed. */
static int learn_shards(struct dataset *d, const char *folder, size_t begin,
                        struct plenum_error *err)
{
    struct mds_set *set = d->state;
    struct pattern_list names = {.count = 0};
    int r = 0;

    for (size_t i = begin; i < set->index.count && r == 0; i++) {
        char *name = NULL;

        if (set->index.shards[i].packed_path)
            r = join(d, folder, set->index.shards[i].path, &name, err);
        if (r == 0 && name && pattern_list_add(&names, name) < 0)
            r = out_of_memory(err);
    }
    if (r == 0 && names.count > 0)
        r = remote_learn(d, &names, true, err);
    pattern_list_fini(&names);
    return r;
}

static bool is_folder(const struct dataset *d, const char *path)
{
    struct stat st;

    return !d->remote && scope_stat(&d->scope, path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* Add the shards of an index.json, or of the one in a folder. */
static int add_index(struct dataset *d, const char *path, struct pattern_list *files,
                     struct plenum_error *err)
{
    struct mds_set *set = d->state;
    size_t begin = set->index.count;
    struct index_file file = {.path = NULL};
    char *text = NULL, *folder = NULL;
    int r = 0;

    file.path = is_folder(d, path) ? str_format("%s/%s", path, index_base) : strdup(path);
    if (!file.path || array_grow(&set->files, &set->cap_files, set->num_files, sizeof(file)) < 0) {
        free(file.path);
        return out_of_memory(err);
    }
    r = read_index(d, file.path, &file.stamp, &text, err);
    set->files[set->num_files++] = file;
    if (r < 0)
        return r;
    r = mds_index_parse(&set->index, text, (size_t)file.stamp.size, err);
    free(text);
    if (r < 0)
        return error_prefix(err, r, "%s", file.path);
    folder = strndup(file.path, (size_t)(strrchr(file.path, '/') - file.path));
    r = folder ? 0 : out_of_memory(err);
    if (r == 0 && d->remote)
        r = learn_shards(d, folder, begin, err);
    for (size_t i = begin; i < set->index.count && r == 0; i++)
        r = add_shard(d, folder, &set->index.shards[i], files, err);
    free(folder);
    return r;
}

/* Replace each index.json by the shards that it lists. */
static int find_shards(struct dataset *d, struct plenum_error *err)
{
    struct pattern_list shards = {.count = 0};
    int r = 0;

    for (size_t i = 0; i < d->files.count && r == 0; i++)
        r = add_index(d, d->files.paths[i], &shards, err);
    if (r == 0 && shards.count == 0)
        r = error_set(err, -EBADMSG, "it lists no shards");
    if (r == 0 && shards.count > PATTERN_PATHS_MAX)
        r = error_set(err, -E2BIG, "it lists more than %d shards", PATTERN_PATHS_MAX);
    if (r == 0 && d->remote)
        r = remote_learn(d, &shards, false, err);
    if (r < 0) {
        pattern_list_fini(&shards);
        return error_prefix(err, r, "data set '%s:%s'", d->format->name, d->where);
    }
    pattern_list_fini(&d->files);
    d->files = shards;
    return 0;
}

/* Resolve `where` in a store: it names an index.json or its folder. */
static int name_index(struct dataset *d, struct plenum_error *err)
{
    size_t len = strlen(d->where);
    char *name;

    if (len > 5 && strcmp(d->where + len - 5, ".json") == 0)
        return 0;
    while (len > 0 && d->where[len - 1] == '/')
        len--;
    name = str_format("%.*s/%s", (int)len, d->where, index_base);
    if (!name)
        return out_of_memory(err);
    free(d->where);
    d->where = name;
    return 0;
}

static int mds_locate(struct dataset *d, const struct dataset_options *options,
                      struct plenum_error *err)
{
    struct mds_set *set = calloc(1, sizeof(*set));
    int r;

    if (!set)
        return out_of_memory(err);
    d->state = set;
    set->blocks = block_cache_create(BLOCK_CACHE_BYTES);
    if (!set->blocks)
        return out_of_memory(err);
    r = dataname_is_remote(d->where) ? name_index(d, err) : 0;
    if (r == 0)
        r = archive_find(d, options, err);
    if (r == 0)
        r = find_shards(d, err);
    if (r == 0)
        r = archive_enter(d, &set->first, err);
    for (size_t i = 0; i < d->files.count && r == 0; i++) {
        const struct mds_shard *s = shard_of(d, i);

        set->block_bytes += s->packed ? s->bytes : 0;
        set->largest = s->packed ? max_u64(set->largest, s->bytes) : set->largest;
    }
    return r;
}

static uint64_t mds_block_bytes(const struct dataset *d)
{
    const struct mds_set *set = d->state;

    return max_u64(min_u64(set->block_bytes, BLOCK_CACHE_BYTES), set->largest);
}

static void mds_release(struct dataset *d)
{
    struct mds_set *set = d->state;

    if (!set)
        return;
    for (size_t i = 0; i < set->num_files; i++)
        free(set->files[i].path);
    free(set->files);
    mds_index_fini(&set->index);
    block_cache_destroy(set->blocks);
    free(set);
}

static bool mds_recognise(const struct path_probe *probe)
{
    return S_ISREG(probe->st.st_mode) && strcmp(io_base_name(probe->path), index_base) == 0 &&
           memmem(probe->head, probe->head_len, "\"shards\"", 8);
}

/* ---- an indexed data set ---- */

static void mds_describe(const struct dataset *dataset, const struct index_sample *sample,
                         char *ret, size_t size)
{
    const char *name = index_name(&dataset->index, sample->name);
    size_t n = archive_path(dataset, sample, ret, size);

    (void)snprintf(ret + n, size - n, ", sample %llu%s%s%s",
                   (unsigned long long)archive_number(dataset, sample), *name ? " (" : "", name,
                   *name ? ")" : "");
}

/* A shard whose samples are being read. */
struct shard_use {
    const struct dataset *d;
    const struct index_sample *sample;
    struct block *block; /* its decompressed bytes, if it is compressed */
    struct mds_reader reader;
};

static int make_shard(const struct block_recipe *recipe, void **ret, struct plenum_error *err)
{
    const struct shard_use *use = recipe->arg;
    uint8_t *bytes;
    int r = load_shard(use->reader.shard, &use->reader.source, &bytes, err);

    if (r == 0)
        *ret = bytes;
    return r;
}

/* Open a sample's shard, and decompress it if it is compressed and not cached. */
static int begin_use(struct shard_use *use, const struct dataset *d,
                     const struct index_sample *sample, struct plenum_error *err)
{
    struct mds_set *set = d->state;
    struct block_recipe recipe = {
        .container = sample->container, .make = make_shard, .destroy = free, .arg = use};
    struct source source;
    int r = archive_open(d, sample, &source, err);

    if (r < 0)
        return r;
    *use = (struct shard_use){.d = d, .sample = sample};
    use->reader.shard = shard_of(d, sample->container);
    use->reader.source = source;
    use->reader.err = err;
    if (!use->reader.shard->packed)
        return 0;
    recipe.bytes = use->reader.shard->bytes;
    r = check_shard(use->reader.shard, d->index.containers[sample->container].stamp.size, err);
    if (r == 0)
        r = block_cache_get(set->blocks, &recipe, &use->block, err);
    if (r == 0)
        use->reader.bytes = block_get_data(use->block);
    else
        archive_close(d, sample, &source);
    return r;
}

static void end_use(struct shard_use *use)
{
    struct mds_set *set = use->d->state;

    if (use->block)
        block_cache_release(set->blocks, use->block);
    archive_close(use->d, use->sample, &use->reader.source);
}

/* Read pixels after PIL's header as a PPM or PGM. Everything is read at once, because each read of
 * an object is a request; then the header is replaced. */
static int read_pil(struct shard_use *use, struct dataset_buffer *buffer, struct plenum_error *err)
{
    const struct index_sample *s = use->sample;
    uint32_t numbers[3]; /* width, height, length of the mode */
    char mode[MODE_MAX + 1] = "", ppm[PPM_MAX];
    uint64_t pixels, head = sizeof(numbers);
    const uint8_t *value;
    int n, r;

    if (s->len < head)
        return -EBADMSG;
    if (dataset_buffer_reserve(buffer, (size_t)s->len + PPM_MAX) < 0)
        return out_of_memory(err);
    r = mds_get(&use->reader, s->where, buffer->bytes + PPM_MAX, s->len);
    if (r < 0)
        return r;
    value = buffer->bytes + PPM_MAX;
    memcpy(numbers, value, sizeof(numbers));
    if (numbers[2] <= MODE_MAX && numbers[2] <= s->len - head)
        memcpy(mode, value + head, numbers[2]);
    if (strcmp(mode, "RGB") != 0 && strcmp(mode, "L") != 0)
        return error_set(err, -EBADMSG,
                         "its pixels are neither RGB nor L: only these modes are supported");
    head += numbers[2];
    pixels = (uint64_t)numbers[0] * numbers[1] * (mode[0] == 'R' ? 3 : 1);
    if (numbers[0] > UINT16_MAX || numbers[1] > UINT16_MAX || head + pixels != s->len)
        return -EBADMSG;
    n = snprintf(ppm, sizeof(ppm), "P%c\n%u %u\n255\n", mode[0] == 'R' ? '6' : '5', numbers[0],
                 numbers[1]);
    assert(n > 0 && n < PPM_MAX);
    memcpy(buffer->bytes, ppm, (size_t)n);
    memmove(buffer->bytes + n, value + head, pixels);
    /* There is room, so this only sets the padding. */
    return dataset_buffer_reserve(buffer, (size_t)n + pixels);
}

static int read_encoded(struct shard_use *use, struct dataset_buffer *buffer,
                        struct plenum_error *err)
{
    if (dataset_buffer_reserve(buffer, use->sample->len) < 0)
        return out_of_memory(err);
    return mds_get(&use->reader, use->sample->where, buffer->bytes, use->sample->len);
}

/* Complete an error about a sample, and describe `r` if `err` does not yet. */
static int about_sample(const struct dataset *d, const struct index_sample *sample, int r,
                        struct plenum_error *err)
{
    char name[8192];

    if (err && !err->text[0])
        (void)error_set(err, r, "%s",
                        r == -EBADMSG   ? "it is damaged: it is not where its offset says"
                        : r == -ENODATA ? "the shard has become shorter"
                                        : strerror(-r));
    (void)archive_path(d, sample, name, sizeof(name));
    if (err && str_after(err->text, name))
        return r; /* the error of an object begins with its name */
    mds_describe(d, sample, name, sizeof(name));
    return error_prefix(err, r == -ENODATA ? -ESTALE : r, "%s", name);
}

static int mds_read(const struct dataset *dataset, const struct index_sample *sample,
                    struct dataset_buffer *buffer, struct plenum_error *err)
{
    struct shard_use use;
    int r;

    if (!(sample->flags & (FLAG_PACKED | FLAG_PIL)))
        return archive_read(dataset, sample, sample->where, buffer, err);
    r = begin_use(&use, dataset, sample, err);
    if (r < 0)
        return r;
    if (err)
        err->text[0] = '\0';
    r = sample->flags & FLAG_PIL ? read_pil(&use, buffer, err) : read_encoded(&use, buffer, err);
    end_use(&use);
    return r < 0 ? about_sample(dataset, sample, r, err) : 0;
}

static void mds_announce(const struct dataset *dataset, const struct index_sample *sample)
{
    if (!(sample->flags & FLAG_PACKED))
        archive_announce(dataset, sample);
}

/* ---- the other columns ---- */

static int tell_value(struct shard_use *use, const struct mds_column *c, const struct mds_value *v,
                      dataset_field *field, void *arg)
{
    uint8_t *bytes;
    char text[MDS_TEXT_MAX];
    int r;

    if (v->len > DATASET_SAMPLE_MAX)
        return -EBADMSG;
    bytes = malloc((size_t)v->len + 1);
    if (!bytes)
        return -ENOMEM;
    r = mds_get(&use->reader, v->at, bytes, v->len);
    if (r == 0 && c->kind < MDS_SIGNED)
        field(arg, c->name, bytes, v->len, false);
    else if (r == 0)
        field(arg, c->name, text, mds_print(c, bytes, text), c->kind == MDS_FLOAT);
    free(bytes);
    return r;
}

static int tell_columns(struct shard_use *use, dataset_field *field, void *arg,
                        struct plenum_error *err)
{
    const struct mds_layout *l = use->reader.shard->layout;
    struct mds_value *values = calloc(l->count, sizeof(*values));
    struct mds_sample sample;
    uint64_t number = archive_number(use->d, use->sample);
    int image = dataset_has_images(use->d) ? find_image(use->d, l, err) : -1;
    int r = values ? 0 : -ENOMEM;

    if (r == 0 && number >= use->reader.shard->samples)
        r = -EBADMSG;
    if (r == 0)
        r = mds_find_sample(&use->reader, (uint32_t)number, &sample);
    if (r == 0)
        r = mds_find_values(&use->reader, &sample, values);
    for (size_t i = 0; i < l->count && r == 0; i++)
        if ((int)i != image)
            r = tell_value(use, &l->columns[i], &values[i], field, arg);
    free(values);
    return r;
}

static int mds_fields(const struct dataset *dataset, const struct index_sample *sample,
                      dataset_field *field, void *arg, struct field_memory *memory,
                      struct plenum_error *err)
{
    struct mds_set *set = dataset->state;
    struct shard_use use;
    int r = begin_use(&use, dataset, sample, err);

    if (r < 0)
        return r;
    if (err)
        err->text[0] = '\0';
    r = tell_columns(&use, field, arg, err);
    if (memory && use.block) {
        memory->each = max_u64(memory->each, use.reader.shard->packed_bytes);
        memory->turn = max_u64(memory->turn, block_cache_get_peak(set->blocks));
    }
    end_use(&use);
    return r < 0 ? about_sample(dataset, sample, r, err) : 0;
}

static const char *const patterns[] = {"index.json"};

static const struct format_setting settings[] = {
    ARCHIVE_SETTINGS,
    {"image", "the column with the image (the only one that holds images); none: no images"},
    {"label", "the column with the class (label); none: all labels are 0"},
    {"name", "a column with the file's name"},
};

const struct format format_mds = {
    .name = "mds",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .patterns = patterns,
    .num_patterns = ARRAY_LEN(patterns),
    .remote = true,
    .recognise = mds_recognise,
    .locate = mds_locate,
    .release = mds_release,
    .scan = mds_scan,
    .fresh = archive_fresh,
    .read = mds_read,
    .announce = mds_announce,
    .describe = mds_describe,
    .fields = mds_fields,
    .block_bytes = mds_block_bytes,
};
