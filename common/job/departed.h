/* SPDX-License-Identifier: MIT */
/* departed.h - a page shared by a program and the shim that started it. The program reports how
 * many collectives it has reached, and the shim reports which instances have ended and what they
 * had reached.
 *
 * MPI does not report a process that ended without MPI_Init() or MPI_Finalize(). */
#ifndef COMMON_DEPARTED_H
#define COMMON_DEPARTED_H

#include <stdbool.h>
#include <stdint.h>

/** Names the page for the program, such as "/proc/PID/fd/NUMBER". */
#define DEPARTED_VARIABLE "PLENUM_DEPARTED"

/** The count of an instance that joins; each collective adds one. */
enum { DEPARTED_FIRST = 1 };

/** How often to check the page while waiting. */
#define DEPARTED_LOOK_NS (UINT64_C(100) * 1000 * 1000)

enum { DEPARTED_PATH_MAX = 64 };

/** Opaque. Threads: any. */
struct departed;

/* ---- the shim ---- */

/**
 * Create a page that lasts until departed_destroy(). Returns 0 or -errno.
 *
 * @param path  the variable's value
 */
int departed_create(uint32_t instances, struct departed **ret, char path[DEPARTED_PATH_MAX]);
/** Destroy the page. NULL is ignored. */
void departed_destroy(struct departed *page);
/** Returns the count that the program has reached; 0 if none, or if `page` is NULL. */
uint64_t departed_get_reached(const struct departed *page);
/** Record that an instance has ended. Ignored if `page` is NULL. */
void departed_note(struct departed *page, uint32_t instance, uint64_t reached);

/* ---- the program ---- */

/** Returns the page of this process's instance, valid until the process ends; NULL if there is no
 *  usable one. */
const struct departed *departed_open(uint32_t instances);
/** Report the count that this instance has reached. Ignored if `page` is NULL. */
void departed_reach(const struct departed *page, uint64_t reached);
/** Returns whether an instance ended before its count reached `reached`. False if `page` is
 * NULL. */
bool departed_before(const struct departed *page, uint32_t instance, uint64_t reached);

#endif
