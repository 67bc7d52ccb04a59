/* hostlist.h - lists of hosts as people write them: "node[0-2,7]:4,spare". */
#ifndef COMMON_HOSTLIST_H
#define COMMON_HOSTLIST_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum {
    HOSTLIST_MAX = 16384,          /* hosts in one list */
    HOSTLIST_NAME_MAX = 256,       /* bytes of a name with its NUL */
    HOSTLIST_SLOTS_MAX = 1u << 20, /* on one host */
};

struct hostlist_host {
    char *name;     /* owned by the list */
    uint32_t slots; /* instances that may run there; 0: nobody said */
};

/** Hosts in the order in which they were first named; each once. Zero-initialised: an empty list.
 */
struct hostlist {
    struct hostlist_host *hosts;
    size_t count, cap;
};

void hostlist_fini(struct hostlist *list);

/**
 * Append what `text` names: items separated by commas, each NAME or NAME:SLOTS. A name may hold
 * sets of numbers in brackets, "r[0-1]n[01-16,20]": each is counted up, with leading zeros where
 * the first number of a range has them; several sets give every combination.
 *
 * A host that is named again gains slots; a mention without a number counts one then.
 *
 * Errors: -EINVAL with a sentence that quotes the item; -ENOMEM. The list then holds what came
 * before the bad item.
 */
int hostlist_add_text(struct hostlist *list, const char *text, struct plenum_error *err);

/**
 * Append the hosts of a file: one a line, "NAME [slots=N] [max_slots=N]" (the latter is not used),
 * names as above; '#' begins a comment.
 *
 * Errors: -errno of opening or reading; -EINVAL with file and line; -ENOMEM.
 */
int hostlist_add_file(struct hostlist *list, const char *path, struct plenum_error *err);

#endif
