/* SPDX-License-Identifier: MIT */
/* index_builder.c - collects the contents of an index, in the order of samples.
 *
 * Archives and lists are read by several threads, each with its own builder; the builders are then
 * appended to each other. Labels are settled at the end, because whether labels are numbers or
 * names, and which class a name gets, depends on all of them. */
#include "config.h"

#include "loader/dataset/index_builder.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

void index_builder_fini(struct index_builder *b)
{
    free(b->samples);
    free(b->containers);
    free(b->classes);
    free(b->names);
    free(b->labels);
    free(b->label_slots);
    *b = (struct index_builder){.memory = b->memory, .rule = b->rule};
}

int index_memory_charge(struct index_memory *memory, size_t bytes)
{
    size_t held = memory ? atomic_fetch_add(&memory->held, bytes) + bytes : 0;

    if (!memory || memory->limit == 0 || held <= memory->limit)
        return 0;
    (void)atomic_fetch_sub(&memory->held, bytes);
    atomic_store(&memory->over, true);
    return -ENOMEM;
}

void index_memory_refund(struct index_memory *memory, size_t bytes)
{
    assert(!memory || atomic_load(&memory->held) >= bytes);
    if (memory)
        (void)atomic_fetch_sub(&memory->held, bytes);
}

int index_memory_grow(struct index_memory *memory, void *array, size_t *cap, size_t count,
                      size_t size)
{
    size_t before = *cap;
    int r = array_grow(array, cap, count, size);

    return r < 0 ? r : index_memory_charge(memory, (*cap - before) * size);
}

/* Make room for `more` entries of `size` bytes. Returns 0 or -ENOMEM. */
static int grow(struct index_builder *b, void *array, size_t size, size_t have, size_t more,
                size_t *cap)
{
    void **p = array;
    size_t want = *cap ? *cap : 256;
    void *bytes;

    assert(have <= *cap);
    if (*cap - have >= more)
        return 0;
    while (want - have < more)
        want += want / 2;
    if (index_memory_charge(b->memory, (want - *cap) * size) < 0)
        return -ENOMEM;
    bytes = realloc(*p, want * size);
    if (!bytes)
        return -ENOMEM;
    assert(want - have >= more);
    *p = bytes;
    *cap = want;
    return 0;
}

int64_t index_builder_add_name(struct index_builder *b, const char *name, size_t len)
{
    size_t at = b->names_bytes;

    if (grow(b, &b->names, 1, b->names_bytes, len + 1, &b->cap_names) < 0)
        return -ENOMEM;
    assert(b->cap_names - at > len);
    memcpy(b->names + at, name, len);
    b->names[at + len] = '\0';
    b->names_bytes += len + 1;
    return (int64_t)at;
}

/* Add a class with the name at this offset. */
static int64_t add_class(struct index_builder *b, uint64_t at)
{
    if (b->num_classes >= INT32_MAX)
        return -EOVERFLOW;
    if (grow(b, &b->classes, sizeof(*b->classes), b->num_classes, 1, &b->cap_classes) < 0)
        return -ENOMEM;
    assert(at < b->names_bytes);
    b->classes[b->num_classes] = at;
    return (int64_t)b->num_classes++;
}

int64_t index_builder_add_class(struct index_builder *b, const char *name)
{
    int64_t at = index_builder_add_name(b, name, strlen(name));

    return at < 0 ? at : add_class(b, (uint64_t)at);
}

int64_t index_builder_add_class_again(struct index_builder *b, uint32_t other)
{
    assert(other < b->num_classes);
    return add_class(b, b->classes[other]);
}

int index_builder_name_classes(struct index_builder *b, const char *const *names, uint32_t count)
{
    size_t used = b->num_classes;
    int64_t nameless = -1, r = 0;

    b->num_classes = 0;
    b->unnamed = false;
    for (uint32_t i = 0; i < count && r >= 0; i++)
        r = index_builder_add_class(b, names[i]);
    while (b->num_classes < used && r >= 0) {
        if (nameless < 0)
            r = nameless = index_builder_add_class(b, "");
        else
            r = index_builder_add_class_again(b, (uint32_t)nameless);
    }
    if (used > count && count > 0) {
        size_t len = strlen(b->about_labels);

        (void)snprintf(b->about_labels + len, sizeof(b->about_labels) - len,
                       "%sonly the first %u of %zu classes have names: classes=FILE names all of "
                       "them",
                       len > 0 ? "; " : "", count, used);
    }
    return r < 0 ? (int)r : 0;
}

