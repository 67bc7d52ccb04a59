/* SPDX-License-Identifier: MIT */
/* lines.h - collects bytes from a pipe into whole lines. */
#ifndef LAUNCHER_LINES_H
#define LAUNCHER_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LINES_LONGEST = 1 << 20, /* a longer line is passed on in pieces */
    LINES_A_SECOND = 100,    /* lines shown per second per host */
};

/** Empty if zero-initialised. */
struct lines {
    char *bytes;
    size_t at, len, cap; /* bytes[at ... len) are pending */
    size_t last_newline; /* position after the last newline; if <= `at`, none is pending */
};

void lines_fini(struct lines *lines);

/** Returns whether there is room for more. (Otherwise the pipe is not read, and its writer
 * waits.) */
bool lines_has_room(const struct lines *lines);

/** Reserve room for at least 64 KiB; `*ret_size` is the actual size. Returns NULL if out of
 * memory. */
char *lines_reserve(struct lines *lines, size_t *ret_size);
/** Add `len` bytes that were written to the reserved room. */
void lines_added(struct lines *lines, size_t len);

/**
 * Get the next bytes to pass on, and return their number, or 0. They are whole lines of at most
 * `most` bytes together, unless a single line is longer; a piece of a line that is longer than
 * LINES_LONGEST; or, with `flush`, everything. Borrowed until the next call; lines_drop() removes
 * them.
 */
size_t lines_peek(struct lines *lines, size_t most, bool flush, const char **ret);
void lines_drop(struct lines *lines, size_t len);

/**
 * Get what a terminal would show of an unfinished last line: the text after its last carriage
 * return, not counting one that ends the line. Returns the length of the text; 0 if the line has no
 * carriage return. Borrowed.
 */
size_t lines_peek_progress(const struct lines *lines, const char **ret);

/** Receives a line without its end (a newline, or a carriage return and a newline). */
typedef void lines_call(void *arg, const char *line, size_t len);

/** Pass on and drop, line by line, what lines_peek() would return. */
void lines_hand_on(struct lines *lines, bool flush, lines_call *call, void *arg);

/** Read from a non-blocking pipe and pass on whole lines (lines_hand_on()). At the pipe's end, or
 * if it cannot be read, also pass on the rest and close it (-1). The number of reads is limited, so
 * that a writer that never pauses cannot block the caller: emptying the largest possible pipe
 * (/proc/sys/fs/pipe-max-size, 1 MiB) may take several calls. */
void lines_follow(struct lines *lines, int *fd, lines_call *call, void *arg);

/** Returns the number of pending bytes. */
static inline size_t lines_pending(const struct lines *lines)
{
    return lines->len - lines->at;
}

/** Limits how many lines of one source are shown. Zero-initialise it. */
struct line_limit {
    uint64_t begun_ns; /* start of the second being counted */
    uint64_t left_out; /* lines left out since line_limit_settle() */
    unsigned passed;
};

/** Count one more line. Returns whether it may be shown; otherwise it is counted as left out. */
bool line_limit_pass(struct line_limit *limit, uint64_t now_ns);
/** Returns the number of left-out lines to report, and resets it; 0 until the second in which they
 * were left out is over. */
uint64_t line_limit_settle(struct line_limit *limit, uint64_t now_ns);

/** The last bytes that passed, for reports. */
struct tail {
    char bytes[4096];
    size_t total; /* since the start: the newest byte is at (total - 1) % sizeof bytes */
};

/** Records when a Python program's last traceback began. Several in a row (a chain of exceptions)
 * count as one. Zero-initialise it. */
struct traceback {
    size_t matched; /* number of bytes of a traceback's first line that have just passed */
    uint64_t began_ns, last_ns;
};

/** Look for the first line of a traceback in bytes that have passed. */
void traceback_look(struct traceback *traceback, const char *bytes, size_t len, uint64_t now_ns);

/** Add bytes that have passed. */
void tail_add(struct tail *tail, const char *bytes, size_t len);

/** Copy the last lines, at most `most`, to `ret` (sizeof tail->bytes + 1), terminated by NUL;
 * returns the length. A line whose beginning is lost is omitted, unless it is the only one. */
size_t tail_get(const struct tail *tail, size_t most, char *ret);

#endif
