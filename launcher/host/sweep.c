/* SPDX-License-Identifier: MIT */
/* sweep.c - removes files that Open MPI leaves behind:
 *
 *     version  by a killed mpirun         by its killed daemon     by killed programs
 *     4.1      /tmp/ompi.HOST.UID/pid.N   /tmp/ompi.HOST.UID/jf.N  /dev/shm/vader_segment.HOST...
 *     5.0      /tmp/prterun.HOST.PID.UID  /tmp/prted.HOST.PID.UID  /dev/shm/sm_segment.HOST...
 *     5.0.11   /tmp/ompi.PID              /tmp/prted.PID           the same
 *
 * Segments are removed by the shim of the program. If it was killed, too, they are removed after
 * the daemon, or after mpirun.
 *
 * Only this job's files are touched, because the names contain its numbers, and we must be the
 * owner. */
#include "config.h"

#include "launcher/host/sweep.h"

#include <dirent.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/host.h"

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)ftw;
    (void)(type == FTW_DP ? rmdir(path) : unlink(path));
    return 0;
}

/* Is this a folder that belongs to us? */
static bool is_own_folder(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid();
}

/* Returns whether the path is ".../ompi.<host>.<our uid>/pid.<n>" or ".../jf.<n>". */
static bool names_session(const char *path)
{
    const char *last = strrchr(path, '/'), *uid, *number;
    char mark[32];

    if (!last || path[0] != '/' || strstr(path, "/../"))
        return false;
    number = strncmp(last, "/pid.", 5) == 0  ? last + 5
             : strncmp(last, "/jf.", 4) == 0 ? last + 4
                                             : "";
    (void)snprintf(mark, sizeof(mark), ".%u/", (unsigned)getuid());
    uid = last - strlen(mark) + 1;
    return *number && number[strspn(number, "0123456789")] == '\0' && uid > path &&
           strncmp(uid, mark, strlen(mark)) == 0 && strstr(path, "/ompi.") != NULL;
}

/* Is this the folder of PRRTE's process `pid`, and does it belong to us? */
static bool is_prrte_session(const char *path, pid_t pid)
{
    const char *last = strrchr(path, '/');
    char before[48], from_11[48];

    if (!last || path[0] != '/' || strstr(path, "/../") ||
        (!str_after(last, "/prterun.") && !str_after(last, "/prted.") &&
         !str_after(last, "/ompi.")))
        return false;
    (void)snprintf(before, sizeof(before), ".%d.%u", (int)pid, (unsigned)getuid());
    (void)snprintf(from_11, sizeof(from_11), ".%d", (int)pid);
    return (str_ends_with(last, before) || strcmp(strchr(last, '.'), from_11) == 0) &&
           is_own_folder(path);
}

