/* SPDX-License-Identifier: MIT */
/* network.c - finds the network that hosts share. Hosts have many addresses, most of which lead
 * nowhere: docker0 is 172.17.0.1 everywhere, and an MPI that tries it waits for a timeout. So hosts
 * report their addresses (probe.c), and this file chooses a network for Open MPI and for the
 * programs. */
#include "config.h"

#include "launcher/host/network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum { COMMON_BITS_LEAST = 8 }; /* the shortest prefix of a network computed by find_covering() */

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

static unsigned mask_bits(const uint8_t *mask, size_t len)
{
    unsigned bits = 0;

    for (size_t i = 0; i < len; i++)
        bits += (unsigned)__builtin_popcount(mask[i]);
    return bits;
}

/* Read an interface's address. Returns false if another host could not use it. */
static bool read_address(const struct ifaddrs *i, struct network_address *ret)
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
    int r;

    if (getifaddrs(&list) < 0)
        return -errno;
    for (const struct ifaddrs *i = list; i; i = i->ifa_next) {
        struct network_address address;

        if (!read_address(i, &address))
            continue;
        r = network_add(&network, &address);
        if (r < 0)
            goto fail;
    }
    freeifaddrs(list);
    *ret = network;
    return 0;

fail:
    freeifaddrs(list);
    network_fini(&network);
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
    if (subnet_parse_address(at, &a.at) < 0)
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

        a->reached |= a->at.family == family &&
                      subnet_same_bits(a->at.address, bytes, subnet_family_bits(family));
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

/* Returns whether the host has an address on exactly this network, not on a virtual one; with
 * `reached`, one by which other hosts reach it. */
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

/* Find a network of this family that all hosts are on (is_on()), in the order of the first host's
 * addresses. */
static bool find_common(const struct network *const *hosts, size_t count, int family, bool reached,
                        struct subnet *ret)
{
    for (size_t i = 0; i < hosts[0]->count; i++) {
        struct subnet s = subnet_of(&hosts[0]->list[i].at);
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

/* Find the smallest network that contains the addresses by which the hosts are reached, if they are
 * on different networks with routers between them. */
static bool find_covering(const struct network *const *hosts, size_t count, int family,
                          struct subnet *ret)
{
    const struct network_address *first = find_reached(hosts[0], family);
    struct subnet s;

    if (!first)
        return false;
    s = first->at;
    s.bits = subnet_family_bits(family);
    for (size_t h = 1; h < count; h++) {
        const struct network_address *a = find_reached(hosts[h], family);

        if (!a)
            return false;
        while (s.bits > 0 && !subnet_has(&s, &a->at))
            s.bits--;
    }
    s = subnet_of(&s);
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
