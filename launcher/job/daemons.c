/* SPDX-License-Identifier: MIT */
/* daemons.c - finds daemons that cannot run or do not connect. mpirun starts nothing before all of
 * its daemons have connected, and does not report which are missing. The login (ssh or srun) prints
 * why a daemon cannot run. If a daemon runs but does not connect, the kernel knows: a daemon's
 * connection is one of mpirun's sockets, and its local port is one on which mpirun listens. */
#include "config.h"

#include "launcher/job/daemons.h"

#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/hostlist.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "launcher/host/host.h"
#include "launcher/remote/agent.h"

enum {
    HOSTS_MOST = 64, /* the radix of Open MPI's tree: with more, not all connect to mpirun */
    ESTABLISHED = 1, /* codes in /proc/net/tcp */
    LISTENING = 10,
};

/* ---- daemons that cannot run ---- */

/* Get the reason that Slurm's or the dynamic loader's line contains, or NULL. */
static const char *find_reason(const char *line)
{
    static const char slurm[] = ": error: execve(): ";
    const char *at = strstr(line, slurm);

    if (at)
        return at + strlen(slurm);
    return strstr(line, ": error while loading shared libraries: ") ? line : NULL;
}

/* Parse "srun: error: n[2-3]: tasks 0-1: Exited with exit code 2" into the hosts and the text after
 * the tasks. */
static bool parse_srun(const char *line, char *hosts, size_t size, const char **ret_end)
{
    const char *at = str_after(line, "srun: error: "), *rest;
    size_t len = at ? strcspn(at, ": ") : 0;

    rest = len > 0 ? str_after(at + len, ": task") : NULL;
    rest = rest ? strstr(rest, ": ") : NULL;
    if (!rest || (size_t)snprintf(hosts, size, "%.*s", (int)len, at) >= size)
        return false;
    *ret_end = rest + 2;
    return true;
}

static void describe_failure(struct daemon_failure *f)
{
    if (f->reason[0])
        (void)snprintf(f->text, sizeof(f->text),
                       AGENT_NO_DAEMON "%s (%s): install the same Open MPI there, at the same "
                                       "place, or leave the host out (--exclude %s)",
                       f->hosts, f->reason, f->hosts);
    else
        (void)snprintf(
            f->text, sizeof(f->text),
            "Open MPI's daemon on host %s ended before it connected to mpirun (srun: %s); see the "
            "lines above, and check that the same Open MPI is fully installed there",
            f->hosts, f->end);
}

bool daemons_read_line(struct daemon_failure *failure, const char *line)
{
    const char *agent = strstr(line, AGENT_NO_DAEMON), *name, *reason, *end;
    bool known = failure->text[0] != '\0';
    char hosts[sizeof(failure->hosts)];

    if (agent && !known) {
        (void)snprintf(failure->text, sizeof(failure->text), "%s", agent);
        name = agent + strlen(AGENT_NO_DAEMON);
        (void)snprintf(failure->host, sizeof(failure->host), "%.*s", (int)strcspn(name, " "), name);
    } else if (parse_srun(line, hosts, sizeof(hosts), &end)) {
        if (known)
            return false;
        memcpy(failure->hosts, hosts, sizeof(hosts));
        (void)snprintf(failure->end, sizeof(failure->end), "%s", end);
    } else {
        reason = failure->reason[0] ? NULL : find_reason(line);
        if (reason)
            (void)snprintf(failure->reason, sizeof(failure->reason), "%s", reason);
    }
    if (failure->hosts[0])
        describe_failure(failure);
    return !known && failure->text[0];
}

bool daemons_names_host(const struct daemon_failure *failure, const char *host)
{
    struct hostlist list = {0};
    bool found = false;

    if (failure->host[0])
        return strcasecmp(failure->host, host) == 0;
    if (failure->hosts[0] && hostlist_add_text(&list, failure->hosts, NULL) == 0)
        for (size_t i = 0; i < list.count; i++)
            found |= strcasecmp(list.hosts[i].name, host) == 0;
    hostlist_fini(&list);
    return found;
}

/* ---- daemons that have not connected ---- */

/* A connection or a listening socket. */
struct socket_row {
    unsigned long inode;
    unsigned state;
    uint16_t port;         /* the local port */
    struct in6_addr other; /* an IPv4 address is mapped to IPv6 */
};

struct sockets {
    unsigned long *inodes; /* mpirun's sockets */
    size_t num_inodes, cap_inodes;
    struct socket_row *rows; /* mpirun's rows among all of this host's */
    size_t num_rows, cap_rows;
};

static void sockets_fini(struct sockets *s)
{
    free(s->inodes);
    free(s->rows);
}

