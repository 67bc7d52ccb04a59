/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/set_table_kept.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

/** The contents of a stored table: this header, then the arrays that it has, in this order. */
struct kept_layout {
    uint32_t kind; /* enum sampler_kind: PLAIN, QUOTA or DRAWN */
    uint32_t n, positions;
    uint32_t has_member, entries, shift; /* size and shift of the guide; 0: none */
    uint32_t reserved[2];
};

/** Where the arrays of a stored table are. Sums and columns have 8 bytes for each member. */
struct kept_arrays {
    size_t weights, member, guide, end;
};

static struct kept_arrays arrays_of(const struct kept_layout *h)
{
    struct kept_arrays at = {.weights = sizeof(*h)};

    at.member = at.weights + (h->kind == SAMPLER_PLAIN ? 0 : (size_t)h->n * sizeof(uint64_t));
    at.guide = at.member + (h->has_member ? (size_t)h->n * sizeof(uint32_t) : 0);
    at.end = at.guide + (size_t)h->entries * sizeof(uint32_t);
    return at;
}

/* ---- what may be kept ---- */

static bool is_word(const char *at, size_t len, const char *word)
{
    return len == strlen(word) && memcmp(at, word, len) == 0;
}

/* Returns whether a term that begins with this word depends only on the index, or on a kept table
 * of sizes. */
