/* hostlist.c - "node[0-2,7]:4,spare" → node0, node1, node2, node7 with 4 slots each, and spare.
 *
 * An item is expanded by recursion over its bracketed sets: the name so far is a prefix, each
 * number of the first set is appended to it in turn, and the rest follows. So several sets give
 * every combination in the order in which a person would count them.
 *
 * Names end up on command lines of ssh and mpirun: only letters, digits, '.', '-' and '_' pass, and
 * none may begin with '-', where it would be read as an option. */
#include "config.h"

#include "common/hostlist.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/error.h"
#include "common/util.h"

void hostlist_fini(struct hostlist *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->hosts[i].name);
    free(list->hosts);
    *list = (struct hostlist){0};
}

static struct hostlist_host *find(struct hostlist *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->hosts[i].name, name) == 0)
            return &list->hosts[i];
    return NULL;
}

/* One complete name. */
static int add_host(struct hostlist *list, const char *name, uint32_t slots,
                    struct plenum_error *err)
{
    struct hostlist_host *host = find(list, name);
    char *copy;

    if (host) {
        uint64_t sum = (uint64_t)(host->slots ? host->slots : 1) + (uint64_t)(slots ? slots : 1);

        if (sum > HOSTLIST_SLOTS_MAX)
            return error_set(err, -EINVAL, "host %s would have more than %d slots", name,
                             HOSTLIST_SLOTS_MAX);
        host->slots = (uint32_t)sum;
        return 0;
    }
    if (list->count == HOSTLIST_MAX)
        return error_set(err, -EINVAL, "more than %d hosts are named", HOSTLIST_MAX);
    if (list->count == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 16;
        struct hostlist_host *hosts = realloc(list->hosts, cap * sizeof(*hosts));

        if (!hosts)
            return error_set(err, -ENOMEM, "out of memory");
        list->hosts = hosts;
        list->cap = cap;
    }
    copy = strdup(name);
    if (!copy)
        return error_set(err, -ENOMEM, "out of memory");
    list->hosts[list->count++] = (struct hostlist_host){.name = copy, .slots = slots};
    return 0;
}

/* What is being expanded: the item as it was written (for messages), and the name so far. */
struct expansion {
    struct hostlist *list;
    const char *item;
    uint32_t slots;
    char name[HOSTLIST_NAME_MAX];
    size_t len;
    struct plenum_error *err;
};

static int expand(struct expansion *x, const char *rest);

static int append(struct expansion *x, const char *text, size_t len)
{
    if (len >= sizeof(x->name) - x->len)
        return error_set(x->err, -EINVAL, "host '%.60s' is longer than %d characters", x->item,
                         HOSTLIST_NAME_MAX - 1);
    memcpy(x->name + x->len, text, len);
    x->len += len;
    x->name[x->len] = '\0';
    return 0;
}

/* The digits at *p, which are moved over. */
static int get_number(struct expansion *x, const char **p, uint64_t *ret)
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

/* One range, "3" or "08-11", which begins at *p; `rest` follows the closing bracket. */
static int expand_range(struct expansion *x, const char **p, const char *rest)
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
        return error_set(x->err, -EINVAL, "host '%s': more than %d hosts are named", x->item,
                         HOSTLIST_MAX);
    for (uint64_t n = first; n <= last; n++) {
        size_t keep = x->len;
        char digits[32];

        (void)snprintf(digits, sizeof(digits), "%0*llu", width, (unsigned long long)n);
        r = append(x, digits, strlen(digits));
        if (r == 0)
            r = expand(x, rest);
        if (r < 0)
            return r;
        x->len = keep;
        x->name[keep] = '\0';
    }
    return 0;
}

/* What follows the name so far: plain characters up to the next set, then each of the set. */
static int expand(struct expansion *x, const char *rest)
{
    size_t plain = strcspn(rest, "[]"), keep = x->len;
    const char *close, *p;
    int r;

    r = append(x, rest, plain);
    if (r < 0)
        return r;
    p = rest + plain;
    if (*p == '\0')
        return add_host(x->list, x->name, x->slots, x->err);
    close = strchr(p, ']');
    if (*p == ']' || !close)
        return error_set(x->err, -EINVAL, "host '%s': a bracket has no partner", x->item);
    do {
        p++; /* the bracket or the comma */
        r = expand_range(x, &p, close + 1);
        if (r < 0)
            return r;
    } while (*p == ',');
    if (p != close)
        return error_set(x->err, -EINVAL, "host '%s': '%.20s' is not a number or a range like 0-3",
                         x->item, p);
    x->len = keep;
    x->name[keep] = '\0';
    return 0;
}

static int check_characters(const char *name, struct plenum_error *err)
{
    if (!*name)
        return error_set(err, -EINVAL, "a host without a name is in the list");
    if (*name == '-')
        return error_set(err, -EINVAL, "host '%s': a host's name cannot begin with '-'", name);
    for (const char *c = name; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr(".-_[],", *c))
            return error_set(err, -EINVAL, "host '%s': '%c' cannot be part of a host's name", name,
                             *c);
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

static int add_item(struct hostlist *list, const char *name, uint32_t slots,
                    struct plenum_error *err)
{
    struct expansion x = {.list = list, .item = name, .slots = slots, .err = err};
    int r = check_characters(name, err);

    return r < 0 ? r : expand(&x, name);
}

/* The end of the item at `text`: a comma outside brackets, or the end. */
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
        char item[1024], *colon;
        uint32_t slots = 0;
        int r = 0;

        if (len >= sizeof(item))
            return error_set(err, -EINVAL, "host '%.60s...' is too long", text);
        memcpy(item, text, len);
        item[len] = '\0';
        colon = strrchr(item, ':');
        if (colon) {
            *colon = '\0';
            r = parse_slots(item, colon + 1, &slots, err);
        }
        if (r == 0)
            r = add_item(list, item, slots, err);
        if (r < 0)
            return r;
        if (text[len] == '\0')
            return 0;
        text += len + 1;
    }
}

/* The words after the name, "slots=2 max_slots=4". */
static int parse_line(struct hostlist *list, char *line, struct plenum_error *err)
{
    char *save = NULL, *name, *word;
    uint32_t slots = 0;
    int r;

    line[strcspn(line, "#\r\n")] = '\0';
    name = strtok_r(line, " \t", &save);
    if (!name)
        return 0;
    while ((word = strtok_r(NULL, " \t", &save))) {
        if (strncmp(word, "max_slots=", 10) == 0 || strncmp(word, "max-slots=", 10) == 0)
            continue;
        if (strncmp(word, "slots=", 6) != 0)
            return error_set(err, -EINVAL, "'%s' is not understood after a host; slots=N is", word);
        r = parse_slots(name, word + 6, &slots, err);
        if (r < 0)
            return r;
    }
    return add_item(list, name, slots, err);
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
    errno = 0;
    while (r == 0 && getline(&line, &cap, file) >= 0) {
        number++;
        r = parse_line(list, line, err);
        if (r < 0)
            (void)error_prefix(err, r, "%s:%d", path, number);
    }
    if (r == 0 && ferror(file)) {
        r = errno ? -errno : -EIO;
        (void)error_set(err, r, "cannot read the host file %s: %s", path, strerror(-r));
    }
    free(line);
    (void)fclose(file);
    if (r == 0 && list->count == before)
        r = error_set(err, -EINVAL, "the host file %s names no host", path);
    return r;
}
