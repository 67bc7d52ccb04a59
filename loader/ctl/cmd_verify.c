/* SPDX-License-Identifier: MIT */
/* cmd_verify.c - plenumctl verify: reads and decodes every sample, and checks packed JPEGs.
 *
 * Each image is decoded as a whole. A packed JPEG is also split into its parts, and the
 * coefficients of the parts are compared with those of the whole. So a sample that passes is good
 * for every crop, whether or not a decoder uses intervals.
 *
 * The bad samples become the data set's new list of bad samples, which loaders read, and which is
 * part of the fingerprint. If some samples could not be read, the list would be incomplete and
 * would differ the next time, so the old list stays.
 *
 * With --fields, the fields of each sample are read, too: masks are decoded whole and rendered like
 * those of a stream, and boxes are compared with their picture. Without it, this is done with the
 * objects of detection data sets, whose annotations are checked as well. Errors there are reported,
 * but do not put the sample on the list: streams with other fields, or without fields, can show
 * it. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/data/png_depth.h"
#include "common/util/error_set.h"
#include "common/util/json.h"
#include "common/util/lock.h"
#include "common/util/parallel.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"
#include "loader/dataset/stamp.h"
#include "loader/image/pack/pack.h"

struct verify_arguments {
    const char *cache_dir, *fields;
    uint32_t threads;
    enum image_jpeg decoder;
    bool both, content, no_list, json;
    struct json output; /* for --json */
    unsigned shown;     /* data sets shown so far */
};

static int parse_decoder(void *target, const char *value, struct plenum_error *err)
{
    struct verify_arguments *a = target;

    a->both = strcmp(value, "both") == 0;
    if (a->both || image_jpeg_parse("--decoder", value, &a->decoder, NULL) == 0)
        return 0;
    return error_set(err, -EINVAL, "--decoder must be one of auto, plenum, libjpeg, both, not '%s'",
                     value);
}

#define AT(field) offsetof(struct verify_arguments, field)

static const struct option_def defs[] = {
    {"content", 0, NULL, OPTION_FLAG, AT(content),
     .help = "also print a hash over every byte and label"},
    {"decoder", 0, "NAME", OPTION_CALL, .call = parse_decoder,
     .help = "JPEG decoder: auto (default), plenum or libjpeg; or both, and compare them"},
    {"fields", 0, "FIELDS", OPTION_TEXT, AT(fields), .once = true,
     .help =
         "also read and check these fields of each sample: NAME:SOURCE:KIND, separated by commas"},
    {"no-list", 0, NULL, OPTION_FLAG, AT(no_list),
     .help = "only report; leave the list of bad samples, which loaders honour, unchanged"},
    {"threads", 't', "N", OPTION_U32, AT(threads), 1, 4096,
     .help = "threads that read and decode (default: one per CPU)"},
    {"cache-dir", 0, "DIR", OPTION_TEXT, AT(cache_dir), .help = "folder for indices"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), .help = "print JSON"},
};

static const struct option_words words[] = {{"decoder", "auto plenum libjpeg both"}, {0}};

static const struct options_program program = {
    .name = "plenumctl verify",
    .usage = "DATASET [options]",
    .summary = "Read and decode every sample once, prove that packed JPEGs match their "
               "originals, and list the bad samples, for loaders too. With a plan (@FILE), "
               "verify each of its data sets. Exits with 0 if it finds nothing "
               "wrong, otherwise with 1.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .words = words,
};

/* Those before DIFFER put the sample on the list. */
enum problem_kind {
    BAD,
    NOT_AS_PACKED,
    JUNK,       /* bad unless the pipeline contains "junk" */
    UNREADABLE, /* the sample itself may be good */
    DIFFER,     /* our decoders differ: not the sample's fault */
    IN_FIELD,
    IN_ANNOTATIONS, /* of a detection data set; it may belong to no sample */
};

static const char *const kinds[] = {
    [BAD] = "bad",
    [NOT_AS_PACKED] = "not-as-packed",
    [JUNK] = "junk",
    [UNREADABLE] = "unreadable",
    [DIFFER] = "decoders-differ",
    [IN_FIELD] = "field",
    [IN_ANNOTATIONS] = "annotations",
};

