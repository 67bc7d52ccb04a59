/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/agree.h"

#include <assert.h>

#include "common/job/stop_page.h"
#include "common/util/util.h"

void agree_note_step(struct agreement *a, uint32_t rank, uint64_t asked)
{
    assert(rank < a->count);
    a->ranks[rank].asked = asked;
}

bool agree_is_possible(const struct agreement *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        if (a->ranks[i].asked > 0)
            return true;
    return false;
}

uint64_t agree_get_latest(const struct agreement *a)
{
    uint64_t latest = 0;

    for (uint32_t i = 0; i < a->count; i++)
        latest = max_u64(latest, a->ranks[i].asked);
    return latest;
}

/* Propose a step that is `margin` beyond those that instances are known to have begun. A finished
 * instance needs no further question: it begins no more steps, and has begun none that late. */
static enum agree_action propose(struct agreement *a)
{
    a->waiting = a->refused = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        a->ranks[i].answered = a->ranks[i].finished;
        a->waiting += !a->ranks[i].finished;
    }
    a->state = AGREE_PROPOSED;
    a->proposal++;
    a->step = min_u64(sum_u64(agree_get_latest(a), a->margin - 1), STOP_STEP_MAX + 1);
    return AGREE_PROPOSE;
}

enum agree_action agree_begin(struct agreement *a)
{
    assert(a->state == AGREE_IDLE && agree_is_possible(a));
    a->margin = 1;
    return propose(a);
}

/* Once all have answered: if all have promised, decide; otherwise, double the margin and propose a
 * later step. */
static enum agree_action conclude(struct agreement *a)
{
    if (a->waiting > 0)
        return AGREE_NOTHING;
    if (a->refused > 0) {
        a->margin = min_u64(2 * a->margin, STOP_STEP_MAX);
        return propose(a);
    }
    a->state = AGREE_DECIDED;
    return AGREE_DECIDE;
}

enum agree_action agree_answer(struct agreement *a, uint32_t rank, uint64_t proposal, bool promised)
{
    assert(rank < a->count);
    if (a->state != AGREE_PROPOSED || proposal != a->proposal || a->ranks[rank].answered)
        return AGREE_NOTHING;
    assert(a->waiting > 0);
    a->ranks[rank].answered = true;
    a->waiting--;
    a->refused += !promised;
    return conclude(a);
}

enum agree_action agree_finish(struct agreement *a, uint32_t rank, uint64_t asked)
{
    assert(rank < a->count);
    a->ranks[rank].asked = asked;
    a->ranks[rank].finished = true;
    return agree_answer(a, rank, a->proposal, asked <= a->step);
}
