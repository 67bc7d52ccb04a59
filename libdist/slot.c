/* SPDX-License-Identifier: MIT */
/* slot.c - keeps the rings of a stream, and the state of each slot.
 *
 *     FREE --request--> FILLING ---answer---> READY --next()--> LEASED
 *      ^                 |    |                ^                  |
 *      |     cancelled   |    |  to compare    | equal            |
 *      +<-- CANCELLING <-+    +-> CHECKING ----+                  |
 *      +<------------------------------------------ release() ----+
 *
 * slot_states lists all transitions: any other is a bug in this library. A loader of this host may
 * write into FILLING and CANCELLING slots at any time. So CANCELLING lasts until its answer, or for
 * as long as the ring. tests/models/slot.pml checks all interleavings.
 *
 * Not here: which batch goes into a slot, and which loader fills it (schedule.c). */
#include "config.h"

#include "libdist/slot.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/util/error_set.h"
#include "common/util/state.h"
#include "common/util/util.h"

static const struct state_row slot_states[] = {
    [SLOT_FREE] = {"free", STATE(SLOT_FILLING)},
    [SLOT_FILLING] = {"filling", STATE(SLOT_READY) | STATE(SLOT_CHECKING) | STATE(SLOT_CANCELLING) |
                                     STATE(SLOT_FREE)},
    [SLOT_CANCELLING] = {"cancelling", STATE(SLOT_FREE)},
    [SLOT_CHECKING] = {"checking", STATE(SLOT_READY) | STATE(SLOT_FREE)},
    [SLOT_READY] = {"ready", STATE(SLOT_LEASED) | STATE(SLOT_FREE)},
    [SLOT_LEASED] = {"leased", STATE(SLOT_FREE)},
};

/* States in which the slot's bytes stay valid even if the loader is lost: each holds a reference to
 * the ring. */
static const unsigned slot_holds = STATE(SLOT_CHECKING) | STATE(SLOT_READY) | STATE(SLOT_LEASED);

static bool holds(const struct plenum_lease *slot)
{
    return slot_holds & STATE(slot->state);
}

static bool is_locked(const void *slot)
{
    return lock_is_held(((const struct plenum_lease *)slot)->set->lock);
}

static const struct state_machine slot_machine = {
    .name = "slot", .states = slot_states, .count = ARRAY_LEN(slot_states), .is_locked = is_locked};

/* Change a slot's state, and hold a reference to the ring in the states of slot_holds. No other
 * function writes the state. */
static void move(struct plenum_lease *slot, enum slot_state to)
{
    enum slot_state from = slot->state;
    bool held = holds(slot);

    slot->state = to;
    state_moved(&slot_machine, slot, slot->index, from, to);
    if (held == holds(slot))
        return;
    if (held)
        slot_set_unref(slot->set);
    else
        (void)slot_set_ref(slot->set);
}

void slot_fill(struct plenum_lease *slot, struct loader_session *session, uint64_t request)
{
    move(slot, SLOT_FILLING);
    slot->session = session;
    slot->request = request;
}

void slot_call_back(struct plenum_lease *slot)
{
    move(slot, SLOT_CANCELLING);
}

void slot_keep(struct plenum_lease *slot)
{
    move(slot, SLOT_CHECKING);
}

void slot_settle(struct plenum_lease *slot)
{
    move(slot, SLOT_READY);
}

void slot_lease(struct plenum_lease *slot)
{
    move(slot, SLOT_LEASED);
}

void slot_free(struct plenum_lease *slot)
{
    move(slot, SLOT_FREE);
}

int slot_set_create(const struct wire_open *open, uint32_t n, struct plenum_stream *stream,
                    struct lock *lock, struct slot_set **ret, struct plenum_error *err)
{
    size_t count = wire_batch_count(open);
    struct slot_set *set = calloc(1, sizeof(*set) + n * sizeof(set->slots[0]));
    int r;

    if (!set)
        return error_set(err, -ENOMEM, "out of memory");
    set->stream = stream;
    set->lock = lock;
    set->num_slots = n;
    set->refs = 1;
    r = ring_create(n, open->slot_bytes, &set->ring, err);
    if (r < 0)
        goto fail;
    for (uint32_t i = 0; i < n; i++) {
        struct plenum_lease *slot = &set->slots[i];

        slot->set = set;
        slot->index = i;
        slot->positions = malloc(count * sizeof(*slot->positions));
        slot->valid = malloc(count);
        slot->epochs = malloc(open->steps * sizeof(*slot->epochs));
        if (!slot->positions || !slot->valid || !slot->epochs) {
            r = error_set(err, -ENOMEM, "out of memory");
            goto fail;
        }
    }
    *ret = set;
    return 0;

fail:
    slot_set_unref(set);
    return r;
}

struct slot_set *slot_set_ref(struct slot_set *set)
{
    assert(lock_is_held(set->lock));
    set->refs++;
    return set;
}

void slot_set_unref(struct slot_set *set)
{
    if (!set)
        return;
    assert(lock_is_held(set->lock));
    assert(set->refs > 0);
    if (--set->refs > 0)
        return;
    ring_destroy(set->ring);
    for (uint32_t i = 0; i < set->num_slots; i++) {
        assert(!holds(&set->slots[i]));
        free(set->slots[i].positions);
        free(set->slots[i].valid);
        free(set->slots[i].epochs);
    }
    free(set);
}

void slot_set_leave(struct slot_set *set)
{
    if (!set || !set->ring->base || slot_set_count(set, SLOT_LEASED) > 0)
        return;
    (void)munmap(set->ring->base, set->ring->bytes);
    set->ring->base = NULL;
    io_close(&set->ring->fd);
}

struct plenum_lease *slot_set_find_free(struct slot_set *set)
{
    for (uint32_t i = 0; i < set->num_slots; i++)
        if (set->slots[i].state == SLOT_FREE)
            return &set->slots[i];
    return NULL;
}

struct plenum_lease *slot_set_find_asked(struct slot_set *set, const struct loader_session *session,
                                         uint64_t request)
{
    for (uint32_t i = 0; i < set->num_slots; i++) {
        struct plenum_lease *slot = &set->slots[i];

        if ((slot->state == SLOT_FILLING || slot->state == SLOT_CANCELLING) &&
            slot->session == session && slot->request == request)
            return slot;
    }
    return NULL;
}

void slot_set_free_asked(struct slot_set *set, const struct loader_session *session)
{
    for (uint32_t i = 0; i < set->num_slots; i++)
        if (set->slots[i].state == SLOT_FILLING && set->slots[i].session == session)
            slot_free(&set->slots[i]);
}

unsigned slot_set_count(const struct slot_set *set, enum slot_state state)
{
    unsigned n = 0;

    for (uint32_t i = 0; i < set->num_slots; i++)
        n += set->slots[i].state == state;
    return n;
}
