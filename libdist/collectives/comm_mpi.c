/* SPDX-License-Identifier: MIT */
/* comm_mpi.c - carries collectives over MPI. This is libplenum-mpi.so, the only file that uses MPI.
 *
 * Every collective is non-blocking and is tested in a loop that sleeps, because a rank inside
 * MPI_Barrier keeps a core busy that the loader needs. The pauses grow from zero to two
 * milliseconds, so that short collectives are not slowed down and long waits cost nothing.
 *
 * MPI moves bytes only while it is called, so a loop that sleeps would slow down a large transfer.
 * Waiting and moving are therefore separate: every collective first waits, sleeping, until all
 * instances have arrived (backend_meet()). Data that did not fit into the exchange of
 * backend_meet() then moves in a loop that does not sleep, but yields the core to any thread that
 * wants it. If an instance is stopped during that time, the others begin to sleep after a while.
 *
 * MPI itself never matches calls that differ: all exchanges that begin a collective have the same
 * size, and data moves only after comm.c has found that all instances make the same call.
 *
 * An instance that ends announces it in a separate message (END_TAG), with the number of the last
 * collective that it has reached. Instances that wait for a later one return at once. The ending
 * instance then waits for the others' messages, because MPI_Finalize() would wait for them without
 * sleeping. plenumrun reports instances that could not send one (common/job/departed.h).
 *
 * MPI counts are ints, and large requests use caches badly, so buffers are sent in pieces.
 *
 * Our own communicator (a duplicate of MPI_COMM_WORLD) keeps us apart from the program's
 * messages. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mpi.h>

#include "common/job/departed.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/comm_priv.h"
#include "libdist/collectives/missing.h"
#include "libdist/collectives/rendezvous.h"

enum {
    NOTICE_TAG = 1,
    END_TAG,
    PIECE_BYTES = 8 << 20,
    PIECES_UNDER_WAY = 4,
    SPINS = 200, /* tests before the first sleep */
    PAUSE_FIRST_NS = 20000,
    PAUSE_LAST_NS = 2000000,
};

/* Yield for this long while data moves. After that, assume that an instance is stopped, and sleep
 * between tests. */
static const uint64_t moving_ns = 500 * NS_PER_MS;

/* How long to wait before notifying the others. */
static const uint64_t notice_after_ns = NS_PER_SEC;

/* How long an instance that ends after a failure keeps its last messages moving. */
static const uint64_t last_words_ns = 100 * NS_PER_MS;

/* What an instance announces when it ends. */
struct last_word {
    uint64_t number; /* the last collective that it has reached */
    uint64_t broken; /* 1: it will not call MPI_Finalize() */
};

static MPI_Comm world = MPI_COMM_NULL;
static MPI_Comm notices = MPI_COMM_NULL; /* for notices: collectives may be unfinished */
static bool ours;                        /* we initialised MPI, so we finalise it */
static uint32_t world_size, world_rank;
static uint64_t number;   /* the collective in progress, counted from 1 */
static uint64_t *noticed; /* [world_size]: the last collective that each is known to have reached */
static uint64_t sent_number;            /* what our notices contain; constant while they are sent */
static MPI_Request *sent;               /* [world_size] */
static bool *came_now;                  /* [world_size]: which have arrived; for not_in_time() */
static struct last_word last_word;      /* ours, while it is being sent */
static struct last_word *others_ended;  /* [world_size]; number UINT64_MAX: still running */
static const struct departed *departed; /* plenumrun's list of ended instances, or NULL */

static int mpi_error(int code, const char *what, struct plenum_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len = 0;

    (void)MPI_Error_string(code, text, &len);
    return error_set(err, -EIO, "MPI failed in %s: %s", what, text);
}

/* If the program started MPI itself, check that its thread level allows our calls. Only then do we
 * wait for others. */
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

/* Must MPI be the first to use PMIx? That is the case from Open MPI 5 on (rendezvous.c). The
 * library's name and interface are those of 4.1, so ask it for its version. */
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

/* A call of MPI_Init_thread(), in the caller's thread or in a separate one. */
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

static const char first_collective[] = "the first collective";

