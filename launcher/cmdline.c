/* cmdline.c - the table of options of plenumrun.
 *
 * One row an option: how it is written, what --help says, and where or by which function its value
 * goes into struct cmdline. Parsing and --help read the table (common/options.h); so does the test
 * that holds the manual page against it. A new option is a new row and a field. */
#include "config.h"

#include "launcher/cmdline.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/address.h"
#include "common/error.h"
#include "common/util.h"
#include "launcher/output.h"

enum { COUNT_MAX = 1000000 }; /* instances, replicas */

#define LIMIT_MAX (UINT64_C(1000) * 24 * 3600 * NS_PER_SEC)

static int set_numa_aware(void *target, const char *value, struct plenum_error *err)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"no", "yes"}, {"off", "on"}, {"false", "true"}};
    struct cmdline *c = target;

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        for (int truth = 0; truth < 2; truth++) {
            if (strcmp(value, words[i][truth]) == 0) {
                c->numa_aware = truth != 0;
                return 0;
            }
        }
    }
    return error_set(err, -EINVAL, "--numa-aware must be 0 or 1, not '%s'", value);
}

static int add_item(struct cmdline_list *list, const char *text, size_t len,
                    struct plenum_error *err)
{
    char **items = realloc(list->items, (list->count + 2) * sizeof(*items));

    if (!items)
        return error_set(err, -ENOMEM, "out of memory");
    list->items = items;
    items[list->count] = strndup(text, len);
    if (!items[list->count])
        return error_set(err, -ENOMEM, "out of memory");
    items[++list->count] = NULL;
    return 0;
}

/* The next word of a command line at *p, as a shell would see it (quotes and backslash only), into
 * `word`, which has room for all of the text. */
static int next_word(const char **p, char *word, size_t *len)
{
    char quote = 0;
    const char *c = *p;

    for (*len = 0; *c && (quote || !isspace((unsigned char)*c)); c++) {
        if (quote && *c == quote)
            quote = 0;
        else if (!quote && (*c == '\'' || *c == '"'))
            quote = *c;
        else if (*c == '\\' && quote != '\'' && c[1])
            word[(*len)++] = *++c;
        else
            word[(*len)++] = *c;
    }
    *p = c;
    return quote ? -EINVAL : 0;
}

static int add_words(struct cmdline_list *list, const char *name, const char *value,
                     struct plenum_error *err)
{
    char *word = malloc(strlen(value) + 1);
    const char *p = value;
    size_t len;
    int r = 0;

    if (!word)
        return error_set(err, -ENOMEM, "out of memory");
    while (r == 0) {
        p += strspn(p, " \t\n");
        if (!*p)
            break;
        r = next_word(&p, word, &len);
        if (r < 0)
            (void)error_set(err, r, "%s: a quote in '%s' has no partner", name, value);
        else
            r = add_item(list, word, len, err);
    }
    free(word);
    return r;
}

static int add_global_args(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    return add_words(&c->mpi_global_args, "--mpi-global-args", value, err);
}

static int add_local_args(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    return add_words(&c->mpi_local_args, "--mpi-local-args", value, err);
}

static int add_export(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    if (value[0] == '=' || !value[0])
        return error_set(err, -EINVAL, "--export needs NAME or NAME=VALUE, not '%s'", value);
    return add_item(&c->exports, value, strlen(value), err);
}

static int add_hosts(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    int r = hostlist_add_text(&c->hosts, value, err);

    return r < 0 ? error_prefix(err, r, "--host") : 0;
}

static int add_host_file(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    int r = hostlist_add_file(&c->hosts, value, err);

    return r < 0 ? error_prefix(err, r, "--hostfile") : 0;
}

static int set_placement(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    int r = place_policy_parse(value, &c->placement, err);

    return r < 0 ? error_prefix(err, r, "--process-placement") : 0;
}

