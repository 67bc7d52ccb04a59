/* SPDX-License-Identifier: MIT */
/* fuzz_comm_header.c - reads arbitrary bytes as the headers that instances exchange before each
 * collective. Every instance accepts equal headers, and rejects different ones with one sentence
 * that names another instance. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "libdist/collectives/comm_header.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INSTANCES_MAX = 4 };

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* Make an instance's own header as comm.c fills it in. */
static void make_own(struct comm_header *header)
{
    header->version = COMM_HEADER_VERSION;
    header->name[COMM_NAME_MAX - 1] = header->what[COMM_WHAT_MAX - 1] = '\0';
}

/* Count the instances whose header differs from `mine`; `*first` is the first of them. */
static uint32_t count_others(const struct comm_block *all, uint32_t instances,
                             const struct comm_header *mine, uint32_t *first)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < instances; i++)
        if (memcmp(&all[i].header, mine, sizeof(*mine)) != 0 && count++ == 0)
            *first = i;
    return count;
}

static void compare(struct comm_block *all, uint32_t instances, uint32_t index)
{
    struct comm_block as_sent = all[index];
    struct plenum_error err = {""};
    char named[32];
    uint32_t first = 0;
    int r;

    make_own(&all[index].header);
    r = comm_header_compare(all, instances, index, &err);
    if (count_others(all, instances, &all[index].header, &first) == 0) {
        require(r == 0 && err.text[0] == '\0');
    } else {
        (void)snprintf(named, sizeof(named), "instance %u ", first);
        require(r == -EIO && strstr(err.text, named) && !strpbrk(err.text, "\n\r\t"));
    }
    all[index] = as_sent;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct comm_block all[INSTANCES_MAX];
    uint32_t instances = size ? 1 + data[0] % INSTANCES_MAX : 1;

    memset(all, 0, sizeof(all));
    for (uint32_t i = 0; i < instances && size > 1; i++) {
        size_t at = 1 + i * sizeof(struct comm_header);

        if (at < size)
            memcpy(&all[i].header, data + at, min_u64(size - at, sizeof(struct comm_header)));
    }
    for (uint32_t i = 0; i < instances; i++)
        compare(all, instances, i);
    return 0;
}
