/* SPDX-License-Identifier: MIT */
/* mixed.c - makes one data set of the data sets of a plan: the sets' samples in sequence, their
 * classes merged, and fields with room for those of each set.
 *
 * Each set is opened as usual, with its own index, list of bad samples and hints. Only the numbers
 * of samples, labels and containers change. */
#include "config.h"

#include "loader/dataset/mixed.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "loader/dataset/dataset_priv.h"
#include "loader/dataset/field_value.h"
#include "loader/dataset/set_table.h"

/* Upper bounds of the memory for making tables: per sample, per class, and per sample for each set
 * of new weights. */
enum { MEMBER_BYTES = 48, CLASS_BYTES = 40, REWEIGH_BYTES = 8 };

/* The order of the sets under one seed. */
struct seeded {
    struct seeded *next;
    uint64_t seed;
    uint32_t positions;
    struct mixture *mixture;
};

/* One set, in addition to what the plan says about it. */
struct mixed_set {
    struct dataset *dataset;
    struct relabel *relabel; /* new classes, or NULL */
    /* The numbers of its first sample and container among those of all sets. */
    uint32_t first, first_container;
    int64_t *labels; /* [classes_of()]: its classes' numbers among those of all sets; or NULL */
    struct set_table table;
    struct set_table *later;          /* [num_later]: tables that replace it at a pass */
    struct sampler_reweigh *reweighs; /* [num_later] */
    uint32_t num_later;
    uint8_t hash[16]; /* see struct dataset_set */
};

struct mixed {
    struct orderplan *plan;
    struct mixed_set set[MIXTURE_SETS_MAX];
    uint32_t count;       /* number of open sets */
    const char **classes; /* [classes] names of all sets, borrowed from them; or NULL */
    uint8_t fields_hash[16];
    struct set_table whole; /* table of all samples, if the plan has one order for them */
    struct lock mu;
    struct seeded *orders; /* protected by mu */
};

/* ---- a set's own classes, after relabel= ---- */

static uint32_t classes_of(const struct mixed_set *set)
{
    return relabel_get_classes(set->relabel, set->dataset);
}

static uint32_t class_names_of(const struct mixed_set *set)
{
    return relabel_get_class_names(set->relabel, set->dataset);
}

static const char *class_name_of(const struct mixed_set *set, uint32_t label)
{
    return relabel_get_class_name(set->relabel, set->dataset, label);
}

/* ---- numbers ---- */

static uint32_t set_of(const struct mixed *m, uint32_t sample)
{
    uint32_t low = 0, high = m->count - 1;

    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;

        if (m->set[middle].first <= sample)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

const struct dataset *mixed_find(const struct mixed *mixed, uint32_t *sample)
{
    const struct mixed_set *set = &mixed->set[set_of(mixed, *sample)];

    assert(*sample - set->first < dataset_get_samples(set->dataset));
    *sample -= set->first;
    return set->dataset;
}

int64_t mixed_label(const struct mixed *mixed, uint32_t sample)
{
    const struct mixed_set *set = &mixed->set[set_of(mixed, sample)];
    int64_t label = relabel_get_label(set->relabel, set->dataset, sample - set->first);

    return set->labels && label >= 0 && label < classes_of(set) ? set->labels[label] : label;
}

const char *mixed_class_name(const struct mixed *mixed, uint32_t label)
{
    return mixed->classes ? mixed->classes[label] : "";
}

uint32_t mixed_container(const struct mixed *mixed, uint32_t sample)
{
    const struct mixed_set *set = &mixed->set[set_of(mixed, sample)];

    return set->first_container + dataset_get_container(set->dataset, sample - set->first);
}

/* ---- classes ---- */

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcmp(*x, *y);
}

/* Give each set room for the numbers of its classes. */
static int make_label_maps(struct mixed *m, struct plenum_error *err)
{
    for (uint32_t i = 0; i < m->count; i++) {
        size_t classes = classes_of(&m->set[i]);

        m->set[i].labels = calloc(classes + 1, sizeof(*m->set[i].labels));
        if (!m->set[i].labels)
            return error_set(err, -ENOMEM, "out of memory");
    }
    return 0;
}

