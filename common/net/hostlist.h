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
    HOSTLIST_SLOTS_MAX = 1u << 20, /* slots on one host */
};

struct hostlist_host {
    char *name;     /* a name, or an address without brackets; owned by the list */
    char *user;     /* user to log in as; owned by the list; NULL: not specified */
    uint16_t port;  /* port of its ssh server; 0: not specified */
    uint32_t slots; /* instances that may run there; 0: not specified */
};

/** Hosts in the order of their first mention, each once. Zero-initialised: an empty list. */
struct hostlist {
    struct hostlist_host *hosts;
    size_t count, cap;
};

void hostlist_fini(struct hostlist *list);

/**
 * Append the hosts in `text`: items separated by commas,
 *
 *     NAME  NAME:SLOTS  USER@NAME  USER@NAME:PORT  [USER@]NAME:PORT:SLOTS
 *
 * A name may contain sets of numbers in brackets, "r[0-1]n[01-16,20]", which are expanded, with
 * leading zeros if the first number of a range has them; several sets give every combination. A
 * name may be an IPv6 address, in brackets if numbers follow: "[fd00::7]:4".
 *
 * Naming a host again (with the same user and port) adds slots; a mention without a number then
 * counts as one. Names are compared case-insensitively and without a final dot: "N1.example.com."
 * is "n1.example.com".
 *
 * Errors: -EINVAL with a message that quotes the item; -ENOMEM. The list then contains the items
 * before the bad one.
 */
int hostlist_add_text(struct hostlist *list, const char *text, struct plenum_error *err);

/**
 * Append the hosts in a file: one per line, an item as above, optionally followed by "slots=N",
 * "port=N", "user=NAME", "max_slots=N" (the last is ignored); '#' begins a comment. As in Open
 * MPI's files, "count=N", "cpu=N" and "cpus=N" mean slots, and spaces may surround '='. A byte
 * order mark is skipped.
 *
 * Errors: -errno of opening or reading; -EINVAL with file and line; -ENOMEM.
 */
int hostlist_add_file(struct hostlist *list, const char *path, struct plenum_error *err);

/**
 * Append one host by its plain name, or add slots to it (0: not specified). Returns 0, -EINVAL with
 * a message if the name is not valid or the host would have too many slots, or -ENOMEM.
 */
int hostlist_add_name(struct hostlist *list, const char *name, uint32_t slots,
                      struct plenum_error *err);

/** Remove the hosts in `text`, whatever their slots, and, unless `text` names them, whatever their
 *  users and ports. Returns 0, or -EINVAL as in hostlist_add_text(). Names that are not in the list
 *  are ignored. */
int hostlist_remove_text(struct hostlist *list, const char *text, struct plenum_error *err);

#endif
