/* SPDX-License-Identifier: MIT */
/* lock.h - a mutex that knows its owner, so that code can assert that it holds the lock.
 *
 * With NDEBUG it is an ordinary mutex, and lock_is_held() is always true. */
#ifndef COMMON_LOCK_H
#define COMMON_LOCK_H

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/util/util.h"

struct lock {
    pthread_mutex_t mu;
#ifndef NDEBUG
    atomic_uintptr_t owner; /* the thread that holds it, or 0 */
#endif
};

/** For static objects; others call lock_init(). */
#define LOCK_INITIALIZER                \
    {                                   \
        .mu = PTHREAD_MUTEX_INITIALIZER \
    }

#ifdef NDEBUG
static inline void lock_set_owner(struct lock *lock, uintptr_t owner)
{
    (void)lock;
    (void)owner;
}

static inline bool lock_is_held(const struct lock *lock)
{
    (void)lock;
    return true;
}
#else
static inline void lock_set_owner(struct lock *lock, uintptr_t owner)
{
    atomic_store_explicit(&lock->owner, owner, memory_order_relaxed);
}

/** Does the calling thread hold the lock? */
static inline bool lock_is_held(const struct lock *lock)
{
    return atomic_load_explicit(&lock->owner, memory_order_relaxed) == (uintptr_t)pthread_self();
}
#endif

static inline void lock_init(struct lock *lock)
{
    (void)pthread_mutex_init(&lock->mu, NULL);
    lock_set_owner(lock, 0);
}

static inline void lock_fini(struct lock *lock)
{
    (void)pthread_mutex_destroy(&lock->mu);
}

static inline void lock_acquire(struct lock *lock)
{
    assert(!lock_is_held(lock));
    (void)pthread_mutex_lock(&lock->mu);
    lock_set_owner(lock, (uintptr_t)pthread_self());
}

static inline void lock_release(struct lock *lock)
{
    assert(lock_is_held(lock));
    lock_set_owner(lock, 0);
    (void)pthread_mutex_unlock(&lock->mu);
}

/** Release the lock and wait until `cond` is signalled or `deadline_ns` is reached (UINT64_MAX:
 *  never). Returns 0 or -ETIMEDOUT, holding the lock again. */
static inline int lock_wait_until(struct lock *lock, pthread_cond_t *cond, uint64_t deadline_ns)
{
    int r;

    assert(lock_is_held(lock));
    lock_set_owner(lock, 0);
    r = cond_wait_until(cond, &lock->mu, deadline_ns);
    lock_set_owner(lock, (uintptr_t)pthread_self());
    return r;
}

static inline void lock_wait(struct lock *lock, pthread_cond_t *cond)
{
    (void)lock_wait_until(lock, cond, UINT64_MAX);
}

#endif
