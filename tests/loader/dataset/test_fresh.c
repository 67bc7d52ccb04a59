/* SPDX-License-Identifier: MIT */
/* Checks that records about a data set are not used once its bytes have changed.
 *
 * Random sequences change a small data set between openings, while a stream may have it open: files
 * are created, replaced, repaired, touched, truncated, renamed and removed, in place or by a
 * rename; files and targets of links become folders, and vice versa; then times are restored as tar
 * and rsync do. After each change, an opening with the sequence's cache folder must show what one
 * with an empty cache folder shows, or fail with -ESTALE (-ENOENT if a file is gone); one of the
 * next openings must then show it. Lists of classes (classes=) change, too.
 *
 * The oracle is the opening with an empty cache folder. PLENUM_FRESH_SEQUENCES=N runs N sequences
 * of each form (default 12, and 4 of those with a list of classes); PLENUM_FRESH_SEED=N selects
 * different ones. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/data/datasum.h"
#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/stamp.h"
#include "loader/dataset/tar_writer.h"
#include "tests/records.h"
#include "tests/tree.h"

int __wrap_fsync(int fd);

/* Skip fsync(): the test writes thousands of indices, which need not survive it. */
int __wrap_fsync(int fd)
{
    (void)fd;
    return 0;
}

static struct tree tree;
static uint64_t random_state;
static char story[20000]; /* the changes of this sequence, for messages */

static void setup(void)
{
    tree_init(&tree);
}

static void teardown(void)
{
    tree_fini(&tree);
}

TestSuite(fresh, .init = setup, .fini = teardown, .timeout = 36000);

/* Returns a random number below n (splitmix64). */
static uint32_t below(uint32_t n)
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return (uint32_t)((z ^ z >> 31) % n);
}

__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
    va_list ap;
    size_t at = strlen(story);

    va_start(ap, format);
    (void)vsnprintf(story + at, sizeof(story) - at, format, ap);
    va_end(ap);
}

