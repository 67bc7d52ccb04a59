/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/yolo_label.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/message.h"
#include "common/util/util.h"
#include "loader/dataset/number.h"

/* Rounding may carry an object this far out of its picture. */
static const double tolerance = 0.01;

struct label_reader {
    const struct yolo_label_form *form;
    size_t line;
    double *v; /* [count]: the numbers of a line after its class */
    size_t count, cap;
    char *json; /* [len], malloc */
    size_t len, json_cap;
};

MESSAGE static int fail(const struct label_reader *l, const char *why, struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "line %zu: %s", l->line, why);
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Get a decimal number. */
static bool get_number(const char *at, size_t len, double *ret)
{
    char text[64];
    int64_t ignored;

    if (len >= sizeof(text) || !number_is_decimal(number_parse(at, len, &ignored)))
        return false;
    memcpy(text, at, len);
    text[len] = '\0';
    *ret = strtod(text, NULL);
    return true;
}

/* Split a line into its class and numbers. Returns 1, 0 for a blank line, or -errno. */
static int split(struct label_reader *l, const char *at, const char *end, int64_t *class,
                 struct plenum_error *err)
{
    bool first = true;

    for (l->count = 0;; first = false) {
        size_t len = 0;

        while (at < end && is_blank(*at))
            at++;
        if (at == end)
            return !first;
        while (at + len < end && !is_blank(at[len]))
            len++;
        if (first && number_parse(at, len, class) != NUMBER_INTEGER)
            return fail(l, "it does not begin with the number of a class", err);
        if (!first && array_grow(&l->v, &l->cap, l->count, sizeof(*l->v)) < 0)
            return error_set(err, -ENOMEM, "out of memory");
        if (!first && !get_number(at, len, &l->v[l->count++]))
            return fail(l, "it has something that is not a decimal number", err);
        at += len;
    }
}

/* Append formatted numbers to the JSON. */
static int put(struct label_reader *l, const char *before, double value, const char *after)
{
    size_t room = strlen(before) + strlen(after) + 40;

    if (array_reserve(&l->json, &l->json_cap, l->len + room, 1) < 0)
        return -ENOMEM;
    l->len += (size_t)snprintf(l->json + l->len, room, "%s%.9g%s", before, value, after);
    return 0;
}

/* Find the box around an outline, as centre and size. */
static void surround(struct label_reader *l, double box[4])
{
    double low[2] = {l->v[0], l->v[1]}, high[2] = {l->v[0], l->v[1]};

    for (size_t i = 2; i < l->count; i++) {
        if (l->v[i] < low[i % 2])
            low[i % 2] = l->v[i];
        if (l->v[i] > high[i % 2])
            high[i % 2] = l->v[i];
    }
    for (int i = 0; i < 2; i++) {
        box[i] = (low[i] + high[i]) / 2;
        box[i + 2] = high[i] - low[i];
    }
}

/* Returns whether the number is one of a key point's visibility. */
static bool is_visibility(const struct yolo_label_form *form, size_t i)
{
    return form->point_values == 3 && i >= 4 && (i - 4) % 3 == 2;
}

static int check_line(struct label_reader *l, int64_t class, struct plenum_error *err)
{
    const struct yolo_label_form *form = l->form;
    size_t want = 4 + (size_t)form->num_points * form->point_values;

    if (class < 0 || class >= form->num_classes)
        return error_set(err, -EBADMSG,
                         "line %zu: the class is %lld, but data.yaml has the classes 0 to %lld",
                         l->line, (long long)class, (long long)form->num_classes - 1);
    if (form->num_points > 0 && l->count != want)
        return error_set(err, -EBADMSG,
                         "line %zu: %zu numbers follow the class, but with this kpt_shape %zu must",
                         l->line, l->count, want);
    if (l->count != 4 && form->num_points == 0 && (l->count < 6 || l->count % 2 != 0))
        return error_set(err, -EBADMSG,
                         "line %zu: %zu numbers follow the class: a box has 4, and an outline an "
                         "even number, at least 6",
                         l->line, l->count);
    for (size_t i = 0; i < l->count; i++)
        if (!is_visibility(form, i) && (l->v[i] < -tolerance || l->v[i] > 1 + tolerance))
            return error_set(err, -EBADMSG,
                             "line %zu: %g is not a fraction of the picture's width or height, "
                             "from 0 to 1",
                             l->line, l->v[i]);
    return 0;
}

/* Append key points as COCO has them: x, y in pixels, and visibility (2 if the file has none). */
static int put_points(struct label_reader *l)
{
    const struct yolo_label_form *form = l->form;
    int r = put(l, ",\"num_keypoints\":", form->num_points, ",\"keypoints\":");

    for (size_t i = 0; i < form->num_points && r == 0; i++) {
        const double *p = &l->v[4 + i * form->point_values];

        r = put(l, i ? "," : "[", p[0] * form->width, ",");
        if (r == 0)
            r = put(l, "", p[1] * form->height, ",");
        if (r == 0)
            r = put(l, "", form->point_values == 3 ? p[2] : 2, i + 1 < form->num_points ? "" : "]");
    }
    return r;
}

static int put_object(struct label_reader *l, int64_t class)
{
    double width = l->form->width, height = l->form->height, box[4];
    int r;

    if (l->form->num_points == 0 && l->count > 4)
        surround(l, box);
    else
        memcpy(box, l->v, sizeof(box));
    r = put(l, l->len > 1 ? ",{\"category_id\":" : "{\"category_id\":", l->form->classes[class],
            ",\"id\":");
    if (r == 0)
        r = put(l, "", (double)l->line, ",\"bbox\":[");
    if (r == 0)
        r = put(l, "", (box[0] - box[2] / 2) * width, ",");
    if (r == 0)
        r = put(l, "", (box[1] - box[3] / 2) * height, ",");
    if (r == 0)
        r = put(l, "", box[2] * width, ",");
    if (r == 0)
        r = put(l, "", box[3] * height, "]");
    if (r == 0 && l->form->num_points > 0)
        r = put_points(l);
    if (r == 0)
        r = array_reserve(&l->json, &l->json_cap, l->len + 3, 1);
    if (r == 0)
        l->len += (size_t)snprintf(l->json + l->len, 2, "}");
    return r;
}

static int read_lines(struct label_reader *l, const char *at, const char *end,
                      struct plenum_error *err)
{
    int r = 0;

    while (at < end && r == 0) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        int64_t class = 0;

        stop = stop ? stop : end;
        l->line++;
        r = split(l, at, stop, &class, err);
        if (r > 0) {
            r = check_line(l, class, err);
            if (r == 0 && put_object(l, class) < 0)
                r = error_set(err, -ENOMEM, "out of memory");
        }
        at = stop < end ? stop + 1 : end;
    }
    return r;
}

int yolo_label_read(const char *text, size_t len, const struct yolo_label_form *form, char **ret,
                    struct plenum_error *err)
{
    struct label_reader l = {.form = form};
    int r = array_reserve(&l.json, &l.json_cap, 64, 1);

    if (r < 0)
        return error_set(err, r, "out of memory");
    l.len = 1;
    l.json[0] = '[';
    r = read_lines(&l, text, text + len, err);
    free(l.v);
    if (r == 0 && array_reserve(&l.json, &l.json_cap, l.len + 3, 1) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r < 0) {
        free(l.json);
        return r;
    }
    memcpy(l.json + l.len, "]", 2);
    *ret = l.json;
    return 0;
}
