/* SPDX-License-Identifier: MIT */
/* comm.c - collectives: the part common to all carriers, and loading a carrier.
 *
 * Every collective begins with one exchange of constant size: each instance sends a header that
 * describes its call, followed by its data if that is small. The headers are compared before the
 * caller's memory changes (comm_header.c). If instances make different calls, all of them get an
 * error, and the carrier only ever moves data that all of them agree on. After such an error all
 * instances are still in step: the next collective is compared again.
 *
 * libplenum itself does not link MPI, because a single process, or a program under torchrun, must
 * run where MPI is not installed. The MPI carrier is in libplenum-mpi.so, beside libplenum.so, and
 * is loaded at the first collective that needs it. If the environment names memory that plenumrun
 * shares with the instances of a host, libplenum uses its own carriers: comm_local.c on one host,
 * comm_hosts.c on several. */
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

#include "common/job/meeting.h"
#include "common/order/philox.h"
#include "common/util/error_set.h"
#include "common/util/module.h"
#include "common/util/util.h"
#include "libdist/collectives/combine.h"
#include "libdist/collectives/comm_header.h"
#include "libdist/collectives/comm_moved.h"
#include "libdist/collectives/comm_priv.h"
#include "libdist/job_priv.h"
#include "libdist/pacing.h"

/* The name that plenum_job_describe() gave to the thread's next collective. */
static _Thread_local struct {
    char name[COMM_NAME_MAX], what[COMM_WHAT_MAX];
} described;

/* One world per process, however often its job is opened: MPI can be started only once. */
static struct {
    /* Held during a collective. */
    pthread_mutex_t mu;
    bool carried; /* `carrier` is set; ours from the first collective on */
    struct plenum_carrier carrier;
    const struct comm_backend *backend; /* NULL if the program set the carrier */
    uint32_t instances, index;          /* of the backend: its number of instances, and ours */
    pid_t pid;                          /* process that owns the carrier */
    bool used, broken;                  /* a collective was begun; a collective timed out */
    void *lost;                         /* memory that the timed-out collective keeps for ever */
    uint64_t number;                    /* number of the last collective */
    /* [num_blocks]: one per instance, and ours. Never freed, because a collective that timed out
     * may still write to them. */
    struct comm_block *blocks;
    const void **inputs; /* [num_blocks], of combine() */
    size_t num_blocks;
} world = {.mu = PTHREAD_MUTEX_INITIALIZER};

/* In a forked child: renew the mutex, because another thread of the parent may have held it, in a
 * collective. */
static void in_child(void)
{
    world.mu = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

static void at_fork(void)
{
    (void)pthread_atfork(NULL, NULL, in_child);
}

static void lock_world(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, at_fork);
    (void)pthread_mutex_lock(&world.mu);
}

/* Finalise MPI when the process ends. A process that has failed does not wait for the others, which
 * may never arrive: its launcher must see the failure at once. Nor does it wait if another of its
 * threads is in a collective. */
static void at_exit(int status, void *arg)
{
    (void)arg;
    if (status != 0 || world.pid != getpid() || pthread_mutex_trylock(&world.mu) != 0)
        return;
    if (world.backend) /* a forked child may have set a carrier since */
        world.backend->close(world.broken);
    world.broken = true; /* no collective may follow */
    (void)pthread_mutex_unlock(&world.mu);
}

/* Returns the carrier for a job that torchrun did not start, or NULL with an error. plenumrun has
 * chosen it for all instances; we do not probe for one here. */
static const struct comm_backend *find_backend(const struct plenum_job *job,
                                               struct plenum_error *err)
{
    const struct comm_backend *backend;
    struct plenum_error why;

    if (job->info.launcher == PLENUM_LAUNCHER_PLENUM && getenv(MEETING_VARIABLE))
        return getenv(MEETING_HOSTS_VARIABLE) ? &comm_hosts : &comm_local;
    backend = module_load(COMM_BACKEND_FILE, COMM_BACKEND_SYMBOL, &why);
    if (!backend) {
        (void)error_set(err, -ENOTSUP, "collectives of %u instances need MPI: %s",
                        job->info.num_instances, why.text);
        return NULL;
    }
    if (backend->version != COMM_BACKEND_VERSION) {
        (void)error_set(err, -ENOTSUP, "%s belongs to a different version of libplenum",
                        COMM_BACKEND_FILE);
        return NULL;
    }
    return backend;
}