static char *path_of(const char *name, char ret[512])
{
    (void)snprintf(ret, 512, "%s/%s", tree.root, name);
    return ret;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void remove_all(const char *name)
{
    char path[512];

    (void)nftw(path_of(name, path), remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- times ---- */

/* All paths of the data set with the times that they had before a change. */
static struct {
    char path[512];
    struct timespec times[2];
} had[400];
static size_t num_had;

static int note_time(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)type, (void)ftw;
    cr_assert(lt(sz, num_had, ARRAY_LEN(had)));
    (void)snprintf(had[num_had].path, sizeof(had[num_had].path), "%s", path);
    had[num_had].times[0] = st->st_atim;
    had[num_had++].times[1] = st->st_mtim;
    return 0;
}

static int64_t constant;

static int set_constant(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    struct timespec times[2] = {{.tv_sec = constant}, {.tv_sec = constant}};

    (void)st, (void)type, (void)ftw;
    return utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW);
}

static void note_times(void)
{
    char path[512];

    num_had = 0;
    (void)nftw(path_of("data", path), note_time, 16, FTW_PHYS);
    (void)nftw(path_of("classes", path), note_time, 16, FTW_PHYS);
}

/* Restore all times after a change, set them to a constant, or leave them. */
static void set_times(void)
{
    static const int64_t constants[] = {1577836800, 1, -300000000, 4070908800};
    char path[512];

    switch (below(6)) {
    case 0:
        tell("; times left");
        break;
    case 1:
        constant = constants[below(ARRAY_LEN(constants))];
        tell("; all times constant");
        (void)nftw(path_of("data", path), set_constant, 16, FTW_PHYS);
        (void)nftw(path_of("classes", path), set_constant, 16, FTW_PHYS);
        break;
    default:
        tell("; times put back");
        for (size_t i = 0; i < num_had; i++)
            (void)utimensat(AT_FDCWD, had[i].path, had[i].times, AT_SYMLINK_NOFOLLOW);
    }
    tell("\n");
}

/* ---- files ---- */

static void write_in_place(const char *name, const void *bytes, size_t len)
{
    char path[512];
    int fd = open(path_of(name, path), O_WRONLY | O_CREAT | O_TRUNC, 0666);

    cr_assert(ge(int, fd, 0), "%s", path);
    cr_assert(eq(int, io_write_all(fd, bytes, len), 0));
    (void)close(fd);
}

static void put_file(const char *name, const void *bytes, size_t len)
{
    char path[512], other[512];

    if (below(2)) {
        tell(" (in place)");
        write_in_place(name, bytes, len);
        return;
    }
    tell(" (by rename)");
    write_in_place("new", bytes, len);
    cr_assert(eq(int, rename(path_of("new", other), path_of(name, path)), 0), "%s", path);
}

/* ---- the model ---- */

enum { SAMPLES = 7, SHOWN = SAMPLES + 2, PREFIX = 64 << 10 };

enum form { FORM_FOLDER, FORM_LIST, FORM_TAR, FORM_TARS, FORM_TFRECORD, FORM_PACKED };

/* The form of the list of classes, "classes". */
enum listed { LISTED_NONE, LISTED_FILE, LISTED_FOLDER };

/* The data set; each form uses some of the members. */
static struct {
    enum form form;
    enum listed listed;
    bool fields, same_size, long_files;
    bool there[SAMPLES];
    /* image 0: empty; caption 0: missing */
    unsigned label[SAMPLES], image[SAMPLES], caption[SAMPLES];
    /* lines of classes.txt; 0: there is no such file */
    unsigned classes;
} m;

/* Write an image to `ret`, and return its size in bytes. Image 0 is empty; those with odd numbers
 * are bad. */
static size_t image_bytes(unsigned number, char *ret)
{
    size_t at = m.long_files && number ? PREFIX : 0;

    memset(ret, 'x', at);
    if (number == 0)
        return 0;
    return at + (size_t)snprintf(ret + at, 100, m.same_size ? "%s %03u" : "%s %.*u",
                                 number % 2 ? "BAD" : "img",
                                 m.same_size ? (int)(number % 1000) : (int)(number % 7), number);
}

static size_t caption_bytes(unsigned number, char *ret)
{
    return (size_t)snprintf(ret, 100, m.same_size ? "caption %03u" : "caption %u", number % 1000);
}

static const char *sample_file(int i, char ret[64])
{
    (void)snprintf(ret, 64, "data/c%u/%d.jpg", m.form == FORM_LIST ? 0 : m.label[i] % 3, i);
    return ret;
}

static const char *caption_file(int i, char ret[64])
{
    (void)snprintf(ret, 64, "data/c%u/%d.txt", m.form == FORM_LIST ? 0 : m.label[i] % 3, i);
    return ret;
}

static void write_list(void)
{
    char text[2000] = "path,label,caption\n", name[64], caption[64];

    for (int i = 0; i < SAMPLES; i++)
        if (m.there[i])
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s,%u,%s\n",
                           sample_file(i, name) + 5, m.label[i], caption_file(i, caption) + 5);
    put_file("data/list.csv", text, strlen(text));
}

/* Copy a finished archive to its place. */
static void put_archive(const char *made, const char *name)
{
    char path[512];
    struct stat st;
    char *bytes;
    int fd = open(path_of(made, path), O_RDONLY);

    cr_assert(eq(int, fstat(fd, &st), 0));
    bytes = malloc((size_t)st.st_size + 1);
    cr_assert(eq(int, io_pread_all(fd, bytes, (size_t)st.st_size, 0), 0));
    (void)close(fd);
    put_file(name, bytes, (size_t)st.st_size);
    free(bytes);
}

static void add_member(struct tar_writer *w, int i, const char *extension, const void *bytes,
                       size_t len)
{
    struct plenum_error err;
    char name[64];

    (void)snprintf(name, sizeof(name), "%03d.%s", i, extension);
    cr_assert(eq(int, tar_writer_add(w, name, bytes, len, &err), 0), "%s", err.text);
}

