/* SPDX-License-Identifier: MIT */
/* leash.c - see leash.h. */
#include "config.h"

#include "loader/serve/leash.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/util/log.h"
#include "common/util/util.h"

enum {
    TURN_MS = 1000,
    FIRST_LOG_S = 3, /* first log line; the next one follows after twice that time, and so on */
    END_LIMIT_S = 8, /* longer than the loop's own limit */
};

static struct {
    int lifeline_fd, start_fd;
    _Atomic enum jobloader_phase phase;
} leash = {.lifeline_fd = -1, .start_fd = -1, .phase = JOBLOADER_SETTINGS};

static bool serves(void)
{
    return atomic_load(&leash.phase) == JOBLOADER_SERVES;
}

/* Wait until the keeper has gone, or until the timeout. Returns true if it has gone. Bytes that it
 * sends are left for the loop. */
static bool keeper_is_gone(int timeout_ms)
{
    struct pollfd fd = {.fd = leash.lifeline_fd, .events = POLLRDHUP};

    return poll(&fd, 1, timeout_ms) == 1 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void tell_phase(void)
{
    char byte = (char)atomic_load(&leash.phase);

    if (byte != JOBLOADER_SERVES && leash.lifeline_fd >= 0 && leash.start_fd >= 0)
        (void)send(leash.lifeline_fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void end_with_keeper(void)
{
    const struct timespec limit = {.tv_sec = END_LIMIT_S};

    if (serves())
        (void)nanosleep(&limit, NULL);
    _exit(EXIT_SUCCESS);
}

static void *leash_main(void *arg)
{
    unsigned seconds = 0, log_at = FIRST_LOG_S;

    (void)arg;
    while (!serves()) {
        if (keeper_is_gone(TURN_MS))
            end_with_keeper();
        if (serves())
            break;
        tell_phase();
        if (++seconds >= log_at) {
            log_about(LOG_LEVEL_NOTICE, NULL, "still starting after %u s: the loader %s", seconds,
                      jobloader_describe_phase(atomic_load(&leash.phase)));
            log_at *= 2;
        }
    }
    if (leash.lifeline_fd < 0)
        return NULL;
    while (!keeper_is_gone(-1))
        ;
    end_with_keeper();
    return NULL;
}

void leash_init(int lifeline_fd, int start_fd)
{
    leash.lifeline_fd = lifeline_fd;
    leash.start_fd = start_fd;
    (void)thread_start(NULL, leash_main, NULL);
}

/* Set the phase of the startup, and report it. After the startup, phases are neither logged nor
 * reported. */
void leash_phase(enum jobloader_phase phase)
{
    if (!serves())
        atomic_store(&leash.phase, phase);
    tell_phase();
}

void leash_serves(void)
{
    atomic_store(&leash.phase, JOBLOADER_SERVES);
    /* Clear O_ASYNC, so that the kernel stops watching. */
    if (leash.start_fd >= 0)
        (void)fcntl(leash.start_fd, F_SETFL, O_NONBLOCK);
    io_close(&leash.start_fd);
}