/* Number classes for labels = stack: each set's classes follow those of the previous set. */
static int stack_classes(struct dataset *d, struct plenum_error *err)
{
    struct mixed *m = d->mixed;
    struct index_header *h = &d->generated;
    uint64_t all = 0, named = 0;
    int r = make_label_maps(m, err);

    for (uint32_t i = 0; i < m->count; i++) {
        all += classes_of(&m->set[i]);
        named += class_names_of(&m->set[i]);
    }
    if (r < 0)
        return r;
    if (all > INT32_MAX)
        return error_set(err, -EINVAL, "the sets have %llu classes together, which are too many",
                         (unsigned long long)all);
    m->classes = named == all ? calloc(all + 1, sizeof(*m->classes)) : NULL;
    if (named == all && !m->classes)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < m->count; i++)
        for (uint32_t c = 0; c < classes_of(&m->set[i]); c++) {
            if (m->classes)
                m->classes[h->classes] = class_name_of(&m->set[i], c);
            m->set[i].labels[c] = h->classes++;
        }
    h->class_names = m->classes ? h->classes : 0;
    return 0;
}

/* List the names of all classes once, in byte order. */
static int list_names(struct dataset *d, size_t all)
{
    struct mixed *m = d->mixed;
    size_t n = 0, unique = 0;

    m->classes = calloc(all + 1, sizeof(*m->classes));
    if (!m->classes)
        return -ENOMEM;
    for (uint32_t i = 0; i < m->count; i++)
        for (uint32_t c = 0; c < classes_of(&m->set[i]); c++)
            m->classes[n++] = class_name_of(&m->set[i], c);
    assert(n == all);
    qsort(m->classes, n, sizeof(*m->classes), by_name);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || strcmp(m->classes[i], m->classes[unique - 1]) != 0)
            m->classes[unique++] = m->classes[i];
    d->generated.classes = d->generated.class_names = (uint32_t)unique;
    return 0;
}

/* Number classes so that classes with one name in several sets are one class. */
static int unite_classes(struct dataset *d, size_t all, struct plenum_error *err)
{
    struct mixed *m = d->mixed;
    int r = make_label_maps(m, err);

    if (r < 0)
        return r;
    if (list_names(d, all) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < m->count; i++)
        for (uint32_t c = 0; c < classes_of(&m->set[i]); c++) {
            const char *name = class_name_of(&m->set[i], c);
            const char **at =
                bsearch(&name, m->classes, d->generated.classes, sizeof(*m->classes), by_name);

            assert(at);
            m->set[i].labels[c] = at - m->classes;
        }
    return 0;
}

/* Returns whether all sets list the same classes in the same order, as sets with the same
 * classes=LIST do. */
static bool classes_are_alike(const struct mixed *m)
{
    const struct mixed_set *first = &m->set[0];

    for (uint32_t i = 1; i < m->count; i++) {
        if (classes_of(&m->set[i]) != classes_of(first))
            return false;
        for (uint32_t c = 0; c < classes_of(first); c++)
            if (strcmp(class_name_of(&m->set[i], c), class_name_of(first, c)) != 0)
                return false;
    }
    return true;
}

/* Keep the numbers that classes have in all sets. */
static int keep_classes(struct dataset *d, struct plenum_error *err)
{
    struct mixed *m = d->mixed;
    uint32_t classes = (uint32_t)classes_of(&m->set[0]);
    int r = make_label_maps(m, err);

    if (r < 0)
        return r;
    m->classes = calloc((size_t)classes + 1, sizeof(*m->classes));
    if (!m->classes)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t c = 0; c < classes; c++) {
        m->classes[c] = class_name_of(&m->set[0], c);
        for (uint32_t i = 0; i < m->count; i++)
            m->set[i].labels[c] = c;
    }
    d->generated.classes = d->generated.class_names = classes;
    return 0;
}

