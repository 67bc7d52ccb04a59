/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/plan/cmdline.h"
#include "launcher/plan/configfile.h"

enum { ARGS_MAX = 32 };

/* A command line such as "plenumrun -n 4 prog", split at spaces ('_' is a space inside a word). */
struct line {
    char text[256];
    char *argv[ARGS_MAX + 1];
    int argc;
};

static int parse(struct cmdline *o, struct line *l, const char *text, struct plenum_error *err)
{
    *l = (struct line){.argc = 0};
    strcpy(l->text, text);
    for (char *w = strtok(l->text, " "); w; w = strtok(NULL, " ")) {
        for (char *c = w; *c; c++)
            if (*c == '_')
                *c = ' ';
        cr_assert(l->argc < ARGS_MAX);
        l->argv[l->argc++] = w;
    }
    cmdline_init(o);
    return cmdline_parse(o, l->argc, l->argv, err);
}

Test(cmdline, defaults)
{
    struct cmdline o;
    struct line l;

    cr_assert(eq(int, parse(&o, &l, "plenumrun prog", NULL), 0));
    cr_expect(eq(str, o.program[0], (char *)"prog"));
    cr_expect(o.program[1] == NULL);
    cr_expect(eq(u32, o.num_instances, 0));
    cr_expect(o.numa_aware);
    cr_expect(o.placement == PLACE_SPREADNUMA);
    cr_expect(o.output.tag == NULL && o.loader == NULL && !o.dry_run && !o.mpi.allow_root);
    cr_expect(eq(u64, o.limits.grace_ns, 10 * NS_PER_SEC));
    cr_expect(eq(u64, o.limits.timeout_ns, 0));
    cmdline_fini(&o);
}

Test(cmdline, the_last_value_of_an_option_counts)
{
    char text[] = "plenumrun -n 2 --grace 1 --host a -n 3 -H b --grace=5 prog -n 9";
    struct plenum_error err = {""};
    struct cmdline o;
    struct line l;

    cr_assert(eq(int, parse(&o, &l, text, &err), 0), "%s", err.text);
    cr_expect(eq(u32, o.num_instances, 3));
    cr_expect(eq(u64, o.limits.grace_ns, 5 * NS_PER_SEC));
    cr_expect(eq(sz, o.hosts.count, 2), "the values of --host add up");
    cmdline_fini(&o);
}

