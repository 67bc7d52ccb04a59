/* comm_mpi.c - the carrier of collectives over MPI: libplenum-mpi.so, the only file that knows MPI.
 *
 * Every collective is a non-blocking one, tested in a loop that sleeps: a rank inside MPI_Barrier
 * burns a core that the loader needs. The pauses grow from nothing to a millisecond, so a short
 * collective is not slowed down and a long wait costs nothing.
 *
 * Counts of MPI are ints: larger buffers go in pieces, several under way at once.
 *
 * A communicator of our own (a duplicate of MPI_COMM_WORLD) keeps us out of the way of the
 * program's messages. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#include "common/error.h"
#include "common/util.h"
#include "libdist/comm_priv.h"

enum {
    PIECE_BYTES = 1 << 30,
    PIECES_UNDER_WAY = 4,
    SPINS = 200, /* tests before the first sleep */
    PAUSE_FIRST_NS = 20000,
    PAUSE_LAST_NS = 1000000,
};

static MPI_Comm world = MPI_COMM_NULL;
static bool ours; /* we initialised MPI, and we finalise it */
static uint32_t world_size;

static int mpi_error(int code, const char *what, struct plenum_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    (void)MPI_Error_string(code, text, &len);
    return error_set(err, -EIO, "MPI failed in %s: %s", what, text);
}

/* Start MPI, or see that the program has done so. */
static int init(struct plenum_error *err)
{
    int initialised, finalised, level, r;

    (void)MPI_Finalized(&finalised);
    if (finalised)
        return error_set(err, -ENOTSUP,
                         "the program has finalised MPI already: no collective is "
                         "possible after that");
    (void)MPI_Initialized(&initialised);
    if (!initialised) {
        r = MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level);
        if (r != MPI_SUCCESS)
            return mpi_error(r, "MPI_Init_thread", err);
        ours = true;
    } else {
        (void)MPI_Query_thread(&level);
    }
    if (level < MPI_THREAD_SERIALIZED && ours)
        return error_set(err, -ENOTSUP,
                         "this MPI offers thread level %d, but plenum needs MPI_THREAD_SERIALIZED "
                         "(%d)",
                         level, MPI_THREAD_SERIALIZED);
    if (level < MPI_THREAD_SERIALIZED) {
        int main_thread = 0;

        (void)MPI_Is_thread_main(&main_thread);
        if (level == MPI_THREAD_SINGLE || !main_thread)
            return error_set(
                err, -ENOTSUP,
                "the program initialised MPI with thread level %d: plenum's collectives "
                "need MPI_THREAD_SERIALIZED (%d), or MPI_THREAD_FUNNELED and calls "
                "from the main thread; use MPI_Init_thread",
                level, MPI_THREAD_SERIALIZED);
    }
    return 0;
}

static int backend_open(uint32_t instances, uint32_t index, struct plenum_error *err)
{
    int size, rank, r;

    r = init(err);
    if (r < 0)
        return r;
    (void)MPI_Comm_size(MPI_COMM_WORLD, &size);
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if ((uint32_t)size != instances || (uint32_t)rank != index)
        return error_set(err, -ENOTSUP,
                         "this process is instance %u of %u of its job, but rank %d of %d for MPI: "
                         "the job was not started through mpirun; start it with plenumrun",
                         index, instances, rank, size);
    r = MPI_Comm_dup(MPI_COMM_WORLD, &world);
    if (r != MPI_SUCCESS)
        return mpi_error(r, "MPI_Comm_dup", err);
    (void)MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    world_size = instances;
    return 0;
}

static void backend_close(bool broken)
{
    int finalised;

    (void)MPI_Finalized(&finalised);
    if (finalised || broken) /* MPI_Finalize would wait for the others for ever */
        return;
    if (world != MPI_COMM_NULL)
        (void)MPI_Comm_free(&world);
    if (ours)
        (void)MPI_Finalize();
    ours = false;
}

/* Wait, sleeping, for the requests. */
static int wait_all(MPI_Request *requests, int count, uint64_t deadline_ns, const char *what,
                    struct plenum_error *err)
{
    struct timespec pause = {.tv_nsec = PAUSE_FIRST_NS};

    for (uint64_t tries = 0;; tries++) {
        int done = 0, r = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);

