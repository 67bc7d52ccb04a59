/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/control/control.h"
#include "launcher/values/numa.h"

/* Which allocation of our modules fails, counted from 1; 0: none. */
static unsigned fails;
/* NOLINTBEGIN(bugprone-reserved-identifier): ld --wrap=malloc,--wrap=calloc */
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
/* NOLINTEND(bugprone-reserved-identifier) */

void *__wrap_malloc(size_t size)
{
    return fails > 0 && --fails == 0 ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails > 0 && --fails == 0 ? NULL : __real_calloc(count, size);
}

/* Returns the payload of the one frame in `b`. */
static struct frame_reader payload_of(const struct frame_buffer *b, uint16_t type)
{
    struct frame_header header;
    struct frame_reader r;

    cr_assert(
        eq(i64, frame_parse(b->bytes, b->len, CONTROL_MAX_PAYLOAD, &header, &r), (int64_t)b->len));
    cr_assert(eq(u16, header.type, type));
    return r;
}

Test(control, hello)
{
    struct frame_buffer b = {0};
    struct control_hello in, out;
    struct frame_reader r;
    struct plenum_error err = {""};

    control_hello_init(&in);
    strcpy(in.token, "0123456789abcdef");
    strcpy(in.host, "node7");
    in.instance = 3;
    in.local_index = 1;
    in.free_port = 4711;
    in.place_port = 4712;
    strcpy(in.loader, "unix:@plenum-1000-42");
    cr_assert(eq(int, control_put_hello(&b, &in), 0));
    r = payload_of(&b, CONTROL_HELLO);
    cr_assert(eq(int, control_get_hello(&r, &out), 0));
    cr_expect(eq(u32, out.instance, 3));
    cr_expect(eq(u32, out.local_index, 1));
    cr_expect(eq(u16, out.free_port, 4711));
    cr_expect(eq(u16, out.place_port, 4712));
    cr_expect(eq(str, out.host, (char *)"node7"));
    cr_expect(eq(str, out.loader, (char *)"unix:@plenum-1000-42"));

    cr_expect(eq(int, control_hello_check(&out, "0123456789abcdef", &err), 0));
    cr_expect(eq(int, control_hello_check(&out, "0123456789abcdeF", &err), -EACCES));
    cr_expect(eq(int, control_hello_check(&out, "0123456789abcde", &err), -EACCES));
    strcpy(out.version, "0.0.0");
    cr_expect(eq(int, control_hello_check(&out, "0123456789abcdef", &err), -EPROTONOSUPPORT));
    cr_expect(strstr(err.text, "node7") && strstr(err.text, "0.0.0"), "%s", err.text);
    out.magic[0] = 'x';
    cr_expect(eq(int, control_hello_check(&out, "0123456789abcdef", &err), -EPROTO));
    frame_buffer_fini(&b);
}

static void make_plan(struct control_plan *plan)
{
    static char *argv[] = {(char *)"prog", (char *)"", (char *)":", NULL};

    *plan = (struct control_plan){.grace_ns = 5,
                                  .silence_ns = 6,
                                  .window = 7,
                                  .input = 1,
                                  .bind_cpus = 1,
                                  .memory = NUMA_INTERLEAVE,
                                  .strict = 1,
                                  .umask = 0027,
                                  .loader_cpus = (char *)"7",
                                  .loader_key = (char *)"8899",
                                  .place_instances = 3,
                                  .place = (char *)"1-2-3",
                                  .place_job = (char *)"job",
                                  .place_key = (char *)"7766",
                                  .directory = (char *)"/tmp",
                                  .cpus = (char *)"0-3",
                                  .nodes = (char *)"",
                                  .argv = argv};
    cr_assert(eq(int, environ_list_put(&plan->environment, ENVIRON_SET, "A", "1"), 0));
    cr_assert(eq(int, environ_list_put(&plan->environment, ENVIRON_UNSET, "B", ""), 0));
}

