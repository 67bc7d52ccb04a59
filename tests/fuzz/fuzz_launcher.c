/* SPDX-License-Identifier: MIT */
/* fuzz_launcher.c - reads arbitrary bytes as input of plenumrun: lists of hosts, allocations of
 * batch systems, option files, replies of hosts, messages of shims, and values of options such as
 * ranges, subnets and devices. Accepted input must be consistent; rejected text must get an error
 * message of one line. */
#include "config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/net/hostlist.h"
#include "common/util/util.h"
#include "launcher/control/control.h"
#include "launcher/control/pace_report.h"
#include "launcher/host/network.h"
#include "launcher/plan/allocation.h"
#include "launcher/plan/cmdline.h"
#include "launcher/plan/configfile.h"
#include "launcher/plan/devices.h"
#include "launcher/plan/tag.h"
#include "launcher/remote/probe.h"
#include "launcher/values/numa.h"
#include "launcher/values/ranges.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

static void require_sentence(int r, const struct plenum_error *err)
{
    require(r == 0 || (err->text[0] != '\0' && !strpbrk(err->text, "\n\r\t")));
}

/* Check the host names, because they end up on command lines. */
static void require_names(const struct hostlist *list)
{
    require(list->count <= HOSTLIST_MAX);
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->hosts[i].name, *user = list->hosts[i].user;
        struct in6_addr address;

        require(name[0] && name[0] != '-' && list->hosts[i].slots <= HOSTLIST_SLOTS_MAX);
        if (inet_pton(AF_INET6, name, &address) != 1)
            for (const char *c = name; *c; c++)
                require(isalnum((unsigned char)*c) || strchr(".-_", *c));
        require(!user || (user[0] && user[0] != '-'));
        for (const char *c = user ? user : ""; *c; c++)
            require(isalnum((unsigned char)*c) || strchr(".-_", *c));
    }
}

static void try_hosts(const char *text)
{
    struct plenum_error err = {""};
    struct hostlist list = {0};
    const char *newline = strchr(text, '\n');
    char *nodes = newline ? strndup(text, (size_t)(newline - text)) : strdup(text);

    require(nodes != NULL);
    require_sentence(hostlist_add_text(&list, text, &err), &err);
    require_sentence(hostlist_remove_text(&list, nodes, &err), &err);
    require_names(&list);
    hostlist_fini(&list);
    require_sentence(allocation_add_slurm(&list, nodes, newline ? newline + 1 : NULL, &err), &err);
    require_names(&list);
    hostlist_fini(&list);
    require_sentence(allocation_add_lsf(&list, text, &err), &err);
    require_names(&list);
    hostlist_fini(&list);
    free(nodes);
}

