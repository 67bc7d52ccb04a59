/* SPDX-License-Identifier: MIT */
/* comm_mpi.c - the carrier of collectives over MPI: libplenum-mpi.so, the only file that knows MPI.
 *
 * Every collective is a non-blocking one, tested in a loop that sleeps: a rank inside MPI_Barrier
 * burns a core that the loader needs. The pauses grow from nothing to two milliseconds, so a short
 * collective is not slowed down and a long wait costs nothing.
 *
 * MPI moves bytes only while it is called, so a loop that sleeps would slow a large transfer down.
 * Waiting and moving are therefore two things: a large collective first waits, sleeping, until all
 * instances have come, and then moves its bytes without sleeping, but giving way to whoever wants
 * the core. If one of them is stopped meanwhile, the others begin to sleep after a while.
 *
 * Counts of MPI are ints, and large requests pass through the caches badly: buffers go in pieces.
 *
 * A communicator of our own (a duplicate of MPI_COMM_WORLD) keeps us out of the way of the
 * program's messages. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#include "common/error.h"
#include "common/util.h"
#include "libdist/comm_priv.h"
#include "libdist/missing.h"
#include "libdist/rendezvous.h"

enum {
    NOTICE_TAG = 1,
    PIECE_BYTES = 8 << 20,
    PIECES_UNDER_WAY = 4,
    LARGE_BYTES = 64 << 10, /* from here on, all are waited for before bytes are moved */
    SPINS = 200,            /* tests before the first sleep */
    PAUSE_FIRST_NS = 20000,
    PAUSE_LAST_NS = 2000000,
};

/* When a piece takes longer than this, an instance has stopped. */
static const uint64_t moving_ns = 500 * NS_PER_MS;

/* How long to wait before telling the others, at most; and how long at the end for all to come. */
static const uint64_t notice_after_ns = NS_PER_SEC, finalize_within_ns = 30 * NS_PER_SEC;

static MPI_Comm world = MPI_COMM_NULL;
static MPI_Comm notices = MPI_COMM_NULL; /* apart from collectives, which may be half done */
static bool ours;                        /* we initialised MPI, and we finalise it */
static uint32_t world_size, world_rank;
static uint64_t number;   /* of the collective under way, counted from 1 */
static uint64_t *noticed; /* [world_size]: the last collective that each is known to have reached */
static uint64_t sent_number; /* what our notices say; must stay while they are under way */
static MPI_Request *sent;    /* [world_size] */
static bool *came_now;       /* [world_size], for not_in_time() */

static int mpi_error(int code, const char *what, struct plenum_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    (void)MPI_Error_string(code, text, &len);
    return error_set(err, -EIO, "MPI failed in %s: %s", what, text);
}

/* MPI that the program started must allow what we do; only then are the others waited for. */
static int check_programs_own(struct plenum_error *err)
{
    int level, main_thread = 0;

    (void)MPI_Query_thread(&level);
    (void)MPI_Is_thread_main(&main_thread);
    if (level >= MPI_THREAD_SERIALIZED || (level == MPI_THREAD_FUNNELED && main_thread))
        return 0;
    return error_set(err, -ENOTSUP,
                     "the program initialised MPI with thread level %s: plenum's collectives need "
                     "MPI_THREAD_SERIALIZED, or MPI_THREAD_FUNNELED and calls from the main "
                     "thread; initialise it with MPI_Init_thread",
                     level == MPI_THREAD_SINGLE ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED");
}

/* From Open MPI 5 on nobody may ask PMIx before MPI does (rendezvous.c). The library's name and
 * interface are those of 4.1, so it is asked. */
static bool must_be_first(void)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    const char *digits;
    uint64_t major;
    int len;

    if (MPI_Get_library_version(text, &len) != MPI_SUCCESS)
        return false;
    digits = str_after(text, "Open MPI v");
    return digits && parse_next_u64(&digits, UINT32_MAX, &major) == 0 && major >= 5;
}

