/* sweep.c - what Open MPI 4.1 forgets: /tmp/ompi.HOST.UID/pid.N of a killed mpirun, .../jf.N of a
 * killed orted, and /dev/shm/vader_segment.HOST.UID.JOB.RANK of killed programs.
 *
 * Only what belongs to this job is touched: the names hold its numbers, and the owner must be us.
 */
#include "config.h"

#include "launcher/sweep.h"

#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util.h"
#include "launcher/host.h"

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    (void)(type == FTW_DP ? rmdir(path) : unlink(path));
    return 0;
}

/* Is it ".../ompi.<host>.<our uid>/pid.<n>" or ".../jf.<n>", and ours? */
static bool is_session(const char *path)
{
    const char *last = strrchr(path, '/'), *uid, *number;
    char mark[32];
    struct stat st;

    if (!last || path[0] != '/' || strstr(path, "/../"))
        return false;
    number = strncmp(last, "/pid.", 5) == 0  ? last + 5
             : strncmp(last, "/jf.", 4) == 0 ? last + 4
                                             : "";
    (void)snprintf(mark, sizeof(mark), ".%u/", (unsigned)getuid());
    uid = last - strlen(mark) + 1;
    return *number && number[strspn(number, "0123456789")] == '\0' && uid > path &&
           strncmp(uid, mark, strlen(mark)) == 0 && strstr(path, "/ompi.") != NULL &&
           lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid();
}

static void remove_session(const char *path)
{
    char above[4096];
    char *slash;

    if (!is_session(path) || (size_t)snprintf(above, sizeof(above), "%s", path) >= sizeof(above))
        return;
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    slash = strrchr(above, '/');
    *slash = '\0';
    (void)rmdir(above); /* if no other job of ours is there */
}

/* Open MPI's name of this host, with and without the domain. */
static size_t host_names(char names[2][HOST_NAME_MAX_BYTES])
{
    host_get_name(names[0], HOST_NAME_MAX_BYTES);
    memcpy(names[1], names[0], HOST_NAME_MAX_BYTES);
    names[1][strcspn(names[1], ".")] = '\0';
    return strcmp(names[0], names[1]) == 0 ? 1 : 2;
}

void sweep_after_mpirun(pid_t mpirun)
{
    static const char *const variables[] = {"OMPI_MCA_orte_tmpdir_base", "TMPDIR", "TEMP", "TMP"};
    char names[2][HOST_NAME_MAX_BYTES];
    const char *base = "/tmp";
    size_t count = host_names(names);

    for (size_t i = ARRAY_LEN(variables); i-- > 0;) {
        const char *value = getenv(variables[i]);

        if (value && *value)
            base = value;
    }
    for (size_t i = 0; i < count; i++) {
        char *path =
            str_format("%s/ompi.%s.%u/pid.%d", base, names[i], (unsigned)getuid(), (int)mpirun);

        if (path)
            remove_session(path);
        free(path);
    }
}

/* The program's segment of shared memory, which MPI_Finalize() would have removed. */
static void remove_segment(void)
{
    const char *job = getenv("OMPI_MCA_ess_base_jobid"),
               *rank = getenv("OMPI_COMM_WORLD_LOCAL_RANK"),
               *folder = getenv("OMPI_MCA_btl_vader_backing_directory");
    char names[2][HOST_NAME_MAX_BYTES];
    uint64_t number, local;
    size_t count = host_names(names);

    if (!job || !rank || parse_u64(job, UINT32_MAX, &number) < 0 ||
        parse_u64(rank, UINT32_MAX, &local) < 0)
        return;
    for (size_t i = 0; i < count; i++) {
        char *path = str_format("%s/vader_segment.%s.%u.%x.%u", folder ? folder : "/dev/shm",
                                names[i], (unsigned)geteuid(), (unsigned)number, (unsigned)local);

        if (path)
            (void)unlink(path);
        free(path);
    }
}

void sweep_after_program(pid_t parent)
{
    const char *session = getenv("OMPI_MCA_orte_jobfam_session_dir");

    remove_segment();
    if (session && getppid() != parent)
        remove_session(session);
}