/* A sample with a problem. */
struct problem {
    uint32_t sample;
    enum problem_kind kind;
    uint64_t content; /* hash of the sample's bytes, or DATASET_NO_BYTES */
    struct plenum_error reason;
};

/* A sample's contribution to the hash of all samples. */
struct content {
    uint64_t len;
    int64_t label;
    XXH128_canonical_t hash;
};

struct verify {
    const struct verify_arguments *arguments;
    struct dataset *dataset;
    struct image_decoder **decoders; /* [threads] */
    struct dataset_buffer *buffers, *records;
    struct pipeline upright, turned; /* pipelines that render one pixel from the whole image */
    size_t num_bad;                  /* problems that go into the list */
    unsigned threads;
    struct content *content;   /* [samples], or NULL */
    atomic_uint_fast64_t deep; /* 16-bit PNGs; only their upper 8 bits are used */
    atomic_uint_fast64_t packed, jpeg, progressive, png, webp, avif, ppm, bytes;
    atomic_bool unread; /* some samples could not be read */
    bool listed;        /* the list is up to date */
    struct dataset_kept kept;
    /* Protected by mu. */
    struct lock mu;
    struct problem *problems;
    size_t num_problems, cap_problems;
};

/* Record a problem of a sample. `bytes`: the sample's bytes, or NULL if they are not known or do
 * not matter. Returns 0 or -ENOMEM. */
static int add_problem(struct verify *v, uint32_t sample, enum problem_kind kind,
                       const struct dataset_buffer *bytes, const struct plenum_error *reason)
{
    uint64_t content = bytes ? stamp_hash_bytes(bytes->bytes, bytes->len) : DATASET_NO_BYTES;
    int r;

    lock_acquire(&v->mu);
    r = array_grow(&v->problems, &v->cap_problems, v->num_problems, sizeof(*v->problems));
    if (r >= 0)
        v->problems[v->num_problems++] = (struct problem){sample, kind, content, *reason};
    lock_release(&v->mu);
    return r;
}

static void track_content(struct verify *v, uint32_t sample, const struct dataset_buffer *buffer)
{
    struct content *c = &v->content[sample];

    assert(sample < dataset_get_samples(v->dataset));
    c->len = buffer->len;
    c->label = dataset_get_label(v->dataset, sample);
    XXH128_canonicalFromHash(&c->hash, XXH3_128bits(buffer->bytes, buffer->len));
}

/* Check that our own decoder produces the same pixels, or the same error, as libjpeg. */
static int check_decoders(struct verify *v, uint32_t sample, unsigned thread, int code,
                          const struct image_info *info, const struct plenum_error *err)
{
    const struct dataset_buffer *buffer = &v->buffers[thread];
    static const char good[] = "some pixels";
    struct plenum_error own_err = {""}, difference;
    struct image_info own;
    int r;

    assert(thread < v->threads);
    image_decoder_use_jpeg(v->decoders[thread], IMAGE_JPEG_PLENUM);
    r = image_verify(v->decoders[thread], &(struct image_file){buffer->bytes, buffer->len}, &own,
                     &own_err);
    if (r == code && r < 0 && strcmp(own_err.text, err->text) == 0)
        return 0;
    if (r == code && r == 0 && own.pixels == info->pixels)
        return 0;
    if (r == -ENOMEM || code == -ENOMEM)
        return -ENOMEM;
    (void)error_set(&difference, -EPROTO,
                    "the decoders differ: libjpeg: %s; Plenum's own: %s; report this file, and use "
                    "--decoder libjpeg until then",
                    code < 0 ? err->text : good, r < 0 ? own_err.text : good);
    return add_problem(v, sample, DIFFER, buffer, &difference);
}

static atomic_uint_fast64_t *counter_of(struct verify *v, const char *format)
{
    if (strcmp(format, "PNG") == 0)
        return &v->png;
    if (strcmp(format, "PPM") == 0)
        return &v->ppm;
    if (strcmp(format, "AVIF") == 0)
        return &v->avif;
    return strcmp(format, "WebP") == 0 ? &v->webp : &v->jpeg;
}

