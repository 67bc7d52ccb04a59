/* index.c - making, writing and mapping a data set's index.
 *
 *     header | samples [32 bytes each] | containers | classes | names
 *
 * Read in place: a mapped index of a million samples is open as fast as its checksum can be
 * computed, and all loaders of a host share its pages. Everything that a reader follows (offsets,
 * counts) is checked once, in index_open(), so that a damaged file is refused and never followed.
 *
 * Written under a temporary name and renamed: a reader sees an old index, a new one, or none. */
#include "config.h"

#include "loader/dataset/index.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util.h"

static const uint8_t index_magic[8] = "PLENUMIX";

enum { INDEX_VERSION = 1 };

_Static_assert(sizeof(struct index_sample) == 32, "a sample's entry has no holes");

void index_builder_fini(struct index_builder *b)
{
    free(b->samples);
    free(b->containers);
    free(b->classes);
    free(b->names);
    *b = (struct index_builder){0};
}

/* Room for `more` entries of `size` bytes: 0 or -ENOMEM. */
static int grow(void *array, size_t size, size_t have, size_t more, size_t *cap)
{
    void **p = array;
    size_t want = *cap ? *cap : 256;
    void *bytes;

    if (*cap - have >= more)
        return 0;
    while (want - have < more)
        want += want / 2;
    bytes = realloc(*p, want * size);
    if (!bytes)
        return -ENOMEM;
    *p = bytes;
    *cap = want;
    return 0;
}

int64_t index_builder_add_name(struct index_builder *b, const char *name, size_t len)
{
    size_t at = b->names_bytes;

    if (grow(&b->names, 1, b->names_bytes, len + 1, &b->cap_names) < 0)
        return -ENOMEM;
    memcpy(b->names + at, name, len);
    b->names[at + len] = '\0';
    b->names_bytes += len + 1;
    return (int64_t)at;
}

/* A class whose name has this place. */
static int64_t add_class(struct index_builder *b, uint64_t at)
{
    if (b->num_classes >= INT32_MAX)
        return -EOVERFLOW;
    if (grow(&b->classes, sizeof(*b->classes), b->num_classes, 1, &b->cap_classes) < 0)
        return -ENOMEM;
    b->classes[b->num_classes] = at;
    return (int64_t)b->num_classes++;
}

int64_t index_builder_add_class(struct index_builder *b, const char *name)
{
    int64_t at = index_builder_add_name(b, name, strlen(name));

    return at < 0 ? at : add_class(b, (uint64_t)at);
}

int64_t index_builder_add_class_again(struct index_builder *b, uint32_t other)
{
    return add_class(b, b->classes[other]);
}

int64_t index_builder_add_container(struct index_builder *b, const char *path, uint64_t mtime_ns,
                                    uint64_t size)
{
    int64_t at = index_builder_add_name(b, path, strlen(path));

    if (at < 0)
        return at;
    if (b->num_containers >= INT32_MAX)
        return -EOVERFLOW;
    if (grow(&b->containers, sizeof(*b->containers), b->num_containers, 1, &b->cap_containers) < 0)
        return -ENOMEM;
    b->containers[b->num_containers] =
        (struct index_container){.name = (uint64_t)at, .mtime_ns = mtime_ns, .size = size};
    return (int64_t)b->num_containers++;
}

int64_t index_builder_add_sample(struct index_builder *b, const struct index_sample *sample,
                                 const char *name)
{
    int64_t at = index_builder_add_name(b, name, strlen(name));

    if (at < 0)
        return at;
    if (b->num_samples >= UINT32_MAX - 1)
        return -EOVERFLOW;
    if (grow(&b->samples, sizeof(*b->samples), b->num_samples, 1, &b->cap_samples) < 0)
        return -ENOMEM;
    b->samples[b->num_samples] = *sample;
    b->samples[b->num_samples].name = (uint64_t)at & ((UINT64_C(1) << 48) - 1);
    b->bytes += sample->len;
    return (int64_t)b->num_samples++;
}

static uint64_t checksum_of(const struct index_header *header, size_t bytes)
{
    struct index_header h = *header;
    XXH3_state_t state;

    h.checksum = 0;
    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, &h, sizeof(h));
    (void)XXH3_64bits_update(&state, header + 1, bytes - sizeof(h));
    return XXH3_64bits_digest(&state);
}

