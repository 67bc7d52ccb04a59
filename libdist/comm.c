/* SPDX-License-Identifier: MIT */
/* comm.c - collectives: what is the same for every carrier, and the loading of one.
 *
 * libplenum itself does not link MPI: a program of one instance, or one under torchrun, must run
 * where no MPI is installed. The carrier lies in libplenum-mpi.so beside libplenum.so and is loaded
 * at the first collective that needs it; where plenumrun has started the job without mpirun, which
 * its environment says, libplenum carries them itself (comm_local.c). */
#include "config.h"

#include <plenum/comm.h>

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/error.h"
#include "common/meeting.h"
#include "common/module.h"
#include "common/philox.h"
#include "common/util.h"
#include "libdist/comm_priv.h"
#include "libdist/job_priv.h"

static const char backend_file[] = "libplenum-mpi.so";

/* One world a process, however often its job is opened: MPI can be started only once. */
static struct {
    /* Held during a collective. */
    pthread_mutex_t mu;
    bool carried; /* `carrier` is there: the program's, or ours from the first collective on */
    struct plenum_carrier carrier;
    const struct comm_backend *backend; /* of it, or NULL: the program's */
    pid_t pid;                          /* that has it */
    bool used, broken;                  /* a collective was begun; one timed out, */
    void *lost;                         /* and has this memory for ever */
} world = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* MPI is ended with the process. But one that has failed does not wait for the others, who may
 * never come: its launcher is to see the failure at once. Neither does one whose other thread is
 * in a collective. */
static void at_exit(int status, void *arg)
{
    (void)arg;
    if (status != 0 || world.pid != getpid() || pthread_mutex_trylock(&world.mu) != 0)
        return;
    world.backend->close(world.broken);
    world.broken = true; /* nothing comes after the end */
    (void)pthread_mutex_unlock(&world.mu);
}

/* What carries the collectives of a job that was not started by torchrun: NULL with a sentence.
 * Which it is was decided by plenumrun for all instances, and is not tried out here. */
static const struct comm_backend *find_backend(const struct plenum_job *job,
                                               struct plenum_error *err)
{
    const struct comm_backend *backend;
    struct plenum_error why;

    if (job->info.launcher == PLENUM_LAUNCHER_PLENUM && getenv(MEETING_VARIABLE))
        return &comm_local;
    backend = module_load(backend_file, COMM_BACKEND_SYMBOL, &why);
    if (!backend) {
        (void)error_set(err, -ENOTSUP, "collectives of %u instances need MPI: %s",
                        job->info.num_instances, why.text);
        return NULL;
    }
    if (backend->version != COMM_BACKEND_VERSION) {
        (void)error_set(err, -ENOTSUP, "%s belongs to another version of libplenum", backend_file);
        return NULL;
    }
    return backend;
}

static int open_backend(const struct plenum_job *job, struct plenum_error *err)
{
    const struct comm_backend *backend;
    int r;

    /* Unless mpirun started what looks like torchrun's: then MPI says whether its world is ours. */
    if ((job->info.launcher == PLENUM_LAUNCHER_TORCH ||
         job->info.launcher == PLENUM_LAUNCHER_PROGRAM) &&
        !getenv("OMPI_COMM_WORLD_SIZE"))
        return error_set(
            err, -ENOTSUP,
            "this job was not started by plenumrun or mpirun, so torch.distributed must carry its "
            "collectives: call torch.distributed.init_process_group() first (in C: set a carrier)");
    backend = find_backend(job, err);
    if (!backend)
        return -ENOTSUP;
    /* Not unloaded again, not even after a failure: MPI cannot be loaded twice. */
    r = backend->open(job->info.num_instances, job->info.instance_index, job->timeout_ns, err);
    if (r < 0)
        return r;
    world.carrier = backend->carrier;
    world.carried = true;
    world.backend = backend;
    world.pid = getpid();
    (void)on_exit(at_exit, NULL);
    return 0;
}

/* What was given to a collective that came to no end may be written to by MPI later. */
static bool is_unfinished(int r)
{
    return r == -ETIMEDOUT || r == -EIO;
}

static int end(struct plenum_job *job, int r)
{
    if (is_unfinished(r))
        world.broken = true;
    (void)pthread_mutex_unlock(&world.mu);
    plenum_job_close(job);
    return r;
}

