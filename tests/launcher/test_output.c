/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/job/output.h"
#include "launcher/plan/tag.h"

static const struct output_instance instances[] = {{.index = 0, .host = "a", .pid = 10},
                                                   {.index = 1, .host = "b", .pid = 11}};

/* Returns the contents of a file. */
static char *content_of(FILE *f)
{
    static char text[4096];
    size_t n;

    rewind(f);
    n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    return text;
}

static struct output *make(const char *tag, uint32_t count, FILE *out, FILE *err)
{
    const struct output_options options = {.tag = tag,
                                           .instances = instances,
                                           .count = count,
                                           .stdout_fd = fileno(out),
                                           .stderr_fd = fileno(err)};
    struct output *o;

    cr_assert(eq(int, output_create(&options, &o, NULL), 0));
    return o;
}

static void put(struct output *o, uint32_t instance, enum control_stream stream, const char *text)
{
    cr_assert(eq(int, output_put(o, instance, stream, text, strlen(text)), 0));
}

Test(output, lines_are_tagged_and_never_split)
{
    FILE *f = tmpfile();
    struct output *o = make("%i@%h %p %s>", 2, f, f);

    put(o, 0, CONTROL_STDOUT, "one\ntwo\n");
    put(o, 1, CONTROL_STDERR, "three\nunfinished");
    put(o, 0, CONTROL_STDOUT, "four\n");
    put(o, 0, CONTROL_STDOUT, "fi");
    put(o, 0, CONTROL_STDOUT, "ve\n");
    put(o, 1, CONTROL_STDOUT, "end");
    cr_assert(eq(int, output_put_own(o, CONTROL_STDERR, "ours\n", 5), 0));
    cr_assert(eq(int, output_flush(o, 5000), 0));
    cr_expect(eq(str, content_of(f),
                 (char *)"0@a 10 out> one\n"
                         "0@a 10 out> two\n"
                         "1@b 11 err> three\n"
                         "1@b 11 err> unfinished\n"
                         "0@a 10 out> four\n"
                         "0@a 10 out> five\n"
                         "1@b 11 out> end\n"
                         "ours\n"));
    output_destroy(o);
    fclose(f);
}

Test(output, without_tags_a_single_instances_output_is_unchanged)
{
    FILE *f = tmpfile();
    struct output *o = make(NULL, 1, f, f);

    put(o, 0, CONTROL_STDOUT, "name? ");
    put(o, 0, CONTROL_STDERR, "[no]");
    put(o, 0, CONTROL_STDOUT, " ok");
    cr_assert(eq(int, output_flush(o, 5000), 0));
    cr_expect(eq(str, content_of(f), (char *)"name? [no] ok"));
    output_destroy(o);
    fclose(f);
}

Test(output, two_files_have_their_own_lines)
{
    FILE *out = tmpfile(), *err = tmpfile();
    struct output *o = make(NULL, 2, out, err);

    put(o, 0, CONTROL_STDOUT, "a");
    put(o, 1, CONTROL_STDERR, "b\n");
    put(o, 0, CONTROL_STDOUT, "c\n");
    cr_assert(eq(int, output_flush(o, 5000), 0));
    cr_expect(eq(str, content_of(out), (char *)"ac\n"));
    cr_expect(eq(str, content_of(err), (char *)"b\n"));
    output_destroy(o);
    fclose(out);
    fclose(err);
}

Test(output, credit_is_returned_when_the_reader_has_read)
{
    FILE *err = tmpfile();
    char block[8192], sink[65536];
    struct output_options options = {.instances = instances, .count = 2, .stderr_fd = fileno(err)};
    struct output *o;
    uint64_t credit = 0;
    uint32_t who = 0;
    size_t got = 0;
    int fds[2];

    memset(block, 'x', sizeof(block) - 1);
    block[sizeof(block) - 1] = '\n';
    cr_assert(eq(int, pipe(fds), 0));
    options.stdout_fd = fds[1];
    cr_assert(eq(int, output_create(&options, &o, NULL), 0));
    for (int i = 0; i < 40; i++) /* five times the size of a pipe */
        cr_assert(eq(int, output_put(o, 1, CONTROL_STDOUT, block, sizeof(block)), 0));
    cr_expect(eq(int, output_flush(o, 100), -ETIMEDOUT));
    cr_expect(lt(u64, output_collect_credit(o, &who), sizeof(block) * 40),
              "no credit is due before anything has been read");
    credit = 0;
    while (got < sizeof(block) * 40) {
        ssize_t n = read(fds[0], sink, sizeof(sink));

        cr_assert(gt(int, (int)n, 0));
        got += (size_t)n;
    }
    cr_assert(eq(int, output_flush(o, 5000), 0));
    credit += output_collect_credit(o, &who);
    cr_expect(gt(u64, credit, 0));
    cr_expect(eq(u32, who, 1));
    cr_expect(eq(u64, output_collect_credit(o, &who), 0), "each byte must be counted once");
    output_destroy(o);
    fclose(err);
}

