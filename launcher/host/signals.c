/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/host/signals.h"

#include <assert.h>
#include <signal.h>
#include <stddef.h>

#include "common/util/util.h"

enum { SAME_MS = 1000 }; /* two SIGUSR1 within this time count as one that arrived by two routes */

uint64_t signals_get_ignored(void)
{
    static const int asked[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    uint64_t ignored = 0;

    for (size_t i = 0; i < ARRAY_LEN(asked); i++)
        if (signal_is_ignored(asked[i]))
            ignored |= UINT64_C(1) << asked[i];
    return ignored;
}

int signals_open(void)
{
    static const int all[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGTSTP, SIGCONT, SIGCHLD};
    uint64_t ignored = signals_get_ignored();
    int wanted[ARRAY_LEN(all)];
    size_t count = 0;

    for (size_t i = 0; i < ARRAY_LEN(all); i++) /* a blocked signal would still arrive */
        if (!(ignored >> all[i] & 1))
            wanted[count++] = all[i];
    assert(count <= ARRAY_LEN(wanted));
    return io_open_signals(wanted, count);
}

void signals_reset(uint64_t ignored)
{
    sigset_t none;

    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP)
            (void)signal(s, s < 64 && ignored >> s & 1 ? SIG_IGN : SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool is_fault(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
           signal == SIGABRT || signal == SIGTRAP || signal == SIGSYS;
}

void signals_ignore_strays(void)
{
    for (int s = 1; s < NSIG; s++)
        if (!is_fault(s) && s != SIGKILL && s != SIGSTOP && s != SIGCHLD)
            (void)signal(s, SIG_IGN);
}

bool signals_may_hand_on(struct signals_handed *handed, int signal, pid_t from)
{
    size_t i = signal == SIGUSR2;
    uint64_t now = time_now_ns();

    if (signal != SIGUSR1 && signal != SIGUSR2)
        return true;
    if (handed->last[i].ns && handed->last[i].from != from &&
        now - handed->last[i].ns < SAME_MS * NS_PER_MS)
        return false;
    handed->last[i].ns = now;
    handed->last[i].from = from;
    return true;
}
