/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/control/lines.h"

static void feed(struct lines *l, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t size;
        char *place = lines_reserve(l, &size);

        cr_assert(place != NULL && size > 0);
        size = size < len ? size : len;
        memcpy(place, bytes, size);
        lines_added(l, size);
        bytes += size;
        len -= size;
    }
}

/* Returns the next output, as a string; "" if there is none. */
static char *take(struct lines *l, size_t most, bool flush)
{
    const char *bytes;
    size_t len = lines_peek(l, most, flush, &bytes);
    char *text = strndup(len > 0 ? bytes : "", len);

    lines_drop(l, len);
    return text;
}

static void expect(struct lines *l, size_t most, bool flush, const char *want)
{
    char *got = take(l, most, flush);

    cr_expect(eq(str, got, (char *)want));
    free(got);
}

Test(lines, only_complete_lines)
{
    struct lines l = {0};

    feed(&l, "one\ntw", 6);
    expect(&l, 100, false, "one\n");
    expect(&l, 100, false, "");
    feed(&l, "o\n", 2);
    expect(&l, 100, false, "two\n");
    feed(&l, "rest", 4);
    expect(&l, 100, false, "");
    expect(&l, 100, true, "rest");
    cr_expect(eq(sz, lines_pending(&l), 0));
    lines_fini(&l);
}

Test(lines, no_more_than_requested_unless_one_is_longer)
{
    struct lines l = {0};

    feed(&l, "aa\nbb\ncccccccc\nd\n", 17);
    expect(&l, 6, false, "aa\nbb\n");
    expect(&l, 4, false, "cccccccc\n");
    expect(&l, 1, false, "d\n");
    lines_fini(&l);
}

/* Every byte is passed on once and in order, for all kinds of line lengths and pipe reads. */
Test(lines, nothing_is_lost)
{
    const size_t total = 6 << 20;
    char *in = malloc(total), *out = malloc(total);
    size_t fed = 0, got = 0;
    struct lines l = {0};

    srandom(7);
    for (size_t i = 0; i < total; i++)
        in[i] = random() % 50 == 0 ? '\n' : (char)('a' + i % 26);
    memset(in + (1 << 20), 'x', 3 << 20); /* one line of 3 MiB */
    while (got < total) {
        const char *bytes;
        size_t len;

        if (fed < total && lines_has_room(&l)) {
            size_t n = (size_t)random() % 70000 + 1;

            n = n < total - fed ? n : total - fed;
            feed(&l, in + fed, n);
            fed += n;
        }
        while ((len = lines_peek(&l, 65536, fed == total, &bytes)) > 0) {
            cr_assert(got + len <= total);
            if (fed < total && len < 65536)
                cr_assert(eq(chr, bytes[len - 1], '\n'));
            memcpy(out + got, bytes, len);
            got += len;
            lines_drop(&l, len);
        }
    }
    cr_expect(eq(int, memcmp(in, out, total), 0));
    cr_expect(le(sz, l.cap, 4 * (size_t)LINES_LONGEST), "memory is bounded: %zu", l.cap);
    lines_fini(&l);
    free(in);
    free(out);
}

static void expect_tail(const struct tail *t, size_t most, const char *want)
{
    char text[sizeof(t->bytes) + 1];

    cr_expect(eq(sz, tail_get(t, most, text), strlen(want)));
    cr_expect(eq(str, text, (char *)want));
}

Test(tail, last_lines)
{
    static struct tail t;

    expect_tail(&t, 5, "");
    tail_add(&t, "a\nb\n", 4);
    expect_tail(&t, 5, "a\nb\n");
    expect_tail(&t, 1, "b\n");
    tail_add(&t, "c", 1);
    expect_tail(&t, 2, "b\nc");
}

Test(tail, a_line_without_its_beginning_is_left_out)
{
    static struct tail t;

    for (int i = 0; i < 1000; i++)
        tail_add(&t, "0123456\n", 8);
    tail_add(&t, "end\n", 4);
    for (size_t most = 1; most < 600; most += 100) {
        char text[sizeof(t.bytes) + 1];
        size_t len = tail_get(&t, most, text);

        cr_assert(ge(sz, len, 4));
        cr_expect(eq(str, text + len - 4, (char *)"end\n"));
        cr_expect(most == 1 || strncmp(text, "0123456\n", 8) == 0, "%.10s", text);
    }
}

struct progress_case {
    char text[60], want[40];
};