/* Render one pixel of a sample and of its mask. */
static int render_mask(struct verify *v, unsigned thread, const struct pipeline *pipeline,
                       uint32_t item_bytes, const struct image_file *mask, struct plenum_error *err)
{
    static const struct image_store store = {PLENUM_UINT8, PLENUM_NHWC, 3};
    const struct dataset_buffer *buffer = &v->buffers[thread];
    uint8_t pixel[3];
    uint16_t number;
    struct image_view view = {.pipeline = pipeline, .dst = pixel};
    int r = image_render_views(v->decoders[thread], &view, 1, &store,
                               &(struct image_file){buffer->bytes, buffer->len}, err);

    assert(item_bytes <= sizeof(number));
    view.dst = &number;
    return r < 0 ? r : image_render_masks(v->decoders[thread], &view, 1, item_bytes, mask, err);
}

/* Check that a mask decodes, and that its size is that of its image, stored or after EXIF
 * orientation. */
static int check_mask(struct verify *v, unsigned thread, const struct image_info *info,
                      uint32_t item_bytes, const struct image_file *mask, struct plenum_error *err)
{
    int r = image_verify(v->decoders[thread], mask, NULL, err);

    if (r < 0)
        return r;
    r = render_mask(v, thread, &v->upright, item_bytes, mask, err);
    return r == -EBADMSG && info->orientation > 1
               ? render_mask(v, thread, &v->turned, item_bytes, mask, err)
               : r;
}

/* Check that boxes lie within their picture, except for rounding. */
static int check_boxes(const struct image_info *info, const uint8_t *bytes, size_t len,
                       struct plenum_error *err)
{
    bool turns = info->orientation > 4; /* if the pipeline contains "exif" */
    float width = (float)info->width, height = (float)info->height;

    if (turns)
        width = height = width > height ? width : height;
    for (struct plenum_box b; len >= sizeof(b); bytes += sizeof(b), len -= sizeof(b)) {
        memcpy(&b, bytes, sizeof(b)); /* the bytes may be unaligned */
        if (b.left < -1 || b.top < -1 || b.right > width + 1 || b.bottom > height + 1)
            return error_set(err, -EBADMSG,
                             "the box with id %lld, from (%g, %g) to (%g, %g), reaches beyond its "
                             "picture of %u x %u: \"bbox\" has left, top, width and height, "
                             "\"boxes\" have left, top, right and bottom",
                             (long long)b.id, (double)b.left, (double)b.top, (double)b.right,
                             (double)b.bottom, info->width, info->height);
        if (b.right <= b.left || b.bottom <= b.top)
            return error_set(err, -EBADMSG,
                             "the box with id %lld, from (%g, %g) to (%g, %g), has no area, so no "
                             "image shows it",
                             (long long)b.id, (double)b.left, (double)b.top, (double)b.right,
                             (double)b.bottom);
        if (b.right <= 1 && b.bottom <= 1)
            return error_set(err, -EBADMSG,
                             "the box with id %lld lies in its picture's first pixel: boxes "
                             "must be in pixels, not in fractions of the sides",
                             (long long)b.id);
    }
    return 0;
}

/* Record a fault of the annotations. */
static int add_fault(void *arg, uint32_t sample, const char *sentence)
{
    struct plenum_error reason;

    (void)snprintf(reason.text, sizeof(reason.text), "%s", sentence);
    return add_problem(arg, sample, IN_ANNOTATIONS, NULL, &reason);
}

