/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/environ.h"
#include "tests/launcher/environment.h"

Test(environ, changes)
{
    static char *before[] = {(char *)"KEEP=k", (char *)"OLD=o",    (char *)"GO=g",
                             (char *)"MINE=m", (char *)"KEEPER=x", NULL};
    struct environ_list list = {0};
    char **after;

    cr_assert(eq(int, environ_list_put(&list, ENVIRON_SET, "OLD", "1"), 0));
    cr_assert(eq(int, environ_list_put(&list, ENVIRON_SET, "OLD", "n"), 0));
    cr_assert(eq(int, environ_list_put(&list, ENVIRON_SET, "NEW", "a=b"), 0));
    cr_assert(eq(int, environ_list_put(&list, ENVIRON_UNSET, "GO", ""), 0));
    cr_assert(eq(int, environ_list_put(&list, ENVIRON_SET_IF, "MINE", "theirs"), 0));
    cr_assert(eq(int, environ_list_put(&list, ENVIRON_SET_IF, "TUNE", "4"), 0));
    cr_expect(eq(sz, list.count, 5), "each name once");
    after = environ_apply(before, &list);
    cr_assert(after != NULL);
    expect(after, "KEEP", "k");
    expect(after, "KEEPER", "x");
    expect(after, "OLD", "n");
    expect(after, "NEW", "a=b");
    expect(after, "GO", NULL);
    expect(after, "MINE", "m");
    expect(after, "TUNE", "4");
    environ_free(after);
    environ_list_fini(&list);
}