static int set_classes(struct dataset *d, struct plenum_error *err)
{
    struct mixed *m = d->mixed;
    struct index_header *h = &d->generated;
    const char *with = NULL, *without = NULL;
    size_t all = 0;

    if (m->plan->labels == ORDERPLAN_STACK)
        return stack_classes(d, err);
    for (uint32_t i = 0; i < m->count; i++) {
        const struct mixed_set *set = &m->set[i];

        h->classes = h->classes > classes_of(set) ? h->classes : classes_of(set);
        all += classes_of(set);
        if (class_names_of(set) > 0)
            with = m->plan->sets[i].name;
        else if (classes_of(set) > 0)
            without = m->plan->sets[i].name;
    }
    if (!with || m->plan->labels == ORDERPLAN_NUMBERS)
        return 0;
    if (without)
        return error_set(err, -EINVAL,
                         "the classes of set '%s' have names and the labels of set '%s' are "
                         "numbers: write 'labels numbers' to use all as numbers, or 'labels stack'",
                         with, without);
    return classes_are_alike(m) ? keep_classes(d, err) : unite_classes(d, all, err);
}

/* ---- fields ---- */

/* Make room for the fields of one more set. */
static int join_fields(struct dataset *d, uint32_t i, struct plenum_error *err)
{
    struct fields *all = &d->fields;
    const struct fields *own = dataset_get_fields(d->mixed->set[i].dataset);
    const struct orderplan *plan = d->mixed->plan;

    if (i == 0) {
        *all = *own;
        return 0;
    }
    for (uint32_t k = 0; k < all->count; k++) {
        struct field_shape *a = &all->shape[k], b = own->shape[k];
        int r;

        if (a->type == b.type && field_grows(a)) {
            field_shape_grow(a, &b);
            b = *a;
        }
        r = field_check_room(a, err);
        if (r < 0)
            return error_prefix(err, r, "field '%s'", all->spec[k].name);
        if (memcmp(a, &b, sizeof(b)) != 0)
            return error_set(err, -EINVAL,
                             "field '%s' has another type or shape in set '%s' than in set '%s'",
                             all->spec[k].name, plan->sets[i].name, plan->sets[0].name);
        if (own->stored[k] > all->stored[k])
            all->stored[k] = own->stored[k];
    }
    return 0;
}

int mixed_read_fields(const struct dataset *dataset, uint32_t sample, struct dataset_buffer *buffer,
                      struct plenum_error *err)
{
    const struct fields *all = &dataset->fields;
    uint32_t number = sample;
    const struct dataset *set = mixed_find(dataset->mixed, &number);
    const struct fields *own = dataset_get_fields(set);
    size_t from = dataset_get_record_bytes(set), to = dataset_get_record_bytes(dataset);
    int r = all->count > 0 ? dataset_buffer_reserve(buffer, to) : 0; /* reading keeps the room */

    if (r < 0)
        return error_set(err, r, "out of memory");
    r = dataset_read_fields(set, number, buffer, err);
    if (r < 0 || from == to)
        return r;
    (void)dataset_buffer_reserve(buffer, to); /* there is room */
    /* Begin with the last field, because fields only move up. */
    for (uint32_t i = all->count; i-- > 0;) {
        from -= own->stored[i];
        to -= all->stored[i];
        memmove(buffer->bytes + to, buffer->bytes + from, own->stored[i]);
        memset(buffer->bytes + to + own->stored[i], 0, all->stored[i] - own->stored[i]);
    }
    return 0;
}

void mixed_add_memory(const struct mixed *mixed, struct field_memory *sum)
{
    for (uint32_t i = 0; i < mixed->count; i++)
        dataset_add_memory(mixed->set[i].dataset, sum);
}

const uint8_t *mixed_fields_hash(const struct mixed *mixed)
{
    return mixed->fields_hash;
}

/* ---- opening ---- */

/* Fill in the totals over all sets, which other data sets have in their index's header; hash their
 * fields; and number their classes. */
