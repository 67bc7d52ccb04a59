/* SPDX-License-Identifier: MIT */
/* openings.c - opens data sets for clients, so that no client waits for another one's data set.
 *
 *     asked --> QUICK: is there a fresh index? --> done
 *                  | no
 *                  v      another opening, or process, is indexing it
 *               INDEXING <----------------------------------------> WAITING
 *                  |            it has ended, or again in a moment
 *                  v
 *                done
 *
 * Clients of one user that open the same data set with the same rights share one opening. Each
 * opening has a thread (blocking.h); the openings of a user that run at a time are limited.
 * Openings that only look for an index have a separate group, so that they are not delayed by those
 * that build an index. An opening that waits for another process has no thread.
 *
 * Openings of the same index, by any users, build it first come, first served: a newcomer does not
 * take the index's lock before an opening that already waits for it. If all clients leave while
 * their index is being built, the index is still finished for the next opening that waits.
 * Otherwise a client that repeatedly connects and disconnects could keep others from ever getting
 * it.
 *
 * An opening ends when no client waits for it any more, or when its storage has not answered for
 * long. A thread that hangs in a system call cannot be ended: it stays, and still counts in its
 * group. */
#include "config.h"

#include "loader/serve/openings.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/dataname.h"
#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/log.h"
#include "common/util/memory.h"
#include "common/util/progress.h"
#include "common/util/util.h"

enum {
    QUICK_MAX = 4,    /* per user at a time */
    INDEXING_MAX = 2, /* per user at a time; each uses all processors */
    TICK_MS = 500,
    MEMORY_PART = 4, /* share of the available memory that one opening may use */
};

static const uint64_t log_progress_ns = 10 * NS_PER_SEC;

enum stage { STAGE_QUICK, STAGE_INDEXING, STAGE_WAITING };

struct opening {
    struct blocking_job job;
    struct openings *openings;
    struct list link;
    enum stage stage;
    struct list waiters;
    bool cancelled; /* clients can no longer join it */
    bool inherited; /* cancelled, but a later opening waits for its index */
    bool junk;
    char *name, *fields, *user, *groups[2];
    struct roots *roots;
    const char **allowed;
    unsigned num_allowed;
    uint64_t memory_budget; /* the budget when it began */
    /* Owned by the thread while it runs, then by the loop. */
    struct dataset *dataset;
    int code;
    struct plenum_error err;
    struct progress rate;
    uint64_t logged_ns;
    atomic_bool cancel;
    /* Any thread, holding mu. */
    struct lock mu;
    struct wire_progress progress;
    uint32_t told;       /* number of calls of tell() */
    uint64_t changed_ns; /* when it last made progress */
};

struct openings {
    struct openings_options options;
    struct list all;
    uv_timer_t tick;
};

static struct opening *opening_of(struct list *link)
{
    return link ? container_of(link, struct opening, link) : NULL;
}

/* Reject relative paths: the loader's working directory is not its clients'. */
static int check_path(const char *text, struct plenum_error *err)
{
    if (orderplan_is(text) || dataname_is_absolute(text))
        return 0; /* a plan's paths are checked when it is parsed */
    return error_set(err, -EINVAL,
                     "data set '%s': a loader needs an absolute path, because its working "
                     "directory differs from its clients'",
                     text);
}

/* Returns the name for logs. */
static const char *shown_name(const struct opening *o)
{
    return orderplan_is(o->name) ? "the data sets of a plan" : o->name;
}

/* Set the progress that waiting clients receive. Threads: any. */
static void tell(struct opening *o, const char *text, uint64_t done, uint64_t total)
{
    lock_acquire(&o->mu);
    if (done != o->progress.done || total != o->progress.total)
        o->changed_ns = time_now_ns();
    o->progress.done = done;
    o->progress.total = total;
    (void)snprintf(o->progress.text, sizeof(o->progress.text), "%s", text);
    o->told++;
    lock_release(&o->mu);
}

/* Pass on the progress of indexing: to clients each time, to the log every ten seconds. Runs in the
 * opening's thread. */
static void on_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    struct opening *o = arg;
    uint64_t now = time_now_ns();
    char text[PROGRESS_TEXT];

    (void)progress_text(&o->rate, what, done, total, now, text);
    if (o->logged_ns == 0)
        o->logged_ns = now;
    if (now - o->logged_ns >= log_progress_ns) {
        log_about(
            total > 0 ? LOG_LEVEL_NOTICE : LOG_LEVEL_INFO,
            (struct log_field[]){{"dataset", shown_name(o)}, {"client_uid", o->user}, {NULL, NULL}},
            "indexing %s: %s", shown_name(o), text);
        o->logged_ns = now;
    }
    tell(o, text, done, total);
}