static void remove_prrte_session(const char *path, pid_t pid)
{
    if (path && is_prrte_session(path, pid))
        (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Remove a job's folder and the one above it, which holds the folders of all our jobs. Open MPI may
 * have been killed after it had removed the former, or before it made it. */
static void remove_session(const char *path)
{
    char above[4096];

    if (!names_session(path) || (size_t)snprintf(above, sizeof(above), "%s", path) >= sizeof(above))
        return;
    if (is_own_folder(path))
        (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    *strrchr(above, '/') = '\0';
    if (is_own_folder(above))
        (void)rmdir(above); /* if there is no other job of ours */
}

/* Get Open MPI's names for this host, with and without the domain; returns their number. */
static size_t host_names(char names[2][HOST_NAME_MAX_BYTES])
{
    host_get_name(names[0], HOST_NAME_MAX_BYTES);
    memcpy(names[1], names[0], HOST_NAME_MAX_BYTES);
    names[1][strcspn(names[1], ".")] = '\0';
    return strcmp(names[0], names[1]) == 0 ? 1 : 2;
}

/* Returns the folder in which Open MPI creates its session folders. */
static const char *find_base(void)
{
    static const char *const variables[] = {"PRTE_MCA_prte_tmpdir_base",
                                            "PRTE_MCA_prte_local_tmpdir_base",
                                            "OMPI_MCA_orte_tmpdir_base",
                                            "TMPDIR",
                                            "TEMP",
                                            "TMP"};

    for (size_t i = 0; i < ARRAY_LEN(variables); i++) {
        const char *value = getenv(variables[i]);

        if (value && *value)
            return value;
    }
    return "/tmp";
}

/* Remove the session folders of one process. For Open MPI 4.1, they are named by `last` ("pid.17",
 * or "" for none); for 5, by the id of the daemon's (otherwise mpirun's) process. */
static void remove_sessions(const char *last, bool daemon, pid_t pid)
{
    char names[2][HOST_NAME_MAX_BYTES];
    const char *base = find_base();
    size_t count = host_names(names);
    char *short_path = str_format("%s/%s.%d", base, daemon ? "prted" : "ompi", (int)pid);

    remove_prrte_session(short_path, pid);
    free(short_path);

    for (size_t i = 0; i < count; i++) {
        char *path = str_format("%s/ompi.%s.%u/%s", base, names[i], (unsigned)getuid(), last);

        if (path)
            remove_session(path);
        free(path);
        path = str_format("%s/%s.%s.%d.%u", base, daemon ? "prted" : "prterun", names[i], (int)pid,
                          (unsigned)getuid());
        remove_prrte_session(path, pid);
        free(path);
    }
}

/* Hash some text with Jenkins' "one at a time", mix in a number, and fold the result to 16 bits. So
 * Open MPI 4.1 computes a job family of mpirun's host and process, and 5 of the job's name. */
static uint32_t hash_family(const char *text, size_t len, uint32_t number)
{
    uint32_t hash = 0;

    for (size_t i = 0; i < len; i++) {
        hash += (unsigned char)text[i];
        hash += hash << 10;
        hash ^= hash >> 6;
    }
    hash += hash << 3;
    hash ^= hash >> 11;
    hash += hash << 15;
    hash ^= number;
    return (hash >> 16 ^ hash) & 0xffff;
}

/* Compute a job's ID as Open MPI 5 derives it from the job's name, "prterun-HOST-PID@1": a hash of
 * the part before the @, and the part after it. */
static bool number_job(const char *name, uint64_t *ret)
{
    const char *at = strrchr(name, '@');
    uint64_t own = 0;

    if (at && parse_u64(at + 1, UINT16_MAX, &own) < 0)
        return false;
    *ret = (uint64_t)hash_family(name, at ? (size_t)(at - name) : strlen(name), 0) << 16 | own;
    return true;
}

/* Returns the folder in which Open MPI keeps shared memory. */
static const char *find_memory(bool prrte)
{
    const char *folder = getenv("OMPI_MCA_btl_vader_backing_directory");

    if (prrte && !folder)
        folder = getenv("OMPI_MCA_btl_sm_backing_directory");
    return folder ? folder : "/dev/shm";
}

/* Returns whether this is the file of a segment of one of our jobs in this family. The name ends
 * with the job's ID, of which the family is the upper half, and the rank: ".4d20001.0". */
static bool is_segment(const char *name, const char *kind, const char *host, uint32_t family)
{
    char *prefix = str_format("%s.%s.%u.", kind, host, (unsigned)geteuid());
    const char *number = prefix ? str_after(name, prefix) : NULL;
    char *end;

    free(prefix);
    return number && strtoul(number, &end, 16) >> 16 == family && end > number && *end == '.' &&
           end[1] && end[1 + strspn(end + 1, "0123456789")] == '\0';
}

/* Remove the shared memory segments that the family's programs have on this host. Their shims have
 * done this, unless they were killed. */
static void remove_segments(bool prrte, uint32_t family)
{
    const char *kind = prrte ? "sm_segment" : "vader_segment";
    char names[2][HOST_NAME_MAX_BYTES];
    size_t count = host_names(names);
    DIR *dir = opendir(find_memory(prrte));
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        for (size_t i = 0; i < count; i++)
            if (is_segment(entry->d_name, kind, names[i], family))
                (void)unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        (void)closedir(dir);
}

void sweep_after_mpirun(pid_t mpirun)
{
    char last[32];

    char names[2][HOST_NAME_MAX_BYTES];
    size_t count = host_names(names);

    (void)snprintf(last, sizeof(last), "pid.%d", (int)mpirun);
    remove_sessions(last, false, mpirun);
    for (size_t i = 0; i < count; i++) {
        char *job = str_format("prterun-%s-%d", names[i], (int)mpirun);

        remove_segments(false, hash_family(names[i], strlen(names[i]), (uint32_t)mpirun));
        if (job)
            remove_segments(true, hash_family(job, strlen(job), 0));
        free(job);
    }
}

void sweep_after_daemon(pid_t daemon, const char *command)
{
    const char *number = strstr(command, "ess_base_jobid"), *job = strstr(command, "prterun-");
    unsigned long family;
    char last[32] = "";

    /* The folder's name contains the job ID's upper half, the job family. */
    if (number) {
        number += strcspn(number, "0123456789");
        family = strtoul(number, NULL, 10) >> 16;
        (void)snprintf(last, sizeof(last), "jf.%lu", family);
        remove_segments(false, (uint32_t)family);
    }
    if (job && strstr(command, "ess_base_nspace"))
        remove_segments(true, hash_family(job, strcspn(job, "@ \"'"), 0));
    remove_sessions(last, true, daemon);
}

/* Remove the program's shared memory segment, which MPI_Finalize() would have removed. */
static void remove_segment(void)
{
    const char *job = getenv("OMPI_MCA_ess_base_jobid"), *name = getenv("PMIX_NAMESPACE"),
               *rank = getenv(job ? "OMPI_COMM_WORLD_LOCAL_RANK" : "OMPI_COMM_WORLD_NODE_RANK");
    char names[2][HOST_NAME_MAX_BYTES];
    uint64_t number, local;
    size_t count = host_names(names);

    if (!rank || parse_u64(rank, UINT32_MAX, &local) < 0)
        return;
    if (job ? parse_u64(job, UINT32_MAX, &number) < 0 : !name || !number_job(name, &number))
        return;
    for (size_t i = 0; i < count; i++) {
        char *path =
            str_format("%s/%s.%s.%u.%x.%u", find_memory(!job), job ? "vader_segment" : "sm_segment",
                       names[i], (unsigned)geteuid(), (unsigned)number, (unsigned)local);

        if (path)
            (void)unlink(path);
        free(path);
    }
}

void sweep_after_program(pid_t starter, bool starter_gone)
{
    const char *session = getenv("OMPI_MCA_orte_jobfam_session_dir"),
               *prrte = getenv("PMIX_SERVER_TMPDIR");

    remove_segment();
    if (!starter_gone)
        return;
    if (session)
        remove_session(session);
    if (prrte)
        remove_prrte_session(prrte, starter);
}
