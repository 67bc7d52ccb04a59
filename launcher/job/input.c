/* SPDX-License-Identifier: MIT */
/* input.c - a thread that reads standard input, a piece at a time, when it is asked to.
 *
 * Standard input may be shared with others: two jobs of one terminal or pipe. Then poll() says that
 * there is something, another one takes it, and read() waits. Making it non-blocking would change
 * it for all who share it. So a thread reads, and hands on by a pipe; the loop never waits. It asks
 * for a piece only when poll() has seen something, so that a job in the background does not read
 * from a terminal.
 *
 * There is one thread for all starts of a job: what it has been asked for comes to the next start
 * when this one is over. */
#include "config.h"

#include "launcher/job/input.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/util.h"

enum { PIECE_BYTES = 16384 }; /* less than a pipe takes at once: handing on does not wait */

static struct {
    /* The loop's. */
    bool asked; /* a piece is on its way */
    bool started;
    int answer;
    /* Set before the thread is there. */
    int hand_on;
    sem_t ask;
} input = {.answer = -1};

static void *read_pieces(void *arg)
{
    char bytes[PIECE_BYTES];

    (void)arg;
    for (;;) {
        ssize_t n;

        while (sem_wait(&input.ask) < 0)
            ;
        do
            n = read(STDIN_FILENO, bytes, sizeof(bytes));
        while (n < 0 && errno == EINTR);
        /* -EAGAIN: somebody has made it non-blocking, and another one took what was there. */
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        /* A length before the bytes, so that "nothing" can be told, too. */
        if (io_write_all(input.hand_on, &n, sizeof(n)) < 0 ||
            (n > 0 && io_write_all(input.hand_on, bytes, (size_t)n) < 0))
            break;
    }
    (void)close(input.hand_on); /* the end */
    return NULL;
}

static int start(void)
{
    int fds[2], r;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    input.hand_on = fds[1];
    (void)sem_init(&input.ask, 0, 0);
    r = thread_start(NULL, read_pieces, NULL);
    if (r < 0) {
        (void)close(fds[0]);
        (void)close(fds[1]);
        return r;
    }
    input.answer = fds[0];
    input.started = true;
    return 0;
}

void input_poll(size_t most, struct pollfd fds[INPUT_FDS])
{
    bool room = most >= PIECE_BYTES;

    fds[0] = (struct pollfd){.fd = room && !input.asked ? STDIN_FILENO : -1, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = room && input.asked ? input.answer : -1, .events = POLLIN};
}

/* All of it, which has been written or is being written: false at the end. */
static bool read_answer(void *ret, size_t bytes)
{
    char *to = ret;

    while (bytes > 0) {
        ssize_t n = read(input.answer, to, bytes);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        to += n;
        bytes -= (size_t)n;
    }
    return true;
}

static ssize_t handle_answer(char *ret, size_t most)
{
    ssize_t n;

    if (!read_answer(&n, sizeof(n)))
        return 0; /* the end: asked stays, and so does this answer */
    input.asked = false;
    if (n < 0)
        return -EAGAIN;
    assert((size_t)n <= most);
    return read_answer(ret, (size_t)n) ? n : 0;
}

ssize_t input_read(const struct pollfd fds[INPUT_FDS], char *ret, size_t most)
{
    if (fds[1].revents)
        return handle_answer(ret, most);
    if (!fds[0].revents)
        return -EAGAIN;
    if (!input.started && start() < 0)
        return 0;
    input.asked = true;
    (void)sem_post(&input.ask);
    return -EAGAIN;
}
