/* SPDX-License-Identifier: MIT */
/* tar_reader.h - reads the members of one tar archive, in order. Only tar_reader.c uses
 * libarchive. */
#ifndef LOADER_DATASET_TAR_READER_H
#define LOADER_DATASET_TAR_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/dataset/source.h"

struct tar_reader;

enum tar_type { TAR_FILE, TAR_HARD_LINK, TAR_SYMBOLIC_LINK, TAR_OTHER };

struct tar_member {
    const char *name;   /* borrowed until the next call; any bytes except NUL */
    const char *target; /* the target of a hard link; borrowed until the next call */
    enum tar_type type;
    bool sparse;        /* may not be contiguous: use tar_reader_read() */
    uint64_t header_at; /* offset of its first header */
    uint64_t data_at;
    uint64_t size; /* in bytes, including holes */
};

/**
 * Start reading at byte `begin` of a file of `size` bytes.
 *
 * @param source  what it refers to must outlive the reader
 *
 * Errors: -EOPNOTSUPP the file is compressed; -EBADMSG it is not a tar archive; -ENOMEM. The caller
 * adds the archive's name to `err`.
 */
int tar_reader_open(const struct source *source, uint64_t begin, uint64_t size,
                    struct tar_reader **ret, struct plenum_error *err);
void tar_reader_close(struct tar_reader *reader);

/**
 * Read the next member's header. Returns 1; 0 at the end of the archive; -EBADMSG if the archive is
 * damaged, truncated or has no end mark; -EIO and others.
 *
 * The next call checks that the bytes of a member that is not sparse are contiguous. So do not rely
 * on a member's offset and size before that call has succeeded.
 */
int tar_reader_next(struct tar_reader *reader, struct tar_member *ret, struct plenum_error *err);

/** Read the first `len` bytes of the member that tar_reader_next() returned last. Call it at most
 * once per member. Returns 0, or an error like those of tar_reader_next(). */
int tar_reader_read(struct tar_reader *reader, void *bytes, size_t len, struct plenum_error *err);

#endif
