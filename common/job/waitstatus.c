/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/job/waitstatus.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

void status_describe(int wait_status, char *ret, size_t size)
{
    if (WIFSIGNALED(wait_status))
        (void)snprintf(ret, size, "was ended by signal %d (%s%s)", WTERMSIG(wait_status),
                       strsignal(WTERMSIG(wait_status)),
                       WCOREDUMP(wait_status) ? ", core dumped" : "");
    else
        (void)snprintf(ret, size, "exited with code %d", WEXITSTATUS(wait_status));
}