Test(control, plan)
{
    struct frame_buffer b = {0};
    struct control_plan in, out;
    struct frame_reader r;

    make_plan(&in);
    cr_assert(eq(int, control_put_plan(&b, &in), 0));
    r = payload_of(&b, CONTROL_PLAN);
    cr_assert(eq(int, control_get_plan(&r, &out), 0));
    cr_expect(eq(u64, out.grace_ns, 5));
    cr_expect(eq(u64, out.silence_ns, 6));
    cr_expect(eq(u32, out.window, 7));
    cr_expect(eq(u8, out.input, 1));
    cr_expect(eq(u8, out.quiet, 0));
    cr_expect(eq(u8, out.memory, NUMA_INTERLEAVE));
    cr_expect(eq(u8, out.strict, 1));
    cr_expect(eq(u32, out.umask, 0027));
    cr_expect(eq(str, out.loader_cpus, (char *)"7"));
    cr_expect(eq(str, out.loader_key, (char *)"8899"));
    cr_expect(eq(u32, out.place_instances, 3));
    cr_expect(eq(str, out.place, (char *)"1-2-3"));
    cr_expect(eq(str, out.place_job, (char *)"job"));
    cr_expect(eq(str, out.place_key, (char *)"7766"));
    cr_expect(eq(str, out.directory, (char *)"/tmp"));
    cr_expect(eq(str, out.argv[0], (char *)"prog"));
    cr_expect(eq(str, out.argv[1], (char *)""));
    cr_expect(eq(str, out.argv[2], (char *)":"));
    cr_expect(out.argv[3] == NULL);
    cr_expect(eq(sz, out.environment.count, 2));
    cr_expect(out.environment.entries[1].how == ENVIRON_UNSET);
    control_plan_fini(&out);
    environ_list_fini(&in.environment);
    frame_buffer_fini(&b);
}

Test(control, keep_messages)
{
    struct control_keep in = {
        .silence_ns = 6, .address = (char *)"10.1.2.3:0", .key = (char *)"0a1b"};
    struct frame_buffer b = {0};
    struct control_keep out;
    struct frame_reader r;

    cr_assert(eq(int, environ_list_put(&in.environment, ENVIRON_SET, "A", "1"), 0));
    cr_assert(eq(int, control_put_keep(&b, &in), 0));
    environ_list_fini(&in.environment);
    r = payload_of(&b, CONTROL_KEEP);
    cr_assert(eq(int, control_get_keep(&r, &out), 0));
    cr_expect(eq(u64, out.silence_ns, 6));
    cr_expect(eq(str, out.address, (char *)"10.1.2.3:0"));
    cr_expect(eq(str, out.key, (char *)"0a1b"));
    cr_assert(eq(sz, out.environment.count, 1));
    cr_expect(eq(str, out.environment.entries[0].name, (char *)"A"));
    control_keep_fini(&out);
    for (size_t len = FRAME_HEADER_BYTES; len < b.len; len++) {
        struct frame_reader cut = {.at = b.bytes + FRAME_HEADER_BYTES, .end = b.bytes + len};

        cr_expect(eq(int, control_get_keep(&cut, &out), -EPROTO), "cut to %zu", len);
    }
    frame_buffer_fini(&b);
}

/* A lack of memory must not be reported as a malformed message, whichever allocation fails. */
Test(control, shortages_are_reported_as_such)
{
    struct control_keep in = {.address = (char *)"10.1.2.3:0", .key = (char *)"0a1b"}, keep;
    struct control_plan made, plan;
    struct frame_buffer b = {0};
    struct frame_reader r;
    unsigned n = 0;
    int got;

    make_plan(&made);
    cr_assert(eq(int, control_put_plan(&b, &made), 0));
    do {
        r = payload_of(&b, CONTROL_PLAN);
        fails = ++n;
        got = control_get_plan(&r, &plan);
        cr_assert(eq(int, got, fails > 0 ? 0 : -ENOMEM), "allocation %u", n);
    } while (got < 0);
    cr_expect(gt(u32, n, 13)); /* texts, arguments, variables and two lists */
    fails = 0;
    control_plan_fini(&plan);
    environ_list_fini(&made.environment);
    frame_buffer_fini(&b);

    cr_assert(eq(int, control_put_keep(&b, &in), 0));
    r = payload_of(&b, CONTROL_KEEP);
    fails = 2;
    cr_expect(eq(int, control_get_keep(&r, &keep), -ENOMEM));
    frame_buffer_fini(&b);
}

