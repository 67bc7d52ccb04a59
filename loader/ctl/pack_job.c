/* SPDX-License-Identifier: MIT */
/* pack_job.c - packs samples in many threads, and writes one archive at a time.
 *
 *     sample i -> a thread: read, pack, prove -> slot i mod window
 *              -> the thread that fills the next slot to write writes it, and ready ones after it
 *
 * A thread that is too far ahead of the writer waits. So samples keep their order, memory is
 * bounded, and all threads have work, regardless of the number of archives. A killed process leaves
 * only one half-written archive, named NAME.partial, which the next run overwrites. */
#include "config.h"

#include "loader/ctl/pack_job.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"
#include "loader/image/image.h"

_Static_assert((int)PACK_RAW_MAX <= (int)DATASET_SAMPLE_MAX, "all raw pixels can be read");

enum {
    WINDOW_EACH = 16, /* slots for each thread */
    PATH_BYTES = 4096,
    NAME_TRIES = 8,
};

/* A sample that is packed but not written yet. */
struct slot {
    bool ready;
    struct dataset_buffer raw; /* the sample's file, if it is kept unchanged */
    uint64_t bytes_before;
    struct pack_result result;
    struct plenum_error why; /* why the file is kept unchanged */
    const char *extension;   /* for its format; NULL: the format is unknown */
    char *objects;           /* JSON of its annotations, malloc; NULL: it has none */
};

/* The archive that is being written. Owned by the thread that writes. */
struct pack_output {
    struct tar_writer *writer;
    char *path, *partial;
    char **keys; /* [samples], names of the members */
    uint32_t done;
    struct pack_sum sum;
};

struct pack_job {
    const struct pack_job_options *options;
    uint32_t *missing; /* archives still to be created */
    uint32_t num_missing;
    uint64_t total; /* samples in these archives */
    struct image_decoder **decoders;
    struct dataset_buffer *buffers; /* [threads] */
    unsigned threads;
    uint32_t window;
    struct pack_output output;
    uint32_t made;
    /* Used by any thread, while it holds mu. */
    struct lock mu;
    pthread_cond_t space; /* signalled when something was written, or writing failed */
    struct slot *slots;   /* [window] */
    uint64_t written; /* samples written; the slot of the sample with this number is written next */
    bool writing;
    int code; /* the first failure, which `err` describes */
    struct plenum_error err;
};

static char *archive_path(const struct pack_job *job, uint32_t archive, const char *end)
{
    return str_format("%s/%s-%06u.tar%s", job->options->folder, job->options->plan->prefix, archive,
                      end);
}

/* --- names of members --- */

/* Returns the key of a sample as WebDataset defines it: its path without the extension. Other dots
 * in the last component become "_", and ".." becomes "__". */
static char *make_key(const char *path)
{
    char *key = malloc(strlen(path) + 2), *to = key, *base, *dot;

    if (!key)
        return NULL;
    while (*path) {
        size_t len = strcspn(path, "/");

        if (len > 0 && !(len == 1 && *path == '.')) {
            if (to > key)
                *to++ = '/';
            /* Replace "..", which would lead out of the folder in which the archive is unpacked. */
            to = len == 2 && memcmp(path, "..", 2) == 0 ? stpcpy(to, "__") : mempcpy(to, path, len);
        }
        path += len + (path[len] == '/');
    }
    *to = 0;
    base = strrchr(key, '/');
    base = base ? base + 1 : key;
    dot = strrchr(base, '.');
    if (dot)
        *dot = 0;
    while ((dot = strchr(base, '.')))
        *dot = '_';
    if (!*base)
        (void)strcpy(base, "_");
    return key;
}

struct named {
    const char *key;
    uint32_t index;
};