/* Open the data set, within the limits of the loader and of the client. Runs in the opening's
 * thread. */
static void work(struct blocking_job *job)
{
    struct opening *o = container_of(job, struct opening, job);
    struct memory_limit available;
    struct dataset_options options = {.cache_dir = o->openings->options.cache_dir,
                                      .roots = o->allowed,
                                      .num_roots = o->num_allowed,
                                      .only_files = o->openings->options.only_files,
                                      .hints = o->openings->options.hints,
                                      .how = o->stage == STAGE_QUICK ? DATASET_IF_FRESH
                                                                     : DATASET_NO_WAITING,
                                      .cancel = &o->cancel,
                                      .limits = o->openings->options.cache_limits,
                                      .user = o->user,
                                      .fields = o->fields,
                                      .junk = o->junk,
                                      .progress = on_progress,
                                      .progress_arg = o};

    memory_available(&available);
    if (o->memory_budget > 0)
        available.bytes = min_u64(available.bytes, o->memory_budget);
    options.memory = available.bytes / MEMORY_PART;
    o->code = check_path(o->name, &o->err);
    if (o->code == 0)
        o->code = dataset_open(o->name, &options, &o->dataset, &o->err);
}

static void free_opening(struct opening *o)
{
    assert(list_is_empty(&o->waiters));
    roots_unref(o->roots);
    free(o->allowed);
    free(o->name);
    free(o->fields);
    free(o->user);
    free(o->groups[0]);
    free(o->groups[1]);
    lock_fini(&o->mu);
    free(o);
}

static void unlink_opening(struct opening *o)
{
    list_remove(&o->link);
    if (list_is_empty(&o->openings->all))
        (void)uv_timer_stop(&o->openings->tick);
}

/* Give the data set, or the error, to all waiting clients. */
static void answer(struct opening *o, int code, const struct plenum_error *err)
{
    struct list *at;

    assert(code < 0 || o->dataset);
    while ((at = list_pop_first(&o->waiters))) {
        struct opening_waiter *w = container_of(at, struct opening_waiter, link);

        w->opening = NULL;
        w->done(w, code < 0 ? NULL : dataset_ref(o->dataset), code, err);
    }
}

/* Returns whether two openings need the same index or its fields. Users and fields may differ. */
static bool is_of_same_index(const struct opening *a, const struct opening *b)
{
    bool same = a->num_allowed == b->num_allowed && strcmp(a->name, b->name) == 0;

    for (unsigned i = 0; same && i < a->num_allowed; i++)
        same = strcmp(a->allowed[i], b->allowed[i]) == 0;
    return same;
}

static bool is_indexing(struct opening *o)
{
    return o->stage == STAGE_INDEXING && blocking_has_begun(&o->job) && !atomic_load(&o->cancel);
}

/* Returns the opening that is building this one's index now, or NULL. */
static struct opening *find_indexing(struct opening *o)
{
    struct list *all = &o->openings->all;

    for (struct list *at = list_first(all); at; at = list_next(all, at))
        if (opening_of(at) != o && is_of_same_index(opening_of(at), o) &&
            is_indexing(opening_of(at)))
            return opening_of(at);
    return NULL;
}

/* Returns the opening that has waited longest for this one's index, possibly itself; or NULL. */
static struct opening *find_next(const struct opening *o)
{
    struct list *all = &o->openings->all;
    struct opening *next = NULL;

    for (struct list *at = list_first(all); at; at = list_next(all, at)) /* newest first */
        if (opening_of(at)->stage == STAGE_WAITING && is_of_same_index(opening_of(at), o))
            next = opening_of(at);
    return next;
}

/* Stop building an index that no opening waits for. */
static void end_if_not_inherited(struct opening *o)
{
    if (o && o->inherited && !find_next(o)) {
        o->inherited = false;
        atomic_store(&o->cancel, true);
    }
}

/* Cancel an opening that no client waits for any more. */
static void cancel(struct opening *o)
{
    struct opening *other = find_indexing(o);

    o->cancelled = true;
    o->inherited = is_indexing(o) && find_next(o);
    if (o->inherited)
        return;
    atomic_store(&o->cancel, true);
    if (o->stage != STAGE_WAITING && !blocking_cancel(&o->job))
        return;
    unlink_opening(o);
    end_if_not_inherited(other);
    free_opening(o);
}

static void begin(struct opening *o, enum stage stage);

