/* SPDX-License-Identifier: MIT */
/* ring.h - the memory that a loader and a training program share: one sealed memfd, cut into equal
 * slots. */
#ifndef COMMON_RING_H
#define COMMON_RING_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** A mapped ring. Owned by whoever created or accepted it, shared by counting references. */
struct ring {
    int fd;        /* of the memory; the client sends it; -1: of a private ring */
    uint8_t *base; /* page-aligned */
    size_t bytes;
    uint32_t slots;
    uint64_t slot_bytes;
    atomic_uint refs;
};

/**
 * Make a ring (the client's side): memory is reserved now, so that a short machine is an error
 * here and never a SIGBUS later, then sealed against shrinking and growing.
 *
 * Errors: -ENOMEM or -ENOSPC (the limit is named), -EMFILE, -ENFILE.
 */
int ring_create(uint32_t slots, uint64_t slot_bytes, struct ring **ret, struct plenum_error *err);

/**
 * Map a ring that a client sent (the loader's side). `fd` is taken when that succeeds.
 *
 * Accepted is only a memfd of ordinary tmpfs pages, sealed against shrinking and growing, of
 * sufficient size and without holes: on anything else a client could make a write of ours into its
 * memory a SIGBUS, or have the loader pay for it.
 *
 * Errors: -EPERM with the reason, -ENOMEM.
 */
int ring_accept(int fd, uint32_t slots, uint64_t slot_bytes, struct ring **ret,
                struct plenum_error *err);

/**
 * Is there still memory behind all of an accepted ring? A hole that the client has punched is
 * filled by whoever writes first. 0, or -EPERM with a sentence. Threads: any.
 */
int ring_check(const struct ring *ring, struct plenum_error *err);

/**
 * Memory of this process alone, in the form of a ring: what is rendered for a client of another
 * host. It costs what was written to. Errors: -ENOMEM, -EINVAL.
 */
int ring_create_private(uint32_t slots, uint64_t slot_bytes, struct ring **ret,
                        struct plenum_error *err);

/** Bytes of a private ring that have been written to. */
uint64_t ring_resident(const struct ring *ring);

struct ring *ring_ref(struct ring *ring);

/** Give up one reference; the last one unmaps. NULL is nothing. Threads: any. */
void ring_unref(struct ring *ring);

static inline uint8_t *ring_slot(const struct ring *ring, uint32_t slot)
{
    return ring->base + slot * ring->slot_bytes;
}

#endif
