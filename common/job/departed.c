/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/job/departed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/util.h"

static const char departed_magic[8] = {'p', 'l', 'n', 'm', 'g', 'o', 'n', 'e'};

struct departed_page {
    char magic[8];
    _Atomic uint64_t reached; /* written by the program; the shim writes everything else */
    _Atomic uint64_t ended[]; /* [instances]: 0, or 1 + the count that it had reached */
};

struct departed {
    struct departed_page *page;
    uint32_t instances;
    int fd; /* the shim's; -1 in the program */
};

static size_t bytes_for(uint32_t instances)
{
    return sizeof(struct departed_page) + instances * sizeof(uint64_t);
}

static struct departed *map(int fd, uint32_t instances)
{
    struct departed *d = malloc(sizeof(*d));

    if (!d)
        return NULL;
    *d = (struct departed){.instances = instances, .fd = -1};
    d->page = mmap(NULL, bytes_for(instances), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (d->page != MAP_FAILED)
        return d;
    free(d);
    return NULL;
}

int departed_create(uint32_t instances, struct departed **ret, char path[DEPARTED_PATH_MAX])
{
    pid_t pid = proc_self();
    int fd, r;

    if (pid < 0)
        return (int)pid;
    fd = memfd_create("plenum-departed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -errno;
    r = -posix_fallocate(fd, 0, (off_t)bytes_for(instances)); /* a hole could raise SIGBUS */
    if (r < 0) {
        (void)close(fd);
        return r;
    }
    if (fchmod(fd, 0600) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        r = -errno;
        (void)close(fd);
        return r;
    }
    *ret = map(fd, instances);
    if (!*ret) {
        (void)close(fd);
        return -ENOMEM;
    }
    memcpy((*ret)->page->magic, departed_magic, sizeof(departed_magic));
    (*ret)->fd = fd;
    (void)snprintf(path, DEPARTED_PATH_MAX, "/proc/%d/fd/%d", (int)pid, fd);
    return 0;
}

void departed_destroy(struct departed *page)
{
    if (!page)
        return;
    (void)munmap(page->page, bytes_for(page->instances));
    io_close(&page->fd);
    free(page);
}

uint64_t departed_get_reached(const struct departed *page)
{
    return page ? atomic_load(&page->page->reached) : 0;
}

void departed_note(struct departed *page, uint32_t instance, uint64_t reached)
{
    if (page && instance < page->instances)
        atomic_store(&page->page->ended[instance], sum_u64(reached, 1));
}

/* Accept only a page that a shim of the same user created for a job of this size, because the
 * variable may be stale. */
static bool is_ours(int fd, uint32_t instances)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;

    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
           st.st_size == (off_t)bytes_for(instances);
}

const struct departed *departed_open(uint32_t instances)
{
    const char *path = getenv(DEPARTED_VARIABLE);
    struct departed *d = NULL;
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return NULL;
    if (is_ours(fd, instances))
        d = map(fd, instances);
    (void)close(fd);
    if (d && memcmp(d->page->magic, departed_magic, sizeof(departed_magic)) != 0) {
        departed_destroy(d);
        return NULL;
    }
    return d;
}

void departed_reach(const struct departed *page, uint64_t reached)
{
    if (page)
        atomic_store(&page->page->reached, reached);
}

bool departed_before(const struct departed *page, uint32_t instance, uint64_t reached)
{
    uint64_t ended = page ? atomic_load(&page->page->ended[instance]) : 0;

    return ended != 0 && ended - 1 < reached;
}