static void write_tar(const char *name, int begin, int end)
{
    static char bytes[PREFIX + 200];
    struct tar_written written;
    struct plenum_error err;
    struct tar_writer *w;
    char path[512];

    cr_assert(eq(int, tar_writer_create(path_of("made", path), &w, &err), 0), "%s", err.text);
    for (int i = begin; i < end; i++) {
        char text[32];

        if (!m.there[i])
            continue;
        add_member(w, i, "jpg", bytes, image_bytes(m.image[i], bytes));
        add_member(w, i, "cls", text, (size_t)snprintf(text, sizeof(text), "%u", m.label[i]));
        if (m.caption[i])
            add_member(w, i, "txt", bytes, caption_bytes(m.caption[i], bytes));
    }
    cr_assert(eq(int, tar_writer_finish(w, &written, &err), 0), "%s", err.text);
    tar_writer_destroy(w);
    put_archive("made", name);
}

static void write_records(void)
{
    static char bytes[PREFIX + 200];
    struct bytes file = {0};

    for (int i = 0; i < SAMPLES; i++) {
        struct bytes features = {0};
        char name[32];

        if (!m.there[i])
            continue;
        example_put_bytes(&features, "image/encoded", bytes, image_bytes(m.image[i], bytes));
        example_put_int(&features, "image/class/label", m.label[i]);
        example_put_bytes(&features, "image/filename", name,
                          (size_t)snprintf(name, sizeof(name), "%d", i));
        if (m.caption[i])
            example_put_bytes(&features, "file", bytes, caption_bytes(m.caption[i], bytes));
        record_put(&file, &features);
        bytes_fini(&features);
    }
    put_file("data/x", file.p, file.len);
    bytes_fini(&file);
}

/* Write what plenumctl pack writes next to its archives, under a temporary name first. */
static void write_description(void)
{
    char text[100], path[512], partial[512];

    write_in_place(
        "data/DATASET.json.partial", text,
        (size_t)snprintf(text, sizeof(text), "{\"archives\": 2, \"number\": %u}\n", below(100)));
    if (below(4))
        (void)rename(path_of("data/DATASET.json.partial", partial),
                     path_of("data/DATASET.json", path));
}

static void write_packed(void)
{
    char from[512], to[512];

    write_tar("data/train-000000.tar", 0, SAMPLES / 2);
    write_tar("data/train-000001.tar.partial", SAMPLES / 2, SAMPLES);
    if (below(4))
        (void)rename(path_of("data/train-000001.tar.partial", from),
                     path_of("data/train-000001.tar", to));
    write_description();
}

/* Write everything except the files of single samples. */
static void write_containers(void)
{
    if (m.form == FORM_PACKED)
        write_packed();
    if (m.form == FORM_LIST)
        write_list();
    if (m.form == FORM_TAR)
        write_tar("data/x.tar", 0, SAMPLES);
    if (m.form == FORM_TARS && below(4))
        write_tar("data/a.tar", 0, SAMPLES / 2);
    if (m.form == FORM_TARS)
        write_tar("data/b.tar", SAMPLES / 2, SAMPLES);
    if (m.form == FORM_TFRECORD)
        write_records();
}

static void write_classes(void)
{
    char text[200] = "", path[512];

    if (m.classes == 0) {
        (void)unlink(path_of("data/classes.txt", path));
        return;
    }
    for (unsigned i = 0; i < m.classes; i++)
        (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "class%u\n", i);
    put_file("data/classes.txt", text, strlen(text));
}

/* Write the names of some classes in random order; mostly, they include those of all samples. */
static void write_listed(void)
{
    static const char *const names[] = {"c0", "c1", "c2", "d", "a", "b1"};
    uint32_t count = below(8) ? ARRAY_LEN(names) : 2, first = below(count);
    char text[200] = "", path[512], name[64];

    if (m.listed == LISTED_NONE)
        return;
    if (m.listed == LISTED_FILE) {
        for (uint32_t i = 0; i < count; i++)
            (void)snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s\n",
                           names[(first + i) % count]);
        put_file("classes", text, strlen(text));
        return;
    }
    (void)mkdir(path_of("classes", path), 0777);
    for (uint32_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)snprintf(name, sizeof(name), "classes/%s", names[i]);
        remove_all(name);
        if (below(8) && i < 3)
            (void)mkdir(path_of(name, path), 0777);
        else if (below(3))
            write_in_place(name, "note", 4);
        else
            (void)mkdir(path_of(name, path), 0777);
    }
}

