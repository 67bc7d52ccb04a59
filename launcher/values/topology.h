/* SPDX-License-Identifier: MIT */
/* topology.h - loads a host's topology from this machine, or imports another host's from XML. */
#ifndef LAUNCHER_TOPOLOGY_H
#define LAUNCHER_TOPOLOGY_H

#include <hwloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/**
 * Load this machine's packages, NUMA nodes, cores and hardware threads, as far as this process may
 * use them, and its quota of CPU time (topology_get_quota()). hwloc's variables HWLOC_SYNTHETIC and
 * HWLOC_XMLFILE work. Owned by the caller: hwloc_topology_destroy(). Returns 0, or -errno with a
 * message.
 *
 * @param devices  also load PCI devices, which takes several times as long
 */
int topology_load(bool devices, hwloc_topology_t *ret, struct plenum_error *err);

/** Import the text that topology_export() wrote. Returns 0, or -EINVAL or -ENOMEM with a
 * message. */
int topology_import(const char *xml, size_t len, hwloc_topology_t *ret, struct plenum_error *err);

/**
 * Read another machine's topology, for a plan: "synthetic:package:2 [numa] core:8 pu:2", or an XML
 * file written by hwloc's lstopo or topology_export().
 *
 * Errors: -EINVAL or -errno, with a message that quotes `source`.
 */
int topology_read(const char *source, hwloc_topology_t *ret, struct plenum_error *err);

/** The attribute of a topology's root that holds its quota of CPU time. */
#define TOPOLOGY_QUOTA_KEY "PlenumQuotaMillicores"
/** Returns the quota of CPU time in thousandths of a core, or 0 if there is none. */
uint32_t topology_get_quota(hwloc_topology_t topology);

/** Export a topology as XML, `*ret_len` bytes including its NUL. Owned by the caller:
 * hwloc_free_xmlbuffer(). */
int topology_export(hwloc_topology_t topology, char **ret, size_t *ret_len,
                    struct plenum_error *err);

#endif
