/* SPDX-License-Identifier: MIT */
/* meeting.c - how instances on one host wait for each other and pass bytes, without MPI.
 *
 * The memory holds a slot for each instance, with the number of rounds that it has come to, and two rooms
 * for each. A round is over when all have come: nobody keeps a state that the others depend on, so one that
 * is killed at any moment leaves nothing half done. Who waits sleeps in the kernel (futex), and is woken by
 * the last that comes.
 *
 * Why two rooms: who has come to a round may write for the next turn while others still read what was
 * written for this one. Nobody can be two turns ahead, as he would have to wait for them.
 *
 * Who has ended is known in two ways. Whoever started the program notes its end; that is sure, but a program
 * may be a child of what was started (a shell script). So each that joins holds a lock on one byte of the
 * memory, which the kernel takes from a process that ends, however that happens. It counts only for those whom
 * this process has met: of a script's next program the lock is not there yet, and it goes on with the rounds
 * where the one before it stopped.
 *
 * It is a memfd: nothing is left behind, and nobody else's. Its path is that of a descriptor in /proc, which
 * the kernel opens for processes of the same user only. */
#include "config.h"

#include "common/meeting.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/error.h"
#include "common/util.h"

enum { LAYOUT = 1, UNIT_BYTES = 4096 };

static const char magic[8] = {'p', 'l', 'n', 'm', 'm', 'e', 'e', 't'};

/* How often those who do not come are looked for. */
static const uint64_t look_ns = 250 * NS_PER_MS;

struct said {
    uint64_t first; /* the first round of the process */
    struct meeting_topic topic;
};

struct slot {
    _Atomic uint64_t came; /* to so many rounds */
    _Atomic uint32_t ended;
    uint32_t unused;
    struct said said[2]; /* at even and odd rounds */
};

struct shared {
    char magic[8];
    uint32_t version, instances;
    char job[64];
    _Atomic uint32_t woken; /* what those who wait sleep on */
    uint32_t unused[11];
    struct slot slots[];
};

struct meeting {
    int fd;
    struct shared *shared;
    size_t bytes;
    uint32_t instances, index;
    uint64_t first, round; /* of this process; where it is now */
    uint64_t turn;
};

static size_t slots_bytes(uint32_t instances)
{
    return align_up(sizeof(struct shared) + instances * sizeof(struct slot), UNIT_BYTES);
}

static size_t all_bytes(uint32_t instances)
{
    return slots_bytes(instances) + 2 * (size_t)instances * MEETING_ROOM_BYTES;
}

/* Nothing is done with `fd` on an error. */
static int map(int fd, uint32_t instances, struct meeting **ret)
{
    struct meeting *m = calloc(1, sizeof(*m));

    if (!m)
        return -ENOMEM;
    *m = (struct meeting){.fd = fd, .instances = instances, .bytes = all_bytes(instances)};
    m->shared = mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m->shared == MAP_FAILED) {
        free(m);
        return -ENOMEM;
    }
    *ret = m;
    return 0;
}

int meeting_create(const char *job, uint32_t instances, struct meeting **ret,
                   char path[MEETING_PATH_MAX])
{
    int fd = memfd_create("plenum-collectives", MFD_CLOEXEC | MFD_ALLOW_SEALING), r = 0;
    struct meeting *m = NULL;

    if (fd < 0)
        return -errno;
    /* Of one size for ever: nobody can take the memory away below the others. */
    if (fchmod(fd, 0600) < 0 || ftruncate(fd, (off_t)all_bytes(instances)) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        r = -errno;
    if (r == 0)
        r = map(fd, instances, &m);
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    assert(m);
    memcpy(m->shared->magic, magic, sizeof(magic));
    m->shared->version = LAYOUT;
    m->shared->instances = instances;
    (void)snprintf(m->shared->job, sizeof(m->shared->job), "%s", job);
    (void)snprintf(path, MEETING_PATH_MAX, "/proc/%d/fd/%d", (int)getpid(), fd);
    *ret = m;
    return 0;
}

void meeting_destroy(struct meeting *meeting)
{
    if (!meeting)
        return;
    (void)munmap(meeting->shared, meeting->bytes);
    (void)close(meeting->fd);
    free(meeting);
}

static void wake(struct shared *s)
{
    (void)atomic_fetch_add(&s->woken, 1);
    (void)syscall(SYS_futex, &s->woken, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void meeting_note_end(struct meeting *meeting, uint32_t instance)
{
    if (!meeting)
        return;
    atomic_store(&meeting->shared->slots[instance].ended, 1);
    wake(meeting->shared);
}

/* ---- a program ---- */

static int refuse(struct plenum_error *err, const char *path, const char *why)
{
    return error_set(err, -ENOTSUP, "collectives: PLENUM_COLLECTIVES=%s: %s", path, why);
}

/* Only what plenumrun of the same user has made is believed. */
static int check(int fd, uint32_t instances, const char *path, struct plenum_error *err)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    if (fstat(fd, &st) < 0)
        return refuse(err, path, strerror(errno));
    if (st.st_uid != geteuid())
        return refuse(err, path, "it belongs to another user");
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || st.st_size != (off_t)all_bytes(instances))
        return refuse(err, path, "it is not what plenumrun makes for a job of this size");
    return 0;
}

static int check_content(const struct shared *s, const char *job, uint32_t instances,
                         const char *path, struct plenum_error *err)
{
    if (memcmp(s->magic, magic, sizeof(magic)) != 0 || s->version != LAYOUT)
        return refuse(err, path, "plenumrun and libplenum are of different versions");
    if (s->instances != instances || strncmp(s->job, job, sizeof(s->job)) != 0)
        return refuse(err, path, "it is of another job");
    return 0;
}

static struct flock lock_of(uint32_t instance)
{
    return (struct flock){
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)instance, .l_len = 1};
}