static bool has_files(void)
{
    return m.form == FORM_FOLDER || m.form == FORM_LIST;
}

static void write_sample(int i)
{
    static char bytes[PREFIX + 200];
    char name[64];

    if (has_files())
        put_file(sample_file(i, name), bytes, image_bytes(m.image[i], bytes));
}

static void write_caption(int i)
{
    char bytes[200], name[64], path[512];

    if (!has_files())
        return;
    if (m.caption[i])
        put_file(caption_file(i, name), bytes, caption_bytes(m.caption[i], bytes));
    else
        (void)unlink(path_of(caption_file(i, name), path));
}

static void make(enum form form)
{
    char path[512];

    remove_all("data");
    remove_all("classes");
    remove_all("cache");
    write_listed();
    (void)mkdir(path_of("data", path), 0777);
    for (unsigned c = 0; has_files() && c < 3; c++) {
        char name[64];

        (void)snprintf(name, sizeof(name), "data/c%u", c);
        (void)mkdir(path_of(name, path), 0777);
    }
    m.form = form;
    for (int i = 0; i < SAMPLES; i++) {
        m.there[i] = i < 2 || below(3) > 0;
        m.label[i] = below(3);
        m.image[i] = below(5) ? 2 + below(100) : 0;
        m.caption[i] = below(5) ? 1 + below(100) : 0;
        if (m.there[i] || form == FORM_LIST)
            write_sample(i);
        if (m.there[i] || form == FORM_LIST)
            write_caption(i);
    }
    m.classes = below(2) ? 0 : 3 + below(2);
    if (form == FORM_TARS)
        write_tar("data/a.tar", 0, SAMPLES / 2);
    write_containers();
    if (!has_files())
        write_classes();
    constant = 1577836800;
    (void)nftw(path_of("data", path), set_constant, 16, FTW_PHYS);
}

/* ---- changes ---- */

static void change_sample(int i)
{
    char name[64], path[512];

    switch (below(5)) {
    case 0:
        m.image[i] = 0;
        break;
    case 1:
        if (has_files() && m.there[i]) {
            tell("%s cut", sample_file(i, name));
            (void)!truncate(path_of(name, path), below(2) ? 0 : 3);
            return;
        }
        /* fall through */
    default:
        m.image[i] = 2 + below(100);
    }
    tell("sample %s written", sample_file(i, name));
    write_sample(i);
    if (!has_files())
        write_containers();
}

static void change_caption(int i)
{
    char name[64];

    m.caption[i] = below(4) ? 1 + below(100) : 0;
    tell("%s written", caption_file(i, name));
    if (m.there[i] || m.form == FORM_LIST)
        write_caption(i);
    if (!has_files())
        write_containers();
}

/* Add or remove a sample, or change its label. */
static void change_samples(int i)
{
    char name[64], path[512];

    tell("%s comes, goes, or gets another label", sample_file(i, name));
    if (m.form == FORM_FOLDER) {
        (void)unlink(path_of(sample_file(i, name), path));
        (void)unlink(path_of(caption_file(i, name), path));
    }
    if (m.there[i] && below(2))
        m.label[i] = below(5);
    else
        m.there[i] = i < 2 || !m.there[i];
    if (m.form == FORM_FOLDER && m.there[i]) {
        write_sample(i);
        write_caption(i);
    }
    write_containers();
}

/* Returns the name of a sample's file, or of the file that contains all samples. */
static const char *any_file(int i, char ret[64])
{
    switch (m.form) {
    case FORM_LIST:
        return below(3) ? sample_file(i, ret) : "data/list.csv";
    case FORM_TAR:
        return "data/x.tar";
    case FORM_TARS:
        return "data/b.tar";
    case FORM_PACKED:
        return below(3) ? "data/train-000000.tar" : "data/DATASET.json";
    case FORM_TFRECORD:
        return "data/x";
    default:
        return below(3) ? sample_file(i, ret) : caption_file(i, ret);
    }
}

