/* SPDX-License-Identifier: MIT */
/* tfrecord.c - implements "tfrecord:FILES": TensorFlow record files, with one tf.train.Example per
 * record.
 *
 *     u64 length | masked CRC of the 8 bytes | length bytes | masked CRC of these bytes
 *     (little-endian)
 *
 * During indexing, every record is read once, its checksum is verified, and its Example is parsed
 * by protobuf-c. The index stores the offset of the record and the place of the encoded image in
 * it, so reading a sample needs no parsing. The checksum is verified again, so that a bit that has
 * flipped in storage or in transit results in a bad sample instead of a wrong image.
 *
 * A record whose data has a wrong checksum is a bad sample. If a length is damaged or the file is
 * truncated, the next record cannot be found, and the data set is rejected. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/data/crc32c.h"
#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/util.h"
#include "loader/dataset/archive.h"
#include "loader/dataset/example.pb-c.h"
#include "loader/dataset/field_table.h"
#include "loader/dataset/number.h"

enum {
    HEADER = 12, /* length and its CRC */
    TRAILER = 4, /* CRC of the data */
    CHUNK = 1 << 20,
    TAIL = 4096, /* bytes after the image that are read together with it */
    RECORD_MAX = DATASET_SAMPLE_MAX + (64 << 20),
    PROBE = 64, /* first bytes of an image, to find it in the record */
    PROBES_MAX = 64,
    LARGE = 256 << 10, /* bytes of a record; larger ones are parsed one at a time */
};

