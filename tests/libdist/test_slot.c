/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <signal.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "libdist/slot.h"

enum { SLOTS = 2 };

static struct lock lock = LOCK_INITIALIZER;
static struct slot_set *set;
static struct plenum_lease *slot;

static void setup(void)
{
    struct wire_open open = {.local = 3, .steps = 1, .slot_bytes = 4096};
    struct plenum_error err;

    lock_acquire(&lock);
    cr_assert(eq(int, slot_set_create(&open, SLOTS, NULL, &lock, &set, &err), 0), "%s", err.text);
    slot = &set->slots[0];
}

static void teardown(void)
{
    slot_set_unref(set);
    lock_release(&lock);
}

TestSuite(slot, .init = setup, .fini = teardown);

static void fill(struct plenum_lease *of)
{
    slot_fill(of, NULL, 7);
}

Test(slot, holds_its_ring_while_its_content_is_in_use)
{
    cr_expect(eq(u32, set->refs, 1));
    fill(slot);
    cr_expect(eq(u32, set->refs, 1));
    slot_keep(slot);
    cr_expect(eq(u32, set->refs, 2));
    slot_settle(slot);
    slot_lease(slot);
    cr_expect(eq(u32, set->refs, 2));
    cr_expect(eq(u32, slot_set_count(set, SLOT_LEASED), 1));
    slot_free(slot);
    cr_expect(eq(u32, set->refs, 1));
}

Test(slot, is_found_by_its_request_until_it_is_answered)
{
    fill(slot);
    cr_expect(eq(ptr, slot_set_find_asked(set, NULL, 7), slot));
    cr_expect(eq(ptr, slot_set_find_asked(set, NULL, 8), NULL));
    cr_expect(eq(ptr, slot_set_find_free(set), &set->slots[1]));
    slot_call_back(slot);
    cr_expect(eq(ptr, slot_set_find_asked(set, NULL, 7), slot));
    slot_free(slot);
    cr_expect(eq(ptr, slot_set_find_asked(set, NULL, 7), NULL));
    cr_expect(eq(ptr, slot_set_find_free(set), slot));
}

Test(slot, outlives_its_session_while_it_is_leased)
{
    fill(slot);
    slot_settle(slot);
    slot_lease(slot);
    slot_set_unref(set); /* the session has ended, and teardown owns the lease */
    cr_expect(eq(u32, set->refs, 1));
    cr_expect(ne(ptr, set->ring->base, NULL));
    slot_set_ref(set);
    slot_free(slot);
}

/* These are bugs in the library, which abort the program in builds with assertions. */

Test(slot, is_not_requested_twice, .signal = SIGABRT)
{
    fill(slot);
    fill(slot);
}

/* The slot's loader may still write to it. */
Test(slot, is_not_delivered_once_it_was_called_back, .signal = SIGABRT)
{
    fill(slot);
    slot_call_back(slot);
    slot_settle(slot);
}

Test(slot, is_not_delivered_before_it_is_filled, .signal = SIGABRT)
{
    slot_lease(slot);
}

Test(slot, is_not_called_back_from_the_program, .signal = SIGABRT)
{
    fill(slot);
    slot_settle(slot);
    slot_lease(slot);
    slot_call_back(slot);
}

Test(slot, is_not_released_twice, .signal = SIGABRT)
{
    slot_free(slot);
}

Test(slot, moves_only_under_the_lock, .signal = SIGABRT)
{
    lock_release(&lock);
    fill(slot);
}

Test(slot, is_not_lost_with_its_ring, .signal = SIGABRT)
{
    fill(slot);
    slot_settle(slot);
    slot_set_unref(set);
    slot_set_unref(set);
}
