/* SPDX-License-Identifier: MIT */
/* train.c - train a small network in C, on any number of processes.
 *
 *     plenumctl make-sample /tmp/sample
 *     train /tmp/sample --steps 200
 *     plenumrun --num-instances 2 --num-replicas 4 train /tmp/sample --steps 200
 *     plenumrun -n 2 train /tmp/sample --steps 200 \
 *         --checkpoint run.bin --checkpoint-every 10 --resume
 *
 * It shows everything that a distributed program needs: its rank, a common seed, the batches of
 * this instance, gradients added up over all instances, a checkpoint, and resuming from it.
 *
 * A checkpoint holds the weights and the position in the stream (a cursor). A run that is killed
 * and resumes from its checkpoint repeats the uninterrupted run: it has the same samples in every
 * step, and the same weights to the last bit if the number of instances is the same. (With a
 * different number, the samples are still the same, but sums are formed in a different order.)
 *
 * The network has 8 x 8 means of each channel as inputs, a hidden layer, and softmax. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <plenum/plenum.h>

enum {
    GRID = 8,
    INPUTS = GRID * GRID * 3 + 1, /* the last one is always 1 */
    HIDDEN = 32 + 1,              /* the last one is always 1 */
    CLASSES_MAX = 1000,
};

struct arguments {
    struct plenum_stream_options stream;
    uint32_t replicas;         /* if the job has one instance */
    uint64_t steps;            /* to train */
    uint64_t checkpoint_every; /* steps; 0: only at the end */
    const char *checkpoint;
    const char *log;
    float rate;
    int resume;
};

/* A checkpoint: this header, then weights and momentum. */
struct state {
    char magic[8];
    uint64_t step;
    uint64_t seed;
    uint64_t hash; /* of all batches delivered to all instances */
    struct plenum_cursor cursor;
    uint32_t classes;
    uint32_t weights; /* number of weights, and of momentum values */
    float values[];
};

/* This process's share of the run. */
struct trainer {
    struct plenum_job *job;
    const struct plenum_job_info *me;
    struct plenum_stream *stream;
    struct state *state;
    size_t state_bytes;
    float *images;      /* [count][height][width][3], the normalised images of a batch */
    float *sums;        /* [weights + 3]: gradient, loss, correct answers, samples */
    uint64_t delivered; /* hash of the batches of this instance since the last checkpoint */
    FILE *log;
};

static const char magic[8] = {'p', 'l', 'n', 'm', 't', 'r', 'n', '1'};

static const char usage[] =
    "usage: train DATASET [options]\n\n"
    "Train a small network on a folder of images, in all instances of a job.\n\n"
    "options:\n"
    "  --pipeline TEXT       train, eval, or stages (default 'rrc(32, scale=0.5:1) flip(0.5)')\n"
    "  --seed N              key of all random numbers (default: different in each run)\n"
    "  --micro-batch M       samples per replica and step (default 16)\n"
    "  --replicas R          replicas, if there is one instance (default: from the launcher)\n"
    "  --steps N             steps to train (default 100)\n"
    "  --rate X              learning rate (default 0.02)\n"
    "  --checkpoint FILE     write a checkpoint to FILE at the end\n"
    "  --checkpoint-every N  also write one every N steps\n"
    "  --resume              resume from the checkpoint, if it exists\n"
    "  --log FILE            write the loss and the samples of every step to FILE\n"
    "  --help\n";

/* Ends the program. It does not wait for the other instances, which the launcher ends. */
static void die(const char *what, const char *why)
{
    fprintf(stderr, "train: %s: %s\n", what, why);
    exit(1);
}

static void check(int r, const char *what, const struct plenum_error *err)
{
    if (r < 0)
        die(what, err->text);
}

static float *weights_of(struct state *s)
{
    return s->values;
}

static float *momentum_of(struct state *s)
{
    return s->values + s->weights;
}

/* Returns the number of weights: layer 1 has [HIDDEN - 1][INPUTS], layer 2 [classes][HIDDEN]. */
static uint32_t count_weights(uint32_t classes)
{
    return (HIDDEN - 1) * INPUTS + classes * HIDDEN;
}

