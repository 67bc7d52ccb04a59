/* SPDX-License-Identifier: MIT */
/* waitstatus.h - describes a process's wait status. */
#ifndef COMMON_WAITSTATUS_H
#define COMMON_WAITSTATUS_H

#include <stddef.h>

/** Describe a wait status, such as "exited with code 3" or "was ended by signal 9 (Killed)". */
void status_describe(int wait_status, char *ret, size_t size);

#endif
