/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/values/subnet.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

unsigned subnet_family_bits(int family)
{
    return family == AF_INET ? 32 : 128;
}

bool subnet_same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

struct subnet subnet_of(const struct subnet *address)
{
    struct subnet s = *address;

    for (unsigned bit = s.bits; bit < subnet_family_bits(s.family); bit++)
        s.address[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
    return s;
}

int subnet_parse_address(const char *text, struct subnet *ret)
{
    char copy[SUBNET_TEXT_MAX], *slash;
    struct subnet s = {.family = AF_INET};
    uint64_t bits;

    if ((size_t)snprintf(copy, sizeof(copy), "%s", text) >= sizeof(copy))
        return -EINVAL;
    slash = strchr(copy, '/');
    if (!slash)
        return -EINVAL;
    *slash++ = '\0';
    if (inet_pton(AF_INET, copy, s.address) != 1) {
        s.family = AF_INET6;
        if (inet_pton(AF_INET6, copy, s.address) != 1)
            return -EINVAL;
    }
    if (parse_u64(slash, subnet_family_bits(s.family), &bits) < 0)
        return -EINVAL;
    s.bits = (unsigned)bits;
    *ret = s;
    return 0;
}

int subnet_parse(const char *text, struct subnet *ret, struct plenum_error *err)
{
    struct subnet s;

    if (subnet_parse_address(text, &s) < 0)
        return error_set(err, -EINVAL, "'%s' is not a network like 10.1.0.0/16 or fd00::/64", text);
    *ret = subnet_of(&s);
    return 0;
}

void subnet_format(const struct subnet *subnet, char ret[SUBNET_TEXT_MAX])
{
    size_t len;

    (void)inet_ntop(subnet->family, subnet->address, ret, INET6_ADDRSTRLEN);
    len = strlen(ret);
    (void)snprintf(ret + len, SUBNET_TEXT_MAX - len, "/%u", subnet->bits);
}

bool subnet_has(const struct subnet *subnet, const struct subnet *address)
{
    return subnet->family == address->family &&
           subnet_same_bits(subnet->address, address->address, subnet->bits);
}
