/* SPDX-License-Identifier: MIT */
/* hostlist.c - "node[0-2,7]:4,spare" → node0, node1, node2, node7 with 4 slots each, and spare.
 *
 * split_item() first cuts an item into user, name and numbers. The meaning of ':' depends on what
 * precedes it: after a bare name it is the slots, as in mpirun; after user@name it is the port, as
 * everywhere else.
 *
 * An item is expanded by recursion over its bracketed sets: the name so far is a prefix, each
 * number of the first set is appended to it in turn, and the rest follows. Several sets therefore
 * give every combination in the order in which a person would count them.
 *
 * Names end up on command lines of ssh and mpirun. They must be IPv6 addresses, or consist of
 * letters, digits, '.', '-' and '_' and not begin with '-', which would make them options. */
#include "config.h"

#include "common/net/hostlist.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util/error_set.h"
#include "common/util/text.h"
#include "common/util/util.h"

/* Some Windows editors write this before the first line. */
#define BYTE_ORDER_MARK "\xef\xbb\xbf"

static void free_host(struct hostlist_host *host)
{
    free(host->name);
    free(host->user);
}

void hostlist_fini(struct hostlist *list)
{
    for (size_t i = 0; i < list->count; i++)
        free_host(&list->hosts[i]);
    free(list->hosts);
    *list = (struct hostlist){0};
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Returns the length of a name without its final dot: "n1.example.com." is "n1.example.com". */
static size_t name_length(const char *name)
{
    size_t len = strlen(name);

    return len > 1 && name[len - 1] == '.' ? len - 1 : len;
}

static struct hostlist_host *find(struct hostlist *list, const struct hostlist_host *wanted)
{
    size_t len = name_length(wanted->name);

    for (size_t i = 0; i < list->count; i++)
        if (strncasecmp(list->hosts[i].name, wanted->name, len) == 0 &&
            list->hosts[i].name[len] == '\0' && same_text(list->hosts[i].user, wanted->user) &&
            list->hosts[i].port == wanted->port)
            return &list->hosts[i];
    return NULL;
}

/* Add one complete name, or add its slots to those of the host if that is in the list. The strings
 * are copied. */
static int add_host(struct hostlist *list, const struct hostlist_host *wanted,
                    struct plenum_error *err)
{
    struct hostlist_host *host = find(list, wanted), copy = *wanted;

    if (host) {
        uint64_t sum = (uint64_t)(host->slots ? host->slots : 1) +
                       (uint64_t)(wanted->slots ? wanted->slots : 1);

        if (sum > HOSTLIST_SLOTS_MAX)
            return error_set(err, -EINVAL, "host %s would have more than %d slots", wanted->name,
                             HOSTLIST_SLOTS_MAX);
        host->slots = (uint32_t)sum;
        return 0;
    }
    if (list->count == HOSTLIST_MAX)
        return error_set(err, -EINVAL, "more than %d hosts were given", HOSTLIST_MAX);
    if (array_grow(&list->hosts, &list->cap, list->count, sizeof(*list->hosts)) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    assert(list->count < list->cap);
    copy.name = strndup(wanted->name, name_length(wanted->name));
    copy.user = wanted->user ? strdup(wanted->user) : NULL;
    if (!copy.name || (wanted->user && !copy.user)) {
        free_host(&copy);
        return error_set(err, -ENOMEM, "out of memory");
    }
    list->hosts[list->count++] = copy;
    return 0;
}

/* State of an expansion: the item as written (for messages), and the name so far. */
struct hostlist_expansion {
    struct hostlist *list;
    const char *item;
    struct hostlist_host host; /* everything but the name */
    char name[HOSTLIST_NAME_MAX];
    size_t len;
    struct plenum_error *err;
};

static int expand(struct hostlist_expansion *x, const char *rest);

static int append(struct hostlist_expansion *x, const char *text, size_t len)
{
    assert(x->len < sizeof(x->name));
    assert(x->name[x->len] == '\0');
    if (len >= sizeof(x->name) - x->len)
        return error_set(x->err, -EINVAL, "host '%.60s' is longer than %d characters", x->item,
                         HOSTLIST_NAME_MAX - 1);
    memcpy(x->name + x->len, text, len);
    x->len += len;
    x->name[x->len] = '\0';
    return 0;
}

/* Parse the digits at *p and advance it past them. */
static int get_number(struct hostlist_expansion *x, const char **p, uint64_t *ret)
{
    size_t len = strspn(*p, "0123456789");
    char digits[16];

    if (len == 0 || len >= sizeof(digits))
        return error_set(x->err, -EINVAL, "host '%s': '%.20s' is not a number or a range like 0-3",
                         x->item, *p);
    memcpy(digits, *p, len);
    digits[len] = '\0';
    *p += len;
    return parse_u64(digits, UINT64_MAX, ret);
}

/* Expand one range, "3" or "08-11", at *p; `rest` follows the closing bracket. */
static int expand_range(struct hostlist_expansion *x, const char **p, const char *rest)
{
    const char *start = *p;
    uint64_t first, last;
    int width, r;

    r = get_number(x, p, &first);
    if (r < 0)
        return r;
    width = start[0] == '0' ? (int)(*p - start) : 0;
    last = first;
    if (**p == '-') {
        (*p)++;
        r = get_number(x, p, &last);
        if (r < 0)
            return r;
    }
    if (last < first)
        return error_set(x->err, -EINVAL, "host '%s': the range %.*s runs backwards", x->item,
                         (int)(*p - start), start);
    if (last - first >= HOSTLIST_MAX)
        return error_set(x->err, -EINVAL, "host '%s': more than %d hosts were given", x->item,
                         HOSTLIST_MAX);
    assert(first <= last && width < 16);
    for (uint64_t n = first; n <= last; n++) {
        size_t keep = x->len;
        char digits[32];

        (void)snprintf(digits, sizeof(digits), "%0*llu", width, (unsigned long long)n);
        r = append(x, digits, strlen(digits));
        if (r == 0)
            r = expand(x, rest);
        if (r < 0)
            return r;
        assert(x->len >= keep);
        x->len = keep;
        x->name[keep] = '\0';
    }
    return 0;
}

/* Append `rest` to the name so far: plain characters up to the next set, then each number of that
 * set in turn. */
static int expand(struct hostlist_expansion *x, const char *rest)
{
    size_t plain = strcspn(rest, "[]"), keep = x->len;
    const char *close, *p;
    int r;

    if (memchr(rest, ',', plain)) /* in a file, where a line has a single item */
        return error_set(x->err, -EINVAL, "host '%s': ',' cannot be part of a host's name",
                         x->item);
    r = append(x, rest, plain);
    if (r < 0)
        return r;
    p = rest + plain;
    if (*p == '\0') {
        x->host.name = x->name;
        return add_host(x->list, &x->host, x->err);
    }
    close = strchr(p, ']');
    if (*p == ']' || !close)
        return error_set(x->err, -EINVAL, "host '%s': a bracket is unmatched", x->item);
    assert(*p == '[' && close > p);
    do {
        p++; /* skip the bracket or the comma */
        r = expand_range(x, &p, close + 1);
        if (r < 0)
            return r;
    } while (*p == ',');
    if (p != close)
        return error_set(x->err, -EINVAL, "host '%s': '%.20s' is not a number or a range like 0-3",
                         x->item, p);
    assert(x->len >= keep);
    x->len = keep;
    x->name[keep] = '\0';
    return 0;
}

/* Check that a name contains only safe characters, because nothing else may reach a command
 * line. */
static int check_characters(const char *name, const char *others, const char *what,
                            struct plenum_error *err)
{
    if (!*name)
        return error_set(err, -EINVAL, "the list contains a %s without a name", what);
    if (*name == '-')
        return error_set(err, -EINVAL, "%s '%s': a %s's name cannot begin with '-'", what, name,
                         what);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(others, *c))
            return error_set(err, -EINVAL, "%s '%s': '%c' cannot be part of a %s's name", what,
                             name, *c, what);
    return 0;
}

static int parse_slots(const char *name, const char *text, uint32_t *ret, struct plenum_error *err)
{
    uint64_t slots;

    if (parse_u64(text, HOSTLIST_SLOTS_MAX, &slots) < 0 || slots == 0)
        return error_set(err, -EINVAL, "host '%s': '%s' is not a number of slots from 1 to %d",
                         name, text, HOSTLIST_SLOTS_MAX);
    *ret = (uint32_t)slots;
    return 0;
}

static int parse_port(const char *name, const char *text, uint16_t *ret, struct plenum_error *err)
{
    uint64_t port;

    if (parse_u64(text, UINT16_MAX, &port) < 0 || port == 0)
        return error_set(err, -EINVAL, "host '%s': '%s' is not a port from 1 to 65535", name, text);
    *ret = (uint16_t)port;
    return 0;
}

static bool is_ipv6(const char *text)
{
    struct in6_addr address;

    return inet_pton(AF_INET6, text, &address) == 1;
}

/* Parse ":SLOTS", ":PORT" after a user, or ":PORT:SLOTS". */
static int parse_numbers(struct hostlist_host *host, char *text, struct plenum_error *err)
{
    char *second = strchr(text, ':');
    int r;

    if (!second)
        return host->user ? parse_port(host->name, text, &host->port, err)
                          : parse_slots(host->name, text, &host->slots, err);
    *second++ = '\0';
    r = parse_port(host->name, text, &host->port, err);
    if (r < 0)
        return r;
    return parse_slots(host->name, second, &host->slots, err);
}

/* Cut `item` into user, name and numbers, into which *ret points. `*address`: the name contains no
 * sets. */
static int split_item(char *item, struct hostlist_host *ret, bool *address,
                      struct plenum_error *err)
{
    char *at = strchr(item, '@'), *numbers = NULL;
    struct hostlist_host host = {.name = item};
    int r;

    if (at) {
        *at = '\0';
        host.user = item;
        host.name = at + 1;
        r = check_characters(host.user, ".-_", "user", err);
        if (r < 0)
            return r;
    }
    *address = true;
    if (host.name[0] == '[' && host.name[strcspn(host.name, ":]")] == ':') {
        char *close = strchr(host.name, ']');

        if (!close || (close[1] && close[1] != ':'))
            return error_set(err, -EINVAL, "host '%s': a bracket is unmatched", host.name);
        numbers = close[1] ? close + 2 : NULL;
        *close = '\0';
        host.name++;
        if (!is_ipv6(host.name))
            return error_set(err, -EINVAL, "host '%s' is not an IPv6 address", host.name);
    } else if (!is_ipv6(host.name)) {
        *address = false;
        numbers = strchr(host.name, ':');
        if (numbers)
            *numbers++ = '\0';
        r = check_characters(host.name, ".-_[],", "host", err);
        if (r < 0)
            return r;
    }
    if (numbers) {
        r = parse_numbers(&host, numbers, err);
        if (r < 0)
            return r;
    }
    *ret = host;
    return 0;
}

static int add_split(struct hostlist *list, const struct hostlist_host *host, bool address,
                     struct plenum_error *err)
{
    struct hostlist_expansion x = {.list = list, .item = host->name, .host = *host, .err = err};

    return address ? add_host(list, host, err) : expand(&x, host->name);
}

/* Returns the length of the item at `text`, which ends at a comma outside brackets or at the end of
 * the text. */
static size_t item_length(const char *text)
{
    bool inside = false;
    size_t n = 0;

    for (; text[n] && (inside || text[n] != ','); n++) {
        if (text[n] == '[')
            inside = true;
        else if (text[n] == ']')
            inside = false;
    }
    return n;
}

int hostlist_add_text(struct hostlist *list, const char *text, struct plenum_error *err)
{
    if (!*text)
        return error_set(err, -EINVAL, "the list of hosts is empty");
    for (;;) {
        size_t len = item_length(text);
        struct hostlist_host host;
        char item[1024];
        bool address;
        int r;

        if (len >= sizeof(item))
            return error_set(err, -EINVAL, "host '%.60s...' is too long", text);
        assert(text[len] == '\0' || text[len] == ',');
        memcpy(item, text, len);
        item[len] = '\0';
        r = split_item(item, &host, &address, err);
        if (r < 0)
            return r;
        r = add_split(list, &host, address, err);
        if (r < 0)
            return r;
        if (text[len] == '\0')
            return 0;
        text += len + 1;
    }
}

/* Returns the value in "name=value", or NULL. */
static const char *value_of(const char *word, const char *name)
{
    size_t len = strlen(name);

    return strncmp(word, name, len) == 0 && word[len] == '=' ? word + len + 1 : NULL;
}

/* Parse a word after the host, "slots=2", or one of Open MPI's synonyms. */
static int parse_word(struct hostlist_host *host, char *word, struct plenum_error *err)
{
    static const char *const slots[] = {"slots", "count", "cpu", "cpus"};
    const char *value;

    if (value_of(word, "max_slots") || value_of(word, "max-slots"))
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(slots); i++)
        if ((value = value_of(word, slots[i])))
            return parse_slots(host->name, value, &host->slots, err);
    if ((value = value_of(word, "port")))
        return parse_port(host->name, value, &host->port, err);
    if ((value = value_of(word, "user"))) {
        host->user = word + (value - word);
        return check_characters(host->user, ".-_", "user", err);
    }
    return error_set(err, -EINVAL,
                     "'%s' is not allowed after a host; use slots=N, port=N or user=NAME", word);
}