/* Returns the first instance whose program ended before collective `wanted`; UINT32_MAX: none. */
static uint32_t find_departed(uint32_t instances, uint64_t wanted)
{
    for (uint32_t i = 0; i < instances; i++)
        if (departed_before(departed, i, DEPARTED_FIRST + wanted))
            return i;
    return UINT32_MAX;
}

static bool is_one_gone(uint32_t instances)
{
    return find_departed(instances, 0) != UINT32_MAX;
}

/* Wait until all have arrived at the first collective, as far as PMIx and plenumrun know. */
static int meet(uint32_t instances, uint32_t index, uint64_t deadline_ns, struct plenum_error *err)
{
    bool *came = calloc(instances, sizeof(*came));
    int r;

    if (!came)
        return error_set(err, -ENOMEM, "out of memory");
    r = rendezvous(instances, index, deadline_ns, came, is_one_gone);
    if (r == -ETIMEDOUT)
        (void)missing_in_time(first_collective, came, instances, err);
    else if (r == -EPIPE)
        r = missing_ended(first_collective, find_departed(instances, 0), err);
    free(came);
    return r == -ETIMEDOUT || r == -EIO ? r : 0;
}

/* Wait for MPI_Init_thread() in another thread. Until MPI has joined PMIx there are no marks and no
 * time limit. Returns false if the time is up, or an instance has ended without arriving. */
static bool wait_for_start(uint32_t instances, uint32_t index, uint64_t deadline_ns)
{
    int marked = -EAGAIN;
    bool over;

    (void)pthread_mutex_lock(&start.mu);
    while (!start.over) {
        uint64_t next = marked == -EAGAIN ? time_now_ns() + PAUSE_LAST_NS : UINT64_MAX;

        next = min_u64(next, time_now_ns() + DEPARTED_LOOK_NS);
        if (marked == 0 && deadline_ns)
            next = min_u64(next, deadline_ns);
        (void)cond_wait_until(&start.changed, &start.mu, next);
        if (marked == 0 && deadline_ns && time_now_ns() >= deadline_ns)
            break;
        if (!start.over && is_one_gone(instances))
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

/* Call MPI_Init_thread() with a time limit. MPI has none, so a separate thread makes the call. When
 * the time is up, the thread is abandoned and the program must not use MPI again. */
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
    } else if (is_one_gone(instances)) {
        r = missing_ended(first_collective, find_departed(instances, 0), err);
    } else {
        rendezvous_look(instances, came);
        r = missing_in_time(first_collective, came, instances, err);
    }
    free(came);
    return r;
}

static int init(uint32_t instances, uint32_t index, uint64_t deadline_ns, struct plenum_error *err)
{
    int initialised, finalised, r;

    (void)MPI_Finalized(&finalised);
    if (finalised)
        return error_set(
            err, -ENOTSUP,
            "the program has already finalised MPI: collectives are no longer possible");
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
        rendezvous_end(); /* MPI has joined PMIx itself, and leaves it when it is finalised */
    return 0;
}

static uint64_t deadline_of(uint64_t timeout_ns)
{
    return timeout_ns ? sum_u64(time_now_ns(), timeout_ns) : 0;
}

