/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "libdist/collectives/comm_header.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static_assert(sizeof(struct comm_header) == 128, "no holes");

enum { CALL_MAX = 200 };

static const char *const kinds[] = {
    [COMM_BROADCAST] = "broadcast",           [COMM_ALLREDUCE] = "allreduce",
    [COMM_ALLGATHER] = "allgather",           [COMM_BARRIER] = "barrier",
    [COMM_REDUCE_SCATTER] = "reduce_scatter", [COMM_ALLTOALL] = "alltoall"};
static const char *const types[] = {
    [PLENUM_INT32] = "int32",     [PLENUM_INT64] = "int64",     [PLENUM_FLOAT32] = "float32",
    [PLENUM_FLOAT64] = "float64", [PLENUM_FLOAT16] = "float16", [PLENUM_BFLOAT16] = "bfloat16"};
static const char *const ops[] = {
    [PLENUM_SUM] = "sum", [PLENUM_MIN] = "min", [PLENUM_MAX] = "max", [PLENUM_MEAN] = "mean"};

static const char *name_in(const char *const *names, size_t count, uint32_t at)
{
    return at < count && names[at] ? names[at] : "?";
}

const char *comm_kind_name(enum comm_kind kind)
{
    return name_in(kinds, ARRAY_LEN(kinds), kind);
}

/* Is the header valid? It comes from another process, so its strings may lack a terminator. */
static bool is_sound(const struct comm_header *h)
{
    return h->version == COMM_HEADER_VERSION && h->name[COMM_NAME_MAX - 1] == '\0' &&
           h->what[COMM_WHAT_MAX - 1] == '\0';
}

/* Describe a call: "allreduce (16 bytes, max of float32)", including how it differs from
 * `other`. */
static void describe(const struct comm_header *h, const struct comm_header *other, char *text)
{
    size_t n =
        (size_t)snprintf(text, CALL_MAX, "%s (%llu bytes", h->name, (unsigned long long)h->bytes);
    const char *type = name_in(types, ARRAY_LEN(types), h->type);

    if ((h->kind == COMM_ALLREDUCE || h->kind == COMM_REDUCE_SCATTER) &&
        (h->type != other->type || h->op != other->op))
        n += (size_t)snprintf(text + n, CALL_MAX - n, ", %s of %s",
                              name_in(ops, ARRAY_LEN(ops), h->op), type);
    if (h->kind == COMM_BROADCAST && h->root != other->root)
        n += (size_t)snprintf(text + n, CALL_MAX - n, ", from instance %u", h->root);
    if (h->what[0] && strcmp(h->what, other->what) != 0)
        n += (size_t)snprintf(text + n, CALL_MAX - n, ", %s", h->what);
    if (h->number != other->number)
        n += (size_t)snprintf(text + n, CALL_MAX - n, ", collective no. %llu",
                              (unsigned long long)h->number);
    (void)snprintf(text + n, CALL_MAX - n, ")");
}

int comm_header_compare(const struct comm_block *all, uint32_t instances, uint32_t index,
                        struct plenum_error *err)
{
    const struct comm_header *mine = &all[index].header;
    char ours[CALL_MAX], theirs[CALL_MAX];

    for (uint32_t i = 0; i < instances; i++) {
        const struct comm_header *other = &all[i].header;

        if (memcmp(other, mine, sizeof(*mine)) == 0)
            continue;
        if (!is_sound(other))
            return error_set(err, -EIO, "%s: instance %u has a different version of libplenum",
                             mine->name, i);
        describe(mine, other, ours);
        describe(other, mine, theirs);
        return error_set(err, -EIO,
                         "this instance calls %s while instance %u calls %s: all must make the "
                         "same calls in the same order",
                         ours, i, theirs);
    }
    return 0;
}
