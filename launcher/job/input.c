/* SPDX-License-Identifier: MIT */
/* input.c - a thread that reads standard input, one piece at a time, on request.
 *
 * Standard input may be shared with other processes, such as two jobs on one terminal or pipe. Then
 * poll() may report data that another process takes first, and read() blocks. Making it
 * non-blocking would affect every process that shares it. So a thread reads and forwards through a
 * pipe, and the loop never blocks. The loop requests a piece only after poll() has reported data,
 * so that a background job does not read from a terminal.
 *
 * One thread serves all starts of a job: a piece that one start has requested goes to the next
 * start if the first is over. */
#include "config.h"

#include "launcher/job/input.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <unistd.h>

#include "common/util/util.h"

enum { PIECE_BYTES = 16384 }; /* fits into a pipe, so that forwarding does not block */

static struct {
    /* Owned by the loop. */
    bool asked; /* a piece was requested */
    bool started;
    int answer;
    /* Set before the thread starts. */
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
        /* -EAGAIN: another process made standard input non-blocking and took the data. */
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        /* The length precedes the bytes, so that "nothing" can be sent, too. */
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

/* Read a message that has been written or is being written. False at the end. */
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
        return 0; /* the end: `asked` stays set, so every later call returns this */
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
