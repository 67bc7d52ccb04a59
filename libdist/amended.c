/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "libdist/amended.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "libdist/stream_core.h"

uint64_t amended_position(const struct plenum_stream *s)
{
    return s->cursor.epoch * s->steps.n + s->cursor.position;
}

int amended_refuse_changed(const struct plenum_stream *s, struct plenum_error *err)
{
    return error_set(err, -ESTALE,
                     "a data set of %s, or its weights, have changed since the stream was opened: "
                     "give each version of a weights file its own name",
                     s->open.dataset);
}

/* Write the message for an amended plan that would change what has been shown: name the new weights
 * that would begin before the stream's position; if there are none, a data set has changed. */
static int refuse_early(const struct plenum_stream *s, const struct wire_opened *m,
                        struct plenum_error *err)
{
    unsigned long long now = amended_position(s);

    for (uint32_t i = 0; i < m->reweighs; i++)
        if (m->reweigh[i].start < now && s->reweighs[i].start >= now)
            return error_set(err, -EINVAL,
                             "amend: pass %u of set '%s' begins at position %llu, which has been "
                             "shown: the stream is at position %llu",
                             s->plan->reweighs[i].pass,
                             s->plan->sets[s->plan->reweighs[i].set].name,
                             (unsigned long long)m->reweigh[i].start, now);
    return amended_refuse_changed(s, err);
}

int amended_describe(struct plenum_stream *s, const struct wire_opened *m, struct plenum_error *err)
{
    uint8_t before[16], after[16];
    struct wire_reweigh own[WIRE_REWEIGHS_MAX];

    assert(lock_is_held(&s->mu));
    if (m->sets != s->plan->num_sets || m->positions != s->steps.n ||
        m->reweighs != s->plan->num_reweighs || m->samples != s->num_samples ||
        memcmp(m->set, s->sets, m->sets * sizeof(m->set[0])) != 0)
        return amended_refuse_changed(s, err);
    stream_identity(s, s->cursor, before);
    memcpy(own, s->reweighs, sizeof(own));
    memcpy(s->reweighs, m->reweigh, m->reweighs * sizeof(m->reweigh[0]));
    stream_identity(s, s->cursor, after);
    if (memcmp(before, after, sizeof(before)) != 0) {
        memcpy(s->reweighs, own, sizeof(own));
        return refuse_early(s, m, err);
    }
    s->sum = m->sum;
    memcpy(s->fingerprint, m->fingerprint, sizeof(s->fingerprint));
    s->amended = false;
    stream_changed(s);
    return 0;
}

void amended_refuse(struct plenum_stream *s, int code, const char *text)
{
    assert(lock_is_held(&s->mu));
    if (!s->amend_error)
        return; /* the call is about to return */
    s->amend_code = code;
    (void)error_set(s->amend_error, code, "%s", text);
    stream_changed(s);
}
