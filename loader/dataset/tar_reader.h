/* SPDX-License-Identifier: MIT */
/* tar_reader.h - the members of one tar archive, in their order. The one place that knows
 * libarchive. */
#ifndef LOADER_DATASET_TAR_READER_H
#define LOADER_DATASET_TAR_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

struct tar_reader;

enum tar_type { TAR_FILE, TAR_HARD_LINK, TAR_SYMBOLIC_LINK, TAR_OTHER };

struct tar_member {
    const char *name;   /* borrowed until the next call; any bytes but NUL */
    const char *target; /* of a hard link; likewise */
    enum tar_type type;
    bool sparse;        /* its bytes may not lie together: to be read by tar_reader_read() */
    uint64_t header_at; /* of the first header that belongs to it */
    uint64_t data_at;
    uint64_t size; /* bytes, holes included */
};

/**
 * Read from byte `begin` of a file, which has `size` bytes.
 *
 * @param fd  Borrowed; its own position is left alone.
 *
 * -EOPNOTSUPP it is compressed; -EBADMSG it is no tar archive; -ENOMEM. The sentence leaves the
 * archive's name to the caller.
 */
int tar_reader_open(int fd, uint64_t begin, uint64_t size, struct tar_reader **ret,
                    struct plenum_error *err);
void tar_reader_close(struct tar_reader *reader);

/**
 * The next member: 1; 0 at the archive's end; -EBADMSG where it is damaged, cut off or has no end;
 * -EIO and others.
 *
 * That all bytes of a member that is not sparse lie together behind its header is checked with the
 * header that follows it: so a member is to be believed only after the call for the next one.
 */
int tar_reader_next(struct tar_reader *reader, struct tar_member *ret, struct plenum_error *err);

/** Read `len` bytes of the member that tar_reader_next() gave last, from its beginning; once. 0, or
 * as above. */
int tar_reader_read(struct tar_reader *reader, void *bytes, size_t len, struct plenum_error *err);

#endif
