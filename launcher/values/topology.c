/* SPDX-License-Identifier: MIT */
/* topology.c - loads only what placement needs.
 *
 * This shortens the start: caches, devices and hwloc's plugins (which load the libraries of every
 * installed accelerator) cost more time than everything else. */
#include "config.h"

#include "launcher/values/topology.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/cgroup.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

/* The types of objects to load. KEEP_STRUCTURE: only where they add a level, such as NUMA nodes. */
static const struct {
    hwloc_obj_type_t type;
    enum hwloc_type_filter_e filter;
} wanted[] = {
    {HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL},
    {HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL},
    {HWLOC_OBJ_GROUP, HWLOC_TYPE_FILTER_KEEP_STRUCTURE},
    {HWLOC_OBJ_DIE, HWLOC_TYPE_FILTER_KEEP_STRUCTURE},
    {HWLOC_OBJ_L3CACHE, HWLOC_TYPE_FILTER_KEEP_STRUCTURE},
    {HWLOC_OBJ_L4CACHE, HWLOC_TYPE_FILTER_KEEP_STRUCTURE},
};

/* Create a topology that will load only the required types. Returns 0 or -ENOMEM. */
static int prepare(bool devices, hwloc_topology_t *ret)
{
    const char *plugins = getenv("HWLOC_PLUGINS_PATH");
    hwloc_topology_t t;
    int r;

    if (!plugins)
        (void)setenv("HWLOC_PLUGINS_PATH", "/nonexistent", 1);
    r = hwloc_topology_init(&t);
    if (!plugins)
        (void)unsetenv("HWLOC_PLUGINS_PATH");
    if (r < 0)
        return -ENOMEM;
    (void)hwloc_topology_set_all_types_filter(t, HWLOC_TYPE_FILTER_KEEP_NONE);
    for (size_t i = 0; i < ARRAY_LEN(wanted); i++)
        (void)hwloc_topology_set_type_filter(t, wanted[i].type, wanted[i].filter);
    if (devices) {
        (void)hwloc_topology_set_type_filter(t, HWLOC_OBJ_PCI_DEVICE,
                                             HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
        (void)hwloc_topology_set_type_filter(t, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    }
    *ret = t;
    return 0;
}

/* Restrict the topology to the CPUs that taskset or Slurm may have bound us to, because we must not
 * assign others. */
static void restrict_to_binding(hwloc_topology_t t)
{
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();

    if (bound && hwloc_get_cpubind(t, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
        hwloc_bitmap_intersects(bound, hwloc_topology_get_topology_cpuset(t)))
        (void)hwloc_topology_restrict(t, bound, 0);
    hwloc_bitmap_free(bound);
}

/* Store the limit on CPU time, which hwloc does not know, in the topology. */
static void note_quota(hwloc_topology_t t)
{
    uint32_t millicores = cgroup_cpu_millicores();
    char text[16];

    if (millicores == 0)
        return;
    (void)snprintf(text, sizeof(text), "%u", millicores);
    (void)hwloc_obj_add_info(hwloc_get_root_obj(t), TOPOLOGY_QUOTA_KEY, text);
}

int topology_load(bool devices, hwloc_topology_t *ret, struct plenum_error *err)
{
    hwloc_topology_t t;
    int r = prepare(devices, &t);

    if (r < 0)
        return error_set(err, r, "cannot prepare the topology of this host: %s", strerror(-r));
    if (hwloc_topology_load(t) < 0) {
        r = errno ? -errno : -EIO;
        hwloc_topology_destroy(t);
        return error_set(err, r, "cannot read the topology of this host: %s", strerror(-r));
    }
    if (hwloc_topology_is_thissystem(t)) {
        restrict_to_binding(t);
        note_quota(t);
    }
    *ret = t;
    return 0;
}

int topology_import(const char *xml, size_t len, hwloc_topology_t *ret, struct plenum_error *err)
{
    hwloc_topology_t t;
    int r;

    if (len == 0 || len > INT_MAX || xml[len - 1] != '\0')
        return error_set(err, -EINVAL, "the text of a topology is truncated");
    r = prepare(true, &t);
    if (r < 0)
        return error_set(err, r, "cannot prepare a topology: %s", strerror(-r));
    if (hwloc_topology_set_xmlbuffer(t, xml, (int)len) < 0 || hwloc_topology_load(t) < 0) {
        hwloc_topology_destroy(t);
        return error_set(err, -EINVAL, "the text of a topology is invalid");
    }
    *ret = t;
    return 0;
}

static int make_synthetic(const char *text, hwloc_topology_t *ret, struct plenum_error *err)
{
    hwloc_topology_t t;
    int r = prepare(false, &t);

    if (r < 0)
        return error_set(err, r, "cannot prepare a topology: %s", strerror(-r));
    if (hwloc_topology_set_synthetic(t, text) < 0 || hwloc_topology_load(t) < 0) {
        hwloc_topology_destroy(t);
        return error_set(err, -EINVAL,
                         "synthetic:'%s' is invalid; write, for example, synthetic:'package:2 "
                         "[numa] core:8 pu:2'",
                         text);
    }
    *ret = t;
    return 0;
}

int topology_read(const char *source, hwloc_topology_t *ret, struct plenum_error *err)
{
    static const char made_up[] = "synthetic:";
    char *text = NULL;
    size_t size = 0;
    ssize_t n;
    FILE *file;
    int r;

    if (strncmp(source, made_up, strlen(made_up)) == 0)
        return make_synthetic(source + strlen(made_up), ret, err);
    file = fopen(source, "re");
    if (!file) {
        r = -errno;
        return error_set(err, r, "cannot read the topology file %s: %s", source, strerror(-r));
    }
    errno = 0;
    n = getdelim(&text, &size, '\0', file);
    r = n < 0 && errno ? -errno : 0;
    (void)fclose(file);
    if (r < 0)
        (void)error_set(err, r, "cannot read the topology file %s: %s", source, strerror(-r));
    else if (n < 0 || topology_import(text, (size_t)n + 1, ret, err) < 0)
        r = error_set(err, -EINVAL,
                      "%s is not a topology in XML, as 'lstopo --of xml' writes it (hwloc 2)",
                      source);
    free(text);
    return r;
}

int topology_export(hwloc_topology_t topology, char **ret, size_t *ret_len,
                    struct plenum_error *err)
{
    char *xml;
    int len;

    if (hwloc_topology_export_xmlbuffer(topology, &xml, &len, 0) < 0)
        return error_set(err, -EIO, "cannot write the topology of this host as text");
    *ret = xml;
    *ret_len = (size_t)len;
    return 0;
}

uint32_t topology_get_quota(hwloc_topology_t topology)
{
    const char *text = hwloc_obj_get_info_by_name(hwloc_get_root_obj(topology), TOPOLOGY_QUOTA_KEY);
    uint64_t millicores;

    return text && parse_u64(text, UINT32_MAX, &millicores) == 0 ? (uint32_t)millicores : 0;
}