/* Build the index, or wait for earlier openings of it. */
static void index_in_turn(struct opening *o)
{
    struct opening *other = find_indexing(o), *next;

    o->stage = STAGE_WAITING;
    next = find_next(o);
    if (!other && next == o)
        begin(o, STAGE_INDEXING);
    else
        tell(o, "waiting while it is indexed for another client", 0, 0);
}

/* Begin the next opening of an index after its building has succeeded or failed. It finds the
 * index, or builds it. */
static void begin_next(const struct opening *o)
{
    struct opening *next = find_next(o);

    if (next)
        begin(next, STAGE_INDEXING);
}

static void done(struct blocking_job *job)
{
    struct opening *o = container_of(job, struct opening, job);

    if (job->code < 0)
        o->code = error_set(&o->err, job->code, "the loader has no thread left to open it: %s",
                            strerror(-job->code));
    if (!o->cancelled && o->code == -EINPROGRESS) {
        index_in_turn(o);
        return;
    }
    if (!o->cancelled && o->code == -EALREADY) {
        o->stage = STAGE_WAITING;
        tell(o, "waiting for another process to index it", 0, 0);
        return;
    }
    unlink_opening(o);
    if (o->stage == STAGE_INDEXING)
        begin_next(o);
    answer(o, o->code, &o->err);
    openings_release(o->openings->options.blocking, o->user, o->dataset);
    free_opening(o);
}

/* Restart an opening's time limit, because it starts or has a legitimate reason to wait. */
static void touch(struct opening *o)
{
    lock_acquire(&o->mu);
    o->changed_ns = time_now_ns();
    lock_release(&o->mu);
}

static void begin(struct opening *o, enum stage stage)
{
    const uint64_t *budget = o->openings->options.memory_budget;

    assert(stage != STAGE_WAITING);
    touch(o);
    o->memory_budget = budget ? *budget : 0;
    o->stage = stage;
    o->job = (struct blocking_job){.work = work,
                                   .done = done,
                                   .group = o->groups[stage],
                                   .limit = stage == STAGE_QUICK ? QUICK_MAX : INDEXING_MAX};
    blocking_start(o->openings->options.blocking, &o->job);
}

/* Fail an opening whose storage hangs. Waiting clients get an error, and a later result is
 * dropped. */
static void give_up(struct opening *o)
{
    struct plenum_error err;
    int r = error_set(
        &err, -ETIMEDOUT, "data set '%s': its storage has not responded for %llu minutes",
        shown_name(o), (unsigned long long)(o->openings->options.silent_ns / NS_PER_SEC / 60));

    answer(o, r, &err);
    atomic_store(&o->cancel, true); /* so that no later opening inherits it */
    cancel(o);
}

/* If another opening is building the index, report its progress to a waiting opening. Otherwise
 * begin the waiting one if its turn has come. */
static void wait_on(struct opening *o)
{
    struct opening *other = find_indexing(o);
    struct wire_progress progress;

    if (!other && find_next(o) == o) {
        begin(o, STAGE_INDEXING);
        return;
    }
    if (!other)
        return;
    lock_acquire(&other->mu);
    progress = other->progress;
    lock_release(&other->mu);
    if (progress.text[0])
        tell(o, progress.text, progress.done, progress.total);
}

static void on_tick(uv_timer_t *timer)
{
    struct openings *all = timer->data;
    struct list *next;
    uint64_t now = time_now_ns(), changed;

    for (struct list *at = list_first(&all->all); at; at = next) {
        struct opening *o = opening_of(at);

        next = list_next(&all->all, at);
        lock_acquire(&o->mu);
        changed = o->changed_ns;
        lock_release(&o->mu);
        if (o->cancelled && !o->inherited)
            continue;
        if (o->stage == STAGE_WAITING) {
            wait_on(o);
        } else if (!blocking_has_begun(&o->job)) {
            touch(o);
            tell(o, "waiting for other data sets that the same user is opening", 0, 0);
        } else if (now > changed && now - changed > all->options.silent_ns) {
            give_up(o);
        }
    }
}

int openings_create(const struct openings_options *options, struct openings **ret)
{
    struct openings *all = calloc(1, sizeof(*all));

    if (!all)
        return -ENOMEM;
    all->options = *options;
    list_init(&all->all);
    all->tick.data = all;
    (void)uv_timer_init(options->loop, &all->tick);
    *ret = all;
    return 0;
}

