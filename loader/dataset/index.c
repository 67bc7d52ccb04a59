/* SPDX-License-Identifier: MIT */
/* index.c - builds, writes and maps the index of a data set.
 *
 *     header | samples [32 bytes each] | containers | heads | classes | names
 *
 * An index is used in place: opening a mapped index of a million samples takes as long as computing
 * its checksum, and all loaders of a user share its pages. A file is mapped only if it is on a
 * local disk and no other user can write it, because truncating a mapped file kills the process
 * (SIGBUS). Other files are read into memory. index_open() validates all offsets and counts once,
 * so a damaged file is rejected.
 *
 * An index is written under a temporary name and renamed: a reader sees an old index, a new one, or
 * none. */
#include "config.h"

#include "loader/dataset/index.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/error.h"
#include "common/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/format.h"
#include "loader/dataset/number.h"

static const uint8_t index_magic[8] = {'P', 'L', 'E', 'N', 'U', 'M', 'I', 'X'};

enum { INDEX_VERSION = 7, EMPTY_NAMES_MAX = 10 };

_Static_assert(sizeof(struct index_sample) == 32, "a sample's entry has no holes");

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

/* Room for `more` entries of `size` bytes: 0 or -ENOMEM. */
static int grow(struct index_builder *b, void *array, size_t size, size_t have, size_t more,
                size_t *cap)
{
    void **p = array;
    size_t want = *cap ? *cap : 256;
    void *bytes;

    if (*cap - have >= more)
        return 0;
    while (want - have < more)
        want += want / 2;
    if (index_memory_charge(b->memory, (want - *cap) * size) < 0)
        return -ENOMEM;
    bytes = realloc(*p, want * size);
    if (!bytes)
        return -ENOMEM;
    *p = bytes;
    *cap = want;
    return 0;
}

int64_t index_builder_add_name(struct index_builder *b, const char *name, size_t len)
{
    size_t at = b->names_bytes;

    if (grow(b, &b->names, 1, b->names_bytes, len + 1, &b->cap_names) < 0)
        return -ENOMEM;
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
    return add_class(b, b->classes[other]);
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
    b->samples[b->num_samples] = *sample;
    b->samples[b->num_samples].name = (uint64_t)at & ((UINT64_C(1) << 48) - 1);
    b->bytes += sample->len;
    return (int64_t)b->num_samples++;
}

