/* SPDX-License-Identifier: MIT */
/* session_open.c - handles OPEN up to OPENED: checks the quota for the ring, and opens the data set
 * and the queue's stream.
 *
 * OPEN may take minutes (to index millions of files). A thread of openings.c does the work, while
 * the session answers STATS and sends PROGRESS. */
#include "config.h"

#include "loader/serve/session_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/hint_cache.h"
#include "loader/serve/monitor.h"
#include "loader/serve/quota.h"
#include "loader/serve/server_priv.h"
#include "loader/serve/snapshot.h"

enum {
    PROGRESS_EVERY_MS = 500,
    ROOM_LIMIT_MS = 10000, /* longest time that an OPEN waits for memory that will soon be free */
    ROOM_TURN_MS = 20,     /* added to the interval per waiting OPEN: each scans all sessions */
};

static void wait_for_room(struct session *s)
{
    assert(s->room_ns == 0);
    s->room_ns = time_now_ns();
    s->server->waiting_for_room++;
}

static const char *name_peer(const struct session *s, char *text, size_t size)
{
    if (!s->peer.known)
        return "a client over TCP";
    (void)snprintf(text, size, "user %u", (unsigned)s->peer.uid);
    return text;
}

typedef void dataset_is_open(struct opening_waiter *waiter, struct dataset *dataset, int code,
                             const struct plenum_error *why);

/* Start opening a data set within the roots that this client may read. */
static int ask_for_dataset(struct session *s, const char *dataset, const char *fields, bool junk,
                           dataset_is_open *done, struct plenum_error *err)
{
    struct opening_request request = {.dataset = dataset,
                                      .fields = fields,
                                      .junk = junk,
                                      .user = s->user,
                                      .roots = s->server->roots};
    unsigned count = roots_count(request.roots);
    char who[32];

    request.allowed = calloc(count + 1, sizeof(*request.allowed));
    if (!request.allowed)
        return error_set(err, -ENOMEM, "the loader is out of memory");
    request.num_allowed = roots_for(request.roots, &s->peer, request.allowed);
    s->kept_out = request.num_allowed < count;
    if (count > 0 && request.num_allowed == 0) {
        free(request.allowed);
        return error_set(err, -EACCES,
                         "all roots of this loader are restricted to certain readers, and %s is "
                         "not one of them: its operator can add readers in plenumd.conf",
                         name_peer(s, who, sizeof(who)));
    }
    s->waiter.done = done;
    return openings_ask(s->server->openings, &request, &s->waiter) < 0
               ? error_set(err, -ENOMEM, "the loader is out of memory")
               : 0;
}

static void on_progress_timer(uv_timer_t *timer)
{
    struct session *s = timer->data;
    struct wire_progress progress;

    assert(s->state == STATE_OPENING);
    if (!openings_get_progress(&s->waiter, &progress))
        return;
    (void)wire_put_progress(&s->conn.tx, s->open_request, &progress);
    session_flush(s);
}

/* Send the client the progress of its opening from time to time. */
static void watch_progress(struct session *s)
{
    (void)uv_timer_start(&s->timer, on_progress_timer, PROGRESS_EVERY_MS, PROGRESS_EVERY_MS);
}

/* Report to the client why the data set could not be opened. */
static void refuse_opening(struct session *s, int code, const struct plenum_error *why)
{
    char who[WIRE_NAME_MAX + 150];
    struct plenum_error err = *why;

    if (code == -EACCES && s->kept_out)
        (void)error_set(
            &err, code,
            "%s; some roots are restricted to certain readers, and %s is not one of them",
            why->text, name_peer(s, who, sizeof(who)));
    session_refuse(s, s->open_request, code, err.text);
}

/* Check that the data set's fields match the ones that the client expects, and that the views can
 * be applied to its masks and boxes. */
static int check_fields(const struct session *s, struct plenum_error *err)
{
    const struct fields *fields = dataset_get_fields(s->dataset);
    struct field_shape shape[FIELDS_MAX];
    int r = views_check_fields(&s->spec.views, fields, err);

    if (r == 0)
        r = views_shape_fields(&s->spec.views, fields, fields->shape, shape, err);
    if (r < 0)
        return r;
    if (s->open.num_fields == fields->count &&
        memcmp(s->open.field, shape, fields->count * sizeof(shape[0])) == 0)
        return 0;
    return error_set(err, -ESTALE, "%s: its fields are not the ones that the client expects",
                     dataset_get_name(s->dataset));
}

