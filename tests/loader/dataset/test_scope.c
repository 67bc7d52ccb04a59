/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/dataset/scope.h"
#include "tests/tree.h"

static struct tree tree;

static void link_to(const char *target, const char *name)
{
    char text[512];

    target = target[0] == '%' ? tree_path(&tree, target + 2) : target;
    (void)snprintf(text, sizeof(text), "%s", target);
    cr_assert(eq(int, symlink(text, tree_path(&tree, name)), 0), "%s", name);
}

static void set_up(void)
{
    tree_init(&tree);
    tree_write_text(&tree, "mine/set/a", "a");
    tree_write_text(&tree, "mine/set/deep/b", "b");
    tree_write_text(&tree, "mine/other/c", "c");
    tree_write_text(&tree, "second/d", "d");
    tree_write_text(&tree, "theirs/e", "e");
    link_to("../other/c", "mine/set/out-of-the-set");
    link_to("../../second/d", "mine/set/to-second");
    link_to("%/second", "mine/set/to-second-absolutely");
    link_to("../../theirs/e", "mine/set/to-theirs");
    link_to("%/theirs/e", "mine/set/to-theirs-absolutely");
    link_to("../../theirs", "mine/set/to-their-folder");
    link_to("../../theirs/none", "mine/set/to-nothing-of-theirs");
    link_to("../../theirs/../mine/set/a", "mine/set/back");
    link_to("../../none/../mine/set/a", "mine/set/back-from-nothing");
    link_to("nothing", "mine/set/to-nothing");
    link_to("circle", "mine/set/circle");
    link_to("/proc/self/root", "mine/set/magic");
    link_to("%/mine", "by-a-link");
}

static void tear_down(void)
{
    tree_fini(&tree);
}

TestSuite(scope, .init = set_up, .fini = tear_down);

/* Paths opened relative to the folder "mine/set", with the roots "mine" and "second". */
static const struct {
    const char *path; /* "%/..." is below the tree's folder */
    int want;         /* an -errno, or the letter that is read */
} cases[] = {
    {"a", 'a'},
    {"./deep/../a", 'a'},
    {"deep/b", 'b'},
    {"../other/c", 'c'},
    {"out-of-the-set", 'c'},
    {"to-second", 'd'},
    {"to-second-absolutely/d", 'd'},
    {"to-second-absolutely/../second/d", 'd'},
    {"%/mine/set/a", 'a'},
    {"%/second/d", 'd'},
    {"%/by-a-link/set/a", 'a'},
    {"%/mine/../second/d", 'd'},
    {"none", -ENOENT},
    {"a/none", -ENOTDIR},
    {"to-nothing", -ENOENT},
    {"circle", -ELOOP},
    {"%/mine/none", -ENOENT},
    {"to-second-absolutely/none", -ENOENT},
    {"to-theirs", -EXDEV},
    {"to-theirs-absolutely", -EXDEV},
    {"to-their-folder", -EXDEV},
    {"to-their-folder/e", -EXDEV},
    {"to-their-folder/none", -EXDEV},
    {"to-nothing-of-theirs", -EXDEV},
    {"back", -EXDEV},
    {"back-from-nothing", -EXDEV},
    {"magic/etc/passwd", -EXDEV},
    {"../../theirs/e", -EXDEV},
    {"../../theirs/none", -EXDEV},
    {"../../none", -EXDEV},
    {"../..", -EXDEV},
    {"%/theirs/e", -EXDEV},
    {"%/theirs/e/none", -EXDEV},
    {"%/none", -EXDEV},
    {"%/theirs/../mine/set/a", -EXDEV},
    {"/etc/passwd", -EXDEV},
    {"/", -EXDEV},
};

