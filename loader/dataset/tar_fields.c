/* SPDX-License-Identifier: MIT */
/* tar_fields.c - finds the fields of samples in archives. All headers are read again, and each
 * group of members is matched with its sample in the index: by the name of its image, or by its key
 * if samples have no images. */
#include "config.h"

#include "loader/dataset/tar_fields.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/dataset/archive.h"
#include "loader/dataset/skipped.h"

/* The state of searching all archives, with one turn per archive. */
struct finding {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct field_place *places;
    uint32_t *begin; /* [containers + 1]: first sample of each container */
    struct plenum_error err;
    atomic_bool failed;
};

/* The members with one key, during the search. */
struct field_group {
    char *key;
    size_t key_len, cap;
    struct field_place places[FIELDS_MAX];
    uint32_t sample; /* the sample whose image is in the group, or UINT32_MAX */
};

bool tar_split_name(const struct tar_member *m, bool by_folder, struct tar_name *ret)
{
    const char *name = m->name, *slash;

    while (strncmp(name, "./", 2) == 0)
        name += 2;
    slash = strrchr(name, '/');
    ret->name = name;
    ret->base = slash ? slash + 1 : name;
    if (m->type == TAR_OTHER || !*ret->base || dataset_skips_path(name))
        return false;
    ret->dot = by_folder ? strrchr(ret->base, '.') : strchr(ret->base, '.');
    ret->key_len = ret->dot && !by_folder ? (size_t)(ret->dot - name) : strlen(name);
    return true;
}

static void end_group(struct finding *f, struct field_group *g)
{
    uint32_t count = f->dataset->fields.count;

    if (g->sample != UINT32_MAX)
        memcpy(f->places + (size_t)g->sample * count, g->places, count * sizeof(*g->places));
    memset(g->places, 0, sizeof(g->places));
    g->sample = UINT32_MAX;
}

static int begin_group(struct field_group *g, const struct tar_name *name)
{
    if (array_reserve(&g->key, &g->cap, name->key_len, 1) < 0)
        return -ENOMEM;
    assert(name->key_len <= g->cap);
    memcpy(g->key, name->name, name->key_len);
    g->key_len = name->key_len;
    return 0;
}

static void add_field(struct field_place *place, const struct tar_member *m)
{
    enum field_state state = FIELD_THERE;

    if (place->state != FIELD_MISSING)
        state = FIELD_TWICE;
    else if (m->type != TAR_FILE)
        state = FIELD_A_LINK;
    else if (m->sparse)
        state = FIELD_SPARSE;
    *place = (struct field_place){
        .where = m->data_at, .len = (uint32_t)min_u64(m->size, UINT32_MAX), .state = state};
}

static bool is_named(const struct dataset *d, uint32_t sample, const char *name, size_t len)
{
    const char *own = index_name(&d->index, d->index.samples[sample].name);

    return strlen(own) == len && memcmp(own, name, len) == 0;
}

/* Add a member to the group, or start the next group with it. `next` is the sample whose image is
 * expected next. */
static int add_member(struct finding *f, struct field_group *g, const struct tar_member *m,
                      uint32_t *next, uint32_t end)
{
    const struct dataset *d = f->dataset;
    struct tar_name name;

    if (!tar_split_name(m, false, &name))
        return 0;
    if (g->key_len != name.key_len || !g->key || memcmp(g->key, name.name, name.key_len) != 0) {
        end_group(f, g);
        if (begin_group(g, &name) < 0)
            return -ENOMEM;
        if (!dataset_has_images(d) && *next < end && is_named(d, *next, name.name, name.key_len))
            g->sample = (*next)++;
    }
    for (uint32_t i = 0; name.dot && i < d->fields.count; i++) {
        const struct field_spec *spec = &d->fields.spec[i];
        size_t len = field_extension_len(spec);

        if (strlen(name.dot + 1) == len && strncasecmp(name.dot + 1, spec->source, len) == 0)
            add_field(&g->places[i], m);
    }
    if (dataset_has_images(d) && *next < end && is_named(d, *next, name.name, strlen(name.name)))
        g->sample = (*next)++;
    return 0;
}