/* Set the order and the steps. */
static int set_order(struct session *s, struct plenum_error *err)
{
    struct order order = {.seed = s->open.seed, .n = dataset_get_samples(s->dataset)};
    int r = dataset_set_order(s->dataset, &order, err); /* unchanged without a plan */

    if (r < 0)
        return r;
    r = wire_order(&s->open, order.n, &s->spec.order, &s->steps, err);
    s->spec.order.mixture = order.mixture;
    s->steps.num_gaps = dataset_get_skips(s->dataset, &s->steps.gaps);
    if (r == 0)
        r = render_check_samples(&s->spec, err);
    return r < 0 ? error_prefix(err, r, "%s", dataset_get_name(s->dataset)) : 0;
}

static int start_stream(struct session *s, struct plenum_error *err)
{
    int r = check_fields(s, err);

    if (r == 0)
        r = render_check_images(s->dataset, &s->spec.views, err);
    if (r == 0)
        r = quota_check_fields(s->server, monitor_reading_bytes(s->server, s->dataset), err);
    if (r < 0)
        return r;
    r = set_order(s, err);
    if (r < 0)
        return r;
    if (order_steps_whole(&s->steps) > 0 && !order_has_steps(&s->steps))
        return error_set(err, -EINVAL, "%s: all positions are skipped",
                         dataset_get_name(s->dataset));
    if (!order_has_steps(&s->steps))
        return error_set(err, -EINVAL,
                         "%s has %u samples, fewer than the %u of one step: with last=drop no step "
                         "is left; use last=pad",
                         dataset_get_name(s->dataset), s->steps.n, s->open.per_step);
    assert(!s->stream);
    s->spec.dataset = s->dataset;
    s->spec.store = (struct image_store){
        .dtype = s->open.dtype, .layout = s->open.layout, .channels = s->open.channels};
    s->spec.bad = s->open.bad;
    s->spec.jpeg = s->server->options->jpeg;
    r = queue_stream_open(
        s->server->queue,
        &(struct queue_stream_options){
            .user = s->user,
            .job = s->job,
            .spec = &s->spec,
            .open = &s->open,
            .layout = &s->layout,
            .ring = s->ring,
            .node = s->remote ? (unsigned)s->id /* its memory is on no node yet: alternate */
                              : pin_node_of_memory(s->server->pin, s->ring->base, s->ring->bytes),
            .owner = s},
        &s->stream);
    return r < 0 ? error_set(err, r, "the loader is out of memory") : 0;
}

/* Log why later epochs will not be faster than the first one. */
static void log_hints_state(const struct session *s)
{
    int code = dataset_get_hints_code(s->dataset);
    struct hint_cache *hints = dataset_get_hints(s->dataset);

    if (hints)
        code = hint_cache_state(hints);
    if (code < 0 && code != -EFBIG)
        log_debug("%s: hints about the tiles of JPEGs cannot be recorded (%s), which is harmless",
                  dataset_get_name(s->dataset), strerror(-code));
}

/* Warn that the data set is indexed again at each opening, which takes minutes for millions of
 * files. */
static void tell_about_index(struct session *s)
{
    char folder[4096] = "";

    if (dataset_get_index_path(s->dataset) || dataset_is_generated(s->dataset) || s->open.plan[0] ||
        !session_may_log(s, LOG_LEVEL_WARN))
        return;
    (void)cache_folder(s->server->options->cache_dir, folder, sizeof(folder));
    log_about(LOG_LEVEL_WARN, session_about(s, &(struct session_about){0}),
              "%s: its index cannot be saved in the cache folder %s, so it is rebuilt each time "
              "the data set is opened: check that this is a folder with free space that the loader "
              "may write to, or name another one with PLENUM_CACHE_DIR or --cache-dir",
              dataset_get_name(s->dataset), folder[0] ? folder : "(none: there is no HOME)");
}

_Static_assert(WIRE_REWEIGHS_MAX == (int)ORDERPLAN_REWEIGHS_MAX, "all of them fit into OPENED");

/* Write the warning about the pipeline, and that of the data set. */
static void put_warning(const struct session *s, char *ret, size_t size)
{
    bool exif = s->spec.views.view[0].pipeline.exif;
    size_t len = strlen(dataset_warn_of_exif(s->dataset, exif, ret, size));
    const char *known = dataset_get_warning(s->dataset);

    if (*known)
        (void)snprintf(ret + len, size - len, "%s%s", len > 0 ? "; " : "", known);
}

/* Send the client the plan's positions and sets, because it does not compute the order. */
static void tell_sets(const struct session *s, struct wire_opened *m)
{
    struct dataset_reweigh reweighs[ORDERPLAN_REWEIGHS_MAX];
    struct dataset_set sets[MIXTURE_SETS_MAX];

    m->sets = dataset_get_sets(s->dataset, sets);
    m->positions = m->sets > 0 ? s->spec.order.n : 0;
    for (uint32_t i = 0; i < m->sets; i++) {
        m->set[i].samples = dataset_get_samples(sets[i].dataset);
        memcpy(m->set[i].hash, sets[i].hash, sizeof(m->set[i].hash));
    }
    m->reweighs = dataset_get_reweighs(s->dataset, &s->spec.order, reweighs);
    for (uint32_t i = 0; i < m->reweighs; i++)
        m->reweigh[i] = (struct wire_reweigh){reweighs[i].start, reweighs[i].hash};
}

