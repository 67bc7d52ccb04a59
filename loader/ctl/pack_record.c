/* SPDX-License-Identifier: MIT */
/* pack_record.c - reads and writes the record, a text file with one entry per line, whose words are
 * separated by tabs:
 *
 *     plenum-pack  3
 *     source       FINGERPRINT  SAMPLES
 *     archives     SAMPLES-EACH PREFIX
 *     images       pack_resize_text()
 *     kept         SAMPLE OUTCOME NAME REASON         any number, before their archive
 *     archive      NUMBER BYTES HASH SAMPLES BEFORE AFTER WHOLE-ROWS COUNT-OF-EACH-OUTCOME...
 *
 * An archive is recorded before it is renamed to its final name. So an archive with its final name
 * is complete, and a killed process loses at most the archive that it was writing. The entries of
 * an archive are written with one write(); incomplete entries of a killed process are cut off. */
#include "config.h"

#include "loader/ctl/pack_record.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static const char record_name[] = "plenum-pack.txt";

enum { RECORD_MAX = 1 << 30, WORDS_MAX = 8 + PACK_OUTCOMES };

struct pack_record {
    struct pack_plan plan;
    int fd;
    char *path;
    struct pack_archive *archives;
    struct pack_kept *kept;
    size_t num_kept, cap_kept;
    uint64_t first_pending; /* first kept sample that is not written yet */
};

void pack_sum_add(struct pack_sum *to, const struct pack_sum *sum)
{
    to->samples += sum->samples;
    to->bytes_before += sum->bytes_before;
    to->bytes_after += sum->bytes_after;
    to->whole_row += sum->whole_row;
    for (int i = 0; i < PACK_OUTCOMES; i++)
        to->outcomes[i] += sum->outcomes[i];
}

static void print_hex(FILE *f, const uint8_t bytes[16])
{
    for (int i = 0; i < 16; i++)
        (void)fprintf(f, "%02x", bytes[i]);
}

/* Print a string, with control characters and backslashes as \xNN. */
static void print_escaped(FILE *f, const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == '\\')
            (void)fprintf(f, "\\x%02x", (unsigned char)*text);
        else
            (void)fputc(*text, f);
}

/* Undo print_escaped() in place. */
static void unescape(char *text)
{
    char *to = text;

    while (*text) {
        char digits[3] = {0};
        unsigned char value;

        if (strncmp(text, "\\x", 2) == 0 &&
            parse_hex(strncpy(digits, text + 2, 2), &value, 1) == 0 && value) {
            *to++ = (char)value;
            text += 4;
        } else {
            *to++ = *text++;
        }
    }
    *to = 0;
}

static enum pack_outcome outcome_named(const char *name)
{
    enum pack_outcome o = 0;

    while (o < PACK_OUTCOMES && strcmp(pack_outcome_name(o), name) != 0)
        o++;
    return o;
}

static void forget_kept(struct pack_record *r, uint64_t from)
{
    assert(from <= r->num_kept);
    while (r->num_kept > from) {
        r->num_kept--;
        free(r->kept[r->num_kept].name);
        free(r->kept[r->num_kept].reason);
    }
}

int pack_record_keep(struct pack_record *r, uint32_t sample, enum pack_outcome outcome,
                     const char *name, const char *reason)
{
    struct pack_kept kept = {sample, outcome, strdup(name), strdup(reason)};

    if (!kept.name || !kept.reason ||
        array_grow(&r->kept, &r->cap_kept, r->num_kept, sizeof(*r->kept)) < 0) {
        free(kept.name);
        free(kept.reason);
        return -ENOMEM;
    }
    r->kept[r->num_kept++] = kept;
    return 0;
}

/* Split a line into its words, in place. Returns their number, or 0 if there are too many. */
static size_t split(char *line, char **words)
{
    size_t count = 0;

    while (line && count < WORDS_MAX)
        words[count++] = strsep(&line, "\t");
    return line ? 0 : count;
}

static bool take_u64(const char *text, uint64_t max, uint64_t *ret)
{
    return parse_u64(text, max, ret) == 0;
}

