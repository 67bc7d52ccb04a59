/* SPDX-License-Identifier: MIT */
/* sample_file.c - reads samples that are separate files, and manages buffers for the bytes of any
 * sample. */
#include "config.h"

#include "loader/dataset/dataset_priv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/archive.h"
#include "loader/dataset/checksums.h"
#include "loader/dataset/remote.h"

int dataset_buffer_reserve(struct dataset_buffer *buffer, size_t len)
{
    if (buffer->cap < len + DATASET_PADDING) {
        size_t cap = align_up(len + len / 4 + DATASET_PADDING, 4096);

        /* The old content is not needed, and realloc() would copy it. */
        free(buffer->bytes);
        buffer->bytes = malloc(cap);
        buffer->cap = buffer->bytes ? cap : 0;
        if (!buffer->bytes)
            return -ENOMEM;
    }
    assert(buffer->bytes && buffer->cap - DATASET_PADDING >= len);
    buffer->len = len;
    memset(buffer->bytes + len, 0, DATASET_PADDING);
    return 0;
}

void dataset_buffer_fini(struct dataset_buffer *buffer)
{
    free(buffer->bytes);
    *buffer = (struct dataset_buffer){0};
}

/* Images with other extensions are left out of the index; they are not bad samples. So a build that
 * cannot decode WebP or AVIF serves the rest, as a different data set and with a warning. */
static const char *const extensions[] = {".jpg",  ".jpeg", ".png",
#ifdef HAVE_WEBP
                                         ".webp",
#endif
#ifdef HAVE_AVIF
                                         ".avif",
#endif
                                         ".ppm",  ".pnm"};
static const char image_names[] = "*.jpg, *.jpeg, *.png"
#ifdef HAVE_WEBP
                                  ", *.webp"
#endif
#ifdef HAVE_AVIF
                                  ", *.avif"
#endif
                                  ", *.ppm and *.pnm";

bool dataset_is_image_extension(const char *extension)
{
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
        if (strcasecmp(extension, extensions[i]) == 0)
            return true;
    return false;
}

bool dataset_is_image_name(const char *name)
{
    const char *dot = strrchr(name, '.');

    return dot && dataset_is_image_extension(dot);
}

/* Returns an extension in a form for comparisons: .jpg and .jpeg are equivalent. */
static const char *plain(const char *extension)
{
    return strcasecmp(extension, ".jpeg") == 0 ? ".jpg" : extension;
}

bool dataset_takes_extension(const struct dataset *dataset, const char *extension)
{
    const char *image = dataset_setting(dataset, "image", NULL);
    char wanted[64];

    if (!image)
        return dataset_is_image_extension(extension);
    (void)snprintf(wanted, sizeof(wanted), ".%s", image);
    return strcasecmp(plain(extension), plain(wanted)) == 0;
}

bool dataset_takes_name(const struct dataset *dataset, const char *name)
{
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.'))
        if (dataset_takes_extension(dataset, dot))
            return true;
    return false;
}

char *dataset_describe_images(const struct dataset *dataset, char *ret, size_t size)
{
    const char *image = dataset_setting(dataset, "image", NULL);

    (void)snprintf(ret, size, "%s%s", image ? "*." : image_names, image ? image : "");
    return ret;
}

const char *dataset_image_names(void)
{
    return image_names;
}

int dataset_has_changed(const struct dataset *d, const char *path, struct plenum_error *err)
{
    char name[SCOPE_NAME_MAX];

    return error_set(err, -ESTALE,
                     "%s has changed since the data set was indexed: start the job again, or put "
                     "the file back",
                     scope_name(&d->scope, path, name, sizeof(name)));
}

/* Set the error for a file of the data set. */
static int file_error(const struct dataset *d, const char *path, int r, struct plenum_error *err)
{
    char name[SCOPE_NAME_MAX];

    if (r == -ENODATA)
        return error_set(err, -ESTALE, "%s: the file has become shorter",
                         scope_name(&d->scope, path, name, sizeof(name)));
    return scope_error(&d->scope, err, r, path);
}

/* Open a file and stat it. Returns a descriptor, or -errno with `err` set. */
static int open_file(const struct dataset *d, const char *path, struct stat *ret,
                     struct plenum_error *err)
{
    int fd = scope_open(&d->scope, path, 0), r;

