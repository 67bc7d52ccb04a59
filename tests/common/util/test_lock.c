/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <signal.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/lock.h"

static struct lock lock = LOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;

static void *ask_elsewhere(void *arg)
{
    *(bool *)arg = lock_is_held(&lock);
    return NULL;
}

static bool is_held_elsewhere(void)
{
    pthread_t thread;
    bool held = true;

    cr_assert(eq(int, thread_start(&thread, ask_elsewhere, &held), 0));
    (void)pthread_join(thread, NULL);
    return held;
}

Test(lock, is_held_by_the_thread_that_has_acquired_it)
{
    cr_expect(not(lock_is_held(&lock)));
    lock_acquire(&lock);
    cr_expect(lock_is_held(&lock));
    cr_expect(not(is_held_elsewhere()));
    cr_expect(eq(int, lock_wait_until(&lock, &never, time_now_ns() + NS_PER_MS), -ETIMEDOUT));
    cr_expect(lock_is_held(&lock));
    lock_release(&lock);
    cr_expect(not(lock_is_held(&lock)));
}

/* These are bugs in the program, which abort it in builds with assertions. */

Test(lock, releasing_without_holding_it_fails, .signal = SIGABRT)
{
    lock_release(&lock);
}

Test(lock, waiting_without_holding_it_fails, .signal = SIGABRT)
{
    lock_wait(&lock, &never);
}

Test(lock, acquiring_it_twice_fails, .signal = SIGABRT)
{
    lock_acquire(&lock);
    lock_acquire(&lock);
}