static bool parse_archive(struct pack_record *r, char **words)
{
    struct pack_archive a = {.there = true};
    uint64_t number,
        *counts[] = {&a.sum.samples, &a.sum.bytes_before, &a.sum.bytes_after, &a.sum.whole_row};

    if (!take_u64(words[1], pack_plan_archives(&r->plan) - 1, &number) ||
        !take_u64(words[2], UINT64_MAX, &a.written.bytes) ||
        parse_hex(words[3], a.written.hash, sizeof(a.written.hash)) < 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        if (!take_u64(words[4 + i], UINT64_MAX, counts[i]))
            return false;
    for (int i = 0; i < PACK_OUTCOMES; i++)
        if (!take_u64(words[8 + i], UINT64_MAX, &a.sum.outcomes[i]))
            return false;
    r->archives[number] = a;
    return true;
}

static bool parse_kept(struct pack_record *r, char **words)
{
    enum pack_outcome outcome = outcome_named(words[2]);
    uint64_t sample;

    if (!take_u64(words[1], UINT32_MAX, &sample) || outcome == PACK_OUTCOMES)
        return false;
    unescape(words[3]);
    unescape(words[4]);
    return pack_record_keep(r, (uint32_t)sample, outcome, words[3], words[4]) == 0;
}

/* Check that the record was begun with the same plan. */
static int check_head(const struct pack_record *r, char **lines, struct plenum_error *err)
{
    char *words[4][WORDS_MAX], resize[PACK_RESIZE_TEXT];
    uint8_t fingerprint[16];
    uint64_t samples, each;

    if (split(lines[0], words[0]) != 2 || strcmp(words[0][0], "plenum-pack") != 0 ||
        strcmp(words[0][1], "3") != 0 || split(lines[1], words[1]) != 3 ||
        strcmp(words[1][0], "source") != 0 ||
        parse_hex(words[1][1], fingerprint, sizeof(fingerprint)) < 0 ||
        !take_u64(words[1][2], UINT32_MAX, &samples) || split(lines[2], words[2]) != 3 ||
        strcmp(words[2][0], "archives") != 0 || !take_u64(words[2][1], UINT32_MAX, &each) ||
        split(lines[3], words[3]) != 2 || strcmp(words[3][0], "images") != 0)
        return error_set(err, -EBADMSG,
                         "%s is not a record of plenumctl pack, or has a different version",
                         r->path);
    if (samples != r->plan.samples || memcmp(fingerprint, r->plan.fingerprint, 16) != 0)
        return error_set(
            err, -EEXIST,
            "%s belongs to another data set, with %llu samples, or to one that has changed "
            "since: pack into a new folder",
            r->path, (unsigned long long)samples);
    if (each != r->plan.per_archive)
        return error_set(err, -EEXIST,
                         "%s was begun with --samples-per-archive %llu: continue with the same "
                         "option, or pack into a new folder",
                         r->path, (unsigned long long)each);
    if (strcmp(words[2][2], r->plan.prefix) != 0)
        return error_set(err, -EEXIST,
                         "%s was begun with --prefix %s: continue with the same option, or pack "
                         "into a new folder",
                         r->path, words[2][2]);
    if (strcmp(words[3][1], pack_resize_text(&r->plan.resize, resize)) != 0)
        return error_set(err, -EEXIST,
                         "%s was begun with %s, not %s: continue with the same options, or pack "
                         "into a new folder",
                         r->path, words[3][1], resize);
    return 0;
}

/* Read the record. `*valid` receives the length of its complete entries. */
static int parse(struct pack_record *r, char *text, size_t *valid, struct plenum_error *err)
{
    char *lines[4] = {NULL}, *p = text, *end, *words[WORDS_MAX];
    int head;

    for (size_t i = 0; i < ARRAY_LEN(lines); i++, p = end + 1) {
        end = strchr(p, '\n');
        if (!end) { /* the process was killed before it wrote the header */
            *valid = 0;
            return 0;
        }
        *end = 0;
        lines[i] = p;
    }
    *valid = (size_t)(p - text);
    head = check_head(r, lines, err);
    for (unsigned line = 5; head == 0 && (end = strchr(p, '\n')); line++, p = end + 1) {
        bool ok;
        size_t count;

        *end = 0;
        count = split(p, words);
        if (count == 5 && strcmp(words[0], "kept") == 0)
            ok = parse_kept(r, words);
        else
            ok = count == WORDS_MAX && strcmp(words[0], "archive") == 0 && parse_archive(r, words);
        if (!ok)
            return error_set(err, -EBADMSG,
                             "%s is damaged in line %u: pack into a new folder, or remove all "
                             "files from this one",
                             r->path, line);
        if (count == WORDS_MAX) {
            *valid = (size_t)(end + 1 - text);
            r->first_pending = r->num_kept;
        }
    }
    forget_kept(r, r->first_pending); /* their archive was not recorded */
    return head;
}

static int read_back(struct pack_record *r, size_t *valid, struct plenum_error *err)
{
    struct stat st;
    char *text;
    int code = fstat(r->fd, &st) < 0 ? -errno : 0;

    if (code == 0 && st.st_size > RECORD_MAX)
        return error_set(err, -EBADMSG, "%s is too large", r->path);
    text = code == 0 ? malloc((size_t)st.st_size + 1) : NULL;
    if (code == 0)
        code = text ? io_pread_all(r->fd, text, (size_t)st.st_size, 0) : -ENOMEM;
    if (code < 0) {
        (void)error_set(err, code, "cannot read %s: %s", r->path, strerror(-code));
    } else {
        assert(text);
        text[st.st_size] = 0;
        code = parse(r, text, valid, err);
    }
    free(text);
    return code;
}

/* Append text, which is freed, and sync it to the disk. */
static int append(struct pack_record *r, char *text, size_t len, struct plenum_error *err)
{
    int code = text ? io_write_all(r->fd, text, len) : -ENOMEM;

    if (code == 0 && fsync(r->fd) < 0)
        code = -errno;
    free(text);
    return code < 0 ? error_set(err, code, "cannot write %s: %s", r->path, strerror(-code)) : 0;
}

/* Sync the folder's entries to the disk. */
static int sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = fd < 0 || fsync(fd) < 0 ? -errno : 0;

    io_close(&fd);
    return code == -EINVAL ? 0 : code; /* the file system does not support it */
}

