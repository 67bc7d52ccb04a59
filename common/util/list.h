/* SPDX-License-Identifier: MIT */
/* list.h - an intrusive doubly linked list: the links are members of the objects.
 *
 * The list is a ring that includes its head, so adding and removing need no search, and the first
 * and last objects are not special. container_of() turns a link into its object. A link of zeros is
 * not in a list. Adding a linked object, or removing one that is not linked, is a bug, which
 * assert() detects. */
#ifndef COMMON_LIST_H
#define COMMON_LIST_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

/** A head, or an object's link. */
struct list {
    struct list *prev, *next;
};

/** Make `head` an empty list. */
static inline void list_init(struct list *head)
{
    head->prev = head->next = head;
}

/** Is this link in a list? */
static inline bool list_is_linked(const struct list *link)
{
    return link->next != NULL;
}

static inline bool list_is_empty(const struct list *head)
{
    assert(list_is_linked(head));
    return head->next == head;
}

/** Returns the first link, or NULL. */
static inline struct list *list_first(const struct list *head)
{
    return list_is_empty(head) ? NULL : head->next;
}

/** Returns the link after this one, or NULL. */
static inline struct list *list_next(const struct list *head, const struct list *link)
{
    assert(list_is_linked(link));
    return link->next == head ? NULL : link->next;
}

/** Add `link` before `at`, which is a link in the list, or its head. */
static inline void list_add_before(struct list *at, struct list *link)
{
    assert(list_is_linked(at) && !list_is_linked(link));
    link->prev = at->prev;
    link->next = at;
    at->prev->next = link;
    at->prev = link;
}

/** Add `link` after `at`, which is a link in the list, or its head. */
static inline void list_add_after(struct list *at, struct list *link)
{
    assert(list_is_linked(at));
    list_add_before(at->next, link);
}

static inline void list_add_first(struct list *head, struct list *link)
{
    list_add_after(head, link);
}

static inline void list_add_last(struct list *head, struct list *link)
{
    list_add_before(head, link);
}

static inline void list_remove(struct list *link)
{
    assert(list_is_linked(link));
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}

/** Remove the first link and return it, or NULL. */
static inline struct list *list_pop_first(struct list *head)
{
    struct list *link = list_first(head);

    if (link)
        list_remove(link);
    return link;
}

#endif
