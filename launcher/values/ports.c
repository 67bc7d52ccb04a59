/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/values/ports.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum { BLOCK = 4 };

/* Parse "A-B", with nothing after it. */
static bool read_range(const char *text, uint64_t *first, uint64_t *last)
{
    return parse_next_u64(&text, UINT16_MAX, first) == 0 && *text++ == '-' &&
           parse_u64(text, UINT16_MAX, last) == 0;
}

int ports_parse(const char *text, struct ports *ret, struct plenum_error *err)
{
    uint64_t first, last;

    if (!read_range(text, &first, &last) || first == 0 || last < first)
        return error_set(err, -EINVAL, "'%s' is not a range of ports like 20000-20999", text);
    if (last - first + 1 < PORTS_LEAST)
        return error_set(err, -EINVAL, "'%s' has fewer than %d ports", text, PORTS_LEAST);
    *ret = (struct ports){.first = (uint16_t)first, .last = (uint16_t)last};
    return 0;
}

/* Returns the first port of the upper half. */
static uint16_t get_middle(const struct ports *ports)
{
    return (uint16_t)(ports->first + ports_count_blocks(ports) * BLOCK);
}

unsigned ports_count_blocks(const struct ports *ports)
{
    return ports->last == 0 ? 0 : (ports->last - ports->first + 1U) / 2 / BLOCK;
}

uint16_t ports_get_own(const struct ports *ports, unsigned block)
{
    assert(block < ports_count_blocks(ports));
    return (uint16_t)(ports->first + block * BLOCK);
}

struct ports ports_get_daemons(uint16_t own)
{
    return (struct ports){.first = (uint16_t)(own + 1), .last = (uint16_t)(own + BLOCK - 1)};
}

struct ports ports_get_programs(const struct ports *ports)
{
    return (struct ports){.first = get_middle(ports), .last = ports->last};
}