static int describe(struct dataset *d, struct plenum_error *err)
{
    struct mixed *m = d->mixed;
    struct index_header *h = &d->generated;
    uint8_t hashes[MIXTURE_SETS_MAX][16];
    XXH128_canonical_t hash;
    uint64_t samples = 0, containers = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        const struct dataset *set = m->set[i].dataset;

        m->set[i].first = (uint32_t)samples;
        m->set[i].first_container = (uint32_t)containers;
        samples += dataset_get_samples(set);
        containers += dataset_get_containers(set);
        h->bytes += set->index.header->bytes;
        h->skipped += set->index.header->skipped;
        if (samples >= UINT32_MAX || containers >= UINT32_MAX)
            return error_set(err, -EINVAL,
                             "the sets have more than 2^32 - 2 samples, or files, together");
        memcpy(hashes[i], dataset_get_fields_hash(set), 16);
    }
    h->samples = (uint32_t)samples;
    h->containers = (uint32_t)containers;
    XXH128_canonicalFromHash(&hash, XXH3_128bits(hashes, 16 * (size_t)m->count));
    memcpy(m->fields_hash, hash.digest, 16);
    return set_classes(d, err);
}

/* Hash everything that a cursor depends on: samples, their order, and the numbers of classes. */
static void set_hash(struct mixed *m, uint32_t i)
{
    struct mixed_set *set = &m->set[i];
    uint64_t table = set_table_hash(&set->table);
    XXH128_canonical_t hash;
    XXH3_state_t state;

    (void)XXH3_128bits_reset(&state);
    (void)XXH3_128bits_update(&state, dataset_get_fingerprint(set->dataset), 16);
    (void)XXH3_128bits_update(&state, &table, sizeof(table));
    if (set->relabel) {
        uint64_t relabel = relabel_hash(set->relabel);

        (void)XXH3_128bits_update(&state, &relabel, sizeof(relabel));
    }
    if (set->labels)
        (void)XXH3_128bits_update(&state, set->labels, classes_of(set) * sizeof(*set->labels));
    XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(&state));
    memcpy(set->hash, hash.digest, 16);
}

/* Set the checksum and the fingerprint by which two loaders find that their mixtures differ, and
 * the sets' hashes, from the sets' checksums and tables. */
static void set_sum(struct dataset *d)
{
    const struct mixed *m = d->mixed;
    struct index_header *h = &d->generated;
    XXH3_state_t state;
    XXH128_canonical_t hash;

    d->sum = (struct datasum){.samples = h->samples, .classes = h->classes, .bytes = h->bytes};
    if (m->count == 1 && m->plan->order == ORDERPLAN_MIX && !m->set[0].relabel)
        d->sum = *dataset_get_sum(m->set[0].dataset);
    (void)XXH3_128bits_reset(&state);
    (void)XXH3_128bits_update(&state, m->plan->text, strlen(m->plan->text));
    for (uint32_t i = 0; i < m->count; i++) {
        const struct datasum *sum = dataset_get_sum(m->set[i].dataset);
        struct datasum_segment *segment = &d->sum.segments[i];

        if (m->count > 1 || d->sum.heads == 0)
            segment->names = XXH3_64bits(sum, sizeof(*sum));
        set_hash(d->mixed, i);
        (void)XXH3_128bits_update(&state, m->set[i].hash, 16);
        for (uint32_t k = 0; k < m->set[i].num_later; k++) {
            uint64_t later = set_table_hash(&m->set[i].later[k]);

            (void)XXH3_128bits_update(&state, &later, sizeof(later));
        }
    }
    XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(&state));
    memcpy(d->fingerprint, hash.digest, 16);
}

static int open_set(struct dataset *d, uint32_t i, const struct dataset_options *options,
                    struct plenum_error *err)
{
    struct mixed *m = d->mixed;
    const struct orderplan_set *plan = &m->plan->sets[i];
    struct mixed_set *set = &m->set[i];
    int r = dataset_open(plan->dataset, options, &set->dataset, err);

