/* SPDX-License-Identifier: MIT */
/* tar_writer.h - a tar archive, written member after member. */
#ifndef LOADER_DATASET_TAR_WRITER_H
#define LOADER_DATASET_TAR_WRITER_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

struct tar_writer;

/** What was written. */
struct tar_written {
    uint64_t bytes;
    uint8_t hash[16]; /* XXH3-128 of all of them */
};

/**
 * Begin an archive in a new file; one that is there is overwritten.
 *
 * What is written depends on nothing but names and bytes: there are no times, users or modes in it.
 *
 * -errno with a sentence.
 */
int tar_writer_create(const char *path, struct tar_writer **ret, struct plenum_error *err);

/** Add a file. The name has any bytes but NUL, and any length. -errno with a sentence. */
int tar_writer_add(struct tar_writer *writer, const char *name, const void *bytes, size_t len,
                   struct plenum_error *err);

/** Write the end mark and have the file on its medium. To be destroyed afterwards, too. -errno with
 * a sentence. */
int tar_writer_finish(struct tar_writer *writer, struct tar_written *ret, struct plenum_error *err);

/** NULL is nothing. The file is left where it is. */
void tar_writer_destroy(struct tar_writer *writer);

#endif