static int open_backend(const struct plenum_job *job, struct plenum_error *err)
{
    const struct comm_backend *backend;
    int r;

    /* Unless mpirun set variables that look like torchrun's: then MPI knows whether its world is
     * ours. */
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
    /* Never unloaded, not even after a failure, because MPI cannot be loaded twice. */
    r = backend->open(job->info.num_instances, job->info.instance_index, job->timeout_ns, err);
    if (r < 0)
        return r;
    world.carrier = backend->carrier;
    world.carried = true;
    world.backend = backend;
    world.instances = job->info.num_instances;
    world.index = job->info.instance_index;
    world.pid = getpid();
    (void)on_exit(at_exit, NULL);
    return 0;
}

/* Is the collective unfinished? MPI may then still write to its buffers. */
static bool is_unfinished(int r)
{
    return r == -ETIMEDOUT || r == -EIO;
}

static int leave(struct plenum_job *job, int r)
{
    pacing_depart(time_now_ns());
    (void)pthread_mutex_unlock(&world.mu);
    plenum_job_close(job);
    return r;
}

static int end(struct plenum_job *job, int r)
{
    if (is_unfinished(r))
        world.broken = true;
    return leave(job, r);
}

/* Wait for our turn to begin a collective. */
static int begin(struct plenum_job *job, struct plenum_error *err)
{
    int r = 0;

    if (job->pid != getpid())
        return error_set(err, -ECHILD,
                         "this process was forked from the one that opened the job; only that "
                         "process can use collectives");
    job_ref(job); /* another thread may close the job during the call */
    lock_world();
    if (world.carried && world.pid != getpid())
        r = error_set(err, -ECHILD,
                      "this process was forked from one that has collectives: only that process "
                      "can use them");
    else if (world.broken)
        r = error_set(err, -ENOTRECOVERABLE,
                      "an earlier collective timed out, or an instance had ended: later "
                      "collectives cannot be trusted; end the process");
    else if (!world.carried)
        r = open_backend(job, err);
    else if (world.backend && (world.instances != job->info.num_instances ||
                               world.index != job->info.instance_index))
        r = error_set(err, -ENOTSUP,
                      "this process has used collectives as instance %u of %u: it cannot use them "
                      "as instance %u of %u",
                      world.index, world.instances, job->info.instance_index,
                      job->info.num_instances);
    if (r < 0)
        return end(job, r);
    world.used = true;
    return 0;
}

static bool alone(const struct plenum_job *job)
{
    return job->info.num_instances == 1;
}

/* A collective in progress. */
struct call {
    struct plenum_job *job;
    struct comm_header header;
    const void *send; /* this instance's bytes; NULL: none */
    void *recv;       /* destination of the result */
    size_t count;     /* reductions: elements of the result */
    uint64_t deadline_ns;
    struct plenum_error *err;
};

static struct call call_of(struct plenum_job *job, enum comm_kind kind, size_t bytes,
                           struct plenum_error *err)
{
    struct call c = {.job = job,
                     .header = {.version = COMM_HEADER_VERSION, .kind = kind, .bytes = bytes},
                     .err = err};

    (void)snprintf(c.header.name, sizeof(c.header.name), "%s",
                   described.name[0] ? described.name : comm_kind_name(kind));
    memcpy(c.header.what, described.what, sizeof(c.header.what));
    memset(&described, 0, sizeof(described));
    return c;
}

/* Returns how many bytes this instance has for the others. */
static size_t sent_bytes(const struct call *c)
{
    const struct comm_header *h = &c->header;

    return h->kind == COMM_REDUCE_SCATTER || h->kind == COMM_ALLTOALL
               ? h->bytes * c->job->info.num_instances
               : h->bytes;
}

/* Is the data sent together with the header? */
static bool is_inline(const struct call *c)
{
    return sent_bytes(c) <= COMM_INLINE_BYTES;
}

static int make_blocks(size_t count, struct plenum_error *err)
{
    struct comm_block *blocks;
    const void **inputs;

    if (world.num_blocks == count)
        return 0;
    blocks = realloc(world.blocks, count * sizeof(*blocks));
    if (blocks)
        world.blocks = blocks;
    inputs = realloc(world.inputs, count * sizeof(*inputs));
    if (inputs)
        world.inputs = inputs;
    if (!blocks || !inputs)
        return error_set(err, -ENOMEM, "out of memory");
    world.num_blocks = count;
    return 0;
}

/* Returns the bytes for which the carrier must prepare. Parts for several instances begin at cache
 * lines. */
static size_t prepared_bytes(const struct call *c)
{
    enum { LINE = 64 };

    return sent_bytes(c) == c->header.bytes
               ? c->header.bytes
               : align_up(c->header.bytes, LINE) * c->job->info.num_instances;
}