static int walk(struct finding *f, const struct source *source, uint64_t size, uint32_t first,
                uint32_t end, struct plenum_error *err)
{
    struct tar_reader *reader;
    struct field_group g = {.sample = UINT32_MAX};
    struct tar_member m;
    uint32_t next = first;
    int r = tar_reader_open(source, 0, size, &reader, err);

    if (r < 0)
        return r;
    while ((r = tar_reader_next(reader, &m, err)) > 0) {
        r = dataset_check_cancel(f->options);
        if (r < 0)
            goto out;
        r = add_member(f, &g, &m, &next, end);
        if (r < 0) {
            (void)error_set(err, r, "out of memory");
            goto out;
        }
    }
    if (r < 0)
        goto out;
    end_group(f, &g);
    if (next != end)
        r = error_set(err, -ESTALE, "it has changed since the data set was indexed");

out:
    free(g.key);
    tar_reader_close(reader);
    return r;
}

static int find_in_archive(void *arg, uint64_t turn, unsigned thread)
{
    struct finding *f = arg;
    const struct dataset *d = f->dataset;
    uint32_t first = f->begin[turn], end = f->begin[turn + 1];
    const struct index_container *c = &d->index.containers[turn];
    struct plenum_error err;
    struct source source;
    char path[4096];
    int r;

    (void)thread;
    if (first == end)
        return 0;
    if (f->options->again) { /* only archives that are files are scanned again */
        source = source_of_file(scope_open(&d->scope, index_name(&d->index, c->name), 0));
        r = source.fd < 0 ? source.fd : 0;
    } else {
        r = archive_open(d, &d->index.samples[first], &source, &err);
    }
    if (r == 0) {
        r = walk(f, &source, c->stamp.size, first, end, &err);
        if (f->options->again)
            (void)close(source.fd);
        else
            archive_close(d, &d->index.samples[first], &source);
        if (r < 0) {
            (void)archive_path(d, &d->index.samples[first], path, sizeof(path));
            (void)error_prefix(&err, r, "%s", path);
        }
    }
    if (r < 0 && !atomic_exchange(&f->failed, true))
        f->err = err;
    return r < 0 ? r : 0;
}

static void tell_progress(void *arg, uint64_t done, uint64_t total)
{
    const struct finding *f = arg;

    f->options->progress(f->options->progress_arg, "archives, for fields", done, total);
}

int tar_find_fields(const struct dataset *dataset, const struct dataset_options *options,
                    struct field_place *places, struct plenum_error *err)
{
    const struct index *index = &dataset->index;
    uint32_t containers = index->header->containers, at = 0;
    struct finding f = {.dataset = dataset, .options = options, .places = places};
    struct parallel loop = {.count = containers,
                            .threads = archive_threads(dataset, options),
                            .turn = find_in_archive,
                            .progress = options->progress ? tell_progress : NULL,
                            .cancel = options->cancel,
                            .arg = &f};
    int r;

    if (strcmp(dataset_setting(dataset, "label", ""), "folder") == 0)
        return error_set(err, -EINVAL,
                         "%s: with label=folder each image is a separate sample without fields",
                         dataset->name);
    f.begin = calloc(containers + 1, sizeof(*f.begin));
    if (!f.begin)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < containers; i++) { /* samples are in the order of their archives */
        f.begin[i] = at;
        while (at < index->header->samples && index->samples[at].container == i)
            at++;
    }
    f.begin[containers] = at;
    assert(at == index->header->samples);
    r = parallel_run(&loop);
    if (r < 0)
        (void)error_set(err, r, "%s", atomic_load(&f.failed) ? f.err.text : strerror(-r));
    free(f.begin);
    return r;
}

int tar_read_field(const struct dataset *dataset, const struct index_sample *sample,
                   const struct field_place *place, struct dataset_buffer *buffer,
                   struct plenum_error *err)
{
    return archive_read_range(dataset, sample, place->where, place->len, buffer, err);
}
