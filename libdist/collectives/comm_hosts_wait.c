/* SPDX-License-Identifier: MIT */
/* comm_hosts_wait.c - waits between several hosts (comm_hosts.c), and what their failures mean.
 *
 * An instance that finds that another one has ended informs those on its host through the memory,
 * and its peers by the last frame of the connections. They do the same, so all return, and name the
 * instance that ended first. Three signs are looked for while waiting: the memory, the connections,
 * and the launcher's page (common/job/departed.h), which knows of those that are connected with
 * neither. */
#include "config.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/departed.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "libdist/collectives/comm_hosts.h"
#include "libdist/collectives/missing.h"

struct hosts_world hosts_world;

#define W hosts_world

struct hosts_call hosts_begin(const char *what, uint64_t timeout_ns, struct plenum_error *err)
{
    return (struct hosts_call){.what = what,
                               .deadline_ns = timeout_ns ? sum_u64(time_now_ns(), timeout_ns) : 0,
                               .err = err};
}

/* ---- failures ---- */

bool hosts_look_elsewhere(uint32_t *who)
{
    for (uint32_t i = 0; i < W.instances; i++) {
        if (!departed_before(W.departed, i, DEPARTED_FIRST + W.number))
            continue;
        *who = i;
        return true;
    }
    return comm_tcp_look(who);
}

bool hosts_look_everywhere(uint32_t *who)
{
    int r = meeting_check(W.meeting, who);

    if (r == -EPIPE)
        *who += W.first[W.host];
    return r < 0 || hosts_look_elsewhere(who);
}

/* Tell the others that an instance has ended. */
static int lost(const struct hosts_call *c, uint32_t who)
{
    meeting_give_up(W.meeting, who);
    comm_tcp_leave(who);
    return missing_ended(c->what, who, c->err);
}

static int not_in_time(const struct hosts_call *c)
{
    bool *came = calloc(W.count, sizeof(*came));
    uint32_t missing = 0, last = 0;
    int r;

    for (uint32_t i = 0; came && i < W.count; i++) {
        came[i] = meeting_has_come(W.meeting, i);
        missing += !came[i];
        last = came[i] ? last : i;
    }
    if (missing == 1)
        r = error_set(c->err, -ETIMEDOUT,
                      "%s: the time limit has passed and instance %u has not arrived", c->what,
                      W.first[W.host] + last);
    else if (missing > 1)
        r = error_set(c->err, -ETIMEDOUT,
                      "%s: the time limit has passed and %u instances of this host, instance %u "
                      "among them, have not arrived",
                      c->what, missing, W.first[W.host] + last);
    else
        r = error_set(c->err, -ETIMEDOUT,
                      "%s: the time limit has passed and instances of other hosts have not arrived",
                      c->what);
    free(came);
    return r;
}

int hosts_explain(const struct hosts_call *c, int r, uint32_t who)
{
    switch (r) {
    case 0:
        return 0;
    case -ETIMEDOUT:
        return not_in_time(c);
    case -ECANCELED:
        return lost(c, who);
    case -EPROTO:
        (void)lost(c, W.index);
        return error_set(c->err, -EIO,
                         "%s: instance %u belongs to another run of the program, or has restarted",
                         c->what, who);
    default:
        (void)lost(c, W.index);
        return error_set(c->err, -EIO, "%s: the connection with instance %u has failed: %s",
                         c->what, who, strerror(-r));
    }
}

int hosts_explain_here(const struct hosts_call *c, int r, uint32_t who)
{
    if (r == -EPIPE || r == -EPROTO)
        who += W.first[W.host];
    return hosts_explain(c, r == -EPIPE ? -ECANCELED : r, who);
}

int hosts_await_all(const struct hosts_call *c, uint64_t round)
{
    for (uint32_t i = 0; i < W.count; i++) {
        uint32_t who = 0;
        int r = meeting_await(W.meeting, i, round, c->deadline_ns, &who);

        if (r < 0)
            return hosts_explain_here(c, r, who);
    }
    return 0;
}

int hosts_start(const struct hosts_call *c, const struct comm_tcp_part *parts)
{
    uint32_t who = 0;
    int r = comm_tcp_start(parts, &who);

    return r < 0 ? hosts_explain(c, r, who) : 0;
}

int hosts_finish(const struct hosts_call *c)
{
    uint32_t who = 0;
    int r = comm_tcp_finish(c->deadline_ns, &who);

    return r < 0 ? hosts_explain(c, r, who) : 0;
}

int hosts_move(const struct hosts_call *c, const struct comm_tcp_part *parts)
{
    int r = hosts_start(c, parts);

    return r < 0 ? r : hosts_finish(c);
}