/* Derives the weights from the seed, so that they are the same in all instances. */
static void begin_weights(struct state *s, uint64_t seed)
{
    for (uint32_t i = 0; i < s->weights; i++) {
        uint64_t random = plenum_replica_seed(seed, i);
        float scale = i < (HIDDEN - 1) * INPUTS ? 0.1f : 0.2f;

        weights_of(s)[i] = scale * ((float)(random >> 40) / (float)(1 << 24) - 0.5f);
    }
}

/* Computes the 8 x 8 means of each channel of an NHWC image. */
static void look_at(const float *pixels, uint32_t side, float *inputs)
{
    for (uint32_t row = 0; row < GRID; row++)
        for (uint32_t column = 0; column < GRID; column++) {
            uint32_t top = row * side / GRID, bottom = (row + 1) * side / GRID;
            uint32_t left = column * side / GRID, right = (column + 1) * side / GRID;
            float sum[3] = {0};

            for (uint32_t y = top; y < bottom; y++)
                for (uint32_t x = left; x < right; x++)
                    for (uint32_t c = 0; c < 3; c++)
                        sum[c] += pixels[(y * side + x) * 3 + c];
            for (uint32_t c = 0; c < 3; c++)
                inputs[(row * GRID + column) * 3 + c] =
                    sum[c] / (float)((bottom - top) * (right - left));
        }
    inputs[INPUTS - 1] = 1;
}

/* Adds one sample's gradient, loss and answer to `t->sums`. */
static void learn_from(struct trainer *t, const float *pixels, uint32_t side, int64_t label)
{
    uint32_t classes = t->state->classes, best = 0;
    const float *layer1 = weights_of(t->state), *layer2 = layer1 + (HIDDEN - 1) * INPUTS;
    float *to1 = t->sums, *to2 = to1 + (HIDDEN - 1) * INPUTS, *results = to2 + classes * HIDDEN;
    float inputs[INPUTS], hidden[HIDDEN], back[HIDDEN] = {0}, out[CLASSES_MAX] = {0}, sum = 0;

    look_at(pixels, side, inputs);
    for (uint32_t h = 0; h < HIDDEN - 1; h++) {
        float v = 0;

        for (uint32_t i = 0; i < INPUTS; i++)
            v += layer1[h * INPUTS + i] * inputs[i];
        hidden[h] = v > 0 ? v : 0;
    }
    hidden[HIDDEN - 1] = 1;
    for (uint32_t k = 0; k < classes; k++) {
        for (uint32_t h = 0; h < HIDDEN; h++)
            out[k] += layer2[k * HIDDEN + h] * hidden[h];
        if (out[k] > out[best])
            best = k;
    }
    results[0] += out[best] - out[label];
    results[1] += best == (uint32_t)label;
    results[2] += 1;
    for (uint32_t k = 0; k < classes; k++)
        sum += expf(out[k] - out[best]);
    results[0] += logf(sum);
    for (uint32_t k = 0; k < classes; k++) {
        float d = expf(out[k] - out[best]) / sum - (k == (uint32_t)label);

        for (uint32_t h = 0; h < HIDDEN; h++) {
            to2[k * HIDDEN + h] += d * hidden[h];
            back[h] += d * layer2[k * HIDDEN + h];
        }
    }
    for (uint32_t h = 0; h < HIDDEN - 1; h++)
        for (uint32_t i = 0; i < INPUTS && hidden[h] > 0; i++)
            to1[h * INPUTS + i] += back[h] * inputs[i];
}

/* Updates the weights. They stay the same in all instances, because these do the same arithmetic on
 * the same sums. */
static void update(struct trainer *t, float rate)
{
    struct state *s = t->state;
    float samples = t->sums[s->weights + 2];

    for (uint32_t i = 0; i < s->weights; i++) {
        momentum_of(s)[i] = 0.9f * momentum_of(s)[i] + t->sums[i] / samples;
        weights_of(s)[i] -= rate * momentum_of(s)[i];
    }
}