static int begin(struct pack_record *r, const char *folder, struct plenum_error *err)
{
    int code;
    char *text = NULL, resize[PACK_RESIZE_TEXT];
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    if (!f)
        return error_set(err, -ENOMEM, "out of memory");
    (void)fprintf(f, "plenum-pack\t3\nsource\t");
    print_hex(f, r->plan.fingerprint);
    (void)fprintf(f, "\t%u\narchives\t%u\t%s\nimages\t%s\n", r->plan.samples, r->plan.per_archive,
                  r->plan.prefix, pack_resize_text(&r->plan.resize, resize));
    (void)fclose(f);
    code = append(r, text, len, err);
    if (code == 0 && (code = sync_folder(folder)) < 0)
        (void)error_set(err, code, "%s: %s", folder, strerror(-code));
    return code;
}

/* Check that a folder without a record is empty. */
static int check_empty(const char *folder, struct plenum_error *err)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    int r = 0;

    if (!dir)
        return error_set(err, -errno, "%s: %s", folder, strerror(errno));
    while (errno = 0, entry = readdir(dir))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            strcmp(entry->d_name, record_name) != 0) {
            r = error_set(err, -EEXIST,
                          "%s is not empty and was not written by plenumctl pack (it holds %s): "
                          "name a new folder",
                          folder, entry->d_name);
            goto out;
        }
    if (errno)
        r = error_set(err, -errno, "%s: %s", folder, strerror(errno));

out:
    (void)closedir(dir);
    return r;
}