/* Send our header and data, and receive those of all other instances. */
static int meet(struct call *c)
{
    uint32_t instances = c->job->info.num_instances;
    struct comm_block *mine;
    int r = make_blocks(instances + (size_t)1, c->err);

    if (r == 0 && world.backend && world.backend->prepare && !is_inline(c))
        r = world.backend->prepare(c->header.name, prepared_bytes(c), c->err);
    if (r < 0)
        return r;
    mine = &world.blocks[instances];
    c->header.number = ++world.number;
    *mine = (struct comm_block){.header = c->header};
    if (is_inline(c) && c->send)
        memcpy(mine->data, c->send, sent_bytes(c));
    if (world.backend)
        return world.backend->meet(c->header.name, mine, sizeof(*mine), world.blocks,
                                   c->job->timeout_ns, c->err);
    r = world.carrier.allgather(world.carrier.arg, mine, sizeof(*mine), world.blocks,
                                c->job->timeout_ns, c->err);
    return r < 0 ? error_prefix(c->err, r, "%s", c->header.name) : 0;
}

/* Combine data that has arrived with the headers, from `at` on. */
static void combine_inline(const struct call *c, size_t at)
{
    uint32_t instances = c->job->info.num_instances;

    for (uint32_t i = 0; i < instances; i++)
        world.inputs[i] = world.blocks[i].data + at;
    if (c->count > 0)
        combine(c->recv, world.inputs, instances, c->count, (enum plenum_type)c->header.type,
                (enum plenum_op)c->header.op);
}

/* Compute the result once all data has arrived. */
static void finish_inline(const struct call *c)
{
    uint32_t instances = c->job->info.num_instances;
    size_t bytes = c->header.bytes, own = c->job->info.instance_index * bytes;

    switch ((enum comm_kind)c->header.kind) {
    case COMM_BROADCAST:
        if (c->header.root != c->job->info.instance_index && bytes > 0)
            memcpy(c->recv, world.blocks[c->header.root].data, bytes);
        break;
    case COMM_ALLGATHER:
        for (uint32_t i = 0; i < instances && bytes > 0; i++)
            memcpy((char *)c->recv + i * bytes, world.blocks[i].data, bytes);
        break;
    case COMM_ALLTOALL:
        for (uint32_t i = 0; i < instances && bytes > 0; i++)
            memcpy((char *)c->recv + i * bytes, world.blocks[i].data + own, bytes);
        break;
    case COMM_ALLREDUCE:
        combine_inline(c, 0);
        break;
    case COMM_REDUCE_SCATTER:
        combine_inline(c, own);
        break;
    case COMM_BARRIER:
        break;
    }
}

/* Reduce over the carrier. A carrier that the program has set adds integers itself: their sum does
 * not depend on its order. */
static int carry_reduction(const struct call *c, const struct comm_mover *by)
{
    const struct comm_header *h = &c->header;
    const struct comm_reduction x = {.send = c->send,
                                     .recv = c->recv,
                                     .count = c->count,
                                     .type = (enum plenum_type)h->type,
                                     .op = (enum plenum_op)h->op,
                                     .timeout_ns = comm_time_left(c->deadline_ns)};

    if (h->kind == COMM_REDUCE_SCATTER)
        return world.backend && world.backend->reduce_scatter
                   ? world.backend->reduce_scatter(&x, c->err)
                   : comm_moved_reduce_scatter(by, &x, c->err);
    if (world.backend && world.backend->allreduce)
        return world.backend->allreduce(&x, c->err);
    if (!world.backend && (x.type == PLENUM_INT32 || x.type == PLENUM_INT64))
        return by->carrier->allreduce(by->carrier->arg, c->recv, x.count, x.type, x.op,
                                      x.timeout_ns, c->err);
    return comm_moved_allreduce(by, &x, c->err);
}

static int carry(const struct call *c)
{
    const struct plenum_carrier *by = &world.carrier;
    const struct comm_header *h = &c->header;
    const struct comm_mover mover = {.carrier = by,
                                     .exchange = world.backend ? world.backend->exchange : NULL,
                                     .instances = c->job->info.num_instances,
                                     .index = c->job->info.instance_index};
    const struct comm_exchange x = {.what = h->name,
                                    .send = c->send,
                                    .send_step = h->bytes,
                                    .recv = c->recv,
                                    .recv_step = h->bytes,
                                    .bytes = h->bytes,
                                    .timeout_ns = comm_time_left(c->deadline_ns)};

    switch ((enum comm_kind)h->kind) {
    case COMM_BROADCAST:
        return by->broadcast(by->arg, c->recv, h->bytes, h->root, comm_time_left(c->deadline_ns),
                             c->err);
    case COMM_ALLGATHER:
        return by->allgather(by->arg, c->send, h->bytes, c->recv, comm_time_left(c->deadline_ns),
                             c->err);
    case COMM_ALLTOALL:
        return comm_moved_exchange(&mover, &x, c->err);
    case COMM_ALLREDUCE:
    case COMM_REDUCE_SCATTER:
        return carry_reduction(c, &mover);
    case COMM_BARRIER: /* a barrier is over when all have arrived */
        break;
    }
    return 0;
}

