/* SPDX-License-Identifier: MIT */
/* mapping.c - a copy that survives SIGBUS.
 *
 * The handler is the process's. A thread that copies has left a place to go back to; for any other
 * the signal does what it does without us. */
#include "config.h"

#include "loader/dataset/mapping.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

static _Thread_local sigjmp_buf *volatile escape; /* of the copy that this thread is in */

static pthread_once_t installed = PTHREAD_ONCE_INIT;
static struct sigaction before;
static bool catches;

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    (void)info;
    (void)context;
    if (escape)
        siglongjmp(*escape, 1);
    (void)sigaction(signal, &before, NULL); /* and the instruction raises it again */
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER};

    catches = sigaction(SIGBUS, &action, &before) == 0;
}

const uint8_t *mapping_open(int fd, size_t size)
{
    void *mapping;

    (void)pthread_once(&installed, install);
    mapping = catches && size > 0 ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    return mapping == MAP_FAILED ? NULL : mapping;
}

void mapping_close(const uint8_t *mapping, size_t size)
{
    if (mapping)
        (void)munmap((void *)(uintptr_t)mapping, size);
}

int mapping_copy(void *dst, const uint8_t *from, size_t len)
{
    sigjmp_buf here;

    if (sigsetjmp(here, 0) != 0) {
        escape = NULL;
        return -EIO;
    }
    /* The handler reads `escape` while memcpy() runs, which the compiler does not know. */
    escape = &here;
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(dst, from, len);
    atomic_signal_fence(memory_order_seq_cst);
    escape = NULL;
    return 0;
}
