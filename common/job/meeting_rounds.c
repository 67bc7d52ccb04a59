/* SPDX-License-Identifier: MIT */
/* meeting_rounds.c - how instances on one host wait for each other, and where their bytes are.
 *
 * Each instance counts the rounds that it has entered. The number only grows, and only its instance
 * writes it, so any instance can wait for any round of any other. A collective has a number of
 * rounds that all instances know in advance. If one ends before the last round, the others fail.
 *
 * A waiter first stays awake for a short time (meeting_wait.c), and then sleeps on the other's
 * counter, which is a futex. It counts itself as a sleeper first: the other stores its counter,
 * and then looks for sleepers; the waiter does both in the opposite order. So one of them sees the
 * other. A sleeper that dies is counted for ever, which costs the other a system call per round.
 *
 * If an instance fails because another one has ended, and ends too, those that wait for it report
 * the one that ended first (`culprit`). */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/job/meeting.h"
#include "common/job/meeting_priv.h"
#include "common/util/util.h"

#ifndef MADV_POPULATE_WRITE /* glibc 2.35 */
#define MADV_POPULATE_WRITE 23
#endif

/* Interval of the checks for instances that have ended. */
static const uint64_t look_ns = 50 * NS_PER_MS;

/* Returns the futex: the lower half of the counter. */
static uint32_t *futex_of(struct meeting_slot *slot)
{
    uint32_t *halves = (uint32_t *)(void *)&slot->came;

    return halves + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static void wake(struct meeting_slot *slot)
{
    (void)syscall(SYS_futex, futex_of(slot), FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void meeting_wake(struct meeting_shared *shared, uint32_t instances)
{
    for (uint32_t i = 0; i < instances; i++)
        if (atomic_load(&shared->slots[i].sleepers) > 0)
            wake(&shared->slots[i]);
}

bool meeting_has_come(const struct meeting *meeting, uint32_t instance)
{
    assert(instance < meeting->instances);
    return meeting_has(&meeting->shared->slots[instance], meeting->awaited);
}

static bool is_gone(const struct meeting *m, uint32_t instance)
{
    const struct meeting_slot *slot = &m->shared->slots[instance];

    return atomic_load(&slot->ended) ||
           (atomic_load(&slot->came) > m->first && !atomic_load(&slot->present));
}

/* Find an instance that has given up before it entered the last round. */
static bool find_given_up(const struct meeting *m, uint32_t *ret)
{
    for (uint32_t i = 0; i < m->instances; i++) {
        uint32_t why = atomic_load(&m->shared->slots[i].gave_up);

        if (why == 0 || i == m->index || meeting_has(&m->shared->slots[i], m->last) ||
            !meeting_has(&m->shared->slots[i], m->first + 1)) /* an earlier program's */
            continue;
        *ret = why - 1;
        return true;
    }
    return false;
}

/* Find an instance that ended before it entered the last round; one that has entered it is not
 * needed any more. */
static bool find_gone(const struct meeting *m, uint32_t *ret)
{
    for (uint32_t i = 0; i < m->instances; i++) {
        const struct meeting_slot *slot = &m->shared->slots[i];
        uint32_t culprit;

        if (i == m->index || meeting_has(slot, m->last) || !is_gone(m, i) ||
            meeting_has(slot, m->last))
            continue;
        culprit = atomic_load(&slot->culprit);
        *ret = culprit > 0 && culprit <= m->instances && culprit - 1 != m->index ? culprit - 1 : i;
        atomic_store(&m->shared->slots[m->index].culprit, *ret + 1);
        return true;
    }
    return false;
}

int meeting_check(const struct meeting *meeting, uint32_t *who)
{
    if (find_given_up(meeting, who))
        return -ECANCELED;
    return find_gone(meeting, who) ? -EPIPE : 0;
}

/* Like meeting_check(), including what happens elsewhere. */
static int check(const struct meeting *m, uint32_t *who)
{
    int r = meeting_check(m, who);

    return r == 0 && m->look && m->look(who) ? -ECANCELED : r;
}

void meeting_set_look(struct meeting *meeting, bool (*look)(uint32_t *who))
{
    meeting->look = look;
}

void meeting_give_up(struct meeting *meeting, uint32_t who)
{
    atomic_store(&meeting->shared->slots[meeting->index].gave_up, who + 1);
    meeting_wake(meeting->shared, meeting->instances);
}

/* Sleep until the instance enters a round, for a limited time. */
static void sleep_once(struct meeting_slot *slot, uint64_t round, uint64_t until_ns)
{
    uint64_t now = time_now_ns(), left = until_ns > now ? until_ns - now : 0, seen;
    const struct timespec limit = {.tv_sec = (time_t)(left / NS_PER_SEC),
                                   .tv_nsec = (long)(left % NS_PER_SEC)};

    (void)atomic_fetch_add(&slot->sleepers, 1);
    seen = atomic_load(&slot->came);
    if (seen < round)
        (void)syscall(SYS_futex, futex_of(slot), FUTEX_WAIT, (uint32_t)seen, &limit, NULL, 0);
    (void)atomic_fetch_sub(&slot->sleepers, 1);
}

static int sleep_until(const struct meeting *m, struct meeting_slot *slot, uint64_t deadline_ns,
                       uint32_t *who)
{
    bool look = is_gone(m, (uint32_t)(slot - m->shared->slots));

    for (;;) {
        uint64_t now = time_now_ns();
        int r;

        if (meeting_has(slot, m->awaited))
            return 0;
        r = look ? check(m, who) : 0;
        if (r < 0)
            return r;
        if (deadline_ns && now >= deadline_ns)
            return -ETIMEDOUT;
        sleep_once(slot, m->awaited,
                   min_u64(deadline_ns ? deadline_ns : UINT64_MAX, now + look_ns));
        look = true;
    }
}

static int await(struct meeting *m, uint32_t instance, uint64_t deadline_ns, uint32_t *who)
{
    struct meeting_slot *slot = &m->shared->slots[instance];

    assert(instance < m->instances);
    if (meeting_has(slot, m->awaited) || meeting_wait_awake(m, slot, m->awaited))
        return 0;
    return sleep_until(m, slot, deadline_ns, who);
}

void meeting_enter(struct meeting *meeting)
{
    struct meeting_slot *own = &meeting->shared->slots[meeting->index];

    atomic_store(&own->came, ++meeting->round); /* before the look at the sleepers */
    if (atomic_load(&own->sleepers) > 0)
        wake(own);
}

void meeting_begin(struct meeting *meeting, uint64_t rounds)
{
    meeting->base = meeting->round;
    meeting->last = meeting->round + rounds;
}

int meeting_await(struct meeting *meeting, uint32_t instance, uint64_t round, uint64_t deadline_ns,
                  uint32_t *who)
{
    assert(meeting->base + round <= meeting->last);
    meeting->awaited = meeting->base + round;
    return await(meeting, instance, deadline_ns, who);
}

/* ---- meeting ---- */

static struct meeting_said *said_by(const struct meeting *m, uint32_t instance)
{
    return &m->shared->slots[instance].said[m->turn & 1];
}

static int come(struct meeting *m, uint64_t deadline_ns, uint32_t *who)
{
    struct meeting_said *own = said_by(m, m->index);

    assert(m->round >= m->first);
    own->first = m->first;
    own->round = m->round;
    meeting_begin(m, 1);
    meeting_enter(m);
    for (uint32_t i = 0; i < m->instances; i++) {
        int r = meeting_await(m, i, 1, deadline_ns, who);

        if (r < 0)
            return r;
    }
    for (uint32_t i = 0; i < m->instances; i++) {
        const struct meeting_said *other = said_by(m, i);

        if (other->first == own->first && other->round == own->round)
            continue;
        *who = i;
        return -EPROTO;
    }
    if (m->base == m->first)
        meeting_wait_choose(m);
    return 0;
}

int meeting_come(struct meeting *meeting, uint64_t deadline_ns, uint32_t *who)
{
    return meeting_meet(meeting, NULL, 0, NULL, deadline_ns, who);
}

int meeting_meet(struct meeting *meeting, const void *mine, size_t bytes, void *all,
                 uint64_t deadline_ns, uint32_t *who)
{
    struct meeting_slot *own = &meeting->shared->slots[meeting->index];
    int r;

    assert(bytes <= MEETING_SAID_BYTES);
    own->turn = ++meeting->turn;
    if (bytes > 0)
        memcpy(said_by(meeting, meeting->index)->bytes, mine, bytes);
    r = come(meeting, deadline_ns, who);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < meeting->instances && bytes > 0; i++)
        memcpy((unsigned char *)all + i * bytes, said_by(meeting, i)->bytes, bytes);
    return 0;
}

/* ---- rooms ---- */

size_t meeting_room_bytes(const struct meeting *meeting)
{
    return meeting->shared->room_bytes;
}

unsigned char *meeting_room(const struct meeting *meeting, uint32_t instance, unsigned room)
{
    assert(instance < meeting->instances && room < MEETING_ROOMS);
    return (unsigned char *)meeting->shared + meeting_slots_bytes(meeting->instances) +
           ((size_t)instance * MEETING_ROOMS + room) * MEETING_ROOM_BYTES;
}

int meeting_reserve(struct meeting *meeting, unsigned rooms, size_t bytes)
{
    assert(rooms <= MEETING_ROOMS && bytes <= MEETING_ROOM_BYTES);
    for (unsigned i = 0; i < rooms; i++) {
        size_t *reserved = &meeting->reserved[i];

        if (bytes <= *reserved)
            continue;
        if (madvise(meeting_room(meeting, meeting->index, i), bytes, MADV_POPULATE_WRITE) < 0 &&
            errno != EINVAL) /* before Linux 5.14 */
            return -ENOMEM;
        *reserved = bytes;
    }
    return 0;
}
