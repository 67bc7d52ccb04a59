/* chores.h - work that may wait for storage for as long as that likes, away from the loop. */
#ifndef LOADER_SERVE_CHORES_H
#define LOADER_SERVE_CHORES_H

#include <stdbool.h>

#include <uv.h>

/**
 * Each chore has a thread of its own, so that none waits for another's storage. Of one lane (a
 * user's, say) no more run at a time than its limit; the others wait in line.
 */
struct chores;

/** One piece of work. Its owner keeps it where it is until done() has been called, or
 * chores_drop() was true. */
struct chore {
    void (*work)(struct chore *chore); /* in the thread */
    void (*done)(struct chore *chore); /* on the loop, not before chores_start() has returned */
    const char *lane;                  /* borrowed */
    unsigned limit;
    int code; /* 0, or why no thread could be had: then no work was done */
    /* Theirs. */
    struct chores *chores;
    struct chore *next, *next_over;
    bool started;
};

int chores_create(uv_loop_t *loop, struct chores **ret);
/** The loop is about to end: done() is not called before chores_destroy(). */
void chores_close(struct chores *chores);
/** Waits for threads that are at work; what waits in line is done with -ECANCELED. */
void chores_destroy(struct chores *chores);

void chores_start(struct chores *chores, struct chore *chore);
/** Forget a chore that still waits in line: false when it has begun. */
bool chores_drop(struct chore *chore);

#endif
