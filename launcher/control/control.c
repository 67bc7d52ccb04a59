/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/control/control.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/job/stop_page.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "launcher/values/numa.h"

static const char control_magic[8] = "plnmrun";

static const char *const step_names[] = {
    [CONTROL_STEP_PLAN] = "the plan",
    [CONTROL_STEP_FORK] = "a new process",
    [CONTROL_STEP_DIRECTORY] = "the working directory",
    [CONTROL_STEP_BIND_CPUS] = "binding to CPUs (--strict-binding)",
    [CONTROL_STEP_BIND_MEMORY] = "binding to memory (--strict-binding)",
    [CONTROL_STEP_EXEC] = "the program",
};

const char *control_step_name(enum control_step step)
{
    assert(step < CONTROL_STEPS);
    return step_names[step];
}

int control_secure(const char *token, bool shim, struct tls **ret, struct plenum_error *err)
{
    struct tls_key key, own;
    int r = tls_key_parse(token, &key);

    if (r < 0)
        return error_set(err, r, "the job's token is not a valid key");
    own = key;
    if (shim)
        r = tls_key_of_client(&key, "shim", &own, err);
    if (r == 0)
        r = tls_create(&own, ret, err);
    explicit_bzero(&key, sizeof(key));
    explicit_bzero(&own, sizeof(own));
    return r;
}

void control_hello_init(struct control_hello *m)
{
    *m = (struct control_hello){.version = PACKAGE_VERSION};
    memcpy(m->magic, control_magic, sizeof(m->magic));
}

/* Compare two tokens in constant time, so that the duration does not reveal how much of a guess was
 * right. */
static bool same_token(const char *a, const char *b)
{
    size_t len = strlen(b);
    unsigned differ = 0;

    if (strlen(a) != len)
        return false;
    for (size_t i = 0; i < len; i++)
        differ |= (unsigned char)(a[i] ^ b[i]);
    return differ == 0;
}

int control_hello_check(const struct control_hello *m, const char *token, struct plenum_error *err)
{
    if (memcmp(m->magic, control_magic, sizeof(m->magic)) != 0)
        return error_set(err, -EPROTO, "a program that is not a shim has connected");
    if (!same_token(m->token, token))
        return error_set(err, -EACCES, "a shim of another job has connected");
    if (strcmp(m->version, PACKAGE_VERSION) != 0)
        return error_set(err, -EPROTONOSUPPORT,
                         "host %s has plenumrun %s and this host has %s: install the same version "
                         "on all hosts",
                         m->host, m->version, PACKAGE_VERSION);
    return 0;
}

int control_put_hello(struct frame_buffer *b, const struct control_hello *m)
{
    size_t begin = frame_begin(b, CONTROL_HELLO, 0);

    frame_put_bytes(b, m->magic, sizeof(m->magic));
    frame_put_text(b, m->version);
    frame_put_text(b, m->token);
    frame_put_u32(b, m->instance);
    frame_put_u32(b, m->local_index);
    frame_put_u32(b, m->pid);
    frame_put_u16(b, m->free_port);
    frame_put_u16(b, m->place_port);
    frame_put_text(b, m->host);
    frame_put_text(b, m->loader);
    frame_put_text(b, m->loader_error);
    frame_put_text(b, m->page);
    return frame_end(b, begin);
}

int control_get_hello(struct frame_reader *r, struct control_hello *ret)
{
    frame_get_bytes(r, ret->magic, sizeof(ret->magic));
    frame_get_text(r, ret->version, sizeof(ret->version));
    frame_get_text(r, ret->token, sizeof(ret->token));
    ret->instance = frame_get_u32(r);
    ret->local_index = frame_get_u32(r);
    ret->pid = frame_get_u32(r);
    ret->free_port = frame_get_u16(r);
    ret->place_port = frame_get_u16(r);
    frame_get_text(r, ret->host, sizeof(ret->host));
    frame_get_text(r, ret->loader, sizeof(ret->loader));
    frame_get_text(r, ret->loader_error, sizeof(ret->loader_error));
    frame_get_text(r, ret->page, sizeof(ret->page));
    return frame_got(r);
}

