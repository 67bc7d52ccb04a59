/* SPDX-License-Identifier: MIT */
/* bench_index.c - measures opening a data set of ImageNet's size, compared with `find`.
 *
 *     bench/index [--samples N] [--folders N] [--archives N] [--rounds N] [--json] [FOLDER]
 *
 * Creates N samples in folders and in archives, as hard links to a few files, below FOLDER ($TMPDIR
 * or /tmp), and removes them afterwards. Each round runs, in turn:
 *
 *     find      find -type f -printf '%s %p\n' over the folders, discarding its output
 *     index     rebuilds the folders' index
 *     archives  rebuilds the archives' index
 *     open      opens the folders' existing index
 *     open-archives  opens the archives' existing index
 *
 * At the end, a loader for the folders and one for the archives show the memory per sample, and the
 * time from opening a stream to a first batch of 64, with an existing index. The page cache is warm
 * throughout. PLENUM_PLENUMD names the loader. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <plenum/plenum.h>

#include "bench/bench.h"
#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "loader/image/encode.h"
#include "tests/daemon.h"

enum {
    ORIGINALS = 64, /* files that all others link to: file systems limit the links per file */
    TARS = 16,      /* the same for archives */
    SIDE = 64,      /* side of the pictures in pixels */
    BLOCK = 512,    /* block size of a tar archive */
    BATCH = 64,
    ROUNDS_MAX = 100,
};

struct bench_index_arguments {
    uint32_t samples, folders, archives, rounds;
    bool json;
    const char *where;
};

static char root[256];

static void die(const char *what)
{
    fprintf(stderr, "index: %s: %s\n", what, strerror(errno));
    exit(1);
}

static char *path_of(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Format a path into one of several static buffers. */
static char *path_of(const char *format, ...)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    size_t n = (size_t)snprintf(path, sizeof(paths[0]), "%s/", root);
    va_list args;

    va_start(args, format);
    (void)vsnprintf(path + n, sizeof(paths[0]) - n, format, args);
    va_end(args);
    return path;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void clean_up(void)
{
    if (root[0])
        (void)nftw(root, remove_one, 64, FTW_DEPTH | FTW_PHYS);
}

static void write_file(const char *path, const void *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);

    if (fd < 0 || io_write_all(fd, bytes, len) < 0 || close(fd) < 0)
        die(path);
}

static void make_picture(unsigned number, uint8_t **bytes, size_t *len)
{
    static uint8_t pixels[SIDE * SIDE * 3];
    struct encode_options e = {.pixels = pixels, .width = SIDE, .height = SIDE, .quality = 80};

    for (size_t i = 0; i < sizeof(pixels); i++)
        pixels[i] = (uint8_t)(i * 3 + i / SIDE * number);
    if (encode_jpeg(&e, bytes, len) < 0)
        die("encode_jpeg");
}

static void put_member(const char *path, const char *name, const void *bytes, size_t len)
{
    char block[BLOCK] = "";
    unsigned sum = 0;

    (void)snprintf(block, 100, "%s", name);
    memcpy(block + 100, "0000644\0000000000\0000000000\0", 24);
    (void)snprintf(block + 124, 12, "%011zo", len);
    memcpy(block + 136, "00000000000\000        0", 21);
    memcpy(block + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK; i++)
        sum += (unsigned char)block[i];
    (void)snprintf(block + 148, 8, "%06o", sum);
    write_file(path, block, BLOCK);
    write_file(path, bytes, len);
    memset(block, 0, BLOCK);
    write_file(path, block, (BLOCK - len % BLOCK) % BLOCK);
}

static void make_folders(const struct bench_index_arguments *a)
{
    if (mkdir(path_of("originals"), 0755) < 0 || mkdir(path_of("folders"), 0755) < 0)
        die(root);
    for (unsigned i = 0; i < ORIGINALS; i++) {
        uint8_t *bytes;
        size_t len;

        make_picture(i, &bytes, &len);
        write_file(path_of("originals/%u.jpg", i), bytes, len);
        free(bytes);
    }
    for (uint32_t f = 0; f < a->folders; f++)
        if (mkdir(path_of("folders/n%08u", f * 7919), 0755) < 0)
            die("mkdir");
    for (uint32_t i = 0; i < a->samples; i++)
        if (link(path_of("originals/%u.jpg", i % ORIGINALS),
                 path_of("folders/n%08u/n%08u_%u.JPEG", i % a->folders * 7919,
                         i % a->folders * 7919, i / a->folders)) < 0)
            die("link (does the file system allow that many?)");
}

