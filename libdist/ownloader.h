/* SPDX-License-Identifier: MIT */
/* ownloader.h - the address of a job's own loader, and which processes can find it. */
#ifndef LIBDIST_OWNLOADER_H
#define LIBDIST_OWNLOADER_H

#include <stdint.h>

#include <plenum/job.h>

#include "common/net/address.h"

/** Number of addresses to try, because other users may have taken the first ones. */
enum { OWNLOADER_TURNS = 16 };

/** A secret shared by the processes that share a loader. */
struct ownloader_key {
    uint8_t bytes[16];
};

/** Make the key. Returns 0, or -EIO if the kernel has no random numbers. */
int ownloader_key(const struct plenum_job_info *info, struct ownloader_key *ret,
                  struct plenum_error *err);

/** Write the address to try in turn number `turn`, from 0 to OWNLOADER_TURNS - 1. */
void ownloader_address(const struct ownloader_key *key, unsigned turn, struct address *ret);

#endif
