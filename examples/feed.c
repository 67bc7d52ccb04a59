/* SPDX-License-Identifier: MIT */
/* feed.c - read a stream of batches, and count and hash them.
 *
 *     feed folder:/data/train --pipeline train --micro-batch 16 --epochs 2
 *     plenumrun --num-instances 2 --num-replicas 4 feed folder:/data/train
 *
 * It prints the rate of batches, the share of time that the program waited for them, and the hash
 * of all batches delivered to all instances, which must equal the hash that `plenumctl hash`
 * computes in one process. A training program has the same loop, with a training step instead of
 * the hash.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <plenum/plenum.h>

struct arguments {
    struct plenum_stream_options stream;
    uint32_t replicas;      /* if the job has one instance */
    uint64_t batches;       /* stop after this many; 0: at the end of the stream */
    const char *resume;     /* file with the cursor to start from */
    const char *checkpoint; /* file to write the cursor to at the end */
    unsigned pause_ms;      /* after each batch, instead of a training step */
    int verbose, json;
};

/* Counts of one instance, or their sums over all instances. */
struct totals {
    int64_t images, batches, substituted, hash, incidents, moved, hedged, verified;
    double seconds, waiting;
};

static const char usage[] =
    "usage: feed DATASET [options]\n\n"
    "Consume a stream of batches; print images/s, the share of time spent waiting, and the hash of "
    "all\n"
    "batches delivered to all instances of the job. SIGUSR1 ends it after the current batch.\n\n"
    "options:\n"
    "  --pipeline TEXT       train (default), eval, or stages as in 'rrc(224) flip(0.5)'\n"
    "  --seed N              key of all random numbers (default 0)\n"
    "  --micro-batch M       samples per replica and step (default 16)\n"
    "  --replicas R          replicas, if there is one instance (default: from the launcher)\n"
    "  --epochs E            epochs (default 1)\n"
    "  --steps S             steps per batch (default 1)\n"
    "  --shuffle ORDER       global (default), none or block:B\n"
    "  --subset A:B          use only samples A to B - 1 of the data set\n"
    "  --repeat K            show each sample at K consecutive positions (default 1)\n"
    "  --deal WAY            consecutive (default) or round-robin: how replicas share a step's "
    "positions\n"
    "  --split sample|file   file: each instance has its own part of the archives\n"
    "  --last pad|drop       pad or omit an incomplete last step (default pad)\n"
    "  --bad substitute|fail replace a bad sample, or end with an error (default substitute)\n"
    "  --dtype int8|uint8    type of the pixels (default int8)\n"
    "  --layout nhwc|nchw    (default nhwc)\n"
    "  --prefetch-depth N    batches requested in advance (default 3)\n"
    "  --loader ADDRESS      use this loader instead of the job's own; separate several by commas\n"
    "  --loader-timeout S    fail if no loader answers for S seconds (default 60)\n"
    "  --silence MS          drop a loader that is silent for MS milliseconds (default 5000)\n"
    "  --batches N           stop after N batches\n"
    "  --resume FILE         start at the cursor in FILE\n"
    "  --checkpoint FILE     write the cursor to FILE at the end\n"
    "  --pause MS            sleep after each batch, as if training\n"
    "  --verbose             print a line for each batch\n"
    "  --json                print the result as JSON\n"
    "  --help\n";

enum {
    OPT_PIPELINE = 256,
    OPT_SEED,
    OPT_MICRO_BATCH,
    OPT_REPLICAS,
    OPT_EPOCHS,
    OPT_STEPS,
    OPT_SHUFFLE,
    OPT_SUBSET,
    OPT_REPEAT,
    OPT_DEAL,
    OPT_SPLIT,
    OPT_LAST,
    OPT_BAD,
    OPT_DTYPE,
    OPT_LAYOUT,
    OPT_DEPTH,
    OPT_LOADER,
    OPT_LOADER_TIMEOUT,
    OPT_SILENCE,
    OPT_BATCHES,
    OPT_RESUME,
    OPT_CHECKPOINT,
    OPT_PAUSE,
    OPT_VERBOSE,
    OPT_JSON,
    OPT_HELP,
};

