/* SPDX-License-Identifier: MIT */
/* weighing.c - computes integer weights. Rules about classes use integer roots, and real numbers
 * are scaled by one division in double precision, which IEEE 754 defines exactly, so all loaders
 * get equal weights. */
#include "config.h"

#include "loader/dataset/weighing.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/beside.h"
#include "loader/dataset/format.h"
#include "loader/dataset/npy.h"

enum {
    REPEAT_ONE = 65536, /* repetitions and LVIS' factors are in 1/65536 */
    BOX_CLASSES_MAX = 1 << 24,
    NPY_HEADER_MAX = 65536 + 10,
};

static uint32_t sample_of(const struct weighing *of, uint32_t i)
{
    return of->member ? of->member[i] : i;
}

/* ---- classes ---- */

/* Returns the weight of a sample from the number of samples of its class. */
typedef uint64_t class_weight(const struct weighing *of, uint64_t count, const uint64_t *arg);

static uint64_t inverse(const struct weighing *of, uint64_t count, const uint64_t *arg)
{
    (void)of;
    (void)arg;
    return (UINT64_C(1) << 40) / count;
}

static uint64_t inverse_root(const struct weighing *of, uint64_t count, const uint64_t *arg)
{
    (void)of;
    (void)arg;
    return count == 1 ? UINT64_C(1) << 32
                      : sqrt_product((uint64_t)(((unsigned __int128)1 << 64) / count), 1);
}

/* Returns LVIS' repeat factor of a class with the share f of all samples: sqrt(t / f), at least
 * 1. */
static uint64_t lvis_factor(const struct weighing *of, uint64_t count, const uint64_t *threshold)
{
    unsigned __int128 x =
        ((unsigned __int128)threshold[0] * of->n << 32) / ((unsigned __int128)threshold[1] * count);

    return max_u64(REPEAT_ONE, sqrt_product(x > UINT64_MAX ? UINT64_MAX : (uint64_t)x, 1));
}

static int weigh_classes(const struct weighing *of, class_weight *weight, const uint64_t *arg,
                         uint64_t *weights, struct plenum_error *err)
{
    uint32_t classes = relabel_get_classes(of->relabel, of->dataset);
    uint64_t *count = calloc(classes + (size_t)1, sizeof(*count));

    if (!count)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < of->n; i++) {
        int64_t label = relabel_get_label(of->relabel, of->dataset, sample_of(of, i));

        count[label >= 0 && label < classes ? label : classes]++;
    }
    for (uint32_t c = 0; c <= classes; c++)
        count[c] = count[c] > 0 ? weight(of, count[c], arg) : 0;
    for (uint32_t i = 0; i < of->n; i++) {
        int64_t label = relabel_get_label(of->relabel, of->dataset, sample_of(of, i));

        weights[i] = count[label >= 0 && label < classes ? label : classes];
    }
    free(count);
    return 0;
}

/* ---- classes of boxes ---- */

/* The classes of all boxes, which are first counted, then looked up. */
struct boxed {
    const uint32_t *place; /* [samples]: 1 + the place among the members; 0: not a member */
    uint64_t *count;       /* [cap]: one per class */
    size_t cap;
    uint64_t *weights;
    bool counts; /* true in the first pass */
};

static bool seen_before(const struct plenum_box *boxes, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (boxes[k].class_id == boxes[i].class_id)
            return true;
    return false;
}

static int visit_boxes(void *arg, uint32_t sample, const void *value, uint32_t len,
                       struct plenum_error *err)
{
    struct boxed *b = arg;
    uint32_t place = b->place[sample], n = len / (uint32_t)sizeof(struct plenum_box);
    struct plenum_box *boxes = n > 0 ? malloc(n * sizeof(*boxes)) : NULL;
    int r = 0;

    if (n > 0 && !boxes)
        return error_set(err, -ENOMEM, "out of memory");
    if (n > 0)
        memcpy(boxes, value, n * sizeof(*boxes)); /* aligned */
    for (uint32_t i = 0; place > 0 && i < n && r == 0; i++) {
        size_t class = (size_t)boxes[i].class_id, cap = b->cap;

        if (boxes[i].class_id >= BOX_CLASSES_MAX)
            r = error_set(err, -EINVAL,
                          "weights=lvis: sample %u has a box of class %lld: the classes of boxes "
                          "must be below %d",
                          sample, (long long)boxes[i].class_id, BOX_CLASSES_MAX);
        if (r < 0 || boxes[i].class_id < 0 || seen_before(boxes, i))
            continue;
        if (b->counts) {
            if (array_reserve(&b->count, &b->cap, class + 1, sizeof(*b->count)) < 0)
                r = error_set(err, -ENOMEM, "out of memory");
            if (b->cap > cap)
                memset(b->count + cap, 0, (b->cap - cap) * sizeof(*b->count));
            if (r == 0)
                b->count[class]++;
        } else {
            b->weights[place - 1] = max_u64(b->weights[place - 1], b->count[class]);
        }
    }
    free(boxes);
    return r;
}

