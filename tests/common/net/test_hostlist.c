/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/net/hostlist.h"
#include "common/util/util.h"

/* Writes a list as "a:2 b", which is easy to compare and to read. */
static char *show(const struct hostlist *list)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);

    for (size_t i = 0; i < list->count; i++) {
        const struct hostlist_host *h = &list->hosts[i];

        fprintf(f, "%s", i ? " " : "");
        if (h->user)
            fprintf(f, "%s@", h->user);
        fprintf(f, "%s", h->name);
        if (h->port)
            fprintf(f, "/%u", h->port);
        if (list->hosts[i].slots)
            fprintf(f, ":%u", list->hosts[i].slots);
    }
    fclose(f);
    return text;
}

struct text_case {
    char text[80];
    char want[120];
};

ParameterizedTestParameters(hostlist, good)
{
    static struct text_case cases[] = {
        {"a", "a"},
        {"a,b", "a b"},
        {"h[0-2,4]", "h0 h1 h2 h4"},
        {"h[0-2,4]:3", "h0:3 h1:3 h2:3 h4:3"},
        {"h[08-11]", "h08 h09 h10 h11"},
        {"h[1-3]", "h1 h2 h3"},
        {"h[000,7]", "h000 h7"},
        {"r[0-1]n[1-2].lan", "r0n1.lan r0n2.lan r1n1.lan r1n2.lan"},
        {"x[9-10]y,z:8", "x9y x10y z:8"},
        {"a,b,a", "a:2 b"},
        {"a:2,a:3", "a:5"},
        {"10.0.0.[1-2]", "10.0.0.1 10.0.0.2"},
        {"node-a_1", "node-a_1"},
        {"me@a,b", "me@a b"},
        {"me@b:2222", "me@b/2222"},
        {"me@n[1-2]:2222:4", "me@n1/2222:4 me@n2/2222:4"},
        {"a:2222:4", "a/2222:4"},
        {"a::4", "a::4"}, /* happens to be an IPv6 address */
        {"a,me@a,a:2222:1", "a me@a a/2222:1"},
        {"me@a:22,me@a:22", "me@a/22:2"},
        {"fd00::7", "fd00::7"},
        {"[fd00::7]:4,b", "fd00::7:4 b"},
        {"me@[fd00::7]:2222,[::1]", "me@fd00::7/2222 ::1"},
        {"n1.example.com.", "n1.example.com"},
        {"N1.example.com,n1.Example.com.,n1.example.org", "N1.example.com:2 n1.example.org"},
        {"n1.rack-[1-2].lan.:2", "n1.rack-1.lan:2 n1.rack-2.lan:2"},
        {"10.1.2.3.", "10.1.2.3"},
    };
    return cr_make_param_array(struct text_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct text_case *c, hostlist, good)
{
    struct hostlist list = {0};
    struct plenum_error err = {""};
    char *got;

    cr_expect(eq(int, hostlist_add_text(&list, c->text, &err), 0), "%s: %s", c->text, err.text);
    got = show(&list);
    cr_expect(eq(str, got, c->want), "%s", c->text);
    free(got);
    hostlist_fini(&list);
}

ParameterizedTestParameters(hostlist, bad)
{
    static struct text_case cases[] = {
        /* the input, and words that the message must have */
        {"", "empty"},
        {"a,,b", "without a name"},
        {"a,", "without a name"},
        {"h[0-2", "bracket"},
        {"h0-2]", "bracket"},
        {"h[2-0]", "backwards"},
        {"h[a-b]", "'a-b]' is not a number"},
        {"h[]", "not a number"},
        {"h[1-]", "not a number"},
        {"h[1,]", "not a number"},
        {"h[1[2]]", "bracket"},
        {"h:0", "slots"},
        {"h:", "slots"},
        {"h:x", "slots"},
        {"-oProxyCommand=x", "begin with '-'"},
        {"a b", "' '"},
        {"a;b", "';'"},
        {"me@", "host without a name"},
        {"@a", "user without a name"},
        {"-l@a", "begin with '-'"},
        {"me you@a", "' '"},
        {"me@a:0", "port"},
        {"me@a:70000", "port"},
        {"a:22:0", "slots"},
        {"g::", "port"},
        {"g::4", "port"},
        {"g:22:", "slots"},
        {"a:1:2:3", "slots"},
        {"[fd00::7", "bracket"},
        {"[fd00::7]4", "bracket"},
        {"[fd00::xyz]", "not an IPv6 address"},
        {"h[0-99999999]", "more than"},
        {"h[99999999999999999999]", "not a number"},
    };
    return cr_make_param_array(struct text_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct text_case *c, hostlist, bad)
{
    struct hostlist list = {0};
    struct plenum_error err = {""};

    cr_expect(eq(int, hostlist_add_text(&list, c->text, &err), -EINVAL), "%s", c->text);
    cr_expect(strstr(err.text, c->want) != NULL, "%s: '%s'", c->text, err.text);
    hostlist_fini(&list);
}

Test(hostlist, combinations_are_bounded)
{
    struct hostlist list = {0};
    struct plenum_error err = {""};

    cr_expect(eq(int, hostlist_add_text(&list, "a[0-999]b[0-999]", &err), -EINVAL));
    cr_expect(strstr(err.text, "more than 16384") != NULL, "%s", err.text);
    hostlist_fini(&list);
}

Test(hostlist, remove)
{
    struct hostlist list = {0};
    struct plenum_error err = {""};
    char *got;

    cr_assert(eq(int, hostlist_add_text(&list, "n[1-5]:2,me@b,you@b,me@c:22,me@c:23", &err), 0));
    cr_expect(eq(int, hostlist_remove_text(&list, "n[2-3],n5:7,you@b,c,nobody", &err), 0));
    got = show(&list);
    cr_expect(eq(str, got, (char *)"n1:2 n4:2 me@b"));
    free(got);
    cr_expect(eq(int, hostlist_remove_text(&list, "n[", &err), -EINVAL));
    cr_expect(eq(sz, list.count, 3));
    cr_expect(eq(int, hostlist_add_name(&list, "n[1-2]", 0, &err), -EINVAL),
              "a name must not contain a set");
    hostlist_fini(&list);
}

/* Write `text` to a file, read it back as a host file. */
static int read_text(struct hostlist *list, const char *text, struct plenum_error *err)
{
    char path[] = "/tmp/plenum-hostlist-XXXXXX";
    int fd = mkstemp(path), r;

    cr_assert(fd >= 0);
    cr_assert(eq(int, io_write_all(fd, text, strlen(text)), 0));
    close(fd);
    r = hostlist_add_file(list, path, err);
    unlink(path);
    return r;
}

Test(hostlist, file)
{
    struct hostlist list = {0};
    struct plenum_error err = {""};
    char *got;

    cr_expect(eq(int,
                 read_text(&list,
                           "# the cluster\n"
                           "a slots=2 max_slots=4\n"
                           "\n"
                           "  b[1-2]\tslots=1  # two more\n"
                           "c\r\n"
                           "me@e slots=3 port=2222\n"
                           "f user=you\n"
                           "[fd00::7]:2\n"
                           "d",
                           &err),
                 0),
              "%s", err.text);
    got = show(&list);
    cr_expect(eq(str, got, (char *)"a:2 b1:1 b2:1 c me@e/2222:3 you@f fd00::7:2 d"));
    free(got);
    hostlist_fini(&list);
}

/* Tests files that Open MPI accepts, and files written by Windows editors. */
Test(hostlist, file_in_other_spellings)
{
    struct hostlist list = {0};
    struct plenum_error err = {""};
    char *got;

    cr_expect(eq(int,
                 read_text(&list,
                           "\xef\xbb\xbf"
                           "a slots = 2 max-slots =4\r\n"
                           "b cpu=2\r\n"
                           "c count=3 port= 2222\r\n"
                           "d\tcpus\t=\t4\r\n"
                           "e.lan. user =you\r\n",
                           &err),
                 0),
              "%s", err.text);
    got = show(&list);
    cr_expect(eq(str, got, (char *)"a:2 b:2 c/2222:3 d:4 you@e.lan"));
    free(got);
    hostlist_fini(&list);
    cr_expect(eq(int, read_text(&list, "a\n\xef\xbb\xbf b\n", &err), -EINVAL),
              "a byte order mark must be accepted only at the top");
    hostlist_fini(&list);
    cr_expect(eq(int, read_text(&list, "a slots = auto\n", &err), -EINVAL));
    cr_expect(strstr(err.text, ":1: host 'a': 'auto' is not a number of slots") != NULL, "%s",
              err.text);
    hostlist_fini(&list);
    cr_expect(eq(int, read_text(&list, "\xef\xbb\xbf", &err), -EINVAL),
              "a file with only a byte order mark");
    hostlist_fini(&list);
}

Test(hostlist, file_errors_name_the_line)
{
    struct hostlist list = {0};
    struct plenum_error err = {""};

    cr_expect(eq(int, read_text(&list, "a\nb slot=2\n", &err), -EINVAL));
    cr_expect(strstr(err.text, ":2: 'slot=2'") != NULL, "%s", err.text);
    cr_expect(eq(int, read_text(&list, "n[1-2],m\n", &err), -EINVAL));
    cr_expect(strstr(err.text, "','") != NULL, "a line must have one item: %s", err.text);
    hostlist_fini(&list);
    cr_expect(eq(int, read_text(&list, "# nothing\n", &err), -EINVAL));
    cr_expect(strstr(err.text, "lists no hosts") != NULL, "%s", err.text);
    cr_expect(eq(int, hostlist_add_file(&list, "/nonexistent/hosts", &err), -ENOENT));
    cr_expect(strstr(err.text, "/nonexistent/hosts") != NULL, "%s", err.text);
    hostlist_fini(&list);
}
