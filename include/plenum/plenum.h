/* SPDX-License-Identifier: MIT */
/* plenum.h - all of libplenum: rank and world size (job.h), collectives (comm.h), batches
 * (stream.h), conversion of pixels to floats (normalise.h). */
#ifndef PLENUM_PLENUM_H
#define PLENUM_PLENUM_H

#include <plenum/comm.h>
#include <plenum/error.h>
#include <plenum/job.h>
#include <plenum/normalise.h>
#include <plenum/stream.h>

#endif