/* A payload that is truncated anywhere, or has any byte changed, is either rejected or parsed,
 * without reading past its end. */
Test(control, malformed_plans)
{
    struct frame_buffer b = {0};
    struct control_plan in, out;

    make_plan(&in);
    cr_assert(eq(int, control_put_plan(&b, &in), 0));
    for (size_t len = FRAME_HEADER_BYTES; len < b.len; len++) {
        /* An exact-size copy, so that the sanitizer catches any overread. */
        size_t n = len - FRAME_HEADER_BYTES;
        uint8_t *cut = malloc(n + 1);
        struct frame_reader r = {.at = cut, .end = cut + n};

        memcpy(cut, b.bytes + FRAME_HEADER_BYTES, n);
        cr_expect(eq(int, control_get_plan(&r, &out), -EPROTO), "cut to %zu", n);
        free(cut);
    }
    for (size_t i = FRAME_HEADER_BYTES; i < b.len; i++) {
        uint8_t before = b.bytes[i];
        struct frame_reader r;

        b.bytes[i] = 0xff;
        r = payload_of(&b, CONTROL_PLAN);
        if (control_get_plan(&r, &out) == 0)
            control_plan_fini(&out);
        b.bytes[i] = before;
    }
    environ_list_fini(&in.environment);
    frame_buffer_fini(&b);
}

Test(control, a_plan_without_program_or_with_a_bad_name)
{
    static char *none[] = {NULL};
    struct frame_buffer b = {0};
    struct control_plan in, out;
    struct frame_reader r;

    make_plan(&in);
    in.argv = none;
    cr_assert(eq(int, control_put_plan(&b, &in), 0));
    r = payload_of(&b, CONTROL_PLAN);
    cr_expect(eq(int, control_get_plan(&r, &out), -EPROTO));
    environ_list_fini(&in.environment);

    make_plan(&in);
    cr_assert(eq(int, environ_list_put(&in.environment, ENVIRON_SET, "C=D", "1"), 0));
    b.len = 0;
    cr_assert(eq(int, control_put_plan(&b, &in), 0));
    r = payload_of(&b, CONTROL_PLAN);
    cr_expect(eq(int, control_get_plan(&r, &out), -EPROTO));
    environ_list_fini(&in.environment);
    frame_buffer_fini(&b);
}