int64_t index_builder_add_container(struct index_builder *b, const char *path,
                                    const struct stamp *stamp)
{
    int64_t at = index_builder_add_name(b, path, strlen(path));

    if (at < 0)
        return at;
    if (b->num_containers >= INT32_MAX)
        return -EOVERFLOW;
    if (grow(b, &b->containers, sizeof(*b->containers), b->num_containers, 1, &b->cap_containers) <
        0)
        return -ENOMEM;
    b->containers[b->num_containers] =
        (struct index_container){.name = (uint64_t)at, .stamp = *stamp};
    return (int64_t)b->num_containers++;
}

int64_t index_builder_add_sample(struct index_builder *b, const struct index_sample *sample,
                                 const char *name)
{
    const struct index_sample *last = b->num_samples ? &b->samples[b->num_samples - 1] : NULL;
    int64_t at;

    if (!*name && last && !b->names[last->name])
        at = (int64_t)last->name;
    else
        at = index_builder_add_name(b, name, strlen(name));
    if (at < 0)
        return at;
    if (b->num_samples >= UINT32_MAX - 1)
        return -EOVERFLOW;
    if (grow(b, &b->samples, sizeof(*b->samples), b->num_samples, 1, &b->cap_samples) < 0)
        return -ENOMEM;
    assert((uint64_t)at < b->names_bytes);
    b->samples[b->num_samples] = *sample;
    b->samples[b->num_samples].name = (uint64_t)at & ((UINT64_C(1) << 48) - 1);
    b->bytes += sample->len;
    return (int64_t)b->num_samples++;
}

/* Returns a string's slot in the hash table: the one that contains it, or the free one to use for
 * it. */
static uint32_t *label_slot(const struct index_builder *b, const char *text, size_t len)
{
    size_t mask = b->num_label_slots - 1;

    assert(b->num_label_slots > b->num_labels);
    assert((b->num_label_slots & (b->num_label_slots - 1)) == 0);
    for (size_t i = XXH3_64bits(text, len) & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &b->label_slots[i];
        const char *have = *slot ? b->names + b->labels[*slot - 1].text : NULL;

        if (!have || (strncmp(have, text, len) == 0 && have[len] == '\0'))
            return slot;
    }
}

/* Double the size of the table, so that it stays at most half full. */
static int grow_label_slots(struct index_builder *b)
{
    size_t count = b->num_label_slots ? b->num_label_slots * 2 : 256;
    uint32_t *slots = index_memory_charge(b->memory, count * sizeof(*slots)) < 0
                          ? NULL
                          : calloc(count, sizeof(*slots));

    if (!slots)
        return -ENOMEM;
    free(b->label_slots);
    b->label_slots = slots;
    b->num_label_slots = count;
    for (size_t i = 0; i < b->num_labels; i++) {
        const char *text = b->names + b->labels[i].text;

        *label_slot(b, text, strlen(text)) = (uint32_t)i + 1;
    }
    return 0;
}

/* Find or add the label with this spelling. Returns its number. */
static int64_t find_label(struct index_builder *b, const char *text, size_t len)
{
    uint32_t *slot;
    int64_t at;

    if (b->num_labels * 2 >= b->num_label_slots && grow_label_slots(b) < 0)
        return -ENOMEM;
    assert(b->num_labels * 2 <= b->num_label_slots);
    slot = label_slot(b, text, len);
    if (*slot)
        return *slot - 1;
    if (b->num_labels >= INT32_MAX)
        return -EOVERFLOW;
    at = index_builder_add_name(b, text, len);
    if (at < 0 || grow(b, &b->labels, sizeof(*b->labels), b->num_labels, 1, &b->cap_labels) < 0)
        return -ENOMEM;
    b->labels[b->num_labels] = (struct index_label){.text = (uint64_t)at, .first = b->num_samples};
    *slot = (uint32_t)++b->num_labels;
    return *slot - 1;
}

/* Check that all labels are names, or all are numbers. */
static int check_kind(const struct index_builder *b, const struct index_label *label,
                      struct plenum_error *err)
{
    const struct index_label *first = &b->labels[0];

    assert(b->num_labels > 0);
    if (label->label.is_name == first->label.is_name)
        return 0;
    return error_set(err, -EBADMSG,
                     "label '%.100s' is a %s, but '%.100s', another label of the data set, is a %s",
                     b->names + label->text, label->label.is_name ? "name" : "number",
                     b->names + first->text, first->label.is_name ? "name" : "number");
}