Test(output, a_reader_that_has_gone_is_reported)
{
    FILE *err = tmpfile();
    struct output_options options = {.instances = instances, .count = 2, .stderr_fd = fileno(err)};
    const char *stream;
    struct output *o;
    uint32_t who;
    int fds[2];

    (void)signal(SIGPIPE, SIG_IGN);
    cr_assert(eq(int, pipe(fds), 0));
    options.stdout_fd = fds[1];
    cr_assert(eq(int, output_create(&options, &o, NULL), 0));
    close(fds[0]);
    put(o, 0, CONTROL_STDOUT, "lost\n");
    put(o, 0, CONTROL_STDERR, "kept\n");
    cr_assert(eq(int, output_flush(o, 5000), 0));
    cr_expect(eq(int, output_get_failure(o, &stream), -EPIPE));
    cr_expect(eq(str, (char *)stream, (char *)"standard output"));
    cr_expect(eq(u64, output_collect_credit(o, &who), 10), "discarded output must make room, too");
    cr_expect(eq(str, content_of(err), (char *)"kept\n"));
    output_destroy(o);
    fclose(err);
}

struct tag_case {
    char tag[20];
    int want;
};

ParameterizedTestParameters(output, tags)
{
    static struct tag_case cases[] = {
        {"", 0},        {"[%i@%h]", 0},  {"%i %h %p %s %t %%", 0},
        {"%", -EINVAL}, {"%q", -EINVAL}, {"a%", -EINVAL},
    };
    return cr_make_param_array(struct tag_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct tag_case *c, output, tags)
{
    struct plenum_error err = {""};

    cr_expect(eq(int, tag_check(c->tag, &err), c->want), "%s", c->tag);
    cr_expect(c->want == 0 || err.text[0]);
}

/* Standard error is not read: messages must use no more memory than their limit, and each must be
 * either written, in order, or counted. */
Test(output, messages_that_are_not_read_are_counted)
{
    enum { PUT = 100000, LIMIT = 1 << 20, PIPE = 64 << 10 };
    struct output_options options = {
        .instances = instances, .count = 2, .stdout_fd = STDOUT_FILENO};
    unsigned long long number, written = 0, last = 0, left_out = 0;
    char line[200];
    struct output *o;
    int fds[2];
    FILE *f;

    cr_assert(eq(int, pipe2(fds, O_CLOEXEC), 0));
    options.stderr_fd = fds[1];
    cr_assert(eq(int, output_create(&options, &o, NULL), 0));
    for (unsigned i = 1; i <= PUT; i++) {
        int len = snprintf(line, sizeof(line), "message %u\n", i);

        cr_assert(eq(int, output_put_message(o, line, (size_t)len), 0));
    }
    cr_assert(eq(int, output_put_own(o, CONTROL_STDERR, "a report\n", 9), 0)); /* has no limit */
    f = fdopen(fds[0], "r");
    while (left_out == 0 && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "message %llu", &number) == 1) {
            cr_assert(gt(u64, number, last));
            last = number;
            written++;
        } else if (strcmp(line, "a report\n") != 0) {
            cr_assert(eq(int,
                         sscanf(line, "plenumrun: warning: %llu messages were left out", &left_out),
                         1),
                      "%s", line);
        }
    }
    cr_expect(eq(u64, written + left_out, PUT));
    cr_expect(lt(u64, written, (LIMIT + 2 * PIPE) / 10));
    cr_assert(eq(int, output_flush(o, 5000), 0));
    output_destroy(o);
    close(fds[1]);
    fclose(f);
}