/* MPI_Init_thread(), in the thread that wants it or in one of its own. */
static struct {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    bool over;
    int code, level;
} start = {.mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void *start_mpi(void *unused)
{
    int level, code = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);

    (void)pthread_mutex_lock(&start.mu);
    start.over = true;
    start.code = code;
    start.level = level;
    (void)pthread_cond_broadcast(&start.changed);
    (void)pthread_mutex_unlock(&start.mu);
    return unused;
}

static int started(struct plenum_error *err)
{
    if (start.code != MPI_SUCCESS)
        return mpi_error(start.code, "MPI_Init_thread", err);
    ours = true;
    if (start.level < MPI_THREAD_SERIALIZED)
        return error_set(err, -ENOTSUP,
                         "this MPI offers thread level %d, but plenum needs MPI_THREAD_SERIALIZED "
                         "(%d)",
                         start.level, MPI_THREAD_SERIALIZED);
    return 0;
}

/* Have all come to the first collective, as far as somebody knows? */
static int meet(uint32_t instances, uint32_t index, uint64_t deadline_ns, struct plenum_error *err)
{
    bool *came = calloc(instances, sizeof(*came));
    int r;

    if (!came)
        return error_set(err, -ENOMEM, "out of memory");
    r = rendezvous(instances, index, deadline_ns, came);
    if (r == -ETIMEDOUT)
        (void)missing_in_time("the first collective", came, instances, err);
    free(came);
    return r == -ETIMEDOUT ? r : 0;
}

/* Wait for MPI_Init_thread() in another thread. Until MPI has joined PMIx there are no marks, and
 * no time limit. */
static bool wait_for_start(uint32_t instances, uint32_t index, uint64_t deadline_ns)
{
    int marked = -EAGAIN;
    bool over;

    (void)pthread_mutex_lock(&start.mu);
    while (!start.over) {
        uint64_t next = marked == -EAGAIN ? time_now_ns() + PAUSE_LAST_NS : UINT64_MAX;

        if (marked == 0 && deadline_ns)
            next = deadline_ns;
        if (cond_wait_until(&start.changed, &start.mu, next) == -ETIMEDOUT && marked == 0)
            break;
        if (start.over || marked != -EAGAIN)
            continue;
        (void)pthread_mutex_unlock(&start.mu);
        marked = rendezvous_mark(instances, index);
        (void)pthread_mutex_lock(&start.mu);
    }
    over = start.over;
    (void)pthread_mutex_unlock(&start.mu);
    return over;
}

/* MPI_Init_thread() with a time limit: it has none, so it waits in a thread of its own. When the
 * time is up it is left there, and the program is not to use MPI again. */
static int start_in_time(uint32_t instances, uint32_t index, uint64_t deadline_ns,
                         struct plenum_error *err)
{
    bool *came = calloc(instances, sizeof(*came));
    int r;

    if (!came)
        return error_set(err, -ENOMEM, "out of memory");
    r = thread_start(NULL, start_mpi, NULL);
    if (r < 0) {
        free(came);
        return error_set(err, r, "cannot start MPI: no new thread");
    }
    if (wait_for_start(instances, index, deadline_ns)) {
        rendezvous_end();
        r = started(err);
    } else {
        rendezvous_look(instances, came);
        r = missing_in_time("the first collective", came, instances, err);
    }
    free(came);
    return r;
}

static int init(uint32_t instances, uint32_t index, uint64_t deadline_ns, struct plenum_error *err)
{
    int initialised, finalised, r;

    (void)MPI_Finalized(&finalised);
    if (finalised)
        return error_set(err, -ENOTSUP,
                         "the program has finalised MPI already: no collective is possible after "
                         "that");
    (void)MPI_Initialized(&initialised);
    if (initialised && !ours) {
        r = check_programs_own(err);
        if (r < 0)
            return r;
    }
    if (!initialised && must_be_first())
        return start_in_time(instances, index, deadline_ns, err);
    r = meet(instances, index, deadline_ns, err);
    if (r < 0)
        return r;
    if (!initialised) {
        (void)start_mpi(NULL);
        r = started(err);
        if (r < 0)
            return r;
    }
    if (!ours)
        rendezvous_end(); /* MPI is in PMIx by itself, and leaves it when the program says so */
    return 0;
}