static size_t count_of(char *const *texts)
{
    size_t n = 0;

    while (texts[n])
        n++;
    return n;
}

static void put_environment(struct frame_buffer *b, const struct environ_list *list)
{
    frame_put_u32(b, (uint32_t)list->count);
    for (size_t i = 0; i < list->count; i++) {
        frame_put_u8(b, (uint8_t)list->entries[i].how);
        frame_put_text(b, list->entries[i].name);
        frame_put_text(b, list->entries[i].value);
    }
}

int control_put_plan(struct frame_buffer *b, const struct control_plan *m)
{
    size_t begin = frame_begin(b, CONTROL_PLAN, 0), argc = count_of(m->argv);

    frame_put_u64(b, m->grace_ns);
    frame_put_u64(b, m->silence_ns);
    frame_put_u64(b, m->progress_ns);
    frame_put_u32(b, m->instances);
    frame_put_u32(b, m->window);
    frame_put_u8(b, m->input);
    frame_put_u8(b, m->quiet);
    frame_put_u8(b, m->live);
    frame_put_u8(b, m->at_once);
    frame_put_u8(b, m->bind_cpus);
    frame_put_u8(b, m->memory);
    frame_put_u8(b, m->strict);
    frame_put_u32(b, m->umask);
    frame_put_text(b, m->directory);
    frame_put_text(b, m->cpus);
    frame_put_text(b, m->nodes);
    frame_put_text(b, m->loader_cpus);
    frame_put_text(b, m->loader_key);
    frame_put_u32(b, m->place_instances);
    frame_put_text(b, m->place);
    frame_put_text(b, m->place_job);
    frame_put_text(b, m->place_key);
    frame_put_u32(b, (uint32_t)argc);
    for (size_t i = 0; i < argc; i++)
        frame_put_text(b, m->argv[i]);
    put_environment(b, &m->environment);
    return frame_end(b, begin);
}

int control_put_keep(struct frame_buffer *b, const struct control_keep *m)
{
    size_t begin = frame_begin(b, CONTROL_KEEP, 0);

    frame_put_u64(b, m->silence_ns);
    frame_put_text(b, m->address);
    frame_put_text(b, m->key);
    put_environment(b, &m->environment);
    return frame_end(b, begin);
}

/* Record that memory is short, and stop reading, as after a malformed payload. */
static void note_no_memory(struct frame_reader *r)
{
    r->bad = r->short_of_memory = true;
}

/* Read a string of any length, owned by the caller. Returns NULL and sets `bad` if the string is
 * cut short or contains a NUL, or if memory is short. */
static char *dup_text(struct frame_reader *r)
{
    uint32_t len = frame_get_u32(r);
    const uint8_t *bytes = frame_get_view(r, len);
    char *text;

    if (!bytes)
        return NULL;
    if (len > 0 && memchr(bytes, 0, len)) {
        r->bad = true;
        return NULL;
    }
    text = malloc((size_t)len + 1);
    if (!text) {
        note_no_memory(r);
        return NULL;
    }
    memcpy(text, bytes, len);
    text[len] = '\0';
    return text;
}

/* Read the number of items that follow, of at least `least` bytes each. Sets `bad` and returns 0 if
 * the payload is too short for them. */
static uint32_t get_count(struct frame_reader *r, size_t least)
{
    uint32_t count = frame_get_u32(r);

    assert(least > 0 && r->at <= r->end);
    if (count > (size_t)(r->end - r->at) / least) {
        r->bad = true;
        return 0;
    }
    return count;
}