static const struct option long_options[] = {
    {"pipeline", 1, NULL, OPT_PIPELINE},
    {"seed", 1, NULL, OPT_SEED},
    {"micro-batch", 1, NULL, OPT_MICRO_BATCH},
    {"replicas", 1, NULL, OPT_REPLICAS},
    {"epochs", 1, NULL, OPT_EPOCHS},
    {"steps", 1, NULL, OPT_STEPS},
    {"shuffle", 1, NULL, OPT_SHUFFLE},
    {"subset", 1, NULL, OPT_SUBSET},
    {"repeat", 1, NULL, OPT_REPEAT},
    {"deal", 1, NULL, OPT_DEAL},
    {"split", 1, NULL, OPT_SPLIT},
    {"last", 1, NULL, OPT_LAST},
    {"bad", 1, NULL, OPT_BAD},
    {"dtype", 1, NULL, OPT_DTYPE},
    {"layout", 1, NULL, OPT_LAYOUT},
    {"prefetch-depth", 1, NULL, OPT_DEPTH},
    {"loader", 1, NULL, OPT_LOADER},
    {"loader-timeout", 1, NULL, OPT_LOADER_TIMEOUT},
    {"silence", 1, NULL, OPT_SILENCE},
    {"batches", 1, NULL, OPT_BATCHES},
    {"resume", 1, NULL, OPT_RESUME},
    {"checkpoint", 1, NULL, OPT_CHECKPOINT},
    {"pause", 1, NULL, OPT_PAUSE},
    {"verbose", 0, NULL, OPT_VERBOSE},
    {"json", 0, NULL, OPT_JSON},
    {"help", 0, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static void bad_usage(const char *what, const char *value)
{
    fprintf(stderr, "feed: %s '%s'; see feed --help\n", what, value);
    exit(2);
}

static uint64_t number(const char *text, uint64_t max)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value > max)
        bad_usage("expected an integer within range, not", text);
    return value;
}

/* Returns 0 or 1 for the first or second word. */
static int choice(const char *text, const char *zero, const char *one)
{
    if (strcmp(text, zero) != 0 && strcmp(text, one) != 0)
        bad_usage("not one of the choices:", text);
    return strcmp(text, one) == 0;
}

