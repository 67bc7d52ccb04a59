/* SPDX-License-Identifier: MIT */
/* ring.c - the memory that holds the batches of one stream.
 *
 * The training process makes a ring and hands it to one session of one loader, which writes pixels
 * straight into the slots that it was asked to fill. A slot's states:
 *
 *     FREE --RENDER--> FILLING --DONE--> READY --next()--> LEASED
 *       ^------------------------- release() -----------------'
 *
 * Why a memfd and not a named segment: a killed process leaves nothing behind to clean up. Why the
 * client's memory: its control group pays for it and its NUMA policy places it; a loader's memory
 * does not grow with the number of its clients. Why sealed: the kernel raises SIGBUS in a process
 * that writes to a mapped page beyond the end of its file. F_SEAL_SHRINK takes that power from the
 * client. Why without holes: a page is charged to the control group of the process that first
 * writes to it. The client allocates the whole ring with fallocate() before it sends the ring, so
 * the client is charged. If it gave pages back (FALLOC_FL_PUNCH_HOLE, which only F_SEAL_WRITE
 * forbids), the loader would be charged for them when it writes, and eventually killed. So the
 * file's blocks are counted when the ring is accepted and again before each write. A client that
 * punches holes in between gains at most a slot, within --ring-limit. Why not F_SEAL_WRITE: both
 * sides write to a slot (the trainer may normalise it in place).
 *
 * A ring is never given to a second session, because a loader that was abandoned while it was
 * stopped would write into it when it continues. The client makes a new ring; batches that it still
 * holds in the old one stay valid until they are released (libdist/slot.c counts them).
 *
 * Not here: the states of slots (libdist/slot.c), and the layout of a slot (wire.c). */
#include "config.h"

#include "common/net/ring.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/memory.h"
#include "common/util/util.h"

static int ring_map(struct ring *ring)
{
    int flags = ring->fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE : MAP_SHARED;
    void *base;

    assert(!ring->base && ring->bytes > 0);
    base = mmap(NULL, ring->bytes, PROT_READ | PROT_WRITE, flags, ring->fd, 0);
    if (base == MAP_FAILED)
        return -errno;
    ring->base = base;
    return 0;
}

static struct ring *ring_new(int fd, uint32_t slots, uint64_t slot_bytes)
{
    struct ring *ring = malloc(sizeof(*ring));

    assert(slots > 0 && slot_bytes <= UINT64_MAX / slots);
    if (!ring)
        return NULL;
    *ring = (struct ring){
        .fd = fd, .slots = slots, .slot_bytes = slot_bytes, .bytes = slots * slot_bytes};
    return ring;
}

/* Check that there is enough memory, because fallocate() takes it until the kernel kills a
 * process. */
static int check_memory(uint64_t bytes, uint32_t slots, struct plenum_error *err)
{
    struct memory_limit limit;
    char want[32], have[32];

    memory_available(&limit);
    if (bytes <= limit.bytes - limit.bytes / 16)
        return 0;
    return error_set(
        err, -ENOMEM,
        "the ring of batches (%u slots) needs %s, but %s has only %s left; use a smaller "
        "batch or prefetch depth",
        slots, format_bytes(bytes, want, sizeof(want)), limit.what,
        format_bytes(limit.bytes, have, sizeof(have)));
}

int ring_create(uint32_t slots, uint64_t slot_bytes, struct ring **ret, struct plenum_error *err)
{
    struct ring *ring;
    char size[32];
    int fd, r;

    if (slots == 0 || slot_bytes == 0 || slot_bytes > (UINT64_C(1) << 46) / slots)
        return error_set(err, -EINVAL, "a ring of %u slots of %llu bytes is out of range", slots,
                         (unsigned long long)slot_bytes);
    r = check_memory(slots * slot_bytes, slots, err);
    if (r < 0)
        return r;
    (void)format_bytes(slots * slot_bytes, size, sizeof(size));
    fd = memfd_create("plenum-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) {
        r = -errno;
        return error_set(err, r, "cannot create the ring's memory: %s%s", strerror(-r),
                         r == -EMFILE ? " (see ulimit -n)" : "");
    }
    ring = ring_new(fd, slots, slot_bytes);
    if (!ring) {
        (void)close(fd);
        return error_set(err, -ENOMEM, "out of memory");
    }
    do
        r = fallocate(fd, 0, 0, (off_t)ring->bytes) < 0 ? -errno : 0;
    while (r == -EINTR);
    if (r < 0) {
        (void)error_set(err, r,
                        "cannot reserve %s for the ring of batches (%u slots): %s%s; a smaller "
                        "batch or prefetch depth, or a higher memory limit, is needed",
                        size, slots, strerror(-r), r == -EFBIG ? " (see ulimit -f)" : "");
        goto fail;
    }
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        r = -errno;
        (void)error_set(err, r, "cannot seal the ring's memory: %s", strerror(-r));
        goto fail;
    }
    r = ring_map(ring);
    if (r < 0) {
        (void)error_set(err, r, "cannot map %s for the ring of batches: %s%s", size, strerror(-r),
                        r == -ENOMEM ? " (see ulimit -v)" : "");
        goto fail;
    }
    assert(ring->base && ring->fd >= 0);
    *ret = ring;
    return 0;