/* Make a change that does not affect bytes. */
static void change_nothing(int i)
{
    char name[64], path[512], other[512], link[64];
    struct stat st;

    (void)path_of(any_file(i, name), path);
    tell("%s: no byte", path);
    if (stat(path, &st) < 0)
        return;
    switch (below(5)) {
    case 0:
        (void)utimensat(AT_FDCWD, path, NULL, 0);
        break;
    case 1:
        (void)chmod(path, below(2) ? 0644 : 0600);
        break;
    case 2:
        (void)snprintf(link, sizeof(link), "backup%u", below(1000000));
        (void)!linkat(AT_FDCWD, path, AT_FDCWD, path_of(link, other), 0);
        break;
    case 3:
        (void)rename(path, path_of("aside", other));
        (void)rename(other, path);
        break;
    default:
        (void)chmod(path_of("data", path), below(2) ? 0755 : 0700);
    }
}

/* Move a folder or file away, and replace it by a link to it or to another one. */
static void change_link(int i)
{
    char name[64], path[512], target[512], to[64], bytes[200];

    if (!has_files())
        return;
    tell("%s becomes a link", sample_file(i, name));
    if (!m.there[i] && m.form == FORM_FOLDER)
        return;
    (void)snprintf(to, sizeof(to), "target%u", below(4));
    if (below(2))
        write_in_place(to, bytes, image_bytes(m.long_files ? 0 : 2 + below(100), bytes));
    (void)unlink(path_of(name, path));
    if (access(path_of(to, target), F_OK) < 0)
        write_in_place(to, "img", 3);
    cr_assert(eq(int, symlink(target, path), 0));
}

/* Replace a path by a note, or by a folder with an image. */
static void make_other(const char *name)
{
    char file[64], bytes[200];
    char path[512];

    remove_all(name);
    if (below(2)) {
        tell(" note");
        write_in_place(name, "note", 4);
        return;
    }
    tell(" folder");
    (void)mkdir(path_of(name, path), 0777);
    (void)snprintf(file, sizeof(file), "%s/9.jpg", name);
    write_in_place(file, bytes, (size_t)snprintf(bytes, sizeof(bytes), "img %u", below(100)));
}

/* Turn a file next to the classes or in one of them into a folder, or vice versa; or the target of
 * a link. */
static void change_type(void)
{
    static const char *const places[] = {"data/k", "data/c1/k"};
    static const char *const targets[] = {"kind0", "kind1"};
    uint32_t i = below(2);
    char path[512], target[512];
    struct stat st;

    if (m.form != FORM_FOLDER)
        return;
    tell("%s, type:", places[i]);
    if (below(2)) {
        make_other(places[i]);
        return;
    }
    make_other(targets[i]);
    if (lstat(path_of(places[i], path), &st) == 0 && S_ISLNK(st.st_mode))
        return;
    tell(" (a link now)");
    remove_all(places[i]);
    cr_assert(eq(int, symlink(path_of(targets[i], target), path), 0));
}

/* Wait for the next tick of the kernel's clock, because archives are compared once per tick
 * (archive.c). */
static void pass_tick(void)
{
    uint64_t now = time_clock_ns(CLOCK_MONOTONIC_COARSE);

    while (time_clock_ns(CLOCK_MONOTONIC_COARSE) == now)
        (void)sched_yield();
}

static void change(void)
{
    int i = (int)below(SAMPLES);

    note_times();
    if (m.listed && below(2)) {
        tell("classes written");
        write_listed();
    }
    switch (below(9)) {
    case 0:
    case 1:
        change_sample(i);
        break;
    case 2:
        change_caption(i);
        break;
    case 3:
    case 4:
        change_samples(i);
        break;
    case 5:
        change_nothing(i);
        break;
    case 6:
        change_link(i);
        break;
    case 7:
        change_type();
        break;
    default:
        m.classes = below(2) ? 0 : 5 + below(2);
        if (!has_files()) {
            tell("classes.txt");
            write_classes();
        }
    }
    set_times();
    pass_tick();
}

