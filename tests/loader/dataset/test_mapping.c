/* SPDX-License-Identifier: MIT */
/* Checks that bytes of a mapped file are copied, or reported as missing, on any thread. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/util.h"
#include "loader/dataset/mapping.h"

enum { SIZE = 3 * 4096 + 100 };

static uint8_t bytes[SIZE];

/* Returns a descriptor of a file with the bytes. */
static int made(void)
{
    int fd = memfd_create("mapped", MFD_CLOEXEC);

    cr_assert(ge(int, fd, 0));
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    cr_assert(eq(int, (int)write(fd, bytes, SIZE), SIZE));
    return fd;
}

Test(mapping, any_part_is_copied)
{
    int fd = made();
    const uint8_t *mapping = mapping_open(fd, SIZE);
    uint8_t copy[SIZE];

    cr_assert(ne(ptr, (void *)(uintptr_t)mapping, NULL));
    for (size_t at = 0; at < SIZE; at += 1000)
        for (size_t len = 0; len <= SIZE - at; len += 777) {
            memset(copy, 1, sizeof(copy));
            cr_assert(eq(int, mapping_copy(copy, mapping + at, len), 0));
            cr_assert(eq(int, memcmp(copy, bytes + at, len), 0));
        }
    mapping_close(mapping, SIZE);
    (void)close(fd);
}

Test(mapping, a_file_that_cannot_be_mapped_is_reported)
{
    int pipes[2];

    cr_assert(eq(int, pipe(pipes), 0));
    cr_expect(eq(ptr, (void *)(uintptr_t)mapping_open(pipes[0], 100), NULL));
    cr_expect(eq(ptr, (void *)(uintptr_t)mapping_open(-1, 100), NULL));
    mapping_close(NULL, 100);
}

static void *copy_much(void *arg)
{
    const uint8_t *mapping = arg;
    uint8_t copy[SIZE];
    intptr_t wrong = 0;

    for (int i = 0; i < 1000; i++) {
        wrong += mapping_copy(copy, mapping, 100) != 0;
        wrong += mapping_copy(copy, mapping + 4000, 200) != -EIO;
        wrong += mapping_copy(copy, mapping + 8192, 4000) != -EIO;
    }
    return (void *)wrong;
}

/* A truncated file is an error, even in threads of thread_start(), which get no other signals. */
Test(mapping, a_truncated_file_is_an_error)
{
    int fd = made();
    const uint8_t *mapping = mapping_open(fd, SIZE);
    pthread_t threads[3];
    void *wrong;

    cr_assert(ne(ptr, (void *)(uintptr_t)mapping, NULL));
    cr_assert(eq(int, ftruncate(fd, 4096), 0));
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        cr_assert(eq(int, thread_start(&threads[i], copy_much, (void *)(uintptr_t)mapping), 0));
    cr_expect(eq(ptr, copy_much((void *)(uintptr_t)mapping), NULL));
    for (size_t i = 0; i < ARRAY_LEN(threads); i++) {
        (void)pthread_join(threads[i], &wrong);
        cr_expect(eq(ptr, wrong, NULL));
    }
    mapping_close(mapping, SIZE);
    (void)close(fd);
}

/* Fork a child that maps a file and, if `cut`, truncates it and touches it; otherwise, the child
 * sends SIGBUS to itself. Returns the status of waitpid(). The child removes a sanitizer's handler,
 * which would report the intended fault. */
static int killed(bool cut)
{
    int fd = made(), status = 0;
    pid_t child = fork();

    if (child == 0) {
        const uint8_t *mapping;

        (void)signal(SIGBUS, SIG_DFL);
        mapping = mapping_open(fd, SIZE);
        if (!mapping || ftruncate(fd, cut ? 0 : SIZE) < 0)
            _exit(1);
        if (cut)
            (void)*(const volatile uint8_t *)mapping;
        else
            (void)kill(getpid(), SIGBUS);
        _exit(0);
    }
    cr_assert(eq(int, waitpid(child, &status, 0), child));
    (void)close(fd);
    return status;
}

/* A fault outside mapping_copy() ends the process, as it would without our handler; so does a
 * signal that a process sends. */
Test(mapping, other_faults_are_not_hidden)
{
    int fault = killed(true), sent = killed(false);

    cr_expect(eq(int, WIFSIGNALED(fault) ? WTERMSIG(fault) : 0, SIGBUS), "status %d", fault);
    cr_expect(eq(int, WIFSIGNALED(sent) ? WTERMSIG(sent) : 0, SIGBUS), "status %d", sent);
}

/* A process may have 65530 mappings, and malloc() and threads need some. */
Test(mapping, their_number_is_limited)
{
    enum { ALL = 65530, LEFT = 1000 };
    static const uint8_t *mappings[ALL];
    int fd = made(), count = 0;

    while (count < ALL - LEFT && (mappings[count] = mapping_open(fd, SIZE)))
        count++;
    cr_expect(gt(int, count, 1000));
    cr_assert(lt(int, count, ALL - LEFT), "all mappings of the process are taken");
    mapping_close(mappings[0], SIZE);
    mappings[0] = mapping_open(fd, SIZE);
    cr_expect(ne(ptr, (void *)(uintptr_t)mappings[0], NULL), "closed mappings can be reused");
    for (int i = 0; i < count; i++)
        mapping_close(mappings[i], SIZE);
    (void)close(fd);
}

/* malloc() also needs address space. */
Test(mapping, a_limited_address_space_is_left_to_others)
{
    struct rlimit limit;
    const uint8_t *mapping;
    int fd = made();

    cr_assert(eq(int, getrlimit(RLIMIT_AS, &limit), 0));
    limit.rlim_cur = (rlim_t)1 << 40;
    cr_assert(eq(int, setrlimit(RLIMIT_AS, &limit), 0));
    mapping = mapping_open(fd, SIZE);
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_AS, &limit);
    cr_expect(eq(ptr, (void *)(uintptr_t)mapping, NULL));
    (void)close(fd);
}
