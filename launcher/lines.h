/* SPDX-License-Identifier: MIT */
/* lines.h - bytes of a pipe on their way to becoming whole lines. */
#ifndef LAUNCHER_LINES_H
#define LAUNCHER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LINES_LONGEST = 1 << 20, /* a longer line is handed on in pieces */
    LINES_A_SECOND = 100,    /* of one host, that are shown */
};

/** Zero-initialised: empty. */
struct lines {
    char *bytes;
    size_t at, len, cap; /* bytes[at ... len) wait */
    size_t last_newline; /* one behind the last newline that was found; at or before `at`: none */
};

void lines_fini(struct lines *lines);

/** Is there room for more? (While there is none the pipe is not read, and its writer waits.) */
bool lines_has_room(const struct lines *lines);

/** A place for at least 64 KiB, `*ret_size` in fact; NULL when memory is short. */
char *lines_reserve(struct lines *lines, size_t *ret_size);
/** `len` bytes were written there. */
void lines_added(struct lines *lines, size_t len);

/**
 * The next thing to hand on, or 0: whole lines, `most` bytes at most, unless one line alone is
 * longer; a piece of a line that is longer than LINES_LONGEST; with `flush`, whatever is there.
 * Borrowed until the next call. lines_drop() takes it out.
 */
size_t lines_peek(struct lines *lines, size_t most, bool flush, const char **ret);
void lines_drop(struct lines *lines, size_t len);

/**
 * What an unfinished line at the end shows, on a terminal, now: the text behind its last carriage
 * return, or, when that is at the very end, behind the one before. 0 when it has no carriage
 * return. Borrowed.
 */
size_t lines_peek_progress(const struct lines *lines, const char **ret);

/** Takes a line without its end, which was a newline, or a carriage return and a newline. */
typedef void lines_call(void *arg, const char *line, size_t len);

/** Hand on and drop what lines_peek() would give, line by line. */
void lines_hand_on(struct lines *lines, bool flush, lines_call *call, void *arg);

/** Read from a non-blocking pipe, and hand on what was read; at its end also what is left, and the
 * pipe is closed (-1). Reads only some times: a writer that never pauses must not hold the caller
 * up. What a pipe can hold at most (/proc/sys/fs/pipe-max-size, 1 MiB) may thus take several
 * calls. */
void lines_follow(struct lines *lines, int *fd, lines_call *call, void *arg);

/** Bytes that wait. */
static inline size_t lines_pending(const struct lines *lines)
{
    return lines->len - lines->at;
}

/** How many lines of one source are shown. Zero-initialised: none was. */
struct line_limit {
    uint64_t begun_ns; /* of the second that is counted */
    uint64_t left_out; /* since line_limit_settle() */
    unsigned passed;
};

/** May one more line be shown? Otherwise it is counted as left out. */
bool line_limit_pass(struct line_limit *limit, uint64_t now_ns);
/** How many lines were left out, to be told now; 0 while the second in which that began lasts. */
uint64_t line_limit_settle(struct line_limit *limit, uint64_t now_ns);

/** The end of what went by, for reports. */
struct tail {
    char bytes[4096];
    size_t total; /* since the beginning: the newest byte lies at (total - 1) % sizeof bytes */
};

/** When the last traceback of a Python program began; several at once (a chain of exceptions) are
 * one. Zero-initialised: none came. */
struct traceback {
    size_t matched; /* bytes of its first line, at the end of what went by */
    uint64_t began_ns, last_ns;
};

void traceback_look(struct traceback *traceback, const char *bytes, size_t len, uint64_t now_ns);

void tail_add(struct tail *tail, const char *bytes, size_t len);

/** The last whole lines, `most` at most, into `ret` (sizeof tail->bytes + 1), ended by NUL; its
 * length. */
size_t tail_get(const struct tail *tail, size_t most, char *ret);

#endif