/* Writes one line per step: its number, its exact loss, the samples of all instances. */
static void write_log(struct trainer *t, const struct plenum_batch *batch)
{
    struct plenum_error err;
    uint32_t *all = malloc((size_t)t->me->num_instances * batch->count * sizeof(*all));

    if (!all)
        die("log", "out of memory");
    check(plenum_allgather(t->job, batch->samples, batch->count * sizeof(*all), all, &err), "log",
          &err);
    if (t->log) {
        fprintf(t->log, "%" PRIu64 " %a", t->state->step,
                (double)(t->sums[t->state->weights] / t->sums[t->state->weights + 2]));
        for (uint32_t i = 0; i < t->me->num_instances * batch->count; i++)
            fprintf(t->log, " %u", all[i]);
        fprintf(t->log, "\n");
        fflush(t->log);
    }
    free(all);
}

/* Computes (pixel / 255 - mean) / std of a batch's images, in memory reused for every batch. */
static void normalise(struct trainer *t, const struct plenum_batch *batch)
{
    static const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
    struct plenum_images images = {.size = sizeof(images),
                                   .pixels = batch->pixels,
                                   .count = batch->count,
                                   .height = batch->height,
                                   .width = batch->width,
                                   .channels = batch->channels,
                                   .dtype = batch->dtype,
                                   .layout = batch->layout};
    struct plenum_error err;

    if (!t->images)
        t->images =
            malloc((size_t)batch->count * batch->height * batch->width * 3 * sizeof(*t->images));
    if (!t->images)
        die("images", "out of memory");
    check(plenum_normalise(&images, mean, std, t->images, PLENUM_TO_FLOAT32, PLENUM_NHWC, &err),
          "normalise", &err);
}

static void step(struct trainer *t, const struct arguments *a)
{
    struct plenum_batch batch;
    struct plenum_error err;
    uint32_t weights = t->state->weights;
    size_t image;

    check(plenum_stream_next(t->stream, PLENUM_FOREVER, &batch, &err), "next batch", &err);
    memset(t->sums, 0, (weights + 3) * sizeof(*t->sums));
    normalise(t, &batch);
    image = (size_t)batch.height * batch.width * 3;
    for (uint32_t i = 0; i < batch.count; i++)
        if (batch.valid[i])
            learn_from(t, t->images + i * image, batch.width, batch.labels[i]);
    check(plenum_allreduce(t->job, t->sums, weights + 3, PLENUM_FLOAT32, PLENUM_SUM, &err),
          "allreduce", &err);
    update(t, a->rate);
    if (a->log)
        write_log(t, &batch);
    t->delivered += plenum_batch_hash(&batch);
    plenum_batch_release(&batch);
    t->state->step++;
    if (t->me->instance_index == 0 && (t->state->step % 20 == 0 || t->state->step == a->steps))
        printf("step %4" PRIu64 "  loss %.4f  accuracy %.2f\n", t->state->step,
               (double)(t->sums[weights] / t->sums[weights + 2]),
               (double)(t->sums[weights + 1] / t->sums[weights + 2]));
}

/* Adds the hashes of all instances' new batches to the state, and stores the stream's cursor. This
 * is a collective. */
static void settle(struct trainer *t)
{
    struct plenum_error err;
    int64_t hash = (int64_t)t->delivered;

    check(plenum_allreduce(t->job, &hash, 1, PLENUM_INT64, PLENUM_SUM, &err), "hash", &err);
    t->state->hash += (uint64_t)hash;
    t->delivered = 0;
    plenum_stream_cursor(t->stream, &t->state->cursor);
}

/* Writes under a temporary name and renames, so that an existing file is always complete. */
static void save(struct trainer *t, const char *path)
{
    char *unfinished;
    FILE *f;

    settle(t);
    if (t->me->instance_index != 0)
        return;
    unfinished = malloc(strlen(path) + 5);
    if (!unfinished)
        die(path, "out of memory");
    sprintf(unfinished, "%s.new", path);
    f = fopen(unfinished, "wb");
    if (!f || fwrite(t->state, t->state_bytes, 1, f) != 1 || fflush(f) != 0 ||
        fsync(fileno(f)) < 0 || fclose(f) != 0 || rename(unfinished, path) < 0)
        die(path, strerror(errno));
    free(unfinished);
}

