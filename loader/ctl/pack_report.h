/* SPDX-License-Identifier: MIT */
/* pack_report.h - the output of plenumctl pack: the summary, --json and DATASET.json. */
#ifndef LOADER_CTL_PACK_REPORT_H
#define LOADER_CTL_PACK_REPORT_H

#include "loader/ctl/pack_record.h"
#include "loader/dataset/dataset.h"

/** The input of a report, once all archives exist. Everything is borrowed. */
struct pack_report {
    const struct dataset *source;
    const char *folder;
    const struct pack_plan *plan;
    struct pack_record *record;
    uint32_t made; /* archives created in this run */
    double seconds;
    /* Filled in by pack_report_add_up(): */
    struct pack_sum sum;
    uint32_t archives;
    uint64_t archive_bytes;
};

void pack_report_add_up(struct pack_report *report);
void pack_report_print_json(const struct pack_report *report);
void pack_report_print_text(const struct pack_report *report);

/** Returns the text of DATASET.json (malloc), or NULL if out of memory. The text does not depend on
 * how many runs created the archives. */
char *pack_report_describe(const struct pack_report *report, size_t *len);

#endif
