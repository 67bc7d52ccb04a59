/* SPDX-License-Identifier: MIT */
/* cmdline.c - plenumrun's table of options.
 *
 * One row per option: its name, its --help text, and the field of struct cmdline or the function
 * that takes its value. Parsing and --help read the table (common/options/options.h), and so does
 * the test that compares it with the manual page. A new option is a new row and a field. */
#include "config.h"

#include "launcher/plan/cmdline.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/net/address.h"
#include "common/util/error_set.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "launcher/plan/configfile.h"
#include "launcher/plan/tag.h"
#include "launcher/values/numa.h"
#include "launcher/values/ranges.h"
#include "launcher/values/subnet.h"
#include "launcher/values/texts.h"

enum { COUNT_MAX = 1000000 }; /* instances, replicas */

#define LIMIT_MAX (UINT64_C(1000) * 24 * 3600 * NS_PER_SEC)

int cmdline_parse_truth(const char *text, bool *ret)
{
    static const char *const words[][2] = {
        {"0", "1"}, {"no", "yes"}, {"off", "on"}, {"false", "true"}};

    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        for (int truth = 0; truth < 2; truth++) {
            if (strcmp(text, words[i][truth]) == 0) {
                *ret = truth != 0;
                return 0;
            }
        }
    }
    return -EINVAL;
}

static int set_numa_aware(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    return cmdline_parse_truth(value, &c->numa_aware) < 0
               ? error_set(err, -EINVAL, "--numa-aware must be 0 or 1, not '%s'", value)
               : 0;
}

static int set_smt(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    bool on;

    if (cmdline_parse_truth(value, &on) < 0)
        return error_set(err, -EINVAL, "--smt must be on or off, not '%s'", value);
    c->first_threads = !on;
    return 0;
}

static int set_offline(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    c->dry_run = true;
    return value && cmdline_parse_truth(value, &c->dry_run) < 0
               ? error_set(err, -EINVAL, "--offline-mode must be yes or no, not '%s'", value)
               : 0;
}