/* Check that the key points of an object lie within their picture, except for rounding. */
static int check_pose(const struct image_info *info, const struct field_pose *pose,
                      const uint8_t *points, struct plenum_error *err)
{
    bool turns = info->orientation > 4; /* if the pipeline contains "exif" */
    float width = (float)info->width, height = (float)info->height, right = 0, bottom = 0;

    if (turns)
        width = height = width > height ? width : height;
    for (uint64_t i = 0; i < pose->points; i++) {
        struct plenum_keypoint p;

        memcpy(&p, points + i * sizeof(p), sizeof(p));
        if (p.x < -1 || p.y < -1 || p.x > width + 1 || p.y > height + 1)
            return error_set(err, -EBADMSG,
                             "key point %llu of the object with id %lld, at (%g, %g), lies outside "
                             "its picture of %u x %u",
                             (unsigned long long)i, (long long)pose->id, (double)p.x, (double)p.y,
                             info->width, info->height);
        right = p.x > right ? p.x : right;
        bottom = p.y > bottom ? p.y : bottom;
    }
    if (right <= 1 && bottom <= 1 && (right > 0 || bottom > 0))
        return error_set(err, -EBADMSG,
                         "the key points of the object with id %lld lie in its picture's first "
                         "pixel: they must be in pixels, not in fractions of the sides",
                         (long long)pose->id);
    return 0;
}

static int check_keypoints(const struct image_info *info, const uint8_t *bytes, size_t len,
                           struct plenum_error *err)
{
    const uint8_t *end = bytes + len;
    int r = 0;

    while (bytes < end && r == 0) {
        struct field_pose pose;

        memcpy(&pose, bytes, sizeof(pose));
        r = check_pose(info, &pose, bytes + sizeof(pose), err);
        bytes += sizeof(pose) + pose.points * sizeof(struct plenum_keypoint);
    }
    return r;
}

/* Check that an encoded mask has the size of its picture, stored or after EXIF orientation. */
static int check_encoded(const struct image_info *info, const struct field_outline *head,
                         struct plenum_error *err)
{
    bool turned = info->orientation > 4 && head->height == info->width;

    if (head->height == (turned ? info->width : info->height) &&
        head->width == (turned ? info->height : info->width))
        return 0;
    return error_set(err, -EBADMSG,
                     "the mask of the object with id %lld has %u x %u pixels, but its image has "
                     "%u x %u",
                     (long long)head->box.id, head->height, head->width, info->height, info->width);
}

/* Check that a polygon lies within its picture, except for rounding. */
static int check_polygon(const struct image_info *info, const struct field_outline *head,
                         const uint8_t *points, uint32_t count, struct plenum_error *err)
{
    bool turns = info->orientation > 4; /* if the pipeline contains "exif" */
    float width = (float)info->width, height = (float)info->height, most = 0, at[2];

    if (turns)
        width = height = width > height ? width : height;
    for (uint32_t i = 0; i < count; i++) {
        memcpy(at, points + i * sizeof(at), sizeof(at));
        if (at[0] < -1 || at[1] < -1 || at[0] > width + 1 || at[1] > height + 1)
            return error_set(err, -EBADMSG,
                             "the outline of the object with id %lld has the point (%g, %g), "
                             "outside its picture of %u x %u",
                             (long long)head->box.id, (double)at[0], (double)at[1], info->width,
                             info->height);
        most = fmaxf(most, fmaxf(at[0], at[1]));
    }
    if (most <= 1)
        return error_set(err, -EBADMSG,
                         "a polygon of the object with id %lld lies in its picture's first "
                         "pixel: polygons must be in pixels, not in fractions of the sides",
                         (long long)head->box.id);
    return 0;
}

static int check_instances(const struct image_info *info, const uint8_t *bytes, size_t len,
                           struct plenum_error *err)
{
    const uint8_t *end = bytes + len;
    int r = 0;

    while (bytes < end && r == 0) {
        struct field_outline head;

        memcpy(&head, bytes, sizeof(head));
        bytes += sizeof(head);
        if (head.polygons == 0) {
            r = check_encoded(info, &head, err);
            bytes += head.numbers * sizeof(uint32_t);
        }
        for (uint32_t i = 0, count; i < head.polygons && r == 0; i++) {
            memcpy(&count, bytes, sizeof(count));
            r = check_polygon(info, &head, bytes + sizeof(count), count, err);
            bytes += sizeof(count) + count * 2 * sizeof(float);
        }
    }
    return r;
}

