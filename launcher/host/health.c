/* SPDX-License-Identifier: MIT */
/* health.c - checks that find machines on which a program would fail later, and less clearly.
 *
 * Our own checks run in one process, which prints what it is about to touch, so that a file system
 * or a device that hangs can be named. A vendor's tool (nvidia-smi) knows more about accelerators
 * than opening their devices does, so it is used where it is installed and where there is one.
 *
 * The limits are low on purpose, because they find machines that cannot run anything. How much a
 * certain program needs is for the user's own command to check. */
#include "config.h"

#include "launcher/host/health.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/job/waitstatus.h"
#include "common/util/memory.h"
#include "common/util/message.h"
#include "common/util/util.h"
#include "launcher/host/capture.h"
#include "launcher/host/host.h"

#define MEMORY_LEAST (64ull * 1048576)
#define SPACE_LEAST (4ull * 1048576)

enum { LOOK_MS = 20 }; /* between two looks at a check that prints nothing */
enum { OWN, NVIDIA, ROCM, COMMAND, CHECKS };

struct health {
    struct health_request request;
    struct capture checks[CHECKS];
    bool begun[CHECKS];
    size_t num_nvidia; /* accelerators that we may use */
};

/* ---- our own checks, in a separate process ---- */

/* The process prints these before a path, a fault and an accelerator. Only its last line counts. */
static const char touching[] = "touching ", bad[] = "bad ", bad_device[] = "device ";

static void touch(const char *what)
{
    printf("%s%s\n", touching, what);
    (void)fflush(stdout);
}

static int check_memory(void)
{
    struct memory_limit limit;
    char available[32];

    memory_available(&limit);
    if (limit.bytes >= MEMORY_LEAST)
        return 0;
    printf("%sonly %s of memory is available (%s)\n", bad,
           format_bytes(limit.bytes, available, sizeof(available)), limit.what);
    return 1;
}

/* Check that a folder has free space and inodes. If not, print that and return 1. A folder that
 * does not exist or is read-only passes. */
static int check_space(const char *folder)
{
    char available[32];
    struct statvfs fs;
    uint64_t bytes;

    touch(folder);
    if (statvfs(folder, &fs) < 0 || (fs.f_flag & ST_RDONLY) || fs.f_blocks == 0)
        return 0;
    bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (bytes < SPACE_LEAST)
        printf("%sonly %s of space is left in %s\n", bad,
               format_bytes(bytes, available, sizeof(available)), folder);
    else if (fs.f_files > 0 && fs.f_favail == 0)
        printf("%sno file can be created in %s: all of its inodes are in use\n", bad, folder);
    else
        return 0;
    return 1;
}

/* Check the folder in which indices of data sets are kept. */
static int check_cache(void)
{
    const char *named = getenv("PLENUM_CACHE_DIR"), *cache = getenv("XDG_CACHE_HOME");
    const char *home = getenv("HOME");
    char *folder = named && *named   ? strdup(named)
                   : cache && *cache ? str_format("%s/plenum", cache)
                   : home            ? str_format("%s/.cache/plenum", home)
                                     : NULL;
    int r = folder ? check_space(folder) : 0;

    free(folder);
    return r;
}

/* Open a device. If it fails as broken or absent hardware does, print that and return 1. A device
 * that is in use, or that we may not use, passes. */
static int check_device(const char *path)
{
    int fd, r;

    touch(path);
    fd = open(path, O_RDWR | O_CLOEXEC);
    r = fd < 0 ? errno : 0;
    if (fd >= 0)
        (void)close(fd);
    if (r != EIO && r != ENXIO && r != ENODEV)
        return 0;
    printf("%saccelerator %s does not answer: %s\n", bad_device, path, strerror(r));
    return 1;
}

/* Call check() for each accelerator that matches the pattern and that we may use, until it returns
 * other than 0. Returns its last result; without check(), the number of these accelerators. */
static int for_devices(const char *root, const char *pattern, int (*check)(const char *path))
{
    char *full = str_format("%s%s", root, pattern);
    glob_t found = {.gl_pathc = 0};
    int r = 0;

    if (full && glob(full, GLOB_NOSORT, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc && (!check || r == 0); i++) {
            if (access(found.gl_pathv[i], R_OK | W_OK) == 0)
                r += check ? check(found.gl_pathv[i]) : 1;
        }
        globfree(&found);
    }
    free(full);
    return r;
}