Test(control, short_messages)
{
    const struct control_exited exited = {.status = 0x300,
                                          .cause = CONTROL_CAUSE_ASKED,
                                          .elapsed_ns = 1,
                                          .user_ns = 2,
                                          .system_ns = 3,
                                          .max_rss_bytes = 4,
                                          .traceback_ns = 5,
                                          .memory_kills = 6,
                                          .reached = 7};
    const uint8_t ended[] = {5, 128};
    const struct control_departed departed = {
        .first = 8, .reached = 9, .bits = ended, .len = sizeof(ended)};
    const struct control_failed failed = {
        .step = CONTROL_STEP_EXEC, .error = -ENOENT, .text = "no program"};
    const struct control_started started = {.pid = 9,
                                            .memory_error = -EPERM,
                                            .memory = NUMA_PREFERRED,
                                            .cpus = (char *)"1",
                                            .nodes = (char *)"0"};
    struct frame_buffer b = {0};
    struct control_exited e;
    struct control_departed d;
    struct control_failed f;
    struct control_started s;
    enum control_stream stream;
    struct frame_reader r;
    const char *bytes;
    uint64_t number;
    bool real;
    size_t len;

    cr_assert(eq(int, control_put_exited(&b, &exited), 0));
    r = payload_of(&b, CONTROL_EXITED);
    cr_assert(eq(int, control_get_exited(&r, &e), 0));
    cr_expect(eq(int, memcmp(&e, &exited, sizeof(e)), 0));

    b.len = 0;
    cr_assert(eq(int, control_put_departed(&b, &departed), 0));
    r = payload_of(&b, CONTROL_DEPARTED);
    cr_assert(eq(int, control_get_departed(&r, &d), 0));
    cr_expect(eq(u32, d.first, 8));
    cr_expect(eq(u64, d.reached, 9));
    cr_assert(eq(sz, d.len, sizeof(ended)));
    cr_expect(eq(int, memcmp(d.bits, ended, sizeof(ended)), 0));
    r = (struct frame_reader){.at = b.bytes + FRAME_HEADER_BYTES,
                              .end = b.bytes + FRAME_HEADER_BYTES + 12};
    cr_expect(eq(int, control_get_departed(&r, &d), -EPROTO), "an empty batch");

    b.len = 0;
    cr_assert(eq(int, control_put_failed(&b, &failed), 0));
    r = payload_of(&b, CONTROL_FAILED);
    cr_assert(eq(int, control_get_failed(&r, &f), 0));
    cr_expect(f.step == CONTROL_STEP_EXEC && f.error == -ENOENT);
    cr_expect(eq(str, f.text, (char *)"no program"));
    b.bytes[FRAME_HEADER_BYTES] = CONTROL_STEPS;
    r = payload_of(&b, CONTROL_FAILED);
    cr_expect(eq(int, control_get_failed(&r, &f), -EPROTO), "a step that does not exist");

    b.len = 0;
    cr_assert(eq(int, control_put_started(&b, &started), 0));
    r = payload_of(&b, CONTROL_STARTED);
    cr_assert(eq(int, control_get_started(&r, &s), 0));
    cr_expect(eq(int, s.memory_error, -EPERM));
    cr_expect(eq(u32, s.memory, NUMA_PREFERRED));
    cr_expect(eq(str, s.cpus, (char *)"1"));
    control_started_fini(&s);

    b.len = 0;
    cr_assert(eq(int, control_put_output(&b, CONTROL_STDERR, "a\0b", 3), 0));
    r = payload_of(&b, CONTROL_OUTPUT);
    cr_assert(eq(int, control_get_output(&r, &stream, &bytes, &len), 0));
    cr_expect(stream == CONTROL_STDERR && len == 3 && memcmp(bytes, "a\0b", 3) == 0);
    b.bytes[FRAME_HEADER_BYTES] = CONTROL_STREAMS;
    r = payload_of(&b, CONTROL_OUTPUT);
    cr_expect(eq(int, control_get_output(&r, &stream, &bytes, &len), -EPROTO));

    b.len = 0;
    cr_assert(eq(int, control_put_topology(&b, true, "xml", 4), 0));
    r = payload_of(&b, CONTROL_TOPOLOGY);
    cr_assert(eq(int, control_get_topology(&r, &real, &bytes, &len), 0));
    cr_expect(real && len == 4 && strcmp(bytes, "xml") == 0);

    b.len = 0;
    cr_assert(eq(int, control_put_number(&b, CONTROL_CREDIT, UINT64_MAX), 0));
    r = payload_of(&b, CONTROL_CREDIT);
    cr_assert(eq(int, control_get_number(&r, &number), 0));
    cr_expect(eq(u64, number, UINT64_MAX));
    cr_expect(eq(int, control_get_number(&r, &number), -EPROTO),
              "a second number must not be readable");
    frame_buffer_fini(&b);
}