static int run(struct call *c)
{
    struct plenum_job *job = c->job;
    struct plenum_error ignored;
    int r;

    if (!c->err)
        c->err = &ignored;
    (void)pacing_open(&job->info);
    pacing_arrive(time_now_ns());
    r = begin(job, c->err);
    if (r < 0)
        return r;
    if (job->timeout_ns)
        c->deadline_ns = sum_u64(time_now_ns(), job->timeout_ns);
    r = meet(c);
    if (r < 0)
        return end(job, r);
    r = comm_header_compare(world.blocks, job->info.num_instances, job->info.instance_index,
                            c->err);
    if (r < 0)
        return leave(job, r); /* the others return the same error, and no data has moved */
    if (is_inline(c)) {
        finish_inline(c);
        return end(job, 0);
    }
    r = carry(c);
    if (r < 0)
        world.broken = true; /* whatever the reason: the others may have finished */
    return end(job, r);
}

void plenum_job_describe(struct plenum_job *job, const char *name, const char *what)
{
    (void)job;
    memset(&described, 0, sizeof(described));
    (void)snprintf(described.name, sizeof(described.name), "%s", name);
    (void)snprintf(described.what, sizeof(described.what), "%s", what);
}

int plenum_broadcast(struct plenum_job *job, void *buffer, size_t bytes, uint32_t root,
                     struct plenum_error *err)
{
    struct call c = call_of(job, COMM_BROADCAST, bytes, err);

    if (root >= job->info.num_instances)
        return error_set(err, -EINVAL, "root %u: the job has %u instances", root,
                         job->info.num_instances);
    if (alone(job))
        return 0;
    c.header.root = root;
    c.send = root == job->info.instance_index ? buffer : NULL;
    c.recv = buffer;
    return run(&c);
}

/* Check a reduction's arguments, and begin to describe it. */
static int describe_reduction(struct call *c, size_t count, enum plenum_type type,
                              enum plenum_op op)
{
    const char *name = comm_kind_name((enum comm_kind)c->header.kind);

    if ((unsigned)type > PLENUM_BFLOAT16 || (unsigned)op > PLENUM_MEAN)
        return error_set(c->err, -EINVAL, "%s: type %d or operation %d does not exist", name,
                         (int)type, (int)op);
    if (count > SIZE_MAX / sizeof(uint64_t) / c->job->info.num_instances)
        return error_set(c->err, -EINVAL, "%s: %zu elements do not fit into memory", name, count);
    c->header.bytes = count * combine_size(type);
    c->header.type = type;
    c->header.op = op;
    c->count = count;
    return 0;
}

int plenum_allreduce(struct plenum_job *job, void *buffer, size_t count, enum plenum_type type,
                     enum plenum_op op, struct plenum_error *err)
{
    struct call c = call_of(job, COMM_ALLREDUCE, 0, err);
    int r = describe_reduction(&c, count, type, op);

    if (r < 0 || alone(job))
        return r;
    c.send = c.recv = buffer;
    return run(&c);
}

int plenum_reduce_scatter(struct plenum_job *job, const void *send, void *recv, size_t count,
                          enum plenum_type type, enum plenum_op op, struct plenum_error *err)
{
    struct call c = call_of(job, COMM_REDUCE_SCATTER, 0, err);
    int r = describe_reduction(&c, count, type, op);

    if (r == 0 && alone(job) && count > 0 && recv != send)
        memcpy(recv, send, c.header.bytes);
    if (r < 0 || alone(job))
        return r;
    c.send = send;
    c.recv = recv;
    return run(&c);
}

int plenum_alltoall(struct plenum_job *job, const void *send, size_t bytes, void *recv,
                    struct plenum_error *err)
{
    struct call c = call_of(job, COMM_ALLTOALL, bytes, err);

    if (bytes > SIZE_MAX / job->info.num_instances)
        return error_set(err, -EINVAL,
                         "alltoall: %zu bytes for each of %u instances do not fit "
                         "into memory",
                         bytes, job->info.num_instances);
    if (alone(job)) {
        if (bytes > 0)
            memcpy(recv, send, bytes);
        return 0;
    }
    c.send = send;
    c.recv = recv;
    return run(&c);
}