/* Tell all others in which collective we wait. */
static void send_notices(void)
{
    int done = 1;

    (void)MPI_Testall((int)world_size, sent, &done, MPI_STATUSES_IGNORE);
    if (!done) /* the last notices, to an instance that receives nothing */
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

static void read_last_words(void)
{
    MPI_Status status;
    struct last_word theirs;
    int there = 0;

    while (MPI_Iprobe(MPI_ANY_SOURCE, END_TAG, notices, &there, &status) == MPI_SUCCESS && there) {
        if (MPI_Recv(&theirs, sizeof(theirs), MPI_BYTE, status.MPI_SOURCE, END_TAG, notices,
                     MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return;
        others_ended[status.MPI_SOURCE] = theirs;
    }
}

/* Tell all others that this instance will enter no more collectives, and wait until MPI has sent
 * the messages, because MPI may not be called again. */
static void send_last_word(bool broken)
{
    struct timespec pause = {.tv_nsec = PAUSE_FIRST_NS};
    MPI_Request *requests = malloc(world_size * sizeof(*requests));
    uint64_t end = time_now_ns() + last_words_ns;
    int done = 0;

    if (!requests)
        return;
    last_word = (struct last_word){.number = number, .broken = broken};
    for (uint32_t i = 0; i < world_size; i++) {
        requests[i] = MPI_REQUEST_NULL;
        if (i != world_rank)
            (void)MPI_Isend(&last_word, sizeof(last_word), MPI_BYTE, (int)i, END_TAG, notices,
                            &requests[i]);
    }
    while (MPI_Testall((int)world_size, requests, &done, MPI_STATUSES_IGNORE) == MPI_SUCCESS &&
           !done && time_now_ns() < end)
        (void)nanosleep(&pause, NULL);
    for (uint32_t i = 0; i < world_size; i++)
        if (requests[i] != MPI_REQUEST_NULL)
            (void)MPI_Request_free(&requests[i]);
    free(requests);
}

/* Returns the instance that ended before the collective in progress; UINT32_MAX: none. */
static uint32_t find_ended(void)
{
    read_last_words();
    for (uint32_t i = 0; i < world_size; i++)
        if (others_ended[i].number < number)
            return i;
    return find_departed(world_size, number);
}

/* What a carrier does when a program that started MPI itself calls MPI_Finalize(). */
static void (*leave_world)(void);

/* MPI_Finalize() deletes the attributes of MPI_COMM_SELF first. */
static int on_finalize(MPI_Comm comm, int key, void *value, void *state)
{
    (void)comm;
    (void)key;
    (void)value;
    (void)state;
    leave_world();
    return MPI_SUCCESS;
}

static void leave(void)
{
    if (notices != MPI_COMM_NULL)
        send_last_word(false);
}

static int backend_watch_finalize(void (*call)(void), struct plenum_error *err)
{
    int key, initialised, finalised, r;

    (void)MPI_Initialized(&initialised);
    (void)MPI_Finalized(&finalised);
    if (!initialised || finalised)
        return 0;
    leave_world = call;
    r = MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &key, NULL);

    if (r == MPI_SUCCESS)
        r = MPI_Comm_set_attr(MPI_COMM_SELF, key, NULL);
    return r == MPI_SUCCESS ? 0 : mpi_error(r, "MPI_Comm_set_attr", err);
}

static int not_in_time(const char *what, struct plenum_error *err)
{
    for (uint32_t i = 0; i < world_size; i++)
        came_now[i] = i == world_rank || noticed[i] >= number;
    return missing_in_time(what, came_now, world_size, err);
}

static int backend_open(uint32_t instances, uint32_t index, uint64_t timeout_ns,
                        struct plenum_error *err)
{
    int size, rank, r;

    departed = departed_open(instances);
    departed_reach(departed, DEPARTED_FIRST);
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
    others_ended = malloc(instances * sizeof(*others_ended));
    sent = malloc(instances * sizeof(*sent));
    came_now = malloc(instances * sizeof(*came_now));
    if (!noticed || !others_ended || !sent || !came_now)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < instances; i++) {
        sent[i] = MPI_REQUEST_NULL;
        others_ended[i].number = UINT64_MAX;
    }
    r = MPI_Comm_dup(MPI_COMM_WORLD, &world);
    if (r == MPI_SUCCESS)
        r = MPI_Comm_dup(MPI_COMM_WORLD, &notices);
    if (r != MPI_SUCCESS)
        return mpi_error(r, "MPI_Comm_dup", err);
    (void)MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    (void)MPI_Comm_set_errhandler(notices, MPI_ERRORS_RETURN);
    world_size = instances;
    world_rank = index;
    return ours ? 0 : backend_watch_finalize(leave, err);
}

/* A wait in progress. */
struct wait {
    const char *what; /* name of the collective, for messages */
    bool moving;      /* all have arrived, and bytes are moving */
    uint64_t deadline_ns;
    struct plenum_error *err;
    /* Valid during the wait. */
    uint64_t begin_ns, notice_ns;
    bool told;
};

/* In a wait with a time limit, once it has lasted notice_after_ns: notify the others in which
 * collective we wait, and read their notices. */
static void exchange_notices(struct wait *w, uint64_t now)
{
    if (w->deadline_ns == 0 || now <= w->notice_ns)
        return;
    if (!w->told)
        send_notices();
    w->told = true;
    read_notices();
}

/* Check a wait. Returns 0 to keep waiting, or -EIO or -ETIMEDOUT. While data moves, the end of
 * other instances does not matter. */
static int check_wait(const struct wait *w, uint64_t now)
{
    uint32_t ended = w->moving ? UINT32_MAX : find_ended();

    if (ended != UINT32_MAX)
        return missing_ended(w->what, ended, w->err);
    return w->deadline_ns && now > w->deadline_ns ? not_in_time(w->what, w->err) : 0;
}

/* Wait for the requests: asleep or, while bytes are moving, only yielding. */
static int wait_all(MPI_Request *requests, int count, struct wait *w)
{
    struct timespec pause = {.tv_nsec = PAUSE_FIRST_NS};

    w->begin_ns = time_now_ns();
    w->notice_ns = w->begin_ns + notice_after_ns;
    if (w->deadline_ns) /* early enough for the notices to arrive before the others time out */
        w->notice_ns =
            min_u64(w->notice_ns,
                    w->begin_ns + (w->deadline_ns - min_u64(w->begin_ns, w->deadline_ns)) / 4);
    for (uint64_t tries = 0;; tries++) {
        int done = 0, r = MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE);
        uint64_t now;

        if (r != MPI_SUCCESS)
            return mpi_error(r, w->what, w->err);
        if (done)
            return 0;
        if (tries < SPINS)
            continue;
        now = time_now_ns();
        exchange_notices(w, now);
        r = check_wait(w, now);
        if (r < 0)
            return r;
        if (w->moving && now < w->begin_ns + moving_ns) {
            (void)sched_yield();
            continue;
        }
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < PAUSE_LAST_NS)
            pause.tv_nsec += pause.tv_nsec / 4;
    }
}

