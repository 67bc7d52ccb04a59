/* SPDX-License-Identifier: MIT */
/* ring.h - the memory shared by a loader and a training program: one sealed memfd, cut into equal
 * slots. */
#ifndef COMMON_RING_H
#define COMMON_RING_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** A mapped ring. Owned by the side that created or accepted it. */
struct ring {
    int fd;        /* the memfd, which the client sends; -1: a private ring */
    uint8_t *base; /* page-aligned */
    size_t bytes;
    uint32_t slots;
    uint64_t slot_bytes;
};

/**
 * Create a ring (the client's side). All memory is reserved now, so that a shortage is an error
 * here and never a SIGBUS later. The memfd is then sealed against shrinking and growing.
 *
 * Errors: -EINVAL (out of range), -ENOMEM or -ENOSPC (the message names the limit), -EMFILE or
 * -ENFILE.
 */
int ring_create(uint32_t slots, uint64_t slot_bytes, struct ring **ret, struct plenum_error *err);

/**
 * Map a ring that a client sent (the loader's side). Takes `fd` on success.
 *
 * Accepts only a memfd of ordinary tmpfs pages, sealed against shrinking and growing, large enough
 * and without holes. With anything else, a client could turn our write into its memory into a
 * SIGBUS, or make the loader pay for the memory.
 *
 * Errors: -EPERM with the reason, -ENOMEM.
 */
int ring_accept(int fd, uint32_t slots, uint64_t slot_bytes, struct ring **ret,
                struct plenum_error *err);

/**
 * Check that all of an accepted ring is still allocated: if the client punches a hole, the next
 * writer pays to fill it. Returns 0, or -EPERM with a message. Threads: any.
 */
int ring_check(const struct ring *ring, struct plenum_error *err);

/**
 * Create a ring in this process's own memory, to render for a client on another host. It uses
 * memory only once it is written to. Errors: -ENOMEM, -EINVAL.
 */
int ring_create_private(uint32_t slots, uint64_t slot_bytes, struct ring **ret,
                        struct plenum_error *err);

/** Returns how many bytes of a private ring have been written to. */
uint64_t ring_resident(const struct ring *ring);

/** Unmap the ring. NULL is ignored. */
void ring_destroy(struct ring *ring);

static inline uint8_t *ring_slot(const struct ring *ring, uint32_t slot)
{
    return ring->base + slot * ring->slot_bytes;
}

#endif