/* ---- delivered samples ---- */

struct line {
    char name[300];
    int label, code, field_code;
    uint64_t bytes, field;
    bool bad; /* bytes that verify() calls bad */
};

/* The samples in order, and then the properties of the whole data set. */
struct shown {
    struct line lines[SHOWN]; /* including samples that change_type() adds */
    uint32_t count;
    char whole[600];
    bool ended; /* the opening or a read returned -ESTALE */
};

static bool ends(int r)
{
    return r == -ESTALE || r == -ENOENT || r == -ENOTDIR;
}

enum opening { TO_SHOW, TO_VERIFY };

static struct dataset *open_set(const char *cache, enum opening opening, int *code)
{
    static const char *const formats[] = {"folder", "list", "tar", "tar", "tfrecord", "tar"};
    static const char *const files[] = {"data", "data/list.csv", "data/x.tar",
                                        "data", "data/x",        "data"};
    static const char *const fields[] = {"c:txt:text", "c:caption:bytes", "c:txt:text",
                                         "c:txt:text", "c:file:text",     "c:txt:text"};
    char name[1200], path[512], classes[512], folder[512];
    struct dataset_options options = {.cache_dir = path_of(cache, folder),
                                      .threads = 1,
                                      .rebuild = opening == TO_VERIFY,
                                      .forget_bad = opening == TO_VERIFY,
                                      .fields = m.fields ? fields[m.form] : NULL};
    struct dataset *d = NULL;
    struct plenum_error err;

    (void)snprintf(name, sizeof(name), "%s%s%s:%s", formats[m.form], m.listed ? ",classes=" : "",
                   m.listed ? path_of("classes", classes) : "", path_of(files[m.form], path));
    *code = dataset_open(name, &options, &d, &err);
    return *code < 0 ? NULL : d;
}

/* Returns whether the sample's bytes are bad. */
static bool is_bad(const struct dataset_buffer *buffer)
{
    for (size_t i = 0; i + 3 <= buffer->len; i++)
        if (memcmp(buffer->bytes + i, "BAD", 3) == 0)
            return true;
    return false;
}

static struct line show_sample(struct dataset *d, uint32_t i)
{
    struct dataset_buffer buffer = {0}, record = {0};
    struct plenum_error err;
    struct line line = {.label = (int)dataset_get_label(d, i)};

    (void)dataset_get_sample_name(d, i, line.name, sizeof(line.name));
    line.code = dataset_read(d, i, &buffer, &err);
    if (line.code == 0) {
        line.bytes = stamp_hash_bytes(buffer.bytes, buffer.len);
        line.bad = is_bad(&buffer);
    }
    line.field_code = m.fields ? dataset_read_fields(d, i, &record, &err) : 0;
    if (line.field_code == 0 && m.fields) /* the field's length, then its bytes */
        line.field = stamp_hash_bytes(record.bytes + sizeof(uint32_t), *(uint32_t *)record.bytes);
    dataset_buffer_fini(&buffer);
    dataset_buffer_fini(&record);
    return line;
}

static void show(struct dataset *d, int code, struct shown *ret)
{
    struct datasum sum;
    uint8_t fingerprint[16];
    char hex[33], fields[33];

    *ret = (struct shown){.ended = ends(code)};
    (void)snprintf(ret->whole, sizeof(ret->whole), "code %d", code);
    if (code < 0)
        return;
    ret->count = dataset_get_samples(d);
    cr_assert(le(u32, ret->count, SHOWN));
    for (uint32_t i = 0; i < ret->count; i++) {
        ret->lines[i] = show_sample(d, i);
        if (ends(ret->lines[i].code) || ends(ret->lines[i].field_code)) {
            ret->ended = true;
            ret->count = i;
        }
    }
    sum = *dataset_get_sum(d);
    sum.bad = 0; /* only the old cache has a list of bad samples */
    datasum_fingerprint(&sum, fingerprint);
    (void)snprintf(ret->whole, sizeof(ret->whole), "%u samples, %u classes, %s ... %s, %s %s",
                   ret->count, dataset_get_classes(d), dataset_get_class_name(d, 0),
                   dataset_get_class_name(d, dataset_get_classes(d) - 1),
                   datasum_hex(fingerprint, hex), datasum_hex(dataset_get_fields_hash(d), fields));
}