static void parse(int argc, char **argv, struct arguments *a)
{
    struct plenum_stream_options *o = &a->stream;
    int c;

    while ((c = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
        switch (c) {
        case OPT_PIPELINE:
            o->pipeline = optarg;
            break;
        case OPT_SEED:
            o->seed = number(optarg, UINT64_MAX);
            break;
        case OPT_MICRO_BATCH:
            o->micro_batch = (uint32_t)number(optarg, UINT32_MAX);
            break;
        case OPT_REPLICAS:
            a->replicas = (uint32_t)number(optarg, UINT32_MAX);
            break;
        case OPT_EPOCHS:
            o->epochs = number(optarg, UINT32_MAX);
            break;
        case OPT_STEPS:
            o->steps = (uint32_t)number(optarg, UINT32_MAX);
            break;
        case OPT_SHUFFLE:
            o->shuffle = optarg;
            break;
        case OPT_SUBSET:
            o->subset = optarg;
            break;
        case OPT_REPEAT:
            o->repeat = (uint32_t)number(optarg, UINT32_MAX);
            break;
        case OPT_DEAL:
            o->deal = choice(optarg, "consecutive", "round-robin") ? PLENUM_DEAL_ROUND_ROBIN
                                                                   : PLENUM_DEAL_CONSECUTIVE;
            break;
        case OPT_SPLIT:
            o->split = choice(optarg, "sample", "file") ? PLENUM_SPLIT_FILE : PLENUM_SPLIT_SAMPLE;
            break;
        case OPT_LAST:
            o->last = choice(optarg, "pad", "drop") ? PLENUM_DROP : PLENUM_PAD;
            break;
        case OPT_BAD:
            o->bad = choice(optarg, "substitute", "fail") ? PLENUM_BAD_FAIL : PLENUM_BAD_SUBSTITUTE;
            break;
        case OPT_DTYPE:
            o->dtype = choice(optarg, "int8", "uint8") ? PLENUM_UINT8 : PLENUM_INT8;
            break;
        case OPT_LAYOUT:
            o->layout = choice(optarg, "nhwc", "nchw") ? PLENUM_NCHW : PLENUM_NHWC;
            break;
        case OPT_DEPTH:
            o->prefetch_depth = (uint32_t)number(optarg, UINT32_MAX);
            break;
        case OPT_LOADER:
            o->loader = optarg;
            break;
        case OPT_LOADER_TIMEOUT:
            o->loader_timeout_ns = number(optarg, 1000000) * UINT64_C(1000000000);
            break;
        case OPT_SILENCE:
            o->silence_ns = number(optarg, 1000000000) * UINT64_C(1000000);
            break;
        case OPT_BATCHES:
            a->batches = number(optarg, UINT64_MAX);
            break;
        case OPT_RESUME:
            a->resume = optarg;
            break;
        case OPT_CHECKPOINT:
            a->checkpoint = optarg;
            break;
        case OPT_PAUSE:
            a->pause_ms = (unsigned)number(optarg, 1000000);
            break;
        case OPT_VERBOSE:
            a->verbose = 1;
            break;
        case OPT_JSON:
            a->json = 1;
            break;
        case OPT_HELP:
            fputs(usage, stdout);
            exit(0);
        default:
            exit(2);
        }
    }
    if (optind != argc - 1) {
        fprintf(stderr, "feed: expected one data set; see feed --help\n");
        exit(2);
    }
    o->dataset = argv[optind];
}

/* Set by SIGUSR1, which a scheduler sends before the time is up (Slurm's --signal). Batches
 * delivered so far still count. */
static volatile sig_atomic_t told_to_stop;

static void stop(int number)
{
    told_to_stop = number;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The cursor, 32 bytes, is the only part of the stream that a checkpoint needs. */
static int read_cursor(const char *path, struct plenum_cursor *ret)
{
    FILE *f = fopen(path, "rb");
    int ok = f && fread(ret, sizeof(*ret), 1, f) == 1;

    if (!ok)
        fprintf(stderr, "feed: cannot read a cursor from %s\n", path);
    if (f)
        fclose(f);
    return ok ? 0 : -1;
}

static int write_cursor(const char *path, const struct plenum_cursor *cursor)
{
    FILE *f = fopen(path, "wb");
    int ok = f && fwrite(cursor, sizeof(*cursor), 1, f) == 1;

    if (f && fclose(f) != 0)
        ok = 0;
    if (!ok)
        fprintf(stderr, "feed: cannot write the cursor to %s\n", path);
    return ok ? 0 : -1;
}

static void show_warnings(struct plenum_stream *stream)
{
    struct plenum_error warning;

    while (plenum_stream_take_warning(stream, &warning))
        fprintf(stderr, "feed: warning: %s\n", warning.text);
}

static int consume(struct plenum_stream *stream, const struct arguments *a, struct totals *t)
{
    struct timespec pause = {a->pause_ms / 1000, (long)(a->pause_ms % 1000) * 1000000};
    struct plenum_stream_stats stats;
    struct plenum_batch batch;
    struct plenum_error err;
    double begin = now();
    int r = 0;

    while (!told_to_stop && (a->batches == 0 || (uint64_t)t->batches < a->batches)) {
        r = plenum_stream_next(stream, PLENUM_FOREVER, &batch, &err);
        if (r < 0)
            break;
        t->batches++;
        t->images += batch.num_valid;
        t->hash = (int64_t)((uint64_t)t->hash + plenum_batch_hash(&batch));
        if (a->verbose)
            fprintf(stderr,
                    "feed: batch %" PRIu64 ": epoch %" PRIu64 ", positions from %" PRIu64 "\n",
                    batch.index, batch.epochs[0], batch.positions[0]);
        if (a->pause_ms)
            nanosleep(&pause, NULL);
        plenum_batch_release(&batch);
        show_warnings(stream);
    }
    t->seconds = now() - begin;
    plenum_stream_get_stats(stream, &stats);
    t->waiting = (double)stats.wait_ns * 1e-9;
    t->substituted = (int64_t)stats.substituted;
    t->incidents = (int64_t)stats.incidents;
    t->moved = (int64_t)stats.moved;
    t->hedged = (int64_t)stats.hedged;
    t->verified = (int64_t)stats.verified;
    if (r < 0 && r != -ENODATA) {
        show_warnings(stream);
        fprintf(stderr, "feed: %s\n", err.text);
        return 1;
    }
    return 0;
}

/* Turns one instance's numbers into the numbers of the whole job. */
static int add_up(struct plenum_job *job, struct totals *t, struct plenum_error *err)
{
    int64_t sums[] = {t->images,    t->batches, t->substituted, t->hash,
                      t->incidents, t->moved,   t->hedged,      t->verified};
    double slowest[] = {t->seconds}, waiting[] = {t->waiting};
    int r = plenum_allreduce(job, sums, 8, PLENUM_INT64, PLENUM_SUM, err);

    if (r == 0)
        r = plenum_allreduce(job, slowest, 1, PLENUM_FLOAT64, PLENUM_MAX, err);
    if (r == 0)
        r = plenum_allreduce(job, waiting, 1, PLENUM_FLOAT64, PLENUM_MEAN, err);
    if (r == 0)
        *t = (struct totals){.images = sums[0],
                             .batches = sums[1],
                             .substituted = sums[2],
                             .hash = sums[3],
                             .incidents = sums[4],
                             .moved = sums[5],
                             .hedged = sums[6],
                             .verified = sums[7],
                             .seconds = slowest[0],
                             .waiting = waiting[0]};
    return r;
}

static void print_totals(const struct totals *t, const struct plenum_job_info *info, int json)
{
    double rate = t->seconds > 0 ? (double)t->images / t->seconds : 0;
    double share = t->seconds > 0 ? 100 * t->waiting / t->seconds : 0;

    if (json) {
        printf("{\"images\": %" PRId64 ", \"seconds\": %.6f, \"images_per_second\": %.1f, "
               "\"waiting_percent\": %.2f, \"substituted\": %" PRId64 ", \"incidents\": %" PRId64
               ", \"moved\": %" PRId64 ", \"hedged\": %" PRId64 ", \"verified\": %" PRId64
               ", \"instances\": %u, \"replicas\": %u, \"hash\": \"%016" PRIx64 "\"}\n",
               t->images, t->seconds, rate, share, t->substituted, t->incidents, t->moved,
               t->hedged, t->verified, info->num_instances, info->num_replicas, (uint64_t)t->hash);
        return;
    }
    printf("images    %" PRId64 " by %u replicas in %u instances\n", t->images, info->num_replicas,
           info->num_instances);
    printf("rate      %.0f images/s (%.2f s)\n", rate, t->seconds);
    printf("waiting   %.1f %% of the time\n", share);
    if (t->substituted)
        printf("bad       %" PRId64 " samples substituted\n", t->substituted);
    if (t->incidents)
        printf("incidents %" PRId64 "\n", t->incidents);
    printf("hash      %016" PRIx64 "\n", (uint64_t)t->hash);
}

static int feed(struct plenum_job *job, const struct plenum_job_info *info,
                const struct arguments *a)
{
    struct plenum_stream *stream;
    struct plenum_cursor cursor;
    struct plenum_error err;
    struct totals totals = {0};
    int failed = 0, r;

    /* With --replicas, this process is a separate job. */
    r = a->replicas ? plenum_stream_open(info, &a->stream, &stream, &err)
                    : plenum_stream_open_all(job, &a->stream, &stream, &err);
    if (r < 0) {
        fprintf(stderr, "feed: %s\n", err.text);
        return 1;
    }
    if (a->resume) {
        failed = read_cursor(a->resume, &cursor) < 0;
        if (!failed && plenum_stream_seek(stream, &cursor, &err) < 0) {
            fprintf(stderr, "feed: %s: %s\n", a->resume, err.text);
            failed = 1;
        }
    }
    if (!failed)
        failed = consume(stream, a, &totals);
    plenum_stream_cursor(stream, &cursor);
    plenum_stream_destroy(stream);
    if (failed)
        return 1;
    r = add_up(job, &totals, &err);
    if (r < 0) {
        fprintf(stderr, "feed: %s\n", err.text);
        return 1;
    }
    if (info->instance_index == 0)
        print_totals(&totals, info, a->json);
    if (info->instance_index == 0 && a->checkpoint)
        failed = write_cursor(a->checkpoint, &cursor) < 0;
    return failed;
}

int main(int argc, char **argv)
{
    struct arguments a = {.replicas = 0};
    struct plenum_job_info info;
    struct plenum_job *job;
    struct plenum_error err;
    int r;

    signal(SIGUSR1, stop);
    plenum_stream_options_init(&a.stream);
    a.stream.micro_batch = 16;
    a.stream.epochs = 1;
    parse(argc, argv, &a);
    if (plenum_job_open(&job, &err) < 0) {
        fprintf(stderr, "feed: %s\n", err.text);
        return 1;
    }
    info = *plenum_job_get_info(job);
    if (a.replicas && info.num_instances == 1) { /* run all replicas in this process */
        info.num_replicas = info.num_local_replicas = a.replicas;
    } else if (a.replicas && a.replicas != info.num_replicas) {
        fprintf(stderr, "feed: --replicas %u, but the launcher started %u\n", a.replicas,
                info.num_replicas);
        return 2;
    }
    r = feed(job, &info, &a);
    if (r == 0) /* if it failed, this instance does not wait for the others */
        plenum_job_close(job);
    return r;
}