/* Returns the checkpoint, or NULL if there is none. Only the first instance reads it. */
static struct state *read_checkpoint(const char *path, size_t *bytes)
{
    struct state *s = NULL;
    FILE *f = fopen(path, "rb");
    long size = 0;

    if (!f && errno == ENOENT)
        return NULL;
    if (f && fseek(f, 0, SEEK_END) == 0 && (size = ftell(f)) >= (long)sizeof(*s))
        s = malloc((size_t)size);
    if (!s || fseek(f, 0, SEEK_SET) < 0 || fread(s, (size_t)size, 1, f) != 1)
        die(path, "cannot be read");
    if (memcmp(s->magic, magic, sizeof(magic)) != 0)
        die(path, "not a checkpoint of train");
    fclose(f);
    *bytes = (size_t)size;
    return s;
}

static void prepare(struct trainer *t, const struct plenum_job_info *info, struct arguments *a)
{
    struct state *old = NULL;
    struct plenum_stream_info facts;
    struct plenum_error err;
    size_t old_bytes = 0;
    uint8_t resumed;

    if (a->resume && t->me->instance_index == 0)
        old = read_checkpoint(a->checkpoint, &old_bytes);
    if (old && a->stream.seed == 0)
        a->stream.seed = old->seed;
    /* One seed for the whole job, so that all instances use the same order. */
    check(plenum_broadcast_seed(t->job, &a->stream.seed, &err), "seed", &err);
    check(plenum_stream_open(info, &a->stream, &t->stream, &err), "stream", &err);
    plenum_stream_get_info(t->stream, &facts);
    if (facts.num_classes > CLASSES_MAX)
        die(a->stream.dataset, "has more than 1000 classes");
    t->state_bytes = sizeof(*t->state) + 2 * count_weights(facts.num_classes) * sizeof(float);
    t->state = calloc(1, t->state_bytes);
    t->sums = malloc((count_weights(facts.num_classes) + 3) * sizeof(*t->sums));
    if (!t->state || !t->sums)
        die("weights", "out of memory");
    memcpy(t->state->magic, magic, sizeof(magic));
    t->state->seed = a->stream.seed;
    t->state->classes = facts.num_classes;
    t->state->weights = count_weights(facts.num_classes);
    begin_weights(t->state, a->stream.seed);
    if (old && (old_bytes != t->state_bytes || old->classes != t->state->classes))
        die(a->checkpoint, "this checkpoint is for a different number of classes");
    if (old) {
        memcpy(t->state, old, old_bytes);
        printf("resuming from step %" PRIu64 " of %s\n", old->step, a->checkpoint);
    }
    resumed = old != NULL;
    free(old);
    check(plenum_broadcast(t->job, &resumed, 1, 0, &err), "resume", &err);
    check(plenum_broadcast(t->job, t->state, t->state_bytes, 0, &err), "weights", &err);
    if (resumed)
        check(plenum_stream_seek(t->stream, &t->state->cursor, &err), a->checkpoint, &err);
    if (a->log && t->me->instance_index == 0) {
        t->log = fopen(a->log, t->state->step ? "a" : "w");
        if (!t->log)
            die(a->log, strerror(errno));
    }
}

static void train(struct trainer *t, const struct arguments *a)
{
    struct plenum_error err;
    uint64_t sum = 14695981039346656037u; /* FNV-1a of the bits of the weights */

    while (t->state->step < a->steps) {
        step(t, a);
        if (a->checkpoint_every && t->state->step % a->checkpoint_every == 0)
            save(t, a->checkpoint);
    }
    /* Fails with an error that names the instance if weights have drifted apart. */
    check(plenum_same(t->job, weights_of(t->state), t->state->weights * sizeof(float), &err),
          "weights", &err);
    settle(t);
    if (a->checkpoint)
        save(t, a->checkpoint);
    for (size_t i = 0; i < t->state->weights * sizeof(float); i++)
        sum = (sum ^ ((const uint8_t *)weights_of(t->state))[i]) * 1099511628211u;
    if (t->me->instance_index == 0)
        printf("hash %016" PRIx64 "  weights %016" PRIx64 "\n", t->state->hash, sum);
}

