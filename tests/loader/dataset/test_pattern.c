/* Braces and globs. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/util.h"
#include "loader/dataset/pattern.h"
#include "tests/tree.h"

struct expansion {
    char pattern[60], want[200]; /* separated by blanks */
    int code;
};

ParameterizedTestParameters(pattern, braces)
{
    /* What bash prints for them, where it knows the form. */
    static struct expansion cases[] = {
        {"plain", "plain", 0},
        {"x-{1..3}.tar", "x-1.tar x-2.tar x-3.tar", 0},
        {"x-{08..11}.tar", "x-08.tar x-09.tar x-10.tar x-11.tar", 0},
        {"{8..010}", "008 009 010", 0},
        {"{0..9..4}", "0 4 8", 0},
        {"{3..1}", "3 2 1", 0},
        {"{9..0..4}", "9 5 1", 0},
        {"{5..5}", "5", 0},
        {"{a..e..2}", "a c e", 0},
        {"{a,b}{1,2}", "a1 a2 b1 b2", 0},
        {"x{,y}", "x xy", 0},
        {"a{b,c{d,e}f,g}h", "abh acdfh acefh agh", 0},
        {"{a,{1..3}}", "a 1 2 3", 0},
        {"{x}", "{x}", 0},
        {"{}", "{}", 0},
        {"a{b", "a{b", 0},
        {"a}b", "a}b", 0},
        {"{1..x}", "{1..x}", 0},
        {"{1..2..}", "{1..2..}", 0},
        {"{x{a,b}}", "{xa} {xb}", 0},
        {"{1..3..0}", "a step of 0", -EINVAL},
        {"{1..99999999}", "more than 1000000", -E2BIG},
        {"{0..999}{0..999}{0..9}", "more than 1000000", -E2BIG},
        {"{99999999999999999999..1}", "{99999999999999999999..1}", 0},
    };
    return cr_make_param_array(struct expansion, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct expansion *c, pattern, braces)
{
    struct pattern_list list = {0};
    struct plenum_error err = {""};
    char got[400] = "";

    cr_expect(eq(int, pattern_expand("/nowhere", c->pattern, &list, &err), c->code), "%s: %s",
              c->pattern, err.text);
    for (size_t i = 0; i < list.count; i++) {
        cr_assert(eq(int, strncmp(list.paths[i], "/nowhere/", 9), 0));
        (void)strcat(strcat(got, i ? " " : ""), list.paths[i] + 9);
    }
    if (c->code == 0)
        cr_expect(eq(str, got, c->want));
    else
        cr_expect(ne(ptr, (void *)strstr(err.text, c->want), NULL), "%s", err.text);
    pattern_list_fini(&list);
}

Test(pattern, globs_are_of_the_folder_and_in_byte_order)
{
    struct pattern_list list = {0};
    struct plenum_error err = {""};
    struct tree tree;

    tree_init(&tree);
    tree_write_text(&tree, "odd [1]*/x10.tar", "");
    tree_write_text(&tree, "odd [1]*/x9.tar", "");
    tree_write_text(&tree, "odd [1]*/X1.tar", "");
    tree_write_text(&tree, "odd [1]*/y{1,2}.tar", "");
    cr_assert(eq(int, pattern_expand(tree_path(&tree, "odd [1]*"), "{x*,X?}.tar", &list, &err), 0),
              "%s", err.text);
    cr_assert(eq(sz, list.count, 3));
    cr_expect(eq(str, list.paths[0], (char *)tree_path(&tree, "odd [1]*/x10.tar")));
    cr_expect(eq(str, list.paths[1], (char *)tree_path(&tree, "odd [1]*/x9.tar")));
    cr_expect(eq(str, list.paths[2], (char *)tree_path(&tree, "odd [1]*/X1.tar")));
    pattern_list_fini(&list);
    cr_assert(eq(int, pattern_expand(tree_path(&tree, "odd [1]*"), "y{1,2}.tar", &list, &err), 0));
    cr_assert(eq(sz, list.count, 1), "a file that is called so");
    pattern_list_fini(&list);
    cr_expect(eq(int, pattern_expand(tree.root, "q*", &list, &err), -ENOENT));
    tree_fini(&tree);
}