static int weigh_boxes(const struct weighing *of, const char *source, const uint64_t *threshold,
                       uint64_t *weights, struct plenum_error *err)
{
    uint32_t *place = calloc(dataset_get_samples(of->dataset), sizeof(*place));
    const struct beside_field boxes = {of->dataset, of->options, source, "boxes"};
    struct boxed b = {.place = place, .weights = weights, .counts = true};
    int r = place ? 0 : error_set(err, -ENOMEM, "out of memory");

    for (uint32_t i = 0; r == 0 && i < of->n; i++) {
        place[sample_of(of, i)] = i + 1;
        weights[i] = REPEAT_ONE;
    }
    if (r == 0)
        r = beside_read(&boxes, visit_boxes, &b, err);
    for (size_t c = 0; r == 0 && c < b.cap; c++)
        if (b.count[c] > 0)
            b.count[c] = lvis_factor(of, b.count[c], threshold);
    b.counts = false;
    if (r == 0)
        r = beside_read(&boxes, visit_boxes, &b, err);
    free(b.count);
    free(place);
    return r;
}

/* Evaluate "T" or "T:SOURCE". */
static int weigh_lvis(const struct weighing *of, const char *rest, uint64_t *weights,
                      struct plenum_error *err)
{
    const char *colon = strchr(rest, ':');
    uint64_t threshold[2] = {0, 1000000000};
    char *end;
    double t = parse_real(rest, &end);

    if (end == rest || (*end && end != colon) || !(t > 0 && t <= 1))
        return error_set(err, -EINVAL,
                         "weights=lvis:%s: the threshold must be more than 0 and at most 1", rest);
    threshold[0] = (uint64_t)(t * 1e9 + 0.5);
    if (threshold[0] == 0)
        return error_set(err, -EINVAL, "weights=lvis:%s: the threshold is below 1e-9", rest);
    return colon ? weigh_boxes(of, colon + 1, threshold, weights, err)
                 : weigh_classes(of, lvis_factor, threshold, weights, err);
}

/* ---- numbers ---- */

/* One number for each sample of the data set. */
struct numbers {
    const struct weighing *of;
    float *values; /* [samples] */
};

static int take_number(void *arg, uint32_t sample, const void *value, uint32_t len,
                       struct plenum_error *err)
{
    struct numbers *numbers = arg;

    (void)err;
    numbers->values[sample] = -1; /* a member without a number is rejected later */
    if (value && len == sizeof(float))
        memcpy(&numbers->values[sample], value, sizeof(float));
    return 0;
}

/* Read an array of float32. */
static int read_array(struct numbers *numbers, int fd, const char *path, struct plenum_error *err)
{
    uint32_t n = dataset_get_samples(numbers->of->dataset);
    struct field_shape shape;
    struct stat st;
    uint8_t *bytes;
    size_t at;
    int r = fstat(fd, &st) < 0 ? -errno : 0;

    if (r == 0 && (!S_ISREG(st.st_mode) || st.st_size > (int64_t)n * 4 + NPY_HEADER_MAX))
        return error_set(err, -EINVAL,
                         "weights file %s: it is not an array of %u float32, one for each sample",
                         path, n);
    bytes = r == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    if (r == 0)
        r = bytes ? io_pread_all(fd, bytes, (size_t)st.st_size, 0) : -ENOMEM;
    if (r < 0) {
        free(bytes);
        return error_set(err, r, "weights file %s: %s", path, strerror(-r));
    }
    r = npy_parse_most(bytes, (size_t)st.st_size, UINT32_MAX, &shape, &at, err);
    if (r < 0)
        r = error_prefix(err, r, "weights file %s", path);
    else if (shape.type != PLENUM_FIELD_FLOAT32 || shape.dims != 1)
        r = error_set(err, -EINVAL,
                      "weights file %s: an array of float32 in one dimension is needed", path);
    else if (shape.shape[0] != n)
        r = error_set(err, -EINVAL, "weights of %u samples are needed, %s has %u", n, path,
                      shape.shape[0]);
    else
        memcpy(numbers->values, bytes + at, n * sizeof(float));
    free(bytes);
    return r;
}