static int set_format(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    if (!value || strcmp(value, "text") == 0 || strcmp(value, "yes") == 0)
        c->print_topology = CMDLINE_FORMAT_TEXT;
    else if (strcmp(value, "json") == 0)
        c->print_topology = CMDLINE_FORMAT_JSON;
    else if (strcmp(value, "no") == 0)
        c->print_topology = CMDLINE_FORMAT_NONE;
    else
        return error_set(err, -EINVAL, "--print-topology must be text, json or no, not '%s'",
                         value);
    return 0;
}

static int set_loader(void *target, const char *value, struct plenum_error *err)
{
    struct address addresses[ADDRESS_LIST_MAX];
    struct cmdline *c = target;

    if (strcmp(value, "auto") != 0 && strcmp(value, "none") != 0) {
        int r = address_parse_list(value, addresses, err);

        if (r < 0)
            return error_prefix(err, r, "--loader");
    }
    c->loader = value;
    return 0;
}

static int set_tag(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    int r;

    if (!value)
        value = "[%i@%h]";
    r = output_check_tag(value, err);
    if (r < 0)
        return error_prefix(err, r, "--tag-output");
    c->tag = value;
    return 0;
}

static int set_stdin(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    if (strcmp(value, "0") != 0 && strcmp(value, "none") != 0)
        return error_set(err, -EINVAL, "--stdin must be 0 (instance 0) or none, not '%s'", value);
    c->no_stdin = strcmp(value, "none") == 0;
    return 0;
}

static int say_more(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    (void)value;
    (void)err;
    c->verbosity++;
    return 0;
}

#define FIELD(name) offsetof(struct cmdline, name)

static const struct option_def defs[] = {
    {.help = "Where and how many"},
    {"host", 'H', "LIST", OPTION_CALL, .call = add_hosts,
     .help = "run on these hosts: h[0-2,4] means h0, h1, h2 and h4; h:4 has room for 4 instances "
             "(without it: on this host)"},
    {"hostfile", 0, "FILE", OPTION_CALL, .call = add_host_file,
     .help = "run on the hosts of a file, one a line: NAME [slots=N]"},
    {"num-instances", 'n', "N", OPTION_U32, FIELD(num_instances), 1, COUNT_MAX,
     .help = "start N processes, spread evenly over the hosts (default: as many as a host has "
             "slots, or one)"},
    {"np", 0, "N", OPTION_U32, FIELD(num_instances), 1, COUNT_MAX, .help = NULL},
    {"num-replicas", 0, "N", OPTION_U32, FIELD(num_replicas), 1, COUNT_MAX,
     .help = "run N copies of the model, spread evenly over the instances (default: one each)"},
    {"devices-per-replica", 0, "N", OPTION_U32, FIELD(devices_per_replica), 1, COUNT_MAX,
     .help = "a replica uses N accelerators (default: 1; also --ipus-per-replica)"},
    {"ipus-per-replica", 0, "N", OPTION_U32, FIELD(devices_per_replica), 1, COUNT_MAX,
     .help = NULL},

    {.help = "Placement"},
    {"numa-aware", 0, "0|1", OPTION_CALL, .call = set_numa_aware,
     .help = "bind instances to CPUs and memory (default: 1); 0 is the same as "
             "--process-placement disabled"},
    {"process-placement", 0, "POLICY", OPTION_CALL, .call = set_placement,
     .help = "spreadnuma: divide a host's NUMA nodes among its instances (default); compact: "
             "divide its cores in order; disabled: bind nothing"},
    {"print-topology", 0, "text|json", OPTION_OPTIONAL, .call = set_format,
     .help = "print hosts, instances, replicas and what they are bound to, then run"},
    {"dry-run", 0, NULL, OPTION_FLAG, FIELD(dry_run), .help = "print that, and start nothing"},

    {.help = "Environment of the instances"},
    {"export", 'x', "NAME[=VALUE]", OPTION_CALL, .call = add_export,
     .help = "give them this variable, with its value here or with VALUE"},
    {"loader", 0, "auto|none|ADDRESSES", OPTION_CALL, .call = set_loader,
     .help = "auto: one loader a host for this job, started when it is first asked (default, "
             "unless PLENUM_LOADER is set); none; or loaders that run already, unix:PATH, "
             "separated by commas"},

    {.help = "Input and output"},
    {"only-output-from-instance", 0, "LIST", OPTION_TEXT, FIELD(only_output),
     .help = "show the output of these instances only: 0,2-3"},
    {"tag-output", 0, "TEMPLATE", OPTION_OPTIONAL, .call = set_tag,
     .help = "begin each line with a tag: %i instance, %h host, %p process, %s stream, %t time, %% "
             "percent sign (default template: [%i@%h])"},
    {"stdin", 0, "0|none", OPTION_CALL, .call = set_stdin,
     .help = "who reads our standard input: instance 0 (default) or nobody"},

    {.help = "Limits (a number of seconds, or 500ms, 5m, 2h)"},
    {"grace", 0, "TIME", OPTION_DURATION, FIELD(grace_ns), 0, LIMIT_MAX,
     .help = "from asking an instance to end (SIGTERM) to killing it (default: 10)"},
    {"timeout", 0, "TIME", OPTION_DURATION, FIELD(timeout_ns), 0, LIMIT_MAX,
     .help = "end the job after this time (default: 0, which is never)"},
    {"start-timeout", 0, "TIME", OPTION_DURATION, FIELD(start_timeout_ns), NS_PER_SEC, LIMIT_MAX,
     .help = "give up when not all instances have started in this time (default: 60)"},
    {"heartbeat-timeout", 0, "TIME", OPTION_DURATION, FIELD(heartbeat_timeout_ns), NS_PER_SEC,
     LIMIT_MAX, .help = "a host that says nothing for so long is lost (default: 30)"},

    {.help = "Open MPI"},
    {"mpi-global-args", 0, "ARGUMENTS", OPTION_CALL, .call = add_global_args,
     .help = "further arguments of mpirun"},
    {"mpi-local-args", 0, "ARGUMENTS", OPTION_CALL, .call = add_local_args,
     .help = "further arguments of mpirun for the instances, behind the global ones"},
    {"allow-run-as-root", 0, NULL, OPTION_FLAG, FIELD(allow_root),
     .help = "start a job as root, which is refused otherwise"},

    {.help = "About"},
    {"verbose", 'v', NULL, OPTION_CALL, .call = say_more, .help = "say more; -vv says still more"},
};