static void get_argv(struct frame_reader *r, struct control_plan *plan)
{
    uint32_t argc = get_count(r, 4);

    plan->argv = calloc((size_t)argc + 1, sizeof(*plan->argv));
    if (!plan->argv)
        note_no_memory(r);
    r->bad |= argc == 0;
    for (uint32_t i = 0; i < argc && !r->bad; i++)
        plan->argv[i] = dup_text(r);
}

static void get_environment(struct frame_reader *r, struct environ_list *ret)
{
    uint32_t count = get_count(r, 9);

    ret->entries = calloc((size_t)count + 1, sizeof(*ret->entries));
    if (!ret->entries) {
        note_no_memory(r);
        return;
    }
    ret->cap = (size_t)count + 1;
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        uint8_t how = frame_get_u8(r);
        struct environ_entry *entry = &ret->entries[ret->count++];

        if (how >= ENVIRON_HOWS)
            r->bad = true;
        entry->how = (enum environ_how)how;
        entry->name = dup_text(r);
        entry->value = dup_text(r);
        if (entry->name && (!entry->name[0] || strchr(entry->name, '=')))
            r->bad = true;
    }
}

int control_get_plan(struct frame_reader *r, struct control_plan *ret)
{
    struct control_plan plan = {
        .grace_ns = frame_get_u64(r),
    };

    plan.silence_ns = frame_get_u64(r);
    plan.progress_ns = frame_get_u64(r);
    plan.instances = frame_get_u32(r);
    plan.window = frame_get_u32(r);
    plan.input = frame_get_u8(r);
    plan.quiet = frame_get_u8(r);
    plan.live = frame_get_u8(r);
    plan.at_once = frame_get_u8(r);
    plan.bind_cpus = frame_get_u8(r);
    plan.memory = frame_get_u8(r);
    plan.strict = frame_get_u8(r);
    plan.umask = frame_get_u32(r);
    plan.directory = dup_text(r);
    plan.cpus = dup_text(r);
    plan.nodes = dup_text(r);
    plan.loader_cpus = dup_text(r);
    plan.loader_key = dup_text(r);
    plan.place_instances = frame_get_u32(r);
    plan.place = dup_text(r);
    plan.place_job = dup_text(r);
    plan.place_key = dup_text(r);
    r->bad |= plan.memory >= NUMA_POLICIES || plan.umask > 0777;
    get_argv(r, &plan);
    get_environment(r, &plan.environment);
    if (r->bad) {
        control_plan_fini(&plan);
        return frame_got(r);
    }
    *ret = plan;
    return 0;
}

int control_get_keep(struct frame_reader *r, struct control_keep *ret)
{
    struct control_keep keep = {.silence_ns = frame_get_u64(r)};

    keep.address = dup_text(r);
    keep.key = dup_text(r);
    get_environment(r, &keep.environment);
    if (r->bad) {
        control_keep_fini(&keep);
        return frame_got(r);
    }
    *ret = keep;
    return 0;
}

