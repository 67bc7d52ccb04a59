/* SPDX-License-Identifier: MIT */
/* selection.c - evaluates the terms of a selection, joined by "and", one after the other.
 *
 * A sample's key is its path without what follows the first dot of the last part, so a folder and
 * an archive of it have the same keys. Folds and random subsets depend only on the hash of the key,
 * so adding samples does not move others. */
#include "config.h"

#include "loader/dataset/selection.h"

#include <assert.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "common/util/text.h"
#include "loader/dataset/beside.h"
#include "loader/dataset/format.h"
#include "loader/dataset/number.h"
#include "loader/dataset/picture_size.h"

enum { TERM_WORD_MAX = 4096, EXACT_MAX = 1 << 24 /* integers up to this are exact in a float */ };

/* The state of evaluating a selection. */
struct selecting {
    const struct dataset *dataset;
    const struct dataset_options *options;
    const char *at;
    char word[TERM_WORD_MAX];
    uint8_t *keep; /* [n] */
    uint8_t *hits; /* [n]: the hits of the current term */
    uint32_t n;
    struct selection *ret;
    struct plenum_error *err;
};

static void skip_spaces(struct selecting *s)
{
    s->at += strspn(s->at, " \t");
}

/* Read the next word into s->word; 'single quotes' protect spaces. Returns false if there is
 * none. */
static bool next_word(struct selecting *s)
{
    bool open;

    skip_spaces(s);
    if (!*s->at)
        return false;
    s->at = orderplan_select_word(s->at, s->word, &open);
    return true;
}

static bool next_is(struct selecting *s, const char *word)
{
    size_t len = strlen(word);

    skip_spaces(s);
    if (strncmp(s->at, word, len) != 0 || (s->at[len] && s->at[len] != ' ' && s->at[len] != '\t'))
        return false;
    s->at += len;
    return true;
}

static int need_value(struct selecting *s, const char *term)
{
    return next_word(s) ? 0
                        : error_set(s->err, -EINVAL, "select: a value is missing after '%s'", term);
}

static int read_field(const struct selecting *s, const char *source, const char *kind,
                      beside_call *call, void *arg)
{
    return beside_read(
        &(struct beside_field){
            .dataset = s->dataset, .options = s->options, .source = source, .kind = kind},
        call, arg, s->err);
}

/* ---- labels and names ---- */

/* Evaluate A..B, or one number. */
static int select_label(struct selecting *s)
{
    const char *at;
    uint64_t low, high;
    int r = need_value(s, "label");

    if (r < 0)
        return r;
    at = s->word;
    r = parse_next_u64(&at, INT32_MAX, &low);
    high = low;
    if (r == 0 && strncmp(at, "..", 2) == 0) {
        at += 2;
        r = parse_next_u64(&at, INT32_MAX, &high);
    }
    if (r < 0 || *at || high < low)
        return error_set(s->err, -EINVAL, "select: 'label %s' must be label A..B or label N",
                         s->word);
    for (uint32_t i = 0; i < s->n; i++) {
        int64_t label = dataset_get_label(s->dataset, i);

        s->hits[i] = label >= (int64_t)low && label <= (int64_t)high;
    }
    return 0;
}

/* Choose the classes with this name. */
static int choose_class(const struct selecting *s, const char *name, uint8_t *chosen)
{
    uint32_t classes = dataset_get_class_names(s->dataset), found = 0;

    for (uint32_t c = 0; c < classes; c++)
        if (strcmp(dataset_get_class_name(s->dataset, c), name) == 0) {
            chosen[c] = 1;
            found++;
        }
    return found > 0 ? 0
                     : error_set(s->err, -EINVAL, "select: %s has no class named '%s'",
                                 dataset_get_name(s->dataset), name);
}

/* Evaluate NAME|NAME|... */
static int select_class(struct selecting *s)
{
    uint32_t classes = dataset_get_class_names(s->dataset);
    char *rest = s->word, *name;
    uint8_t *chosen;
    int r = need_value(s, "class");

    if (r < 0)
        return r;
    chosen = calloc(classes + 1, 1);
    if (!chosen)
        return error_set(s->err, -ENOMEM, "out of memory");
    while (r == 0 && (name = strsep(&rest, "|")))
        r = choose_class(s, name, chosen);
    for (uint32_t i = 0; i < s->n; i++) {
        int64_t label = dataset_get_label(s->dataset, i);

        s->hits[i] = label >= 0 && label < classes && chosen[label];
    }
    free(chosen);
    return r;
}