Test(cmdline, hosts_that_come_and_go)
{
    static const struct {
        const char *text, *error; /* NULL: accepted */
    } cases[] = {
        {"--num-hosts 3 --min-hosts 2 --wait-hosts 1m --max-host-failures 2", NULL},
        {"--num-hosts 3 --min-hosts 3", NULL},
        {"--min-hosts 1", NULL},
        {"--replicas-per-host 4", NULL},
        {"--num-hosts 2 --min-hosts 3", "--min-hosts 3 is more than --num-hosts 2"},
        {"--wait-hosts 0", "--wait-hosts needs --num-hosts or --min-hosts"},
        {"--max-host-failures 2", "--max-host-failures needs --num-hosts or"},
        {"--num-hosts 0", "must be 1 to"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct plenum_error err = {""};
        struct cmdline o;
        struct line l;
        char text[200];

        snprintf(text, sizeof(text), "plenumrun %s prog", cases[i].text);
        cr_expect(eq(int, parse(&o, &l, text, &err), cases[i].error ? -EINVAL : 0), "%s: %s", text,
                  err.text);
        cr_expect(cases[i].error == NULL || strstr(err.text, cases[i].error), "%s: %s", text,
                  err.text);
        cmdline_fini(&o);
    }
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");

    cr_assert(ne(ptr, f, NULL));
    fputs(text, f);
    fclose(f);
}

Test(cmdline, reads_host_files_again)
{
    char path[] = "/tmp/plenum-hosts-XXXXXX", text[200];
    struct plenum_error err = {""};
    struct hostlist list;
    struct cmdline o;
    struct line l;

    close(mkstemp(path));
    write_file(path, "b slots=2\n");
    snprintf(text, sizeof(text), "plenumrun --host a --hostfile %s --host c prog", path);
    cr_assert(eq(int, parse(&o, &l, text, NULL), 0));
    cr_assert(eq(sz, o.hosts.count, 3));
    write_file(path, "d\nb slots=3\n");
    cr_assert(eq(int, cmdline_read_hosts(&o, &list, NULL), 0));
    cr_assert(eq(sz, list.count, 4));
    cr_expect(eq(str, list.hosts[1].name, (char *)"d"));
    cr_expect(eq(str, list.hosts[3].name, (char *)"c"));
    cr_expect(eq(u32, list.hosts[2].slots, 3));
    hostlist_fini(&list);
    write_file(path, "d:x\n");
    cr_expect(eq(int, cmdline_read_hosts(&o, &list, &err), -EINVAL));
    unlink(path);
    cr_expect(eq(int, cmdline_read_hosts(&o, &list, &err), -ENOENT));
    cmdline_fini(&o);

    cr_assert(eq(int, parse(&o, &l, "plenumrun --host a prog", NULL), 0));
    cr_expect(eq(int, cmdline_read_hosts(&o, &list, NULL), -ENODATA),
              "there is no file that may have changed");
    cmdline_fini(&o);
    cr_assert(eq(int, parse(&o, &l, "plenumrun prog", NULL), 0));
    cr_expect(eq(int, cmdline_read_hosts(&o, &list, NULL), 0));
    cr_expect(eq(sz, list.count, 0), "the batch system's hosts are not in the list");
    cmdline_fini(&o);
    close(mkstemp(strcpy(path, "/tmp/plenum-hosts-XXXXXX")));
    unlink(path);
    cr_assert(eq(int, mkfifo(path, 0600), 0));
    close(open(path, O_RDWR | O_CLOEXEC));
    cr_assert(eq(int, parse(&o, &l, "plenumrun --host a prog", NULL), 0));
    cr_assert(
        eq(int, options_settings_add(&o.settings, options_find(&cmdline_program, "hostfile"), path),
           0));
    cr_expect(eq(int, cmdline_read_hosts(&o, &list, NULL), -ENODATA),
              "a pipe can be read only once");
    cmdline_fini(&o);
    unlink(path);
}

Test(cmdline, everything_at_once)
{
    struct cmdline o;
    struct line l;
    struct plenum_error err = {""};

    cr_assert(eq(int,
                 parse(&o, &l,
                       "plenumrun -H a,b:2 --num-instances=6 --num-replicas 12 "
                       "--ipus-per-replica 2 -vv -x A=1_2 --export HOME --tag-output "
                       "--grace 500ms --mpi-global-args --mca_x_'a_b' -- -prog -n 7",
                       &err),
                 0),
              "%s", err.text);
    cr_expect(eq(sz, o.hosts.count, 2));
    cr_expect(eq(u32, o.hosts.hosts[1].slots, 2));
    cr_expect(eq(u32, o.num_instances, 6));
    cr_expect(eq(u32, o.num_replicas, 12));
    cr_expect(eq(u32, o.devices_per_replica, 2));
    cr_expect(eq(int, o.verbosity, 2));
    cr_expect(eq(sz, o.exports.count, 2));
    cr_expect(eq(str, o.exports.items[0], (char *)"A=1 2"));
    cr_expect(eq(str, o.output.tag, (char *)"[%i@%h]"));
    cr_expect(eq(u64, o.limits.grace_ns, 500 * NS_PER_MS));
    cr_expect(eq(sz, o.mpi.global_args.count, 3));
    cr_expect(eq(str, o.mpi.global_args.items[2], (char *)"a b"),
              "quotes must hold a word together");
    cr_expect(eq(str, o.program[0], (char *)"-prog"), "the words after -- must be the program");
    cr_expect(eq(str, o.program[1], (char *)"-n"));
    cmdline_fini(&o);
}

Test(cmdline, options_end_at_the_programs_name)
{
    struct cmdline o;
    struct line l;

    cr_assert(eq(int, parse(&o, &l, "plenumrun -n4 prog -n 8 --dry-run", NULL), 0));
    cr_expect(eq(u32, o.num_instances, 4));
    cr_expect(not(o.dry_run));
    cr_expect(eq(str, o.program[1], (char *)"-n"));
    cmdline_fini(&o);
}

struct bad_case {
    char line[100];
    char says[80];
};

ParameterizedTestParameters(cmdline, bad)
{
    static struct bad_case cases[] = {
        {"plenumrun", "no program"},
        {"plenumrun -n 2", "no program"},
        {"plenumrun --nosuch prog", "unknown option --nosuch"},
        {"plenumrun --num-instnces 2 prog", "did you mean --num-instances"},
        {"plenumrun -q prog", "unknown option -q"},
        {"plenumrun -n", "-n needs a value"},
        {"plenumrun --num-instances", "--num-instances needs a value"},
        {"plenumrun -n 0 prog", "--num-instances must be 1 to 1000000, not 0"},
        {"plenumrun -n -1 prog", "--num-instances needs a whole number"},
        {"plenumrun -n 2x prog", "'2x'"},
        {"plenumrun -n 4294967297 prog", "not 4294967297"},
        {"plenumrun --dry-run=1 prog", "--dry-run takes no value"},
        {"plenumrun --host a,,b prog", "--host: the list contains a host without a name"},
        {"plenumrun --hostfile /nonexistent prog", "/nonexistent"},
        {"plenumrun --numa-aware maybe prog", "--numa-aware must be 0 or 1, not 'maybe'"},
        {"plenumrun --process-placement near prog",
         "spreadnuma, compact, core, socket, device, disabled"},
        {"plenumrun --loader 1.2.3.4 prog", "--loader"},
        {"plenumrun -x =1 prog", "NAME"},
        {"plenumrun --grace soon prog", "--grace needs a time"},
        {"plenumrun --start-timeout 0 prog", "--start-timeout must be 1s to 24000h, not 0"},
        {"plenumrun --grace 24001h prog", "--grace must be 0 to 24000h, not 24001h"},
        {"plenumrun --grace 1001d prog", "--grace must be 0 to 1000d, not 1001d"},
        {"plenumrun --timeout 1w prog", "such as 500ms, 30s, 5m, 2h or 7d, not '1w'"},
        {"plenumrun --import-config /dev/zero prog",
         "--import-config: /dev/zero contains a zero byte"},
        {"plenumrun --env-file /dev/zero prog", "--env-file: /dev/zero contains a zero byte"},
        {"plenumrun --hostfile /dev/zero prog", "--hostfile: /dev/zero contains a zero byte"},
        {"plenumrun --print-topology=xml prog", "'xml'"},
        {"plenumrun --stdin 1 prog", "'1'"},
        {"plenumrun --exclude a,,b prog", "--exclude: the list contains a host without a name"},
        {"plenumrun --cpus 3-1 prog", "--cpus: '3-1'"},
        {"plenumrun --cpus=, prog", "--cpus"},
        {"plenumrun --mem-policy near prog", "bind, preferred, interleave, local"},
        {"plenumrun --smt maybe prog", "--smt must be on or off, not 'maybe'"},
        {"plenumrun --host-subnet 10.1.2.3 prog", "'10.1.2.3' is not a network"},
        {"plenumrun --host-subnet 10.0.0.0/33 prog", "not a network"},
        {"plenumrun --port-range 20000 prog", "--port-range: '20000' is not a range of ports"},
        {"plenumrun --port-range 2-1 prog", "--port-range: '2-1' is not a range of ports"},
        {"plenumrun --port-range 0-99 prog", "not a range of ports"},
        {"plenumrun --port-range 65000-65536 prog", "not a range of ports"},
        {"plenumrun --port-range 20000-20014 prog", "'20000-20014' has fewer than 16 ports"},
        {"plenumrun --device-env 1x prog", "--device-env: '1x'"},
        {"plenumrun -x A*B prog", "'*' may only follow the first letters"},
        {"plenumrun -x * prog", "'*' may only follow the first letters"},
        {"plenumrun --env-file /nonexistent prog", "/nonexistent"},
        {"plenumrun --instance-mpi-local-args x prog", "needs an instance and its arguments"},
        {"plenumrun --instance-mpi-local-args a:-x prog", "not 'a:-x'"},
        {"plenumrun --version-format long", "text, full-text or full-json"},
        {"plenumrun --import-config /nonexistent prog", "/nonexistent"},
        {"plenumrun --mpi-local-args 'a prog", "quote"},
    };
    return cr_make_param_array(struct bad_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct bad_case *c, cmdline, bad)
{
    struct cmdline o;
    struct line l;
    struct plenum_error err = {""};

    cr_expect(lt(int, parse(&o, &l, c->line, &err), 0), "%s", c->line);
    cr_expect(strstr(err.text, c->says) != NULL, "%s: '%s'", c->line, err.text);
    cmdline_fini(&o);
}

/* ---- files of options ---- */

static char *write_temporary(const char *text)
{
    char *path = strdup("/tmp/plenum-options-XXXXXX");
    int fd = mkstemp(path);

    cr_assert(fd >= 0);
    cr_assert(eq(int, io_write_all(fd, text, strlen(text)), 0));
    close(fd);
    return path;
}

Test(cmdline, options_from_a_file)
{
    char *path = write_temporary("# a job\n"
                                 "host = a,b:2\n"
                                 "host: c\n"
                                 "\n"
                                 "  --num-instances = 3  \n"
                                 "export = A=1 = 2 # 3\n"
                                 "export = \" B=\\\"x \"\n"
                                 "tag-output =\n"
                                 "numa-aware = no\n"
                                 "strict-binding yes\r\n"
                                 "dry-run = no\n"
                                 "verbose = yes\n"
                                 "verbose\n"
                                 "grace = 3s\n");
    char *text;
    struct cmdline o;
    struct line l;
    struct plenum_error err = {""};

    /* "strict-binding yes" without '=' is an error */
    text = str_format("plenumrun --import-config %s prog", path);
    cr_expect(eq(int, parse(&o, &l, text, &err), -EINVAL));
    cr_expect(strstr(err.text, ":10: 'strict-binding yes' is not") != NULL, "%s", err.text);
    cmdline_fini(&o);
    unlink(path);
    free(path);
    free(text);

    path = write_temporary("grace = 3s\nhost = a\nhost = b\ngrace = 4s\n");
    text = str_format("plenumrun --import-config %s prog", path);
    cr_expect(eq(int, parse(&o, &l, text, &err), -EINVAL));
    cr_expect(strstr(err.text, ":4: grace is set twice: remove one of the two lines") != NULL, "%s",
              err.text);
    cmdline_fini(&o);
    unlink(path);
    free(path);
    free(text);

    path = write_temporary("host = a,b:2\nhost: c\n  --num-instances = 3  \n"
                           "export = A=1 = 2 # 3\nexport = \" B=\\\"x \"\ntag-output =\n"
                           "numa-aware = no\nstrict-binding = yes\r\ndry-run = no\n"
                           "verbose = yes\nverbose\ngrace = 3s\n");
    text = str_format("plenumrun --grace 5 -H x --import-config %s -np 7 prog", path);
    cr_assert(eq(int, parse(&o, &l, text, &err), 0), "%s", err.text);
    cr_expect(eq(sz, o.hosts.count, 1), "the command line must override the file");
    cr_expect(eq(str, o.hosts.hosts[0].name, (char *)"x"));
    cr_expect(eq(u32, o.num_instances, 7), "another name of an option must override it, too");
    cr_expect(eq(u64, o.limits.grace_ns, 5 * NS_PER_SEC));
    cr_expect(eq(sz, o.exports.count, 2));
    cr_expect(eq(str, o.exports.items[0], (char *)"A=1 = 2 # 3"));
    cr_expect(eq(str, o.exports.items[1], (char *)" B=\"x "));
    cr_expect(eq(str, (char *)o.output.tag, (char *)"[%i@%h]"));
    cr_expect(not(o.numa_aware));
    cr_expect(o.strict_binding);
    cr_expect(not(o.dry_run));
    cr_expect(eq(int, o.verbosity, 2));
    cmdline_fini(&o);
    unlink(path);
    free(path);
    free(text);
}

ParameterizedTestParameters(cmdline, bad_files)
{
    static struct bad_case cases[] = {
        {"no-such-option = 1", ":1: there is no option 'no-such-option'"},
        {"host = a\nnum-instances = x", "--num-instances needs a whole number"},
        {"host = \"a", ":1: a quote around the value of host"},
        {"strict-binding = perhaps", ":1: strict-binding must be yes or no, not 'perhaps'"},
        {"import-config = other", "cannot be used in a file"},
        {"host a", "is not 'name = value'"},
    };
    return cr_make_param_array(struct bad_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct bad_case *c, cmdline, bad_files)
{
    char *path = write_temporary(c->line);
    char *text = str_format("plenumrun --import-config %s prog", path);
    struct cmdline o;
    struct line l;
    struct plenum_error err = {""};

    cr_expect(lt(int, parse(&o, &l, text, &err), 0), "%s", c->line);
    cr_expect(strstr(err.text, c->says) != NULL, "%s: '%s'", c->line, err.text);
    cmdline_fini(&o);
    unlink(path);
    free(path);
    free(text);
}

/* Check that two command lines are equal, word for word. */
static void expect_same_settings(const struct cmdline *a, const struct cmdline *b)
{
    cr_assert(eq(sz, a->settings.count, b->settings.count));
    for (size_t i = 0; i < a->settings.count; i++) {
        const char *x = a->settings.list[i].value, *y = b->settings.list[i].value;
        bool same = x && y ? strcmp(x, y) == 0 : x == y;

        cr_expect(same, "'%s' '%s'", x, y);
    }
}

/* Write every option with a valid value, and read it back. */
Test(cmdline, exported_options_can_be_imported)
{
    static const struct {
        const char *name, *value;
    } values[] = {
        {"host", "me@[fd00::1]:22,n[1-2]:4"},
        {"exclude", "n2"},
        {"device-env", "cuda=0,1"},
        {"host-subnet", "10.0.0.0/8"},
        {"port-range", "20000-20015"},
        {"numa-aware", "no"},
        {"process-placement", "core"},
        {"cpus", "0-3"},
        {"mem-policy", "local"},
        {"smt", "off"},
        {"print-topology", "json"},
        {"topology", "synthetic:package:2 core:2 pu:1"},
        {"export", " A=\"b\\ c' "},
        {"loader", "unix:/x"},
        {"tag-output", "%i: "},
        {"starter", "own"},
        {"collectives", "tcp"},
        {"stdin", "none"},
        {"mpi-global-args", "--mca x 'a b'"},
        {"mpi-local-args", "--y"},
        {"instance-mpi-local-args", "1:-x A"},
        {"offline-mode", "yes"},
    };
    struct cmdline a, b;
    struct plenum_error err = {""};
    char *argv[128] = {(char *)"plenumrun"}, *other[6] = {(char *)"plenumrun"};
    char *words[128]; /* argv is permuted */
    int argc = 1, options;
    char path[] = "/tmp/plenum-options-XXXXXX";
    int fd = mkstemp(path);

    cr_assert(fd >= 0);
    close(fd);
    for (size_t i = 0; i < cmdline_program.count; i++) {
        const struct option_def *d = &cmdline_program.defs[i];
        const char *value = d->type == OPTION_TEXT ? "some text" : "17";

        if (!d->name || strstr(d->name, "-config") || strcmp(d->name, "version-format") == 0 ||
            strcmp(d->name, "hostfile") == 0 || strcmp(d->name, "env-file") == 0 ||
            strcmp(d->name, "np") == 0 || strcmp(d->name, "ipus-per-replica") == 0)
            continue; /* the last two are other names of options */
        for (size_t k = 0; k < ARRAY_LEN(values); k++)
            if (strcmp(values[k].name, d->name) == 0)
                value = values[k].value;
        words[argc] = d->arg ? str_format("--%s=%s", d->name, value) : str_format("--%s", d->name);
        argv[argc] = words[argc];
        argc++;
    }
    options = argc;
    argv[argc++] = (char *)"prog";
    cmdline_init(&a);
    cr_assert(eq(int, cmdline_parse(&a, argc, argv, &err), 0), "%s", err.text);
    cr_expect(eq(int, configfile_write(path, &a.settings, false, &err), -EEXIST));
    cr_expect(strstr(err.text, "--overwrite-config") != NULL, "%s", err.text);
    cr_assert(eq(int, configfile_write(path, &a.settings, true, &err), 0), "%s", err.text);
    other[1] = (char *)"--import-config";
    other[2] = path;
    other[3] = (char *)"prog";
    cmdline_init(&b);
    cr_assert(eq(int, cmdline_parse(&b, 4, other, &err), 0), "%s", err.text);
    for (size_t i = 0; i < b.settings.count; i++) /* the option that is only on b's command line */
        if (strcmp(b.settings.list[i].def->name, "import-config") == 0)
            b.settings.count--;
    expect_same_settings(&a, &b);
    cmdline_fini(&a);
    cmdline_fini(&b);
    for (int i = 1; i < options; i++)
        free(words[i]);
    unlink(path);
}

Test(cmdline, environment_files)
{
    char *path = write_temporary("# comment\nA=1\n\nexport B=\"x y\"\nC='#'\n D = 4\n");
    char *text = str_format("plenumrun --env-file %s prog", path);
    struct cmdline o;
    struct line l;
    struct plenum_error err = {""};

    cr_expect(eq(int, parse(&o, &l, text, &err), -EINVAL));
    cr_expect(strstr(err.text, ":6: 'D = 4' is not NAME=value") != NULL, "%s", err.text);
    cr_assert(eq(sz, o.exports.count, 3));
    cr_expect(eq(str, o.exports.items[0], (char *)"A=1"));
    cr_expect(eq(str, o.exports.items[1], (char *)"B=x y"));
    cr_expect(eq(str, o.exports.items[2], (char *)"C=#"));
    cmdline_fini(&o);
    unlink(path);
    free(path);
    free(text);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "re");
    char *text = NULL;
    size_t size = 0;

    cr_assert(f != NULL, "%s", path);
    cr_assert(getdelim(&text, &size, '\0', f) > 0);
    fclose(f);
    return text;
}

/* Returns whether the text contains ".It Fl -NAME" or "Fl -NAME", with NAME as a whole word. */
static bool documents(const char *text, const char *name)
{
    char *mark = str_format("Fl -%s", name);
    const char *p = text;
    bool found = false;

    while (!found && (p = strstr(p, mark))) {
        p += strlen(mark);
        found = *p == ' ' || *p == '\n';
    }
    free(mark);
    return found;
}

Test(cmdline, the_manual_page_has_all_options)
{
    const char *top = getenv("top_srcdir");
    char *path, *text;

    if (!top)
        cr_skip_test("top_srcdir is not set: run by make check");
    path = str_format("%s/docs/man/plenumrun.1", top);
    text = read_file(path);
    for (size_t i = 0; i < cmdline_program.count; i++) {
        const char *name = cmdline_program.defs[i].name;

        if (name)
            cr_expect(documents(text, name), "--%s is not in %s", name, path);
    }
    free(text);
    free(path);
}