static void free_secret(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void control_keep_fini(struct control_keep *keep)
{
    free(keep->address);
    free_secret(keep->key);
    environ_list_fini(&keep->environment);
    *keep = (struct control_keep){0};
}

void control_plan_fini(struct control_plan *plan)
{
    free_secret(plan->loader_key);
    free_secret(plan->place_key);
    free(plan->place);
    free(plan->place_job);
    free(plan->directory);
    free(plan->cpus);
    free(plan->nodes);
    free(plan->loader_cpus);
    for (size_t i = 0; plan->argv && plan->argv[i]; i++)
        free(plan->argv[i]);
    free(plan->argv);
    environ_list_fini(&plan->environment);
    *plan = (struct control_plan){0};
}

int control_put_started(struct frame_buffer *b, const struct control_started *m)
{
    size_t begin = frame_begin(b, CONTROL_STARTED, 0);

    frame_put_u32(b, m->pid);
    frame_put_u32(b, (uint32_t)m->cpus_error);
    frame_put_u32(b, (uint32_t)m->memory_error);
    frame_put_u32(b, m->memory);
    frame_put_text(b, m->cpus);
    frame_put_text(b, m->nodes);
    return frame_end(b, begin);
}

int control_get_started(struct frame_reader *r, struct control_started *ret)
{
    struct control_started m = {.pid = frame_get_u32(r)};

    m.cpus_error = (int32_t)frame_get_u32(r);
    m.memory_error = (int32_t)frame_get_u32(r);
    m.memory = frame_get_choice(r, NUMA_POLICIES);
    m.cpus = dup_text(r);
    m.nodes = dup_text(r);
    if (r->bad) {
        control_started_fini(&m);
        return frame_got(r);
    }
    *ret = m;
    return 0;
}

void control_started_fini(struct control_started *started)
{
    free(started->cpus);
    free(started->nodes);
    *started = (struct control_started){0};
}

int control_put_failed(struct frame_buffer *b, const struct control_failed *m)
{
    size_t begin = frame_begin(b, CONTROL_FAILED, 0);

    frame_put_u32(b, (uint32_t)m->step);
    frame_put_u32(b, (uint32_t)m->error);
    frame_put_text(b, m->text);
    return frame_end(b, begin);
}

int control_get_failed(struct frame_reader *r, struct control_failed *ret)
{
    ret->step = (enum control_step)frame_get_choice(r, CONTROL_STEPS);
    ret->error = (int32_t)frame_get_u32(r);
    frame_get_text(r, ret->text, sizeof(ret->text));
    return frame_got(r);
}

int control_put_exited(struct frame_buffer *b, const struct control_exited *m)
{
    size_t begin = frame_begin(b, CONTROL_EXITED, 0);

    frame_put_u32(b, (uint32_t)m->status);
    frame_put_u32(b, (uint32_t)m->cause);
    frame_put_u64(b, m->elapsed_ns);
    frame_put_u64(b, m->user_ns);
    frame_put_u64(b, m->system_ns);
    frame_put_u64(b, m->max_rss_bytes);
    frame_put_u64(b, m->traceback_ns);
    frame_put_u64(b, m->memory_kills);
    frame_put_u64(b, m->reached);
    frame_put_u64(b, m->asked);
    frame_put_u64(b, m->halted);
    return frame_end(b, begin);
}

int control_get_exited(struct frame_reader *r, struct control_exited *ret)
{
    ret->status = (int32_t)frame_get_u32(r);
    ret->cause = (enum control_cause)frame_get_choice(r, CONTROL_CAUSES);
    ret->elapsed_ns = frame_get_u64(r);
    ret->user_ns = frame_get_u64(r);
    ret->system_ns = frame_get_u64(r);
    ret->max_rss_bytes = frame_get_u64(r);
    ret->traceback_ns = frame_get_u64(r);
    ret->memory_kills = frame_get_u64(r);
    ret->reached = frame_get_u64(r);
    ret->asked = frame_get_u64(r);
    ret->halted = frame_get_u64(r);
    return frame_got(r);
}

int control_put_departed(struct frame_buffer *b, const struct control_departed *m)
{
    size_t begin = frame_begin(b, CONTROL_DEPARTED, 0);

    frame_put_u64(b, m->reached);
    frame_put_u32(b, m->first);
    frame_put_bytes(b, m->bits, m->len);
    return frame_end(b, begin);
}

int control_get_departed(struct frame_reader *r, struct control_departed *ret)
{
    ret->reached = frame_get_u64(r);
    ret->first = frame_get_u32(r);
    ret->len = (size_t)(r->end - r->at);
    ret->bits = frame_get_view(r, ret->len);
    r->bad |= ret->len == 0 || ret->len > (UINT32_MAX - ret->first) / 8;
    return frame_got(r);
}

int control_put_stop(struct frame_buffer *b, enum control_type type, const struct control_stop *m)
{
    size_t begin = frame_begin(b, (uint16_t)type, 0);

    frame_put_u64(b, m->proposal);
    frame_put_u64(b, m->step);
    frame_put_u8(b, m->promised);
    return frame_end(b, begin);
}

int control_get_stop(struct frame_reader *r, struct control_stop *ret)
{
    ret->proposal = frame_get_u64(r);
    ret->step = frame_get_u64(r);
    ret->promised = frame_get_u8(r);
    r->bad |= ret->step > STOP_STEP_MAX + 1 || ret->promised > 1;
    return frame_got(r);
}

static int put_stream(struct frame_buffer *b, enum control_type type, enum control_stream stream,
                      const char *bytes, size_t len)
{
    size_t begin = frame_begin(b, (uint16_t)type, 0);

    frame_put_u32(b, (uint32_t)stream);
    frame_put_bytes(b, bytes, len);
    return frame_end(b, begin);
}

int control_put_hung(struct frame_buffer *b, const struct control_hung *m)
{
    size_t begin = frame_begin(b, CONTROL_HUNG, 0);

    frame_put_u64(b, m->idle_ns);
    frame_put_bytes(b, m->text, m->len);
    return frame_end(b, begin);
}

int control_get_hung(struct frame_reader *r, struct control_hung *ret)
{
    ret->idle_ns = frame_get_u64(r);
    if (r->bad)
        return -EPROTO;
    control_get_bytes(r, &ret->text, &ret->len);
    return 0;
}

int control_put_output(struct frame_buffer *b, enum control_stream stream, const char *bytes,
                       size_t len)
{
    return put_stream(b, CONTROL_OUTPUT, stream, bytes, len);
}

int control_put_progress(struct frame_buffer *b, enum control_stream stream, const char *bytes,
                         size_t len)
{
    return put_stream(b, CONTROL_PROGRESS, stream, bytes,
                      len < CONTROL_PROGRESS_MAX ? len : CONTROL_PROGRESS_MAX);
}

int control_get_output(struct frame_reader *r, enum control_stream *stream, const char **bytes,
                       size_t *len)
{
    *stream = (enum control_stream)frame_get_choice(r, CONTROL_STREAMS);
    if (r->bad)
        return -EPROTO;
    control_get_bytes(r, bytes, len);
    return 0;
}

int control_put_topology(struct frame_buffer *b, bool real, const char *xml, size_t len)
{
    size_t begin = frame_begin(b, CONTROL_TOPOLOGY, 0);

    frame_put_u8(b, real);
    frame_put_bytes(b, xml, len);
    return frame_end(b, begin);
}

int control_get_topology(struct frame_reader *r, bool *real, const char **xml, size_t *len)
{
    *real = frame_get_u8(r) != 0;
    if (r->bad)
        return -EPROTO;
    control_get_bytes(r, xml, len);
    return 0;
}

int control_put_bytes(struct frame_buffer *b, enum control_type type, const char *bytes, size_t len)
{
    size_t begin = frame_begin(b, (uint16_t)type, 0);

    frame_put_bytes(b, bytes, len);
    return frame_end(b, begin);
}

void control_get_bytes(struct frame_reader *r, const char **bytes, size_t *len)
{
    *len = (size_t)(r->end - r->at);
    *bytes = (const char *)frame_get_view(r, *len);
}

int control_put_number(struct frame_buffer *b, enum control_type type, uint64_t number)
{
    size_t begin = frame_begin(b, (uint16_t)type, 0);

    frame_put_u64(b, number);
    return frame_end(b, begin);
}

int control_get_number(struct frame_reader *r, uint64_t *ret)
{
    *ret = frame_get_u64(r);
    return frame_got(r);
}

int control_put_empty(struct frame_buffer *b, enum control_type type)
{
    return frame_end(b, frame_begin(b, (uint16_t)type, 0));
}
