/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/control/environ.h"
#include "tests/launcher/environment.h"

Test(environ, applies_changes)
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

/* Variables that an enclosing mpirun, and a plenumrun around it, have left in our environment. */
Test(environ, leaves_the_outer_job)
{
    static const char *const outer[][2] = {{"PMIX_NAMESPACE", "1"},
                                           {"PMIX_SERVER_URI2", "1.0;tcp4://127.0.0.1:1"},
                                           {"PMI_RANK", "0"},
                                           {"OMPI_COMM_WORLD_RANK", "1"},
                                           {"OMPI_UNIVERSE_SIZE", "2"},
                                           {"OMPI_MCA_ess", "^singleton"},
                                           {"OMPI_MCA_ess_base_jobid", "7"},
                                           {"OMPI_MCA_orte_jobfam_session_dir", "/tmp"},
                                           {"PRTE_LAUNCHED", "1"},
                                           {"OMPI_MCA_oob_tcp_if_include", "lo"},
                                           {"OMPI_MCA_plm", ENVIRON_ONE_HOST_PLM},
                                           {"OMPI_MCA_ras", ENVIRON_ONE_HOST_RAS},
                                           {"OMPI_MCA_plm_rsh_agent", "/bin/plenumrun --agent"}};
    static const char *const ours[][2] = {{"OMPI_MCA_pml", "ucx"},
                                          {"OMPI_MCA_btl_tcp_if_include", "eth0"},
                                          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                          {"PMIXED", "1"}};

    for (size_t i = 0; i < ARRAY_LEN(outer); i++)
        (void)setenv(outer[i][0], outer[i][1], 1);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        (void)setenv(ours[i][0], ours[i][1], 1);
    environ_leave_outer();
    for (size_t i = 0; i < ARRAY_LEN(outer); i++)
        cr_expect(getenv(outer[i][0]) == NULL, "%s is the outer job's", outer[i][0]);
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        expect(environ, ours[i][0], ours[i][1]);

    (void)setenv("OMPI_MCA_plm_rsh_agent", "/opt/ssh", 1);
    (void)setenv("OMPI_MCA_orte_tmpdir_base", "/scratch", 1);
    environ_leave_outer();
    expect(environ, "OMPI_MCA_orte_tmpdir_base", "/scratch"); /* no enclosing job */
    expect(environ, "OMPI_MCA_plm_rsh_agent", "/opt/ssh");
}