static int select_name(struct selecting *s)
{
    int r = need_value(s, "name");

    for (uint32_t i = 0; r == 0 && i < s->n; i++) {
        char path[DATASET_PATH_MAX];

        s->hits[i] =
            fnmatch(s->word, dataset_get_sample_path(s->dataset, i, path, sizeof(path)), 0) == 0;
    }
    return r;
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;

    return strcmp(*x, *y);
}

struct name_list {
    char **names;
    uint8_t *found; /* [count]: 1 if a sample has the name */
    size_t count, cap;
};

static void free_names(struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
    free(list->found);
}

/* Read a file with a name in each line. */
static int read_names(struct selecting *s, FILE *file, struct name_list *list)
{
    char *line = NULL;
    size_t cap = 0;
    int r;

    while ((r = text_read_line(file, s->word, &line, &cap, s->err)) > 0) {
        size_t len = strcspn(line, "\n");
        char *copy;

        while (len > 0 && line[len - 1] == '\r')
            len--;
        line[len] = '\0';
        if (!*line)
            continue;
        copy = strdup(line);
        if (!copy || array_grow(&list->names, &list->cap, list->count, sizeof(*list->names)) < 0) {
            free(copy);
            r = error_set(s->err, -ENOMEM, "out of memory");
            break;
        }
        list->names[list->count++] = copy;
    }
    free(line);
    if (list->count > 0)
        qsort(list->names, list->count, sizeof(*list->names), by_text);
    list->found = calloc(list->count + 1, 1);
    return r < 0 || list->found ? r : error_set(s->err, -ENOMEM, "out of memory");
}

/* Count the names that no sample has. */
static void note_absent(struct selecting *s, const struct name_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->found[i] || (i > 0 && strcmp(list->names[i], list->names[i - 1]) == 0))
            continue;
        if (s->ret->absent++ == 0)
            (void)snprintf(s->ret->absent_name, sizeof(s->ret->absent_name), "%s", list->names[i]);
    }
}

/* Find the samples that a list names. */
static void find_listed(struct selecting *s, const struct name_list *list)
{
    for (uint32_t i = 0; list->count > 0 && i < s->n; i++) {
        char path[DATASET_PATH_MAX];
        const char *name = dataset_get_sample_path(s->dataset, i, path, sizeof(path));
        char **at = bsearch(&name, list->names, list->count, sizeof(*list->names), by_text);

        s->hits[i] = at != NULL;
        while (at && at > list->names && strcmp(at[-1], name) == 0)
            at--;
        if (at)
            list->found[at - list->names] = 1;
    }
    note_absent(s, list);
}

/* Select the samples whose paths a file lists. */
static int select_names(struct selecting *s)
{
    const struct scope *scope = &s->dataset->scope;
    struct name_list list = {0};
    FILE *file;
    int r = need_value(s, "names"), fd;

    if (r < 0)
        return r;
    fd = scope_open(scope, s->word, 0);
    if (fd < 0)
        return scope_error(scope, s->err, fd, s->word);
    file = fdopen(fd, "r");
    r = file ? read_names(s, file, &list) : error_set(s->err, -ENOMEM, "out of memory");
    if (r == 0)
        find_listed(s, &list);
    free_names(&list);
    if (file)
        (void)fclose(file);
    else
        (void)close(fd);
    return r;
}

/* ---- hashes of keys ---- */

static uint64_t key_hash(const struct dataset *d, uint32_t sample, bool by_folder)
{
    char path[DATASET_PATH_MAX], *last, *dot;

    (void)dataset_get_sample_path(d, sample, path, sizeof(path));
    last = strrchr(path, '/');
    if (by_folder)
        return XXH3_64bits(path, last ? (size_t)(last - path) : 0);
    dot = strchr(last ? last : path, '.');
    return XXH3_64bits(path, dot ? (size_t)(dot - path) : strlen(path));
}

static int hash_text(void *arg, uint32_t sample, const void *value, uint32_t len,
                     struct plenum_error *err)
{
    uint64_t *hashes = arg;

    (void)err;
    hashes[sample] = value ? XXH3_64bits(value, len) : XXH3_64bits("", 0);
    return 0;
}

/* Compute the hash [n] (malloc) by which each sample is assigned: that of its key, or of what
 * follows "by". */