/* Remove the spaces and tabs around each '=', as in "slots = 2". */
static void join_words(char *line)
{
    char *to = line;

    for (const char *from = line; *from;) {
        const char *next = from + strspn(from, " \t");

        if (next > from && (*next == '=' || (to > line && to[-1] == '=')))
            from = next;
        else
            *to++ = *from++;
    }
    *to = '\0';
}

static int parse_line(struct hostlist *list, char *line, struct plenum_error *err)
{
    char *save = NULL, *name, *word;
    struct hostlist_host host;
    bool address;
    int r;

    line[strcspn(line, "#\r\n")] = '\0';
    join_words(line);
    name = strtok_r(line, " \t", &save);
    if (!name)
        return 0;
    r = split_item(name, &host, &address, err);
    if (r < 0)
        return r;
    while ((word = strtok_r(NULL, " \t", &save))) {
        r = parse_word(&host, word, err);
        if (r < 0)
            return r;
    }
    return add_split(list, &host, address, err);
}

int hostlist_add_file(struct hostlist *list, const char *path, struct plenum_error *err)
{
    FILE *file = fopen(path, "re");
    size_t cap = 0, before = list->count;
    char *line = NULL;
    int number = 0, r = 0;

    if (!file) {
        r = -errno;
        return error_set(err, r, "cannot read the host file %s: %s", path, strerror(-r));
    }
    while ((r = text_read_line(file, path, &line, &cap, err)) > 0) {
        const char *text = number++ == 0 ? str_after(line, BYTE_ORDER_MARK) : NULL;

        r = parse_line(list, text ? line + (text - line) : line, err);
        if (r < 0) {
            (void)error_prefix(err, r, "%s:%d", path, number);
            goto out;
        }
    }
    if (r < 0)
        goto out;
    if (list->count == before)
        r = error_set(err, -EINVAL, "the host file %s lists no hosts", path);
out:
    free(line);
    (void)fclose(file);
    return r;
}