    if (r < 0)
        return error_prefix(err, r, "set '%s'", plan->name);
    m->count++;
    d->has_remote_sets = d->has_remote_sets || dataset_is_remote(set->dataset);
    if (dataset_get_warning(set->dataset)[0]) {
        char name[ORDERPLAN_NAME_MAX + 2];

        (void)snprintf(name, sizeof(name), "%s: ", plan->name);
        dataset_add_warning(d, name, dataset_get_warning(set->dataset));
    }
    if (dataset_has_images(set->dataset) != dataset_has_images(m->set[0].dataset))
        return error_set(err, -EINVAL, "set '%s' has images, and set '%s' has none",
                         m->plan->sets[dataset_has_images(set->dataset) ? i : 0].name,
                         m->plan->sets[dataset_has_images(set->dataset) ? 0 : i].name);
    return join_fields(d, i, err);
}

/* ---- one order of all samples ---- */

static int64_t class_of_label(void *arg, uint32_t sample)
{
    const struct dataset *d = arg;
    int64_t label = mixed_label(d->mixed, sample);

    return label < d->generated.classes ? label : -1;
}

static int64_t class_of_set(void *arg, uint32_t sample)
{
    const struct dataset *d = arg;

    return set_of(d->mixed, sample);
}

/* Warn that a batch shows samples of this small class several times. */
static void warn_of_class(struct dataset *d, uint32_t c)
{
    const struct sampler_table *t = &d->mixed->whole.table;
    uint32_t class = (uint32_t)class_of_label(d, t->member[t->start[c]]);
    const char *name = mixed_class_name(d->mixed, class);
    char number[16], text[300];

    (void)snprintf(number, sizeof(number), "%u", class);
    (void)snprintf(text, sizeof(text),
                   "class '%.100s' has %u samples, fewer than each = %u: blocks show some of them "
                   "more than once",
                   *name ? name : number, t->start[c + 1] - t->start[c], t->each);
    dataset_add_warning(d, text, "");
}

/* Make the table for stratify and balance: the selected samples of all sets, by class or set. */
static int join_sets(struct dataset *d, struct plenum_error *err)
{
    struct mixed *m = d->mixed;
    bool by_set = m->plan->order == ORDERPLAN_STRATA_SET;
    struct set_table_joined joined = {.plan = m->plan,
                                      .classes = by_set ? m->count : d->generated.classes,
                                      .class_of = by_set ? class_of_set : class_of_label,
                                      .arg = d};
    uint32_t small;
    int r;

    joined.member = malloc(d->generated.samples * sizeof(*joined.member));
    if (!joined.member)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < m->count; i++)
        for (uint32_t k = 0; k < m->set[i].table.table.n; k++)
            joined.member[joined.n++] =
                m->set[i].first +
                (m->set[i].table.table.member ? m->set[i].table.table.member[k] : k);
    r = set_table_join(&joined, &m->whole, &small, err);
    if (r == 0 && small != UINT32_MAX)
        warn_of_class(d, small);
    return r;
}

/* Check that making the tables does not exceed the loader's memory, which clients must not
 * exhaust. */
static int check_memory(const struct mixed *m, const struct dataset_options *options,
                        struct plenum_error *err)
{
    const struct orderplan *plan = m->plan;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < m->count; i++) {
        const struct dataset *set = m->set[i].dataset;
        uint32_t later = orderplan_count_reweighs(plan, i);
        bool members = plan->sets[i].select || plan->sets[i].weights || plan->sets[i].relabel ||
                       later > 0 || plan->order != ORDERPLAN_MIX;

        bytes += (uint64_t)later * REWEIGH_BYTES * dataset_get_samples(set);
        if (members)
            bytes += (uint64_t)MEMBER_BYTES * dataset_get_samples(set);
        if (plan->sets[i].relabel)
            bytes += (uint64_t)CLASS_BYTES * dataset_get_classes(set);
        if (members || plan->labels == ORDERPLAN_STACK || dataset_get_class_names(set) > 0)
            bytes += (uint64_t)CLASS_BYTES * dataset_get_classes(set);
    }
    return options->memory && bytes > options->memory
               ? error_set(err, -ENOMEM,
                           "the tables of the plan would take more memory than this loader may use "
                           "for them")
               : 0;
}

