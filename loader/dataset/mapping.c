/* SPDX-License-Identifier: MIT */
/* mapping.c - copies bytes and survives SIGBUS.
 *
 * The signal handler is process-wide. It jumps to `escape`, which a copying thread has set; in any
 * other thread, the signal has its previous effect. */
#include "config.h"

#include "loader/dataset/mapping.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "common/util/util.h"

/* Maximum bytes of all mappings, with page tables of 128 MiB. A small mapping counts as
 * MAPPED_LEAST, so there are at most 16384 mappings, a quarter of the number that the kernel
 * allows. */
#define MAPPED_MAX (UINT64_C(64) << 30)
#define MAPPED_LEAST (UINT64_C(4) << 20)

static atomic_uint_fast64_t mapped;

static _Thread_local sigjmp_buf *volatile escape; /* set while this thread is copying */

static pthread_once_t installed = PTHREAD_ONCE_INIT;
static struct sigaction before;
static bool catches;

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
    bool sent = info->si_code <= 0; /* sent by kill(2), for example, not raised by an instruction */

    (void)context;
    if (escape && !sent)
        siglongjmp(*escape, 1);
    (void)sigaction(signal, &before, NULL); /* the instruction raises it again */
    if (sent)
        (void)raise(signal);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_NODEFER};

    catches = sigaction(SIGBUS, &action, &before) == 0;
}

/* Returns whether the address space is unlimited. A limited one is left to other uses. */
static bool has_room(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur == RLIM_INFINITY;
}

const uint8_t *mapping_open(int fd, size_t size)
{
    uint64_t cost = max_u64(size, MAPPED_LEAST);
    void *mapping = MAP_FAILED;

    (void)pthread_once(&installed, install);
    if (!catches || size == 0 || !has_room())
        return NULL;
    if (atomic_fetch_add(&mapped, cost) + cost <= MAPPED_MAX)
        mapping = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    if (mapping == MAP_FAILED) {
        (void)atomic_fetch_sub(&mapped, cost);
        return NULL;
    }
    return mapping;
}

void mapping_close(const uint8_t *mapping, size_t size)
{
    if (!mapping)
        return;
    assert(atomic_load(&mapped) >= max_u64(size, MAPPED_LEAST));
    (void)munmap((void *)(uintptr_t)mapping, size);
    (void)atomic_fetch_sub(&mapped, max_u64(size, MAPPED_LEAST));
}

int mapping_copy(void *dst, const uint8_t *from, size_t len)
{
    sigjmp_buf here;

    assert(!escape); /* copies do not nest */
    if (sigsetjmp(here, 0) != 0) {
        escape = NULL;
        return -EIO;
    }
    /* The handler reads `escape` while memcpy() runs, which the compiler cannot see. */
    escape = &here;
    atomic_signal_fence(memory_order_seq_cst);
    memcpy(dst, from, len);
    atomic_signal_fence(memory_order_seq_cst);
    escape = NULL;
    return 0;
}