/* Check the fields of a sample whose image is good; `info` is NULL if it has no image. */
static int check_fields(struct verify *v, uint32_t sample, unsigned thread,
                        const struct image_info *info)
{
    const struct fields *fields = dataset_get_fields(v->dataset);
    struct dataset_buffer *record = &v->records[thread];
    const uint32_t *lengths;
    const uint8_t *bytes;
    struct plenum_error err;
    char name[4096];
    int r;

    if (fields->count == 0)
        return 0;
    r = dataset_read_fields(v->dataset, sample, record, &err);
    if (r < 0)
        ctl_strip_name(&err, dataset_get_sample_name(v->dataset, sample, name, sizeof(name)));
    lengths = (const void *)record->bytes;
    bytes = record->bytes + fields->count * sizeof(*lengths);
    for (uint32_t i = 0; i < fields->count && r == 0 && info; bytes += fields->stored[i++]) {
        const struct field_shape *shape = &fields->shape[i];

        if (shape->mask)
            r = check_mask(v, thread, info, shape->room, &(struct image_file){bytes, lengths[i]},
                           &err);
        else if (shape->type == PLENUM_FIELD_BOXES)
            r = check_boxes(info, bytes, lengths[i], &err);
        else if (shape->type == PLENUM_FIELD_KEYPOINTS)
            r = check_keypoints(info, bytes, lengths[i], &err);
        else if (shape->type == PLENUM_FIELD_INSTANCES)
            r = check_instances(info, bytes, lengths[i], &err);
        if (r < 0)
            (void)error_prefix(&err, r, "field '%s' ('%s')", fields->spec[i].name,
                               fields->spec[i].source);
    }
    return r == -ENOMEM || r == 0 ? r : add_problem(v, sample, IN_FIELD, NULL, &err);
}

/* Check that the annotations give the picture's size, as stored or after EXIF orientation. */
static int check_size(struct verify *v, uint32_t sample, const struct image_info *info)
{
    struct plenum_error reason;
    uint32_t stated[2];

    dataset_get_stated_size(v->dataset, sample, stated);
    if (stated[0] == 0 || stated[1] == 0 ||
        (stated[0] == info->width && stated[1] == info->height) ||
        (info->orientation > 4 && stated[0] == info->height && stated[1] == info->width))
        return 0;
    (void)error_set(&reason, -EBADMSG,
                    "its annotations say that it is %u x %u, but it is %u x %u: boxes may be for "
                    "another version of it",
                    stated[0], stated[1], info->width, info->height);
    return add_problem(v, sample, IN_ANNOTATIONS, NULL, &reason);
}

static int check_image(struct verify *v, uint32_t sample, unsigned thread)
{
    const struct dataset_buffer *buffer = &v->buffers[thread];
    const struct verify_arguments *a = v->arguments;
    struct plenum_error err = {""};
    struct image_info info;
    int r;

    image_decoder_use_jpeg(v->decoders[thread], a->both ? IMAGE_JPEG_LIBJPEG : a->decoder);
    r = image_verify(v->decoders[thread], &(struct image_file){buffer->bytes, buffer->len}, &info,
                     &err);
    if (a->both) {
        int s = check_decoders(v, sample, thread, r, &info, &err);

        if (s < 0)
            return s;
    }
    if (r == -ENOTSUP) /* other builds may decode it */
        return add_problem(v, sample, UNREADABLE, NULL, &err);
    if (r < 0)
        return r == -EBADMSG ? add_problem(v, sample, BAD, buffer, &err) : r;
    r = check_size(v, sample, &info);
    if (r < 0)
        return r;
    if (info.junk > 0) {
        (void)image_refuse_junk(info.junk, &err);
        r = add_problem(v, sample, JUNK, buffer, &err);
        return r < 0 ? r : check_fields(v, sample, thread, &info);
    }
    (void)atomic_fetch_add(counter_of(v, info.format), 1);
    (void)atomic_fetch_add(&v->progressive, info.progressive);
    (void)atomic_fetch_add(&v->deep, png_is_deep(buffer->bytes, buffer->len));
    r = pack_prove(buffer->bytes, buffer->len, &err);
    if (r > 0)
        (void)atomic_fetch_add(&v->packed, 1);
    if (r < 0)
        return r == -EBADMSG ? add_problem(v, sample, NOT_AS_PACKED, buffer, &err) : r;
    return check_fields(v, sample, thread, &info);
}

