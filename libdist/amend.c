/* SPDX-License-Identifier: MIT */
/* amend.c - changes of a stream's plan during the run.
 *
 * The stream drops what it has requested, and opens the new plan at its loaders. The call waits for
 * the first of them, because only a loader can read weights of samples, and find where a pass
 * begins (amended.c). If all loaders refuse the new plan, the stream continues with the old one. */
#include "config.h"

#include "libdist/amend.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "libdist/amended.h"
#include "libdist/io.h"
#include "libdist/loaders.h"
#include "libdist/schedule.h"
#include "libdist/stream_core.h"

/* A plan, and what loaders have reported about it. */
struct amend_state {
    struct orderplan *plan;
    struct wire_reweigh reweighs[WIRE_REWEIGHS_MAX];
};

/* Copy what loaders have reported about weights that both plans have. Nothing is known yet about
 * the others. */
static void carry_over(const struct amend_state *from, struct amend_state *to)
{
    const struct orderplan *a = from->plan, *b = to->plan;

    for (uint32_t i = 0; i < b->num_reweighs; i++) {
        to->reweighs[i] = (struct wire_reweigh){.start = UINT64_MAX};
        for (uint32_t k = 0; k < a->num_reweighs; k++)
            if (a->reweighs[k].set == b->reweighs[i].set &&
                a->reweighs[k].pass == b->reweighs[i].pass &&
                strcmp(a->reweighs[k].weights, b->reweighs[i].weights) == 0)
                to->reweighs[i] = from->reweighs[k];
    }
}

static void use(struct plenum_stream *s, const struct amend_state *state)
{
    assert(lock_is_held(&s->mu));
    s->plan = state->plan;
    memcpy(s->reweighs, state->reweighs, sizeof(s->reweighs));
    memcpy(s->open.plan, s->plan->text, sizeof(s->open.plan));
    s->steps.gaps = s->plan->skips;
    s->steps.num_gaps = s->plan->num_skips;
    loaders_reopen(s); /* first: nothing is requested from the old sessions */
    schedule_seek(s, order_place_settle(&s->steps, s->cursor));
    stream_update_fd(s);
    io_poke();
}

/* Wait until the first loader accepts the amended plan. Fails if all loaders reject it, or the
 * stream fails or is closed. */
static int wait_for_loader(struct plenum_stream *s, struct plenum_error *err)
{
    struct plenum_error why;

    s->amend_code = 0;
    s->amend_error = &why;
    while (s->amended && s->amend_code == 0 && s->error_code == 0 && !s->closed && !io_is_closed())
        lock_wait(&s->mu, &s->changed);
    s->amend_error = NULL;
    if (s->closed || s->error_code < 0)
        return stream_over(s, err);
    if (s->amended && s->amend_code == 0)
        return error_set(err, -EIO, "%s", io_closed_sentence);
    return s->amend_code < 0 ? error_set(err, s->amend_code, "%s", why.text) : 0;
}

static int read_lines(const struct plenum_stream *s, const char *lines, struct orderplan **ret,
                      struct plenum_error *err)
{
    uint64_t now = amended_position(s), from = UINT64_MAX;
    char here[WIRE_DATASET_MAX];
    int r = orderplan_amend(s->plan, lines, getcwd(here, sizeof(here)), ret, &from, err);

    if (from >= now)
        return r;
    if (r == 0)
        orderplan_free(*ret);
    return error_set(err, -EINVAL,
                     "amend: position %llu has been shown: the stream is at position %llu",
                     (unsigned long long)from, (unsigned long long)now);
}

/* Free a plan, but not the first one, because the program may still use the names of its sets. */
static void discard(const struct plenum_stream *s, struct orderplan *plan)
{
    if (plan != s->first_plan)
        orderplan_free(plan);
}

static int try_lines(struct plenum_stream *s, const char *lines, struct amend_state *old,
                     struct amend_state *new, struct plenum_error *err)
{
    int r = read_lines(s, lines, &new->plan, err);
    bool refused;

    if (r < 0)
        return r;
    old->plan = s->plan;
    memcpy(old->reweighs, s->reweighs, sizeof(old->reweighs));
    carry_over(old, new);
    s->amended = true;
    use(s, new);
    r = wait_for_loader(s, err);
    refused = s->amended && s->amend_code < 0;
    if (refused)
        use(s, old);
    discard(s, refused ? new->plan : old->plan);
    s->amended = false;
    return r;
}

int amend_stream(struct plenum_stream *s, const char *lines, struct plenum_error *err)
{
    struct amend_state *states;
    int r;

    assert(lock_is_held(&s->mu));
    if (s->error_code < 0)
        return stream_over(s, err);
    if (!s->plan)
        return error_set(err, -EINVAL,
                         "amend: the stream has no plan that could change: open it with several "
                         "data sets, or with weights");
    if (s->amended)
        return error_set(err, -EBUSY, "amend: another thread is amending the stream");
    states = calloc(2, sizeof(*states));
    if (!states)
        return error_set(err, -ENOMEM, "out of memory");
    r = try_lines(s, lines, &states[0], &states[1], err);
    free(states);
    return r;
}