static int backend_meet(const char *what, const void *mine, size_t bytes, void *all,
                        uint64_t timeout_ns, struct plenum_error *err)
{
    struct wait w = {.what = what, .deadline_ns = deadline_of(timeout_ns), .err = err};
    MPI_Request request;
    int r;

    number++;
    departed_reach(departed, DEPARTED_FIRST + number);
    read_notices(); /* an instance that arrives late has unread ones, which would stay in memory */
    r = MPI_Iallgather(mine, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, world, &request);
    if (r != MPI_SUCCESS)
        return mpi_error(r, what, err);
    return wait_all(&request, 1, &w);
}

/* Wait, asleep, until all instances end, because MPI_Finalize() would wait for them without
 * sleeping. Returns whether all have reached their end, and all of them will call it. */
static bool all_end(void)
{
    struct timespec pause = {.tv_nsec = PAUSE_FIRST_NS};

    for (uint32_t i = 0; i < world_size; i++) {
        while (i != world_rank && others_ended[i].number == UINT64_MAX) {
            /* An instance that ended without a last message will not send one; but the message may
             * still be on its way when plenumrun reports the end. */
            bool gone = departed_before(departed, i, UINT64_MAX);

            read_last_words();
            if (gone && others_ended[i].number == UINT64_MAX)
                return false;
            (void)nanosleep(&pause, NULL);
            if (pause.tv_nsec < PAUSE_LAST_NS)
                pause.tv_nsec += pause.tv_nsec / 4;
        }
        if (i != world_rank && others_ended[i].broken)
            return false;
    }
    return true;
}

static void free_world(void)
{
    for (uint32_t i = 0; i < world_size; i++)
        if (sent[i] != MPI_REQUEST_NULL)
            (void)MPI_Request_free(&sent[i]);
    if (world != MPI_COMM_NULL)
        (void)MPI_Comm_free(&world);
    if (notices != MPI_COMM_NULL)
        (void)MPI_Comm_free(&notices);
}

static void backend_close(bool broken)
{
    int finalised;

    (void)MPI_Finalized(&finalised);
    if (finalised || world_size == 0)
        return;
    send_last_word(broken);
    if (broken || (ours && !all_end()))
        return; /* no MPI_Finalize(): mpirun treats that as a failure, rightly */
    free_world();
    if (ours) {
        (void)MPI_Finalize();
        rendezvous_end();
    }
    ours = false;
    free(noticed);
    free(others_ended);
    free(sent);
    free(came_now);
    noticed = NULL;
    others_ended = NULL;
    sent = NULL;
    came_now = NULL;
    world_size = 0;
}