static int turn(void *arg, uint64_t index, unsigned thread)
{
    struct verify *v = arg;
    struct dataset_buffer *buffer = &v->buffers[thread];
    uint32_t sample = (uint32_t)index;
    struct plenum_error err;
    char name[4096];
    int r;

    if (!v->decoders[thread] && image_decoder_create(&v->decoders[thread]) < 0)
        return -ENOMEM;
    if (!dataset_has_images(v->dataset))
        return check_fields(v, sample, thread, NULL);
    r = dataset_read(v->dataset, sample, buffer, &err);
    if (r == -ENOMEM)
        return r;
    if (r < 0) {
        ctl_strip_name(&err, dataset_get_sample_name(v->dataset, sample, name, sizeof(name)));
        buffer->len = 0;
        if (v->content)
            track_content(v, sample, buffer);
        if (dataset_get_sample_bytes(v->dataset, sample) > 0)
            atomic_store(&v->unread, true);
        return add_problem(v, sample, r == -EBADMSG ? BAD : UNREADABLE, NULL, &err);
    }
    (void)atomic_fetch_add(&v->bytes, buffer->len);
    if (v->content)
        track_content(v, sample, buffer);
    return check_image(v, sample, thread);
}

static void show_progress(void *arg, uint64_t done, uint64_t total)
{
    ctl_show_progress(arg, "verifying", done, total);
}

static int by_sample(const void *a, const void *b)
{
    const struct problem *x = a, *y = b;

    return (x->sample > y->sample) - (x->sample < y->sample);
}

/* Write the hash over all samples in order, as text; "" if it was not requested, or if some could
 * not be read. */
static void hash_content(const struct verify *v, char text[33])
{
    uint32_t n = dataset_get_samples(v->dataset);
    XXH128_canonical_t canonical;

    text[0] = 0;
    if (!v->content || atomic_load(&v->unread))
        return;
    XXH128_canonicalFromHash(&canonical, XXH3_128bits(v->content, (size_t)n * sizeof(*v->content)));
    (void)datasum_hex(canonical.digest, text);
}

static const char *list_path(const struct verify *v)
{
    return v->listed && v->num_bad > 0 ? dataset_get_bad_path(v->dataset) : NULL;
}

static void print_json(struct json *j, const struct verify *v)
{
    char name[4096], content[33], hex[33];

    hash_content(v, content);
    json_begin_object(j, NULL, JSON_LINES);
    json_text(j, "name", dataset_get_name(v->dataset));
    json_number(j, "samples", dataset_get_samples(v->dataset));
    json_number(j, "bytes", v->bytes);
    json_number(j, "jpeg", v->jpeg);
    json_number(j, "progressive", v->progressive);
    json_number(j, "png", v->png);
    json_number(j, "webp", v->webp);
    json_number(j, "avif", v->avif);
    json_number(j, "ppm", v->ppm);
    json_number(j, "deep", v->deep);
    json_number(j, "packed", v->packed);
    json_text(j, "content", content[0] ? content : NULL);
    json_text(j, "fingerprint", v->listed ? datasum_hex(v->kept.fingerprint, hex) : NULL);
    json_text(j, "bad_list", list_path(v));
    json_begin_array(j, "problems", JSON_LINES);
    for (size_t i = 0; i < v->num_problems; i++) {
        const struct problem *p = &v->problems[i];

        json_begin_object(j, NULL, JSON_FLAT);
        if (p->sample != DATASET_NO_SAMPLE)
            json_number(j, "sample", p->sample);
        json_text(j, "kind", kinds[p->kind]);
        if (p->sample != DATASET_NO_SAMPLE)
            json_text(j, "name",
                      dataset_get_sample_name(v->dataset, p->sample, name, sizeof(name)));
        json_text(j, "reason", p->reason.text);
        json_end_object(j);
    }
    json_end_array(j);
    json_end_object(j);
}