static int compare_named(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = strcmp(x->key, y->key);

    return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Append the sample's number to each key that an earlier sample also has. Returns 1 if there were
 * such keys, 0 if not, or -ENOMEM. */
static int part_equal_keys(char **keys, uint32_t count, uint32_t first)
{
    struct named *sorted = malloc(count * sizeof(*sorted));
    int found = 0;

    if (!sorted)
        return -ENOMEM;
    assert(count > 0); /* no archive is empty */
    for (uint32_t i = 0; i < count; i++)
        sorted[i] = (struct named){keys[i], i};
    qsort(sorted, count, sizeof(*sorted), compare_named);
    for (uint32_t i = count - 1; i > 0 && found >= 0; i--) {
        uint32_t index = sorted[i].index;
        char *longer;

        if (strcmp(sorted[i - 1].key, sorted[i].key) != 0)
            continue;
        longer = str_format("%s-%u", keys[index], first + index);
        found = longer ? 1 : -ENOMEM;
        if (longer) {
            free(keys[index]);
            keys[index] = longer;
        }
    }
    free(sorted);
    return found;
}

static int make_keys(const struct pack_job *job, uint32_t archive, char **keys)
{
    uint32_t first = archive * job->options->plan->per_archive;
    uint32_t count = pack_plan_count(job->options->plan, archive);
    char path[PATH_BYTES];
    int r = 1;

    assert(count <= job->options->plan->samples - first);
    for (uint32_t i = 0; i < count; i++) {
        keys[i] =
            make_key(dataset_get_sample_path(job->options->source, first + i, path, sizeof(path)));
        if (!keys[i])
            return -ENOMEM;
    }
    for (int i = 0; i < NAME_TRIES && r > 0; i++)
        r = part_equal_keys(keys, count, first);
    return r > 0 ? -EINVAL : r;
}

/* --- writing --- */

static void output_fini(struct pack_output *o, uint32_t per_archive)
{
    tar_writer_destroy(o->writer);
    for (uint32_t i = 0; o->keys && i < per_archive; i++)
        free(o->keys[i]);
    free(o->keys);
    free(o->path);
    free(o->partial);
    *o = (struct pack_output){0};
}

static int begin_archive(struct pack_job *job, uint32_t archive, struct plenum_error *err)
{
    struct pack_output *o = &job->output;
    int r;

    assert(!o->writer && !o->keys); /* the previous archive has ended */
    o->path = archive_path(job, archive, "");
    o->partial = archive_path(job, archive, ".partial");
    o->keys = calloc(job->options->plan->per_archive, sizeof(*o->keys));
    if (!o->path || !o->partial || !o->keys)
        return error_set(err, -ENOMEM, "out of memory");
    r = make_keys(job, archive, o->keys);
    if (r < 0)
        return error_set(err, r, "%s: cannot find unique names for its members", o->path);
    return tar_writer_create(o->partial, &o->writer, err);
}

/* Record the archive, and then rename it to its final name. */
static int end_archive(struct pack_job *job, uint32_t archive, struct plenum_error *err)
{
    struct pack_output *o = &job->output;
    struct tar_written written;
    int r = tar_writer_finish(o->writer, &written, err);

    if (r < 0)
        return r;
    r = pack_record_add(job->options->record, archive, &written, &o->sum, err);
    if (r < 0)
        return r;
    if (rename(o->partial, o->path) < 0)
        return error_set(err, -errno, "cannot rename %s: %s", o->partial, strerror(errno));
    job->made++;
    output_fini(o, job->options->plan->per_archive);
    return 0;
}

/* Returns the extension for a member whose format is unknown. */
static const char *default_extension(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot && strcasecmp(dot, ".png") == 0 ? ".png" : ".jpg";
}

/* Write a member of text: KEY and `end`. */
static int write_text(struct pack_job *job, const char *end, const char *text,
                      struct plenum_error *err)
{
    struct pack_output *o = &job->output;
    char *name = str_format("%s%s", o->keys[o->done], end);
    int r = name ? tar_writer_add(o->writer, name, text, strlen(text), err)
                 : error_set(err, -ENOMEM, "out of memory");

    free(name);
    return r;
}

static int write_members(struct pack_job *job, const struct slot *slot, uint32_t sample,
                         struct plenum_error *err)
{
    struct pack_output *o = &job->output;
    const char *key = o->keys[o->done];
    bool packed = slot->result.bytes != NULL;
    const uint8_t *bytes = packed ? slot->result.bytes : slot->raw.bytes;
    size_t len = packed ? slot->result.len : slot->raw.len;
    char source[PATH_BYTES], label[32];
    char *name;
    int r = -ENOMEM;

    assert(o->writer && key);
    (void)dataset_get_sample_path(job->options->source, sample, source, sizeof(source));
    name = str_format("%s%s", key, slot->extension ? slot->extension : default_extension(source));
    if (name)
        r = tar_writer_add(o->writer, name, bytes, len, err);
    free(name);
    if (r < 0)
        return r == -ENOMEM ? error_set(err, r, "out of memory") : r;
    (void)snprintf(label, sizeof(label), "%lld",
                   (long long)dataset_get_label(job->options->source, sample));
    r = write_text(job, ".cls", label, err);
    return r == 0 && slot->objects ? write_text(job, ".json", slot->objects, err) : r;
}

static int account(struct pack_job *job, const struct slot *slot, uint32_t sample,
                   struct plenum_error *err)
{
    struct pack_sum *sum = &job->output.sum;
    enum pack_outcome outcome = slot->result.outcome;
    struct plenum_error why;
    char path[PATH_BYTES];

    assert(slot->ready && outcome < PACK_OUTCOMES);
    sum->samples++;
    sum->bytes_before += slot->bytes_before;
    sum->bytes_after += slot->result.bytes ? slot->result.len : slot->raw.len;
    sum->outcomes[outcome]++;
    sum->whole_row += slot->result.bytes && slot->result.whole_row;
    if (outcome != PACK_KEPT_BAD && outcome != PACK_KEPT_ODD)
        return 0;
    (void)dataset_get_sample_name(job->options->source, sample, path, sizeof(path));
    why = slot->why;
    ctl_strip_name(&why, path);
    if (pack_record_keep(job->options->record, sample, outcome, path, why.text) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    return 0;
}

/* Returns the sample that a turn packs, and sets `*archive` to its archive, one of the missing
 * ones. */
static uint32_t sample_of(const struct pack_job *job, uint64_t turn, uint32_t *archive)
{
    uint32_t each = job->options->plan->per_archive;

    assert(turn / each < job->num_missing);
    *archive = job->missing[turn / each];
    return *archive * each + (uint32_t)(turn % each);
}

static int write_slot(struct pack_job *job, const struct slot *slot, uint64_t turn,
                      struct plenum_error *err)
{
    uint32_t archive, sample = sample_of(job, turn, &archive);
    int r;

    if (job->output.done == 0) {
        r = begin_archive(job, archive, err);
        if (r < 0)
            return r;
    }
    r = write_members(job, slot, sample, err);
    if (r < 0)
        return r;
    r = account(job, slot, sample, err);
    if (r < 0)
        return r;
    job->output.done++;
    assert(job->output.done <= pack_plan_count(job->options->plan, archive));
    return job->output.done == pack_plan_count(job->options->plan, archive)
               ? end_archive(job, archive, err)
               : 0;
}

static void slot_clear(struct slot *slot)
{
    free(slot->result.bytes);
    free(slot->objects);
    slot->result = (struct pack_result){0};
    slot->objects = NULL;
    slot->ready = false;
}

/* Write the slots that are ready, in order. Call it with the lock held; it is released while
 * writing. */
static void write_ready(struct pack_job *job)
{
    struct plenum_error err;

    assert(lock_is_held(&job->mu));
    if (job->writing)
        return;
    job->writing = true;
    while (job->code == 0 && job->slots[job->written % job->window].ready) {
        struct slot *slot = &job->slots[job->written % job->window];
        int r;

        assert(job->written < job->total);
        lock_release(&job->mu);
        r = write_slot(job, slot, job->written, &err);
        lock_acquire(&job->mu);
        slot_clear(slot);
        job->written++;
        if (r < 0 && job->code == 0) {
            job->code = r;
            job->err = err;
        }
        (void)pthread_cond_broadcast(&job->space);
    }
    job->writing = false;
}

/* --- packing --- */

/* Returns the extension for a file's format, or NULL if the format is unknown or this build cannot
 * decode it, because a data set would skip a member with that extension. */
static const char *extension_of(const struct image_decoder *decoder, const struct slot *slot,
                                const struct dataset_buffer *kept)
{
    const uint8_t *bytes = slot->result.bytes ? slot->result.bytes : kept->bytes;
    size_t len = slot->result.bytes ? slot->result.len : kept->len;
    const char *extension = image_extension(decoder, bytes, len);

    return extension && dataset_is_image_extension(extension) ? extension : NULL;
}

/* An object of JSON while it is written. */
struct pack_json {
    char *text;
    size_t len, cap;
    bool failed;
};

/* Add a field of a detection data set, which is JSON. */
static void add_member(void *arg, const char *key, const void *value, size_t len, bool exact)
{
    struct pack_json *j = arg;
    size_t more = strlen(key) + len + 6;

    (void)exact;
    j->failed = j->failed || array_reserve(&j->text, &j->cap, j->len + more, 1) < 0;
    if (!j->failed)
        j->len += (size_t)snprintf(j->text + j->len, more, "%c\"%s\":%.*s", j->len ? ',' : '{', key,
                                   (int)len, (const char *)value);
}

/* Copy the annotations of a sample of a detection data set. If they are malformed, the packed
 * sample has none, and so is as bad. */
static int copy_objects(const struct pack_job *job, uint32_t sample, char **ret,
                        struct plenum_error *err)
{
    struct pack_json j = {.len = 0};
    int r = dataset_fields(job->options->source, sample, add_member, &j, err);

    if (r == 0 && j.failed)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r < 0) {
        free(j.text);
        return r == -EBADMSG ? 0 : r;
    }
    memcpy(j.text + j.len, "}", 2); /* add_member() leaves room */
    *ret = j.text;
    return 0;
}

/* Read and pack one sample; its file stays in the buffer. */
static int pack_sample(struct pack_job *job, uint32_t sample, unsigned thread, struct slot *ret,
                       struct plenum_error *err)
{
    const struct pack_resize *resize = &job->options->plan->resize;
    struct dataset_buffer *buffer = &job->buffers[thread];
    int r = 0;

    assert(thread < job->threads);
    *ret = (struct slot){.ready = true};
    if (!job->decoders[thread] && image_decoder_create(&job->decoders[thread]) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    r = dataset_read(job->options->source, sample, buffer, err);
    if (r == -EBADMSG) { /* empty, or too large to be read: the sample keeps its position */
        ret->result.outcome = PACK_KEPT_BAD;
        ret->why = *err;
        buffer->len = 0;
        return 0;
    }
    if (r < 0)
        return r;
    ret->bytes_before = buffer->len;
    r = (pack_resize_is_raw(resize, sample) ? image_pack_raw : image_pack_resized)(
        job->decoders[thread], resize, &(struct image_file){buffer->bytes, buffer->len},
        &ret->result, &ret->why);
    if (r < 0) {
        *err = ret->why;
        return r;
    }
    ret->extension = extension_of(job->decoders[thread], ret, buffer);
    if (dataset_has_object_classes(job->options->source))
        r = copy_objects(job, sample, &ret->objects, err);
    if (r < 0)
        slot_clear(ret);
    return r;
}

static void fail(struct pack_job *job, int code, const struct plenum_error *err)
{
    assert(lock_is_held(&job->mu));
    if (job->code == 0) {
        job->code = code;
        job->err = *err;
    }
    (void)pthread_cond_broadcast(&job->space);
}

static int turn(void *arg, uint64_t index, unsigned thread)
{
    struct pack_job *job = arg;
    struct plenum_error err = {""};
    struct slot made, *slot = &job->slots[index % job->window];
    uint32_t archive, sample = sample_of(job, index, &archive);
    int r = pack_sample(job, sample, thread, &made, &err);

    lock_acquire(&job->mu);
    if (r < 0)
        fail(job, r, &err);
    while (job->code == 0 && index >= job->written + job->window)
        lock_wait(&job->mu, &job->space);
    if (job->code == 0) {
        assert(!slot->ready && !slot->result.bytes); /* its previous sample has been written */
        made.raw = slot->raw;
        /* If the file is kept unchanged, move it into the slot, and reuse the slot's memory. */
        if (!made.result.bytes) {
            made.raw = job->buffers[thread];
            job->buffers[thread] = slot->raw;
        }
        *slot = made;
        write_ready(job);
    } else if (r >= 0) {
        slot_clear(&made);
    }
    r = job->code;
    lock_release(&job->mu);
    return r;
}

static void show_progress(void *arg, uint64_t done, uint64_t total)
{
    struct pack_job *job = arg;

    job->options->progress(NULL, "packing", done, total);
}

/* --- the job --- */

/* Returns 1 if an archive exists, 0 if not; -EEXIST if plenumctl pack has not recorded it, or has
 * recorded a different size; or -ENOMEM. */
static int check_archive(const struct pack_job *job, uint32_t archive, struct plenum_error *err)
{
    const struct pack_archive *a = pack_record_get(job->options->record, archive);
    char *path = archive_path(job, archive, "");
    struct stat st;
    int r;

    if (!path)
        return error_set(err, -ENOMEM, "out of memory");
    r = stat(path, &st) == 0;
    if (r && !a->there)
        r = error_set(err, -EEXIST, "%s exists, but was not written by this run or an earlier one",
                      path);
    else if (r && (uint64_t)st.st_size != a->written.bytes)
        r = error_set(err, -EEXIST,
                      "%s has changed since it was written: remove it, and it will be packed again",
                      path);
    free(path);
    return r;
}

static int find_missing(struct pack_job *job, struct plenum_error *err)
{
    const struct pack_plan *plan = job->options->plan;
    uint32_t count = pack_plan_archives(plan);

    job->missing = malloc(count * sizeof(*job->missing));
    if (!job->missing)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < count; i++) {
        int r = check_archive(job, i, err);

        if (r < 0)
            return r;
        if (r > 0)
            continue;
        job->missing[job->num_missing++] = i;
        job->total += pack_plan_count(plan, i);
    }
    assert(job->total <= plan->samples);
    return 0;
}

static int prepare(struct pack_job *job, struct plenum_error *err)
{
    int r = find_missing(job, err);

    if (r < 0)
        return r;
    job->threads = job->options->threads ? job->options->threads : parallel_cpus();
    job->window = job->threads * WINDOW_EACH;
    job->slots = calloc(job->window, sizeof(*job->slots));
    job->decoders = calloc(job->threads, sizeof(*job->decoders));
    job->buffers = calloc(job->threads, sizeof(*job->buffers));
    if (!job->slots || !job->decoders || !job->buffers)
        return error_set(err, -ENOMEM, "out of memory");
    return 0;
}

static void job_fini(struct pack_job *job)
{
    /* Remove the archive that this run has left incomplete. */
    if (job->output.partial)
        (void)unlink(job->output.partial);
    output_fini(&job->output, job->options->plan->per_archive);
    for (uint32_t i = 0; job->slots && i < job->window; i++) {
        slot_clear(&job->slots[i]);
        dataset_buffer_fini(&job->slots[i].raw);
    }
    for (unsigned i = 0; job->decoders && i < job->threads; i++)
        image_decoder_destroy(job->decoders[i]);
    for (unsigned i = 0; job->buffers && i < job->threads; i++)
        dataset_buffer_fini(&job->buffers[i]);
    free(job->slots);
    free(job->decoders);
    free(job->buffers);
    free(job->missing);
}

int pack_job_run(const struct pack_job_options *options, uint32_t *made, struct plenum_error *err)
{
    struct pack_job job = {
        .options = options, .mu = LOCK_INITIALIZER, .space = PTHREAD_COND_INITIALIZER};
    struct parallel loop = {.turn = turn, .arg = &job};
    int r = prepare(&job, err);

    if (r >= 0 && job.total > 0) {
        loop.count = job.total;
        loop.threads = job.threads;
        loop.progress = options->progress ? show_progress : NULL;
        r = parallel_run(&loop);
        if (r < 0)
            (void)error_set(err, r, "%s", job.code < 0 ? job.err.text : "out of memory");
    }
    *made = job.made;
    job_fini(&job);
    return r;
}