static const char nvidia_devices[] = "/dev/nvidia[0-9]*", rocm_devices[] = "/dev/kfd";

static int check_devices(const struct health *h)
{
    const char *root = h->request.root;
    int r = 0;

    if (h->request.no_devices)
        return 0;
    if (!h->begun[NVIDIA])
        r = for_devices(root, nvidia_devices, check_device);
    if (r == 0)
        r = for_devices(root, rocm_devices, check_device);
    return r == 0 ? for_devices(root, "/dev/accel/accel[0-9]*", check_device) : r;
}

static int check_all(const void *arg)
{
    const struct health *h = arg;
    const char *temporary = getenv("TMPDIR");
    char *memory = str_format("%s/dev/shm", h->request.root);
    int r = check_memory();

    if (r == 0)
        r = check_space(temporary && *temporary ? temporary : "/tmp");
    if (r == 0 && memory)
        r = check_space(memory);
    if (r == 0)
        r = check_cache();
    if (r == 0)
        r = check_space(".");
    if (r == 0)
        r = check_devices(h);
    free(memory);
    (void)fflush(stdout);
    return r;
}

/* ---- the checks ---- */

static int begin(struct health *h, int check, const char *const *words)
{
    int r = capture_command(&h->checks[check], (char *const *)words, h->request.limit_ns);

    h->begun[check] = r == 0;
    return r;
}

/* Start a vendor's tool if it is installed and there are devices for it that matter. */
static int begin_tool(struct health *h, int check, size_t devices, const char *const *words)
{
    char path[4096];

    if (h->request.no_devices || devices == 0 ||
        host_find_program(words[0], path, sizeof(path)) < 0)
        return 0;
    return begin(h, check, words);
}

int health_begin(const struct health_request *request, struct health **ret)
{
    const char *const nvidia[] = {"nvidia-smi", "--query-gpu=index", "--format=csv,noheader", NULL};
    const char *const rocm[] = {"rocm-smi", "--showid", NULL};
    const char *const command[] = {"/bin/sh", "-c", request->command, NULL};
    struct health *h = calloc(1, sizeof(*h));
    int r;

    if (!h)
        return -ENOMEM;
    h->request = *request;
    h->num_nvidia = (size_t)for_devices(request->root, nvidia_devices, NULL);
    r = begin_tool(h, NVIDIA, h->num_nvidia, nvidia);
    if (r == 0)
        r = begin_tool(h, ROCM, (size_t)for_devices(request->root, rocm_devices, NULL), rocm);
    if (r == 0 && request->command && *request->command)
        r = begin(h, COMMAND, command);
    if (r == 0) {
        r = capture_call(&h->checks[OWN], check_all, h, request->limit_ns);
        h->begun[OWN] = r == 0;
    }
    if (r == 0) {
        *ret = h;
        return 0;
    }
    for (int i = 0; i < CHECKS; i++)
        capture_fini(&h->checks[i]);
    free(h);
    return r;
}

/* ---- the results ---- */

/* Describe how a command ended, with its last line. */
MESSAGE static void describe_end(struct capture *c, const char *name, char *ret, size_t size)
{
    const char *last = capture_last_line(c);
    char end[100] = "did not end in time";

    if (!c->late)
        status_describe(c->status, end, sizeof(end));
    (void)snprintf(ret, size, "%s %s%s%.200s", name, end, *last ? ": " : "", last);
}