/* Take the turn for one collective. */
static int begin(struct plenum_job *job, struct plenum_error *err)
{
    int r = 0;

    if (job->pid != getpid())
        return error_set(
            err, -ECHILD,
            "this process was forked from the one that opened the job; collectives are "
            "that one's");
    job_ref(job); /* another thread may close it meanwhile */
    (void)pthread_mutex_lock(&world.mu);
    if (world.carried && world.pid != getpid())
        r = error_set(err, -ECHILD,
                      "this process was forked from one that has collectives: they are that one's");
    else if (world.broken)
        r = error_set(err, -ENOTRECOVERABLE,
                      "an earlier collective timed out: no further one can be trusted; end the "
                      "process");
    else if (!world.carried)
        r = open_backend(job, err);
    if (r < 0)
        return end(job, r);
    world.used = true;
    return 0;
}

static bool alone(const struct plenum_job *job)
{
    return job->info.num_instances == 1;
}

int plenum_broadcast(struct plenum_job *job, void *buffer, size_t bytes, uint32_t root,
                     struct plenum_error *err)
{
    const struct plenum_carrier *c = &world.carrier;
    struct plenum_error ignored;
    int r;

    if (!err)
        err = &ignored;
    if (root >= job->info.num_instances)
        return error_set(err, -EINVAL, "root %u: the job has %u instances", root,
                         job->info.num_instances);
    if (alone(job) || bytes == 0)
        return 0;
    r = begin(job, err);
    return r < 0 ? r : end(job, c->broadcast(c->arg, buffer, bytes, root, job->timeout_ns, err));
}

int plenum_allreduce(struct plenum_job *job, void *buffer, size_t count, enum plenum_type type,
                     enum plenum_op op, struct plenum_error *err)
{
    const struct plenum_carrier *c = &world.carrier;
    struct plenum_error ignored;
    int r;

    if (!err)
        err = &ignored;
    if ((unsigned)type > PLENUM_FLOAT64 || (unsigned)op > PLENUM_MEAN)
        return error_set(err, -EINVAL, "allreduce: type %d or operation %d does not exist",
                         (int)type, (int)op);
    if (alone(job) || count == 0)
        return 0;
    r = begin(job, err);
    return r < 0 ? r
                 : end(job, c->allreduce(c->arg, buffer, count, type, op, job->timeout_ns, err));
}

int plenum_allgather(struct plenum_job *job, const void *send, size_t bytes, void *recv,
                     struct plenum_error *err)
{
    const struct plenum_carrier *c = &world.carrier;
    struct plenum_error ignored;
    int r;

    if (!err)
        err = &ignored;
    if (bytes == 0)
        return 0;
    if (alone(job)) {
        memcpy(recv, send, bytes);
        return 0;
    }
    r = begin(job, err);
    return r < 0 ? r : end(job, c->allgather(c->arg, send, bytes, recv, job->timeout_ns, err));
}

int plenum_barrier(struct plenum_job *job, struct plenum_error *err)
{
    const struct plenum_carrier *c = &world.carrier;
    struct plenum_error ignored;
    int r;

    if (!err)
        err = &ignored;
    if (alone(job))
        return 0;
    r = begin(job, err);
    return r < 0 ? r : end(job, c->barrier(c->arg, job->timeout_ns, err));
}

/* What instances tell each other of their bytes. */
struct digest {
    uint64_t size;
    XXH128_canonical_t hash;
};

/* The digest that most instances have; the first one's where no other has more. A digest that more
 * than half have is looked for first, in one pass (Boyer and Moore): the usual case. */
static uint32_t majority(const struct digest *all, uint32_t count)
{
    uint32_t best = 0, best_votes = 0, lead = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (lead == 0)
            best = i;
        lead = memcmp(&all[i], &all[best], sizeof(all[i])) == 0 ? lead + 1 : lead - 1;
    }
    for (uint32_t i = 0; i <= count; i++) { /* the candidate, and then all */
        uint32_t at = i == 0 ? best : i - 1, votes = 0;

        for (uint32_t k = 0; k < count; k++)
            votes += memcmp(&all[at], &all[k], sizeof(all[at])) == 0;
        if (votes > count / 2)
            return at;
        if (i > 0 && votes > best_votes) {
            best = at;
            best_votes = votes;
        }
    }
    return best;
}

