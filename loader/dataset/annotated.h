/* SPDX-License-Identifier: MIT */
/* annotated.h - the code that the formats of detection data sets share (coco:, yolo:, voc:): the
 * pictures, their classes, and the fields "objects" and "image_id".
 *
 * In the index, a string follows each sample's name: its *note*, which the format writes and
 * reads. All labels are 0, because the objects have the classes. */
#ifndef LOADER_DATASET_ANNOTATED_H
#define LOADER_DATASET_ANNOTATED_H

#include "loader/dataset/format.h"

/** A picture, during a scan. */
struct annotated_picture {
    char *path; /* relative to the folder, or absolute; malloc */
    uint64_t size, mtime_ns;
    int code; /* 0, or -errno: why it cannot be used */
};

struct annotated_pictures {
    struct annotated_picture *all;
    size_t count, cap;
    struct index_memory *memory; /* borrowed */
};

/** Add a picture; takes `path` (malloc, or NULL if that failed). Returns 0 or -ENOMEM. */
int annotated_add(struct annotated_pictures *p, char *path);
void annotated_fini(struct annotated_pictures *p);

/** Order the pictures by their paths. */
void annotated_sort(struct annotated_pictures *p);

/** Get the sizes and times of all pictures. Returns 0; or -errno with `err` set, which names the
 * first picture that is missing or not a file, and how many are. */
int annotated_look(const struct dataset *d, const struct dataset_options *options,
                   struct annotated_pictures *p, struct plenum_error *err);

/** Add a picture with its note to the index. Returns 0, or -errno with `err` set. */
int annotated_add_sample(const struct annotated_picture *picture, const char *note,
                         struct index_builder *b, struct plenum_error *err);

/** The categories of a data set. */
struct annotated_categories {
    const char *const *names; /* [count], in order */
    const int64_t *ids;       /* [count], ascending, or NULL: 0, 1, ... */
    uint32_t count;
};

/**
 * Write the class of each category to `ret` [count]: its index; with a list of classes, the number
 * of its name in that list; with classes=numbers, its id.
 *
 * Errors: -EBADMSG with `err` set: a name is not listed, or an id is not a class number.
 */
int annotated_number_classes(const struct dataset *d, const struct annotated_categories *categories,
                             int32_t *ret, struct plenum_error *err);

/** Name the data set's classes; `classes` [count] are the categories' classes. Returns 0, or -errno
 * with `err` set. */
int annotated_add_classes(const struct dataset *d, const struct annotated_categories *categories,
                          const int32_t *classes, struct index_builder *b,
                          struct plenum_error *err);

/** Returns the folder of a file's absolute path, without a slash at its end (malloc), or NULL. */
char *annotated_folder_of(const char *path);

/** Returns a sample's note. Borrowed from the index. */
const char *annotated_note(const struct dataset *d, const struct index_sample *sample);

/** Read a list or a similar file whole (malloc, NUL-terminated), and set its stamp. Returns 0, or
 * -errno with `err` set. */
int annotated_read_text(const struct dataset *d, const char *path, char **ret, struct stamp *stamp,
                        struct plenum_error *err);

/** Get the stamp of a folder, which need not exist. Returns 0, or -errno with `err` set: -EBADMSG
 * if it does not exist because a symbolic link leads nowhere. */
int annotated_stamp_folder(const struct dataset *d, const char *path, struct stamp *ret,
                           struct plenum_error *err);

/** A file beside a picture, as it was when the data set was indexed. */
struct annotated_beside {
    bool exists;
    uint64_t size,
        hash; /* of its bytes; one with more than 16 MiB is not read, and has the hash 0 */
};

/** Read a file beside a picture, and set its facts. Returns 0 with its bytes, followed by a NUL, in
 * `*ret` (malloc; NULL if it does not exist or has more than 16 MiB); or -errno with `err` set:
 * -EBADMSG if it is not a file, or does not exist because a symbolic link leads nowhere. */
int annotated_load(const struct dataset *d, const char *path, struct annotated_beside *facts,
                   char **ret, struct plenum_error *err);

/** Like annotated_load(), but the bytes must be those that the file had: otherwise, returns
 * -ESTALE. Returns -EBADMSG if there are more than 16 MiB. */
int annotated_read(const struct dataset *d, const char *path, const struct annotated_beside *was,
                   char **ret, struct plenum_error *err);

/** Write the facts of a file beside a picture as text, for a note. */
void annotated_put_facts(const struct annotated_beside *facts, char *ret, size_t size);
/** Parse this text, and move `*at` behind it. */
struct annotated_beside annotated_get_facts(const char **at);

/** Returns the next line of a list without spaces around it, or NULL after the last one. It is cut
 * out of `*rest`. */
char *annotated_next_line(char **rest);

/** Returns whether all containers of the index are unchanged; `first` is the path of the first one,
 * or NULL if that is its name. */
bool annotated_is_fresh(const struct dataset *d, const char *first);

/** Functions of struct format: samples are files with these names. */
void annotated_file(const struct dataset *d, const struct index_sample *sample, char *ret,
                    size_t size);
void annotated_describe(const struct dataset *d, const struct index_sample *sample, char *ret,
                        size_t size);

#endif