static void print_list(const struct verify *v)
{
    const char *path = list_path(v);
    char hex[33];

    printf("bad list     %s%s\n",
           path              ? path
           : v->kept.changed ? "removed"
                             : "none needed",
           v->kept.changed
               ? ": applies to streams that are opened from now on, which reject older cursors"
           : path ? ": unchanged"
                  : "");
    if (path)
        printf("             (other hosts need it, too: verify there, or copy it)\n");
    printf("fingerprint  %s\n", datasum_hex(v->kept.fingerprint, hex));
}

static void print_problem(const struct verify *v, struct problem *p)
{
    char name[4096];

    printf("             ");
    if (p->sample != DATASET_NO_SAMPLE)
        printf("sample %u, %s: ", p->sample,
               text_make_plain(dataset_get_sample_name(v->dataset, p->sample, name, sizeof(name))));
    printf("%s\n", p->reason.text);
}

static void print_text(const struct verify *v, double seconds)
{
    char name[4096], bytes[32], content[33];

    hash_content(v, content);
    printf("data set     %s\n", ctl_plain_name(v->dataset, name, sizeof(name)));
    printf("samples      %u, %s\n", dataset_get_samples(v->dataset),
           format_bytes(v->bytes, bytes, sizeof(bytes)));
    printf("good         %llu JPEGs, %llu PNGs, %llu WebPs, %llu AVIFs and %llu PPMs decode "
           "completely\n",
           (unsigned long long)v->jpeg, (unsigned long long)v->png, (unsigned long long)v->webp,
           (unsigned long long)v->avif, (unsigned long long)v->ppm);
    ctl_print_progressive(&(struct ctl_jpegs){v->jpeg, v->progressive}, false);
    if (v->deep > 0)
        printf("16 bits      %llu of the PNGs: only the upper 8 bits of their channels are shown\n",
               (unsigned long long)v->deep);
    printf("packed       %llu JPEGs, each with the same coefficients in every part\n",
           (unsigned long long)v->packed);
    if (v->content)
        printf("content      %s\n",
               content[0] ? content : "unknown: some samples could not be read");
    printf("problems     %zu\n", v->num_problems);
    for (size_t i = 0; i < v->num_problems; i++)
        print_problem(v, &v->problems[i]);
    if (v->listed)
        print_list(v);
    printf("time         %.1f s\n", seconds);
}

/* Write the list for loaders. Returns 0 or -errno. */
static int keep_list(struct verify *v, struct plenum_error *err)
{
    struct dataset_bad *bad;
    uint32_t count = 0;
    int r;

    for (size_t i = 0; i < v->num_problems; i++)
        if (v->problems[i].kind == UNREADABLE)
            return error_set(err, -EIO,
                             "the list of bad samples was not changed, because some samples could "
                             "not be read: run this again when they all can be, or use --no-list");
    bad = calloc(v->num_problems + 1, sizeof(*bad));
    if (!bad)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < v->num_problems; i++)
        if (v->problems[i].kind < DIFFER)
            bad[count++] = (struct dataset_bad){.sample = v->problems[i].sample,
                                                .reason = v->problems[i].reason.text,
                                                .junk = v->problems[i].kind == JUNK,
                                                .content = v->problems[i].content};
    assert(count <= v->num_problems);
    r = dataset_keep_bad(v->dataset, bad, count, &v->kept, err);
    v->listed = r == 0;
    v->num_bad = count;
    free(bad);
    return r;
}

