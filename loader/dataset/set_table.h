/* SPDX-License-Identifier: MIT */
/* set_table.h - builds the table of a set that a plan's order uses: the selected samples, their
 * weights and classes. */
#ifndef LOADER_DATASET_SET_TABLE_H
#define LOADER_DATASET_SET_TABLE_H

#include "common/order/orderplan.h"
#include "common/order/sampler.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/kept_table.h"
#include "loader/dataset/relabel.h"
#include "loader/dataset/selection.h"

/** A sampler's table, and the memory or file that contains its arrays. Zeros: there is none. */
struct set_table {
    struct sampler_table table;
    struct kept_table kept;
    uint32_t *member, *start, *guide;
    uint64_t *sums;
    struct sampler_column *columns;
};

/** The input of set_table_make(). */
struct set_table_source {
    const struct orderplan_set *plan;
    const struct dataset *dataset;
    const struct relabel *relabel; /* new classes, or NULL */
    const struct dataset_options *options;
    /** Called if the selection has names that no sample has, or finds too few samples. */
    void (*warn)(void *arg, const struct orderplan_set *plan, const struct selection *selection);
    void *arg;
};

/** Make the table of one set, or open a stored one. Errors: those of selection_make(),
 * weighing_make() and kept_table_open(); -EINVAL no sample is selected. */
int set_table_make(const struct set_table_source *source, struct set_table *ret,
                   struct plenum_error *err);

/**
 * Make the table that a set uses starting at a pass: that of `base`, with the members weighed by
 * `rule`. `base` must outlive it. Errors: those of weighing_make(); -EINVAL a pass would have a
 * different number of positions.
 */
int set_table_reweigh(const struct set_table_source *source, const struct set_table *base,
                      const char *rule, struct set_table *ret, struct plenum_error *err);

/** Returns the class of a sample, 0 ... classes - 1, or -1 if it has none. */
typedef int64_t set_table_class(void *arg, uint32_t sample);

/** The input of set_table_join(): the samples from which strata or balanced classes are built. */
struct set_table_joined {
    const struct orderplan *plan;
    uint32_t *member; /* [n]: samples of all sets; set_table_join() takes ownership */
    uint32_t n, classes;
    set_table_class *class_of;
    void *arg;
};

/** Make one table of the samples of all sets. `*ret_small` becomes a class with fewer samples than
 * a block shows of it (balance with each=K), or UINT32_MAX. Errors: -EINVAL a sample has no class,
 * or the classes do not fit into blocks; -ENOMEM. */
int set_table_join(const struct set_table_joined *joined, struct set_table *ret,
                   uint32_t *ret_small, struct plenum_error *err);

/** Set the order of members without weights. The plan has been checked against their number. */
void set_table_set_plain(struct set_table *table, const struct orderplan_set *plan);

/** Hash everything besides the plan's text that determines the order. */
uint64_t set_table_hash(const struct set_table *table);

void set_table_fini(struct set_table *table);

#endif