void openings_close(struct openings *openings)
{
    if (!openings)
        return;
    for (struct list *at = list_first(&openings->all); at; at = list_next(&openings->all, at)) {
        opening_of(at)->cancelled = true;
        atomic_store(&opening_of(at)->cancel, true);
    }
    uv_close((uv_handle_t *)&openings->tick, NULL);
}

void openings_destroy(struct openings *openings)
{
    struct opening *o;

    if (!openings)
        return;
    while ((o = opening_of(list_pop_first(&openings->all)))) {
        dataset_unref(o->dataset);
        free_opening(o);
    }
    free(openings);
}

/* Returns whether an opening is for the same data set, fields, list of bad samples, roots and user.
 * Users do not share openings, because each opening waits behind others of its user. */
static bool is_same(const struct opening *o, const struct opening_request *request)
{
    bool same = !o->cancelled && o->junk == request->junk && o->roots == request->roots &&
                o->num_allowed == request->num_allowed && strcmp(o->user, request->user) == 0 &&
                strcmp(o->name, request->dataset) == 0 && strcmp(o->fields, request->fields) == 0;

    for (unsigned i = 0; same && i < o->num_allowed; i++)
        same = strcmp(o->allowed[i], request->allowed[i]) == 0;
    return same;
}

static struct opening *create_opening(struct openings *all, const struct opening_request *request)
{
    struct opening *o = calloc(1, sizeof(*o));

    if (!o)
        return NULL;
    list_init(&o->waiters);
    o->openings = all;
    o->name = strdup(request->dataset);
    o->fields = strdup(request->fields);
    o->junk = request->junk;
    o->user = strdup(request->user);
    o->groups[STAGE_QUICK] = str_format("quick %s", request->user);
    o->groups[STAGE_INDEXING] = str_format("index %s", request->user);
    lock_init(&o->mu);
    if (!o->name || !o->fields || !o->user || !o->groups[0] || !o->groups[1]) {
        free_opening(o);
        return NULL;
    }
    o->roots = roots_ref(request->roots);
    o->allowed = request->allowed;
    o->num_allowed = request->num_allowed;
    list_add_first(&all->all, &o->link);
    return o;
}

int openings_ask(struct openings *openings, const struct opening_request *request,
                 struct opening_waiter *waiter)
{
    struct opening *o;
    struct list *at = list_first(&openings->all);
    bool fresh;

    while (at && !is_same(opening_of(at), request))
        at = list_next(&openings->all, at);
    o = opening_of(at);
    fresh = !o;
    if (fresh)
        o = create_opening(openings, request);
    if (!o || !fresh)
        free(request->allowed);
    if (!o)
        return -ENOMEM;
    waiter->opening = o;
    waiter->heard = 0;
    list_add_first(&o->waiters, &waiter->link);
    if (fresh) {
        begin(o, STAGE_QUICK);
        (void)uv_timer_start(&openings->tick, on_tick, TICK_MS, TICK_MS);
    }
    return 0;
}

void openings_leave(struct opening_waiter *waiter)
{
    struct opening *o = waiter->opening;

    if (!o)
        return;
    list_remove(&waiter->link);
    waiter->opening = NULL;
    if (list_is_empty(&o->waiters))
        cancel(o);
}

bool openings_get_progress(struct opening_waiter *waiter, struct wire_progress *ret)
{
    struct opening *o = waiter->opening;
    bool fresh;

    lock_acquire(&o->mu);
    fresh = waiter->heard != o->told;
    waiter->heard = o->told;
    *ret = o->progress;
    lock_release(&o->mu);
    return fresh;
}

/* A job that drops the last reference to a data set. */
struct release {
    struct blocking_job job;
    struct dataset *dataset;
    char group[];
};

static void drop(struct blocking_job *job)
{
    struct release *release = container_of(job, struct release, job);

    dataset_unref(release->dataset);
}

static void dropped(struct blocking_job *job)
{
    if (job->code < 0)
        drop(job);
    free(container_of(job, struct release, job));
}

void openings_release(struct blocking *blocking, const char *user, struct dataset *dataset)
{
    static const char prefix[] = "drop ";
    struct release *release;
    size_t size = sizeof(prefix) + strlen(user);

    if (!dataset || dataset_unref_unless_last(dataset))
        return;
    release = calloc(1, sizeof(*release) + size);
    if (!release) {
        dataset_unref(dataset);
        return;
    }
    (void)snprintf(release->group, size, "%s%s", prefix, user);
    release->dataset = dataset;
    release->job = (struct blocking_job){.work = drop,
                                         .done = dropped,
                                         .off_loop = true,
                                         .group = release->group,
                                         .limit = QUICK_MAX};
    blocking_start(blocking, &release->job);
}
