/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/pattern.h"
#include "loader/dataset/scope.h"
#include "tests/tree.h"

static const struct scope anywhere = {.fd = -1};

static void spelled(const char *text, const char *want)
{
    struct pattern_list paths = {0};
    struct plenum_error err = {""};
    char got[1024] = "";

    cr_assert(eq(int, pattern_expand(&anywhere, "/f", text, &paths, &err), 0), "%s: %s", text,
              err.text);
    for (size_t i = 0; i < paths.count; i++) {
        strcat(got, i ? " " : "");
        strcat(got, paths.paths[i] + strlen("/f/"));
    }
    cr_expect(eq(str, got, (char *)want), "%s", text);
    pattern_list_fini(&paths);
}

Test(pattern, braces_are_expanded_as_in_a_shell)
{
    spelled("x", "x");
    spelled("x-{0..3}.tar", "x-0.tar x-1.tar x-2.tar x-3.tar");
    spelled("x-{008..011}", "x-008 x-009 x-010 x-011");
    spelled("{8..11}", "8 9 10 11");
    spelled("{08..100..46}", "008 054 100");
    spelled("{3..0}", "3 2 1 0");
    spelled("{0..10..5}", "0 5 10");
    spelled("{10..0..5}", "10 5 0");
    spelled("{a..e..2}", "a c e");
    spelled("{-1..1}", "{-1..1}");
    spelled("{a,b,c}", "a b c");
    spelled("{train,extra}-{0..1}", "train-0 train-1 extra-0 extra-1");
    spelled("a{,b}c", "ac abc");
    spelled("{a,{b,c}d,e}", "a bd cd e");
    spelled("{a,b{0..1}}", "a b0 b1");
    spelled("{x}", "{x}");
    spelled("{}", "{}");
    spelled("{x}{0..1}", "{x}0 {x}1");
    spelled("{0...3}", "{0...3}");
    spelled("{0..3", "{0..3");
    spelled("{a..c}", "a b c");
    spelled("a{b", "a{b");
    spelled("a}b", "a}b");
}

/* The number of results is the product; each occurs once, in numeric order. */
Test(pattern, ranges_multiply)
{
    for (uint32_t a = 0; a < 12; a++)
        for (uint32_t b = 0; b < 12; b++) {
            struct pattern_list paths = {0};
            char text[64], want[64];
            uint32_t k = 0;

            (void)snprintf(text, sizeof(text), "{000..%03u}/{0..%u}", a, b);
            cr_assert(eq(int, pattern_expand(&anywhere, "/f", text, &paths, NULL), 0));
            cr_assert(eq(sz, paths.count, (a + 1) * (b + 1)));
            for (uint32_t i = 0; i <= a; i++)
                for (uint32_t j = 0; j <= b; j++) {
                    (void)snprintf(want, sizeof(want), "%03u/%u", i, j);
                    cr_assert(eq(str, paths.paths[k++] + 3, want));
                }
            pattern_list_fini(&paths);
        }
}

static void refused(const char *text, int code, const char *sentence)
{
    struct pattern_list paths = {0};
    struct plenum_error err = {""};

    cr_expect(eq(int, pattern_expand(&anywhere, "/f", text, &paths, &err), code), "%s", text);
    cr_expect(ne(ptr, (void *)strstr(err.text, sentence), NULL), "'%s' lacks '%s'", err.text,
              sentence);
    cr_expect(eq(sz, paths.count, 0));
}

Test(pattern, malformed_patterns_are_rejected)
{
    refused("{0..99999999}", -E2BIG, "more than 1000000 files");
    refused("{0..9999}{0..9999}", -E2BIG, "more than 1000000 files");
    refused("{0..9..0}", -EINVAL, "step of 0");
    refused("*/../a", -EINVAL, "'..' cannot follow");
    refused("a{b,c}/..", -EINVAL, "'..' cannot follow");
    refused("{b,..}/a", -EINVAL, "'..' cannot follow");
    refused("[a]/b/../../c", -EINVAL, "'..' cannot follow");
    refused("nothing/*.tar", -ENOENT, "no file matches 'nothing/*.tar'");
    refused("{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{a,{"
            "a,{a,{"
            "a,{a,{a,{a,b}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}}",
            -EINVAL, "braces");
}

Test(pattern, cancelled_searches_stop)
{
    static const char *const patterns[] = {"*/*/*/*", "*/c", "{x,y}*"};
    atomic_bool cancel = true;
    struct scope scope = {.fd = -1, .cancel = &cancel};
    struct pattern_list paths = {0};
    struct plenum_error err;
    struct tree tree;

    tree_init(&tree);
    tree_write_text(&tree, "b/c", "");
    for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
        cr_expect(eq(int, pattern_expand(&scope, tree.root, patterns[i], &paths, &err), -ECANCELED),
                  "%s", patterns[i]);
    tree_fini(&tree);
}

Test(pattern, globs_are_matched_in_byte_order_and_files_win_over_patterns)
{
    struct pattern_list paths = {0};
    struct plenum_error err = {""};
    struct tree tree;

    tree_init(&tree);
    tree_write_text(&tree, "x-10", "");
    tree_write_text(&tree, "x-9", "");
    tree_write_text(&tree, "X-1", "");
    tree_write_text(&tree, "b/x-2", "");
    tree_write_text(&tree, "odd{0..1}*", "");
    cr_assert(eq(int, pattern_expand(&anywhere, tree.root, "x-*", &paths, &err), 0), "%s",
              err.text);
    cr_assert(eq(sz, paths.count, 2));
    cr_expect(eq(str, paths.paths[0], (char *)tree_path(&tree, "x-10")));
    pattern_list_fini(&paths);
    cr_assert(
        eq(int, pattern_expand(&anywhere, tree.root, "{b/x-[0-9],x-?,missing}", &paths, &err), 0));
    cr_assert(eq(sz, paths.count, 3), "the order is that of the braces, and only globs are "
                                      "looked up");
    cr_expect(eq(str, paths.paths[0], (char *)tree_path(&tree, "b/x-2")));
    cr_expect(eq(str, paths.paths[1], (char *)tree_path(&tree, "x-9")));
    cr_expect(eq(str, paths.paths[2], (char *)tree_path(&tree, "missing")));
    pattern_list_fini(&paths);
    cr_assert(eq(int, pattern_expand(&anywhere, tree.root, "odd{0..1}*", &paths, &err), 0));
    cr_assert(eq(sz, paths.count, 1));
    cr_expect(eq(str, paths.paths[0], (char *)tree_path(&tree, "odd{0..1}*")));
    pattern_list_fini(&paths);
    tree_write_text(&tree, "c/x-2", "");
    cr_assert(eq(int, pattern_expand(&anywhere, tree.root, "[bc]/{x,y}-*", &paths, &err), -ENOENT));
    cr_assert(eq(int, pattern_expand(&anywhere, tree.root, "?/x-2", &paths, &err), 0));
    cr_assert(eq(sz, paths.count, 2));
    cr_expect(eq(str, paths.paths[0], (char *)tree_path(&tree, "b/x-2")));
    cr_expect(eq(str, paths.paths[1], (char *)tree_path(&tree, "c/x-2")));
    pattern_list_fini(&paths);
    tree_fini(&tree);
}
