/* SPDX-License-Identifier: MIT */
/* Tests which client waits for which data set. dataset_open() is wrapped, so that storage behaves
 * as each test needs. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/serve/openings.h"

enum { CLIENTS = 16 };

/* The beginning of a name selects what opening it does:
 *
 *     /hang   hangs until it is released or cancelled
 *     /index  has no index, and hangs while one is built
 *     /fails  is like /index, but building the index then fails
 *     /busy   is being indexed by another process in the first two attempts to index it
 *
 * All other names open at once. */
static struct {
    pthread_mutex_t mu;
    pthread_cond_t change;
    unsigned calls, inside, called_off;
    bool let_go;
} storage = {.mu = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

int __real_dataset_open(const char *name, const struct dataset_options *options,
                        struct dataset **ret, struct plenum_error *err);
int __wrap_dataset_open(const char *name, const struct dataset_options *options,
                        struct dataset **ret, struct plenum_error *err);

static int hang(const struct dataset_options *options)
{
    while (!storage.let_go && !atomic_load(options->cancel)) {
        (void)pthread_mutex_unlock(&storage.mu);
        (void)usleep(1000);
        (void)pthread_mutex_lock(&storage.mu);
    }
    return storage.let_go ? 0 : -ECANCELED;
}

int __wrap_dataset_open(const char *name, const struct dataset_options *options,
                        struct dataset **ret, struct plenum_error *err)
{
    bool quick = options->how == DATASET_IF_FRESH;
    int r = 0;

    (void)pthread_mutex_lock(&storage.mu);
    storage.calls++;
    storage.inside++;
    if (strncmp(name, "/hang", 5) == 0)
        r = hang(options);
    else if (strncmp(name, "/index", 6) == 0)
        r = quick ? -EINPROGRESS : hang(options);
    else if (strncmp(name, "/fails", 6) == 0)
        r = quick ? -EINPROGRESS : hang(options) < 0 ? -ECANCELED : -EIO;
    else if (strncmp(name, "/busy", 5) == 0)
        r = quick ? -EINPROGRESS : storage.calls < 4 ? -EALREADY : 0;
    storage.inside--;
    storage.called_off += r == -ECANCELED;
    (void)pthread_mutex_unlock(&storage.mu);
    return r < 0 ? r : __real_dataset_open("generated:10", NULL, ret, err);
}

void __real_dataset_unref(struct dataset *dataset);
void __wrap_dataset_unref(struct dataset *dataset);

/* How often dataset_unref() was called, and the thread of the last call. */
static struct {
    unsigned calls;
    pthread_t who;
} drops;

void __wrap_dataset_unref(struct dataset *dataset)
{
    (void)pthread_mutex_lock(&storage.mu);
    drops.calls++;
    drops.who = pthread_self();
    (void)pthread_mutex_unlock(&storage.mu);
    __real_dataset_unref(dataset);
}

static unsigned count(const unsigned *what)
{
    unsigned n;

    (void)pthread_mutex_lock(&storage.mu);
    n = *what;
    (void)pthread_mutex_unlock(&storage.mu);
    return n;
}

static struct client {
    struct opening_waiter waiter;
    struct dataset *dataset;
    int code;
    bool done;
} clients[CLIENTS];

static uv_loop_t loop;
static struct blocking *blocking;
static struct openings *openings;
static struct roots *roots;

static void on_done(struct opening_waiter *waiter, struct dataset *dataset, int code,
                    const struct plenum_error *err)
{
    struct client *a = container_of(waiter, struct client, waiter);

    (void)err;
    cr_assert(not(a->done));
    a->done = true;
    a->dataset = dataset;
    a->code = code;
}

static void ask_as(struct client *a, const char *user, const char *name, const char *root,
                   bool junk)
{
    const char **allowed = malloc(sizeof(*allowed));

    *allowed = root;
    *a = (struct client){.waiter = {.done = on_done}};
    cr_assert(zero(int, openings_ask(openings,
                                     &(struct opening_request){.dataset = name,
                                                               .fields = "",
                                                               .junk = junk,
                                                               .user = user,
                                                               .roots = roots,
                                                               .allowed = allowed,
                                                               .num_allowed = 1},
                                     &a->waiter)));
}

static void ask_below(struct client *a, const char *user, const char *name, const char *root)
{
    ask_as(a, user, name, root, false);
}

static void ask(struct client *a, const char *user, const char *name)
{
    ask_below(a, user, name, "/");
}

/* Make the first ten clients, of user 1, request a different folder each. */
static void ask_ten(const char *kind)
{
    char name[32];

    for (unsigned i = 0; i < 10; i++) {
        (void)snprintf(name, sizeof(name), "/%s/%u", kind, i);
        ask(&clients[i], "1", name);
    }
}

static void on_nothing(uv_timer_t *timer)
{
    (void)timer;
}

static uv_timer_t turning; /* makes UV_RUN_ONCE return after a millisecond at most */

static void turn(void)
{
    (void)uv_run(&loop, UV_RUN_ONCE);
}

static void wait_done(struct client *a)
{
    for (int i = 0; i < 20000 && !a->done; i++)
        turn();
    cr_assert(a->done);
}

static void wait_count(const unsigned *what, unsigned n)
{
    for (int i = 0; i < 20000 && count(what) != n; i++)
        turn();
    cr_assert(eq(u32, count(what), n));
}

static void open_openings(uint64_t silent_ns)
{
    cr_assert(zero(int, blocking_create(&loop, &blocking)));
    cr_assert(zero(int, openings_create(&(struct openings_options){.loop = &loop,
                                                                   .blocking = blocking,
                                                                   .silent_ns = silent_ns},
                                        &openings)));
}

static void setup(void)
{
    struct plenum_error err;

    cr_assert(zero(int, roots_create(NULL, 0, &roots, &err)));
    (void)uv_loop_init(&loop);
    (void)uv_timer_init(&loop, &turning);
    (void)uv_timer_start(&turning, on_nothing, 1, 1);
    open_openings(3600 * NS_PER_SEC);
}

static void teardown(void)
{
    openings_close(openings);
    blocking_close(blocking);
    uv_close((uv_handle_t *)&turning, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    blocking_destroy(blocking);
    openings_destroy(openings);
    cr_assert(zero(int, uv_loop_close(&loop)));
    cr_assert(eq(u32, storage.inside, 0), "no thread is left");
    for (unsigned i = 0; i < CLIENTS; i++)
        dataset_unref(clients[i].dataset);
    roots_unref(roots);
}

TestSuite(openings, .init = setup, .fini = teardown, .timeout = 600);

Test(openings, of_the_same_name_are_shared)
{
    ask(&clients[0], "1", "/index");
    wait_count(&storage.inside, 1);
    for (unsigned i = 1; i < 8; i++)
        ask(&clients[i], "1", "/index");
    for (unsigned i = 0; i < 20; i++)
        turn();
    cr_assert(eq(u32, count(&storage.calls), 2), "one call looks for an index, and one builds it");
    storage.let_go = true;
    for (unsigned i = 0; i < 8; i++) {
        wait_done(&clients[i]);
        cr_assert(eq(ptr, clients[i].dataset, clients[0].dataset));
    }
}

Test(openings, with_different_rights_are_separate)
{
    ask_below(&clients[0], "1", "/hang", "/a");
    ask_below(&clients[1], "1", "/hang", "/b");
    wait_count(&storage.inside, 2);
}

/* Pipelines with junk have another list of bad samples. */
Test(openings, for_pipelines_with_junk_are_separate)
{
    ask_as(&clients[0], "1", "/hang", "/", false);
    ask_as(&clients[1], "1", "/hang", "/", true);
    wait_count(&storage.inside, 2);
}

Test(openings, that_hang_keep_no_other_user_waiting)
{
    ask_ten("hang");
    ask(&clients[10], "2", "/there");
    wait_done(&clients[10]);
    cr_assert(zero(int, clients[10].code));
    cr_assert(lt(u32, count(&storage.inside), 10), "their number is bounded");
}

Test(openings, that_wait_in_a_users_line_keep_no_other_user_waiting)
{
    ask_ten("hang");
    ask(&clients[10], "1", "/there");
    ask(&clients[11], "2", "/there");
    wait_done(&clients[11]);
    cr_assert(zero(int, clients[11].code));
    cr_assert(not(clients[10].done));
}

Test(openings, that_index_do_not_delay_those_with_an_index)
{
    ask_ten("index");
    ask(&clients[10], "1", "/there");
    wait_done(&clients[10]);
    cr_assert(zero(int, clients[10].code));
}

Test(openings, wait_for_another_process_without_a_thread)
{
    struct wire_progress progress;
    bool told = false;

    ask(&clients[0], "1", "/busy");
    wait_count(&storage.calls, 2);
    wait_count(&storage.inside, 0);
    while (!clients[0].done) {
        turn();
        told |= !clients[0].done && openings_get_progress(&clients[0].waiter, &progress) &&
                strstr(progress.text, "another process");
    }
    cr_assert(told);
    cr_assert(zero(int, clients[0].code));
    cr_assert(eq(u32, count(&storage.calls), 4));
}

Test(openings, end_with_the_last_waiter)
{
    ask(&clients[0], "1", "/hang");
    ask(&clients[1], "1", "/hang");
    wait_count(&storage.inside, 1);
    openings_leave(&clients[0].waiter);
    for (unsigned i = 0; i < 20; i++)
        turn();
    cr_assert(eq(u32, count(&storage.inside), 1), "one still waits");
    openings_leave(&clients[1].waiter);
    ask(&clients[2], "1", "/hang");
    wait_count(&storage.called_off, 1);
    for (unsigned i = 0; i < 20; i++)
        turn();
    cr_assert(not(clients[0].done || clients[1].done || clients[2].done));
    storage.let_go = true;
    wait_done(&clients[2]);
    cr_assert(zero(int, clients[2].code), "a later client has its own opening");
}

/* Indexing continues for the request that has waited longest, even if it is another user's. */
Test(openings, that_are_abandoned_are_inherited)
{
    ask(&clients[0], "1", "/index");
    wait_count(&storage.inside, 1);
    ask(&clients[1], "2", "/index");
    wait_count(&storage.calls, 3);
    for (unsigned i = 2; i < 12; i++) { /* user 1 leaves and asks again */
        openings_leave(&clients[i == 2 ? 0 : i - 1].waiter);
        ask(&clients[i], "1", "/index");
        wait_count(&storage.calls, 2 + i);
    }
    cr_assert(eq(u32, count(&storage.inside), 1), "the first continues");
    cr_assert(eq(u32, count(&storage.called_off), 0));
    storage.let_go = true;
    wait_done(&clients[1]);
    cr_assert(zero(int, clients[1].code));
    wait_done(&clients[11]);
}

Test(openings, that_are_not_inherited_end)
{
    ask(&clients[0], "1", "/index");
    wait_count(&storage.inside, 1);
    ask(&clients[1], "2", "/index");
    wait_count(&storage.calls, 3);
    openings_leave(&clients[0].waiter);
    for (unsigned i = 0; i < 20; i++)
        turn();
    cr_assert(eq(u32, count(&storage.called_off), 0));
    openings_leave(&clients[1].waiter);
    wait_count(&storage.called_off, 1);
}

/* Building an index fails each time. Requests get their turns in order, whatever requests
 * follow. */
Test(openings, of_one_index_take_turns)
{
    for (unsigned i = 0; i < 8; i++) {
        char user[4];

        (void)snprintf(user, sizeof(user), "%u", i);
        ask(&clients[i], user, "/fails");
        wait_count(&storage.calls,
                   2 + i); /* the first makes two: one looks for an index, one builds it */
    }
    storage.let_go = true;
    for (unsigned i = 0; i < 8; i++) {
        wait_done(&clients[i]);
        cr_assert(eq(int, clients[i].code, -EIO));
        for (unsigned k = i + 2; k < 8; k++)
            cr_assert(not(clients[k].done), "%u before %u", k, i);
    }
}

Test(openings, that_wait_are_dropped_with_their_clients)
{
    ask_ten("hang");
    for (unsigned i = 10; i-- > 0;)
        openings_leave(&clients[i].waiter);
    wait_count(&storage.inside, 0);
    cr_assert(lt(u32, count(&storage.calls), 10));
}

Test(openings, are_given_up_without_progress)
{
    openings_close(openings);
    blocking_close(blocking);
    turn();
    blocking_destroy(blocking);
    openings_destroy(openings);
    open_openings(NS_PER_SEC);
    ask(&clients[0], "1", "/hang");
    wait_done(&clients[0]);
    cr_assert(eq(int, clients[0].code, -ETIMEDOUT));
}

Test(openings, are_dropped_in_a_thread_by_the_last)
{
    struct dataset *dataset;

    ask(&clients[0], "1", "/one");
    wait_done(&clients[0]);
    dataset = dataset_ref(clients[0].dataset);
    clients[0].dataset = NULL;
    openings_release(blocking, "1", dataset);
    cr_assert(eq(u32, count(&drops.calls), 0), "neither the opening's reference nor this one "
                                               "was the last");
    openings_release(blocking, "1", dataset);
    wait_count(&drops.calls, 1);
    cr_assert(not(pthread_equal(drops.who, pthread_self())));
}

Test(openings, under_way_end_with_the_loader)
{
    ask(&clients[0], "1", "/hang");
    ask(&clients[1], "1", "/index");
    ask(&clients[2], "1", "/busy");
    wait_count(&storage.inside, 2);
    for (unsigned i = 0; i < 3; i++)
        openings_leave(&clients[i].waiter);
}