static int make_hashes(struct selecting *s, uint64_t **ret)
{
    uint64_t *hashes = malloc((s->n + (size_t)1) * sizeof(*hashes));
    bool by = next_is(s, "by");
    int r = by ? need_value(s, "by") : 0;

    if (!hashes)
        r = error_set(s->err, -ENOMEM, "out of memory");
    if (r == 0 && by && strcmp(s->word, "folder") != 0)
        r = read_field(s, s->word, "text", hash_text, hashes);
    else
        for (uint32_t i = 0; r == 0 && i < s->n; i++)
            hashes[i] = key_hash(s->dataset, i, by);
    if (r < 0) {
        free(hashes);
        return r;
    }
    *ret = hashes;
    return 0;
}

/* Evaluate "fold I/K [by folder|SOURCE]". */
static int select_fold(struct selecting *s)
{
    uint64_t fold, folds, *hashes;
    const char *at;
    int r = need_value(s, "fold");

    if (r < 0)
        return r;
    at = s->word;
    if (parse_next_u64(&at, UINT32_MAX, &fold) < 0 || *at++ != '/' ||
        parse_next_u64(&at, 1000000, &folds) < 0 || *at || folds == 0)
        return error_set(s->err, -EINVAL, "select: 'fold %s' must be fold I/K", s->word);
    if (fold >= folds)
        return error_set(s->err, -EINVAL, "fold %s: parts are numbered from 0 to %llu", s->word,
                         (unsigned long long)folds - 1);
    r = make_hashes(s, &hashes);
    for (uint32_t i = 0; r == 0 && i < s->n; i++)
        s->hits[i] = ((hashes[i] >> 32) * folds) >> 32 == fold;
    if (r == 0)
        free(hashes);
    return r;
}

/* Parse a decimal number from 0 to 1, as a number of 2^64ths; 1 becomes 2^64 - 1. Returns false if
 * it is not such a number. */
static bool parse_share(const char **at, uint64_t *ret)
{
    uint64_t up = 0, down = 1;

    if (!number_is_digit(**at))
        return false;
    for (; number_is_digit(**at); (*at)++)
        up = up * 10 + (uint64_t)(**at - '0');
    if (up > 1)
        return false;
    if (**at == '.' && number_is_digit((*at)[1]))
        for ((*at)++; number_is_digit(**at) && down < 1000000000; (*at)++) {
            up = up * 10 + (uint64_t)(**at - '0');
            down *= 10;
        }
    if (up > down)
        return false;
    *ret = up == down ? UINT64_MAX : (uint64_t)(((unsigned __int128)up << 64) / down);
    return true;
}

/* Evaluate "part A..B [by folder|SOURCE]". */
static int select_part(struct selecting *s)
{
    uint64_t low, high, *hashes;
    const char *at;
    int r = need_value(s, "part");

    if (r < 0)
        return r;
    at = s->word;
    if (!parse_share(&at, &low) || strncmp(at, "..", 2) != 0 ||
        (at += 2, !parse_share(&at, &high)) || *at || low >= high)
        return error_set(s->err, -EINVAL,
                         "select: 'part %s' must be part A..B with 0 <= A < B <= 1, such as "
                         "0.9..1",
                         s->word);
    r = make_hashes(s, &hashes);
    for (uint32_t i = 0; r == 0 && i < s->n; i++)
        s->hits[i] = hashes[i] >= low && (hashes[i] < high || high == UINT64_MAX);
    if (r == 0)
        free(hashes);
    return r;
}

/* ---- random N [per class] ---- */

struct ranked {
    int64_t group;
    uint64_t hash;
    uint32_t sample;
};