static void look(const char *cache, struct shown *ret)
{
    int code;
    struct dataset *d = open_set(cache, TO_SHOW, &code);

    show(d, code, ret);
    dataset_unref(d);
}

/* Write the list of bad samples, like plenumctl verify. */
static void verify(void)
{
    struct dataset_bad bad[SHOWN] = {{0}};
    struct dataset_buffer buffer = {0};
    struct dataset_kept kept;
    struct plenum_error err;
    uint32_t count = 0;
    int code;
    struct dataset *d = open_set("cache", TO_VERIFY, &code);

    tell("verify\n");
    for (uint32_t i = 0; d && i < dataset_get_samples(d); i++) {
        int r = dataset_read(d, i, &buffer, &err);

        cr_assert(eq(int, ends(r), 0), "verify: %s\n%s", err.text, story);
        if (r < 0)
            bad[count++] = (struct dataset_bad){i, "unreadable", false, DATASET_NO_BYTES};
        else if (is_bad(&buffer))
            bad[count++] =
                (struct dataset_bad){i, "BAD", false, stamp_hash_bytes(buffer.bytes, buffer.len)};
    }
    if (d)
        cr_assert(eq(int, dataset_keep_bad(d, bad, count, &kept, &err), 0), "%s", err.text);
    dataset_buffer_fini(&buffer);
    dataset_unref(d);
}

/* Returns whether the old cache may show `line` where the empty one shows `want`. A sample on the
 * list is not shown if its bytes are bad. */
static bool is_line(const struct line *line, const struct line *want)
{
    bool same = line->code == want->code && line->bytes == want->bytes;

    return strcmp(line->name, want->name) == 0 && line->label == want->label &&
           (same || (line->code == -EBADMSG && want->bad)) &&
           line->field_code == want->field_code && line->field == want->field;
}

/* Returns whether this line is one of those shown. */
static bool is_among(const struct line *line, const struct shown *shown)
{
    for (uint32_t i = 0; i < shown->count; i++)
        if (is_line(line, &shown->lines[i]))
            return true;
    return false;
}

static void describe(const char *what, const struct shown *s)
{
    size_t at = strlen(story);

    at += (size_t)snprintf(story + at, sizeof(story) - at, "%s: %s%s\n", what, s->whole,
                           s->ended ? " (ended)" : "");
    for (uint32_t i = 0; i < s->count && at < sizeof(story); i++)
        at += (size_t)snprintf(story + at, sizeof(story) - at, "  %s %d %d %016llx %d %016llx\n",
                               strrchr(s->lines[i].name, '/'), s->lines[i].label, s->lines[i].code,
                               (unsigned long long)s->lines[i].bytes, s->lines[i].field_code,
                               (unsigned long long)s->lines[i].field);
}

static void fail(const char *why, const struct shown *got, const struct shown *want)
{
    describe("got", got);
    describe("want", want);
    cr_assert(false, "%s\n%s", why, story);
}

static uint64_t looks, endings;

/* Check that an opening with the old cache shows `want`, or fails and one of the next openings
 * shows it. */
static void compare(const struct shown *want)
{
    struct shown got;

    for (int tries = 0;; tries++) {
        bool same;

        look("cache", &got);
        looks++;
        same = !got.ended && got.count == want->count && strcmp(got.whole, want->whole) == 0;
        for (uint32_t i = 0; i < got.count; i++) {
            same = same && is_line(&got.lines[i], &want->lines[i]);
            if (!is_among(&got.lines[i], want))
                fail("it shows a sample that does not exist", &got, want);
        }
        if (same || (want->ended && got.ended))
            return;
        if (!got.ended)
            fail("it shows something else", &got, want);
        endings++;
        if (tries == 3)
            fail("no opening succeeds", &got, want);
    }
}