int hostlist_add_name(struct hostlist *list, const char *name, uint32_t slots,
                      struct plenum_error *err)
{
    const struct hostlist_host host = {.name = (char *)name, .slots = slots};
    int r = is_ipv6(name) ? 0 : check_characters(name, ".-_", "host", err);

    return r < 0 ? r : add_host(list, &host, err);
}

static bool is_named(const struct hostlist *names, const struct hostlist_host *host)
{
    for (size_t i = 0; i < names->count; i++) {
        const struct hostlist_host *n = &names->hosts[i];

        if (strcasecmp(n->name, host->name) == 0 && (!n->user || same_text(n->user, host->user)) &&
            (!n->port || n->port == host->port))
            return true;
    }
    return false;
}

int hostlist_remove_text(struct hostlist *list, const char *text, struct plenum_error *err)
{
    struct hostlist names = {0};
    size_t kept = 0;
    int r = hostlist_add_text(&names, text, err);

    if (r < 0)
        goto out;
    for (size_t i = 0; i < list->count; i++) {
        if (is_named(&names, &list->hosts[i]))
            free_host(&list->hosts[i]);
        else
            list->hosts[kept++] = list->hosts[i];
    }
    assert(kept <= list->count);
    list->count = kept;
out:
    hostlist_fini(&names);
    return r;
}