static void make_archives(const struct bench_index_arguments *a)
{
    uint32_t each = (a->samples + a->archives - 1) / a->archives;
    static const char end[2 * BLOCK];

    if (mkdir(path_of("archives"), 0755) < 0 || mkdir(path_of("tars"), 0755) < 0)
        die(root);
    for (unsigned t = 0; t < TARS; t++) {
        char path[512], name[64];
        uint8_t *bytes;
        size_t len;

        (void)snprintf(path, sizeof(path), "%s", path_of("tars/%u", t));
        make_picture(t, &bytes, &len);
        for (uint32_t i = 0; i < each; i++) {
            (void)snprintf(name, sizeof(name), "n%08u_%u.JPEG", i, t);
            put_member(path, name, bytes, len);
            (void)snprintf(name, sizeof(name), "n%08u_%u.cls", i, t);
            put_member(path, name, "17", 2);
        }
        write_file(path, end, sizeof(end));
        free(bytes);
    }
    for (uint32_t i = 0; i < a->archives; i++)
        if (link(path_of("tars/%u", i % TARS), path_of("archives/train-%06u.tar", i)) < 0)
            die("link");
}

static double seconds_since(uint64_t begin_ns)
{
    return (double)(time_now_ns() - begin_ns) / (double)NS_PER_SEC;
}

/* A measurement: elapsed time, and CPU time of all threads, which a busy machine disturbs less. */
struct took {
    double clock[ROUNDS_MAX], cpu[ROUNDS_MAX];
};

