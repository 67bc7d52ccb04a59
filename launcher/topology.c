/* topology.c - loads what placement needs and nothing else.
 *
 * Start-up time is the reason for the care: caches, devices and hwloc's plugins (which load the
 * libraries of whatever accelerator is installed) cost more than all the rest of a start. */
#include "config.h"

#include "launcher/topology.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/util.h"

/* What is there is wanted; what is only kept where NUMA nodes hang on it. */
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

/* An initialised topology that will hold only what is wanted. */
static int prepare(hwloc_topology_t *ret)
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
    *ret = t;
    return 0;
}

/* taskset and Slurm bind us before we start: what they left out is not ours to give. */
static void restrict_to_binding(hwloc_topology_t t)
{
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();

    if (bound && hwloc_topology_is_thissystem(t) &&
        hwloc_get_cpubind(t, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
        hwloc_bitmap_intersects(bound, hwloc_topology_get_topology_cpuset(t)))
        (void)hwloc_topology_restrict(t, bound, 0);
    hwloc_bitmap_free(bound);
}

int topology_load(hwloc_topology_t *ret, struct plenum_error *err)
{
    hwloc_topology_t t;
    int r = prepare(&t);

    if (r < 0)
        return error_set(err, r, "cannot prepare the topology of this host: %s", strerror(-r));
    if (hwloc_topology_load(t) < 0) {
        r = errno ? -errno : -EIO;
        hwloc_topology_destroy(t);
        return error_set(err, r, "cannot read the topology of this host: %s", strerror(-r));
    }
    restrict_to_binding(t);
    *ret = t;
    return 0;
}

int topology_import(const char *xml, size_t len, hwloc_topology_t *ret, struct plenum_error *err)
{
    hwloc_topology_t t;
    int r;

    if (len == 0 || len > INT_MAX || xml[len - 1] != '\0')
        return error_set(err, -EINVAL, "the text of a topology is cut short");
    r = prepare(&t);
    if (r < 0)
        return error_set(err, r, "cannot prepare a topology: %s", strerror(-r));
    if (hwloc_topology_set_xmlbuffer(t, xml, (int)len) < 0 || hwloc_topology_load(t) < 0) {
        hwloc_topology_destroy(t);
        return error_set(err, -EINVAL, "the text of a topology is not understood");
    }
    *ret = t;
    return 0;
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
