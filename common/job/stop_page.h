/* SPDX-License-Identifier: MIT */
/* stop_page.h - a page shared by a program and the shim that started it, through which all
 * instances of a job stop at the same step.
 *
 * The program writes the step that it is about to begin, then reads the limit: the first step that
 * it must not begin. The shim writes the limit, then reads the step. Each writes before it reads,
 * so at least one of them sees the other's value: if the shim has read a step below the limit, the
 * program cannot begin a step at or above the limit before the shim changes it. That is a promise,
 * which the shim gives on behalf of the program at once, even in the middle of a step.
 *
 * Steps are stored as numbers from 1, because 0 means "none yet".
 *
 * The page also shows the shim how the program progresses (pace.h). */
#ifndef COMMON_STOP_PAGE_H
#define COMMON_STOP_PAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/job/pace.h"

/** Names the page for the program, such as "/proc/PID/fd/NUMBER". */
#define STOP_PAGE_VARIABLE "PLENUM_STOP"

/** The last step that a program may ask about. */
#define STOP_STEP_MAX ((UINT64_C(1) << 62) - 1)

/** No step is forbidden. */
#define STOP_NO_LIMIT UINT64_MAX

enum { STOP_PATH_MAX = 64 };

/** The shared memory. At the start, nothing is asked, and no step is forbidden. */
struct stop_page {
    char magic[8];
    uint32_t instance, instances;
    char bell[STOP_PATH_MAX]; /* the pipe that wakes the shim */
    /* Written by the program. */
    _Atomic int32_t owner;    /* the process that calls plenum_job_should_stop(); 0: none */
    _Atomic uint64_t asked;   /* 1 + the step that it last asked about */
    _Atomic uint64_t halted;  /* 1 + the step that it must not begin */
    _Atomic uint32_t noticed; /* it has received a signal that asks it to stop */
    /* Written by the shim. */
    _Atomic uint32_t changes; /* futex: counts changes of the limit */
    /* Twice the first step that must not begin, plus 1 if that is decided. Until it is decided, the
     * program waits there. */
    _Atomic uint64_t limit;
    struct pace pace;
};

/** May a step begin? */
enum stop_answer {
    STOP_GO,
    STOP_HALT, /* no: all instances stop here */
    STOP_WAIT  /* not before it is decided */
};

/* ---- the shim ---- */

/** The shim's side of a page. */
struct stop_keeper {
    struct stop_page *page;
    int fd;      /* the page's memory */
    int bell[2]; /* a pipe; non-blocking */
};

/**
 * Create a page that lasts until stop_keeper_destroy(). Returns 0 or -errno.
 *
 * @param path  the variable's value
 */
int stop_keeper_create(uint32_t instance, uint32_t instances, struct stop_keeper **ret,
                       char path[STOP_PATH_MAX]);
/** NULL is ignored. */
void stop_keeper_destroy(struct stop_keeper *keeper);
/** Returns a descriptor that is readable when the program has rung; -1 if `keeper` is NULL. */
int stop_keeper_get_fd(const struct stop_keeper *keeper);
/** Empty the bell's pipe, after the program has rung. */
void stop_keeper_clear(const struct stop_keeper *keeper);

/** Forbid `step` and later ones until further notice, or allow all (STOP_NO_LIMIT), and wake the
 * program if it waits. */
void stop_page_set_limit(struct stop_page *page, uint64_t step);
/** Returns 1 + the step that the program last asked about; 0: it has not asked about any. */
uint64_t stop_page_get_asked(const struct stop_page *page);
/**
 * Promise that the program does not begin `step` or a later one, and return true. If it has already
 * asked about such a step, forbid no step, and return false.
 *
 * @param asked  receives stop_page_get_asked()
 */
bool stop_page_promise(struct stop_page *page, uint64_t step, uint64_t *asked);
/** Do the second half of stop_page_promise(), after stop_page_set_limit(). */
bool stop_page_keep(struct stop_page *page, uint64_t step, uint64_t *asked);
/** Decide that the program stops at `step`, for which the promise was given. */
void stop_page_decide(struct stop_page *page, uint64_t step);

/* ---- the program ---- */

/** Returns this instance's page, valid until the process ends; NULL if there is no usable one. */
struct stop_page *stop_page_open(uint32_t instance, uint32_t instances);
/** Register this process as the one that calls plenum_job_should_stop(). Returns 0, or -EBUSY if
 * another running process has registered, whose ID is stored in `owner`. */
int stop_page_claim(struct stop_page *page, pid_t *owner);
/** Wake the shim, so that it looks at the page. */
void stop_page_ring(const struct stop_page *page);
/** Report to the shim that the program has received a signal to stop. */
void stop_page_note(struct stop_page *page);

/** Do the first half of stop_page_ask(); stop_page_check() is the second. */
static inline void stop_page_enter(struct stop_page *page, uint64_t step)
{
    atomic_store(&page->asked, step + 1);
}

static inline enum stop_answer stop_page_check(const struct stop_page *page, uint64_t step)
{
    uint64_t limit = atomic_load(&page->limit);

    if (step < limit >> 1)
        return STOP_GO;
    return limit & 1 ? STOP_HALT : STOP_WAIT;
}

/** Wait until it is known whether `step` may begin. */
enum stop_answer stop_page_wait(struct stop_page *page, uint64_t step);

/** Returns whether `step` may begin: STOP_GO or STOP_HALT. Waits only while a stop before this step
 * is proposed but not decided. */
static inline enum stop_answer stop_page_ask(struct stop_page *page, uint64_t step)
{
    enum stop_answer answer;

    stop_page_enter(page, step);
    answer = stop_page_check(page, step);
    return answer == STOP_GO ? answer : stop_page_wait(page, step);
}

#endif
