/* SPDX-License-Identifier: MIT */
/* network.c - hosts have many addresses, most of which lead nowhere: docker0 is 172.17.0.1
 * everywhere, and an MPI that tries it waits for a time-out. So hosts tell their addresses
 * (probe.c), and what they share is found here, for Open MPI and for the programs. */
#include "config.h"

#include "launcher/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/util.h"

enum { COMMON_BITS_LEAST = 8 }; /* of a network that is made to hold all */

static unsigned family_bits(int family)
{
    return family == AF_INET ? 32 : 128;
}

/* Do two addresses agree in their first bits? */
static bool same_bits(const uint8_t *a, const uint8_t *b, unsigned bits)
{
    unsigned whole = bits / 8, rest = bits % 8;

    return memcmp(a, b, whole) == 0 && (rest == 0 || (a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

/* The network of an address. */
static struct subnet network_of(const struct subnet *address)
{
    struct subnet s = *address;

    for (unsigned bit = s.bits; bit < family_bits(s.family); bit++)
        s.address[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
    return s;
}

static int parse(const char *text, struct subnet *ret)
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
    if (parse_u64(slash, family_bits(s.family), &bits) < 0)
        return -EINVAL;
    s.bits = (unsigned)bits;
    *ret = s;
    return 0;
}

int subnet_parse(const char *text, struct subnet *ret, struct plenum_error *err)
{
    struct subnet s;

    if (parse(text, &s) < 0)
        return error_set(err, -EINVAL, "'%s' is not a network like 10.1.0.0/16 or fd00::/64", text);
    *ret = network_of(&s);
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
           same_bits(subnet->address, address->address, subnet->bits);
}

bool network_is_virtual(const char *interface)
{
    static const char *const prefixes[] = {"docker",  "virbr", "br-",      "veth",   "cni",
                                           "flannel", "lxc",   "lxd",      "podman", "vnet",
                                           "vmnet",   "cali",  "tailscale"};

    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (strncmp(interface, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

void network_fini(struct network *network)
{
    free(network->list);
    *network = (struct network){0};
}

int network_add(struct network *network, const struct network_address *address)
{
    if (array_grow(&network->list, &network->cap, network->count, sizeof(*network->list)) < 0)
        return -ENOMEM;
    network->list[network->count++] = *address;
    return 0;
}

union any_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static unsigned mask_bits(const uint8_t *mask, size_t len)
{
    unsigned bits = 0;

    for (size_t i = 0; i < len; i++)
        bits += (unsigned)__builtin_popcount(mask[i]);
    return bits;
}

/* False: it is no address that another host could use. */
static bool take_address(const struct ifaddrs *i, struct network_address *ret)
{
    const union any_address *a = (const union any_address *)(const void *)i->ifa_addr;
    const union any_address *mask = (const union any_address *)(const void *)i->ifa_netmask;

    if (!a || !mask || !(i->ifa_flags & IFF_UP) || i->ifa_flags & IFF_LOOPBACK)
        return false;
    *ret = (struct network_address){.at.family = a->any.sa_family,
                                    .is_virtual = network_is_virtual(i->ifa_name)};
    (void)snprintf(ret->interface, sizeof(ret->interface), "%s", i->ifa_name);
    if (a->any.sa_family == AF_INET) {
        memcpy(ret->at.address, &a->v4.sin_addr, 4);
        ret->at.bits = mask_bits((const uint8_t *)&mask->v4.sin_addr, 4);
        return true;
    }
    if (a->any.sa_family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&a->v6.sin6_addr))
        return false;
    memcpy(ret->at.address, &a->v6.sin6_addr, 16);
    ret->at.bits = mask_bits((const uint8_t *)&mask->v6.sin6_addr, 16);
    return true;
}

int network_read(struct network *ret)
{
    struct network network = {0};
    struct ifaddrs *list;
    int r = 0;

    if (getifaddrs(&list) < 0)
        return -errno;
    for (const struct ifaddrs *i = list; r == 0 && i; i = i->ifa_next) {
        struct network_address address;

        if (take_address(i, &address))
            r = network_add(&network, &address);
    }
    freeifaddrs(list);
    if (r < 0)
        network_fini(&network);
    else
        *ret = network;
    return r;
}

void network_format_address(const struct network_address *address, char *ret, size_t size)
{
    char text[SUBNET_TEXT_MAX];

    subnet_format(&address->at, text);
    (void)snprintf(ret, size, "%s %s%s%s", address->interface, text,
                   address->is_virtual ? " virtual" : "", address->reached ? " reached" : "");
}

int network_parse_address(const char *text, struct network_address *ret)
{
    struct network_address a = {.is_virtual = strstr(text, " virtual") != NULL,
                                .reached = strstr(text, " reached") != NULL};
    char at[SUBNET_TEXT_MAX];
    size_t name = strcspn(text, " "), len;

    if (name == 0 || name >= sizeof(a.interface) || !text[name])
        return -EINVAL;
    memcpy(a.interface, text, name);
    text += name + 1;
    len = strcspn(text, " ");
    if (len >= sizeof(at))
        return -EINVAL;
    memcpy(at, text, len);
    at[len] = '\0';
    if (parse(at, &a.at) < 0)
        return -EINVAL;
    *ret = a;
    return 0;
}

void network_mark_reached(struct network *network, const char *address)
{
    uint8_t bytes[16] = {0};
    int family = inet_pton(AF_INET, address, bytes) == 1 ? AF_INET : AF_INET6;

    if (family == AF_INET6 && inet_pton(AF_INET6, address, bytes) != 1)
        return;
    for (size_t i = 0; i < network->count; i++) {
        struct network_address *a = &network->list[i];

        a->reached |=
            a->at.family == family && same_bits(a->at.address, bytes, family_bits(family));
    }
}

const struct network_address *network_find(const struct network *network,
                                           const struct subnet *subnet)
{
    for (size_t i = 0; i < network->count; i++)
        if (subnet_has(subnet, &network->list[i].at))
            return &network->list[i];
    return NULL;
}

/* Has the host an address of its own on exactly this network? */
static bool is_on(const struct network *host, const struct subnet *subnet, bool reached)
{
    for (size_t i = 0; i < host->count; i++) {
        const struct network_address *a = &host->list[i];

        if (!a->is_virtual && a->at.bits == subnet->bits && subnet_has(subnet, &a->at) &&
            (a->reached || !reached))
            return true;
    }
    return false;
}

/* A network of the first host's that all have; IPv4 first. */
static bool find_common(const struct network *const *hosts, size_t count, int family, bool reached,
                        struct subnet *ret)
{
    for (size_t i = 0; i < hosts[0]->count; i++) {
        struct subnet s = network_of(&hosts[0]->list[i].at);
        bool all = s.family == family;

        for (size_t h = 0; all && h < count; h++)
            all = is_on(hosts[h], &s, reached);
        if (all) {
            *ret = s;
            return true;
        }
    }
    return false;
}

static const struct network_address *find_reached(const struct network *host, int family)
{
    for (size_t i = 0; i < host->count; i++)
        if (host->list[i].reached && host->list[i].at.family == family)
            return &host->list[i];
    return NULL;
}

/* The smallest network that holds the addresses by which the hosts are reached: they are in
 * different networks, with routers between. */
static bool find_covering(const struct network *const *hosts, size_t count, int family,
                          struct subnet *ret)
{
    const struct network_address *first = find_reached(hosts[0], family);
    struct subnet s;

    if (!first)
        return false;
    s = first->at;
    s.bits = family_bits(family);
    for (size_t h = 1; h < count; h++) {
        const struct network_address *a = find_reached(hosts[h], family);

        if (!a)
            return false;
        while (s.bits > 0 && !subnet_has(&s, &a->at))
            s.bits--;
    }
    s = network_of(&s);
    for (size_t h = 0; h < count; h++)
        for (size_t i = 0; i < hosts[h]->count; i++)
            if (hosts[h]->list[i].is_virtual && subnet_has(&s, &hosts[h]->list[i].at))
                return false;
    *ret = s;
    return s.bits >= COMMON_BITS_LEAST;
}

int network_find_shared(const struct network *const *hosts, size_t count, struct subnet *ret)
{
    static const int families[] = {AF_INET, AF_INET6};

    if (count == 0)
        return -ENOENT;
    for (int reached = 1; reached >= 0; reached--)
        for (size_t f = 0; f < ARRAY_LEN(families); f++)
            if (find_common(hosts, count, families[f], reached != 0, ret))
                return 0;
    for (size_t f = 0; f < ARRAY_LEN(families); f++)
        if (find_covering(hosts, count, families[f], ret))
            return 0;
    return -ENOENT;
}