static void on_dataset_open(struct opening_waiter *waiter, struct dataset *dataset, int code,
                            const struct plenum_error *why)
{
    struct session *s = container_of(waiter, struct session, waiter);
    struct wire_opened m = {0};
    char who[WIRE_NAME_MAX + 150];
    struct plenum_error err = {.text = ""};

    assert(s->state == STATE_OPENING && !s->dataset && (code < 0 || dataset));
    s->dataset = dataset;
    (void)uv_timer_stop(&s->timer);
    if (code < 0) {
        refuse_opening(s, code, why);
        return;
    }
    code = start_stream(s, &err);
    if (code < 0) {
        session_refuse(s, s->open_request, code, err.text);
        return;
    }
    m.samples = dataset_get_samples(s->dataset);
    m.classes = dataset_get_classes(s->dataset);
    m.class_names = dataset_get_class_names(s->dataset);
    put_warning(s, m.warning, sizeof(m.warning));
    m.threads = s->server->threads;
    m.io_threads = s->server->io_threads;
    memcpy(m.fingerprint, dataset_get_fingerprint(s->dataset), sizeof(m.fingerprint));
    m.sum = *dataset_get_sum(s->dataset);
    tell_sets(s, &m);
    session_move(s, STATE_OPEN);
    snapshot_forget(s->server);
    tell_about_index(s);
    log_hints_state(s);
    s->opened_ns = time_now_ns();
    session_add_point(s, s->opened_ns);
    if (session_may_log(s, LOG_LEVEL_INFO))
        log_about(LOG_LEVEL_INFO, session_about(s, &(struct session_about){0}),
                  "client %s: %s, %u samples, '%s', batches of %llu",
                  session_describe(s, who, sizeof(who)), dataset_get_name(s->dataset), m.samples,
                  s->spec.views.text, (unsigned long long)wire_batch_count(&s->open));
    if (s->remote)
        session_watch_sending(s);
    if (wire_put_opened(&s->conn.tx, s->open_request, &m) < 0)
        session_close(s);
    else
        session_flush(s);
}

/* Check that client and pipeline agree on the views of a sample. */
static int check_views(const struct session *s, struct plenum_error *err)
{
    const struct views *views = &s->spec.views;
    struct wire_view asked[VIEWS_MAX];
    uint32_t count = wire_get_views(&s->open, asked);

    if (views->named != (s->open.views > 0) || views->count != count)
        return error_set(err, -EPROTONOSUPPORT,
                         "the pipeline has %u views, but the client requests %u: is it older than "
                         "version 1.9 of the protocol?",
                         views->named ? views->count : 0, s->open.views);
    for (uint32_t i = 0; i < count; i++) {
        const struct view *view = &views->view[i];

        if (view->pipeline.width != asked[i].width || view->pipeline.height != asked[i].height ||
            view->count != asked[i].count)
            return error_set(err, -EINVAL,
                             "the pipeline produces %u images of %u x %u pixels, not %u of %u x %u",
                             view->count, view->pipeline.height, view->pipeline.width,
                             asked[i].count, asked[i].height, asked[i].width);
    }
    return 0;
}

/* Check an OPEN's pixels and order, and whether a ring came with it, and fill in the layout and
 * parts of the spec. The ring and the data set are checked later. */
static int check_open(struct session *s, struct plenum_error *err)
{
    struct server *server = s->server;
    const struct pipeline *pipeline;
    int r = views_parse(s->open.pipeline, &s->spec.views, err);

    if (r < 0)
        return r;
    pipeline = render_pipeline(&s->spec);
    if (!server->renders[pipeline->version])
        return error_set(err, -EPROTONOSUPPORT, "this loader does not render pixels of '%s'",
                         pipeline_version_name(pipeline->version));
    r = check_views(s, err);
    if (r == 0)
        r = wire_open_check(&s->open, err);
    if (r < 0)
        return r;
    r = wire_slot_init(&s->open, &s->layout);
    assert(r == 0); /* wire_open_check() has checked it */
    /* With `deal`, a sample's other positions belong to other replicas. */
    s->spec.run = s->open.deal ? 1 : s->open.repeat;
    for (uint32_t i = 0; i < s->open.num_fields; i++)
        s->spec.masks = s->spec.masks || s->open.field[i].mask ||
                        s->open.field[i].type == PLENUM_FIELD_INSTANCES;
    if (views_mix(&s->spec.views) != s->open.mix)
        return error_set(err, s->open.mix ? -EINVAL : -EPROTONOSUPPORT,
                         s->open.mix ? "second labels were requested, but the pipeline does not mix"
                                     : "the client is too old for mixup and cutmix: install the "
                                       "same version as this loader there");
    if (s->ring_fd < 0 && s->conn.lost_fds)
        return error_set(err, -EMFILE,
                         "no file descriptor is left in the loader for the ring of a stream: ask "
                         "its operator to raise ulimit -n (LimitNOFILE=)");
    if (s->ring_fd < 0 && !s->remote)
        return error_set(err, -EINVAL, "the request to open a stream came without a ring");
    return 0;
}