static uint64_t number(const char *text, uint64_t max)
{
    char *end;
    unsigned long long value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || errno || value > max) {
        fprintf(stderr, "train: expected an integer up to %" PRIu64 ", not '%s'\n", max, text);
        exit(2);
    }
    return value;
}

static void parse(int argc, char **argv, struct arguments *a)
{
    enum {
        PIPELINE = 256,
        SEED,
        MICRO_BATCH,
        REPLICAS,
        STEPS,
        RATE,
        CHECKPOINT,
        EVERY,
        RESUME,
        LOG,
        HELP
    };
    static const struct option options[] = {{"pipeline", 1, NULL, PIPELINE},
                                            {"seed", 1, NULL, SEED},
                                            {"micro-batch", 1, NULL, MICRO_BATCH},
                                            {"replicas", 1, NULL, REPLICAS},
                                            {"steps", 1, NULL, STEPS},
                                            {"rate", 1, NULL, RATE},
                                            {"checkpoint", 1, NULL, CHECKPOINT},
                                            {"checkpoint-every", 1, NULL, EVERY},
                                            {"resume", 0, NULL, RESUME},
                                            {"log", 1, NULL, LOG},
                                            {"help", 0, NULL, HELP},
                                            {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        switch (c) {
        case PIPELINE:
            a->stream.pipeline = optarg;
            break;
        case SEED:
            a->stream.seed = number(optarg, UINT64_MAX);
            break;
        case MICRO_BATCH:
            a->stream.micro_batch = (uint32_t)number(optarg, UINT32_MAX);
            break;
        case REPLICAS:
            a->replicas = (uint32_t)number(optarg, UINT32_MAX);
            break;
        case STEPS:
            a->steps = number(optarg, UINT64_MAX);
            break;
        case RATE:
            a->rate = strtof(optarg, NULL);
            break;
        case CHECKPOINT:
            a->checkpoint = optarg;
            break;
        case EVERY:
            a->checkpoint_every = number(optarg, UINT64_MAX);
            break;
        case RESUME:
            a->resume = 1;
            break;
        case LOG:
            a->log = optarg;
            break;
        case HELP:
            fputs(usage, stdout);
            exit(0);
        default:
            fputs("train: see train --help\n", stderr);
            exit(2);
        }
    if (optind != argc - 1) {
        fputs("train: expected one data set; see train --help\n", stderr);
        exit(2);
    }
    if ((a->resume || a->checkpoint_every) && !a->checkpoint) {
        fputs("train: --resume and --checkpoint-every need --checkpoint FILE\n", stderr);
        exit(2);
    }
    a->stream.dataset = argv[optind];
}

int main(int argc, char **argv)
{
    struct arguments a = {.steps = 100, .rate = 0.02f};
    struct trainer t = {.log = NULL};
    struct plenum_job_info info;
    struct plenum_error err;

    plenum_stream_options_init(&a.stream);
    a.stream.pipeline = "rrc(32, scale=0.5:1) flip(0.5)";
    a.stream.micro_batch = 16;
    parse(argc, argv, &a);
    check(plenum_job_open(&t.job, &err), "job", &err);
    t.me = plenum_job_get_info(t.job);
    info = *t.me;
    if (a.replicas && info.num_instances == 1) /* run all replicas in this process */
        info.num_replicas = info.num_local_replicas = a.replicas;
    prepare(&t, &info, &a);
    train(&t, &a);
    if (t.log)
        fclose(t.log);
    plenum_stream_destroy(t.stream);
    plenum_job_close(t.job);
    free(t.state);
    free(t.images);
    free(t.sums);
    return 0;
}