ParameterizedTestParameters(lines, progress)
{
    static struct progress_case cases[] = {
        {"", ""},
        {"no bar", ""},
        {"\r10%", "10%"},
        {"\r10%\r20%", "20%"},
        {"10%\r20%\r", "20%"},
        {"10%\r", "10%"},
        {"a line\n", ""},
        {"a line\nwith\ra bar\n", ""},
        {"a line\n\r30%", "30%"},
        {"a\rb\nno bar", ""},
        {"\r\r", ""},
    };
    return cr_make_param_array(struct progress_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct progress_case *c, lines, progress)
{
    struct lines l = {0};
    const char *bytes = "";
    size_t size, len;
    char got[40] = "";

    memcpy(lines_reserve(&l, &size), c->text, strlen(c->text));
    lines_added(&l, strlen(c->text));
    len = lines_peek_progress(&l, &bytes);
    memcpy(got, bytes, len);
    cr_expect(eq(str, got, c->want));
    cr_expect(eq(sz, lines_pending(&l), strlen(c->text)), "peeking must not remove anything");
    lines_fini(&l);
}

/* Tracebacks are recognised however the input is split. */
Test(lines, tracebacks_are_seen)
{
    static const char text[] = "TraceTraceback (most recent call last):\n  File x\nTraceback (most";

    for (size_t piece = 1; piece < sizeof(text); piece++) {
        struct traceback t = {0};

        for (size_t at = 0; at < sizeof(text) - 1; at += piece)
            traceback_look(&t, text + at,
                           piece < sizeof(text) - 1 - at ? piece : sizeof(text) - 1 - at, 7);
        cr_expect(eq(u64, t.began_ns, 7));
    }
}

Test(lines, tracebacks_of_a_chain_are_one)
{
    static const char line[] = "Traceback (most recent call last):\n";
    struct traceback t = {0};

    traceback_look(&t, line, sizeof(line) - 1, 10 * NS_PER_SEC);
    traceback_look(&t, line, sizeof(line) - 1, 10 * NS_PER_SEC + 900 * NS_PER_MS);
    traceback_look(&t, line, sizeof(line) - 1, 11 * NS_PER_SEC + 800 * NS_PER_MS);
    cr_expect(eq(u64, t.began_ns, 10 * NS_PER_SEC));
    traceback_look(&t, line, sizeof(line) - 1, 20 * NS_PER_SEC);
    cr_expect(eq(u64, t.began_ns, 20 * NS_PER_SEC));
    traceback_look(&t, "Traceback", 9, 30 * NS_PER_SEC);
    cr_expect(eq(u64, t.began_ns, 20 * NS_PER_SEC));
}

static void count_line(void *arg, const char *line, size_t len)
{
    size_t *count = arg;

    (void)line;
    *count += len;
}

/* A writer that never pauses must not keep the reader from its other work. */
Test(lines, following_an_endless_source_ends, .timeout = 600)
{
    int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    struct lines l = {0};
    size_t taken = 0;

    for (int i = 0; i < 100; i++) {
        lines_follow(&l, &fd, count_line, &taken);
        cr_assert(le(sz, l.cap, 4 * (size_t)LINES_LONGEST), "memory is bounded: %zu", l.cap);
    }
    cr_expect(ge(int, fd, 0));
    cr_expect(gt(sz, taken, LINES_LONGEST));
    lines_fini(&l);
    close(fd);
}

struct numbered {
    unsigned next;
    bool in_order;
};

static void take_number(void *arg, const char *line, size_t len)
{
    struct numbered *n = arg;
    char want[16];

    n->in_order &= (size_t)snprintf(want, sizeof(want), "%u", n->next++) == len &&
                   memcmp(line, want, len) == 0;
}

/* Reading a full pipe takes several calls, which must lose nothing. */
Test(lines, the_rest_comes_with_the_next_call)
{
    struct numbered n = {.in_order = true};
    struct lines l = {0};
    unsigned wrote = 0;
    int fds[2], calls = 0;

    cr_assert(eq(int, pipe2(fds, O_NONBLOCK | O_CLOEXEC), 0));
    (void)fcntl(fds[0], F_SETPIPE_SZ, 1 << 20);
    for (char text[16];; wrote++) {
        int len = snprintf(text, sizeof(text), "%u\n", wrote);

        if (write(fds[1], text, (size_t)len) != len)
            break;
    }
    close(fds[1]);
    for (; fds[0] >= 0; calls++)
        lines_follow(&l, &fds[0], take_number, &n);
    cr_expect(gt(int, calls, 1));
    cr_expect(n.in_order);
    cr_expect(ge(u32, n.next, wrote)); /* the last number may be cut */
    lines_fini(&l);
}

Test(line_limit, prints_some_lines_and_counts_the_rest)
{
    struct line_limit limit = {0};
    unsigned shown = 0;

    for (int i = 0; i < 1000; i++)
        shown += line_limit_pass(&limit, 10 * NS_PER_SEC + (uint64_t)i * NS_PER_MS / 2);
    cr_expect(eq(u32, shown, LINES_A_SECOND));
    cr_expect(eq(u64, line_limit_settle(&limit, 10 * NS_PER_SEC + 600 * NS_PER_MS), 0));
    cr_expect(eq(u64, line_limit_settle(&limit, 11 * NS_PER_SEC), 1000 - LINES_A_SECOND));
    cr_expect(eq(u64, line_limit_settle(&limit, 12 * NS_PER_SEC), 0));
    cr_expect(line_limit_pass(&limit, 12 * NS_PER_SEC));
}