int64_t index_builder_add_label(struct index_builder *b, enum label_source source, const char *text,
                                size_t len, struct plenum_error *err)
{
    static const struct label_rule no_settings;
    size_t had = b->num_labels;
    struct label label;
    int64_t number;
    int r;

    if (memchr(text, '\0', len)) /* such as a binary number */
        return error_set(err, -EBADMSG, "label '%.*s' contains zero bytes: labels must be text",
                         (int)min_u64(len, 100), text);
    number = find_label(b, text, len);
    if (number < 0 || b->num_labels == had)
        return number;
    r = label_read(b->rule ? b->rule : &no_settings, source, text, len, &label, err);
    if (r < 0)
        return r;
    b->labels[number].label = label;
    r = check_kind(b, &b->labels[number], err);
    return r < 0 ? r : number;
}

/* Add the labels of a part. Sets `map` [part->num_labels] to their numbers in `b`. */
static int map_labels(struct index_builder *b, const struct index_builder *part, int32_t *map)
{
    for (size_t i = 0; i < part->num_labels; i++) {
        const char *text = part->names + part->labels[i].text;
        size_t had = b->num_labels;
        int64_t label = find_label(b, text, strlen(text));

        if (label < 0)
            return (int)label;
        if (b->num_labels > had) {
            b->labels[label].first = b->num_samples + part->labels[i].first;
            b->labels[label].label = part->labels[i].label;
        }
        assert((size_t)label < b->num_labels);
        map[i] = (int32_t)label;
    }
    return 0;
}

int index_builder_append(struct index_builder *b, const struct index_builder *part)
{
    int32_t *map = malloc((part->num_labels + 1) * sizeof(*map));
    size_t first_container = b->num_containers, names;
    int r = map ? map_labels(b, part, map) : -ENOMEM;

    if (r < 0)
        goto out;
    if (b->num_samples + part->num_samples >= UINT32_MAX ||
        b->num_containers + part->num_containers >= INT32_MAX) {
        r = -EOVERFLOW;
        goto out;
    }
    if (grow(b, &b->names, 1, b->names_bytes, part->names_bytes, &b->cap_names) < 0 ||
        grow(b, &b->samples, sizeof(*b->samples), b->num_samples, part->num_samples,
             &b->cap_samples) < 0 ||
        grow(b, &b->containers, sizeof(*b->containers), b->num_containers, part->num_containers,
             &b->cap_containers) < 0) {
        r = -ENOMEM;
        goto out;
    }
    names = b->names_bytes;
    if (part->names_bytes)
        memcpy(b->names + names, part->names, part->names_bytes);
    b->names_bytes += part->names_bytes;
    for (size_t i = 0; i < part->num_containers; i++) {
        b->containers[b->num_containers] = part->containers[i];
        b->containers[b->num_containers++].name += names;
    }
    for (size_t i = 0; i < part->num_samples; i++) {
        struct index_sample *s = &b->samples[b->num_samples++];

        *s = part->samples[i];
        s->name = (s->name + names) & ((UINT64_C(1) << 48) - 1);
        s->container += (uint32_t)first_container;
        if (s->label >= 0 && part->num_labels > 0)
            s->label = map[s->label];
    }
    b->bytes += part->bytes;
    index_builder_add_skipped(b, part);

out:
    free(map);
    return r;
}

/* Write the container and the name of the first sample with a label to `ret`; returns `ret`. */
static const char *place_of(const struct index_builder *b, const struct index_label *label,
                            char *ret, size_t size)
{
    const struct index_sample *s = &b->samples[label->first];
    const char *name = b->names + s->name;

    assert(label->first < b->num_samples);
    (void)snprintf(ret, size, "%s%s%s", b->names + b->containers[s->container].name,
                   *name ? ", " : "", name);
    return ret;
}

int index_builder_add_listed(struct index_builder *b, int64_t highest)
{
    const struct class_list *classes = b->rule ? b->rule->classes : NULL;
    int64_t count = !classes ? 0 : classes->numbers ? highest + 1 : classes->count, r = 0;
    char number[16];

    for (int64_t i = 0; i < count && r >= 0; i++) {
        (void)snprintf(number, sizeof(number), "%d", (int)i);
        r = index_builder_add_class(b, classes->numbers ? number : classes->names[i]);
    }
    return r < 0 ? (int)r : 0;
}

/* Compare labels by text, for qsort_r(). */
static int by_text(const void *a, const void *b, void *names)
{
    const struct index_label *const *x = a, *const *y = b;

    return strcmp((const char *)names + (*x)->text, (const char *)names + (*y)->text);
}