    if (fd < 0)
        return file_error(d, path, fd, err);
    if (fstat(fd, ret) == 0)
        return fd;
    r = -errno;
    (void)close(fd);
    return file_error(d, path, r, err);
}

/* Returns whether the file is a regular one, with the length in the index or table. */
static bool has_len(const struct stat *st, uint32_t len)
{
    return S_ISREG(st->st_mode) && min_u64((uint64_t)st->st_size, UINT32_MAX) == len;
}

/* Returns the size and version of the object of a sample. */
static struct object_facts facts_of(const struct dataset *d, uint64_t version, uint32_t len)
{
    bool settled = d->index.containers[0].stamp.flags & STAMP_SETTLED;

    return (struct object_facts){.size = len, .version = version, .racy = !settled};
}

static int read_object(const struct dataset *d, const char *path, const struct object_facts *facts,
                       uint32_t sample, struct dataset_buffer *buffer, struct plenum_error *err)
{
    if (dataset_buffer_reserve(buffer, facts->size) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    return remote_read(d, path, facts, sample, buffer->bytes, err);
}

/* Check that an object still has this version and length. */
static int check_object(const struct dataset *d, const char *path, uint64_t version, uint32_t len,
                        struct plenum_error *err)
{
    struct object_facts now;
    int r = remote_stat(d, path, &now, err);

    if (r < 0)
        return r;
    return now.size == len && object_version(&now) == version ? 0
                                                              : dataset_has_changed(d, path, err);
}

int dataset_read_file(const struct dataset *d, const struct index_sample *sample,
                      struct dataset_buffer *buffer, struct plenum_error *err)
{
    uint32_t number = (uint32_t)(sample - d->index.samples);
    char path[DATASET_PATH_MAX];
    struct stat st;
    bool touched;
    int fd, r;

    assert(d->format->whole_files && number < d->index.header->samples);
    d->format->file(d, sample, path, sizeof(path));
    if (d->remote) {
        struct object_facts facts = facts_of(d, sample->where, sample->len);

        return read_object(d, path, &facts, number, buffer, err);
    }
    fd = open_file(d, path, &st, err);
    if (fd < 0)
        return fd;
    touched = dataset_mtime(&st) != sample->where;
    if (!has_len(&st, sample->len) || (touched && !d->checksums)) {
        (void)close(fd);
        return dataset_has_changed(d, path, err);
    }
    r = dataset_buffer_reserve(buffer, sample->len);
    if (r >= 0)
        r = io_pread_all(fd, buffer->bytes, sample->len, 0);
    (void)close(fd);
    if (r < 0) /* -EBADMSG, a bad checksum on some file systems, would mean a bad image here */
        return file_error(d, path, r == -EBADMSG ? -EIO : r, err);
    if (d->checksums &&
        !checksums_agree(d->checksums, number, buffer->bytes, buffer->len, !touched))
        return dataset_has_changed(d, path, err);
    return 0;
}

int dataset_check_unchanged(const struct dataset *d, const struct index_sample *sample,
                            struct plenum_error *err)
{
    char path[DATASET_PATH_MAX];
    struct stat st;
    int r;

    if (!d->format->whole_files) {
        struct source source;

        r = archive_open(d, sample, &source, err);
        if (r == 0)
            archive_close(d, sample, &source);
        return r;
    }
    d->format->file(d, sample, path, sizeof(path));
    if (d->remote)
        return check_object(d, path, sample->where, sample->len, err);
    r = scope_stat(&d->scope, path, &st);
    if (r < 0)
        return file_error(d, path, r, err);
    return has_len(&st, sample->len) ? 0 : dataset_has_changed(d, path, err);
}

int dataset_read_head(const struct dataset *d, const struct index_sample *sample,
                      struct dataset_buffer *buffer, struct stamp *ret, struct plenum_error *err)
{
    bool bad = sample->len == 0 || sample->len > DATASET_SAMPLE_MAX;
    char path[DATASET_PATH_MAX];
    struct stat st;
    int fd, r;

    d->format->file(d, sample, path, sizeof(path));
    buffer->len = 0;
    if (bad) { /* a bad sample need not be readable */
        r = scope_stat(&d->scope, path, &st);
        if (r < 0)
            return file_error(d, path, r, err);
        *ret = stamp_of(-1, &st);
        return has_len(&st, sample->len) ? 0 : dataset_has_changed(d, path, err);
    }
    fd = open_file(d, path, &st, err);
    if (fd < 0)
        return fd;
    *ret = stamp_of(fd, &st);
    if (!has_len(&st, sample->len)) {
        (void)close(fd);
        return dataset_has_changed(d, path, err);
    }
    r = dataset_buffer_reserve(buffer, min_u64(sample->len, FINGERPRINT_BYTES));
    if (r >= 0)
        r = io_pread_all(fd, buffer->bytes, buffer->len, 0);
    (void)close(fd);
    if (r < 0)
        return file_error(d, path, r == -EBADMSG ? -EIO : r, err);
    ret->content = stamp_hash_bytes(buffer->bytes, buffer->len);
    return 0;
}

static int find_object(const struct dataset *d, const char *path, struct field_place *ret,
                       struct plenum_error *err)
{
    struct object_facts facts;
    int r = remote_stat(d, path, &facts, err);

    if (r == -ENOENT)
        return 0;
    if (r == 0)
        *ret = (struct field_place){.where = object_version(&facts),
                                    .len = (uint32_t)min_u64(facts.size, UINT32_MAX),
                                    .state = FIELD_THERE};
    return r;
}

int dataset_find_field(const struct dataset *d, const char *path, struct field_place *ret,
                       struct plenum_error *err)
{
    struct stat st;
    int r;

    *ret = (struct field_place){.state = FIELD_MISSING};
    if (d->remote)
        return find_object(d, path, ret, err);
    r = scope_stat(&d->scope, path, &st);
    if (r == -ENOENT || r == -ENOTDIR || (r == 0 && !S_ISREG(st.st_mode)))
        return 0;
    if (r < 0)
        return scope_error(&d->scope, err, r, path);
    *ret = (struct field_place){.where = dataset_mtime(&st),
                                .len = (uint32_t)min_u64((uint64_t)st.st_size, UINT32_MAX),
                                .state = FIELD_THERE};
    return 0;
}

int dataset_read_field(const struct dataset *d, uint32_t sample, const char *path,
                       const struct field_place *place, struct dataset_buffer *buffer,
                       struct plenum_error *err)
{
    struct stat st;
    int fd, r;

    if (d->remote) {
        struct object_facts facts = facts_of(d, place->where, place->len);

        return read_object(d, path, &facts, sample, buffer, err);
    }
    fd = open_file(d, path, &st, err);
    if (fd < 0)
        return fd;
    if (!has_len(&st, place->len) ||
        (place->hash == 0 && dataset_mtime(&st) != place->where)) { /* before the first read */
        (void)close(fd);
        return dataset_has_changed(d, path, err);
    }
    r = dataset_buffer_reserve(buffer, place->len);
    if (r >= 0)
        r = io_pread_all(fd, buffer->bytes, place->len, 0);
    (void)close(fd);
    if (r < 0)
        return file_error(d, path, r == -EBADMSG ? -EIO : r, err);
    if (place->hash != 0 && place->hash != stamp_hash_bytes(buffer->bytes, buffer->len))
        return dataset_has_changed(d, path, err);
    return 0;
}

int dataset_check_field(const struct dataset *d, const char *path, const struct field_place *place,
                        struct plenum_error *err)
{
    struct field_place now;
    int r = dataset_find_field(d, path, &now, err);

    if (r < 0)
        return r;
    return now.state == place->state && now.len == place->len ? 0
                                                              : dataset_has_changed(d, path, err);
}

void dataset_announce_file(const struct dataset *d, const struct index_sample *sample)
{
    char path[DATASET_PATH_MAX];
    int fd;

    d->format->file(d, sample, path, sizeof(path));
    if (d->remote) {
        struct object_facts facts = facts_of(d, sample->where, sample->len);

        remote_announce(d, path, &facts);
        return;
    }
    fd = scope_open(&d->scope, path, 0);
    if (fd < 0)
        return;
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_WILLNEED);
    (void)close(fd);
}
