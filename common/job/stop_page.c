/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/job/stop_page.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/util/util.h"

static const char stop_magic[8] = {'p', 'l', 'n', 'm', 's', 't', 'o', 'p'};

/* The bit of struct stop_page.limit. */
enum { DECIDED = 1 };

static struct stop_page *map(int fd)
{
    struct stop_page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    return page == MAP_FAILED ? NULL : page;
}

/* ---- the shim ---- */

static int make_memory(struct stop_keeper *keeper)
{
    int r;

    keeper->fd = memfd_create("plenum-stop", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (keeper->fd < 0)
        return -errno;
    r = -posix_fallocate(keeper->fd, 0, sizeof(struct stop_page)); /* a hole could raise SIGBUS */
    if (r < 0)
        return r;
    if (fchmod(keeper->fd, 0600) < 0 ||
        fcntl(keeper->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        return -errno;
    keeper->page = map(keeper->fd);
    return keeper->page ? 0 : -ENOMEM;
}

int stop_keeper_create(uint32_t instance, uint32_t instances, struct stop_keeper **ret,
                       char path[STOP_PATH_MAX])
{
    struct stop_keeper *keeper = malloc(sizeof(*keeper));
    pid_t pid = proc_self();
    int r;

    if (!keeper)
        return -ENOMEM;
    *keeper = (struct stop_keeper){.fd = -1, .bell = {-1, -1}};
    r = pid < 0 ? (int)pid : make_memory(keeper);
    if (r == 0 && pipe2(keeper->bell, O_CLOEXEC | O_NONBLOCK) < 0)
        r = -errno;
    if (r < 0) {
        stop_keeper_destroy(keeper);
        return r;
    }
    memcpy(keeper->page->magic, stop_magic, sizeof(stop_magic));
    keeper->page->instance = instance;
    keeper->page->instances = instances;
    (void)snprintf(keeper->page->bell, sizeof(keeper->page->bell), "/proc/%d/fd/%d", (int)pid,
                   keeper->bell[1]);
    atomic_store(&keeper->page->limit, STOP_NO_LIMIT - DECIDED);
    (void)snprintf(path, STOP_PATH_MAX, "/proc/%d/fd/%d", (int)pid, keeper->fd);
    *ret = keeper;
    return 0;
}

void stop_keeper_destroy(struct stop_keeper *keeper)
{
    if (!keeper)
        return;
    if (keeper->page)
        (void)munmap(keeper->page, sizeof(*keeper->page));
    io_close(&keeper->bell[0]);
    io_close(&keeper->bell[1]);
    io_close(&keeper->fd);
    free(keeper);
}

int stop_keeper_get_fd(const struct stop_keeper *keeper)
{
    return keeper ? keeper->bell[0] : -1;
}

void stop_keeper_clear(const struct stop_keeper *keeper)
{
    char bytes[64];

    while (read(keeper->bell[0], bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
        ;
}

static void change(struct stop_page *page, uint64_t limit)
{
    atomic_store(&page->limit, limit);
    (void)atomic_fetch_add(&page->changes, 1);
    (void)syscall(SYS_futex, &page->changes, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void stop_page_set_limit(struct stop_page *page, uint64_t step)
{
    change(page, step == STOP_NO_LIMIT ? STOP_NO_LIMIT - DECIDED : step << 1);
}

uint64_t stop_page_get_asked(const struct stop_page *page)
{
    return min_u64(atomic_load(&page->asked), STOP_STEP_MAX + 1);
}

bool stop_page_keep(struct stop_page *page, uint64_t step, uint64_t *asked)
{
    *asked = stop_page_get_asked(page);
    if (*asked <= step)
        return true;
    stop_page_set_limit(page, STOP_NO_LIMIT);
    return false;
}

bool stop_page_promise(struct stop_page *page, uint64_t step, uint64_t *asked)
{
    assert(step <= STOP_STEP_MAX + 1);
    stop_page_set_limit(page, step);
    return stop_page_keep(page, step, asked);
}

void stop_page_decide(struct stop_page *page, uint64_t step)
{
    assert(step <= STOP_STEP_MAX + 1);
    change(page, step << 1 | DECIDED);
}

/* ---- the program ---- */

/* Accept only a page that a shim of the same user created for this instance, because the variable
 * may be stale, or belong to a job around this one. */
static bool is_ours(int fd)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
           st.st_size == (off_t)sizeof(struct stop_page);
}

struct stop_page *stop_page_open(uint32_t instance, uint32_t instances)
{
    const char *path = getenv(STOP_PAGE_VARIABLE);
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    struct stop_page *page = NULL;

    if (fd < 0)
        return NULL;
    if (is_ours(fd))
        page = map(fd);
    (void)close(fd);
    if (!page || (memcmp(page->magic, stop_magic, sizeof(stop_magic)) == 0 &&
                  page->instance == instance && page->instances == instances))
        return page;
    (void)munmap(page, sizeof(*page));
    return NULL;
}

int stop_page_claim(struct stop_page *page, pid_t *owner)
{
    int32_t before = 0, self = (int32_t)getpid();

    while (!atomic_compare_exchange_strong(&page->owner, &before, self)) {
        if (before == self)
            return 0;
        if (kill(before, 0) == 0 || errno != ESRCH) {
            *owner = before;
            return -EBUSY;
        }
        /* it has ended: take its place */
        if (atomic_compare_exchange_strong(&page->owner, &before, self))
            return 0;
        before = 0;
    }
    return 0;
}

void stop_page_ring(const struct stop_page *page)
{
    int fd = open(page->bell, O_WRONLY | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)!write(fd, "", 1); /* if the pipe is full, the shim looks at the page anyway */
    (void)close(fd);
}

void stop_page_note(struct stop_page *page)
{
    atomic_store(&page->noticed, 1);
    stop_page_ring(page);
}

enum stop_answer stop_page_wait(struct stop_page *page, uint64_t step)
{
    for (;;) {
        uint32_t changes = atomic_load(&page->changes);
        enum stop_answer answer = stop_page_check(page, step);

        if (answer == STOP_HALT && atomic_exchange(&page->halted, step + 1) == 0)
            stop_page_ring(page);
        if (answer != STOP_WAIT)
            return answer;
        (void)syscall(SYS_futex, &page->changes, FUTEX_WAIT, changes, NULL, NULL, 0);
    }
}
