/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/serve/session_facts.h"

#include <assert.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/session_priv.h"

static struct session *session_of(struct list *link)
{
    return link ? container_of(link, struct session, link) : NULL;
}

struct session *session_first(const struct server *server)
{
    return session_of(list_first(&server->sessions));
}

struct session *session_next(const struct session *session)
{
    return session_of(list_next(&session->server->sessions, &session->link));
}

void session_get_facts(const struct session *session, struct session_facts *ret)
{
    const struct session *s = session;

    *ret = (struct session_facts){
        .id = s->id,
        .name = s->name,
        .user = s->user,
        .pid = s->peer.pid,
        .uid = s->peer.uid,
        .ending = s->state == STATE_CLOSING,
        .ring_bytes = s->ring_bytes,
        .private_ring = s->remote ? s->ring : NULL,
        .spec = s->ring_bytes > 0 ? &s->spec : NULL,
        .dataset = s->stream ? s->dataset : NULL,
        .streams = s->state == STATE_OPEN,
        .stream = s->stream,
        .open = &s->open,
        .asked = &s->asked,
        .window = &s->window,
        .knows_wait = s->waited_ns != WIRE_UNKNOWN,
        .opened_ns = s->opened_ns,
        .under_way = s->under_way,
    };
    assert(!ret->streams || (ret->stream && ret->spec));
}

bool session_get_view(const struct session *session, struct session_view *ret)
{
    const struct session *s = session;

    if (s->state != STATE_OPEN || !s->has_asked)
        return false;
    *ret = (struct session_view){.id = s->id,
                                 .dataset = dataset_ref(s->dataset),
                                 .height = s->open.height,
                                 .width = s->open.width,
                                 .order = s->spec.order,
                                 .bad = s->spec.bad,
                                 .jpeg = s->spec.jpeg,
                                 .epoch = s->asked.epoch,
                                 .position = s->asked.position,
                                 .per_step = s->open.per_step,
                                 .deal = s->open.deal,
                                 .offset = s->open.offset,
                                 .count = s->open.local};
    memcpy(ret->user, s->user, sizeof(ret->user));
    memcpy(ret->pipeline, s->open.pipeline, sizeof(ret->pipeline));
    return true;
}