/* Returns the CPU seconds used so far by this process, or by its children that have ended. */
static double cpu_seconds(int who)
{
    struct rusage u;

    (void)getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void time_find(struct took *ret, uint32_t round)
{
    char command[600], buffer[65536];
    double cpu = cpu_seconds(RUSAGE_CHILDREN);
    uint64_t begin = time_now_ns();
    FILE *f;

    (void)snprintf(command, sizeof(command), "find '%s' -type f -printf '%%s %%p\\n'",
                   path_of("folders"));
    f = popen(command, "r");
    if (!f)
        die("find");
    while (fread(buffer, 1, sizeof(buffer), f) > 0)
        ;
    if (pclose(f) != 0)
        die("find");
    ret->clock[round] = seconds_since(begin);
    ret->cpu[round] = cpu_seconds(RUSAGE_CHILDREN) - cpu;
}

/* Returns the number of samples. */
static uint32_t time_open(const char *name, bool rebuild, struct took *ret, uint32_t round)
{
    struct dataset_options options = {.cache_dir = path_of("cache"), .rebuild = rebuild};
    double cpu = cpu_seconds(RUSAGE_SELF);
    uint64_t begin = time_now_ns();
    struct plenum_error err;
    struct dataset *d;
    uint32_t samples;

    if (dataset_open(name, &options, &d, &err) < 0) {
        fprintf(stderr, "index: %s\n", err.text);
        exit(1);
    }
    ret->clock[round] = seconds_since(begin);
    ret->cpu[round] = cpu_seconds(RUSAGE_SELF) - cpu;
    samples = dataset_get_samples(d);
    dataset_unref(d);
    return samples;
}

/* Returns the private memory and mapped files of a process, in bytes; rings, which are shared
 * memory, are not counted. */
static double memory_of(pid_t pid)
{
    char path[64], line[256];
    unsigned long kib = 0, value;
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    f = fopen(path, "r");
    if (!f)
        die(path);
    while (fgets(line, sizeof(line), f))
        if (sscanf(line, "RssAnon: %lu", &value) == 1 || sscanf(line, "RssFile: %lu", &value) == 1)
            kib += value;
    (void)fclose(f);
    return (double)kib * 1024;
}

struct loader_figures {
    double first_batch_ms, bytes_a_sample;
};

static struct loader_figures measure_loader(const char *name, uint32_t samples)
{
    struct plenum_stream_options o;
    struct plenum_stream *stream;
    struct plenum_batch batch;
    struct plenum_error err;
    struct loader_figures ret;
    static unsigned number;
    char address[64];
    double before;
    uint64_t begin;
    pid_t pid;

    (void)snprintf(address, sizeof(address), "unix:@plenum-bench-index-%ld-%u", (long)getpid(),
                   number++);
    (void)setenv("PLENUM_PLENUMD", "./plenumd", 0);
    pid = daemon_start(address, "2", "--cache-dir", path_of("cache"));
    before = memory_of(pid);
    plenum_stream_options_init(&o);
    o.dataset = name;
    o.loader = address;
    o.micro_batch = BATCH;
    begin = time_now_ns();
    if (plenum_stream_open(NULL, &o, &stream, &err) < 0 ||
        plenum_stream_next(stream, PLENUM_FOREVER, &batch, &err) < 0) {
        fprintf(stderr, "index: %s\n", err.text);
        exit(1);
    }
    ret.first_batch_ms = seconds_since(begin) * 1e3;
    ret.bytes_a_sample = (memory_of(pid) - before) / samples;
    plenum_batch_release(&batch);
    plenum_stream_destroy(stream);
    (void)daemon_end(pid, SIGTERM);
    return ret;
}

static void print_row(struct json *j, bool json, const char *name, struct took *t,
                      const struct took *find, uint32_t rounds)
{
    struct took base = *find; /* bench_spread_of() sorts */
    struct bench_spread s = bench_spread_of(t->clock, rounds);
    double cpu = bench_spread_of(t->cpu, rounds).median;
    double ratio = s.median / bench_spread_of(base.clock, rounds).median;
    double cpu_ratio = cpu / bench_spread_of(base.cpu, rounds).median;

    if (json) {
        json_begin_object(j, NULL, JSON_FLAT);
        json_text(j, "name", name);
        bench_json_spread(j, &s, 6);
        json_real(j, "cpu", cpu, 6);
        json_real(j, "ratio_to_find", ratio, 3);
        json_real(j, "cpu_ratio_to_find", cpu_ratio, 3);
        json_end_object(j);
    } else {
        printf("%-14s %9.4f %9.4f %9.4f %8.3f %9.4f %8.3f\n", name, s.min, s.median, s.max, ratio,
               cpu, cpu_ratio);
    }
}

static void print_loader(struct json *j, bool json, const char *what,
                         const struct loader_figures *l)
{
    if (json) {
        json_begin_object(j, what, JSON_FLAT);
        json_real(j, "first_batch_ms", l->first_batch_ms, 1);
        json_real(j, "loader_bytes_a_sample", l->bytes_a_sample, 1);
        json_end_object(j);
    } else {
        printf("%s: first batch of %d %.0f ms after opening the stream; the loader's memory: %.1f "
               "bytes per sample without its rings\n",
               what, BATCH, l->first_batch_ms, l->bytes_a_sample);
    }
}

static void parse(int argc, char **argv, struct bench_index_arguments *a)
{
    static const struct option options[] = {{"samples", 1, NULL, 's'},  {"folders", 1, NULL, 'f'},
                                            {"archives", 1, NULL, 'a'}, {"rounds", 1, NULL, 'r'},
                                            {"json", 0, NULL, 'j'},     {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
        uint32_t value = optarg ? (uint32_t)strtoul(optarg, NULL, 10) : 0;

        if (c == 's')
            a->samples = value;
        else if (c == 'f')
            a->folders = value;
        else if (c == 'a')
            a->archives = value;
        else if (c == 'r')
            a->rounds = value < ROUNDS_MAX ? value : ROUNDS_MAX;
        else if (c == 'j')
            a->json = true;
        else
            exit(2);
    }
    if (a->samples == 0 || a->folders == 0 || a->archives == 0 || a->rounds == 0)
        exit(2);
    if (optind < argc)
        a->where = argv[optind];
}

int main(int argc, char **argv)
{
    struct bench_index_arguments a = {
        .samples = 1280000, .folders = 1000, .archives = 1251, .rounds = 5};
    static struct took find, index, archives, opens, opens_archives;
    const char *tmp = getenv("TMPDIR");
    struct loader_figures of_folders, of_archives;
    struct json j = {.file = stdout};
    uint32_t samples = 0, in_archives = 0;

    parse(argc, argv, &a);
    (void)snprintf(root, sizeof(root), "%.200s/plenum-bench-XXXXXX",
                   a.where ? a.where
                   : tmp   ? tmp
                           : "/tmp");
    if (!mkdtemp(root))
        die(root);
    (void)atexit(clean_up);
    make_folders(&a);
    make_archives(&a);
    time_find(&find, 0); /* warms the cache */
    for (uint32_t r = 0; r < a.rounds; r++) {
        time_find(&find, r);
        samples = time_open(path_of("folders"), true, &index, r);
        in_archives = time_open(path_of("archives"), true, &archives, r);
        (void)time_open(path_of("folders"), false, &opens, r);
        (void)time_open(path_of("archives"), false, &opens_archives, r);
    }
    of_folders = measure_loader(path_of("folders"), samples);
    of_archives = measure_loader(path_of("archives"), in_archives);
    if (a.json) {
        bench_json_begin(&j, "index");
        json_number(&j, "samples", samples);
        json_number(&j, "samples_in_archives", in_archives);
        json_begin_array(&j, "rows", JSON_LINES);
    } else {
        printf("%u samples in %u folders, %u in %u archives; %u rounds; seconds\n\n", samples,
               a.folders, in_archives, a.archives, a.rounds);
        printf("%-14s %9s %9s %9s %8s %9s %8s\n", "", "min", "median", "max", "x find", "cpu",
               "x find");
    }
    print_row(&j, a.json, "find", &find, &find, a.rounds);
    print_row(&j, a.json, "index", &index, &find, a.rounds);
    print_row(&j, a.json, "archives", &archives, &find, a.rounds);
    print_row(&j, a.json, "open", &opens, &find, a.rounds);
    print_row(&j, a.json, "open-archives", &opens_archives, &find, a.rounds);
    if (a.json)
        json_end_array(&j);
    else
        printf("\n");
    print_loader(&j, a.json, "folders", &of_folders);
    print_loader(&j, a.json, "archives", &of_archives);
    if (a.json)
        json_end_object(&j);
    return 0;
}