static void read_inodes(pid_t pid, struct sockets *s)
{
    char path[32];
    struct dirent *entry;
    DIR *dir;

    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        char to[64];
        unsigned long inode;
        ssize_t n = readlinkat(dirfd(dir), entry->d_name, to, sizeof(to) - 1);

        to[n > 0 ? n : 0] = '\0';
        if (sscanf(to, "socket:[%lu]", &inode) == 1 &&
            array_grow(&s->inodes, &s->cap_inodes, s->num_inodes, sizeof(*s->inodes)) == 0)
            s->inodes[s->num_inodes++] = inode;
    }
    if (dir)
        (void)closedir(dir);
}

/* Parse an address, which the kernel prints as 32-bit numbers in this machine's byte order. */
static void read_address(const char *text, struct in6_addr *ret)
{
    bool v4 = strlen(text) == 8;

    *ret = (struct in6_addr){0};
    if (v4)
        ret->s6_addr[10] = ret->s6_addr[11] = 0xff;
    for (size_t i = v4 ? 3 : 0; i < 4 && strlen(text) >= 8; i++, text += 8) {
        char word[9];

        memcpy(word, text, 8);
        word[8] = '\0';
        ret->s6_addr32[i] = (uint32_t)strtoul(word, NULL, 16);
    }
}

static bool read_row(const char *line, struct socket_row *ret)
{
    char other[33];
    unsigned port;

    if (sscanf(line, " %*u: %*[0-9A-F]:%x %32[0-9A-F]:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu",
               &port, other, &ret->state, &ret->inode) != 4)
        return false;
    ret->port = (uint16_t)port;
    read_address(other, &ret->other);
    return true;
}

static bool is_of_mpirun(const struct sockets *s, unsigned long inode)
{
    for (size_t i = 0; i < s->num_inodes; i++)
        if (s->inodes[i] == inode)
            return true;
    return false;
}

static void read_rows(const char *path, struct sockets *s)
{
    struct text_lines lines;
    char line[512];
    struct socket_row row;

    if (text_lines_open(&lines, path) < 0)
        return;
    while (text_lines_next(&lines, line, sizeof(line)))
        if (read_row(line, &row) && is_of_mpirun(s, row.inode) &&
            array_grow(&s->rows, &s->cap_rows, s->num_rows, sizeof(*s->rows)) == 0)
            s->rows[s->num_rows++] = row;
    text_lines_close(&lines);
}

static bool is_accepted(const struct sockets *s, const struct socket_row *row)
{
    for (size_t i = 0; i < s->num_rows; i++)
        if (s->rows[i].state == LISTENING && s->rows[i].port == row->port)
            return row->state == ESTABLISHED;
    return false;
}

static bool is_own(const struct in6_addr *address)
{
    char text[INET6_ADDRSTRLEN] = "";
    const char *v4;

    (void)inet_ntop(AF_INET6, address, text, sizeof(text));
    v4 = str_after(text, "::ffff:");
    return host_is_this(v4 ? v4 : text);
}

static bool is_address_of(const char *name, const struct in6_addr *address)
{
    const struct addrinfo hints = {
        .ai_family = AF_INET6, .ai_socktype = SOCK_STREAM, .ai_flags = AI_V4MAPPED | AI_ALL};
    struct addrinfo *list, *i;
    bool found = false;

    if (getaddrinfo(name, NULL, &hints, &list) != 0)
        return false;
    for (i = list; i; i = i->ai_next)
        found |= memcmp(&((struct sockaddr_in6 *)(void *)i->ai_addr)->sin6_addr, address,
                        sizeof(*address)) == 0;
    freeaddrinfo(list);
    return found;
}

/* Record that the host with this address has connected. Returns false if no known host has it. */
static bool note_connected(const struct plan *plan, const struct in6_addr *address, bool *late)
{
    for (uint32_t i = 0; i < plan->num_hosts; i++) {
        const struct plan_host *host = &plan->hosts[i];
        const char *at = host->interface ? strchr(host->interface, ' ') : NULL;

        if (host->local ||
            (!is_address_of(host->name, address) && (!at || !is_address_of(at + 1, address))))
            continue;
        late[i] = false;
        return true;
    }
    return false;
}

uint32_t daemons_find_late(const struct plan *plan, pid_t mpirun, bool *late)
{
    struct sockets s = {0};
    uint32_t count = 0;
    bool known;

    if (plan->num_hosts > HOSTS_MOST || mpirun <= 0)
        return 0;
    for (uint32_t i = 0; i < plan->num_hosts; i++)
        late[i] = !plan->hosts[i].local;
    read_inodes(mpirun, &s);
    read_rows("/proc/net/tcp", &s);
    read_rows("/proc/net/tcp6", &s);
    known = s.num_rows > 0;
    for (size_t i = 0; i < s.num_rows && known; i++)
        if (is_accepted(&s, &s.rows[i]) && !is_own(&s.rows[i].other))
            known = note_connected(plan, &s.rows[i].other, late);
    for (uint32_t i = 0; i < plan->num_hosts; i++)
        count += known && late[i];
    sockets_fini(&s);
    assert(count <= plan->num_hosts);
    return count;
}