/* The slot of a text in the hash table: the one that contains it, or the free one to use for it. */
static uint32_t *label_slot(const struct index_builder *b, const char *text, size_t len)
{
    size_t mask = b->num_label_slots - 1;

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

/* Find or add the label with this text; returns its number. */
static int64_t find_label(struct index_builder *b, const char *text, size_t len)
{
    uint32_t *slot;
    int64_t at;

    if (b->num_labels * 2 >= b->num_label_slots && grow_label_slots(b) < 0)
        return -ENOMEM;
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

/* Check that labels are either all names or all numbers. */
static int check_kind(const struct index_builder *b, const struct index_label *label,
                      struct plenum_error *err)
{
    const struct index_label *first = &b->labels[0];

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
        return error_set(err, -EBADMSG, "label '%.*s' has bytes of 0: labels are text",
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

/* Add the labels of a part; sets `map` [part->num_labels] to their numbers in `b`. */
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
        map[i] = (int32_t)label;
    }
    return 0;
}

static void add_dotted(struct index_builder *b, uint64_t count, const char *name,
                       const char *extension)
{
    if (b->dotted == 0) {
        (void)snprintf(b->dotted_name, sizeof(b->dotted_name), "%s", name);
        (void)snprintf(b->dotted_extension, sizeof(b->dotted_extension), "%s", extension);
    } else if (strcmp(b->dotted_extension, extension) != 0) {
        b->dotted_extension[0] = '\0';
    }
    b->dotted += count;
}

void index_builder_add_skipped(struct index_builder *b, const struct index_builder *part)
{
    b->skipped += part->skipped;
    for (size_t i = 0; i < FOREIGN_KINDS; i++)
        b->foreign[i] += part->foreign[i];
    if (part->dotted > 0)
        add_dotted(b, part->dotted, part->dotted_name, part->dotted_extension);
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

/* For qsort_r(): compares labels by text. */
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

/* Record two labels that spell the same number differently, 1 and 01: that may be a mistake. */
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
                b->spellings, sizeof(b->spellings),
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
    if (b->rule && b->rule->classes)
        return index_builder_add_listed(b, highest < 0 ? 0 : highest);
    /* If no sample has a label, all get class 0. */
    b->num_classes = (size_t)(highest < 0 ? 1 : highest + 1);
    b->unnamed = true;
    return 0;
}

/* Checked at the end because archives are read by separate threads. */
static int check_labels(const struct index_builder *b, struct plenum_error *err)
{
    char place[300];

    for (size_t i = 0; i < b->num_labels; i++) {
        const struct index_label *label = &b->labels[i];
        int r = check_kind(b, label, err);

        if (r < 0)
            return error_prefix(err, r, "%s", place_of(b, label, place, sizeof(place)));
        if (label->label.is_open && b->rule && b->rule->offset != 0)
            return error_set(err, -EINVAL,
                             "%s: label '%.100s' is a name: a label-offset is for labels that are "
                             "numbers",
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

        s->label = s->label < 0 ? 0 : b->labels[s->label].label.class;
    }
    b->num_labels = 0;
    return 0;
}

static uint64_t checksum_of(const struct index_header *header, size_t bytes)
{
    struct index_header h = *header;
    XXH3_state_t state;

    h.checksum = 0;
    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, &h, sizeof(h));
    (void)XXH3_64bits_update(&state, header + 1, bytes - sizeof(h));
    return XXH3_64bits_digest(&state);
}

/* Set the pointers into the block of memory that begins with the header. */
static void set_views(struct index *index, const void *bytes, size_t len, bool mapped)
{
    const struct index_header *h = bytes;

    *index = (struct index){.header = h,
                            .samples = (const void *)((const char *)bytes + h->samples_at),
                            .containers = (const void *)((const char *)bytes + h->containers_at),
                            .heads = (const void *)((const char *)bytes + h->heads_at),
                            .classes = (const void *)((const char *)bytes + h->classes_at),
                            .names = (const char *)bytes + h->names_at,
                            .bytes = len,
                            .mapped = mapped};
}

/* Extensions of images that are skipped: formats that we, or this build, do not decode. The last
 * ones are names of JPEGs that torchvision's ImageFolder skips, too. */
static const char *const foreign[] = {"webp", "gif", "bmp", "tif", "tiff", "avif", "heic",
                                      "heif", "jxl", "jp2", "pgm", "jfif", "jpe"};

enum { FOREIGN_FORMATS = ARRAY_LEN(foreign) - 2 };

_Static_assert(ARRAY_LEN(foreign) == FOREIGN_KINDS, "a counter each");

void index_builder_count_foreign(struct index_builder *b, const char *name)
{
    const char *dot = strrchr(name, '.');

    if (!dot || dataset_is_image_extension(dot))
        return;
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        b->foreign[i] += strcasecmp(dot + 1, foreign[i]) == 0;
}

void index_builder_count_dotted(struct index_builder *b, const char *name, const char *extension)
{
    add_dotted(b, 1, name, extension);
}

void index_builder_count_empty(struct index_builder *b, const char *class)
{
    size_t at = strlen(b->empty_names);

    if (at + strlen(class) + 8 < sizeof(b->empty_names) &&
        b->empty_classes < EMPTY_NAMES_MAX) /* further names are only counted */
        (void)snprintf(b->empty_names + at, sizeof(b->empty_names) - at, "%s'%s'", at ? ", " : "",
                       class);
    b->empty_classes++;
}

char *index_builder_describe_foreign(const struct index_builder *b, char *ret, size_t size)
{
    uint64_t total = 0;
    size_t at;

    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        total += b->foreign[i];
    ret[0] = '\0';
    if (total == 0)
        return ret;
    (void)snprintf(ret, size, "%llu image%s of other formats or names (", (unsigned long long)total,
                   total > 1 ? "s" : "");
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++) {
        at = strlen(ret);
        if (b->foreign[i] > 0)
            (void)snprintf(ret + at, size - at, "%s%llu .%s", ret[at - 1] == '(' ? "" : ", ",
                           (unsigned long long)b->foreign[i], foreign[i]);
    }
    at = strlen(ret);
    (void)snprintf(ret + at, size - at, ")");
    return ret;
}

/* Count the images of other formats, and those of other names. */
static void count_foreign(const struct index_builder *b, uint64_t *formats, uint64_t *names)
{
    *formats = *names = 0;
    for (size_t i = 0; i < ARRAY_LEN(foreign); i++)
        *(i < FOREIGN_FORMATS ? formats : names) += b->foreign[i];
}

const char *index_builder_foreign_verb(const struct index_builder *b)
{
    uint64_t formats, names;

    count_foreign(b, &formats, &names);
    return formats + names == 1 ? "is" : "are";
}

const char *index_builder_advise_foreign(const struct index_builder *b)
{
    uint64_t formats, names;

    count_foreign(b, &formats, &names);
    if (formats + names == 1)
        return formats ? "convert it" : "rename it to .jpg";
    return formats == 0 ? "rename them to .jpg"
           : names == 0 ? "convert them"
                        : "convert or rename them";
}

/* The text about empty classes; `left_out`: images of theirs may have been left out. */
static const char *describe_empty(bool many, bool left_out)
{
    if (left_out)
        return many ? "folders without other images count as classes"
                    : "folder without other images counts as a class";
    return many ? "folders without images count as classes"
                : "folder without images counts as a class";
}

/* The name of a class if names come from the data set itself, not from a list. */
static const char *own_name(const struct index_builder *b, size_t class)
{
    assert(!b->unnamed);
    return b->names + b->classes[class];
}

/* Are all names numbers? `*astray`: are they ordered differently as numbers than as names (1, 10,
 * 2)? */
static bool are_numerals(const struct index_builder *b, bool *astray)
{
    double last = 0;

    *astray = false;
    for (size_t i = 0; i < b->num_classes; i++) {
        const char *name = own_name(b, i);
        int64_t ignored;
        double value;

        if (!number_is_decimal(number_parse(name, strlen(name), &ignored)))
            return false;
        value = strtod(name, NULL);
        *astray = *astray || (i > 0 && value < last);
        last = value;
    }
    return true;
}

/* Find the lengths of the common prefix and suffix of all names. Digits of a number are not
 * counted, even if all numbers begin or end with them. */
static void find_affixes(const struct index_builder *b, size_t *prefix, size_t *suffix)
{
    const char *first = own_name(b, 0), *first_end = first + strlen(first);

    *prefix = *suffix = strlen(first);
    for (size_t i = 1; i < b->num_classes; i++) {
        const char *name = own_name(b, i), *end = name + strlen(name);
        size_t most = (size_t)(end - name), n = 0;

        while (n < min_u64(*prefix, most) && name[n] == first[n])
            n++;
        *prefix = n;
        for (n = 0; n < min_u64(*suffix, most) && *(end - n - 1) == *(first_end - n - 1);)
            n++;
        *suffix = n;
    }
    while (*prefix > 0 && number_is_digit(first[*prefix - 1]))
        (*prefix)--;
    while (*suffix > 0 && number_is_digit(*(first_end - *suffix)))
        (*suffix)--;
}

/* The digits of a name between the common prefix and suffix, without leading zeros. False: there
 * are other characters. */
static bool find_digits(const char *name, size_t prefix, size_t suffix, const char **digits,
                        size_t *count)
{
    size_t len = strlen(name);

    if (len <= prefix + suffix)
        return false;
    for (size_t i = prefix; i < len - suffix; i++)
        if (!number_is_digit(name[i]))
            return false;
    *digits = name + prefix;
    *count = len - prefix - suffix;
    for (; *count > 0 && **digits == '0'; (*digits)++)
        (*count)--;
    return true;
}

/* If all names are equal except for one number (class_1, class_10, class_2): the first class whose
 * number is smaller than that of the previous class. Otherwise 0. */
static size_t find_numbered_astray(const struct index_builder *b)
{
    const char *last = "", *digits;
    size_t prefix, suffix, last_count = 0, count, astray = 0;

    find_affixes(b, &prefix, &suffix);
    for (size_t i = 0; i < b->num_classes; i++) {
        if (!find_digits(own_name(b, i), prefix, suffix, &digits, &count))
            return 0;
        if (astray == 0 && i > 0 &&
            (count < last_count || (count == last_count && strncmp(digits, last, count) < 0)))
            astray = i;
        last = digits;
        last_count = count;
    }
    return astray;
}

/* Is it a usual name of a part of a data set: train, val, test2017 ...? */
static bool is_part_name(const char *name)
{
    static const char *const parts[] = {"train",   "training", "trainval",   "val",
                                        "valid",   "validate", "validation", "test",
                                        "testing", "dev",      "eval",       "evaluation",
                                        "minival", "holdout",  "unlabeled",  "unlabelled"};
    size_t len = strcspn(name, "0123456789");

    if (name[len + strspn(name + len, "0123456789")] != '\0')
        return false;
    while (len > 0 && strchr("_- ", name[len - 1]))
        len--;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (strlen(parts[i]) == len && strncasecmp(parts[i], name, len) == 0)
            return true;
    return false;
}

static bool are_parts(const struct index_builder *b)
{
    bool parts = b->num_classes > 0;

    for (size_t i = 0; i < b->num_classes && parts; i++)
        parts = is_part_name(own_name(b, i));
    return parts;
}

/* The text about the names of classes, or "". */
static const char *describe_names(const struct index_builder *b, char *room, size_t size)
{
    bool numerals_astray;
    size_t astray;

    if (b->unnamed || b->num_classes == 0 || (b->rule && b->rule->classes))
        return "";
    if (are_numerals(b, &numerals_astray))
        return !numerals_astray
                   ? ""
                   : "all class names are numbers, but they are numbered in byte order (1, 10, 2): "
                     "classes=numbers makes each name its own number";
    if (are_parts(b))
        return "its classes are called like the parts of a data set: name one part, such as its "
               "folder train, instead of the folder above them";
    astray = find_numbered_astray(b);
    if (astray == 0)
        return "";
    (void)snprintf(room, size,
                   "classes are numbered in the byte order of their names, so '%.60s' is class %zu "
                   "and '%.60s' is class %zu: classes=FILE sets their order",
                   own_name(b, astray - 1), astray - 1, own_name(b, astray), astray);
    return room;
}

static void add_clause(char *text, size_t size, const char *clause)
{
    size_t at = strlen(text);

    if (*clause)
        (void)snprintf(text + at, size - at, "%s%s", at ? "; " : "", clause);
}

int index_builder_set_warning(struct index_builder *b)
{
    char images[300], names[300], classes[400] = "", dotted[300] = "", text[1800] = "";
    size_t len;
    int64_t at;

    (void)index_builder_describe_foreign(b, images, sizeof(images));
    if (b->empty_classes > 0)
        (void)snprintf(classes, sizeof(classes), "%llu %s: %s%s",
                       (unsigned long long)b->empty_classes,
                       describe_empty(b->empty_classes > 1, images[0] != '\0'), b->empty_names,
                       b->empty_classes > EMPTY_NAMES_MAX ? " ..." : "");
    add_clause(text, sizeof(text), describe_names(b, names, sizeof(names)));
    add_clause(text, sizeof(text), b->spellings);
    len = strlen(images);
    if (len > 0)
        (void)snprintf(images + len, sizeof(images) - len, " %s left out: %s",
                       index_builder_foreign_verb(b), index_builder_advise_foreign(b));
    add_clause(text, sizeof(text), images);
    add_clause(text, sizeof(text), classes);
    if (b->dotted > 0)
        (void)snprintf(dotted, sizeof(dotted),
                       "samples are left out whose images have a further dot in their names, such "
                       "as '%s' (%llu of them)",
                       b->dotted_name, (unsigned long long)b->dotted);
    add_clause(text, sizeof(text), dotted);
    at = index_builder_add_name(b, text, strlen(text));
    if (at < 0)
        return (int)at;
    b->warning = (uint64_t)at;
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

const char *index_subject(const struct index *index)
{
    return index_name(index, index->header->subject);
}

const char *index_warning(const struct index *index)
{
    return index_name(index, index->header->warning);
}

int index_build(const struct index_builder *b, size_t heads, struct index *ret)
{
    size_t class_names = b->unnamed ? 0 : b->num_classes;
    struct index_header h = {.version = INDEX_VERSION,
                             .header_bytes = sizeof(h),
                             .samples = (uint32_t)b->num_samples,
                             .classes = (uint32_t)b->num_classes,
                             .containers = (uint32_t)b->num_containers,
                             .class_names = (uint32_t)class_names,
                             .heads = heads,
                             .made_ns = time_clock_ns(CLOCK_REALTIME),
                             .names_bytes = b->names_bytes,
                             .subject = b->subject,
                             .warning = b->warning,
                             .bytes = b->bytes,
                             .skipped = b->skipped};
    char *bytes;

    memcpy(h.magic, index_magic, sizeof(h.magic));
    h.samples_at = sizeof(h);
    h.containers_at = h.samples_at + b->num_samples * sizeof(*b->samples);
    h.heads_at = h.containers_at + b->num_containers * sizeof(*b->containers);
    h.classes_at = h.heads_at + heads * sizeof(struct index_head);
    h.names_at = h.classes_at + class_names * sizeof(*b->classes);
    h.file_bytes = h.names_at + b->names_bytes;
    bytes = index_memory_charge(b->memory, h.file_bytes) < 0 ? NULL : malloc(h.file_bytes);
    if (!bytes)
        return -ENOMEM;
    memcpy(bytes, &h, sizeof(h));
    if (b->num_samples)
        memcpy(bytes + h.samples_at, b->samples, b->num_samples * sizeof(*b->samples));
    if (b->num_containers)
        memcpy(bytes + h.containers_at, b->containers, b->num_containers * sizeof(*b->containers));
    memset(bytes + h.heads_at, 0, heads * sizeof(struct index_head));
    if (class_names)
        memcpy(bytes + h.classes_at, b->classes, class_names * sizeof(*b->classes));
    if (b->names_bytes)
        memcpy(bytes + h.names_at, b->names, b->names_bytes);
    set_views(ret, bytes, h.file_bytes, false);
    return 0;
}

void index_set_sum(struct index *index, const struct datasum *sum, uint32_t deep)
{
    struct index_header *h = (struct index_header *)(uintptr_t)index->header; /* our own memory */

    h->sum = *sum;
    h->deep = deep;
    datasum_fingerprint(sum, h->fingerprint);
    h->checksum = checksum_of(h, index->bytes);
}

void index_set_head(struct index *index, uint64_t i, const struct index_head *head)
{
    assert(i < index->header->heads && head->sample < index->header->samples);
    memcpy((void *)(uintptr_t)&index->heads[i], head, sizeof(*head)); /* our own memory */
}

/* Do two samples have the same label, compared by name if classes have names? */
static bool has_label(const struct index *a, int32_t one, const struct index *b, int32_t two)
{
    bool named = a->header->class_names > 0;

    if (named != (b->header->class_names > 0))
        return false;
    return named ? strcmp(index_name(a, a->classes[one]), index_name(b, b->classes[two])) == 0
                 : one == two;
}

/* Are these the same sample, at the same place? */
static bool is_sample(const struct index *a, const struct index_sample *one, const struct index *b,
                      const struct index_sample *two)
{
    return one->where == two->where && one->len == two->len && one->container == two->container &&
           one->extra == two->extra && one->flags == two->flags &&
           has_label(a, one->label, b, two->label) &&
           strcmp(index_name(a, one->name), index_name(b, two->name)) == 0;
}

static bool has_classes(const struct index *a, const struct index *b)
{
    if (a->header->classes != b->header->classes)
        return false;
    for (uint32_t i = 0; i < a->header->class_names; i++)
        if (!has_label(a, (int32_t)i, b, (int32_t)i))
            return false;
    return true;
}

bool index_is_alike(const struct index *now, const struct index *index)
{
    bool damaged = false;

    if (now->header->samples != index->header->samples ||
        now->header->containers != index->header->containers)
        return false;
    for (uint32_t i = 0; i < now->header->containers; i++)
        if (strcmp(index_name(now, now->containers[i].name),
                   index_name(index, index->containers[i].name)) != 0)
            return false;
    for (uint32_t i = 0; i < now->header->samples; i++) {
        const struct index_sample *one = &now->samples[i], *two = &index->samples[i];

        if ((one->flags & INDEX_BAD) && one->where == two->where) /* the read will report it */
            damaged = true;
        else if (!is_sample(now, one, index, two))
            return false;
    }
    return damaged || has_classes(now, index);
}

int index_write(const struct index *index, const char *path)
{
    return cache_write(path, index->header, index->bytes);
}

/* Is [at, at + count * size) inside the file, after the header, and aligned? */
static bool inside(const struct index_header *h, uint64_t at, uint64_t count, uint64_t size)
{
    return at >= sizeof(*h) && at <= h->file_bytes && at % (size < 8 ? 1 : 8) == 0 &&
           count <= (h->file_bytes - at) / size;
}

static bool valid(const void *bytes, size_t len)
{
    const struct index_header *h = bytes;
    struct index index;

    if (len < sizeof(*h) || memcmp(h->magic, index_magic, sizeof(h->magic)) != 0 ||
        h->version != INDEX_VERSION || h->header_bytes != sizeof(*h) || h->file_bytes != len)
        return false;
    if (!inside(h, h->samples_at, h->samples, sizeof(struct index_sample)) ||
        !inside(h, h->containers_at, h->containers, sizeof(struct index_container)) ||
        !inside(h, h->heads_at, h->heads, sizeof(struct index_head)) ||
        !inside(h, h->classes_at, h->class_names, sizeof(uint64_t)) ||
        !inside(h, h->names_at, h->names_bytes, 1))
        return false;
    if (checksum_of(h, len) != h->checksum || (h->class_names != 0 && h->class_names != h->classes))
        return false;
    /* The checksum is not a signature, so offsets and counts are validated, too. */
    set_views(&index, bytes, len, true);
    if (h->names_bytes == 0 || index.names[h->names_bytes - 1] != '\0' ||
        h->subject >= h->names_bytes || h->warning >= h->names_bytes)
        return false;
    for (uint32_t i = 0; i < h->samples; i++)
        if (index.samples[i].name >= h->names_bytes ||
            index.samples[i].container >= h->containers || index.samples[i].label < 0 ||
            (uint32_t)index.samples[i].label >= h->classes)
            return false;
    for (uint32_t i = 0; i < h->containers; i++)
        if (index.containers[i].name >= h->names_bytes)
            return false;
    for (uint64_t i = 0; i < h->heads; i++)
        if (index.heads[i].sample >= h->samples)
            return false;
    for (uint32_t i = 0; i < h->class_names; i++)
        if (index.classes[i] >= h->names_bytes)
            return false;
    return true;
}

/* Takes `fd`. */
static int open_file(int fd, bool map, struct index *ret)
{
    struct stat st;
    void *bytes = NULL;
    int r;

    if (fd < 0)
        return fd;
    if (fstat(fd, &st) < 0)
        r = -errno;
    else if (st.st_size < (off_t)sizeof(struct index_header))
        r = -EBADMSG;
    else
        r = cache_load(fd, (size_t)st.st_size, map, &bytes);
    (void)close(fd);
    if (r < 0)
        return r;
    assert(bytes);
    if (!valid(bytes, (size_t)st.st_size)) {
        *ret = (struct index){.header = bytes, .bytes = (size_t)st.st_size, .mapped = map};
        index_close(ret);
        return -EBADMSG;
    }
    set_views(ret, bytes, (size_t)st.st_size, map);
    return 0;
}

int index_open(const char *path, struct index *ret)
{
    int fd = cache_open(path, false);

    return open_file(fd, fd >= 0 && cache_may_map(fd), ret);
}

int index_read(const char *path, struct index *ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    return open_file(fd < 0 ? -errno : fd, false, ret);
}

void index_close(struct index *index)
{
    void *bytes = (void *)(uintptr_t)index->header;

    cache_unload(bytes, index->bytes, index->mapped);
    *index = (struct index){0};
}

void index_remove(const struct index *index, const char *path)
{
    struct index_header h;
    int fd = cache_open(path, false);

    if (fd >= 0 && io_pread_all(fd, &h, sizeof(h), 0) == 0 && h.checksum == index->header->checksum)
        (void)cache_remove(path);
    io_close(&fd);
}
