/* SPDX-License-Identifier: MIT */
/* index_warning.c - writes the warning in an index about things that may surprise a user, such as
 * images that were left out, classes without images, and class names in an unexpected order. */
#include "config.h"

#include "loader/dataset/index_builder.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util/util.h"
#include "loader/dataset/format.h"
#include "loader/dataset/number.h"

static void add_dotted(struct index_builder *b, uint64_t count, const char *name,
                       const char *extension)
{
    assert(count > 0);
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
    b->packed += part->packed;
    b->packed_bytes += part->packed_bytes;
    for (size_t i = 0; i < FOREIGN_KINDS; i++)
        b->foreign[i] += part->foreign[i];
    if (part->dotted > 0)
        add_dotted(b, part->dotted, part->dotted_name, part->dotted_extension);
}

/* Extensions of images that are skipped: formats that Plenum, or this build, does not decode. The
 * last ones are extensions of JPEGs that torchvision's ImageFolder also skips. */
static const char *const foreign[] = {"webp", "gif", "bmp", "tif", "tiff", "avif", "heic",
                                      "heif", "jxl", "jp2", "pgm", "jfif", "jpe"};

enum { FOREIGN_FORMATS = ARRAY_LEN(foreign) - 2, EMPTY_NAMES_MAX = 10 };

_Static_assert(ARRAY_LEN(foreign) == FOREIGN_KINDS, "one counter per extension");

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
    (void)snprintf(ret, size, "%llu image%s in other formats or with other extensions (",
                   (unsigned long long)total, total > 1 ? "s" : "");
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

/* Count images of other formats, and images with other extensions. */
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

/* Returns the clause about empty classes. `left_out`: some of their images may have been left
 * out. */
static const char *describe_empty(bool many, bool left_out)
{
    if (left_out)
        return many ? "folders without other images count as classes"
                    : "folder without other images counts as a class";
    return many ? "folders without images count as classes"
                : "folder without images counts as a class";
}

/* Returns the name of a class if names come from the data set, not from a list. */
static const char *own_name(const struct index_builder *b, size_t class)
{
    assert(class < b->num_classes);
    assert(!b->unnamed);
    return b->names + b->classes[class];
}

/* Returns whether all names are numbers. Sets `*astray` if their numerical order differs from their
 * order as names (1, 10, 2). */
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
    assert(*prefix <= strlen(first) && *suffix <= strlen(first));
    while (*prefix > 0 && number_is_digit(first[*prefix - 1]))
        (*prefix)--;
    while (*suffix > 0 && number_is_digit(*(first_end - *suffix)))
        (*suffix)--;
}

/* Find the digits of a name between the common prefix and suffix, without leading zeros. Returns
 * false if there are other characters. */
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

/* Returns the first class whose number is smaller than that of the previous class, if all names are
 * equal except for one number (class_1, class_10, class_2); otherwise 0. */
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

/* Returns whether this is a usual name of a part of a data set: train, val, test2017, devset ... */
static bool is_part_name(const char *name)
{
    static const char *const parts[] = {"train",   "training", "trainval",   "val",
                                        "valid",   "validate", "validation", "test",
                                        "testing", "dev",      "eval",       "evaluation",
                                        "minival", "holdout",  "unlabeled",  "unlabelled"};
    size_t len = strcspn(name, "0123456789");

    if (name[len + strspn(name + len, "0123456789")] != '\0')
        return false;
    if (len > 3 && strncasecmp(name + len - 3, "set", 3) == 0)
        len -= 3;
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

/* Returns the clause about the names of classes, or "". */
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
        return "its classes have the names of parts of a data set: name one part, such as its "
               "folder train, instead of the folder above";
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

/* Returns a clause about the cost of samples in compressed blocks, or "". */
static const char *describe_packed(const struct index_builder *b, char *room, size_t size)
{
    char bytes[32];

    if (b->packed == 0)
        return "";
    (void)snprintf(room, size,
                   "%llu of %llu samples are in compressed pages or shards: to read one, the "
                   "loader decompresses %s on average, unless it has just done that; 'plenumctl "
                   "pack' copies the data set into archives that are read faster",
                   (unsigned long long)b->packed, (unsigned long long)b->num_samples,
                   format_bytes(b->packed_bytes / b->packed, bytes, sizeof(bytes)));
    return room;
}

int index_builder_set_warning(struct index_builder *b)
{
    char images[300], names[300], classes[400] = "", dotted[300] = "", text[1800] = "";
    char packed[300];
    size_t len;
    int64_t at;

    (void)index_builder_describe_foreign(b, images, sizeof(images));
    if (b->empty_classes > 0)
        (void)snprintf(classes, sizeof(classes), "%llu %s: %s%s",
                       (unsigned long long)b->empty_classes,
                       describe_empty(b->empty_classes > 1, images[0] != '\0'), b->empty_names,
                       b->empty_classes > EMPTY_NAMES_MAX ? " ..." : "");
    add_clause(text, sizeof(text), describe_names(b, names, sizeof(names)));
    add_clause(text, sizeof(text), b->about_labels);
    len = strlen(images);
    if (len > 0)
        (void)snprintf(images + len, sizeof(images) - len, " %s left out: %s",
                       index_builder_foreign_verb(b), index_builder_advise_foreign(b));
    add_clause(text, sizeof(text), images);
    add_clause(text, sizeof(text), classes);
    if (b->dotted > 0)
        (void)snprintf(dotted, sizeof(dotted),
                       "samples whose images have a further dot in their names are left out, such "
                       "as '%s' (%llu of them)",
                       b->dotted_name, (unsigned long long)b->dotted);
    add_clause(text, sizeof(text), dotted);
    add_clause(text, sizeof(text), describe_packed(b, packed, sizeof(packed)));
    at = index_builder_add_name(b, text, strlen(text));
    if (at < 0)
        return (int)at;
    assert((uint64_t)at < b->names_bytes);
    b->warning = (uint64_t)at;
    return 0;
}
