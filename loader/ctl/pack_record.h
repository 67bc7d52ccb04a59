/* SPDX-License-Identifier: MIT */
/* pack_record.h - records the progress of plenumctl pack in the file plenum-pack.txt beside the
 * archives. With it, a run can be resumed. It remains as a report. */
#ifndef LOADER_CTL_PACK_RECORD_H
#define LOADER_CTL_PACK_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include <plenum/error.h>

#include "loader/dataset/tar_writer.h"
#include "loader/image/pack/pack.h"

/** Everything that determines the bytes of the archives. A run is resumed only if its plan is
 * equal. */
struct pack_plan {
    uint8_t fingerprint[16]; /* the source's fingerprint */
    uint32_t samples, per_archive;
    char prefix[128]; /* prefix of the archives' names */
    struct pack_resize resize;
};

static inline uint32_t pack_plan_archives(const struct pack_plan *plan)
{
    return (plan->samples - 1) / plan->per_archive + 1;
}

/** Returns the number of samples in an archive. */
static inline uint32_t pack_plan_count(const struct pack_plan *plan, uint32_t archive)
{
    uint32_t first = archive * plan->per_archive;

    return plan->samples - first < plan->per_archive ? plan->samples - first : plan->per_archive;
}

/** Sums over a number of samples. */
struct pack_sum {
    uint64_t samples, bytes_before, bytes_after; /* bytes of the image files */
    uint64_t whole_row;                          /* JPEGs with one restart interval per row */
    uint64_t outcomes[PACK_OUTCOMES];
};

void pack_sum_add(struct pack_sum *to, const struct pack_sum *sum);

/** A sample that was kept unchanged, and why. */
struct pack_kept {
    uint32_t sample;
    enum pack_outcome outcome;
    char *name, *reason; /* owned */
};

struct pack_archive {
    bool there; /* it was recorded */
    struct tar_written written;
    struct pack_sum sum;
};

struct pack_record;

/**
 * Open the record in a folder, or start one in an empty folder.
 *
 * Errors: -EBUSY another process has it open; -EEXIST the folder contains other files, or the
 * record's plan differs; -EBADMSG the record is damaged; another -errno. All set `err`.
 */
int pack_record_open(const char *folder, const struct pack_plan *plan, struct pack_record **ret,
                     struct plenum_error *err);
/** NULL is ignored. */
void pack_record_close(struct pack_record *record);

/** Returns the record of an archive. Borrowed. */
const struct pack_archive *pack_record_get(const struct pack_record *record, uint32_t archive);

/** Sort the kept samples by number, drop duplicates, and return them. Borrowed until another one is
 * added. Call this only when all kept samples have been recorded. */
const struct pack_kept *pack_record_get_kept(struct pack_record *record, uint64_t *count);

/** Add a kept sample to the archive that is recorded next. Returns 0 or -ENOMEM. */
int pack_record_keep(struct pack_record *record, uint32_t sample, enum pack_outcome outcome,
                     const char *name, const char *reason);

/** Record an archive, with the samples kept since the last one, and sync it to the disk. Returns 0,
 * or -errno with a message. */
int pack_record_add(struct pack_record *record, uint32_t archive, const struct tar_written *written,
                    const struct pack_sum *sum, struct plenum_error *err);

#endif