int meeting_join(const char *path, const char *job, uint32_t instances, uint32_t index,
                 struct meeting **ret, struct plenum_error *err)
{
    int fd = open(path, O_RDWR | O_CLOEXEC), r;
    struct flock lock = lock_of(index);
    struct meeting *m;

    if (fd < 0)
        return refuse(err, path, strerror(errno));
    r = check(fd, instances, path, err);
    if (r == 0 && map(fd, instances, &m) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    r = check_content(m->shared, job, instances, path, err);
    if (r == 0 && fcntl(fd, F_SETLK, &lock) < 0) {
        r = refuse(err, path, "another process has the collectives of this instance");
        lock = lock_of(index);
        if (fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
            r = error_set(err, -ENOTSUP,
                          "process %d has the collectives of instance %u: they are that one's",
                          (int)lock.l_pid, index);
    }
    if (r < 0) {
        meeting_destroy(m);
        return r;
    }
    m->index = index;
    m->first = m->round = atomic_load(&m->shared->slots[index].came);
    *ret = m;
    return 0;
}

bool meeting_has_come(const struct meeting *meeting, uint32_t instance)
{
    return atomic_load(&meeting->shared->slots[instance].came) > meeting->round;
}

/* From `*at` on: those before it had come when they were looked at. */
static bool all_have_come(const struct meeting *m, uint32_t *at)
{
    while (*at < m->instances && meeting_has_come(m, *at))
        ++*at;
    return *at == m->instances;
}

static bool is_gone(const struct meeting *m, uint32_t instance)
{
    const struct slot *slot = &m->shared->slots[instance];
    struct flock lock = lock_of(instance);

    if (atomic_load(&slot->ended))
        return true;
    return atomic_load(&slot->came) > m->first && fcntl(m->fd, F_GETLK, &lock) == 0 &&
           lock.l_type == F_UNLCK;
}

/* One that comes and then ends has come. */
static bool find_gone(const struct meeting *m, uint32_t *ret)
{
    for (uint32_t i = 0; i < m->instances; i++) {
        if (i == m->index || meeting_has_come(m, i) || !is_gone(m, i) || meeting_has_come(m, i))
            continue;
        *ret = i;
        return true;
    }
    return false;
}

static void sleep_until(struct shared *s, uint32_t woken, uint64_t until_ns, uint64_t now)
{
    uint64_t left = until_ns > now ? until_ns - now : 0;
    const struct timespec limit = {.tv_sec = (time_t)(left / NS_PER_SEC),
                                   .tv_nsec = (long)(left % NS_PER_SEC)};

    (void)syscall(SYS_futex, &s->woken, FUTEX_WAIT, woken, &limit, NULL, 0);
}

/* All have come: have they come for the same? */
static bool find_odd(const struct meeting *m, const struct said *mine, uint32_t *ret)
{
    for (uint32_t i = 0; i < m->instances; i++) {
        if (memcmp(&m->shared->slots[i].said[m->round & 1], mine, sizeof(*mine)) == 0)
            continue;
        *ret = i;
        return true;
    }
    return false;
}

int meeting_come(struct meeting *meeting, const struct meeting_topic *topic, uint64_t deadline_ns,
                 uint32_t *who)
{
    struct shared *s = meeting->shared;
    struct slot *own = &s->slots[meeting->index];
    const struct said mine = {.first = meeting->first, .topic = *topic};
    uint32_t at = 0;
    bool look = false;

    own->said[meeting->round & 1] = mine;
    atomic_store(&own->came, meeting->round + 1);
    if (all_have_come(meeting, &at))
        wake(s);
    for (;;) {
        uint32_t woken = atomic_load(&s->woken);
        uint64_t now;

        if (all_have_come(meeting, &at))
            break;
        now = time_now_ns();
        if (deadline_ns && now >= deadline_ns)
            return -ETIMEDOUT;
        if (look && find_gone(meeting, who))
            return -EPIPE;
        sleep_until(s, woken,
                    min_u64(deadline_ns ? deadline_ns : UINT64_MAX, now + look_ns), now);
        look = true;
    }
    if (find_odd(meeting, &mine, who))
        return -EPROTO;
    meeting->round++;
    return 0;
}

struct meeting_topic meeting_get_topic(const struct meeting *meeting, uint32_t who)
{
    return meeting->shared->slots[who].said[meeting->round & 1].topic;
}

unsigned char *meeting_take_turn(struct meeting *meeting)
{
    return (unsigned char *)meeting->shared + slots_bytes(meeting->instances) +
           (meeting->turn++ & 1) * meeting->instances * MEETING_ROOM_BYTES;
}