/* Number the names in byte order. */
static int number_names(struct index_builder *b)
{
    struct index_label **sorted = malloc((b->num_labels + 1) * sizeof(struct index_label *));

    if (!sorted ||
        grow(b, &b->classes, sizeof(*b->classes), 0, b->num_labels, &b->cap_classes) < 0) {
        free(sorted);
        return -ENOMEM;
    }
    for (size_t i = 0; i < b->num_labels; i++)
        sorted[i] = &b->labels[i];
    qsort_r(sorted, b->num_labels, sizeof(struct index_label *), by_text, b->names);
    for (size_t i = 0; i < b->num_labels; i++) {
        sorted[i]->label.class = (int32_t)i;
        b->classes[i] = sorted[i]->text;
    }
    assert(b->cap_classes >= b->num_labels);
    b->num_classes = b->num_labels;
    free(sorted);
    return 0;
}

static int by_class(const void *a, const void *b)
{
    const struct index_label *const *x = a, *const *y = b;
    int32_t one = (*x)->label.class, two = (*y)->label.class;

    return one != two ? (one > two) - (one < two)
                      : ((*x)->first > (*y)->first) - ((*x)->first < (*y)->first);
}

/* Record two labels that spell the same number differently, 1 and 01, which may be a mistake. */
static int note_spellings(struct index_builder *b)
{
    struct index_label **sorted;
    char one[120], two[120];
    size_t pairs = 0;

    if (b->num_labels == 0 || b->labels[0].label.is_name)
        return 0;
    sorted = malloc(b->num_labels * sizeof(struct index_label *));
    if (!sorted)
        return -ENOMEM;
    for (size_t i = 0; i < b->num_labels; i++)
        sorted[i] = &b->labels[i];
    qsort(sorted, b->num_labels, sizeof(struct index_label *), by_class);
    for (size_t i = 1; i < b->num_labels; i++)
        if (sorted[i]->label.class == sorted[i - 1]->label.class && pairs++ == 0)
            (void)snprintf(
                b->about_labels, sizeof(b->about_labels),
                "labels '%.40s' (%s) and '%.40s' (%s) are the same number, so they are one class",
                b->names + sorted[i - 1]->text, place_of(b, sorted[i - 1], one, sizeof(one)),
                b->names + sorted[i]->text, place_of(b, sorted[i], two, sizeof(two)));
    free(sorted);
    return 0;
}

/* Set the class of all labels except names that are not listed. */
static int number_classes(struct index_builder *b)
{
    int64_t highest = -1;

    if (b->num_labels > 0 && b->labels[0].label.is_open)
        return number_names(b);
    for (size_t i = 0; i < b->num_labels; i++)
        if (b->labels[i].label.class > highest)
            highest = b->labels[i].label.class;
    assert(highest <= INT32_MAX);
    if (b->rule && b->rule->classes)
        return index_builder_add_listed(b, highest < 0 ? 0 : highest);
    /* If no sample has a label, all samples get class 0. */
    b->num_classes = (size_t)(highest < 0 ? 1 : highest + 1);
    b->unnamed = true;
    return 0;
}

/* Check that labels are all numbers or all names. This is done at the end because archives are read
 * by separate threads. */
static int check_labels(const struct index_builder *b, struct plenum_error *err)
{
    char place[300];

    for (size_t i = 0; i < b->num_labels; i++) {
        const struct index_label *label = &b->labels[i];
        int r = check_kind(b, label, err);

        if (r < 0)
            return error_prefix(err, r, "%s", place_of(b, label, place, sizeof(place)));
        if (label->label.is_open && b->rule && b->rule->offset != 0)
            return error_set(
                err, -EINVAL,
                "%s: label '%.100s' is a name: label-offset needs labels that are numbers",
                place_of(b, label, place, sizeof(place)), b->names + label->text);
    }
    return 0;
}

int index_builder_settle_labels(struct index_builder *b, struct plenum_error *err)
{
    int r = check_labels(b, err);

    if (r < 0)
        return r;
    if (note_spellings(b) < 0 || number_classes(b) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < b->num_samples; i++) {
        struct index_sample *s = &b->samples[i];

        assert(s->label < (int64_t)b->num_labels);
        s->label = s->label < 0 ? 0 : b->labels[s->label].label.class;
    }
    b->num_labels = 0;
    return 0;
}

int index_builder_set_subject(struct index_builder *b, const char *text)
{
    int64_t at = index_builder_add_name(b, text, strlen(text));

    if (at < 0)
        return (int)at;
    b->subject = (uint64_t)at;
    return 0;
}