        if (r != MPI_SUCCESS)
            return mpi_error(r, what, err);
        if (done)
            return 0;
        if (tries < SPINS)
            continue;
        if (deadline_ns && time_now_ns() > deadline_ns)
            return error_set(err, -ETIMEDOUT,
                             "%s: the time limit has passed and not all of the %u "
                             "instances have come",
                             what, world_size);
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < PAUSE_LAST_NS)
            pause.tv_nsec += pause.tv_nsec / 4;
    }
}

/* The requests of one collective, of which some are under way. */
struct pieces {
    MPI_Request requests[PIECES_UNDER_WAY];
    int count;
    uint64_t deadline_ns;
    const char *what;
    struct plenum_error *err;
};

/* A request was started (or not: `code`): wait when enough are under way. */
static int started(struct pieces *p, int code)
{
    int r;

    if (code != MPI_SUCCESS)
        return mpi_error(code, p->what, p->err);
    if (++p->count < PIECES_UNDER_WAY)
        return 0;
    r = wait_all(p->requests, p->count, p->deadline_ns, p->what, p->err);
    p->count = 0;
    return r;
}

static int finish(struct pieces *p)
{
    return p->count ? wait_all(p->requests, p->count, p->deadline_ns, p->what, p->err) : 0;
}

static int backend_broadcast(void *buffer, size_t bytes, uint32_t root, uint64_t deadline_ns,
                             struct plenum_error *err)
{
    struct pieces p = {.deadline_ns = deadline_ns, .what = "broadcast", .err = err};
    int r = 0;

    for (size_t at = 0; at < bytes && r == 0; at += PIECE_BYTES) {
        int n = (int)min_u64(PIECE_BYTES, bytes - at);

        r = started(&p, MPI_Ibcast((char *)buffer + at, n, MPI_BYTE, (int)root, world,
                                   &p.requests[p.count]));
    }
    return r < 0 ? r : finish(&p);
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

static int backend_allreduce(void *buffer, size_t count, enum plenum_type type, enum plenum_op op,
                             uint64_t deadline_ns, struct plenum_error *err)
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
    struct pieces p = {.deadline_ns = deadline_ns, .what = "allreduce", .err = err};
    int r = 0;

    for (size_t at = 0; at < count && r == 0; at += piece) {
        int n = (int)min_u64(piece, count - at);

        r = started(&p, MPI_Iallreduce(MPI_IN_PLACE, (char *)buffer + at * size, n, types[type],
                                       ops[op], world, &p.requests[p.count]));
    }
    if (r == 0)
        r = finish(&p);
    if (r == 0 && op == PLENUM_MEAN)
        divide(buffer, count, type);
    return r;
}

/* Every instance's bytes lie apart in `recv`, so pieces would have to be gathered with a stride: a
 * vector type of one piece per instance does that. */
static int backend_allgather(const void *send, size_t bytes, void *recv, uint64_t deadline_ns,
                             struct plenum_error *err)
{
    struct pieces p = {.deadline_ns = deadline_ns, .what = "allgather", .err = err};
    size_t piece = PIECE_BYTES / 4;
    int r = 0;

    for (size_t at = 0; at < bytes && r == 0; at += piece) {
        int n = (int)min_u64(piece, bytes - at);
        MPI_Datatype block, strided;

        (void)MPI_Type_contiguous(n, MPI_BYTE, &block);
        (void)MPI_Type_create_resized(block, 0, (MPI_Aint)bytes, &strided);
        (void)MPI_Type_commit(&strided);
        r = started(&p, MPI_Iallgather((const char *)send + at, n, MPI_BYTE, (char *)recv + at, 1,
                                       strided, world, &p.requests[p.count]));
        (void)MPI_Type_free(&strided); /* freed for good when the request is over */
        (void)MPI_Type_free(&block);
    }
    return r < 0 ? r : finish(&p);
}

static int backend_barrier(uint64_t deadline_ns, struct plenum_error *err)
{
    MPI_Request request;
    int r = MPI_Ibarrier(world, &request);

    if (r != MPI_SUCCESS)
        return mpi_error(r, "barrier", err);
    return wait_all(&request, 1, deadline_ns, "barrier", err);
}

extern const struct comm_backend plenum_mpi_backend;

PLENUM_API const struct comm_backend plenum_mpi_backend = {
    .version = COMM_BACKEND_VERSION,
    .open = backend_open,
    .close = backend_close,
    .broadcast = backend_broadcast,
    .allreduce = backend_allreduce,
    .allgather = backend_allgather,
    .barrier = backend_barrier,
};