/* Point into the one block of memory behind the header. */
static void set_views(struct index *index, const void *bytes, size_t len, bool mapped)
{
    const struct index_header *h = bytes;

    *index = (struct index){.header = h,
                            .samples = (const void *)((const char *)bytes + h->samples_at),
                            .containers = (const void *)((const char *)bytes + h->containers_at),
                            .classes = (const void *)((const char *)bytes + h->classes_at),
                            .names = (const char *)bytes + h->names_at,
                            .bytes = len,
                            .mapped = mapped};
}

int index_build(const struct index_builder *b, const uint8_t fingerprint[16], struct index *ret)
{
    struct index_header h = {.version = INDEX_VERSION,
                             .header_bytes = sizeof(h),
                             .samples = (uint32_t)b->num_samples,
                             .classes = (uint32_t)b->num_classes,
                             .containers = (uint32_t)b->num_containers,
                             .names_bytes = b->names_bytes,
                             .bytes = b->bytes,
                             .passed_over = b->passed_over};
    char *bytes;

    memcpy(h.magic, index_magic, sizeof(h.magic));
    memcpy(h.fingerprint, fingerprint, sizeof(h.fingerprint));
    h.samples_at = sizeof(h);
    h.containers_at = h.samples_at + b->num_samples * sizeof(*b->samples);
    h.classes_at = h.containers_at + b->num_containers * sizeof(*b->containers);
    h.names_at = h.classes_at + b->num_classes * sizeof(*b->classes);
    h.file_bytes = h.names_at + b->names_bytes;
    bytes = malloc(h.file_bytes);
    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, &h, sizeof(h));
    if (b->num_samples)
        memcpy(bytes + h.samples_at, b->samples, b->num_samples * sizeof(*b->samples));
    if (b->num_containers)
        memcpy(bytes + h.containers_at, b->containers, b->num_containers * sizeof(*b->containers));
    if (b->num_classes)
        memcpy(bytes + h.classes_at, b->classes, b->num_classes * sizeof(*b->classes));
    if (b->names_bytes)
        memcpy(bytes + h.names_at, b->names, b->names_bytes);
    h.checksum = checksum_of((struct index_header *)bytes, h.file_bytes);
    memcpy(bytes, &h, sizeof(h));
    set_views(ret, bytes, h.file_bytes, false);
    return 0;
}

int index_write(const struct index *index, const char *path)
{
    char *temporary = str_format("%s.%ld.tmp", path, (long)getpid());
    int fd, r;

    if (!temporary)
        return -ENOMEM;
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        r = -errno;
        free(temporary);
        return r;
    }
    r = io_write_all(fd, index->header, index->bytes);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    if (r < 0)
        (void)unlink(temporary);
    free(temporary);
    return r;
}

/* Does [at, at + count * size) lie in the file, behind the header, and aligned? */
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
        !inside(h, h->classes_at, h->classes, sizeof(uint64_t)) ||
        !inside(h, h->names_at, h->names_bytes, 1))
        return false;
    if (checksum_of(h, len) != h->checksum)
        return false;
    /* The checksum is no signature: what it covers is still followed with care. */
    set_views(&index, bytes, len, true);
    if (h->names_bytes == 0 || index.names[h->names_bytes - 1] != '\0')
        return false;
    for (uint32_t i = 0; i < h->samples; i++)
        if (index.samples[i].name >= h->names_bytes ||
            index.samples[i].container >= h->containers || index.samples[i].label < 0 ||
            (uint32_t)index.samples[i].label >= h->classes)
            return false;
    for (uint32_t i = 0; i < h->containers; i++)
        if (index.containers[i].name >= h->names_bytes)
            return false;
    for (uint32_t i = 0; i < h->classes; i++)
        if (index.classes[i] >= h->names_bytes)
            return false;
    return true;
}

int index_open(const char *path, struct index *ret)
{
    struct stat st;
    void *map;
    int fd = open(path, O_RDONLY | O_CLOEXEC), r;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0) {
        r = -errno;
        (void)close(fd);
        return r;
    }
    if (st.st_size < (off_t)sizeof(struct index_header)) {
        (void)close(fd);
        return -EBADMSG;
    }
    map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    r = map == MAP_FAILED ? -errno : 0;
    (void)close(fd);
    if (r < 0)
        return r;
    if (!valid(map, (size_t)st.st_size)) {
        (void)munmap(map, (size_t)st.st_size);
        return -EBADMSG;
    }
    set_views(ret, map, (size_t)st.st_size, true);
    return 0;
}

void index_close(struct index *index)
{
    void *bytes = (void *)(uintptr_t)index->header;

    if (bytes && index->mapped)
        (void)munmap(bytes, index->bytes);
    else
        free(bytes);
    *index = (struct index){0};
}