/* Mine is there, too, behind them. */
void *comm_gather(struct plenum_job *job, const void *mine, size_t bytes, int *code,
                  struct plenum_error *err)
{
    uint32_t count = job->info.num_instances;
    char *all = calloc(count + (size_t)1, bytes);

    if (!all) {
        *code = error_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    memcpy(all + count * bytes, mine, bytes);
    *code = plenum_allgather(job, all + count * bytes, bytes, all, err);
    if (*code == 0)
        return all;
    if (is_unfinished(*code))
        world.lost = all; /* the only one: nothing is begun after that */
    else
        free(all);
    return NULL;
}

int plenum_same(struct plenum_job *job, const void *bytes, size_t size, struct plenum_error *err)
{
    uint32_t count = job->info.num_instances, best, named = 0;
    struct digest mine = {.size = size}, *all;
    char text[200] = "";
    size_t n = 0;
    int r;

    if (alone(job))
        return 0;
    XXH128_canonicalFromHash(&mine.hash, XXH3_128bits(bytes, size));
    all = comm_gather(job, &mine, sizeof(mine), &r, err);
    if (!all)
        return r;
    best = majority(all, count);
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(&all[i], &all[best], sizeof(all[i])) != 0 && named++ < 8 && n < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u", n ? ", " : "", i);
    free(all);
    if (named == 0)
        return 0;
    return error_set(err, -EBADMSG, "instance%s %s%s hold%s other bytes than the other%s",
                     named > 1 ? "s" : "", text, named > 8 ? ", ..." : "", named > 1 ? "" : "s",
                     count - named > 1 ? "s" : "");
}

int plenum_broadcast_seed(struct plenum_job *job, uint64_t *seed, struct plenum_error *err)
{
    if (job->info.instance_index == 0)
        while (*seed == 0)
            if (random_bytes(seed, sizeof(*seed)) < 0)
                return error_set(err, -EIO, "the system gives no random numbers: %s",
                                 strerror(errno));
    return plenum_broadcast(job, seed, sizeof(*seed), 0, err);
}

uint64_t plenum_replica_seed(uint64_t seed, uint32_t replica)
{
    struct philox_block b = philox_draw(seed, replica, 0, DRAW_SEED, 0);

    return b.word[0] | (uint64_t)b.word[1] << 32;
}

/* How preparing went on one host. */
struct prepared {
    int32_t code;
    char text[sizeof(((struct plenum_error *)0)->text)];
};

int plenum_once_per_host(struct plenum_job *job,
                         int (*prepare)(void *arg, struct plenum_error *err), void *arg,
                         struct plenum_error *err)
{
    struct prepared mine = {0}, *all;
    struct plenum_error why = {""};
    uint32_t count = job->info.num_instances;
    int r;

    if (job->info.local_instance_index == 0)
        mine.code = prepare(arg, &why);
    memcpy(mine.text, why.text, sizeof(mine.text));
    all = comm_gather(job, &mine, sizeof(mine), &r, err);
    if (!all)
        return r;
    for (uint32_t i = 0; i < count && r == 0; i++)
        if (all[i].code < 0)
            r = error_set(err, all[i].code, "%s", all[i].text);
    free(all);
    return r;
}

int plenum_job_set_carrier(struct plenum_job *job, const struct plenum_carrier *carrier,
                           struct plenum_error *err)
{
    int r = 0;

    (void)job;
    (void)pthread_mutex_lock(&world.mu);
    if (world.used && world.pid == getpid()) {
        r = error_set(err, -EBUSY,
                      "collectives have begun: what carries them cannot be changed any more");
    } else {
        world.carrier = *carrier;
        world.carried = true;
        world.used = world.broken = false; /* what a parent has begun is not this process's */
        world.pid = getpid();
    }
    (void)pthread_mutex_unlock(&world.mu);
    return r;
}

void plenum_job_set_timeout(struct plenum_job *job, uint64_t timeout_ns)
{
    (void)pthread_mutex_lock(&world.mu);
    job->timeout_ns = timeout_ns == UINT64_MAX ? 0 : timeout_ns; /* for ever: none */
    (void)pthread_mutex_unlock(&world.mu);
}