static bool is_of_index(const char *at, size_t len)
{
    static const char *const words[] = {"label", "class",  "name",  "fold",
                                        "part",  "random", "width", "height"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (is_word(at, len, words[i]))
            return true;
    return false;
}

/* Returns whether a selection reads only the index: no lists of names, and no fields. In doubt,
 * returns false. */
static bool selects_by_index(const char *select)
{
    bool begins = true, by = false;

    if (strchr(select, '\''))
        return false;
    for (const char *at = select; *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");
        bool is_not = begins && is_word(at, len, "not");

        if ((begins && !is_not && !is_of_index(at, len)) || (by && !is_word(at, len, "folder")))
            return false;
        by = is_word(at, len, "by");
        begins = is_not || is_word(at, len, "and");
        at += len;
    }
    return true;
}

/* Returns whether a rule of weights depends only on labels. */
static bool is_by_class(const char *weights)
{
    const char *lvis = str_after(weights, "lvis:");

    return strcmp(weights, "class") == 0 || strcmp(weights, "class:1/2") == 0 ||
           (lvis && !strchr(lvis, ':'));
}

bool set_table_is_kept(const struct set_table_source *source)
{
    const struct orderplan_set *plan = source->plan;

    return dataset_get_index_path(source->dataset) && (plan->select || plan->weights) &&
           (!plan->select || selects_by_index(plan->select)) &&
           (!plan->weights || is_by_class(plan->weights));
}

/* ---- the contents ---- */

/* A table that is being made or checked. */
struct keeping {
    const struct set_table_source *source;
    int (*make)(const struct set_table_source *source, struct set_table *ret,
                struct plenum_error *err);
};

static struct kept_layout layout_of(const struct set_table *table)
{
    const struct sampler_table *t = &table->table;
    struct kept_layout h = {.kind = (uint32_t)t->kind,
                            .n = t->n,
                            .positions = t->positions,
                            .has_member = t->member != NULL,
                            .shift = t->guide ? t->guide_shift : 0};

    if (t->guide)
        h.entries = sampler_guide_entries(t);
    return h;
}

static int pack(void *arg, void **ret, size_t *len, struct plenum_error *err)
{
    const struct keeping *k = arg;
    struct kept_layout h;
    struct kept_arrays at;
    struct set_table table;
    uint8_t *bytes;
    int r = k->make(k->source, &table, err);

    if (r < 0) {
        set_table_fini(&table);
        return r;
    }
    h = layout_of(&table);
    at = arrays_of(&h);
    bytes = malloc(at.end);
    if (bytes) {
        memcpy(bytes, &h, sizeof(h));
        if (table.table.sums)
            memcpy(bytes + at.weights, table.table.sums, at.member - at.weights);
        if (table.table.columns)
            memcpy(bytes + at.weights, table.table.columns, at.member - at.weights);
        if (table.table.member)
            memcpy(bytes + at.member, table.table.member, at.guide - at.member);
        if (table.table.guide)
            memcpy(bytes + at.guide, table.table.guide, at.end - at.guide);
    }
    set_table_fini(&table);
    *ret = bytes;
    *len = at.end;
    return bytes ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* ---- checks ---- */

static bool are_members(const uint32_t *member, uint32_t n, uint32_t samples)
{
    for (uint32_t i = 0; i < n; i++)
        if (member[i] >= samples || (i > 0 && member[i] <= member[i - 1]))
            return false;
    return true;
}

static bool are_sums(const uint64_t *sums, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (sums[i] < sums[i - 1])
            return false;
    return sums[n - 1] > 0 && sums[n - 1] <= INT64_MAX;
}

static bool are_columns(const struct sampler_column *columns, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (columns[i].other >= n)
            return false;
    return true;
}

/* Check that the guide ascends, and refers to members. */
static bool is_guide(const struct kept_layout *h, const uint32_t *guide, const uint64_t *sums)
{
    struct sampler_table table = {.n = h->n, .sums = sums, .guide_shift = h->shift};

    if (h->entries == 0)
        return h->shift == 0;
    if (h->kind != SAMPLER_QUOTA || h->shift >= 64 || h->entries != sampler_guide_entries(&table))
        return false;
    for (uint32_t i = 0; i < h->entries; i++)
        if (guide[i] >= h->n || (i > 0 && guide[i] < guide[i - 1]))
            return false;
    return true;
}

static bool holds(void *arg, const void *bytes, size_t len)
{
    const struct keeping *k = arg;
    const struct kept_layout *h = bytes;
    const uint8_t *file = bytes;
    uint32_t samples = dataset_get_samples(k->source->dataset);
    struct kept_arrays at;

    if (len < sizeof(*h) || h->kind > SAMPLER_DRAWN || h->n == 0 || h->n > samples ||
        h->positions == 0 || h->positions == UINT32_MAX || h->has_member > 1 ||
        (h->has_member == 0 && h->n != samples))
        return false;
    if (h->kind == SAMPLER_PLAIN && h->positions != (uint64_t)h->n * k->source->plan->repeat)
        return false;
    at = arrays_of(h);
    return at.end == len &&
           (!h->has_member || are_members((const void *)(file + at.member), h->n, samples)) &&
           (h->kind != SAMPLER_QUOTA || are_sums((const void *)(file + at.weights), h->n)) &&
           (h->kind != SAMPLER_DRAWN || are_columns((const void *)(file + at.weights), h->n)) &&
           is_guide(h, (const void *)(file + at.guide), (const void *)(file + at.weights));
}

/* ---- opening ---- */

/* Make a table's arrays point into the file. */
static void use(struct set_table *table, const struct set_table_source *source)
{
    const struct kept_layout *h = table->kept.bytes;
    const uint8_t *file = table->kept.bytes;
    struct kept_arrays at = arrays_of(h);

    table->table = (struct sampler_table){
        .kind = (enum sampler_kind)h->kind, .n = h->n, .positions = h->positions};
    if (h->has_member)
        table->table.member = (const void *)(file + at.member);
    if (h->kind == SAMPLER_QUOTA)
        table->table.sums = (const void *)(file + at.weights);
    if (h->kind == SAMPLER_DRAWN)
        table->table.columns = (const void *)(file + at.weights);
    if (h->entries > 0)
        table->table.guide = (const void *)(file + at.guide);
    table->table.guide_shift = h->shift;
    set_table_set_plain(table, source->plan);
}

int set_table_open_kept(const struct set_table_source *source,
                        int (*make)(const struct set_table_source *source, struct set_table *ret,
                                    struct plenum_error *err),
                        struct set_table *ret, struct plenum_error *err)
{
    const struct orderplan_set *plan = source->plan;
    struct keeping k = {.source = source, .make = make};
    struct kept_recipe recipe = {.make = pack, .holds = holds, .arg = &k, .nests = true};
    char *key = str_format(
        "set\nselect %s\nweights %s\ndraw %d\nepoch %u\nrelabel %016llx\n"
        "shuffle %d:%u\nrepeat %u\n",
        plan->select ? plan->select : "", plan->weights ? plan->weights : "", plan->drawn,
        plan->epoch, (unsigned long long)(source->relabel ? relabel_hash(source->relabel) : 0),
        (int)plan->shuffle, plan->block, plan->repeat);
    int r;

    if (!key)
        return error_set(err, -ENOMEM, "out of memory");
    recipe.key = key;
    *ret = (struct set_table){0};
    r = kept_table_open(source->dataset, source->options, &recipe, &ret->kept, err);
    free(key);
    if (r == 0)
        use(ret, source);
    return r;
}