/* Give a set the classes that its file for relabel= names. */
static int relabel_set(struct dataset *d, uint32_t i, struct plenum_error *err)
{
    const struct orderplan_set *plan = &d->mixed->plan->sets[i];
    struct mixed_set *set = &d->mixed->set[i];
    char text[ORDERPLAN_NAME_MAX + 100];
    int r;

    if (!plan->relabel)
        return 0;
    r = relabel_open(set->dataset, plan->relabel, &set->relabel, err);
    if (r < 0)
        return error_prefix(err, r, "set '%s': relabel", plan->name);
    if (relabel_left_out(set->relabel) == 0)
        return 0;
    (void)snprintf(text, sizeof(text), "set '%s' leaves out %u of its %u classes, not named in ",
                   plan->name, relabel_left_out(set->relabel), dataset_get_classes(set->dataset));
    dataset_add_warning(d, text, plan->relabel);
    return 0;
}

/* Warn about listed names that a set lacks. This is not an error, because several sets may use one
 * list. */
static void warn_of_absent(struct dataset *d, const struct orderplan_set *plan,
                           const struct selection *selection)
{
    char text[ORDERPLAN_NAME_MAX + 100];

    if (selection->absent == 0)
        return;
    (void)snprintf(text, sizeof(text),
                   "set '%s' has no sample of %u of the names that it selects, such as ",
                   plan->name, selection->absent);
    dataset_add_warning(d, text, selection->absent_name);
}

/* Warn about classes, or a set, with fewer samples than 'random N' should keep. */
static void warn_of_scarce(struct dataset *d, const struct orderplan_set *plan,
                           const struct selection *selection)
{
    char text[ORDERPLAN_NAME_MAX + 160];

    if (selection->scarce == 0)
        return;
    if (selection->scarce_class < 0)
        (void)snprintf(text, sizeof(text), "set '%s': 'random %llu' finds only %u samples",
                       plan->name, (unsigned long long)selection->scarce_wanted,
                       selection->scarce_found);
    else
        (void)snprintf(
            text, sizeof(text),
            "set '%s': 'random %llu per class' finds fewer samples in %u of the classes, "
            "such as %u in class %lld",
            plan->name, (unsigned long long)selection->scarce_wanted, selection->scarce,
            selection->scarce_found, (long long)selection->scarce_class);
    dataset_add_warning(d, text, "");
}

static void warn_of_selection(void *arg, const struct orderplan_set *plan,
                              const struct selection *selection)
{
    warn_of_absent(arg, plan, selection);
    warn_of_scarce(arg, plan, selection);
}

/* Make the tables that replace a set's table at a pass. */
static int make_later(struct mixed *m, uint32_t i, const struct set_table_source *source,
                      struct plenum_error *err)
{
    struct mixed_set *set = &m->set[i];
    uint32_t count = orderplan_count_reweighs(m->plan, i);
    int r = 0;

    if (count == 0)
        return 0;
    set->later = calloc(count, sizeof(*set->later));
    set->reweighs = calloc(count, sizeof(*set->reweighs));
    if (!set->later || !set->reweighs)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t k = 0; k < m->plan->num_reweighs && r == 0; k++) {
        const struct orderplan_reweigh *plan = &m->plan->reweighs[k];
        struct set_table *table = &set->later[set->num_later];

        if (plan->set != i)
            continue;
        set->reweighs[set->num_later++] =
            (struct sampler_reweigh){.pass = plan->pass, .table = &table->table};
        r = set_table_reweigh(source, &set->table, plan->weights, table, err);
        if (r < 0)
            r = error_prefix(err, r, "weights from pass %u on", plan->pass);
    }
    set->table.table.later = set->reweighs;
    set->table.table.num_later = set->num_later;
    return r;
}

