/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/control/handover.h"

#include <stdio.h>
#include <stdlib.h>

const char *handover_name_list(unsigned number, char ret[HANDOVER_LIST_MAX])
{
    (void)snprintf(ret, HANDOVER_LIST_MAX, AGENT_ENV_HOSTS "%u", number);
    return ret;
}

void handover_clear_agent(void)
{
    char variable[HANDOVER_LIST_MAX];

    (void)unsetenv(AGENT_ENV_WORDS);
    (void)unsetenv(AGENT_ENV_GATE);
    for (unsigned i = 0; getenv(handover_name_list(i, variable)); i++)
        (void)unsetenv(variable);
}
