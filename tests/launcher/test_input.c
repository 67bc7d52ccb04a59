/* SPDX-License-Identifier: MIT */
/* Tests standard input that other processes read, too: data that poll() reported may be gone by the
 * time we read. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "launcher/job/input.h"

enum { MOST = 65536 };

/* While set, every second read is interrupted by a signal. */
static atomic_bool interrupted;
static atomic_uint reads;
ssize_t __real_read(int fd, void *bytes, size_t len);

ssize_t __wrap_read(int fd, void *bytes, size_t len);
ssize_t __wrap_read(int fd, void *bytes, size_t len)
{
    if (!interrupted || reads++ % 2 == 1)
        return __real_read(fd, bytes, len);
    errno = EINTR;
    return -1;
}

static ssize_t take(char *bytes, int wait_ms)
{
    struct pollfd fds[INPUT_FDS];

    input_poll(MOST, fds);
    cr_assert(ge(int, poll(fds, INPUT_FDS, wait_ms), 0));
    return input_read(fds, bytes, MOST);
}

/* Wait for input and read it. */
static ssize_t wait_for(char *bytes)
{
    ssize_t n;

    while ((n = take(bytes, 1000)) == -EAGAIN)
        ;
    return n;
}

Test(input, another_reader_may_be_faster, .timeout = 600)
{
    static char bytes[MOST];
    struct pollfd fds[INPUT_FDS];
    int ours[2];

    cr_assert(eq(int, pipe(ours), 0));
    cr_assert(eq(int, dup2(ours[0], STDIN_FILENO), STDIN_FILENO));
    cr_assert(eq(int, (int)write(ours[1], "x", 1), 1));
    input_poll(MOST, fds);
    cr_assert(eq(int, poll(fds, INPUT_FDS, -1), 1));
    cr_assert(eq(int, (int)read(ours[0], bytes, 1), 1));
    cr_expect(eq(int, (int)input_read(fds, bytes, MOST), -EAGAIN), "it returns");
    cr_expect(eq(int, (int)take(bytes, 0), -EAGAIN), "and returns");

    cr_assert(eq(int, (int)write(ours[1], "abc", 3), 3));
    cr_expect(eq(int, (int)wait_for(bytes), 3));
    cr_expect(eq(int, memcmp(bytes, "abc", 3), 0));
    (void)close(ours[1]);
    cr_expect(eq(int, (int)wait_for(bytes), 0), "the end");
    cr_expect(eq(int, (int)wait_for(bytes), 0), "the end must be reported again");
}

Test(input, a_signal_is_not_the_end, .timeout = 600)
{
    static char bytes[MOST];
    int ours[2];

    cr_assert(eq(int, pipe(ours), 0));
    cr_assert(eq(int, dup2(ours[0], STDIN_FILENO), STDIN_FILENO));
    for (unsigned first = 0; first < 2; first++) { /* either reader may be first */
        cr_assert(eq(int, (int)write(ours[1], "abc", 3), 3));
        reads = first;
        interrupted = true;
        cr_expect(eq(int, (int)wait_for(bytes), 3));
        interrupted = false;
        cr_expect(eq(int, memcmp(bytes, "abc", 3), 0));
    }
}

Test(input, is_not_read_without_room, .timeout = 600)
{
    struct pollfd fds[INPUT_FDS];

    input_poll(0, fds);
    cr_expect(fds[0].fd < 0 && fds[1].fd < 0);
    cr_expect(eq(int, poll(fds, INPUT_FDS, 0), 0));
}