static uint64_t deadline_of(uint64_t timeout_ns)
{
    return timeout_ns ? sum_u64(time_now_ns(), timeout_ns) : 0;
}

static int backend_open(uint32_t instances, uint32_t index, uint64_t timeout_ns,
                        struct plenum_error *err)
{
    int size, rank, r;

    r = init(instances, index, deadline_of(timeout_ns), err);
    if (r < 0)
        return r;
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if ((uint32_t)size != instances || (uint32_t)rank != index)
        return error_set(err, -ENOTSUP,
                         "this process is instance %u of %u of its job, but rank %d of %d for MPI: "
                         "the job was not started through mpirun; start it with plenumrun",
                         index, instances, rank, size);
    noticed = calloc(instances, sizeof(*noticed));
    sent = malloc(instances * sizeof(*sent));
    came_now = malloc(instances * sizeof(*came_now));
    if (!noticed || !sent || !came_now)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < instances; i++)
        sent[i] = MPI_REQUEST_NULL;
    r = MPI_Comm_dup(MPI_COMM_WORLD, &world);
    if (r == MPI_SUCCESS)
        r = MPI_Comm_dup(MPI_COMM_WORLD, &notices);
    if (r != MPI_SUCCESS)
        return mpi_error(r, "MPI_Comm_dup", err);
    (void)MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    (void)MPI_Comm_set_errhandler(notices, MPI_ERRORS_RETURN);
    world_size = instances;
    world_rank = index;
    return 0;
}

/* Tell all others where we wait. */
static void send_notices(void)
{
    int done = 1;

    (void)MPI_Testall((int)world_size, sent, &done, MPI_STATUSES_IGNORE);
    if (!done) /* the last ones, to somebody who hears nothing */
        return;
    sent_number = number;
    for (uint32_t i = 0; i < world_size; i++)
        if (i != world_rank)
            (void)MPI_Isend(&sent_number, 1, MPI_UINT64_T, (int)i, NOTICE_TAG, notices, &sent[i]);
}

