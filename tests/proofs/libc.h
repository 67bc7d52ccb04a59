/* SPDX-License-Identifier: MIT */
/* libc.h - declares what the project's headers use and Frama-C's C library lacks. It is included
 * before every source. */
#ifndef TESTS_PROOFS_LIBC_H
#define TESTS_PROOFS_LIBC_H

#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#define CLOCK_THREAD_CPUTIME_ID 3
#undef CMSG_SPACE
#define CMSG_SPACE(len) ((len) + 24)

#endif
