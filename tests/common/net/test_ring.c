/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/net/ring.h"

enum { SLOTS = 3, SLOT = 8192, BOTH = F_SEAL_SHRINK | F_SEAL_GROW };

Test(ring, both_sides_see_the_same_memory)
{
    struct ring *client, *loader;
    struct plenum_error err;

    cr_assert(eq(int, ring_create(SLOTS, SLOT, &client, &err), 0), "%s", err.text);
    cr_assert(eq(int, ring_accept(dup(client->fd), SLOTS, SLOT, &loader, &err), 0), "%s", err.text);
    memset(ring_slot(loader, 2), 0x5a, SLOT);
    cr_expect(eq(u8, ring_slot(client, 2)[SLOT - 1], 0x5a));
    cr_expect(eq(u8, ring_slot(client, 1)[SLOT - 1], 0));
    ring_destroy(client);
    ring_slot(loader, 0)[0] = 1; /* the memory exists as long as either process maps it */
    ring_destroy(loader);
    ring_destroy(NULL);
}

Test(ring, cannot_be_made_shorter_or_longer)
{
    struct ring *ring;

    cr_assert(eq(int, ring_create(SLOTS, SLOT, &ring, NULL), 0));
    cr_expect(eq(int, ftruncate(ring->fd, 100), -1));
    cr_expect(eq(int, errno, EPERM));
    cr_expect(eq(int, ftruncate(ring->fd, SLOTS * SLOT * 2), -1));
    cr_expect(eq(int, fcntl(ring->fd, F_ADD_SEALS, F_SEAL_WRITE), -1), "no seal can be added");
    ring_destroy(ring);
}

Test(ring, memory_is_reserved_at_creation)
{
    struct ring *ring;
    struct stat st;

    cr_assert(eq(int, ring_create(SLOTS, SLOT, &ring, NULL), 0));
    cr_assert(eq(int, fstat(ring->fd, &st), 0));
    cr_expect(ge(i64, st.st_blocks * 512, SLOTS * SLOT));
    ring_destroy(ring);
}

/* Returns a memfd as a hostile or mistaken client might send it. */
static int made(unsigned flags, off_t bytes, int seals)
{
    int fd = memfd_create("test", MFD_CLOEXEC | flags);

    cr_assert(ge(int, fd, 0));
    cr_assert(eq(int, ftruncate(fd, bytes), 0));
    if (seals)
        cr_assert(eq(int, fcntl(fd, F_ADD_SEALS, seals), 0));
    return fd;
}

static void expect_refused(int fd, uint32_t slots, uint64_t slot_bytes, const char *why)
{
    struct ring *ring = NULL;
    struct plenum_error err = {""};

    cr_expect(eq(int, ring_accept(fd, slots, slot_bytes, &ring, &err), -EPERM), "%s", why);
    cr_expect(eq(ptr, ring, NULL));
    cr_expect(ne(str, err.text, ""));
    cr_expect(eq(int, close(fd), 0), "%s: the descriptor was not taken", why);
}

Test(ring, memory_that_could_raise_sigbus_is_rejected)
{
    FILE *file = tmpfile();

    expect_refused(made(MFD_ALLOW_SEALING, SLOTS * SLOT, 0), SLOTS, SLOT, "not sealed");
    expect_refused(made(MFD_ALLOW_SEALING, SLOTS * SLOT, F_SEAL_GROW), SLOTS, SLOT,
                   "not sealed against shrinking");
    expect_refused(made(0, SLOTS * SLOT, 0), SLOTS, SLOT, "cannot be sealed");
    expect_refused(made(MFD_ALLOW_SEALING, SLOTS * SLOT, F_SEAL_SHRINK), SLOTS, SLOT,
                   "not sealed against growing");
    expect_refused(made(MFD_ALLOW_SEALING, SLOTS * SLOT - 1, BOTH), SLOTS, SLOT, "one byte short");
    expect_refused(made(MFD_ALLOW_SEALING, SLOTS * SLOT, BOTH | F_SEAL_WRITE), SLOTS, SLOT,
                   "sealed against writing");
    expect_refused(made(MFD_ALLOW_SEALING, SLOTS * SLOT, BOTH), SLOTS, UINT64_MAX / 2,
                   "a size that overflows");
    expect_refused(made(MFD_ALLOW_SEALING, SLOTS * SLOT, BOTH), 0, SLOT, "no slots");
    expect_refused(dup(fileno(file)), SLOTS, SLOT, "an ordinary file");
    expect_refused(open("/dev/zero", O_RDWR), SLOTS, SLOT, "a device");
    (void)fclose(file);
}

/* If a hole is filled, the process that fills it is charged for the memory. */
Test(ring, memory_charged_to_the_loader_is_rejected)
{
    struct ring *client, *loader;
    struct plenum_error err;
    int fd;

    expect_refused(made(MFD_ALLOW_SEALING, SLOTS * SLOT, BOTH), SLOTS, SLOT,
                   "a ring without allocated memory");
    cr_assert(eq(int, ring_create(SLOTS, SLOT, &client, &err), 0), "%s", err.text);
    cr_assert(eq(int, ring_accept(dup(client->fd), SLOTS, SLOT, &loader, &err), 0), "%s", err.text);
    cr_expect(eq(int, ring_check(loader, &err), 0));
    cr_assert(
        eq(int, fallocate(client->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, SLOT, SLOT), 0));
    cr_expect(eq(int, ring_check(loader, &err), -EPERM));
    cr_expect(ne(ptr, (void *)strstr(err.text, "has holes"), NULL), "%s", err.text);
    ring_destroy(loader);
    ring_destroy(client);
    /* Memory that is allocated beyond the end must not count for holes before it. */
    fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    cr_assert(eq(int, ftruncate(fd, SLOTS * SLOT), 0));
    cr_assert(eq(int, fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, 16 << 20), 0));
    cr_assert(eq(int, fcntl(fd, F_ADD_SEALS, BOTH), 0));
    expect_refused(fd, SLOTS, SLOT, "memory that is allocated only beyond the end");
}

/* The kernel would promise that much memory, and later kill arbitrary processes. */
Test(ring, more_than_the_machines_memory_is_refused_in_advance)
{
    struct ring *ring = NULL;
    struct plenum_error err = {""};

    cr_assert(eq(int, ring_create(5, UINT64_C(1) << 40, &ring, &err), -ENOMEM));
    cr_expect(ne(ptr, (void *)strstr(err.text, "needs 5.0 TiB, but the "), NULL), "%s", err.text);
    cr_expect(eq(ptr, ring, NULL));
}

Test(ring, unavailable_memory_is_reported)
{
    struct rlimit none = {64 << 20, 64 << 20};
    struct ring *ring = NULL;
    struct plenum_error err = {""};

    cr_expect(eq(int, ring_create(0, SLOT, &ring, &err), -EINVAL));
    cr_expect(eq(int, ring_create(SLOTS, UINT64_MAX, &ring, &err), -EINVAL));
    err.text[0] = '\0';
    (void)setrlimit(RLIMIT_FSIZE, &none); /* a stand-in for a small /dev/shm or control group */
    (void)signal(SIGXFSZ, SIG_IGN);
    cr_expect(lt(int, ring_create(4, 64 << 20, &ring, &err), 0));
    cr_expect(ne(ptr, (void *)strstr(err.text, "cannot reserve 256 MiB"), NULL), "%s", err.text);
    cr_expect(eq(ptr, ring, NULL));
    cr_expect(ne(ptr, (void *)strstr(err.text, "(see ulimit -f)"), NULL), "%s", err.text);
}
