/* SPDX-License-Identifier: MIT */
/* hostlist.h - lists of hosts as users write them: "node[0-2,7]:4,me@spare:2222,[fd00::7]". */
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
    char *name;     /* a name or an address, without brackets; owned by the list */
    char *user;     /* to log in as; owned by the list; NULL: nobody said */
    uint16_t port;  /* of its ssh server; 0: nobody said */
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
 * Append what `text` names: items separated by commas,
 *
 *     NAME  NAME:SLOTS  USER@NAME  USER@NAME:PORT  [USER@]NAME:PORT:SLOTS
 *
 * A name may hold sets of numbers in brackets, "r[0-1]n[01-16,20]": each is counted up, with
 * leading zeros where the first number of a range has them; several sets give every combination. A
 * name may be an IPv6 address, in brackets when numbers follow: "[fd00::7]:4".
 *
 * A host that is named again (with the same user and port) gains slots; a mention without a number
 * counts one then. Names are compared without regard to case, and lose a dot at their end:
 * "N1.example.com." is "n1.example.com".
 *
 * Errors: -EINVAL with a sentence that quotes the item; -ENOMEM. The list then holds what came
 * before the bad item.
 */
int hostlist_add_text(struct hostlist *list, const char *text, struct plenum_error *err);

/**
 * Append the hosts of a file: one a line, an item as above and then, if wanted, "slots=N",
 * "port=N", "user=NAME", "max_slots=N" (the last is not used); '#' begins a comment. As in Open
 * MPI's files, "count=N", "cpu=N" and "cpus=N" mean slots, and blanks may surround '='. A byte
 * order mark is skipped.
 *
 * Errors: -errno of opening or reading; -EINVAL with file and line; -ENOMEM.
 */
int hostlist_add_file(struct hostlist *list, const char *path, struct plenum_error *err);

/**
 * Append one host by its plain name, or raise its slots (0: nobody said how many): -EINVAL when it
 * cannot be a name.
 */
int hostlist_add_name(struct hostlist *list, const char *name, uint32_t slots,
                      struct plenum_error *err);

/** Take out hosts that `text` names, whatever their slots, and, unless it names them, whatever
 * their users and ports: 0, or -EINVAL as hostlist_add_text(). Names that are not there are
 * nothing.
 */
int hostlist_remove_text(struct hostlist *list, const char *text, struct plenum_error *err);

#endif