const struct options_program cmdline_program = {
    .name = "plenumrun",
    .usage = "[OPTION]... PROGRAM [ARGUMENT]...",
    .summary = "Start the replicas of a training job on this host or on several, watch over them, "
               "and leave nothing behind.",
    .footer = "Exit status: that of the instance that failed first, or 128 and the number of the\n"
              "signal that ended it; 2 wrong usage; 124 --timeout; 125 the job could not be\n"
              "started or a host was lost; 126 the program cannot be executed; 127 there is no\n"
              "such program.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .stop_at_operand = true,
};

void cmdline_init(struct cmdline *cmdline)
{
    *cmdline = (struct cmdline){
        .numa_aware = true,
        .placement = PLACE_SPREADNUMA,
        .grace_ns = 10 * NS_PER_SEC,
        .start_timeout_ns = 60 * NS_PER_SEC,
        .heartbeat_timeout_ns = 30 * NS_PER_SEC,
    };
}

static void list_fini(struct cmdline_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i]);
    free(list->items);
}

void cmdline_fini(struct cmdline *cmdline)
{
    hostlist_fini(&cmdline->hosts);
    list_fini(&cmdline->exports);
    list_fini(&cmdline->mpi_global_args);
    list_fini(&cmdline->mpi_local_args);
}

int cmdline_finish(struct cmdline *cmdline, char **argv, int operands, struct plenum_error *err)
{
    cmdline->program = argv + 1;
    cmdline->program[operands] = NULL;
    if (operands == 0 && !cmdline->dry_run)
        return error_set(err, -EINVAL, "no program is named; --help shows how to call plenumrun");
    return 0;
}
