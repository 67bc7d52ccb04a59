/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/options/program.h"

/* Command lines, with '|' for each NUL, and the expected names. */
static const char *const cases[][2] = {
    {"/usr/bin/python3|/home/a/train.py|--lr|1|", "train.py"},
    {"python3.11|-u|train.py|", "train.py"},
    {"python|-X|dev|-W|error|./train.py|", "train.py"},
    {"python3|-m|timm.train|data|", "timm.train"},
    {"python3|-m|", "python3"},
    {"python3|-X|", "python3"},
    {"python3|-c|import x|", "python3"},
    {"python3|", "python3"},
    {"python3|-|", "python3"},
    {"/opt/feed|--seed|7|", "feed"},
    {"folder/|x|", "folder/"},
    {"|", ""},
    {"", ""},
    {"python3||x|", ""}, /* an empty script */
};

Test(program, has_the_name_by_which_it_was_called)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char words[100], name[32];
        size_t len = strlen(cases[i][0]);

        strcpy(words, cases[i][0]);
        for (char *c = words; *c; c++)
            *c = *c == '|' ? '\0' : *c;
        words[len] = '\0';
        program_name_of(words, len, name, sizeof(name));
        cr_expect(eq(str, name, (char *)cases[i][1]), "%s", cases[i][0]);
    }
}

Test(program, a_long_name_is_cut)
{
    char name[5];

    program_name_of("/bin/something", sizeof("/bin/something"), name, sizeof(name));
    cr_expect(eq(str, name, "some"));
}

Test(program, this_one_has_a_name)
{
    char name[64];

    program_name(name, sizeof(name));
    cr_expect(eq(str, name, program_invocation_short_name)); /* Criterion's worker */
}
