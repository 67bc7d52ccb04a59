/* SPDX-License-Identifier: MIT */
/* tar_writer.h - writes a tar archive, member by member. */
#ifndef LOADER_DATASET_TAR_WRITER_H
#define LOADER_DATASET_TAR_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

struct tar_writer;

/** Length and hash of a finished archive. */
struct tar_written {
    uint64_t bytes;
    uint8_t hash[16]; /* XXH3-128 of the archive */
};

/**
 * Create an archive, overwriting an existing file.
 *
 * The archive depends only on names and bytes: times, users and modes are constants.
 *
 * Returns 0, or -errno with `err` set.
 */
int tar_writer_create(const char *path, struct tar_writer **ret, struct plenum_error *err);

/** Add a file. The name may contain any bytes except NUL, and have any length. Returns 0, or
 * -errno with `err` set. */
int tar_writer_add(struct tar_writer *writer, const char *name, const void *bytes, size_t len,
                   struct plenum_error *err);

/** Write the end mark and sync the file to storage. The writer must still be destroyed. Returns 0,
 * or -errno with `err` set. */
int tar_writer_finish(struct tar_writer *writer, struct tar_written *ret, struct plenum_error *err);

/** NULL is ignored. The file is not removed. */
void tar_writer_destroy(struct tar_writer *writer);

#endif
