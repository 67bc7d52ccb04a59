#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "launcher/cmdline.h"

enum { ARGS_MAX = 32 };

/* "plenumrun -n 4 prog", cut at blanks ('_' stands for a blank inside a word). */
struct line {
    char text[256];
    char *argv[ARGS_MAX + 1];
    int argc;
};

static int parse(struct cmdline *o, struct line *l, const char *text, struct plenum_error *err)
{
    int operands, r;

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
    r = options_parse(&cmdline_program, o, l->argc, l->argv, &operands, err);
    return r == 0 ? cmdline_finish(o, l->argv, operands, err) : r;
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
    cr_expect(o.tag == NULL && o.loader == NULL && !o.dry_run && !o.allow_root);
    cr_expect(eq(u64, o.grace_ns, 10 * NS_PER_SEC));
    cr_expect(eq(u64, o.timeout_ns, 0));
    cmdline_fini(&o);
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
    cr_expect(eq(str, o.tag, (char *)"[%i@%h]"));
    cr_expect(eq(u64, o.grace_ns, 500 * NS_PER_MS));
    cr_expect(eq(sz, o.mpi_global_args.count, 3));
    cr_expect(eq(str, o.mpi_global_args.items[2], (char *)"a b"), "quotes hold a word together");
    cr_expect(eq(str, o.program[0], (char *)"-prog"), "what follows -- is the program");
    cr_expect(eq(str, o.program[1], (char *)"-n"));
    cmdline_fini(&o);
}

Test(cmdline, they_end_at_the_programs_name)
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
    char says[60];
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
        {"plenumrun --host a,,b prog", "--host: a host without a name"},
        {"plenumrun --hostfile /nonexistent prog", "/nonexistent"},
        {"plenumrun --numa-aware maybe prog", "--numa-aware must be 0 or 1, not 'maybe'"},
        {"plenumrun --process-placement near prog", "spreadnuma, compact, disabled"},
        {"plenumrun --loader 1.2.3.4 prog", "--loader"},
        {"plenumrun -x =1 prog", "NAME"},
        {"plenumrun --grace soon prog", "--grace needs a time"},
        {"plenumrun --start-timeout 0 prog", "--start-timeout must be"},
        {"plenumrun --print-topology=xml prog", "'xml'"},
        {"plenumrun --stdin 1 prog", "'1'"},
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

/* Does the text hold ".It Fl -NAME" or "Fl -NAME", NAME being a whole word? */
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

Test(cmdline, the_manual_page_has_all_of_them)
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
