/* index.h - the file that says where each sample of a data set lies. */
#ifndef LOADER_DATASET_INDEX_H
#define LOADER_DATASET_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** One sample, as it lies in the file. */
struct index_sample {
    uint64_t where;     /* of its own file: mtime in ns; within an archive: offset of its bytes */
    uint64_t name : 48; /* place of its name in the names */
    uint64_t flags : 16;
    uint32_t len;       /* bytes */
    uint32_t container; /* the folder or archive that it lies in */
    int32_t label;
    uint32_t reserved;
};

/** A folder or archive, whose change makes the index stale. */
struct index_container {
    uint64_t name; /* place of its path, relative to the root, in the names */
    uint64_t mtime_ns;
    uint64_t size; /* archives; 0 for folders */
};

/** Of the index as a whole. */
struct index_header {
    uint8_t magic[8];
    uint32_t version;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t checksum; /* XXH3-64 of the file with this field zero */
    uint8_t fingerprint[16];
    uint32_t samples, classes, containers;
    uint32_t reserved;
    uint64_t samples_at, containers_at, classes_at, names_at, names_bytes;
    uint64_t bytes;       /* of all samples */
    uint64_t passed_over; /* files that are no images */
};

/** An index in memory: mapped from a file, or made and not (yet) written. Constant. */
struct index {
    const struct index_header *header;
    const struct index_sample *samples;
    const struct index_container *containers;
    const uint64_t *classes; /* places of their names */
    const char *names;       /* NUL-terminated texts */
    size_t bytes;
    bool mapped;
};

static inline const char *index_name(const struct index *index, uint64_t at)
{
    return index->names + at;
}

/** What an index is made from, in the order of samples. Starts as zeros. */
struct index_builder {
    struct index_sample *samples;
    size_t num_samples, cap_samples;
    struct index_container *containers;
    size_t num_containers, cap_containers;
    uint64_t *classes;
    size_t num_classes, cap_classes;
    char *names;
    size_t names_bytes, cap_names;
    uint64_t bytes, passed_over;
};

void index_builder_fini(struct index_builder *b);
/** Each: the number of what was added, or -ENOMEM, or -EOVERFLOW beyond 2^31 - 1 classes or
 * containers. */
int64_t index_builder_add_name(struct index_builder *b, const char *name, size_t len);
int64_t index_builder_add_class(struct index_builder *b, const char *name);
/** A class with a name that another has already. */
int64_t index_builder_add_class_again(struct index_builder *b, uint32_t other);
int64_t index_builder_add_container(struct index_builder *b, const char *path, uint64_t mtime_ns,
                                    uint64_t size);
/** `sample` with its name filled in here. -EOVERFLOW at 2^32 - 1 samples. */
int64_t index_builder_add_sample(struct index_builder *b, const struct index_sample *sample,
                                 const char *name);

/** Make the index. The caller frees it with index_close(). 0 or -ENOMEM. */
int index_build(const struct index_builder *b, const uint8_t fingerprint[16], struct index *ret);

/** Write it under a temporary name and rename it to `path`: 0 or -errno. */
int index_write(const struct index *index, const char *path);

/** Map a file: 0; -ENOENT; -EBADMSG it is cut short, damaged or of another version; or another
 * -errno. */
int index_open(const char *path, struct index *ret);
void index_close(struct index *index);

#endif