/* Make the tables of all sets, and those that replace them from a later pass on. */
static int make_tables(struct dataset *d, const struct dataset_options *options,
                       struct plenum_error *err)
{
    struct mixed *m = d->mixed;
    int r = 0;

    for (uint32_t i = 0; i < m->count && r == 0; i++) {
        struct set_table_source source = {.plan = &m->plan->sets[i],
                                          .dataset = m->set[i].dataset,
                                          .relabel = m->set[i].relabel,
                                          .options = options,
                                          .warn = warn_of_selection,
                                          .arg = d};

        r = set_table_make(&source, &m->set[i].table, err);
        if (r == 0)
            r = make_later(m, i, &source, err);
        if (r < 0)
            r = error_prefix(err, r, "set '%s'", m->plan->sets[i].name);
    }
    return r;
}

int mixed_open(struct dataset *dataset, const char *text, const struct dataset_options *options,
               struct plenum_error *err)
{
    struct dataset *d = dataset;
    struct mixed *m = calloc(1, sizeof(*m));
    char name[16 + MIXTURE_SETS_MAX * (ORDERPLAN_NAME_MAX + 2)];
    int r;

    if (!m)
        return error_set(err, -ENOMEM, "out of memory");
    d->mixed = m;
    lock_init(&m->mu);
    r = orderplan_parse(text, NULL, &m->plan, err);
    for (uint32_t i = 0; r == 0 && i < m->plan->num_sets; i++)
        r = open_set(d, i, options, err);
    if (r == 0)
        r = check_memory(m, options, err);
    for (uint32_t i = 0; r == 0 && i < m->count; i++)
        r = relabel_set(d, i, err);
    if (r == 0)
        r = make_tables(d, options, err);
    if (r == 0)
        r = describe(d, err);
    if (r == 0 && m->plan->order != ORDERPLAN_MIX)
        r = join_sets(d, err);
    if (r < 0)
        return r;
    d->name = strdup(orderplan_describe(m->plan, name, sizeof(name)));
    d->no_images = !dataset_has_images(m->set[0].dataset);
    d->index.header = &d->generated;
    d->hints_code = dataset_get_hints_code(m->set[0].dataset);
    set_sum(d);
    return d->name ? 0 : error_set(err, -ENOMEM, "out of memory");
}

void mixed_close(struct mixed *mixed)
{
    struct mixed *m = mixed;

    if (!m)
        return;
    while (m->orders) {
        struct seeded *order = m->orders;

        m->orders = order->next;
        mixture_destroy(order->mixture);
        free(order);
    }
    for (uint32_t i = 0; i < m->count; i++) {
        dataset_unref(m->set[i].dataset);
        free(m->set[i].labels);
        relabel_close(m->set[i].relabel);
        for (uint32_t k = 0; k < m->set[i].num_later; k++)
            set_table_fini(&m->set[i].later[k]);
        free(m->set[i].later);
        free(m->set[i].reweighs);
        set_table_fini(&m->set[i].table);
    }
    set_table_fini(&m->whole);
    orderplan_free(m->plan);
    free(m->classes);
    lock_fini(&m->mu);
    free(m);
}

/* ---- the order ---- */

/* List the parts of the order: the sets, or one set of all samples. Returns their number. */
static uint32_t list_parts(const struct mixed *m, struct mixture_set sets[MIXTURE_SETS_MAX])
{
    if (m->plan->order != ORDERPLAN_MIX) {
        sets[0] = (struct mixture_set){.name = "", .table = &m->whole.table};
        return 1;
    }
    for (uint32_t i = 0; i < m->count; i++)
        sets[i] = (struct mixture_set){.name = m->plan->sets[i].name,
                                       .table = &m->set[i].table.table,
                                       .first = m->set[i].first};
    return m->count;
}

