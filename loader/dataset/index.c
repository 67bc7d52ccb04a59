/* SPDX-License-Identifier: MIT */
/* index.c - lays out, writes and opens the index of a data set.
 *
 *     header | samples [32 bytes each] | containers | heads | classes | names
 *
 * An index is used in place: opening a mapped index of a million samples takes as long as computing
 * its checksum, and all loaders of a user share its pages. A file is mapped only if it is on a
 * local disk and no other user can write it, because truncating a mapped file kills the process
 * (SIGBUS). Other files are read into memory. index_open() validates all offsets and counts once,
 * so a damaged file is rejected.
 *
 * An index is written under a temporary name and renamed: a reader sees an old index, a new one, or
 * none. */
#include "config.h"

#include "loader/dataset/index.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/index_builder.h"

static const uint8_t index_magic[8] = {'P', 'L', 'E', 'N', 'U', 'M', 'I', 'X'};

enum { INDEX_VERSION = 8 };

_Static_assert(sizeof(struct index_sample) == 32, "a sample's entry has no holes");

static uint64_t checksum_of(const struct index_header *header, size_t bytes)
{
    return cache_checksum(header, bytes, offsetof(struct index_header, checksum));
}

/* Set the pointers into the block of memory, which begins with the header. */
static void set_views(struct index *index, const void *bytes, size_t len, bool mapped)
{
    const struct index_header *h = bytes;

    assert(len >= sizeof(*h));
    *index = (struct index){.header = h,
                            .samples = (const void *)((const char *)bytes + h->samples_at),
                            .containers = (const void *)((const char *)bytes + h->containers_at),
                            .heads = (const void *)((const char *)bytes + h->heads_at),
                            .classes = (const void *)((const char *)bytes + h->classes_at),
                            .names = (const char *)bytes + h->names_at,
                            .bytes = len,
                            .mapped = mapped};
}

const char *index_subject(const struct index *index)
{
    assert(index->header->subject < index->header->names_bytes);
    return index_name(index, index->header->subject);
}

const char *index_warning(const struct index *index)
{
    assert(index->header->warning < index->header->names_bytes);
    return index_name(index, index->header->warning);
}

int index_build(const struct index_builder *b, size_t heads, struct index *ret)
{
    size_t class_names = b->unnamed ? 0 : b->num_classes;
    struct index_header h = {.version = INDEX_VERSION,
                             .header_bytes = sizeof(h),
                             .samples = (uint32_t)b->num_samples,
                             .classes = (uint32_t)b->num_classes,
                             .containers = (uint32_t)b->num_containers,
                             .class_names = (uint32_t)class_names,
                             .heads = heads,
                             .made_ns = time_clock_ns(CLOCK_REALTIME),
                             .names_bytes = b->names_bytes,
                             .subject = b->subject,
                             .warning = b->warning,
                             .bytes = b->bytes,
                             .skipped = b->skipped};
    char *bytes;

    assert(b->num_samples < UINT32_MAX && b->num_classes <= UINT32_MAX);
    assert(b->num_containers <= INT32_MAX);
    memcpy(h.magic, index_magic, sizeof(h.magic));
    h.samples_at = sizeof(h);
    h.containers_at = h.samples_at + b->num_samples * sizeof(*b->samples);
    h.heads_at = h.containers_at + b->num_containers * sizeof(*b->containers);
    h.classes_at = h.heads_at + heads * sizeof(struct index_head);
    h.names_at = h.classes_at + class_names * sizeof(*b->classes);
    h.file_bytes = h.names_at + b->names_bytes;
    assert(h.heads_at % 8 == 0 && h.classes_at % 8 == 0 && h.file_bytes >= h.names_at);
    bytes = index_memory_charge(b->memory, h.file_bytes) < 0 ? NULL : malloc(h.file_bytes);
    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, &h, sizeof(h));
    if (b->num_samples)
        memcpy(bytes + h.samples_at, b->samples, b->num_samples * sizeof(*b->samples));
    if (b->num_containers)
        memcpy(bytes + h.containers_at, b->containers, b->num_containers * sizeof(*b->containers));
    memset(bytes + h.heads_at, 0, heads * sizeof(struct index_head));
    if (class_names)
        memcpy(bytes + h.classes_at, b->classes, class_names * sizeof(*b->classes));
    if (b->names_bytes)
        memcpy(bytes + h.names_at, b->names, b->names_bytes);
    set_views(ret, bytes, h.file_bytes, false);
    return 0;
}

void index_set_sum(struct index *index, const struct datasum *sum,
                   const struct index_checked *checked)
{
    struct index_header *h = (struct index_header *)(uintptr_t)index->header; /* our own memory */

    assert(!index->mapped);
    h->sum = *sum;
    h->checked = *checked;
    datasum_fingerprint(sum, h->fingerprint);
    h->checksum = checksum_of(h, index->bytes);
}

void index_set_head(struct index *index, uint64_t i, const struct index_head *head)
{
    assert(i < index->header->heads && head->sample < index->header->samples);
    assert(!index->mapped);
    memcpy((void *)(uintptr_t)&index->heads[i], head, sizeof(*head)); /* our own memory */
}

/* Returns whether two labels are equal: by name if classes have names. */
static bool has_label(const struct index *a, int32_t one, const struct index *b, int32_t two)
{
    bool named = a->header->class_names > 0;

    if (named != (b->header->class_names > 0))
        return false;
    return named ? strcmp(index_name(a, a->classes[one]), index_name(b, b->classes[two])) == 0
                 : one == two;
}

/* Returns whether these are the same sample, stored at the same place. */
static bool is_sample(const struct index *a, const struct index_sample *one, const struct index *b,
                      const struct index_sample *two)
{
    return one->where == two->where && one->len == two->len && one->container == two->container &&
           one->extra == two->extra && one->flags == two->flags &&
           has_label(a, one->label, b, two->label) &&
           strcmp(index_name(a, one->name), index_name(b, two->name)) == 0;
}