static int read_file(struct numbers *numbers, const char *path, struct plenum_error *err)
{
    const struct scope *scope = &numbers->of->dataset->scope;
    int fd = scope_open(scope, path, 0), r;

    if (fd < 0)
        return scope_error(scope, err, fd, path);
    r = read_array(numbers, fd, path, err);
    io_close(&fd);
    return r;
}

/* Convert the members' numbers to integers: repetitions in 1/65536, or shares of the largest. */
static int scale(const struct numbers *numbers, bool repeats, uint64_t *weights,
                 struct plenum_error *err)
{
    const struct weighing *of = numbers->of;
    char name[400];
    float most = 0;

    for (uint32_t i = 0; i < of->n; i++) {
        float value = numbers->values[sample_of(of, i)];

        if (!(value >= 0 && value <= 1e30F))
            return error_set(
                err, -EINVAL, "weight of sample %u (%s) is %g: it must be from 0 to 1e30",
                sample_of(of, i),
                dataset_get_sample_name(of->dataset, sample_of(of, i), name, sizeof(name)),
                (double)value);
        most = value > most ? value : most;
    }
    if (repeats && most > 65535)
        return error_set(err, -EINVAL, "a sample is repeated %g times; at most 65535 are possible",
                         (double)most);
    for (uint32_t i = 0; i < of->n && most > 0; i++) {
        double value = (double)numbers->values[sample_of(of, i)];

        weights[i] = (uint64_t)(repeats ? value * REPEAT_ONE : value * UINT32_MAX / (double)most);
    }
    return 0;
}

/* Evaluate "file:PATH", "column:NAME" or "json.NAME". */
static int weigh_numbers(const struct weighing *of, const char *rule, bool repeats,
                         uint64_t *weights, struct plenum_error *err)
{
    struct numbers numbers = {.of = of,
                              .values = calloc(dataset_get_samples(of->dataset), sizeof(float))};
    const char *path = str_after(rule, "file:"), *column = str_after(rule, "column:");
    int r;

    if (!numbers.values)
        r = error_set(err, -ENOMEM, "out of memory");
    else if (path)
        r = read_file(&numbers, path, err);
    else
        r = beside_read(
            &(struct beside_field){of->dataset, of->options, column ? column : rule, "float32"},
            take_number, &numbers, err);
    if (r == 0)
        r = scale(&numbers, repeats, weights, err);
    free(numbers.values);
    return r;
}

/* ---- rules ---- */

static int weigh(const struct weighing *of, const char *rule, uint64_t *weights, bool *factors,
                 struct plenum_error *err)
{
    const char *rest = str_after(rule, "lvis:"), *number;

    *factors = rest != NULL;
    if (strcmp(rule, "class") == 0)
        return weigh_classes(of, inverse, NULL, weights, err);
    if (strcmp(rule, "class:1/2") == 0)
        return weigh_classes(of, inverse_root, NULL, weights, err);
    if (rest)
        return weigh_lvis(of, rest, weights, err);
    rest = str_after(rule, "repeat:");
    *factors = rest != NULL;
    number = rest ? rest : rule;
    if (str_after(number, "file:") || str_after(number, "column:") || strchr(number, '.'))
        return weigh_numbers(of, number, rest != NULL, weights, err);
    return error_set(err, -EINVAL,
                     "weights=%s: one of class, class:1/2, lvis:T, file:W.npy, column:NAME and "
                     "json.NAME is needed, or repeat: before one of the last three",
                     rule);
}

int weighing_make(const struct weighing *of, const char *rule, uint64_t *weights,
                  uint64_t *positions, struct plenum_error *err)
{
    unsigned __int128 sum = 0;
    bool factors;
    int r = weigh(of, rule, weights, &factors, err);

    if (r < 0)
        return r;
    for (uint32_t i = 0; i < of->n; i++)
        sum += weights[i];
    if (sum == 0)
        return error_set(err, -EINVAL, "all weights are 0");
    if (sum > INT64_MAX)
        return error_set(err, -EINVAL, "the weights have a sum beyond 2^63");
    if (factors)
        *positions = max_u64(1, ((uint64_t)sum + REPEAT_ONE / 2) / REPEAT_ONE);
    return 0;
}
