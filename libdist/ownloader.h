/* SPDX-License-Identifier: MIT */
/* ownloader.h - where the loader of a job listens that nobody named: who finds it, and who does
 * not. */
#ifndef LIBDIST_OWNLOADER_H
#define LIBDIST_OWNLOADER_H

#include <stdint.h>

#include <plenum/job.h>

#include "common/address.h"

/** Addresses that are tried, as other users may have taken the first ones. */
enum { OWNLOADER_TURNS = 16 };

/** What those have in common that share a loader, and nobody else has. */
struct ownloader_key {
    uint8_t bytes[16];
};

/** 0, or -EIO when the kernel has no random numbers. */
int ownloader_key(const struct plenum_job_info *info, struct ownloader_key *ret,
                  struct plenum_error *err);

/** The address that is tried in this turn, 0 ... OWNLOADER_TURNS - 1. */
void ownloader_address(const struct ownloader_key *key, unsigned turn, struct address *ret);

#endif
