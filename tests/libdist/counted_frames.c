/* SPDX-License-Identifier: MIT */
/* counted_frames.c - see counted_frames.h. plenumd linked with it is plenumd-counted, for
 * test_play. */
#include "config.h"

#include "tests/libdist/counted_frames.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/net/frame.h"

static atomic_ulong own;
atomic_ulong *counted_frames = &own;
_Thread_local bool counted_not;

/* A sanitizer quarantines freed memory: keep that small, so that growth is visible. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=2:thread_local_quarantine_size_kb=16";
}

__attribute__((constructor)) static void share(void)
{
    const char *path = getenv("PLENUM_COUNTED_FRAMES");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *at;

    if (fd < 0)
        return;
    at = mmap(NULL, sizeof(own), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    (void)close(fd);
    if (at != MAP_FAILED)
        counted_frames = at;
}

typedef int next_call(struct frame_conn *, struct frame_header *, struct frame_reader *);
next_call __real_frame_conn_next, __wrap_frame_conn_next;

int __wrap_frame_conn_next(struct frame_conn *conn, struct frame_header *header,
                           struct frame_reader *payload)
{
    int r = __real_frame_conn_next(conn, header, payload);

    if (r != 0 && !counted_not) /* also counts invalid frames */
        (void)atomic_fetch_add(counted_frames, 1);
    return r;
}