static uint32_t get_u32(const uint8_t *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint64_t get_u64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Returns the masked CRC: rotated, with a constant added. TensorFlow stores CRCs in this form,
 * because a CRC of data that contains CRCs is weak. */
static uint32_t mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static bool header_is_right(const uint8_t *header)
{
    return mask(crc32c(0, header, 8)) == get_u32(header + 8);
}

/* ---- reading a file sequentially ---- */

struct record_reader {
    struct source source;
    uint64_t offset; /* file offset of bytes[0] */
    uint8_t *bytes;
    struct index_memory *memory;
    struct plenum_error *err; /* set if an object cannot be read */
    size_t at, have, cap;     /* bytes[at ... have) are read but not yet consumed */
};

/* Get the next `len` bytes, which the file is known to have. Returns 0, with `*ret` valid until the
 * next call.
 */
static int reader_need(struct record_reader *r, size_t len, const uint8_t **ret)
{
    assert(r->at <= r->have && r->have <= r->cap);
    if (r->have - r->at < len) {
        size_t want = len > CHUNK ? len : CHUNK;

        if (r->have > r->at)
            memmove(r->bytes, r->bytes + r->at, r->have - r->at);
        r->offset += r->at;
        r->have -= r->at;
        r->at = 0;
        if (r->cap < want) {
            uint8_t *bytes =
                index_memory_charge(r->memory, want - r->cap) < 0 ? NULL : realloc(r->bytes, want);

            if (!bytes)
                return -ENOMEM;
            r->bytes = bytes;
            r->cap = want;
        }
        while (r->have < len) {
            int64_t n = source_read_some(&r->source, r->bytes + r->have, r->cap - r->have,
                                         r->offset + r->have, r->err);

            if (n <= 0)
                return n < 0 ? (int)n : -ENODATA;
            r->have += (size_t)n;
        }
    }
    assert(r->have - r->at >= len);
    *ret = r->bytes + r->at;
    return 0;
}

/* ---- Examples ---- */

/* Limits the memory of one Example to what a sensible Example of its size needs. */
struct budget {
    size_t left;
    bool memory_is_short; /* the loader is out of memory; otherwise the record is at fault */
};

static void *budget_alloc(void *data, size_t size)
{
    struct budget *b = data;
    void *p;

    if (size > b->left)
        return NULL;
    b->left -= size;
    p = malloc(size);
    b->memory_is_short = b->memory_is_short || !p;
    return p;
}

static void budget_free(void *data, void *pointer)
{
    (void)data;
    free(pointer);
}

/* Returns the maximum memory for an Example of `len` bytes. */
static size_t memory_for(size_t len)
{
    assert(len <= RECORD_MAX);
    return len + min_u64(len * 15, 256 << 20) + (1 << 20);
}

static Example__Example *parse(const uint8_t *data, size_t len, struct budget *budget)
{
    ProtobufCAllocator allocator = {
        .alloc = budget_alloc, .free = budget_free, .allocator_data = budget};

    *budget = (struct budget){.left = memory_for(len)};
    return example__example__unpack(&allocator, len, data);
}

static void discard(Example__Example *example, struct budget *budget)
{
    ProtobufCAllocator allocator = {
        .alloc = budget_alloc, .free = budget_free, .allocator_data = budget};

    if (example)
        example__example__free_unpacked(example, &allocator);
}

static bool key_is(const Example__Entry *entry, const char *key)
{
    return entry->key.len == strlen(key) && memcmp(entry->key.data, key, entry->key.len) == 0;
}

/* Find a feature by name. The last of several with the same name counts, as in any protobuf map. */
static const Example__Feature *find(const Example__Example *example, const char *key)
{
    const Example__Features *features = example->features;

    for (size_t i = features ? features->n_feature : 0; i > 0; i--)
        if (key_is(features->feature[i - 1], key))
            return features->feature[i - 1]->value;
    return NULL;
}

/* Returns the value of a feature with exactly one bytes value, or NULL. */
static const ProtobufCBinaryData *one_bytes(const Example__Feature *feature)
{
    if (!feature || feature->kind_case != EXAMPLE__FEATURE__KIND_BYTES_LIST ||
        feature->bytes_list->n_value != 1)
        return NULL;
    return &feature->bytes_list->value[0];
}

/* List the names of an Example's features, for a user who has to choose. */
static const char *list_features(const Example__Example *example, char *ret, size_t size)
{
    size_t at = 0;

    ret[0] = '\0';
    for (size_t i = 0; example->features && i < example->features->n_feature && at < size; i++) {
        const Example__Entry *e = example->features->feature[i];
        int n = snprintf(ret + at, size - at, "%s%.*s", i ? ", " : "", (int)min_u64(e->key.len, 60),
                         (const char *)e->key.data);

        at += n > 0 ? (size_t)n : 0;
    }
    return ret[0] ? ret : "none";
}

/* Find the image in its record. protobuf-c returns a copy, so we search the record for the copy's
 * first bytes, and compare the rest. */
static const uint8_t *find_bytes(const uint8_t *data, size_t len, const ProtobufCBinaryData *image)
{
    const uint8_t *p = data, *end = data + len;

    if (image->len == 0)
        return data;
    for (int i = 0; i < PROBES_MAX; i++) {
        p = memmem(p, (size_t)(end - p), image->data, min_u64(image->len, PROBE));
        if (!p || (size_t)(end - p) < image->len)
            return NULL;
        if (memcmp(p, image->data, image->len) == 0)
            return p;
        p++;
    }
    return memmem(p, (size_t)(end - p), image->data, image->len); /* slow, but in linear time */
}

struct keys {
    const char *image, *label, *name; /* if label is NULL, all labels are 0 */
};

/* Returns the names of features from the data set's settings, or TensorFlow's usual names. */
static struct keys keys_of(const struct dataset *d)
{
    return (struct keys){.image = dataset_setting(d, "image", "image/encoded"),
                         .label = dataset_has_images(d)
                                      ? dataset_setting(d, "label", "image/class/label")
                                      : dataset_setting(d, "label", NULL),
                         .name = dataset_setting(d, "name", "image/filename")};
}

/* Print the value of a feature with exactly one number. Returns the length of the text, or 0. */
static size_t print_number(const Example__Feature *feature, char *ret, size_t size)
{
    if (feature && feature->kind_case == EXAMPLE__FEATURE__KIND_INT64_LIST &&
        feature->int64_list->n_value == 1)
        return (size_t)snprintf(ret, size, "%lld", (long long)feature->int64_list->value[0]);
    if (feature && feature->kind_case == EXAMPLE__FEATURE__KIND_FLOAT_LIST &&
        feature->float_list->n_value == 1)
        return number_print((double)feature->float_list->value[0], 9, ret, size);
    return 0;
}

/* Add the label as text, whatever its type. Returns -EINVAL if there is none. */
static int64_t add_label(struct archive *a, const Example__Feature *feature, uint64_t offset)
{
    const ProtobufCBinaryData *text = one_bytes(feature);
    size_t len = text ? text->len : 0;
    char number[64];
    int64_t r;

    if (!text)
        len = print_number(feature, number, sizeof(number));
    if (len == 0)
        return -EINVAL;
    r = index_builder_add_label(&a->builder, LABEL_VALUE, text ? (const char *)text->data : number,
                                len, &a->err);
    if (r == -EBADMSG)
        return error_prefix(&a->err, -EBADMSG, "%s: the label of the record at byte %llu", a->path,
                            (unsigned long long)offset);
    return r;
}

/* Copy as much of the sample's name as fits; it may be missing (NULL). Rejects names with zero
 * bytes. */
static int copy_name(struct archive *a, const ProtobufCBinaryData *name, const char *key,
                     uint64_t offset, char *ret, size_t size)
{
    size_t len = name ? min_u64(name->len, size - 1) : 0;

    if (len > 0 && memchr(name->data, '\0', name->len))
        return error_set(&a->err, -EBADMSG,
                         "%s: the name of the record at byte %llu, its feature '%s', contains zero "
                         "bytes: names must be text (choose another feature with name=FEATURE)",
                         a->path, (unsigned long long)offset, key);
    if (len > 0)
        memcpy(ret, name->data, len);
    ret[len] = '\0';
    return 0;
}

/* Add the sample of a record with a correct checksum. */
static int add_example(struct archive *a, const struct keys *keys, const Example__Example *example,
                       const uint8_t *data, size_t len, uint64_t offset)
{
    const ProtobufCBinaryData *image = one_bytes(find(example, keys->image));
    const ProtobufCBinaryData *name = one_bytes(find(example, keys->name));
    struct index_sample sample = {.where = offset};
    const uint8_t *found = image ? find_bytes(data, len, image) : NULL;
    bool has_image = dataset_has_images(a->dataset);
    char list[256], text[256] = "";
    int64_t r;

    if (!found && has_image)
        return error_set(&a->err, -EBADMSG,
                         "%s: the record at byte %llu has no feature '%s' with exactly one byte "
                         "string; its features: %s (choose one with image=FEATURE)",
                         a->path, (unsigned long long)offset, keys->image,
                         list_features(example, list, sizeof(list)));
    r = keys->label ? add_label(a, find(example, keys->label), offset) : -1;
    if (r == -EBADMSG)
        return -EBADMSG;
    if (r == -EINVAL)
        return error_set(&a->err, -EBADMSG,
                         "%s: the record at byte %llu has no label: no feature '%s' with exactly "
                         "one number or text; its features: %s (choose one with label=FEATURE)",
                         a->path, (unsigned long long)offset, keys->label,
                         list_features(example, list, sizeof(list)));
    assert(!has_image || (found >= data && image->len <= len - (size_t)(found - data)));
    if (r >= 0 || !keys->label) {
        sample.label = (int32_t)r;
        sample.len = (uint32_t)(has_image ? image->len : len);
        sample.extra = has_image ? (uint32_t)(found - data) : 0;
        if (copy_name(a, name, keys->name, offset, text, sizeof(text)) < 0)
            return -EBADMSG;
        r = index_builder_add_sample(&a->builder, &sample, text);
    }
    return r < 0 ? error_set(&a->err, (int)r, "%s: out of memory", a->path) : 0;
}

/* Add a bad record: it counts as a sample. */
static int add_bad(struct archive *a, uint64_t offset, uint64_t len)
{
    int64_t r = index_builder_add_sample(
        &a->builder,
        &(struct index_sample){.where = offset,
                               .len = (uint32_t)min_u64(max_u64(len, 1), UINT32_MAX),
                               .label = -1,
                               .flags = INDEX_BAD},
        "");

    return r < 0 ? error_set(&a->err, (int)r, "%s: out of memory", a->path) : 0;
}

static int add_record(struct archive *a, const struct keys *keys, const uint8_t *data, size_t len,
                      uint64_t offset)
{
    Example__Example *example;
    struct budget budget;
    int r;

    if (mask(crc32c(0, data, len)) != get_u32(data + len))
        return add_bad(a, offset, len);
    if (index_memory_charge(a->builder.memory, memory_for(len)) < 0)
        return error_set(&a->err, -ENOMEM, "%s: out of memory", a->path);
    example = parse(data, len, &budget);
    if (!example)
        index_memory_refund(a->builder.memory, memory_for(len));
    if (!example && budget.memory_is_short)
        return error_set(&a->err, -ENOMEM, "%s: out of memory", a->path);
    if (!example)
        return error_set(&a->err, -EBADMSG, "%s: the record at byte %llu is not a tf.train.Example",
                         a->path, (unsigned long long)offset);
    r = add_example(a, keys, example, data, len, offset);
    discard(example, &budget);
    index_memory_refund(a->builder.memory, memory_for(len));
    return r;
}

static int cut(struct archive *a, uint64_t offset)
{
    return error_set(&a->err, -EBADMSG,
                     "%s ends in the middle of the record that begins at byte %llu: it was cut "
                     "off; copy it again",
                     a->path, (unsigned long long)offset);
}

static int scan_records(struct archive *a, struct record_reader *reader)
{
    struct keys keys = keys_of(a->dataset);
    uint64_t offset = 0, len = 0;
    const uint8_t *p;
    int r;

    for (; offset < a->size; offset += HEADER + len + TRAILER) {
        r = dataset_check_cancel(a->options);
        if (r < 0)
            return r;
        if (a->size - offset < HEADER + TRAILER)
            return cut(a, offset);
        r = reader_need(reader, HEADER, &p);
        if (r < 0)
            goto fail;
        if (!header_is_right(p))
            return error_set(&a->err, -EBADMSG,
                             offset ? "%s is damaged: the length of the record at byte %llu has a "
                                      "wrong checksum, so the rest of the file cannot be found"
                                    : "%s is not a TFRecord file, or it is compressed or damaged: "
                                      "the length at byte %llu has a wrong checksum",
                             a->path, (unsigned long long)offset);
        len = get_u64(p);
        if (len > a->size - offset - HEADER - TRAILER)
            return cut(a, offset);
        if (len > RECORD_MAX) {
            r = add_bad(a, offset, len);
            *reader = (struct record_reader){.source = reader->source,
                                             .err = reader->err,
                                             .offset = offset + HEADER + len + TRAILER,
                                             .memory = reader->memory,
                                             .bytes = reader->bytes,
                                             .cap = reader->cap};
        } else {
            reader->at += HEADER;
            r = reader_need(reader, len + TRAILER, &p);
            if (r < 0)
                goto fail;
            r = add_record(a, &keys, p, len, offset);
            assert(reader->have - reader->at >= len + TRAILER);
            reader->at += len + TRAILER;
        }
        if (r < 0)
            goto fail;
        (void)atomic_fetch_add(a->progress, HEADER + len + TRAILER);
    }
    return 0;

fail:
    if (!a->err.text[0])
        return error_set(&a->err, r == -ENODATA ? -ESTALE : r, "%s: %s", a->path,
                         r == -ENODATA ? "it became shorter while it was read" : strerror(-r));
    return r;
}

static int scan_file(struct archive *a)
{
    struct record_reader reader = {
        .source = a->source, .err = &a->err, .memory = a->builder.memory};
    int r = scan_records(a, &reader);

    index_memory_refund(reader.memory, reader.cap);
    free(reader.bytes);
    return r;
}

/* Append the files, then settle their labels. */
static int merge(struct archive *files, size_t count, struct index_builder *b,
                 struct plenum_error *err)
{
    int r = archive_append(files, count, b, err);

    return r < 0 ? r : index_builder_settle_labels(b, err);
}

static int tfrecord_scan(const struct dataset *dataset, const struct dataset_options *options,
                         struct index_builder *b, struct plenum_error *err)
{
    struct archive_work work = {.scan = scan_file, .merge = merge};
    int r = keys_of(dataset).label ? 0 : dataset_refuse_classes(dataset, err);

    return r < 0 ? r : archive_scan(dataset, options, &work, b, err);
}

/* ---- reading one sample ---- */

/* The parts of a record around its image. */
struct record_pieces {
    uint8_t header[HEADER];
    uint8_t *before; /* [sample->extra] */
    uint8_t *after;  /* [after_len]: the rest of the data, and the CRC */
    size_t after_len;
    uint8_t small_before[TAIL], small_after[TAIL];
};

static void pieces_fini(struct record_pieces *p)
{
    if (p->before != p->small_before)
        free(p->before);
    if (p->after != p->small_after)
        free(p->after);
}

/* Returns how many bytes of a record are read in one call: up to TAIL bytes after the image. */
static uint64_t piece_bytes(const struct index_sample *s)
{
    return (uint64_t)HEADER + s->extra + s->len + TAIL;
}

/* Read the pieces of a record from a file. Returns the number of bytes, or -errno. */
static int64_t read_file_pieces(int fd, const struct index_sample *s, struct iovec iov[4])
{
    uint64_t at = s->where;
    ssize_t got = preadv(fd, iov, 4, (off_t)at);

    if (got < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    if ((uint64_t)got >= piece_bytes(s) - TAIL)
        return got;
    for (int i = 0; i < 3; i++) { /* the file system returned fewer bytes than requested */
        int r = io_pread_all(fd, iov[i].iov_base, iov[i].iov_len, at);

        if (r < 0)
            return r;
        at += iov[i].iov_len;
    }
    return (int64_t)(at - s->where);
}

/* Like read_file_pieces(), but from an object, with one request. */
static int64_t read_object_pieces(const struct source *source, const struct index_sample *s,
                                  struct iovec iov[4], struct plenum_error *err)
{
    size_t len = piece_bytes(s);
    uint8_t *all = malloc(len), *at = all;
    int64_t got = all ? source_read_some(source, all, len, s->where, err) : -ENOMEM, left = got;

    for (int i = 0; i < 4 && left > 0; i++) {
        size_t n = min_u64(iov[i].iov_len, (uint64_t)left);

        memcpy(iov[i].iov_base, at, n);
        at += n;
        left -= (int64_t)n;
    }
    free(all);
    return got >= 0 && (uint64_t)got < len - TAIL ? -EBADMSG : got;
}

/* Read the header, the bytes before the image, the image, and up to TAIL bytes after it, in one
 * call. */
static int read_pieces(const struct source *source, const struct index_sample *s,
                       struct dataset_buffer *buffer, struct record_pieces *p,
                       struct plenum_error *err)
{
    uint64_t image_at = s->where + HEADER + s->extra, after_at = image_at + s->len, len;
    struct iovec iov[4] = {{p->header, HEADER}, {NULL, s->extra}, {NULL, s->len}, {NULL, TAIL}};
    size_t need = (size_t)HEADER + s->extra + s->len;
    int64_t got;
    int r;

    p->after = p->small_after;
    p->before = s->extra <= TAIL ? p->small_before : malloc(s->extra);
    if (!p->before)
        return -ENOMEM;
    r = dataset_buffer_reserve(buffer, s->len);
    if (r < 0)
        return r;
    iov[1].iov_base = p->before;
    iov[2].iov_base = buffer->bytes;
    iov[3].iov_base = p->after;
    got = source->object ? read_object_pieces(source, s, iov, err)
                         : read_file_pieces(source->fd, s, iov);
    if (got < 0)
        return (int)got;
    if (!header_is_right(p->header))
        return -EBADMSG;
    len = get_u64(p->header);
    if (len < (uint64_t)s->extra + s->len || len > RECORD_MAX)
        return -EBADMSG;
    p->after_len = len - s->extra - s->len + TRAILER;
    assert((size_t)got >= need && p->after_len >= TRAILER);
    if ((size_t)got - need >= p->after_len)
        return 0;
    if (p->after_len > TAIL) {
        p->after = malloc(p->after_len);
        if (!p->after)
            return -ENOMEM;
    }
    return source_read(source, p->after, p->after_len, after_at, err);
}

static void tfrecord_announce(const struct dataset *dataset, const struct index_sample *s)
{
    uint64_t len = piece_bytes(s), size = dataset->index.containers[s->container].stamp.size;

    if (dataset->remote)
        archive_announce_range(dataset, s, s->where, min_u64(len, size - s->where));
    else
        archive_announce(dataset, s);
}

static bool data_is_right(const struct index_sample *s, const struct dataset_buffer *image,
                          const struct record_pieces *p)
{
    uint32_t crc = crc32c(0, p->before, s->extra);

    assert(p->after_len >= TRAILER);
    crc = crc32c(crc, image->bytes, s->len);
    crc = crc32c(crc, p->after, p->after_len - TRAILER);
    return mask(crc) == get_u32(p->after + p->after_len - TRAILER);
}

static void tfrecord_describe(const struct dataset *dataset, const struct index_sample *sample,
                              char *ret, size_t size)
{
    const char *name = index_name(&dataset->index, sample->name);
    size_t n = archive_path(dataset, sample, ret, size);

    if (*name)
        (void)snprintf(ret + n, size - n, ", %s", name);
    else
        (void)snprintf(ret + n, size - n, ", record at byte %llu",
                       (unsigned long long)sample->where);
}

static int wrong_checksum(const struct dataset *d, const struct index_sample *s,
                          struct plenum_error *err)
{
    char path[8192];

    (void)archive_path(d, s, path, sizeof(path));
    return error_set(err, -EBADMSG, "%s: the record at byte %llu is damaged: its checksum is wrong",
                     path, (unsigned long long)s->where);
}

static int read_failed(const struct dataset *d, const struct index_sample *s, int r,
                       struct plenum_error *err)
{
    if (r == -ENOMEM)
        return error_set(err, r, "out of memory");
    return archive_read_failed(d, s, r, "the file has become shorter", err);
}

static int tfrecord_read(const struct dataset *dataset, const struct index_sample *sample,
                         struct dataset_buffer *buffer, struct plenum_error *err)
{
    struct record_pieces p;
    struct source source;
    int r = archive_open(dataset, sample, &source, err);

    if (r < 0)
        return r;
    if (sample->flags & INDEX_BAD) {
        archive_close(dataset, sample, &source);
        return wrong_checksum(dataset, sample, err);
    }
    p.before = p.after = NULL;
    r = read_pieces(&source, sample, buffer, &p, err);
    archive_close(dataset, sample, &source);
    if (r == 0 && !data_is_right(sample, buffer, &p))
        r = -EBADMSG;
    if (p.before)
        pieces_fini(&p);
    if (r == -EBADMSG)
        return wrong_checksum(dataset, sample, err);
    return r < 0 ? read_failed(dataset, sample, r, err) : 0;
}

/* ---- the other features ---- */

static void tell_feature(const Example__Entry *e, dataset_field *field, void *arg)
{
    const Example__Feature *f = e->value;
    char key[FIELD_SOURCE_MAX], text[64];
    int n;

    if (e->key.len >= sizeof(key) || (e->key.len > 0 && memchr(e->key.data, '\0', e->key.len)))
        return; /* such a name cannot be requested as a field */
    (void)snprintf(key, sizeof(key), "%.*s", (int)e->key.len, (const char *)e->key.data);
    if (f && f->kind_case == EXAMPLE__FEATURE__KIND_BYTES_LIST)
        for (size_t i = 0; i < f->bytes_list->n_value; i++)
            field(arg, key, f->bytes_list->value[i].data, f->bytes_list->value[i].len, false);
    if (f && f->kind_case == EXAMPLE__FEATURE__KIND_INT64_LIST)
        for (size_t i = 0; i < f->int64_list->n_value; i++) {
            n = snprintf(text, sizeof(text), "%lld", (long long)f->int64_list->value[i]);
            field(arg, key, text, (size_t)n, true);
        }
    if (f && f->kind_case == EXAMPLE__FEATURE__KIND_FLOAT_LIST)
        for (size_t i = 0; i < f->float_list->n_value; i++)
            field(arg, key, text,
                  number_print((double)f->float_list->value[i], 9, text, sizeof(text)), true);
}

/* Read the data of a whole record (malloc). Returns 0, -EBADMSG if a checksum is wrong, or another
 * -errno. */
static int read_record(const struct source *source, const struct index_sample *sample,
                       uint8_t **ret, uint64_t *ret_len, struct plenum_error *err)
{
    uint8_t header[HEADER], *data;
    uint64_t len;
    int r = source_read(source, header, HEADER, sample->where, err);

    if (r < 0)
        return r;
    if (!header_is_right(header) || get_u64(header) > RECORD_MAX)
        return -EBADMSG;
    len = get_u64(header);
    data = malloc(len + TRAILER);
    if (!data)
        return -ENOMEM;
    r = source_read(source, data, len + TRAILER, sample->where + HEADER, err);
    if (r < 0)
        goto fail;
    if (mask(crc32c(0, data, len)) != get_u32(data + len)) {
        r = -EBADMSG;
        goto fail;
    }
    *ret = data;
    *ret_len = len;
    return 0;

fail:
    free(data);
    return r;
}

/* Parsing takes many times the memory of the record. To keep the memory of a loader independent of
 * the number of its reading threads, these take turns in parsing records larger than LARGE. The
 * lock is taken after reading, so storage that hangs does not block other threads. No other lock is
 * taken while it is held. */
static struct lock large_record = LOCK_INITIALIZER;

/* Call `field` for each feature of an Example except its image. */
static void tell_features(const struct dataset *dataset, const Example__Example *example,
                          dataset_field *field, void *arg)
{
    struct keys keys = keys_of(dataset);

    for (size_t i = 0; example->features && i < example->features->n_feature; i++)
        if (!key_is(example->features->feature[i], keys.image))
            tell_feature(example->features->feature[i], field, arg);
}

/* Record the memory used to read and parse a record. */
static void note_memory(struct field_memory *memory, size_t len, const struct budget *budget)
{
    uint64_t parsed = memory_for(len) - budget->left;

    assert(budget->left <= memory_for(len));
    memory->each = max_u64(memory->each, len + TRAILER + (len > LARGE ? 0 : parsed));
    memory->turn = max_u64(memory->turn, len > LARGE ? parsed : 0);
}

/* Parse an Example and pass its fields on. Returns 0, -ENOMEM, or -EBADMSG if the data is not an
 * Example. */
static int parse_fields(const struct dataset *dataset, const uint8_t *data, size_t len,
                        dataset_field *field, void *arg, struct field_memory *memory)
{
    struct budget budget = {0};
    Example__Example *example;

    if (len > LARGE)
        lock_acquire(&large_record);
    example = parse(data, len, &budget);
    if (memory)
        note_memory(memory, len, &budget);
    if (example) {
        tell_features(dataset, example, field, arg);
        discard(example, &budget);
    }
    if (len > LARGE)
        lock_release(&large_record);
    if (example)
        return 0;
    return budget.memory_is_short ? -ENOMEM : -EBADMSG;
}

static int tfrecord_fields(const struct dataset *dataset, const struct index_sample *sample,
                           dataset_field *field, void *arg, struct field_memory *memory,
                           struct plenum_error *err)
{
    uint8_t *data = NULL;
    uint64_t len = 0;
    struct source source;
    int r = archive_open(dataset, sample, &source, err);

    if (r < 0)
        return r;
    r = sample->flags & INDEX_BAD ? -EBADMSG : read_record(&source, sample, &data, &len, err);
    archive_close(dataset, sample, &source);
    if (r < 0 && r != -EBADMSG) {
        r = read_failed(dataset, sample, r, err);
        goto out;
    }
    if (r == 0)
        r = parse_fields(dataset, data, len, field, arg, memory);
    if (r == -ENOMEM)
        r = error_set(err, r, "out of memory");
    else if (r < 0)
        r = wrong_checksum(dataset, sample, err);

out:
    free(data);
    return r;
}

static bool tfrecord_recognise(const struct path_probe *probe)
{
    return S_ISREG(probe->st.st_mode) && probe->head_len >= HEADER && header_is_right(probe->head);
}

static const char *const patterns[] = {"*.tfrecord", "*.tfrecords", "*-of-*",
                                       "*.tfrec",    "*.record",    "*.records"};

static const struct format_setting settings[] = {
    ARCHIVE_SETTINGS,
    {"image", "the feature with the encoded image (image/encoded); none: no images"},
    {"label", "the feature with the class (image/class/label)"},
    {"name", "the feature with the file's name (image/filename)"},
};

const struct format format_tfrecord = {
    .name = "tfrecord",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .patterns = patterns,
    .num_patterns = ARRAY_LEN(patterns),
    .remote = true,
    .recognise = tfrecord_recognise,
    .locate = archive_locate,
    .scan = tfrecord_scan,
    .fresh = archive_fresh,
    .read = tfrecord_read,
    .announce = tfrecord_announce,
    .describe = tfrecord_describe,
    .fields = tfrecord_fields,
};
