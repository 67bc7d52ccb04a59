/* SPDX-License-Identifier: MIT */
/* departed.h - a page between a program and the shim that has started it: the program says how many
 * collectives it has reached, and the shim which instances have ended, and what they had reached.
 *
 * MPI does not say that a process has ended that never called it, or that left without a word. */
#ifndef COMMON_DEPARTED_H
#define COMMON_DEPARTED_H

#include <stdbool.h>
#include <stdint.h>

/** Where a program finds it: "/proc/PID/fd/NUMBER". */
#define DEPARTED_VARIABLE "PLENUM_DEPARTED"

/** What an instance has reached when it joins the others; each collective is one more. */
enum { DEPARTED_FIRST = 1 };

/** How often to look while something is waited for. */
#define DEPARTED_LOOK_NS (UINT64_C(100) * 1000 * 1000)

enum { DEPARTED_PATH_MAX = 64 };

/** Opaque. Any thread. */
struct departed;

/* ---- the shim ---- */

/**
 * Make a page that lasts until departed_destroy().
 *
 * @param path  the variable's value
 */
int departed_create(uint32_t instances, struct departed **ret, char path[DEPARTED_PATH_MAX]);
/** NULL is ignored. */
void departed_destroy(struct departed *page);
/** What the program has reached; 0: nothing, or `page` is NULL. */
uint64_t departed_get_reached(const struct departed *page);
/** An instance has ended. Ignored when `page` is NULL. */
void departed_note(struct departed *page, uint32_t instance, uint64_t reached);

/* ---- the program ---- */

/** The page of this process's instance, until the process ends; NULL when there is none that it can
 * use. */
const struct departed *departed_open(uint32_t instances);
/** Say what this instance has reached. Ignored when `page` is NULL. */
void departed_reach(const struct departed *page, uint64_t reached);
/** Has an instance ended before it reached this? False when `page` is NULL. */
bool departed_before(const struct departed *page, uint32_t instance, uint64_t reached);

#endif
