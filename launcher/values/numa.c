/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/values/numa.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static const char *const names[NUMA_POLICIES] = {
    [NUMA_BIND] = "bind",   [NUMA_PREFERRED] = "preferred", [NUMA_INTERLEAVE] = "interleave",
    [NUMA_LOCAL] = "local", [NUMA_DEFAULT] = "default",
};

const char *numa_policy_name(enum numa_policy policy)
{
    assert(policy < NUMA_POLICIES);
    return names[policy];
}

int numa_policy_parse(const char *name, enum numa_policy *ret, struct plenum_error *err)
{
    for (size_t i = 0; i < NUMA_DEFAULT; i++) {
        if (strcmp(name, names[i]) == 0) {
            *ret = (enum numa_policy)i;
            return 0;
        }
    }
    return error_set(err, -EINVAL, "'%s' is not one of bind, preferred, interleave, local", name);
}
