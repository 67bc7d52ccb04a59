/* SPDX-License-Identifier: MIT */
/* Compares a list with an array that is shifted by hand, in random sequences of operations. */
#include "config.h"

#include <signal.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/philox.h"
#include "common/util/list.h"
#include "common/util/util.h"

enum { THINGS = 12, ROUNDS = 20000 };

struct thing {
    int before; /* so that container_of() has a nonzero offset */
    struct list link;
};

/* The same elements in the expected order. */
struct model {
    struct thing *things[THINGS];
    unsigned count;
};

static unsigned find(const struct model *m, const struct thing *thing)
{
    unsigned at = 0;

    while (at < m->count && m->things[at] != thing)
        at++;
    return at;
}

static void insert(struct model *m, unsigned at, struct thing *thing)
{
    memmove(m->things + at + 1, m->things + at, (m->count - at) * sizeof(*m->things));
    m->things[at] = thing;
    m->count++;
}

static void erase(struct model *m, unsigned at)
{
    m->count--;
    memmove(m->things + at, m->things + at + 1, (m->count - at) * sizeof(*m->things));
}

static void compare(const struct list *head, const struct model *m)
{
    unsigned n = 0;

    for (struct list *at = list_first(head); at; at = list_next(head, at), n++) {
        cr_assert(lt(u32, n, m->count));
        cr_assert(eq(ptr, container_of(at, struct thing, link), m->things[n]));
    }
    cr_assert(eq(u32, n, m->count));
    cr_assert(eq(int, list_is_empty(head), m->count == 0));
}

Test(list, agrees_with_an_array)
{
    struct thing things[THINGS] = {0};
    struct model model = {.count = 0};
    struct list head;

    list_init(&head);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        struct philox_block draw = philox_draw(1, i, 0, 0, 0);
        struct thing *thing = &things[philox_below(draw.word[0], THINGS)], *first;
        unsigned at = find(&model, thing);

        cr_assert(eq(int, list_is_linked(&thing->link), at < model.count));
        if (at < model.count && draw.word[1] % 8 > 0) {
            list_remove(&thing->link);
            erase(&model, at);
        } else if (at < model.count) {
            first = container_of(list_pop_first(&head), struct thing, link);
            cr_assert(eq(ptr, first, model.things[0]));
            erase(&model, 0);
        } else if (draw.word[1] % 3 == 0) {
            list_add_first(&head, &thing->link);
            insert(&model, 0, thing);
        } else if (draw.word[1] % 3 == 1 || model.count == 0) {
            list_add_last(&head, &thing->link);
            insert(&model, model.count, thing);
        } else {
            at = philox_below(draw.word[2], model.count);
            if (draw.word[3] % 2) {
                list_add_before(&model.things[at]->link, &thing->link);
                insert(&model, at, thing);
            } else {
                list_add_after(&model.things[at]->link, &thing->link);
                insert(&model, at + 1, thing);
            }
        }
        compare(&head, &model);
    }
}

Test(list, an_empty_list_has_no_first_element)
{
    struct list head;

    list_init(&head);
    cr_expect(eq(ptr, list_first(&head), NULL));
    cr_expect(eq(ptr, list_pop_first(&head), NULL));
}

Test(list, nothing_is_in_two_lists, .signal = SIGABRT)
{
    struct list one, two, link = {0};

    list_init(&one);
    list_init(&two);
    list_add_last(&one, &link);
    list_add_last(&two, &link);
}

Test(list, an_element_of_no_list_is_not_removed, .signal = SIGABRT)
{
    struct list link = {0};

    list_remove(&link);
}