static int create_order(struct mixed *m, uint64_t seed, struct seeded *ret,
                        struct plenum_error *err)
{
    static const uint32_t one[] = {1};
    static const struct mixture_piece whole = {.weights = one};
    const struct orderplan *plan = m->plan;
    struct mixture_set sets[MIXTURE_SETS_MAX];
    struct mixture_parts parts = {.sets = sets,
                                  .num_sets = list_parts(m, sets),
                                  .pieces = plan->pieces,
                                  .num_pieces = plan->num_pieces,
                                  .block = plan->block,
                                  .positions = plan->epoch};
    uint32_t longest = 0;
    int r;

    if (parts.num_sets == 1) {
        parts.pieces = &whole;
        parts.num_pieces = 1;
        parts.positions = sets[0].table->positions;
    } else if (parts.positions == 0) {
        parts.positions = mixture_epoch(&parts, plan->epoch_set, seed, &longest);
    }
    if (parts.positions == 0)
        return error_set(err, -EINVAL,
                         "an epoch that shows all of '%s' has more than 2^32 - 2 positions: set "
                         "epoch to a number",
                         plan->sets[longest].name);
    r = mixture_create(&parts, seed, &ret->mixture);
    if (r < 0)
        return error_set(err, r, "out of memory");
    ret->seed = seed;
    ret->positions = parts.positions;
    return 0;
}

int dataset_set_order(const struct dataset *dataset, struct order *order, struct plenum_error *err)
{
    struct mixed *m = dataset->mixed;
    struct seeded *at;
    int r = 0;

    if (!m)
        return 0;
    lock_acquire(&m->mu);
    for (at = m->orders; at && at->seed != order->seed; at = at->next)
        ;
    if (!at) {
        at = calloc(1, sizeof(*at));
        r = at ? create_order(m, order->seed, at, err) : error_set(err, -ENOMEM, "out of memory");
        if (r < 0) {
            free(at);
            at = NULL;
        } else {
            at->next = m->orders;
            m->orders = at;
        }
    }
    lock_release(&m->mu);
    if (r == 0)
        *order = (struct order){
            .seed = order->seed, .n = at->positions, .repeat = 1, .mixture = at->mixture};
    return r;
}

const struct orderplan *dataset_get_plan(const struct dataset *dataset)
{
    return dataset->mixed ? dataset->mixed->plan : NULL;
}

const struct sampler_table *dataset_get_joined(const struct dataset *dataset)
{
    const struct mixed *m = dataset->mixed;

    return m && m->plan->order != ORDERPLAN_MIX ? &m->whole.table : NULL;
}

uint32_t dataset_get_skips(const struct dataset *dataset, const struct order_gap **ret)
{
    *ret = dataset->mixed ? dataset->mixed->plan->skips : NULL;
    return dataset->mixed ? dataset->mixed->plan->num_skips : 0;
}

uint32_t dataset_get_sets(const struct dataset *dataset, struct dataset_set *ret)
{
    const struct mixed *m = dataset->mixed;

    for (uint32_t i = 0; m && i < m->count; i++) {
        ret[i] = (struct dataset_set){.name = m->plan->sets[i].name,
                                      .dataset = m->set[i].dataset,
                                      .first = m->set[i].first,
                                      .positions = m->set[i].table.table.positions,
                                      .table = &m->set[i].table.table};
        memcpy(ret[i].hash, m->set[i].hash, 16);
    }
    return m ? m->count : 0;
}

uint32_t dataset_get_reweighs(const struct dataset *dataset, const struct order *order,
                              struct dataset_reweigh *ret)
{
    const struct mixed *m = dataset->mixed;
    uint32_t count = 0;

    for (uint32_t i = 0; m && i < m->count; i++)
        for (uint32_t k = 0; k < m->set[i].num_later; k++)
            ret[count++] = (struct dataset_reweigh){
                .start = mixture_pass_start(order->mixture, i, m->set[i].reweighs[k].pass),
                .hash = set_table_hash(&m->set[i].later[k])};
    return count;
}