fail:
    ring_destroy(ring);
    return r;
}

/* Check that memory is allocated for the whole file and, on the `first` check, that none lies
 * beyond its end, because later holes would then not lower the count enough. The last page may be a
 * huge one. */
static int check_blocks(const struct stat *st, bool first, struct plenum_error *err)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), huge = page * page / sizeof(uint64_t);
    uint64_t size = (uint64_t)st->st_size, blocks = (uint64_t)st->st_blocks * 512;

    if (blocks < size)
        return error_set(
            err, -EPERM,
            "the ring that was sent has holes: its memory must be reserved, and stay reserved");
    if (first && blocks > size + huge)
        return error_set(err, -EPERM, "the ring that was sent has memory beyond its end");
    return 0;
}

/* Check that this is a memfd that cannot be shortened while we write into it. */
static int check_sealed(int fd, uint64_t bytes, struct plenum_error *err)
{
    struct statfs fs;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0)
        return error_set(err, -EPERM, "the ring that was sent is not a memory file");
    if (!(seals & F_SEAL_SHRINK) || !(seals & F_SEAL_GROW))
        return error_set(err, -EPERM,
                         "the ring that was sent is not sealed against shrinking and growing");
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return error_set(err, -EPERM, "the ring that was sent is sealed against writing");
    /* On hugetlbfs, a hole punched by the client may be impossible to fill: SIGBUS. */
    if (fstatfs(fd, &fs) < 0 || fs.f_type != TMPFS_MAGIC)
        return error_set(err, -EPERM, "the ring that was sent is not in ordinary memory");
    if (fstat(fd, &st) < 0 || st.st_size < 0 || (uint64_t)st.st_size < bytes)
        return error_set(err, -EPERM, "the ring that was sent is smaller than its slots");
    return check_blocks(&st, true, err);
}

int ring_check(const struct ring *ring, struct plenum_error *err)
{
    struct stat st;

    if (ring->fd < 0)
        return 0;
    if (fstat(ring->fd, &st) < 0)
        return error_set(err, -EPERM, "the ring that was sent cannot be inspected: %s",
                         strerror(errno));
    return check_blocks(&st, false, err);
}

int ring_accept(int fd, uint32_t slots, uint64_t slot_bytes, struct ring **ret,
                struct plenum_error *err)
{
    struct ring *ring;
    int r;

    if (slots == 0 || slot_bytes == 0 || slot_bytes > (UINT64_C(1) << 46) / slots)
        return error_set(err, -EPERM, "the ring's size is out of range");
    r = check_sealed(fd, slots * slot_bytes, err);
    if (r < 0)
        return r;
    ring = ring_new(fd, slots, slot_bytes);
    if (!ring)
        return error_set(err, -ENOMEM, "out of memory");
    r = ring_map(ring);
    if (r < 0) {
        (void)error_set(err, r, "cannot map the ring: %s", strerror(-r));
        ring->fd = -1;
        ring_destroy(ring);
        return r;
    }
    assert(ring->base && ring->fd == fd);
    *ret = ring;
    return 0;
}

int ring_create_private(uint32_t slots, uint64_t slot_bytes, struct ring **ret,
                        struct plenum_error *err)
{
    struct ring *ring;
    int r;

    if (slots == 0 || slot_bytes == 0 || slot_bytes > (UINT64_C(1) << 46) / slots)
        return error_set(err, -EINVAL, "a ring of %u slots of %llu bytes is out of range", slots,
                         (unsigned long long)slot_bytes);
    ring = ring_new(-1, slots, slot_bytes);
    if (!ring)
        return error_set(err, -ENOMEM, "out of memory");
    r = ring_map(ring);
    if (r < 0) {
        ring_destroy(ring);
        return error_set(err, r, "cannot allocate %llu bytes for batches: %s",
                         (unsigned long long)(slots * slot_bytes), strerror(-r));
    }
    *ret = ring;
    return 0;
}

uint64_t ring_resident(const struct ring *ring)
{
    static const size_t page = 4096, most = 4096;
    unsigned char there[4096];
    uint64_t pages = 0;

    assert(ring->base);
    for (size_t at = 0; at < ring->bytes; at += most * page) {
        size_t len = min_u64(ring->bytes - at, most * page), n = (len + page - 1) / page;

        if (mincore(ring->base + at, len, there) < 0)
            return ring->bytes;
        for (size_t i = 0; i < n; i++)
            pages += there[i] & 1;
    }
    return min_u64(pages * page, ring->bytes);
}

void ring_destroy(struct ring *ring)
{
    if (!ring)
        return;
    if (ring->base)
        (void)munmap(ring->base, ring->bytes);
    io_close(&ring->fd);
    free(ring);
}