/* A collective whose bytes move in pieces, several at a time. */
struct pieces {
    MPI_Request requests[PIECES_UNDER_WAY];
    int count;
    struct wait wait;
};

static struct pieces begin_pieces(const char *what, uint64_t timeout_ns, struct plenum_error *err)
{
    return (struct pieces){
        .wait = {.what = what, .moving = true, .deadline_ns = deadline_of(timeout_ns), .err = err}};
}

static int pieces_wait(struct pieces *p)
{
    int count = p->count;

    p->count = 0;
    return count ? wait_all(p->requests, count, &p->wait) : 0;
}

/* Count a request that was started, or failed with `code`, and wait if enough are in progress. */
static int piece_started(struct pieces *p, int code)
{
    if (code != MPI_SUCCESS)
        return mpi_error(code, p->wait.what, p->wait.err);
    return ++p->count == PIECES_UNDER_WAY ? pieces_wait(p) : 0;
}

static int backend_broadcast(void *arg, void *buffer, size_t bytes, uint32_t root,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    struct pieces p = begin_pieces("broadcast", timeout_ns, err);
    int r = 0;

    (void)arg;
    for (size_t at = 0; at < bytes && r == 0; at += PIECE_BYTES) {
        int n = (int)min_u64(PIECE_BYTES, bytes - at);

        r = piece_started(&p, MPI_Ibcast((char *)buffer + at, n, MPI_BYTE, (int)root, world,
                                         &p.requests[p.count]));
    }
    return r < 0 ? r : pieces_wait(&p);
}

/* Returns a type of `bytes` bytes whose elements are `step` apart. MPI frees it when the last
 * request that uses it completes. */
static MPI_Datatype strided(size_t bytes, size_t step)
{
    MPI_Datatype block, ret;

    (void)MPI_Type_contiguous((int)bytes, MPI_BYTE, &block);
    (void)MPI_Type_create_resized(block, 0, (MPI_Aint)step, &ret);
    (void)MPI_Type_commit(&ret);
    (void)MPI_Type_free(&block);
    return ret;
}

/* Gather in pieces. The instances' bytes lie apart in `recv`, so a piece needs a stride. */
static int backend_allgather(void *arg, const void *send, size_t bytes, void *recv,
                             uint64_t timeout_ns, struct plenum_error *err)
{
    struct pieces p = begin_pieces("allgather", timeout_ns, err);
    const bool in_place = send == (char *)recv + world_rank * bytes;
    int r = 0;

    (void)arg;
    for (size_t at = 0; at < bytes && r == 0; at += PIECE_BYTES) {
        size_t n = min_u64(PIECE_BYTES, bytes - at);
        const void *from = in_place ? MPI_IN_PLACE : (const char *)send + at;
        MPI_Datatype to = strided(n, bytes);

        r = piece_started(&p, MPI_Iallgather(from, (int)n, MPI_BYTE, (char *)recv + at, 1, to,
                                             world, &p.requests[p.count]));
        (void)MPI_Type_free(&to);
    }
    return r < 0 ? r : pieces_wait(&p);
}

static int backend_exchange(const struct comm_exchange *x, struct plenum_error *err)
{
    const size_t piece = max_u64(PIECE_BYTES / world_size, 4096);
    struct pieces p = begin_pieces(x->what, x->timeout_ns, err);
    int r = 0;

    for (size_t at = 0; at < x->bytes && r == 0; at += piece) {
        size_t n = min_u64(piece, x->bytes - at);
        MPI_Datatype from = strided(n, x->send_step), to = strided(n, x->recv_step);

        r = piece_started(&p, MPI_Ialltoall(x->send + at, 1, from, x->recv + at, 1, to, world,
                                            &p.requests[p.count]));
        (void)MPI_Type_free(&from);
        (void)MPI_Type_free(&to);
    }
    return r < 0 ? r : pieces_wait(&p);
}

extern const struct comm_backend plenum_mpi_backend;

PLENUM_API const struct comm_backend plenum_mpi_backend = {
    .version = COMM_BACKEND_VERSION,
    .open = backend_open,
    .close = backend_close,
    .meet = backend_meet,
    .carrier = {.broadcast = backend_broadcast, .allgather = backend_allgather},
    .exchange = backend_exchange,
    .watch_finalize = backend_watch_finalize,
};
