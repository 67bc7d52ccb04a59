/* SPDX-License-Identifier: MIT */
/* session_refuse.c - notifies a client that it is rejected, and logs it. */
#include "config.h"

#include "loader/serve/session_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/address.h"
#include "common/util/util.h"
#include "loader/serve/server_priv.h"

enum { HELLO_LIMIT_MS = 10000 }; /* time limit for HELLO and OPEN */

const struct log_field *session_about(const struct session *s, struct session_about *a)
{
    (void)snprintf(a->user, sizeof(a->user), "%u", (unsigned)s->peer.uid);
    (void)snprintf(a->pid, sizeof(a->pid), "%d", (int)s->peer.pid);
    a->fields[0] = (struct log_field){"client", s->name};
    a->fields[1] = (struct log_field){"client_uid", a->user};
    a->fields[2] = (struct log_field){"client_pid", a->pid};
    if (s->open.dataset[0])
        a->fields[3] = (struct log_field){"dataset", s->open.dataset};
    return a->fields;
}

/* Returns whether the client's name ends with the process ID that the kernel reports. Inside a
 * container, the client sees a different one. */
static bool names_its_pid(const struct session *s)
{
    char pid[32];

    (void)snprintf(pid, sizeof(pid), "(pid %d)", (int)s->peer.pid);
    return str_ends_with(s->name, pid);
}

const char *session_describe(const struct session *s, char *text, size_t size)
{
    char address[128];

    if (!s->remote && names_its_pid(s))
        (void)snprintf(text, size, "%s", s->name);
    else if (!s->remote)
        (void)snprintf(text, size, "%s (pid %d)", s->name, (int)s->peer.pid);
    else if (s->state == STATE_HELLO) /* its name is still its address */
        (void)snprintf(text, size, "%s", s->name);
    else
        (void)snprintf(text, size, "%s (%s)", s->name,
                       address_of_peer(s->conn.fd, address, sizeof(address)));
    return text;
}

bool session_is_muted(struct session *s)
{
    return log_get_level() < LOG_LEVEL_DEBUG &&
           log_budget_refuses(&s->server->lines, s->user, time_now_ns());
}

bool session_may_log(struct session *s, enum log_level level)
{
    if (level > log_get_level() || session_is_muted(s))
        return false;
    log_budget_spend(&s->server->lines, s->user, time_now_ns());
    return true;
}

/* Log what happened to a client, such as "refused", once a minute per user (or host) and reason. A
 * user without lines left adds no reasons, because all users share the table of reasons. */
void session_log_once(struct session *s, enum log_level level, const char *what, const char *why)
{
    char who[WIRE_NAME_MAX + 150], times[64] = "";
    uint32_t untold;

    if (level > log_get_level() || session_is_muted(s))
        return;
    switch (log_limit_check(&s->server->log_limit, s->user, why, time_now_ns(), &untold)) {
    case LOG_LIMIT_DROP:
        log_debug("client %s: %s again: %s", session_describe(s, who, sizeof(who)), what, why);
        return;
    case LOG_LIMIT_LOG_OVERFLOW:
        log_warn("clients are refused for more reasons than are logged in a minute");
        return;
    case LOG_LIMIT_LOG:
        break;
    }
    if (untold > 0)
        (void)snprintf(times, sizeof(times), " (and %u more times since this was last logged)",
                       untold);
    log_budget_spend(&s->server->lines, s->user, time_now_ns());
    log_about(level, session_about(s, &(struct session_about){0}), "client %s: %s: %s%s",
              session_describe(s, who, sizeof(who)), what, why, times);
}

/* Send the client the reason, and close the session. */
void session_refuse(struct session *s, uint64_t request, int code, const char *text)
{
    struct wire_error m = {.code = code};

    s->server->refused += code != -ECANCELED && code != -ETIMEDOUT;
    strncpy(m.text, text, sizeof(m.text) - 1);
    if (code == -ECANCELED)
        log_debug("client %s: asked to leave", s->name);
    else
        session_log_once(s, LOG_LEVEL_INFO, "refused", text);
    if (wire_put_error(&s->conn.tx, request, &m) == 0)
        (void)frame_conn_flush(&s->conn);
    session_close(s);
}

static void on_idle_timer(uv_timer_t *timer)
{
    struct session *s = timer->data;

    assert(s->state == STATE_HELLO || s->state == STATE_IDLE);
    session_refuse(s, 0, -ETIMEDOUT, "no stream was opened within ten seconds");
}

void session_limit_idle(struct session *s)
{
    (void)uv_timer_start(&s->timer, on_idle_timer, HELLO_LIMIT_MS, 0);
}

/* Notify a client that it is rejected, using the one message that every client understands. */
void session_refuse_peer(struct session *s, int code, const char *text)
{
    struct wire_error m = {.code = code};
    char why[160];

    s->server->refused++;
    if (code == -EUSERS) {
        (void)snprintf(m.text, sizeof(m.text), "%s", text);
        session_log_once(s, LOG_LEVEL_WARN, "refused",
                         "there are already as many clients as --max-clients allows");
    } else {
        (void)snprintf(m.text, sizeof(m.text),
                       "it serves only user %u: its operator can open folders to others with "
                       "--root, or root in plenumd.conf",
                       (unsigned)geteuid());
        (void)snprintf(why, sizeof(why),
                       "it belongs to user %u, and this loader serves only user %u, because no "
                       "--root is given",
                       (unsigned)s->peer.uid, (unsigned)geteuid());
        session_log_once(s, LOG_LEVEL_WARN, "refused", why);
    }
    if (wire_put_error(&s->conn.tx, 0, &m) == 0)
        (void)frame_conn_flush(&s->conn);
}

/* Reject a peer without the key. The peer may not use TLS, so it gets a plain-text message that
 * every client understands. Read the bytes it has sent first: closing with unread bytes would reset
 * the connection, and the message would be lost. */
void session_refuse_unauthenticated(struct session *s)
{
    struct wire_error m = {.code = -EACCES,
                           .text =
                               "it serves only clients that have its key: name the key's file in "
                               "PLENUM_LOADER_KEY"};
    uint8_t bytes[4096];

    s->server->refused++;
    session_log_once(s, LOG_LEVEL_WARN, "refused",
                     "it does not have the key of --tls-key, or does not use TLS");
    s->conn.carrier->destroy(s->conn.carrier);
    s->conn.carrier = NULL;
    for (int i = 0; i < 16 && recv(s->conn.fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0; i++)
        ;
    if (wire_put_error(&s->conn.tx, 0, &m) == 0)
        (void)frame_conn_flush(&s->conn);
}