static void judge_own(struct health *h, struct health_report *ret)
{
    struct capture *c = &h->checks[OWN];
    double seconds = (double)h->request.limit_ns / 1e9;
    const char *last, *what;

    if (capture_has_exited(c, 0))
        return;
    last = capture_last_line(c);
    what = str_after(last, touching);
    if (c->late && what && strstr(what, "/dev/") && !strstr(what, "/dev/shm")) {
        (void)snprintf(ret->device, sizeof(ret->device),
                       "accelerator %.200s does not answer within %.3g s", what, seconds);
        return;
    }
    if (str_after(last, bad_device)) {
        (void)snprintf(ret->device, sizeof(ret->device), "%.300s", str_after(last, bad_device));
        return;
    }
    ret->state = HEALTH_UNKNOWN;
    if (c->late) {
        (void)snprintf(ret->why, sizeof(ret->why), "%.200s does not answer within %.3g s",
                       what ? what : "the machine", seconds);
    } else if (str_after(last, bad)) {
        ret->state = HEALTH_BAD;
        (void)snprintf(ret->why, sizeof(ret->why), "%.300s", str_after(last, bad));
    } else {
        describe_end(c, "the check of memory, space and accelerators", ret->why, sizeof(ret->why));
    }
}

static size_t count_lines(const char *text)
{
    size_t count = 0;

    for (; text && *text; text++)
        count += *text == '\n';
    return count;
}

/* Report an accelerator that does not answer: nvidia-smi fails, or prints fewer lines than there
 * are accelerators. */
static void judge_nvidia(struct health *h, struct health_report *ret)
{
    struct capture *c = &h->checks[NVIDIA];
    size_t answered = count_lines(c->text);

    if (capture_has_exited(c, 0) && answered >= h->num_nvidia)
        return;
    if (capture_has_exited(c, 0))
        (void)snprintf(ret->device, sizeof(ret->device),
                       "only %zu of %zu accelerators answer nvidia-smi", answered, h->num_nvidia);
    else
        describe_end(c, "an accelerator does not answer: nvidia-smi", ret->device,
                     sizeof(ret->device));
}

static void judge_rocm(struct health *h, struct health_report *ret)
{
    if (capture_has_exited(&h->checks[ROCM], 0))
        return;
    describe_end(&h->checks[ROCM], "an accelerator does not answer: rocm-smi", ret->device,
                 sizeof(ret->device));
}

static void judge_command(struct health *h, struct health_report *ret)
{
    struct capture *c = &h->checks[COMMAND];

    if (capture_has_exited(c, 0))
        return;
    ret->state = capture_has_exited(c, 1) ? HEALTH_BAD : HEALTH_UNKNOWN;
    describe_end(c, "--health-check", ret->why, sizeof(ret->why));
}

/* Wait for all checks; if that is interrupted, end those that remain. */
static void wait_for_all(struct health *h)
{
    for (;;) {
        bool given_up = h->request.interrupted && h->request.interrupted(), ended = true;
        struct pollfd fds[CHECKS];

        for (int i = 0; i < CHECKS; i++) {
            ended &= capture_poll(&h->checks[i], given_up ? UINT64_MAX : time_now_ns());
            fds[i] = (struct pollfd){.fd = h->checks[i].pid > 0 ? h->checks[i].fd : -1,
                                     .events = POLLIN};
        }
        if (ended)
            return;
        (void)poll(fds, CHECKS, LOOK_MS);
    }
}

void health_finish(struct health *health, struct health_report *ret)
{
    static void (*const judge[CHECKS])(struct health *, struct health_report *) = {
        [OWN] = judge_own, [NVIDIA] = judge_nvidia, [ROCM] = judge_rocm, [COMMAND] = judge_command};

    *ret = (struct health_report){.state = HEALTH_GOOD};
    wait_for_all(health);
    for (int i = 0; i < CHECKS; i++) {
        struct health_report one = {.state = HEALTH_GOOD};

        if (health->begun[i])
            judge[i](health, &one);
        capture_fini(&health->checks[i]);
        if (one.device[0] && !ret->device[0])
            memcpy(ret->device, one.device, sizeof(one.device));
        /* A known fault is the better reason. */
        if (ret->state == HEALTH_GOOD ||
            (ret->state == HEALTH_UNKNOWN && one.state == HEALTH_BAD)) {
            ret->state = one.state;
            memcpy(ret->why, one.why, sizeof(one.why));
        }
    }
    assert((ret->state == HEALTH_GOOD) == (ret->why[0] == '\0'));
    free(health);
}

void health_need_devices(struct health_report *report)
{
    if (!report->device[0] || report->state == HEALTH_BAD)
        return;
    report->state = HEALTH_BAD;
    memcpy(report->why, report->device, sizeof(report->why));
}
