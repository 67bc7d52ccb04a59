/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/between_hosts.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"
#include "launcher/control/dial.h"

static void format_name(const struct supervisor *s, uint32_t host, char ret[MEETING_ADDRESS_MAX])
{
    (void)snprintf(ret, MEETING_ADDRESS_MAX, "%s-%u", s->id, host);
}

/* Returns the address of an instance's host for other hosts: the one on the job's network, or else
 * the one from which its shim has connected. */
static const char *address_of(const struct supervisor *s, const struct instance *inst, char *text,
                              size_t size)
{
    const struct plan_host *host = instance_host(s, inst);
    const char *address = host->interface ? strchr(host->interface, ' ') : NULL;

    if (address)
        return address + 1;
    assert(inst->peer);
    return dial_format_host(&inst->peer->from, text, size);
}

char *between_hosts_format(const struct supervisor *s, uint32_t instance)
{
    uint32_t local = s->plan->instances[instance].local_index;
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    for (uint32_t h = 0; h < s->plan->num_hosts; h++) {
        const struct plan_host *host = &s->plan->hosts[h];
        /* On a host without an instance of this index, the address is not used. */
        const struct instance *peer =
            &s->instances[host->first + (local < host->count ? local : 0)];
        char room[INET6_ADDRSTRLEN];
        const char *address = address_of(s, peer, room, sizeof(room));
        bool v6 = strchr(address, ':') != NULL;

        fprintf(f, "%s%u=tcp:%s%s%s:%u", h > 0 ? ";" : "", host->count, v6 ? "[" : "", address,
                v6 ? "]" : "", peer->place_port);
    }
    if (fclose(f) == 0)
        return text;
    free(text);
    return NULL;
}

void between_hosts_format_place(const struct supervisor *s, uint32_t instance,
                                char ret[MEETING_ADDRESS_MAX])
{
    char name[MEETING_ADDRESS_MAX];

    format_name(s, s->plan->instances[instance].host, name);
    meeting_server_address(name, ret);
}

void between_hosts_plan(const struct supervisor *s, uint32_t instance,
                        char name[MEETING_ADDRESS_MAX], struct control_plan *plan)
{
    const struct plan_host *host = instance_host(s, &s->instances[instance]);

    if (!s->place_key[0] || host->first != instance)
        return;
    format_name(s, s->plan->instances[instance].host, name);
    plan->place_instances = host->count;
    plan->place = name;
    plan->place_job = (char *)s->job->id;
    plan->place_key = (char *)s->place_key;
}
