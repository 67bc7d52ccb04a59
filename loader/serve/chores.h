/* SPDX-License-Identifier: MIT */
/* chores.h - threads for what may wait in the kernel for as long as that likes: for storage, or for
 * whom a descriptor belongs to. The loop waits for none. */
#ifndef LOADER_SERVE_CHORES_H
#define LOADER_SERVE_CHORES_H

#include <stdbool.h>
#include <stdint.h>

#include <uv.h>

#include "common/list.h"

/**
 * Chores of one lane (a user's openings, say) run at most `limit` at a time, each in a thread; the
 * others of that lane wait in line. So none waits for another lane's, whatever hangs there.
 */
struct chores;

/** One piece of work. Its owner keeps it where it is until done() has been called, or
 * chores_drop() was true. */
struct chore {
    void (*work)(struct chore *chore); /* in the thread */
    /* On the loop, not before chores_start() has returned. */
    void (*done)(struct chore *chore);
    bool aside;       /* done() is called wherever it may be, also within chores_start() */
    const char *lane; /* borrowed */
    unsigned limit;
    int code; /* 0, or why no thread could be had: then no work was done */
    /* Theirs. */
    struct chores *chores;
    struct list link; /* in line, running, or over */
    uint64_t began_ns;
    bool started;
};

int chores_create(uv_loop_t *loop, struct chores **ret);
/** The loop is about to end: done() is not called on it before chores_destroy(). */
void chores_close(struct chores *chores);
/** Waits for threads that are at work; what waits in line is done with -ECANCELED. NULL is
 * nothing. */
void chores_destroy(struct chores *chores);

/** Threads: any. */
void chores_start(struct chores *chores, struct chore *chore);
/** Forget a chore that still waits in line: false when it has begun. Threads: any. */
bool chores_drop(struct chore *chore);
/** Has it begun? Threads: any. */
bool chores_has_begun(struct chore *chore);

/** Close a descriptor that a client had a hand in, which may take as long as the client likes: of a
 * file of a file system that the client serves itself, of a socket with SO_LINGER and bytes that
 * nobody takes, and of a unix socket in whose queue such a one waits. It is taken.
 *
 * Of sockets none waits long, nor what is in the queues of unix sockets. So what holds a thread up
 * is a file of a file system that the user serves. */
void chores_close_fd(struct chores *chores, uint64_t user, int fd);
/** The same of a connection that we accepted: at once, where nothing waits in it that could hang;
 * else not in line behind descriptors of that user's, as what waits in it hardly hangs. */
void chores_close_connection(struct chores *chores, uint64_t user, int fd);
/** Do descriptors of that user's wait for others whose closing does not end? Then none is to be
 * taken of it, and its connections are closed with what is in them: a user has no more than so many
 * of our threads and descriptors. */
bool chores_is_stuck(struct chores *chores, uint64_t user);

/** The user of a client that was not asked who it is. */
#define CHORES_STRANGER UINT64_MAX

#endif