int plenum_allgather(struct plenum_job *job, const void *send, size_t bytes, void *recv,
                     struct plenum_error *err)
{
    struct call c = call_of(job, COMM_ALLGATHER, bytes, err);

    if (alone(job)) {
        if (bytes > 0 && recv != send)
            memcpy(recv, send, bytes);
        return 0;
    }
    c.send = send;
    c.recv = recv;
    return run(&c);
}

int plenum_barrier(struct plenum_job *job, struct plenum_error *err)
{
    struct call c = call_of(job, COMM_BARRIER, 0, err);

    return alone(job) ? 0 : run(&c);
}

/* What instances exchange to compare their bytes. */
struct digest {
    uint64_t size;
    XXH128_canonical_t hash;
};

/* Returns the digest that most instances have, or the first instance's if there is a tie. First
 * look for one that more than half of them have, in one pass (Boyer and Moore), which is the usual
 * case. */
static uint32_t majority(const struct digest *all, uint32_t count)
{
    uint32_t best = 0, best_votes = 0, lead = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (lead == 0)
            best = i;
        lead = memcmp(&all[i], &all[best], sizeof(all[i])) == 0 ? lead + 1 : lead - 1;
    }
    for (uint32_t i = 0; i <= count; i++) { /* the candidate first, then every digest */
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

static bool is_broken(void)
{
    bool broken;

    lock_world();
    broken = world.broken;
    (void)pthread_mutex_unlock(&world.mu);
    return broken;
}

/* Gather `bytes` bytes from each instance. This instance's own data is also at the end of the
 * result, from where it is sent. */
void *comm_gather(struct plenum_job *job, const char *name, const void *mine, size_t bytes,
                  int *code, struct plenum_error *err)
{
    uint32_t count = job->info.num_instances;
    char *all = calloc(count + (size_t)1, bytes);

    if (!all) {
        *code = error_set(err, -ENOMEM, "out of memory");
        return NULL;
    }
    memcpy(all + count * bytes, mine, bytes);
    plenum_job_describe(job, name, "");
    *code = plenum_allgather(job, all + count * bytes, bytes, all, err);
    if (*code == 0)
        return all;
    if (is_broken())
        world.lost = all; /* only one collective can be lost: none is begun after it */
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
    all = comm_gather(job, "same", &mine, sizeof(mine), &r, err);
    if (!all)
        return r;
    best = majority(all, count);
    for (uint32_t i = 0; i < count; i++)
        if (memcmp(&all[i], &all[best], sizeof(all[i])) != 0 && named++ < 8 && n < sizeof(text))
            n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%u", n ? ", " : "", i);
    free(all);
    if (named == 0)
        return 0;
    return error_set(err, -EBADMSG, "instance%s %s%s hold%s different bytes from the other%s",
                     named > 1 ? "s" : "", text, named > 8 ? ", ..." : "", named > 1 ? "" : "s",
                     count - named > 1 ? "s" : "");
}

int plenum_broadcast_seed(struct plenum_job *job, uint64_t *seed, struct plenum_error *err)
{
    if (job->info.instance_index == 0)
        while (*seed == 0)
            if (random_bytes(seed, sizeof(*seed)) < 0)
                return error_set(err, -EIO, "the system provides no random numbers: %s",
                                 strerror(errno));
    plenum_job_describe(job, "broadcast_seed", "");
    return plenum_broadcast(job, seed, sizeof(*seed), 0, err);
}

uint64_t plenum_replica_seed(uint64_t seed, uint32_t replica)
{
    struct philox_block b = philox_draw(seed, replica, 0, DRAW_SEED, 0);

    return b.word[0] | (uint64_t)b.word[1] << 32;
}

/* The result of preparing data on one host. */
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
    all = comm_gather(job, "once_per_host", &mine, sizeof(mine), &r, err);
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
    lock_world();
    if (world.used && world.pid == getpid()) {
        r = error_set(err, -EBUSY,
                      "collectives have begun: their carrier can no longer be changed");
    } else {
        world.carrier = *carrier;
        world.carried = true;
        world.backend = NULL;              /* a parent's is not this process's */
        world.used = world.broken = false; /* the parent's collectives are not this process's */
        world.number = 0;
        world.pid = getpid();
    }
    (void)pthread_mutex_unlock(&world.mu);
    return r;
}

void plenum_job_set_timeout(struct plenum_job *job, uint64_t timeout_ns)
{
    lock_world();
    job->timeout_ns = timeout_ns == UINT64_MAX ? 0 : timeout_ns; /* no limit */
    (void)pthread_mutex_unlock(&world.mu);
}