/* Create a file in memory and return its path. */
static int make_file(const void *bytes, size_t size, char path[32])
{
    int fd = memfd_create("fuzz", MFD_CLOEXEC);

    require(fd >= 0 && io_write_all(fd, bytes, size) == 0);
    (void)snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

/* Read a file as a batch system's list of hosts, whose path is in a variable. */
static void try_allocation(const char *variable, const char *name, const char *path)
{
    struct plenum_error err = {""};
    struct allocation found;
    int r;

    require(setenv(variable, path, 1) == 0);
    r = allocation_read(&found, &err);
    require(unsetenv(variable) == 0);
    require_sentence(r, &err);
    if (r < 0)
        return;
    require(found.hosts.count > 0 && strcmp(found.name, name) == 0);
    require_names(&found.hosts);
    allocation_fini(&found);
}

/* Read a file as SGE's list of hosts, and as another batch system's with a line per slot. */
static void try_allocations(const char *path, size_t size)
{
    static const char *const lines[][2] = {
        {"PBS_NODEFILE", "PBS"}, {"OAR_NODEFILE", "OAR"}, {"COBALT_NODEFILE", "Cobalt"}};
    size_t i = size % ARRAY_LEN(lines);

    try_allocation("PE_HOSTFILE", "SGE", path);
    try_allocation(lines[i][0], lines[i][1], path);
}

static void try_files(const uint8_t *data, size_t size)
{
    const struct options_settings none = {0};
    struct options_settings settings = {0};
    struct plenum_error err = {""};
    struct hostlist list = {0};
    struct cmdline c;
    char path[32];
    int fd = make_file(data, size, path), r;

    require_sentence(hostlist_add_file(&list, path, &err), &err);
    require_names(&list);
    hostlist_fini(&list);
    try_allocations(path, size);

    cmdline_init(&c);
    r = configfile_read(path, &none, &settings, &c.imported, &err);
    require_sentence(r, &err);
    for (size_t i = 0; r == 0 && i < settings.count; i++) {
        /* Options that read other files are skipped. */
        if (strcmp(settings.list[i].def->name, "hostfile") != 0 &&
            strcmp(settings.list[i].def->name, "env-file") != 0)
            require_sentence(options_apply(settings.list[i].def, &c, settings.list[i].value, &err),
                             &err);
    }
    options_settings_fini(&settings);
    cmdline_fini(&c);
    close(fd);
}

static void try_texts(const char *text)
{
    unsigned long words[RANGES_WORDS(4096)] = {0};
    struct network_address address, again;
    struct device_pool pool = {0};
    struct plenum_error err = {""};
    struct subnet subnet;
    struct probe probe = {0};
    char *copy = strdup(text), shown[100];
    int r;

    require(copy != NULL);
    if (strlen(text) < 100000) /* each range is expanded */
        require_sentence(ranges_parse(text, words, 4096, &err), &err);
    r = subnet_parse(text, &subnet, &err);
    require_sentence(r, &err);
    require(r < 0 || subnet_has(&subnet, &subnet));
    if (network_parse_address(text, &address) == 0) {
        network_format_address(&address, shown, sizeof(shown));
        require(network_parse_address(shown, &again) == 0);
        require(memcmp(&address.at, &again.at, sizeof(again.at)) == 0);
    }
    r = device_pool_parse(text, &pool, &err);
    require_sentence(r, &err);
    device_pool_fini(&pool);
    require_sentence(tag_check(text, &err), &err);
    probe_read_answer(copy, 1000, 2000, &probe);
    require(!probe.failed || probe.step[0]);
    probe_fini(&probe);
    free(copy);
}

/* Parse the bytes as messages of a control connection, in both directions. */
static void try_control(const uint8_t *data, size_t size)
{
    struct frame_reader r = {.at = data, .end = data + size}, again;
    struct control_hello hello;
    struct control_plan plan;
    struct control_keep keep;
    struct control_started started;
    struct control_failed failed;
    struct control_exited exited;
    struct control_departed departed;
    struct pace_report pace;
    enum control_stream stream;
    const char *bytes;
    bool real;
    size_t len;

    again = r;
    if (control_get_hello(&again, &hello) == 0)
        (void)control_hello_check(&hello, "token", NULL);
    again = r;
    if (control_get_plan(&again, &plan) == 0) {
        require(plan.argv[0] && plan.memory <= NUMA_DEFAULT);
        control_plan_fini(&plan);
    }
    again = r;
    if (control_get_keep(&again, &keep) == 0)
        control_keep_fini(&keep);
    again = r;
    if (control_get_started(&again, &started) == 0)
        control_started_fini(&started);
    again = r;
    require(control_get_failed(&again, &failed) < 0 || failed.step < CONTROL_STEPS);
    again = r;
    require(control_get_exited(&again, &exited) < 0 || exited.cause < CONTROL_CAUSES);
    again = r;
    (void)control_get_departed(&again, &departed);
    again = r;
    require(pace_report_get(&again, &pace) < 0 || pace.count <= PACE_REPORT_STEPS);
    again = r;
    require(control_get_output(&again, &stream, &bytes, &len) < 0 || stream < CONTROL_STREAMS);
    again = r;
    (void)control_get_topology(&again, &real, &bytes, &len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    require(text != NULL);
    if (size > 0)
        memcpy(text, data, size);
    text[size] = '\0';
    try_hosts(text);
    try_files(data, size);
    try_texts(text);
    try_control(data, size);
    free(text);
    return 0;
}