static void read_notices(void)
{
    MPI_Status status;
    uint64_t theirs;
    int there = 0;

    while (MPI_Iprobe(MPI_ANY_SOURCE, NOTICE_TAG, notices, &there, &status) == MPI_SUCCESS &&
           there) {
        if (MPI_Recv(&theirs, 1, MPI_UINT64_T, status.MPI_SOURCE, NOTICE_TAG, notices,
                     MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        if (noticed[status.MPI_SOURCE] < theirs)
            noticed[status.MPI_SOURCE] = theirs;
    }
}

/* An instance that comes late has notices from the others. They are received, as they would else
 * stay in memory. */
static void begin_collective(void)
{
    number++;
    read_notices();
}

static int not_in_time(const char *what, struct plenum_error *err)
{
    for (uint32_t i = 0; i < world_size; i++)
        came_now[i] = i == world_rank || noticed[i] >= number;
    return missing_in_time(what, came_now, world_size, err);
}

/* Wait for the requests: sleeping, or, while bytes are `moving`, only giving way to others. */
static int wait_all(MPI_Request *requests, int count, bool moving, uint64_t deadline_ns,
                    const char *what, struct plenum_error *err)
{
    struct timespec pause = {.tv_nsec = PAUSE_FIRST_NS};
    uint64_t begin = time_now_ns(), notice_ns = begin + notice_after_ns;
    bool told = false;

    if (deadline_ns) /* in time to be heard before the others' time is up */
        notice_ns = min_u64(notice_ns, begin + (deadline_ns - min_u64(begin, deadline_ns)) / 4);
    for (uint64_t tries = 0;; tries++) {
        int done = 0, r = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        uint64_t now;

        if (r != MPI_SUCCESS)
            return mpi_error(r, what, err);
        if (done)
            return 0;
        if (tries < SPINS)
            continue;
        now = time_now_ns();
        if (deadline_ns && now > notice_ns) {
            if (!told)
                send_notices();
            told = true;
            read_notices();
        }
        if (deadline_ns && now > deadline_ns)
            return not_in_time(what, err);
        if (moving && now < begin + moving_ns) {
            (void)sched_yield();
            continue;
        }
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < PAUSE_LAST_NS)
            pause.tv_nsec += pause.tv_nsec / 4;
    }
}

/* Have all come? */
static int gather(uint64_t deadline_ns, const char *what, struct plenum_error *err)
{
    MPI_Request request;
    int r = MPI_Ibarrier(world, &request);

    if (r != MPI_SUCCESS)
        return mpi_error(r, what, err);
    return wait_all(&request, 1, false, deadline_ns, what, err);
}

/* MPI_Finalize() waits for all instances for ever: see first whether they come. */
static bool all_come(void)
{
    return gather(time_now_ns() + finalize_within_ns, "the end", NULL) == 0;
}

static void backend_close(bool broken)
{
    int finalised;

    (void)MPI_Finalized(&finalised);
    if (finalised || broken)
        return;
    if (ours && !all_come())
        return; /* the process ends without MPI_Finalize(), which mpirun takes for a failure; it is
                   one */
    for (uint32_t i = 0; i < world_size; i++)
        if (sent[i] != MPI_REQUEST_NULL)
            (void)MPI_Request_free(&sent[i]);
    if (world != MPI_COMM_NULL)
        (void)MPI_Comm_free(&world);
    if (notices != MPI_COMM_NULL)
        (void)MPI_Comm_free(&notices);
    if (ours) {
        (void)MPI_Finalize();
        rendezvous_end();
    }
    ours = false;
    free(noticed);
    free(sent);
    free(came_now);
    noticed = NULL;
    sent = NULL;
    came_now = NULL;
}

/* A collective whose bytes go in pieces, of which some are under way. */
struct pieces {
    MPI_Request requests[PIECES_UNDER_WAY];
    int count;
    bool moving;
    uint64_t deadline_ns;
    const char *what;
    struct plenum_error *err;
};

static int pieces_begin(struct pieces *p, size_t bytes)
{
    begin_collective();
    p->moving = bytes >= LARGE_BYTES;
    return p->moving ? gather(p->deadline_ns, p->what, p->err) : 0;
}

static int pieces_wait(struct pieces *p)
{
    int count = p->count;

    p->count = 0;
    return count ? wait_all(p->requests, count, p->moving, p->deadline_ns, p->what, p->err) : 0;
}

/* A request was started (or not: `code`): wait when enough are under way. */
static int piece_started(struct pieces *p, int code)
{
    if (code != MPI_SUCCESS)
        return mpi_error(code, p->what, p->err);
    return ++p->count == PIECES_UNDER_WAY ? pieces_wait(p) : 0;
}

static int backend_broadcast(void *arg, void *buffer, size_t bytes, uint32_t root,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    struct pieces p = {.deadline_ns = deadline_of(timeout_ns), .what = "broadcast", .err = err};
    int r = pieces_begin(&p, bytes);

    (void)arg;
    for (size_t at = 0; at < bytes && r == 0; at += PIECE_BYTES) {
        int n = (int)min_u64(PIECE_BYTES, bytes - at);

        r = piece_started(&p, MPI_Ibcast((char *)buffer + at, n, MPI_BYTE, (int)root, world,
                                         &p.requests[p.count]));
    }
    return r < 0 ? r : pieces_wait(&p);
}

static void divide(void *buffer, size_t count, enum plenum_type type)
{
    for (size_t i = 0; i < count; i++)
        switch (type) {
        case PLENUM_INT32:
            ((int32_t *)buffer)[i] /= (int32_t)world_size;
            break;
        case PLENUM_INT64:
            ((int64_t *)buffer)[i] /= (int64_t)world_size;
            break;
        case PLENUM_FLOAT32:
            ((float *)buffer)[i] /= (float)world_size;
            break;
        case PLENUM_FLOAT64:
            ((double *)buffer)[i] /= (double)world_size;
            break;
        }
}

static int backend_allreduce(void *arg, void *buffer, size_t count, enum plenum_type type,
                             enum plenum_op op, uint64_t timeout_ns, struct plenum_error *err)
{
    const MPI_Datatype types[] = {[PLENUM_INT32] = MPI_INT32_T,
                                  [PLENUM_INT64] = MPI_INT64_T,
                                  [PLENUM_FLOAT32] = MPI_FLOAT,
                                  [PLENUM_FLOAT64] = MPI_DOUBLE};
    const MPI_Op ops[] = {[PLENUM_SUM] = MPI_SUM,
                          [PLENUM_MIN] = MPI_MIN,
                          [PLENUM_MAX] = MPI_MAX,
                          [PLENUM_MEAN] = MPI_SUM};
    size_t size = type == PLENUM_INT32 || type == PLENUM_FLOAT32 ? 4 : 8;
    size_t piece = PIECE_BYTES / size;
    struct pieces p = {.deadline_ns = deadline_of(timeout_ns), .what = "allreduce", .err = err};
    int r = pieces_begin(&p, count * size);

    (void)arg;
    for (size_t at = 0; at < count && r == 0; at += piece) {
        int n = (int)min_u64(piece, count - at);

        r = piece_started(&p, MPI_Iallreduce(MPI_IN_PLACE, (char *)buffer + at * size, n,
                                             types[type], ops[op], world, &p.requests[p.count]));
    }
    if (r < 0)
        return r;
    r = pieces_wait(&p);
    if (r < 0)
        return r;
    if (op == PLENUM_MEAN)
        divide(buffer, count, type);
    return 0;
}

/* Every instance's bytes lie apart in `recv`, so pieces would have to be gathered with a stride: a
 * vector type of one piece per instance does that. */
static int backend_allgather(void *arg, const void *send, size_t bytes, void *recv,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    struct pieces p = {.deadline_ns = deadline_of(timeout_ns), .what = "allgather", .err = err};
    int r = pieces_begin(&p, bytes);

    (void)arg;
    for (size_t at = 0; at < bytes && r == 0; at += PIECE_BYTES) {
        int n = (int)min_u64(PIECE_BYTES, bytes - at);
        MPI_Datatype block, strided;

        (void)MPI_Type_contiguous(n, MPI_BYTE, &block);
        (void)MPI_Type_create_resized(block, 0, (MPI_Aint)bytes, &strided);
        (void)MPI_Type_commit(&strided);
        r = piece_started(&p,
                          MPI_Iallgather((const char *)send + at, n, MPI_BYTE, (char *)recv + at, 1,
                                         strided, world, &p.requests[p.count]));
        (void)MPI_Type_free(&strided); /* freed for good when the request is over */
        (void)MPI_Type_free(&block);
    }
    return r < 0 ? r : pieces_wait(&p);
}

static int backend_barrier(void *arg, uint64_t timeout_ns, struct plenum_error *err)
{
    (void)arg;
    begin_collective();
    return gather(deadline_of(timeout_ns), "barrier", err);
}

extern const struct comm_backend plenum_mpi_backend;

PLENUM_API const struct comm_backend plenum_mpi_backend = {
    .version = COMM_BACKEND_VERSION,
    .open = backend_open,
    .close = backend_close,
    .carrier = {.broadcast = backend_broadcast,
                .allreduce = backend_allreduce,
                .allgather = backend_allgather,
                .barrier = backend_barrier},
};