static int create_ring(struct session *s, struct plenum_error *err)
{
    uint64_t bytes = s->open.slots * s->open.slot_bytes;
    int fd = s->ring_fd, r;

    assert(!s->ring && s->ring_bytes == 0);
    r = quota_check_ring(s->server, s->user, bytes, render_working_bytes(&s->spec), err);
    if (r < 0)
        return r;
    s->ring_fd = -1;
    r = s->remote ? ring_create_private(s->open.slots, s->open.slot_bytes, &s->ring, err)
                  : ring_accept(fd, s->open.slots, s->open.slot_bytes, &s->ring, err);
    if (r < 0) {
        session_drop_fd(s, fd);
        return r;
    }
    s->ring_bytes = bytes;
    s->server->ring_bytes += bytes;
    return 0;
}

/* Start opening the data set, once the ring exists. */
static void begin_opening(struct session *s)
{
    uint64_t request = s->open_request;
    struct plenum_error err;
    int r = ask_for_dataset(s, wire_dataset(s->open.dataset, s->open.plan), s->open.fields,
                            views_forgive_junk(&s->spec.views), on_dataset_open, &err);

    if (r < 0) {
        session_refuse(s, request, r, err.text);
        return;
    }
    watch_progress(s);
}

static void await_room(struct session *s);

static void on_room_timer(uv_timer_t *timer)
{
    await_room(timer->data);
}

/* Create the ring, or wait until its user releases memory, because a client that reconnects often
 * arrives before its previous session has ended. The more sessions wait, the less often each one
 * retries. */
static void await_room(struct session *s)
{
    struct plenum_error err;
    int r = create_ring(s, &err);

    if (r == -ENOSPC && time_now_ns() < s->room_ns + ROOM_LIMIT_MS * NS_PER_MS &&
        session_any_ends_soon(s->server, s->user)) {
        (void)uv_timer_start(&s->timer, on_room_timer,
                             ROOM_EVERY_MS + s->server->waiting_for_room * (uint64_t)ROOM_TURN_MS,
                             0);
        return;
    }
    session_wait_no_longer(s);
    if (r < 0)
        session_refuse(s, s->open_request, r, err.text);
    else
        begin_opening(s);
}

static void on_fields_known(struct opening_waiter *waiter, struct dataset *dataset, int code,
                            const struct plenum_error *why)
{
    struct session *s = container_of(waiter, struct session, waiter);
    struct wire_fields m = {0};
    const struct fields *fields;

    (void)uv_timer_stop(&s->timer);
    if (code < 0) {
        refuse_opening(s, code, why);
        return;
    }
    fields = dataset_get_fields(dataset);
    m.count = fields->count;
    memcpy(m.field, fields->shape, sizeof(m.field));
    memcpy(m.hash, dataset_get_fields_hash(dataset), sizeof(m.hash));
    openings_release(s->server->blocking, s->user, dataset);
    session_move(s, STATE_IDLE);
    session_limit_idle(s);
    if (wire_put_fields(&s->conn.tx, s->open_request, &m) < 0)
        session_close(s);
    else
        session_flush(s);
}

void session_handle_fields(struct session *s, uint64_t request, struct frame_reader *payload)
{
    struct wire_ask_fields m;
    struct plenum_error err;
    int r;

    if (wire_get_ask_fields(payload, &m) < 0) {
        session_refuse(s, request, -EPROTO, "a request for fields was not understood");
        return;
    }
    s->open_request = request;
    r = ask_for_dataset(s, wire_dataset(m.dataset, m.plan), m.fields, false, on_fields_known, &err);
    if (r < 0) {
        session_refuse(s, request, r, err.text);
        return;
    }
    session_move(s, STATE_OPENING);
    watch_progress(s);
}

void session_handle_open(struct session *s, uint64_t request, struct frame_reader *payload)
{
    struct plenum_error err;
    int r;

    s->ring_fd = frame_conn_take_fd(&s->conn);
    s->open_request = request;
    if (wire_get_open(payload, &s->open) < 0) {
        session_refuse(s, request, -EPROTO, "a request to open a stream was not understood");
        return;
    }
    r = check_open(s, &err);
    if (r < 0) {
        session_refuse(s, request, r, err.text);
        return;
    }
    session_move(s, STATE_OPENING);
    wait_for_room(s);
    await_room(s);
}