static int by_rank(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;

    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

/* Count groups with fewer samples than wanted. `all` is sorted by group. */
static void note_scarce(struct selection *ret, const struct ranked *all, uint32_t n, uint64_t most,
                        bool per_class)
{
    for (uint32_t begin = 0, end; begin < n; begin = end) {
        for (end = begin + 1; end < n && all[end].group == all[begin].group;)
            end++;
        if (end - begin >= most || ret->scarce++ > 0)
            continue;
        ret->scarce_wanted = most;
        ret->scarce_found = end - begin;
        ret->scarce_class = per_class ? all[begin].group : -1;
    }
}

/* Select the N samples with the smallest hashes, among those that the earlier terms keep. */
static int select_random(struct selecting *s)
{
    struct ranked *all;
    uint64_t most, taken = 0;
    uint32_t n = 0;
    bool per_class;
    int r = need_value(s, "random");

    if (r < 0)
        return r;
    if (parse_u64(s->word, UINT32_MAX, &most) < 0 || most == 0)
        return error_set(s->err, -EINVAL, "select: 'random %s' needs a number of samples", s->word);
    per_class = next_is(s, "per");
    if (per_class && !next_is(s, "class"))
        return error_set(s->err, -EINVAL, "select: only 'random %s per class' is possible",
                         s->word);
    all = malloc((s->n + (size_t)1) * sizeof(*all));
    if (!all)
        return error_set(s->err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < s->n; i++)
        if (s->keep[i])
            all[n++] = (struct ranked){
                .group = per_class ? dataset_get_label(s->dataset, i) : 0,
                .hash = key_hash(s->dataset, i, false),
                .sample = i,
            };
    qsort(all, n, sizeof(*all), by_rank);
    for (uint32_t i = 0; i < n; i++) {
        taken = i > 0 && all[i].group != all[i - 1].group ? 0 : taken;
        s->hits[all[i].sample] = taken++ < most;
    }
    note_scarce(s->ret, all, n, most, per_class);
    free(all);
    return 0;
}

/* ---- fields ---- */

enum selection_comparison { IS_EQUAL, IS_UNEQUAL, IS_LESS, IS_AT_MOST, IS_GREATER, IS_AT_LEAST };

static const char *const comparisons[] = {"=", "!=", "<", "<=", ">", ">="};

struct comparing {
    struct selecting *s;
    enum selection_comparison how;
    float number; /* VALUE as float32, like the fields */
    const char *text;
};

static bool holds(enum selection_comparison how, int sign)
{
    switch (how) {
    case IS_EQUAL:
        return sign == 0;
    case IS_UNEQUAL:
        return sign != 0;
    case IS_LESS:
        return sign < 0;
    case IS_AT_MOST:
        return sign <= 0;
    case IS_GREATER:
        return sign > 0;
    case IS_AT_LEAST:
        return sign >= 0;
    }
    return false;
}

static int compare_number(void *arg, uint32_t sample, const void *value, uint32_t len,
                          struct plenum_error *err)
{
    struct comparing *c = arg;
    float number;

    (void)err;
    if (!value || len != sizeof(number))
        return 0;
    memcpy(&number, value, sizeof(number));
    c->s->hits[sample] = holds(c->how, (number > c->number) - (number < c->number));
    if (number != number) /* NaN is not equal to any number */
        c->s->hits[sample] = c->how == IS_UNEQUAL;
    return 0;
}

static int compare_text(void *arg, uint32_t sample, const void *value, uint32_t len,
                        struct plenum_error *err)
{
    struct comparing *c = arg;

    (void)err;
    if (value)
        c->s->hits[sample] =
            holds(c->how, len != strlen(c->text) || memcmp(value, c->text, len) != 0);
    return 0;
}

/* Read OP and VALUE after `name`. The value stays in s->word. */
static int need_comparison(struct selecting *s, const char *name, enum selection_comparison *ret)
{
    size_t how = 0;
    int r = need_value(s, name);

    if (r < 0)
        return r;
    while (how < ARRAY_LEN(comparisons) && strcmp(s->word, comparisons[how]) != 0)
        how++;
    if (how == ARRAY_LEN(comparisons))
        return error_set(s->err, -EINVAL,
                         "select: after '%s', one of = != < <= > >= is needed, not '%s'", name,
                         s->word);
    *ret = (enum selection_comparison)how;
    return need_value(s, name);
}

/* Evaluate SOURCE OP VALUE. Fields are compared as numbers if VALUE is one, otherwise as texts. */
static int select_field(struct selecting *s, const char *source)
{
    struct comparing c = {.s = s};
    char name[FIELD_SOURCE_MAX], *end;
    double number;
    int r;

    (void)snprintf(name, sizeof(name), "%s", source);
    r = need_comparison(s, name, &c.how);
    if (r < 0)
        return r;
    number = parse_real(s->word, &end);
    if (*s->word && !*end && (number >= EXACT_MAX || number <= -EXACT_MAX))
        return error_set(s->err, -EINVAL,
                         "select: %s cannot be compared: fields are read as float32, which is "
                         "exact only below 16777216",
                         s->word);
    c.number = (float)number;
    if (*s->word && !*end)
        return read_field(s, name, "float32", compare_number, &c);
    if (c.how > IS_UNEQUAL)
        return error_set(s->err, -EINVAL,
                         "select: '%s' is not a number: only = and != compare texts", s->word);
    c.text = s->word;
    return read_field(s, name, "text", compare_text, &c);
}

static int select_column(struct selecting *s)
{
    int r = need_value(s, "column");

    return r < 0 ? r : select_field(s, s->word);
}

/* ---- sizes ---- */

/* Evaluate OP PIXELS. A sample without a size, such as a bad one, is not a hit. */
static int select_side(struct selecting *s, const char *name, bool width)
{
    enum selection_comparison how;
    struct kept_table table;
    const struct picture_size *sizes;
    uint64_t pixels;
    int r = need_comparison(s, name, &how);

    if (r < 0)
        return r;
    if (parse_u64(s->word, UINT32_MAX, &pixels) < 0)
        return error_set(s->err, -EINVAL, "select: %s needs a number of pixels, not '%s'", name,
                         s->word);
    r = picture_size_open_all(s->dataset, s->options, &table, s->err);
    if (r < 0)
        return r;
    sizes = table.bytes;
    for (uint32_t i = 0; i < s->n; i++) {
        uint64_t side = width ? sizes[i].width : sizes[i].height;

        s->hits[i] = side > 0 && holds(how, (side > pixels) - (side < pixels));
    }
    kept_table_close(&table);
    return 0;
}

static int select_width(struct selecting *s)
{
    return select_side(s, "width", true);
}

static int select_height(struct selecting *s)
{
    return select_side(s, "height", false);
}

/* ---- terms ---- */

static const struct {
    const char *word;
    int (*make)(struct selecting *s);
} terms[] = {
    {"label", select_label},   {"class", select_class},   {"name", select_name},
    {"names", select_names},   {"fold", select_fold},     {"part", select_part},
    {"random", select_random}, {"column", select_column}, {"width", select_width},
    {"height", select_height},
};

/* Evaluate one term: its word and what follows. Returns 1 if it begins with "not", otherwise 0; or
 * -errno. */
static int evaluate_term(struct selecting *s)
{
    bool not = next_is(s, "not");
    int r;

    memset(s->hits, 0, s->n);
    if (!next_word(s))
        return error_set(s->err, -EINVAL, "select: a term is missing");
    for (size_t i = 0; i < ARRAY_LEN(terms); i++)
        if (strcmp(s->word, terms[i].word) == 0) {
            r = terms[i].make(s);
            return r < 0 ? r : (int)not ;
        }
    if (strchr(s->word, '.')) {
        r = select_field(s, s->word);
        return r < 0 ? r : (int)not ;
    }
    return error_set(s->err, -EINVAL,
                     "select: a term begins with label, class, name, names, fold, part, random, "
                     "width, height, column or json.NAME, not '%s'",
                     s->word);
}

static int evaluate(struct selecting *s)
{
    int r;

    do {
        r = evaluate_term(s);
        for (uint32_t i = 0; r >= 0 && i < s->n; i++)
            s->keep[i] = s->keep[i] && s->hits[i] != r;
        if (r < 0)
            return r;
    } while (next_is(s, "and"));
    skip_spaces(s);
    return *s->at ? error_set(s->err, -EINVAL, "select: 'and' is missing before '%s'", s->at) : 0;
}

int selection_make(const struct dataset *dataset, const char *text,
                   const struct dataset_options *options, struct selection *ret,
                   struct plenum_error *err)
{
    uint32_t n = dataset_get_samples(dataset), count = 0;
    struct selecting s = {
        .dataset = dataset, .options = options, .at = text, .n = n, .ret = ret, .err = err};
    uint32_t *made = malloc((n + (size_t)1) * sizeof(*made));
    int r;

    *ret = (struct selection){.sample = NULL};
    assert(strlen(text) < TERM_WORD_MAX); /* a plan's words are not longer */
    s.keep = malloc(n + (size_t)1);
    s.hits = malloc(n + (size_t)1);
    if (made && s.keep && s.hits) {
        memset(s.keep, 1, n);
        r = evaluate(&s);
    } else {
        r = error_set(err, -ENOMEM, "out of memory");
    }
    for (uint32_t i = 0; r == 0 && i < n; i++)
        if (s.keep[i])
            made[count++] = i;
    free(s.keep);
    free(s.hits);
    if (r < 0) {
        free(made);
        return r;
    }
    ret->sample = made;
    ret->count = count;
    return 0;
}