/* What the data set showed since the open stream was opened: first to the stream, then with empty
 * caches. */
static struct shown history[16];
static size_t num_history;

static bool was_shown(const struct line *line)
{
    for (size_t i = 0; i < num_history; i++)
        if (is_among(line, &history[i]))
            return true;
    return false;
}

/* Check that the open stream shows something that was true at some time since it was opened, or
 * ends. (An archive that was replaced while it is open is still read.) Returns whether it is
 * still open. */
static bool goes_on(struct dataset *d)
{
    for (uint32_t i = 0; i < dataset_get_samples(d); i++) {
        struct line line = show_sample(d, below(dataset_get_samples(d)));

        if (ends(line.code) || ends(line.field_code)) {
            endings++;
            return false;
        }
        if (!was_shown(&line)) {
            struct shown got = {.lines = {line}, .count = 1};

            describe("before", &history[0]);
            fail("an open stream shows something that was never true", &got,
                 &history[num_history - 1]);
        }
    }
    return true;
}

static struct dataset *begin_stream(void)
{
    int code;
    struct dataset *stream = open_set("cache", TO_SHOW, &code);

    num_history = 1;
    if (stream)
        show(stream, 0, &history[0]);
    if (!stream || !history[0].ended)
        return stream;
    dataset_unref(stream);
    return NULL;
}

static void run_sequence(enum form form, uint64_t seed)
{
    struct dataset *stream = NULL;
    struct shown now;
    int steps;

    random_state = seed;
    story[0] = '\0';
    num_history = 0;
    m.fields = below(2);
    m.same_size = below(2);
    m.long_files = below(4) == 0;
    make(form);
    steps = 3 + (int)below(6);
    for (int i = 0; i < steps; i++) {
        if (below(4) == 0)
            verify();
        if (i > 0)
            change();
        remove_all("empty");
        look("empty", &now);
        history[num_history++] = now;
        if (stream && !goes_on(stream)) {
            dataset_unref(stream);
            stream = NULL;
        }
        if (below(4) > 0)
            compare(&now);
        if (!stream && !now.ended && below(2))
            stream = begin_stream();
    }
    dataset_unref(stream);
}

static uint64_t number_of(const char *variable, uint64_t absent)
{
    const char *text = getenv(variable);

    return text ? strtoull(text, NULL, 10) : absent;
}

static void run_form(enum form form)
{
    uint64_t count = number_of("PLENUM_FRESH_SEQUENCES", m.listed ? 4 : 12);
    uint64_t seed = number_of("PLENUM_FRESH_SEED", 1);

    for (uint64_t i = 0; i < count; i++)
        run_sequence(form, (seed * 1000003 + i) * 8 + form);
    cr_log_info("%llu sequences, %llu openings compared, %llu ended\n", (unsigned long long)count,
                (unsigned long long)looks, (unsigned long long)endings);
}

Test(fresh, folder)
{
    run_form(FORM_FOLDER);
}

Test(fresh, list)
{
    run_form(FORM_LIST);
}

Test(fresh, one_archive)
{
    run_form(FORM_TAR);
}

Test(fresh, folder_of_archives)
{
    run_form(FORM_TARS);
}

Test(fresh, tfrecord)
{
    run_form(FORM_TFRECORD);
}

Test(fresh, packed)
{
    run_form(FORM_PACKED);
}

static const enum form forms_listed[] = {FORM_FOLDER, FORM_LIST, FORM_TARS, FORM_TFRECORD};

Test(fresh, classes_from_a_file)
{
    m.listed = LISTED_FILE;
    for (size_t i = 0; i < ARRAY_LEN(forms_listed); i++)
        run_form(forms_listed[i]);
}

Test(fresh, classes_from_a_folder)
{
    m.listed = LISTED_FOLDER;
    for (size_t i = 0; i < ARRAY_LEN(forms_listed); i++)
        run_form(forms_listed[i]);
}