static int add_item(struct texts *list, const char *text, size_t len, struct plenum_error *err)
{
    int r = texts_add(list, text, len);

    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

/* Copy the next word at *p to `word`, which has room for all of *p, and advance *p. Quotes and
 * backslashes work as in a shell. Returns 0, or -EINVAL if a quote is unmatched. */
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

static int add_words(struct texts *list, const char *name, const char *value,
                     struct plenum_error *err)
{
    char *word = malloc(strlen(value) + 1);
    const char *p = value;
    size_t len;
    int r = 0;

    if (!word)
        return error_set(err, -ENOMEM, "out of memory");
    for (p += strspn(p, " \t\n"); *p; p += strspn(p, " \t\n")) {
        r = next_word(&p, word, &len);
        if (r < 0)
            (void)error_set(err, r, "%s: a quote in '%s' is unmatched", name, value);
        else
            r = add_item(list, word, len, err);
        if (r < 0)
            break;
    }
    free(word);
    return r;
}

static int add_global_args(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    return add_words(&c->mpi.global_args, "--mpi-global-args", value, err);
}

static int add_local_args(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    return add_words(&c->mpi.local_args, "--mpi-local-args", value, err);
}

/* Parse "3:--mca btl_tcp_links 2". */
static int add_instance_args(void *target, const char *value, struct plenum_error *err)
{
    static const char name[] = "--instance-mpi-local-args";
    struct cmdline *c = target;
    struct instance_args *args;
    size_t len = strcspn(value, ":");
    char *number = strndup(value, len);
    uint64_t instance = 0;
    int r;

    if (!number)
        return error_set(err, -ENOMEM, "out of memory");
    r = value[len] ? parse_u64(number, COUNT_MAX - 1, &instance) : -EINVAL;
    free(number);
    if (r < 0)
        return error_set(err, -EINVAL,
                         "%s needs an instance and its arguments, 3:ARGUMENTS, not "
                         "'%s'",
                         name, value);
    if (array_grow(&c->mpi.instance_args, &c->mpi.instance_args_cap, c->mpi.num_instance_args,
                   sizeof(*args)) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    args = &c->mpi.instance_args[c->mpi.num_instance_args++];
    *args = (struct instance_args){.instance = (uint32_t)instance};
    return add_words(&args->words, name, value + len + 1, err);
}

static int add_export(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    const char *star = strchr(value, '*'), *equals = strchr(value, '=');

    if (value[0] == '=' || !value[0])
        return error_set(err, -EINVAL, "--export needs NAME or NAME=VALUE, not '%s'", value);
    if (star && (!equals || star < equals) && (star[1] || star == value))
        return error_set(err, -EINVAL,
                         "--export '%s': '*' may only follow the first letters of names", value);
    return add_item(&c->exports, value, strlen(value), err);
}

int cmdline_unquote(char *text)
{
    char *value = strchr(text, '=');
    size_t len;

    if (!value || value == text || strcspn(text, " \t\"'") < (size_t)(value - text))
        return -EINVAL;
    value++;
    len = strlen(value);
    if (len >= 2 && (*value == '"' || *value == '\'') && value[len - 1] == *value) {
        memmove(value, value + 1, len - 2);
        value[len - 2] = '\0';
    }
    return 0;
}

/* Read a file of NAME=value lines. */
static int add_env_file(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    FILE *file = fopen(value, "re");
    char *line = NULL;
    size_t cap = 0;
    int number = 0, r = 0;

    if (!file) {
        r = -errno;
        return error_set(err, r, "--env-file: cannot read %s: %s", value, strerror(-r));
    }
    while ((r = text_read_line(file, value, &line, &cap, err)) > 0) {
        char *text = line + strspn(line, " \t"), *end = line + strlen(line);

        number++;
        while (end > text && (end[-1] == '\n' || end[-1] == '\r'))
            *--end = '\0';
        if (*text == '\0' || *text == '#')
            continue;
        if (strncmp(text, "export ", 7) == 0)
            text += 7;
        r = cmdline_unquote(text);
        if (r < 0)
            (void)error_set(err, r, "--env-file %s:%d: '%s' is not NAME=value", value, number,
                            text);
        else
            r = add_item(&c->exports, text, strlen(text), err);
        if (r < 0)
            goto out;
    }
    if (r < 0)
        (void)error_prefix(err, r, "--env-file");
out:
    free(line);
    (void)fclose(file);
    return r;
}

static int add_excluded(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    struct hostlist list = {0};
    int r = hostlist_add_text(&list, value, err);

    hostlist_fini(&list);
    return r < 0 ? error_prefix(err, r, "--exclude")
                 : add_item(&c->excluded, value, strlen(value), err);
}

static int set_device_env(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    int r;

    device_pool_fini(&c->pool);
    r = device_pool_parse(value, &c->pool, err);
    return r < 0 ? error_prefix(err, r, "--device-env") : 0;
}

static int set_host_subnet(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    struct subnet subnet;
    int r = subnet_parse(value, &subnet, err);

    c->host_subnet = value;
    return r < 0 ? error_prefix(err, r, "--host-subnet") : 0;
}

static int set_ports(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    int r = ports_parse(value, &c->ports, err);

    return r < 0 ? error_prefix(err, r, "--port-range") : 0;
}

static int set_cpus(void *target, const char *value, struct plenum_error *err)
{
    unsigned long words[RANGES_WORDS(NUMA_CPUS_MAX)] = {0};
    struct cmdline *c = target;
    int r = ranges_parse(value, words, NUMA_CPUS_MAX, err);

    if (r == 0 && ranges_count(words, NUMA_CPUS_MAX) == 0)
        r = error_set(err, -EINVAL, "the list is empty");
    c->cpus = value;
    return r < 0 ? error_prefix(err, r, "--cpus") : 0;
}

static int set_memory(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    int r = numa_policy_parse(value, &c->memory, err);

    return r < 0 ? error_prefix(err, r, "--mem-policy") : 0;
}

static int add_topology(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    return add_item(&c->topologies, value, strlen(value), err);
}

static int set_version(void *target, const char *value, struct plenum_error *err)
{
    static const char *const names[] = {[CMDLINE_VERSION_TEXT] = "text",
                                        [CMDLINE_VERSION_FULL_TEXT] = "full-text",
                                        [CMDLINE_VERSION_FULL_JSON] = "full-json"};
    struct cmdline *c = target;

    for (size_t i = CMDLINE_VERSION_TEXT; i < ARRAY_LEN(names); i++) {
        if (strcmp(value, names[i]) == 0) {
            c->version = (enum cmdline_version)i;
            return 0;
        }
    }
    return error_set(err, -EINVAL,
                     "--version-format must be text, full-text or full-json, not '%s'", value);
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
        c->output.table = TABLE_TEXT;
    else if (strcmp(value, "json") == 0)
        c->output.table = TABLE_JSON;
    else if (strcmp(value, "no") == 0)
        c->output.table = TABLE_NONE;
    else
        return error_set(err, -EINVAL, "--print-topology must be text, json or no, not '%s'",
                         value);
    return 0;
}

static int set_verify(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    double share;

    if (parse_percent(value, &share) < 0)
        return error_set(err, -EINVAL, "--verify-batches needs a percentage, 0 to 100, not '%s'",
                         value);
    c->verify = value;
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

static int add_loader_hosts(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    int r = hostlist_add_text(&c->loader_hosts, value, err);

    return r < 0 ? error_prefix(err, r, "--loader-host") : 0;
}

static int set_starter(void *target, const char *value, struct plenum_error *err)
{
    static const char *const names[] = {
        [STARTER_AUTO] = "auto", [STARTER_MPIRUN] = "mpirun", [STARTER_OWN] = "own"};
    struct cmdline *c = target;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (strcmp(value, names[i]) == 0) {
            c->mpi.starter = (enum starter_choice)i;
            return 0;
        }
    }
    return error_set(err, -EINVAL, "--starter must be auto, mpirun or own, not '%s'", value);
}

static int set_collectives(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    if (strcmp(value, "mpi") != 0 && strcmp(value, "tcp") != 0)
        return error_set(err, -EINVAL, "--collectives must be mpi or tcp, not '%s'", value);
    c->mpi.tcp_collectives = *value == 't';
    return 0;
}

static int set_tag(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;
    int r;

    if (!value)
        value = "[%i@%h]";
    r = tag_check(value, err);
    if (r < 0)
        return error_prefix(err, r, "--tag-output");
    c->output.tag = value;
    return 0;
}

static int set_stdin(void *target, const char *value, struct plenum_error *err)
{
    struct cmdline *c = target;

    if (strcmp(value, "0") != 0 && strcmp(value, "none") != 0)
        return error_set(err, -EINVAL, "--stdin must be 0 (instance 0) or none, not '%s'", value);
    c->output.no_stdin = strcmp(value, "none") == 0;
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
    {.help = "Hosts and counts"},
    {"host", 'H', "LIST", OPTION_CALL, .call = add_hosts, .repeats = true,
     .help = "run on these hosts: h[0-2,4] means h0, h1, h2 and h4; h:4 has room for 4 "
             "instances; user@h:2222 uses port 2222 (default: the hosts of the Slurm, PBS, SGE, "
             "OAR, Cobalt or LSF allocation, otherwise this host)"},
    {"hostfile", 0, "FILE", OPTION_CALL, .call = add_host_file, .repeats = true,
     .help = "run on the hosts in a file, one per line: NAME [slots=N] [user=NAME] [port=N]"},
    {"exclude", 0, "LIST", OPTION_CALL, .call = add_excluded, .repeats = true,
     .help = "leave these hosts out"},
    {"num-hosts", 0, "N", OPTION_U32, FIELD(num_hosts), 1, HOSTLIST_MAX,
     .help = "run on N of the hosts; the others are spares, which replace hosts that fail "
             "(default: all)"},
    {"min-hosts", 0, "N", OPTION_U32, FIELD(min_hosts), 1, HOSTLIST_MAX,
     .help = "start with fewer hosts, but at least N, if the others are not ready (default: "
             "--num-hosts, or all)"},
    {"num-instances", 'n', "N", OPTION_U32, FIELD(num_instances), 1, COUNT_MAX,
     .help = "start N processes, spread evenly over the hosts (default: as many as a host has "
             "slots, or one)"},
    {"np", 0, "N", OPTION_U32, FIELD(num_instances), 1, COUNT_MAX, .help = NULL},
    {"num-replicas", 0, "N", OPTION_U32, FIELD(num_replicas), 1, COUNT_MAX,
     .help = "run N copies of the model, spread evenly over the instances (default: one each)"},
    {"replicas-per-host", 0, "N", OPTION_U32, FIELD(replicas_per_host), 1, COUNT_MAX,
     .help = "run N copies of the model on each host, however many hosts there are"},
    {"allow-uneven", 0, NULL, OPTION_FLAG, FIELD(allow_uneven),
     .help = "allow replicas that do not divide evenly: the first instances run one more"},
    {"devices-per-replica", 0, "N", OPTION_U32, FIELD(devices_per_replica), 1, COUNT_MAX,
     .help = "each replica uses N accelerators (default: 1; also --ipus-per-replica)"},
    {"ipus-per-replica", 0, "N", OPTION_U32, FIELD(devices_per_replica), 1, COUNT_MAX,
     .help = NULL},
    {"device-env", 0, "NAME[=LIST]", OPTION_CALL, .call = set_device_env,
     .help = "pass each instance its own devices in this variable, such as CUDA_VISIBLE_DEVICES "
             "(or cuda, rocr, hip, oneapi, ze, habana, tpu), from LIST, the variable's current "
             "value, or 0, 1, ..."},

    {.help = "Network"},
    {"host-subnet", 0, "ADDRESS/BITS", OPTION_CALL, .call = set_host_subnet,
     .help = "use this network between the hosts (default: one that they all share)"},
    {"port-range", 0, "FIRST-LAST", OPTION_CALL, .call = set_ports,
     .help = "let plenumrun and Open MPI listen only on these TCP ports, for firewalls between the "
             "hosts (default: any)"},
    {"no-host-check", 0, NULL, OPTION_FLAG, FIELD(no_host_check),
     .help = "do not check the hosts before the job starts"},
    {"health-check", 0, "COMMAND", OPTION_TEXT, FIELD(health_check),
     .help = "run this shell command on each host before each start: status 0 if the host is "
             "healthy, 1 if it is not"},

    {.help = "Placement"},
    {"numa-aware", 0, "0|1", OPTION_CALL, .call = set_numa_aware,
     .help = "bind instances to CPUs and memory (default: 1); 0 is the same as "
             "--process-placement disabled"},
    {"process-placement", 0, "POLICY", OPTION_CALL, .call = set_placement,
     .help = "spreadnuma: divide a host's NUMA nodes among its instances (default); compact: "
             "divide its cores in order; core: one core each; socket: divide its sockets; device: "
             "next to the accelerators; disabled: bind nothing"},
    {"cpus", 0, "LIST", OPTION_CALL, .call = set_cpus,
     .help = "use only these CPUs of each host: 0-7,16-23"},
    {"mem-policy", 0, "POLICY", OPTION_CALL, .call = set_memory,
     .help = "where memory comes from: bind (only the instance's NUMA nodes; default), preferred "
             "(these first), interleave (these in turn), or local (the thread's node)"},
    {"smt", 0, "on|off", OPTION_CALL, .call = set_smt,
     .help = "off: use one hardware thread per core (default: on)"},
    {"reserve-cores", 0, "N", OPTION_U32, FIELD(reserve_cores), 0, COUNT_MAX,
     .help = "reserve N cores of each host for the loader, spread over its NUMA nodes (default: 0: "
             "the loader shares the instances' cores)"},
    {"strict-binding", 0, NULL, OPTION_FLAG, FIELD(strict_binding),
     .help = "end the job if an instance cannot be bound as planned (default: only warn)"},
    {"print-topology", 0, "text|json", OPTION_OPTIONAL, .call = set_format,
     .help = "print the hosts, instances, replicas and their bindings, then run"},
    {"dry-run", 0, NULL, OPTION_FLAG, FIELD(dry_run),
     .help = "print the hosts, instances, replicas and their bindings, and start nothing"},
    {"offline-mode", 0, "yes|no", OPTION_OPTIONAL, .call = set_offline, .help = NULL},
    {"topology", 0, "SOURCE", OPTION_CALL, .call = add_topology, .repeats = true,
     .help =
         "plan for other machines and start nothing: a FILE.xml from lstopo, or "
         "synthetic:'package:2 [numa] core:8 pu:2'; give it once for all hosts, or once for each"},

    {.help = "Environment of the instances"},
    {"export", 'x', "NAME[=VALUE]", OPTION_CALL, .call = add_export, .repeats = true,
     .help = "pass the instances this variable, with its current value or with VALUE; PREFIX*: "
             "pass all variables with this prefix"},
    {"env-file", 0, "FILE", OPTION_CALL, .call = add_env_file, .repeats = true,
     .help = "pass the instances the variables in a file, one NAME=value per line"},
    {"loader", 0, "auto|none|ADDRESSES", OPTION_CALL, .call = set_loader,
     .help = "auto: one loader per host for this job, started when first needed (default, unless "
             "PLENUM_LOADER is set); none: no loader; otherwise use these running loaders: "
             "unix:PATH or tcp:HOST:PORT, separated by commas"},
    {"status-port", 0, "PORT", OPTION_U32, FIELD(status_port), 0, 65535,
     .help = "serve the status page of the job's own loader at http://127.0.0.1:PORT/ on each "
             "host that runs instances (0: any free port)"},
    {"loader-host", 0, "LIST", OPTION_CALL, .call = add_loader_hosts, .repeats = true,
     .help = "run loaders on these hosts, which run no instances; they render batches for the "
             "whole job"},
    {"verify-batches", 0, "P%", OPTION_CALL, .call = set_verify,
     .help = "render P percent of the batches on two loaders and end the job if they differ "
             "(default: 0)"},

    {.help = "Input and output"},
    {"only-output-from-instance", 0, "LIST", OPTION_TEXT, FIELD(output.only),
     .help = "show only the output of these instances: 0,2-3"},
    {"tag-output", 0, "TEMPLATE", OPTION_OPTIONAL, .call = set_tag,
     .help = "begin each line with a tag: %i instance, %h host, %p process, %s stream, %t time, "
             "%% percent sign (default template: [%i@%h])"},
    {"output-dir", 0, "DIR", OPTION_TEXT, FIELD(output.folder),
     .help = "also write the output to files in DIR, one per instance and stream"},
    {"result", 0, "FILE", OPTION_TEXT, FIELD(output.result),
     .help = "write a report on each instance to FILE, as JSON"},
    {"stdin", 0, "0|none", OPTION_CALL, .call = set_stdin,
     .help = "pass standard input to instance 0 (default) or to none"},

    {.help = "Limits (a number of seconds, or 500ms, 5m, 2h)"},
    {"grace", 0, "TIME", OPTION_DURATION, FIELD(limits.grace_ns), 0, LIMIT_MAX,
     .help = "time between asking an instance to end (SIGTERM) and killing it (default: 10)"},
    {"timeout", 0, "TIME", OPTION_DURATION, FIELD(limits.timeout_ns), 0, LIMIT_MAX,
     .help = "end the job after this time (default: 0, never)"},
    {"start-timeout", 0, "TIME", OPTION_DURATION, FIELD(limits.start_timeout_ns), NS_PER_SEC,
     LIMIT_MAX, .help = "give up if not all instances have started within this time (default: 60)"},
    {"heartbeat-timeout", 0, "TIME", OPTION_DURATION, FIELD(limits.heartbeat_timeout_ns),
     NS_PER_SEC, LIMIT_MAX,
     .help = "consider a host lost after this time without a sign of life (default: 30)"},
    {"progress-timeout", 0, "TIME", OPTION_DURATION, FIELD(limits.progress_timeout_ns), NS_PER_SEC,
     LIMIT_MAX,
     .help = "if an instance takes no batch and reports no step for this long, show its stacks and "
             "end the job (default: never)"},
    {"max-restarts", 0, "N", OPTION_U32, FIELD(max_restarts), 0, COUNT_MAX,
     .help = "restart the job at most N times if an instance fails or a host is lost (default: "
             "0)"},

    {"max-restarts-without-progress", 0, "N", OPTION_U32, FIELD(max_idle_restarts), 1, COUNT_MAX,
     .help = "end the job after N starts in a row without progress (default: no limit)"},
    {"progress-file", 0, "FILE", OPTION_TEXT, FIELD(progress_file),
     .help = "the program's checkpoint: a start that has written it has made progress"},
    {"wait-hosts", 0, "TIME", OPTION_DURATION, FIELD(wait_hosts_ns), 0, LIMIT_MAX,
     .help = "with --num-hosts or --min-hosts: wait at most this long until enough hosts are ready "
             "(default: 0 for the first start, 10m for a restart)"},
    {"max-host-failures", 0, "N", OPTION_U32, FIELD(max_host_failures), 1, COUNT_MAX,
     .help = "with --num-hosts or --min-hosts: leave out a host that has failed N times (default: "
             "3)"},

    {.help = "Preemption"},
    {"stop-command", 0, "COMMAND", OPTION_TEXT, FIELD(stop.command),
     .help = "run this shell command now and then; when it ends with status 0, stop the programs "
             "at the same step, as after SIGTERM or SIGUSR1"},
    {"stop-poll", 0, "TIME", OPTION_DURATION, FIELD(stop.poll_ns), 100 * NS_PER_MS, LIMIT_MAX,
     .help = "time from one start of --stop-command to the next (default: 5)"},
    {"stop-timeout", 0, "TIME", OPTION_DURATION, FIELD(stop.timeout_ns), NS_PER_SEC, LIMIT_MAX,
     .help = "end the job if programs that were asked to stop have not reached a common step "
             "within this time (default: 30)"},

    {.help = "Open MPI"},
    {"starter", 0, "auto|mpirun|own", OPTION_CALL, .call = set_starter,
     .help = "start instances with mpirun, or with plenumrun's own starter, which is for a single "
             "host and programs without MPI (auto, default: mpirun; on one host, own if mpirun is "
             "missing or fails)"},
    {"collectives", 0, "mpi|tcp", OPTION_CALL, .call = set_collectives,
     .help = "carry Plenum's collectives between hosts with MPI (default), or over encrypted TCP "
             "connections"},
    {"mpi-global-args", 0, "ARGUMENTS", OPTION_CALL, .call = add_global_args, .repeats = true,
     .help = "additional arguments for mpirun"},
    {"mpi-local-args", 0, "ARGUMENTS", OPTION_CALL, .call = add_local_args, .repeats = true,
     .help = "additional arguments for mpirun that apply to the instances, after those of "
             "--mpi-global-args"},
    {"instance-mpi-local-args", 0, "I:ARGUMENTS", OPTION_CALL, .call = add_instance_args,
     .repeats = true, .help = "additional arguments for mpirun that apply only to instance I"},
    {"allow-run-as-root", 0, NULL, OPTION_FLAG, FIELD(mpi.allow_root),
     .help = "start the job as root, which is otherwise rejected"},

    {.help = "Configuration"},
    {"import-config", 0, "FILE", OPTION_TEXT, FIELD(import_config),
     .help = "read options from a file of 'name = value' lines; the command line overrides it"},
    {"export-config", 0, "FILE", OPTION_TEXT, FIELD(export_config),
     .help = "write the options to a file for --import-config; without a program, do nothing else"},
    {"overwrite-config", 0, NULL, OPTION_FLAG, FIELD(overwrite_config),
     .help = "let --export-config replace an existing file"},

    {.help = "About"},
    {"verbose", 'v', NULL, OPTION_CALL, .call = say_more,
     .help = "print more; -vv prints even more"},
    {"version-format", 0, "FORMAT", OPTION_CALL, .call = set_version,
     .help = "print the version: text, or full-text or full-json to add the versions of everything "
             "that plenumrun uses"},
};

static const struct option_words words[] = {
    {"host", "@hosts"},
    {"exclude", "@hosts"},
    {"loader-host", "@hosts"},
    {"device-env", "cuda rocr hip oneapi ze habana tpu"},
    {"process-placement", "spreadnuma compact core socket device disabled"},
    {"mem-policy", "bind preferred interleave local"},
    {"topology", "@files"},
    {"export", "@variables"},
    {"version-format", "text full-text full-json"},
    {0},
};

const struct options_program cmdline_program = {
    .name = "plenumrun",
    .usage = "[OPTION]... PROGRAM [ARGUMENT]...",
    .summary = "Start the replicas of a training job on this host or on several, supervise them, "
               "and leave nothing behind.",
    .footer = "Exit status: that of the instance that failed first, or 128 plus the number of\n"
              "the signal that ended it; 2 usage error; 75 stopped as requested, start it\n"
              "again to continue; 93 no progress; 96 too few hosts are ready; 123 output or\n"
              "the result was lost; 124 --timeout or --stop-timeout; 125 the job could not be\n"
              "started or a host was lost; 126 the program cannot be executed; 127 there is no\n"
              "such program.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
    .stop_at_operand = true,
    .one_dash = "np",
    .words = words,
};

void cmdline_init(struct cmdline *cmdline)
{
    *cmdline = (struct cmdline){
        .numa_aware = true,
        .placement = PLACE_SPREADNUMA,
        .status_port = SETTINGS_NO_PORT,
        .memory = NUMA_BIND,
        .wait_hosts_ns = CMDLINE_NO_WAIT,
        .limits = {.grace_ns = 10 * NS_PER_SEC,
                   .start_timeout_ns = 60 * NS_PER_SEC,
                   .heartbeat_timeout_ns = 30 * NS_PER_SEC},
        .stop = {.poll_ns = 5 * NS_PER_SEC, .timeout_ns = 30 * NS_PER_SEC},
    };
}

void cmdline_fini(struct cmdline *cmdline)
{
    hostlist_fini(&cmdline->hosts);
    hostlist_fini(&cmdline->loader_hosts);
    device_pool_fini(&cmdline->pool);
    texts_fini(&cmdline->excluded);
    texts_fini(&cmdline->topologies);
    texts_fini(&cmdline->exports);
    texts_fini(&cmdline->mpi.global_args);
    texts_fini(&cmdline->mpi.local_args);
    for (size_t i = 0; i < cmdline->mpi.num_instance_args; i++)
        texts_fini(&cmdline->mpi.instance_args[i].words);
    free(cmdline->mpi.instance_args);
    options_settings_fini(&cmdline->settings);
    texts_fini(&cmdline->imported);
}

static const char *setting_of(const struct options_settings *settings, const char *name)
{
    const char *value = NULL;

    for (size_t i = 0; i < settings->count; i++)
        if (strcmp(settings->list[i].def->name, name) == 0)
            value = settings->list[i].value;
    return value;
}

bool cmdline_is_elastic(const struct cmdline *cmdline)
{
    return cmdline->num_hosts > 0 || cmdline->min_hosts > 0;
}

int cmdline_read_hosts(const struct cmdline *cmdline, struct hostlist *ret,
                       struct plenum_error *err)
{
    const struct options_settings *all = &cmdline->settings;
    bool file = false, any = false;
    struct cmdline again = {.num_hosts = 0};
    int r = 0;

    for (size_t i = 0; i < all->count && r == 0; i++) {
        const struct option_def *def = all->list[i].def;
        struct stat st;

        if (def->call != add_hosts && def->call != add_host_file)
            continue;
        any = true;
        file |= def->call == add_host_file;
        if (def->call == add_host_file && stat(all->list[i].value, &st) == 0 &&
            !S_ISREG(st.st_mode))
            r = -ENODATA;
        else
            r = def->call(&again, all->list[i].value, err);
    }
    if (r == 0 && any && !file)
        r = -ENODATA;
    if (r < 0)
        hostlist_fini(&again.hosts);
    *ret = again.hosts;
    return r;
}

/* Apply the configuration file's settings, then the command line's. */
static int apply(struct cmdline *cmdline, const struct options_settings *own,
                 struct plenum_error *err)
{
    struct options_settings *all = &cmdline->settings;
    const char *file = setting_of(own, "import-config");
    int r;

    if (file) {
        r = configfile_read(file, own, all, &cmdline->imported, err);
        if (r < 0)
            return r;
    }
    for (size_t i = 0; i < own->count; i++)
        if (options_settings_add(all, own->list[i].def, own->list[i].value) < 0)
            return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < all->count; i++) {
        r = options_apply(all->list[i].def, cmdline, all->list[i].value, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* Check the options for hosts that come and go, as far as possible without knowing the hosts. */
static int check_elastic(const struct cmdline *c, struct plenum_error *err)
{
    if (!cmdline_is_elastic(c) && (c->wait_hosts_ns != CMDLINE_NO_WAIT || c->max_host_failures > 0))
        return error_set(err, -EINVAL,
                         "%s needs --num-hosts or --min-hosts: without them, the job always needs "
                         "all of its hosts",
                         c->max_host_failures > 0 ? "--max-host-failures" : "--wait-hosts");
    if (c->num_hosts > 0 && c->min_hosts > c->num_hosts)
        return error_set(err, -EINVAL,
                         "--min-hosts %u is more than --num-hosts %u: lower it, or leave it out",
                         c->min_hosts, c->num_hosts);
    return 0;
}

/* Reject empty values: an unset variable in a script must not become a --stop-command that always
 * succeeds. */
static int check_texts(const struct cmdline *c, struct plenum_error *err)
{
    const char *empty = c->stop.command && !c->stop.command[strspn(c->stop.command, " \t\n")]
                            ? "--stop-command"
                        : c->progress_file && !*c->progress_file ? "--progress-file"
                                                                 : NULL;

    return empty ? error_set(err, -EINVAL, "%s is empty: give it a value, or leave it out", empty)
                 : 0;
}

/* Check combinations of options, and that there is a program if one is to run. --topology implies
 * --dry-run. */
static int check(struct cmdline *c, struct plenum_error *err)
{
    bool idle = c->dry_run || c->version != CMDLINE_VERSION_NONE || c->export_config;
    int r = check_elastic(c, err);

    if (r == 0)
        r = check_texts(c, err);
    if (r < 0)
        return r;

    if (c->topologies.count > 0)
        idle = c->dry_run = true;
    if (!c->program[0] && !idle)
        return error_set(err, -EINVAL, "no program was given; --help shows how to call plenumrun");
    return 0;
}

int cmdline_parse(struct cmdline *cmdline, int argc, char **argv, struct plenum_error *err)
{
    struct options_settings own = {0};
    int operands = 0, r;

    r = options_collect(&cmdline_program, argc, argv, &own, &operands, err);
    if (r == OPTIONS_VERSION && setting_of(&own, "version-format"))
        r = 0;
    if (r != 0)
        goto out;
    r = apply(cmdline, &own, err);
    cmdline->program = argv + 1;
    cmdline->program[operands] = NULL;
    if (r < 0)
        goto out;
    r = check(cmdline, err);
out:
    options_settings_fini(&own);
    return r;
}