static int open_locked(struct pack_record *r, const char *folder, struct plenum_error *err)
{
    bool there = access(r->path, F_OK) == 0;
    int code = there ? 0 : check_empty(folder, err);

    if (code < 0)
        return code;
    r->fd = open(r->path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (r->fd < 0)
        return error_set(err, -errno, "cannot write %s: %s", r->path, strerror(errno));
    if (flock(r->fd, LOCK_EX | LOCK_NB) < 0)
        return error_set(err, errno == EWOULDBLOCK ? -EBUSY : -errno, "%s: %s", folder,
                         errno == EWOULDBLOCK ? "another plenumctl pack is running there"
                                              : strerror(errno));
    return 0;
}

int pack_record_open(const char *folder, const struct pack_plan *plan, struct pack_record **ret,
                     struct plenum_error *err)
{
    struct pack_record *r = malloc(sizeof(*r));
    size_t valid = 0;
    int code = 0;

    if (!r)
        return error_set(err, -ENOMEM, "out of memory");
    assert(plan->samples > 0 && plan->per_archive > 0);
    *r = (struct pack_record){.plan = *plan, .fd = -1};
    r->path = str_format("%s/%s", folder, record_name);
    r->archives = calloc(pack_plan_archives(plan), sizeof(*r->archives));
    if (!r->path || !r->archives)
        code = error_set(err, -ENOMEM, "out of memory");
    if (code == 0)
        code = open_locked(r, folder, err);
    if (code == 0)
        code = read_back(r, &valid, err);
    if (code == 0 && ftruncate(r->fd, (off_t)valid) < 0)
        code = error_set(err, -errno, "cannot write %s: %s", r->path, strerror(errno));
    if (code == 0 && valid == 0)
        code = begin(r, folder, err);
    if (code < 0)
        pack_record_close(r);
    else
        *ret = r;
    return code;
}

void pack_record_close(struct pack_record *r)
{
    if (!r)
        return;
    forget_kept(r, 0);
    io_close(&r->fd);
    free(r->kept);
    free(r->archives);
    free(r->path);
    free(r);
}

const struct pack_archive *pack_record_get(const struct pack_record *r, uint32_t archive)
{
    assert(archive < pack_plan_archives(&r->plan));
    return &r->archives[archive];
}

static int by_sample(const void *a, const void *b)
{
    const struct pack_kept *x = a, *y = b;

    return (x->sample > y->sample) - (x->sample < y->sample);
}

const struct pack_kept *pack_record_get_kept(struct pack_record *r, uint64_t *count)
{
    uint64_t n = 0;

    if (r->num_kept > 1)
        qsort(r->kept, r->num_kept, sizeof(*r->kept), by_sample);
    /* Drop duplicates, which exist if an archive was recorded, removed and packed again. */
    for (uint64_t i = 0; i < r->num_kept; i++) {
        if (n > 0 && r->kept[n - 1].sample == r->kept[i].sample) {
            free(r->kept[i].name);
            free(r->kept[i].reason);
        } else {
            r->kept[n++] = r->kept[i];
        }
    }
    *count = r->num_kept = r->first_pending = n;
    return r->kept;
}

int pack_record_add(struct pack_record *r, uint32_t archive, const struct tar_written *written,
                    const struct pack_sum *sum, struct plenum_error *err)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    if (!f)
        return error_set(err, -ENOMEM, "out of memory");
    assert(archive < pack_plan_archives(&r->plan) && r->first_pending <= r->num_kept);
    for (; r->first_pending < r->num_kept; r->first_pending++) {
        const struct pack_kept *k = &r->kept[r->first_pending];

        (void)fprintf(f, "kept\t%u\t%s\t", k->sample, pack_outcome_name(k->outcome));
        print_escaped(f, k->name);
        (void)fputc('\t', f);
        print_escaped(f, k->reason);
        (void)fputc('\n', f);
    }
    (void)fprintf(f, "archive\t%u\t%" PRIu64 "\t", archive, written->bytes);
    print_hex(f, written->hash);
    (void)fprintf(f, "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64, sum->samples,
                  sum->bytes_before, sum->bytes_after, sum->whole_row);
    for (int i = 0; i < PACK_OUTCOMES; i++)
        (void)fprintf(f, "\t%" PRIu64, sum->outcomes[i]);
    (void)fputc('\n', f);
    (void)fclose(f);
    r->archives[archive] = (struct pack_archive){true, *written, *sum};
    return append(r, text, len, err);
}
