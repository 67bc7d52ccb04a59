/* SPDX-License-Identifier: MIT */
/* list.c - implements "list:FILE": the samples are the lines of a file, in order. listfile.h
 * describes the syntax.
 *
 * Paths are relative to the list's folder, or to base=DIR. Names of samples are the paths as
 * written, so the fingerprint does not depend on where the list and its images are stored. As with
 * folders, a file that was changed in place is detected when it is read; a changed list is detected
 * when the data set is opened.
 *
 * A list and its images may be in a store; the list of images in a store may also be a file. A
 * sample's `where` is then object_version() instead of an mtime. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/data/dataname.h"
#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/parallel.h"
#include "common/util/util.h"
#include "loader/dataset/format.h"
#include "loader/dataset/listfile.h"
#include "loader/dataset/remote.h"
#include "loader/store/store_place.h"

enum {
    FILES_A_TURN = 1024,      /* files that a thread stats per turn */
    LINE_BYTES = 65536,       /* bytes that are read at first to get the fields of a line */
    LINE_BYTES_MAX = 1 << 25, /* maximum bytes of a line */
};

/* The type of dataset->state, for a list in a store. */
struct list_text {
    struct lock mu;
    char *text; /* [len], malloc; NULL: not needed yet; set once, with mu held */
    size_t len;
};

/* A line, during a scan. */
struct found_line {
    const char *path, *label; /* label is NULL if lines have none */
    size_t line;
    uint32_t offset;
    uint64_t size, mtime_ns;
};

struct list_scan {
    const struct dataset *dataset;
    const struct dataset_options *options;
    struct found_line *files;
    size_t num_files, cap_files;
    struct plenum_error *err; /* [turns]; "": no error */
    struct index_memory *memory;
    bool racy; /* an object is too recent for its version to be trusted */
};

/* Make the path of a list on a disk canonical. */
static int resolve_list(struct dataset *d, struct plenum_error *err)
{
    char *file;
    int r = scope_resolve(&d->scope, d->where, &file);

    if (r == -EXDEV)
        return scope_error(&d->scope, err, r, d->where);
    if (r < 0)
        return error_set(err, r, "data set 'list:%s': %s", d->where, strerror(-r));
    free(d->where);
    d->where = file;
    return 0;
}

/* Make the name of a list in a store canonical, and prepare to keep its text. */
static int locate_object(struct dataset *d, struct plenum_error *err)
{
    struct list_text *text = calloc(1, sizeof(*text));
    char *file;
    int r;

    if (!text)
        return error_set(err, -ENOMEM, "out of memory");
    lock_init(&text->mu);
    d->state = text;
    r = place_canonical(d->where, &file, err);
    if (r < 0)
        return r;
    free(d->where);
    d->where = file;
    return place_root_length(file) > 0
               ? 0
               : error_set(err, -EINVAL, "%s: name the list, not only its bucket", file);
}

/* Find the folder of images in a store (malloc). */
static int find_folder(const struct dataset *d, const char *base, char **ret,
                       struct plenum_error *err)
{
    char *own = strndup(d->where, (size_t)(strrchr(d->where, '/') - d->where));
    int r = -ENOMEM;

    if (!own)
        return error_set(err, r, "out of memory");
    if (!base) {
        *ret = own;
        return 0;
    }
    if (*base == '/')
        r = error_set(err, -EINVAL, "base=%s: the list is in a store, but this folder is not",
                      base);
    else
        r = remote_join(own, base, ret, err);
    free(own);
    for (size_t len = r == 0 ? strlen(*ret) : 0; len > 0 && (*ret)[len - 1] == '/'; len--)
        (*ret)[len - 1] = '\0';
    return r;
}

/* Like list_locate(), but for images in a store. The list itself may be a file. */
static int locate_remote(struct dataset *d, const char *base, const struct dataset_options *options,
                         struct plenum_error *err)
{
    int r = remote_create(d, options, err);

    if (r == 0)
        r = dataname_is_remote(d->where) ? locate_object(d, err) : resolve_list(d, err);
    if (r == 0)
        r = find_folder(d, base, &d->scope.folder, err);
    return r;
}

static void list_release(struct dataset *d)
{
    struct list_text *text = d->state;

    if (!text)
        return;
    lock_fini(&text->mu);
    free(text->text);
    free(text);
}

static int list_locate(struct dataset *d, const struct dataset_options *options,
                       struct plenum_error *err)
{
    const char *base = dataset_setting(d, "base", NULL);
    char *folder, *slash;
    int r = dataset_check_image_setting(d, err);