/* Make a scope in which only "mine" and "second" are visible. */
static void make_scope(struct scope *p)
{
    const char *roots[2];
    char mine[512], second[512];

    (void)snprintf(mine, sizeof(mine), "%s", tree_path(&tree, "mine"));
    (void)snprintf(second, sizeof(second), "%s", tree_path(&tree, "second"));
    roots[0] = mine;
    roots[1] = second;
    cr_assert(eq(int, scope_init(p, roots, 2), 0));
}

static void check_all(void)
{
    struct scope p;

    make_scope(&p);
    cr_assert(eq(int, scope_enter(&p, tree_path(&tree, "theirs")), -EXDEV));
    cr_assert(eq(int, scope_enter(&p, tree_path(&tree, "by-a-link/other/../set")), 0));
    cr_expect(eq(str, p.folder, (char *)tree_path(&tree, "mine/set")));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *path = cases[i].path;
        struct stat st;
        char letter = 0;
        int fd;

        path = path[0] == '%' ? tree_path(&tree, path + 2) : path;
        fd = scope_open(&p, path, 0);
        if (fd >= 0)
            cr_assert(eq(sz, (size_t)read(fd, &letter, 1), 1));
        cr_expect(eq(int, fd < 0 ? fd : letter, cases[i].want), "%s", path);
        io_close(&fd);
        cr_expect(eq(int, scope_stat(&p, path, &st), cases[i].want < 0 ? cases[i].want : 0), "%s",
                  path);
        cr_expect(lt(int, scope_open(&p, path, O_DIRECTORY), 0), "%s", path);
    }
    scope_fini(&p);
}

Test(scope, everything_outside_gives_the_same_error)
{
    check_all();
}

Test(scope, everything_outside_gives_the_same_error_without_openat2)
{
    /* Make openat2() fail as on an old kernel, or in a container that does not allow it. */
    static struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {.len = ARRAY_LEN(code), .filter = code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
        cr_skip_test("system calls cannot be filtered here");
    check_all();
}

Test(scope, folders_and_entries)
{
    struct scope p;
    struct stat st;
    char *real;
    DIR *dir;

    make_scope(&p);
    cr_assert(eq(int, scope_enter(&p, tree_path(&tree, "mine/set")), 0));
    cr_assert(eq(int, scope_open_folder(&p, "deep", &dir), 0));
    cr_expect(eq(int, scope_stat_entry(&p, dirfd(dir), "deep", "b", &st), 0));
    (void)closedir(dir);
    cr_assert(eq(int, scope_open_folder(&p, ".", &dir), 0));
    cr_expect(eq(int, scope_stat_entry(&p, dirfd(dir), ".", "to-second", &st), 0));
    cr_expect(eq(int, scope_stat_entry(&p, dirfd(dir), ".", "to-theirs", &st), -EXDEV));
    cr_expect(eq(int, scope_stat_entry(&p, dirfd(dir), ".", "to-nothing", &st), -ENOENT));
    (void)closedir(dir);
    cr_expect(eq(int, scope_open_folder(&p, "to-their-folder", &dir), -EXDEV));
    cr_expect(eq(int, scope_open_folder(&p, "a", &dir), -ENOTDIR));
    cr_assert(eq(int, scope_resolve(&p, "to-second", &real), 0));
    cr_expect(eq(str, real, (char *)tree_path(&tree, "second/d")));
    free(real);
    cr_expect(eq(int, scope_resolve(&p, "to-theirs", &real), -EXDEV));
    scope_fini(&p);
}

/* Without roots, every file of the file system is visible. */
Test(scope, without_roots_every_path_is_open)
{
    struct scope p;
    int fd;

    cr_assert(eq(int, scope_init(&p, NULL, 0), 0));
    cr_assert(eq(int, scope_enter(&p, tree_path(&tree, "mine/set")), 0));
    fd = scope_open(&p, "to-theirs", 0);
    cr_expect(ge(int, fd, 0));
    io_close(&fd);
    cr_expect(eq(int, scope_open(&p, "to-nothing", 0), -ENOENT));
    scope_fini(&p);
}
