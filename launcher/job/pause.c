/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/pause.h"

#include <assert.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/signals.h"

enum { HOSTS_FIRST_S = 5, LAST_S = 60, LONG_S = 600 };

unsigned pause_next(struct pause *pause, bool ran, uint64_t took_ns)
{
    unsigned seconds = 0;

    if (!ran) {
        pause->wait_s =
            pause->wait_s ? (unsigned)min_u64(pause->wait_s * 2, LAST_S) : HOSTS_FIRST_S;
        assert(pause->wait_s >= HOSTS_FIRST_S && pause->wait_s <= LAST_S);
        return pause->wait_s;
    }
    pause->wait_s = 0;
    if (took_ns >= LONG_S * NS_PER_SEC)
        pause->failures = 0;
    if (pause->failures > 0)
        seconds = pause->failures < 7 ? 1U << (pause->failures - 1) : LAST_S;
    pause->failures++;
    assert(seconds <= LAST_S);
    return seconds;
}

static bool obeys_notices;

void pause_obey_notices(void)
{
    obeys_notices = true;
}

static bool ends_job(uint32_t signal)
{
    return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT ||
           (signal == SIGUSR1 && obeys_notices);
}

int pause_until(uint64_t end_ns)
{
    struct signalfd_siginfo info;
    struct pollfd p = {.events = POLLIN};
    sigset_t before;
    int signal = 0;

    (void)sigprocmask(SIG_BLOCK, NULL, &before);
    p.fd = signals_open();
    for (uint64_t now; signal == 0 && (now = time_now_ns()) < end_ns;) {
        (void)poll(&p, 1, (int)((end_ns - now) / NS_PER_MS) + 1);
        while (signal == 0 && p.fd >= 0 && read(p.fd, &info, sizeof(info)) == sizeof(info)) {
            if (ends_job(info.ssi_signo))
                signal = (int)info.ssi_signo;
            else if (info.ssi_signo == SIGTSTP)
                (void)raise(SIGSTOP);
        }
    }
    io_close(&p.fd);
    (void)sigprocmask(SIG_SETMASK, &before, NULL); /* until a job's own handler is installed */
    return signal;
}