static bool has_classes(const struct index *a, const struct index *b)
{
    if (a->header->classes != b->header->classes)
        return false;
    for (uint32_t i = 0; i < a->header->class_names; i++)
        if (!has_label(a, (int32_t)i, b, (int32_t)i))
            return false;
    return true;
}

bool index_is_alike(const struct index *now, const struct index *index)
{
    bool damaged = false;

    if (now->header->samples != index->header->samples ||
        now->header->containers != index->header->containers)
        return false;
    for (uint32_t i = 0; i < now->header->containers; i++)
        if (strcmp(index_name(now, now->containers[i].name),
                   index_name(index, index->containers[i].name)) != 0)
            return false;
    for (uint32_t i = 0; i < now->header->samples; i++) {
        const struct index_sample *one = &now->samples[i], *two = &index->samples[i];

        /* Reading it will report the damage. */
        if ((one->flags & INDEX_BAD) && one->where == two->where)
            damaged = true;
        else if (!is_sample(now, one, index, two))
            return false;
    }
    return damaged || has_classes(now, index);
}

int index_copy_as(const struct index *index, const char *subject, void **ret, size_t *len)
{
    size_t more = strlen(subject) + 1;
    struct index_header *h = malloc(index->bytes + more);

    if (!h)
        return -ENOMEM;
    memcpy(h, index->header, index->bytes);
    assert(h->names_at + h->names_bytes == index->bytes); /* names come last */
    memcpy((char *)h + index->bytes, subject, more);
    h->subject = h->names_bytes;
    h->names_bytes += more;
    h->file_bytes += more;
    h->checksum = checksum_of(h, index->bytes + more);
    *ret = h;
    *len = index->bytes + more;
    return 0;
}

int index_write(const struct index *index, const char *path)
{
    return cache_write(path, index->header, index->bytes);
}

/* Returns whether [at, at + count * size) is inside the file, after the header, and aligned. */
static bool inside(const struct index_header *h, uint64_t at, uint64_t count, uint64_t size)
{
    return at >= sizeof(*h) && at <= h->file_bytes && at % (size < 8 ? 1 : 8) == 0 &&
           count <= (h->file_bytes - at) / size;
}

static bool valid(const void *bytes, size_t len)
{
    const struct index_header *h = bytes;
    struct index index;

    if (len < sizeof(*h) || memcmp(h->magic, index_magic, sizeof(h->magic)) != 0 ||
        h->version != INDEX_VERSION || h->header_bytes != sizeof(*h) || h->file_bytes != len)
        return false;
    if (!inside(h, h->samples_at, h->samples, sizeof(struct index_sample)) ||
        !inside(h, h->containers_at, h->containers, sizeof(struct index_container)) ||
        !inside(h, h->heads_at, h->heads, sizeof(struct index_head)) ||
        !inside(h, h->classes_at, h->class_names, sizeof(uint64_t)) ||
        !inside(h, h->names_at, h->names_bytes, 1))
        return false;
    if (checksum_of(h, len) != h->checksum || (h->class_names != 0 && h->class_names != h->classes))
        return false;
    /* Any writer can compute the checksum, so offsets and counts are validated, too. */
    set_views(&index, bytes, len, true);
    if (h->names_bytes == 0 || index.names[h->names_bytes - 1] != '\0' ||
        h->subject >= h->names_bytes || h->warning >= h->names_bytes)
        return false;
    for (uint32_t i = 0; i < h->samples; i++)
        if (index.samples[i].name >= h->names_bytes ||
            index.samples[i].container >= h->containers || index.samples[i].label < 0 ||
            (uint32_t)index.samples[i].label >= h->classes)
            return false;
    for (uint32_t i = 0; i < h->containers; i++)
        if (index.containers[i].name >= h->names_bytes)
            return false;
    for (uint64_t i = 0; i < h->heads; i++)
        if (index.heads[i].sample >= h->samples)
            return false;
    for (uint32_t i = 0; i < h->class_names; i++)
        if (index.classes[i] >= h->names_bytes)
            return false;
    return true;
}

/* Open an index file. Takes ownership of `fd`. */
static int open_file(int fd, bool map, struct index *ret)
{
    struct stat st;
    void *bytes = NULL;
    int r;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        r = -errno;
    else if (st.st_size < (off_t)sizeof(struct index_header))
        r = -EBADMSG;
    else
        r = cache_load(fd, (size_t)st.st_size, map, &bytes);
    (void)close(fd);
    if (r < 0)
        return r;
    assert(bytes);
    if (!valid(bytes, (size_t)st.st_size)) {
        *ret = (struct index){.header = bytes, .bytes = (size_t)st.st_size, .mapped = map};
        index_close(ret);
        return -EBADMSG;
    }
    set_views(ret, bytes, (size_t)st.st_size, map);
    return 0;
}

int index_open(const char *path, struct index *ret)
{
    int fd = cache_open(path);

    return open_file(fd, fd >= 0 && cache_may_map(fd), ret);
}

int index_read(const char *path, struct index *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    return open_file(fd < 0 ? -errno : fd, false, ret);
}

void index_close(struct index *index)
{
    void *bytes = (void *)(uintptr_t)index->header;

    cache_unload(bytes, index->bytes, index->mapped);
    *index = (struct index){0};
}

void index_remove(const struct index *index, const char *path)
{
    struct index_header h;
    int fd = cache_open(path);

    if (fd >= 0 && io_pread_all(fd, &h, sizeof(h), 0) == 0 && h.checksum == index->header->checksum)
        (void)cache_remove(path);
    io_close(&fd);
}
