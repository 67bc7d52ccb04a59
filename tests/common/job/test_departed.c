/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/job/departed.h"

static struct departed *page;
static const struct departed *program; /* lasts until the process ends */

static void make(uint32_t instances)
{
    char path[DEPARTED_PATH_MAX];

    cr_assert(eq(int, departed_create(instances, &page, path), 0));
    cr_assert(eq(int, setenv(DEPARTED_VARIABLE, path, 1), 0));
}

Test(departed, an_instance_that_reached_a_collective_is_not_missing_there)
{
    make(3);
    program = departed_open(3);
    cr_assert(ne(ptr, (void *)program, NULL));
    cr_expect(eq(int, departed_before(program, 1, UINT64_MAX), 0), "instance 1 has not ended");
    departed_note(page, 1, 5);
    cr_expect(eq(int, departed_before(program, 1, 5), 0));
    cr_expect(eq(int, departed_before(program, 1, 6), 1));
    cr_expect(eq(int, departed_before(program, 0, 6), 0), "instance 0 has not ended");
    departed_note(page, 2, 0);
    cr_expect(eq(int, departed_before(program, 2, DEPARTED_FIRST), 1), "instance 2 never came");
    departed_note(page, 3, 0); /* there is no instance 3: ignored */
    departed_destroy(page);
}

Test(departed, what_a_program_has_reached_outlives_it)
{
    int status = -1;
    pid_t pid;

    make(2);
    cr_expect(eq(u64, departed_get_reached(page), 0));
    pid = fork();
    if (pid == 0) {
        departed_reach(departed_open(2), 7);
        _exit(0);
    }
    cr_expect(eq(int, waitpid(pid, &status, 0), pid));
    cr_expect(eq(u64, departed_get_reached(page), 7));
    departed_destroy(page);
}

Test(departed, a_page_of_another_job_is_not_used)
{
    make(2);
    cr_expect(eq(ptr, (void *)departed_open(2000), NULL));
    (void)setenv(DEPARTED_VARIABLE, "/dev/null", 1);
    cr_expect(eq(ptr, (void *)departed_open(2), NULL));
    (void)setenv(DEPARTED_VARIABLE, "/nowhere", 1);
    cr_expect(eq(ptr, (void *)departed_open(2), NULL));
    (void)unsetenv(DEPARTED_VARIABLE);
    cr_expect(eq(ptr, (void *)departed_open(2), NULL));
    departed_destroy(page);
}

Test(departed, without_a_page_nothing_is_known)
{
    departed_note(NULL, 0, 1);
    departed_reach(NULL, 1);
    departed_destroy(NULL);
    cr_expect(eq(u64, departed_get_reached(NULL), 0));
    cr_expect(eq(int, departed_before(NULL, 0, UINT64_MAX), 0));
}

/* If the page's memory were allocated only when written, running out of it would cause SIGBUS. */
Test(departed, the_whole_page_is_allocated)
{
    char path[DEPARTED_PATH_MAX];
    struct stat st;

    cr_assert(eq(int, departed_create(100000, &page, path), 0));
    cr_assert(eq(int, stat(path, &st), 0));
    cr_expect(ge(i64, st.st_blocks * 512, st.st_size));
    cr_expect(gt(i64, st.st_size, 800000));
}