static int verify_all(struct verify *v, const struct verify_arguments *a, struct plenum_error *err)
{
    struct parallel loop = {.turn = turn, .progress = show_progress, .arg = v};
    int r;

    loop.count = dataset_get_samples(v->dataset);
    loop.threads = v->threads = a->threads ? a->threads : parallel_cpus();
    v->decoders = calloc(v->threads, sizeof(*v->decoders));
    v->buffers = calloc(v->threads, sizeof(*v->buffers));
    v->records = calloc(v->threads, sizeof(*v->records));
    if (a->content)
        v->content = calloc(loop.count, sizeof(*v->content));
    r = pipeline_parse("resize(1x1)", &v->upright, err);
    if (r == 0)
        r = pipeline_parse("exif resize(1x1)", &v->turned, err);
    v->upright.junk = v->turned.junk = true;
    if (r < 0)
        return r;
    r = v->decoders && v->buffers && v->records && (v->content || !a->content) ? parallel_run(&loop)
                                                                               : -ENOMEM;
    ctl_end_progress();
    if (r < 0)
        return error_set(err, r, "%s", r == -ENOMEM ? "out of memory" : strerror(-r));
    r = dataset_check(v->dataset, add_fault, v, err);
    if (r < 0)
        return r;
    if (v->num_problems > 1)
        qsort(v->problems, v->num_problems, sizeof(*v->problems), by_sample);
    return 0;
}

static void verify_fini(struct verify *v)
{
    for (unsigned i = 0; v->decoders && v->buffers && v->records && i < v->threads; i++) {
        image_decoder_destroy(v->decoders[i]);
        dataset_buffer_fini(&v->buffers[i]);
        dataset_buffer_fini(&v->records[i]);
    }
    free(v->decoders);
    free(v->buffers);
    free(v->records);
    free(v->content);
    free(v->problems);
    dataset_unref(v->dataset);
}

static int open_verified(struct verify *v, const char *name, struct plenum_error *err)
{
    /* Read everything again, and use no results of earlier runs. */
    struct dataset_options options = {.cache_dir = v->arguments->cache_dir,
                                      .threads = v->arguments->threads,
                                      .fields = v->arguments->fields,
                                      .own_fields = true,
                                      .forget_bad = true,
                                      .rebuild = true};
    int r = ctl_files_open(name, &options, &v->dataset, err);

    if (r < 0)
        return r;
    if (dataset_is_generated(v->dataset))
        return error_set(err, -EINVAL, "%s has no files: there is nothing to verify",
                         dataset_get_name(v->dataset));
    return dataset_has_images(v->dataset) || dataset_get_fields(v->dataset)->count > 0
               ? 0
               : dataset_refuse_images(v->dataset, err);
}

static void print_result(struct verify_arguments *a, const struct verify *v, uint64_t begin_ns)
{
    if (a->json) {
        print_json(&a->output, v);
        return;
    }
    if (a->shown++ > 0)
        putchar('\n');
    print_text(v, (double)(time_now_ns() - begin_ns) / (double)NS_PER_SEC);
}

/* Verify one data set. Returns 0, 1 if it has problems, or -errno. */
static int verify_one(void *arg, const char *name, struct plenum_error *err)
{
    struct verify_arguments *a = arg;
    struct verify v = {.arguments = a, .mu = LOCK_INITIALIZER};
    uint64_t begin = time_now_ns();
    int r = open_verified(&v, name, err);

    if (r == 0)
        r = verify_all(&v, a, err);
    if (r == 0) {
        r = a->no_list ? 0 : keep_list(&v, err);
        print_result(a, &v, begin);
    }
    if (r >= 0)
        r = v.num_problems > 0;
    verify_fini(&v);
    return r;
}

static int run(int argc, char **argv)
{
    struct verify_arguments a = {.output.file = stdout};
    struct plenum_error err;
    bool wraps;
    int r;

    r = ctl_start(&program, &a, argc, argv, 1, "one data set is");
    if (r >= 0)
        return r;
    wraps = a.json && ctl_is_plan(argv[1]);
    if (wraps) {
        json_begin_object(&a.output, NULL, JSON_LINES);
        json_begin_array(&a.output, "sets", JSON_LINES);
    }
    r = ctl_for_each(argv[1], verify_one, &a, &err);
    if (wraps) {
        json_end_array(&a.output);
        json_end_object(&a.output);
    }
    return r < 0 ? ctl_fail("verify", &err) : r;
}

const struct ctl_command ctl_verify = {
    .name = "verify",
    .summary = "read, decode and check every sample, and list bad ones",
    .run = run,
};