    if (r < 0)
        return r;
    if (!dataset_has_images(d) && dataset_setting(d, "path", NULL))
        return error_set(err, -EINVAL,
                         "list:%s: path=%s: with image=none there is no column with paths",
                         d->where, dataset_setting(d, "path", NULL));
    if (dataname_is_remote(d->where) || (base && dataname_is_remote(base)))
        return locate_remote(d, base, options, err);
    r = resolve_list(d, err);
    if (r < 0)
        return r;
    slash = strrchr(d->where, '/');
    assert(slash); /* the path is absolute */
    if (base && base[0] == '/')
        folder = strdup(base);
    else
        folder = str_format("%.*s%s%s", (int)(slash - d->where) + !base, d->where, base ? "/" : "",
                            base ? base : "");
    if (!folder)
        return error_set(err, -ENOMEM, "out of memory");
    r = dataset_enter(d, folder, err);
    free(folder);
    return r;
}

static bool is_object(const struct dataset *d)
{
    return d->state != NULL;
}

/* Like read_text(), but from a store. */
static int fetch_text(const struct dataset *d, struct index_memory *memory, char **text,
                      size_t *len, struct stamp *stamp, struct plenum_error *err)
{
    struct object_facts facts;
    int r = remote_stat(d, d->where, &facts, err);

    if (r < 0)
        return r;
    if (facts.size > UINT32_MAX)
        return error_set(err, -EFBIG, "%s: %s", d->where, strerror(EFBIG));
    if (index_memory_charge(memory, facts.size) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    r = remote_read_whole(d, d->where, facts.size, text, stamp, err);
    if (r == 0 && !*text)
        r = error_set(err, -ESTALE, "%s: it was removed while it was read", d->where);
    *len = r == 0 ? stamp->size : 0;
    return r;
}

/* Read the whole list, with room for one more byte. */
static int read_text(const struct dataset *d, struct index_memory *memory, char **text, size_t *len,
                     struct stamp *stamp, struct plenum_error *err)
{
    struct stat st, after;
    int fd, r;

    if (is_object(d))
        return fetch_text(d, memory, text, len, stamp, err);
    fd = scope_open(&d->scope, d->where, 0);
    if (fd < 0)
        return scope_error(&d->scope, err, fd, d->where);
    if (fstat(fd, &st) < 0) {
        r = -errno;
        goto fail;
    }
    if (!S_ISREG(st.st_mode)) {
        r = S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
        goto fail;
    }
    if (st.st_size > UINT32_MAX) {
        r = -EFBIG;
        goto fail;
    }
    *stamp = stamp_of(fd, &st);
    *len = (size_t)st.st_size;
    *text = index_memory_charge(memory, *len) < 0 ? NULL : malloc(*len + 1);
    r = *text ? io_pread_all(fd, *text, *len, 0) : -ENOMEM;
    if (r < 0)
        goto fail;
    if (fstat(fd, &after) < 0 || stamp_compare(stamp, &after) == STAMP_DIFFERS) {
        r = -ENODATA;
        goto fail;
    }
    stamp->content = stamp_hash_bytes(*text, *len);
    io_close(&fd);
    return 0;

fail:
    io_close(&fd);
    return error_set(err, r == -ENODATA ? -ESTALE : r, "%s: %s", d->where,
                     r == -ENODATA  ? "it changed while it was read"
                     : r == -EINVAL ? "it is not a file"
                                    : strerror(-r));
}

static struct listfile listfile_of(const struct dataset *d, char *text, size_t len)
{
    return (struct listfile){.text = text,
                             .len = len,
                             .kind = listfile_kind_of(d->where),
                             .path_column = dataset_setting(d, "path", NULL),
                             .label_column = dataset_setting(d, "label", NULL),
                             .no_images = !dataset_has_images(d)};
}

static int add_line(struct list_scan *s, const struct listfile_line *line)
{
    int r = index_memory_grow(s->memory, &s->files, &s->cap_files, s->num_files, sizeof(*s->files));

    if (r < 0)
        return r;
    assert(line->offset <= UINT32_MAX); /* read_text() */
    s->files[s->num_files++] = (struct found_line){.path = line->path,
                                                   .label = line->label,
                                                   .line = line->number,
                                                   .offset = (uint32_t)line->offset};
    return 0;
}

static int read_lines(struct list_scan *s, struct listfile *list, struct plenum_error *err)
{
    struct listfile_line line;
    int r = listfile_begin(list, err);

    if (r < 0)
        return error_prefix(err, r, "%s", s->dataset->where);
    while ((r = listfile_next(list, &line, err)) > 0) {
        r = add_line(s, &line);
        if (r < 0)
            return error_set(err, r, "out of memory");
        r = dataset_check_cancel(s->options);
        if (r < 0)
            break;
    }
    return r < 0 ? error_prefix(err, r, "%s", s->dataset->where) : 0;
}

/* Returns whether this file is on the first line of a CSV or TSV whose columns are not set. */
static bool may_be_header(const struct list_scan *s, size_t file)
{
    return file == 0 && s->files[0].line == 1 &&
           listfile_kind_of(s->dataset->where) != LISTFILE_TEXT &&
           !dataset_setting(s->dataset, "path", NULL) &&
           !dataset_setting(s->dataset, "label", NULL);
}

/* Get the sizes and times of the files of one turn. */
static int look_at_files(void *arg, uint64_t turn, unsigned thread)
{
    struct list_scan *s = arg;
    size_t end = min_u64((turn + 1) * FILES_A_TURN, s->num_files);
    struct plenum_error *err = &s->err[turn];
    struct stat st;

    (void)thread;
    assert(turn * FILES_A_TURN < s->num_files);
    for (size_t i = turn * FILES_A_TURN; i < end; i++) {
        struct found_line *f = &s->files[i];
        int r = scope_stat(&s->dataset->scope, f->path, &st);

        if (r == -ENOENT && may_be_header(s, i))
            return error_set(err, r,
                             "%s, line %zu: there is no file '%s'; if this line names the columns, "
                             "specify those of path and label, as in list,path=%s,label=%s:",
                             s->dataset->where, f->line, f->path, f->path, f->label);
        if (r < 0)
            return error_prefix(err, scope_error(&s->dataset->scope, err, r, f->path),
                                "%s, line %zu", s->dataset->where, f->line);
        if (!S_ISREG(st.st_mode))
            return error_set(err, -EBADMSG, "%s, line %zu: %s is not a file", s->dataset->where,
                             f->line, f->path);
        f->size = (uint64_t)st.st_size;
        f->mtime_ns = dataset_mtime(&st);
    }
    return 0;
}

static void tell_progress(void *arg, uint64_t done, uint64_t total)
{
    struct list_scan *s = arg;

    (void)total;
    s->options->progress(s->options->progress_arg, "files of the list",
                         min_u64(done * FILES_A_TURN, s->num_files), s->num_files);
}

static int look_at_all(struct list_scan *s, struct plenum_error *err)
{
    struct parallel loop = {.count = (s->num_files + FILES_A_TURN - 1) / FILES_A_TURN,
                            .threads = s->options->threads,
                            .turn = look_at_files,
                            .progress = s->options->progress ? tell_progress : NULL,
                            .cancel = s->options->cancel,
                            .arg = s};
    int r;

    s->err = calloc(loop.count + 1, sizeof(*s->err));
    if (!s->err)
        return error_set(err, -ENOMEM, "out of memory");
    r = parallel_run(&loop);
    for (uint64_t i = 0; r < 0 && i < loop.count; i++)
        if (s->err[i].text[0])
            return error_set(err, r, "%s", s->err[i].text);
    return r;
}

/* Get the sizes and versions of all objects. */
static int look_at_objects(struct list_scan *s, struct plenum_error *err)
{
    const struct dataset *d = s->dataset;
    struct pattern_list names = {.count = 0};
    int r = 0;

    for (size_t i = 0; i < s->num_files && r == 0; i++) {
        char *name = NULL;

        r = remote_join(d->scope.folder, s->files[i].path, &name, err);
        if (r < 0)
            r = error_prefix(err, r, "%s, line %zu", d->where, s->files[i].line);
        else if (pattern_list_add(&names, name) < 0)
            r = error_set(err, -ENOMEM, "out of memory");
    }
    if (r == 0)
        r = remote_learn(d, &names, false, err);
    if (r < 0 && err && dataname_is_remote(err->text))
        r = error_prefix(err, r, "%s", d->where);
    for (size_t i = 0; i < s->num_files && r == 0; i++) {
        const struct object_facts *facts = remote_facts(d, names.paths[i]);

        assert(facts);
        s->files[i].size = facts->size;
        s->files[i].mtime_ns = object_version(facts);
        s->racy = s->racy || facts->racy;
    }
    remote_end_finding(d);
    pattern_list_fini(&names);
    return r;
}

/* Set the samples' sizes when there are no images: the bytes of a sample are its line. */
static int measure_lines(struct list_scan *s, size_t len)
{
    for (size_t i = 0; i < s->num_files; i++) {
        size_t end = i + 1 < s->num_files ? s->files[i + 1].offset : len;

        assert(s->files[i].offset < end);
        s->files[i].size = end - s->files[i].offset;
    }
    return 0;
}

static int64_t add_sample(const struct list_scan *s, const struct found_line *f,
                          struct index_builder *b, struct plenum_error *err)
{
    int64_t label = -1;
    char line[32];

    if (f->label) {
        label = index_builder_add_label(b, LABEL_VALUE, f->label, strlen(f->label), err);
        if (label == -EBADMSG)
            return error_prefix(err, -EBADMSG, "%s, line %zu", s->dataset->where, f->line);
        if (label < 0)
            return label;
    }
    (void)snprintf(line, sizeof(line), "line %zu", f->line);
    return index_builder_add_sample(
        b,
        &(struct index_sample){.where = f->mtime_ns,
                               .len = (uint32_t)min_u64(f->size, UINT32_MAX),
                               .label = (int32_t)label,
                               .extra = f->offset},
        dataset_has_images(s->dataset) ? f->path : line);
}

static int add_all(const struct list_scan *s, const struct stamp *stamp, struct index_builder *b,
                   struct plenum_error *err)
{
    const char *name = strrchr(s->dataset->where, '/') + 1;
    int64_t r;

    if (s->num_files > 0 && !s->files[0].label && dataset_refuse_classes(s->dataset, err) < 0)
        return -EINVAL;
    r = index_builder_add_container(b, name, stamp);
    for (size_t i = 0; i < s->num_files && r >= 0; i++)
        r = add_sample(s, &s->files[i], b, err);
    if (r == -EBADMSG)
        return -EBADMSG;
    if (r < 0)
        return error_set(err, (int)r, "%s: %s", s->dataset->where,
                         r == -EOVERFLOW ? "more lines than an index can hold" : "out of memory");
    return index_builder_settle_labels(b, err);
}

static int list_scan(const struct dataset *dataset, const struct dataset_options *options,
                     struct index_builder *b, struct plenum_error *err)
{
    struct list_scan s = {.dataset = dataset, .options = options, .memory = b->memory};
    struct listfile list;
    char *text = NULL;
    struct stamp stamp;
    size_t len = 0;
    int r = read_text(dataset, b->memory, &text, &len, &stamp, err);

    if (r < 0)
        goto out;
    list = listfile_of(dataset, text, len);
    r = read_lines(&s, &list, err);
    if (r < 0)
        goto out;
    if (!dataset_has_images(dataset))
        r = measure_lines(&s, len);
    else
        r = dataset->remote ? look_at_objects(&s, err) : look_at_all(&s, err);
    if (r < 0)
        goto out;
    if (s.racy) /* the next dataset_open() reads the list again */
        stamp.flags &= ~(uint64_t)STAMP_SETTLED;
    r = add_all(&s, &stamp, b, err);

out:
    free(s.err);
    free(s.files);
    free(text);
    return r;
}

static bool list_fresh(const struct dataset *d)
{
    const struct stamp *stamp = &d->index.containers[0].stamp;

    if (d->index.header->containers != 1)
        return false;
    return is_object(d) ? remote_holds(d, d->where, stamp)
                        : stamp_holds(&d->scope, d->where, stamp);
}

/* Returns whether the open list is unchanged since it was indexed. If only its ctime has changed,
 * its text is compared. */
static bool is_same_list(const struct dataset *d, const struct stat *st)
{
    /* `d` is const except for this, which any thread may write. */
    atomic_uint_fast64_t *found = (atomic_uint_fast64_t *)(uintptr_t)&d->list_ctime_ns;
    struct stamp stamp = d->index.containers[0].stamp, now = stamp_of(-1, st);

    assert(d->index.header->containers == 1);
    switch (stamp_compare(&stamp, st)) {
    case STAMP_SAME:
        return true;
    case STAMP_MAYBE:
        if (atomic_load(found) == now.ctime_ns)
            return true;
        stamp.flags |= STAMP_SETTLED; /* comparing the text detects any change since then */
        if (!stamp_holds(&d->scope, d->where, &stamp))
            return false;
        if (now.flags & STAMP_SETTLED)
            atomic_store(found, now.ctime_ns);
        return true;
    default:
        return false;
    }
}

/* Write the path as it is in the list, or the sample's number if there are no images. */
static void list_path(const struct dataset *d, const struct index_sample *sample, char *ret,
                      size_t size)
{
    if (dataset_has_images(d))
        (void)snprintf(ret, size, "%s", index_name(&d->index, sample->name));
    else
        (void)snprintf(ret, size, "%010u", (uint32_t)(sample - d->index.samples));
}

static void list_describe(const struct dataset *d, const struct index_sample *sample, char *ret,
                          size_t size)
{
    if (dataset_has_images(d))
        (void)scope_name(&d->scope, index_name(&d->index, sample->name), ret, size);
    else
        (void)snprintf(ret, size, "%s, %s", d->where, index_name(&d->index, sample->name));
}

/* An indexed list: an open file, or the text of an object. */
struct list_input {
    int fd;
    const char *text; /* [len], borrowed from the data set */
    size_t len;
};

/* Get the text of an object, which is read once. */
static int get_text(const struct dataset *d, struct list_input *ret, struct plenum_error *err)
{
    const struct stamp *stamp = &d->index.containers[0].stamp;
    struct list_text *kept = d->state;
    struct stamp now;
    char *text = NULL;
    int r = 0;

    lock_acquire(&kept->mu);
    if (!kept->text) {
        r = remote_read_whole(d, d->where, UINT32_MAX, &text, &now, err);
        if (r == 0 && (!text || now.size != stamp->size || now.content != stamp->content ||
                       now.mtime_ns != stamp->mtime_ns)) {
            r = dataset_has_changed(d, d->where, err);
            free(text);
        } else if (r == 0) {
            kept->text = text;
            kept->len = now.size;
        }
    }
    *ret = (struct list_input){.fd = -1, .text = kept->text, .len = kept->len};
    lock_release(&kept->mu);
    return r;
}

static int open_input(const struct dataset *d, struct list_input *ret, struct plenum_error *err)
{
    if (is_object(d))
        return get_text(d, ret, err);
    *ret = (struct list_input){.fd = scope_open(&d->scope, d->where, 0)};
    return ret->fd < 0 ? scope_error(&d->scope, err, ret->fd, d->where) : 0;
}

/* Read up to `len` bytes at `offset`. Returns their number, or -errno. */
static int64_t read_input(const struct list_input *in, void *bytes, size_t len, uint64_t offset)
{
    size_t n = offset < in->len ? (size_t)min_u64(len, in->len - offset) : 0;

    if (in->fd >= 0)
        return io_pread_some(in->fd, bytes, len, offset);
    if (n > 0)
        memcpy(bytes, in->text + offset, n);
    return (int64_t)n;
}

/* Read the line itself, for the fingerprint of a list without images. */
static int read_line(const struct dataset *d, const struct index_sample *sample,
                     struct dataset_buffer *buffer, struct plenum_error *err)
{
    struct list_input in;
    int64_t n;
    int r = open_input(d, &in, err);

    if (r < 0)
        return r;
    r = dataset_buffer_reserve(buffer, sample->len);
    if (r == 0) {
        n = read_input(&in, buffer->bytes, sample->len, sample->extra);
        r = n < 0 ? (int)n : n < sample->len ? -ENODATA : 0;
    }
    io_close(&in.fd);
    return r < 0 ? error_set(err, r == -ENODATA ? -ESTALE : r, "%s: %s", d->where,
                             r == -ENODATA ? "the file has become shorter" : strerror(-r))
                 : 0;
}

static int list_read(const struct dataset *d, const struct index_sample *sample,
                     struct dataset_buffer *buffer, struct plenum_error *err)
{
    if (!dataset_has_images(d))
        return read_line(d, sample, buffer, err);
    return dataset_read_file(d, sample, buffer, err);
}

static void list_file(const struct dataset *d, const struct index_sample *sample, char *ret,
                      size_t size)
{
    (void)snprintf(ret, size, "%s", index_name(&d->index, sample->name));
}

/* A line, and the memory that its fields point into. */
struct whole_line {
    struct listfile_line line;
    char *text; /* malloc */
};

/* Read and parse the line at `offset`; `list` has read its header. The caller frees ret->text, even
 * after a failure. */
static int read_whole_line(const struct dataset *d, const struct listfile *list,
                           const struct list_input *in, uint64_t offset, struct whole_line *ret,
                           struct plenum_error *err)
{
    for (size_t room = LINE_BYTES; room <= LINE_BYTES_MAX; room *= 2) {
        struct listfile at = *list;
        int64_t len;
        int r;

        free(ret->text);
        ret->text = malloc(room + 1);
        if (!ret->text)
            return error_set(err, -ENOMEM, "out of memory");
        len = read_input(in, ret->text, room, offset);
        if (len < 0)
            return error_set(err, (int)len, "%s: %s", d->where, strerror((int)-len));
        at.text = ret->text;
        at.len = (size_t)len;
        at.at = 0;
        at.text[len] = '\0';
        r = listfile_next(&at, &ret->line, err);
        if ((size_t)len < room || (r > 0 && at.at < at.len)) /* otherwise the line may be longer */
            return r;
    }
    return error_set(err, -EBADMSG, "%s: the line at byte %llu has more than 32 MiB", d->where,
                     (unsigned long long)offset);
}

/* Read the header at the beginning of the list, and the line at the sample's offset. */
static int list_fields(const struct dataset *d, const struct index_sample *sample,
                       dataset_field *field, void *arg, struct field_memory *memory,
                       struct plenum_error *err)
{
    char *head = malloc(LINE_BYTES + 1);
    struct whole_line whole = {.text = NULL};
    struct list_input in = {.fd = -1};
    struct listfile list;
    struct stat st;
    int64_t len;
    int r;

    if (!head) {
        r = error_set(err, -ENOMEM, "out of memory");
        goto out;
    }
    r = open_input(d, &in, err);
    if (r < 0)
        goto out;
    if (in.fd >= 0 && fstat(in.fd, &st) < 0) {
        r = error_set(err, -errno, "%s: %s", d->where, strerror(errno));
        goto out;
    }
    if (in.fd >= 0 && !is_same_list(d, &st)) {
        r = error_set(err, -ESTALE, "%s has changed since the data set was indexed", d->where);
        goto out;
    }
    len = read_input(&in, head, LINE_BYTES, 0);
    if (len < 0) {
        r = error_set(err, (int)len, "%s: %s", d->where, strerror((int)-len));
        goto out;
    }
    list = listfile_of(d, head, (size_t)len);
    r = listfile_begin(&list, err);
    if (r < 0)
        goto out;
    r = read_whole_line(d, &list, &in, sample->extra, &whole, err);
    if (memory)
        memory->each = max_u64(memory->each, LINE_BYTES + malloc_usable_size(whole.text));
    for (unsigned i = 0; r > 0 && i < whole.line.num_fields; i++) {
        char key[32];

        (void)snprintf(key, sizeof(key), "column %u", i + 1);
        if (i != list.path_field && i != list.label_field)
            field(arg, i < list.num_header ? list.header[i] : key, whole.line.fields[i],
                  strlen(whole.line.fields[i]), false);
    }

out:
    io_close(&in.fd);
    free(head);
    free(whole.text);
    return r < 0 ? r : 0;
}

/* Recognise a text file whose first line is printable and has a space, a tab or a comma. */
static bool list_recognise(const struct path_probe *probe)
{
    size_t line = 0;

    if (!S_ISREG(probe->st.st_mode) || probe->head_len == 0 ||
        memchr(probe->head, '\0', probe->head_len))
        return false;
    for (; line < probe->head_len && probe->head[line] != '\n'; line++)
        if (probe->head[line] < 0x20 && probe->head[line] != '\t' && probe->head[line] != '\r')
            return false;
    return memchr(probe->head, '\t', line) || memchr(probe->head, ' ', line) ||
           memchr(probe->head, ',', line);
}

static const struct format_setting settings[] = {
    {"base", "the folder that relative paths begin in (the list's own)"},
    CLASSES_SETTING,
    {"image", "none: each line is a sample without an image; the first line names the columns"},
    {"label", "the label's column, by name or number (2); none: all labels are 0"},
    {"label-offset", "a whole number to add to every label"},
    {"path", "the path's column, by name or number (1)"},
};

const struct format format_list = {
    .name = "list",
    .settings = settings,
    .num_settings = ARRAY_LEN(settings),
    .remote = true,
    .whole_files = true,
    .file = list_file,
    .recognise = list_recognise,
    .locate = list_locate,
    .release = list_release,
    .scan = list_scan,
    .fresh = list_fresh,
    .read = list_read,
    .announce = dataset_announce_file,
    .path = list_path,
    .describe = list_describe,
    .fields = list_fields,
};
