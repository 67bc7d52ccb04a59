/* SPDX-License-Identifier: MIT */
/* advance.h - decides whether a job that starts again and again makes progress. */
#ifndef LAUNCHER_ADVANCE_H
#define LAUNCHER_ADVANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum advance_made { ADVANCE_UNKNOWN, ADVANCE_NONE, ADVANCE_MADE };

/** A checkpoint. */
struct advance_file {
    uint64_t stamp;   /* changes when it is written or replaced; 0: read it again */
    uint64_t content; /* a hash */
};

struct advance_list {
    struct advance_file *files; /* owned */
    size_t count, cap;
};

/** Initialised by advance_begin(). */
struct advance {
    const char *file;         /* the program's checkpoint; borrowed; NULL: not named */
    struct advance_list seen; /* the file, and those that pyplenum.Checkpoint derives from it */
    uint64_t furthest;        /* 1 + the furthest step that was reported; 0: none was */
    uint32_t idle;            /* starts in a row without progress */
    int unread;               /* -errno if the file's folder cannot be read */
    bool warned;              /* that it is unknown */
};

/** Remember the state before the first start. advance_end() frees that. */
void advance_begin(struct advance *advance, const char *file);
void advance_end(struct advance *advance);

/**
 * Decide whether the start of the job that has just ended made progress. It did if a checkpoint has
 * content that none had before this start, or if a step beyond all earlier ones was reported. Of a
 * file above 16 MiB, 16 blocks of 1 MiB are compared, spread evenly from its beginning to its end.
 * Do not call this function for a start that ended before its programs ran. Returns ADVANCE_UNKNOWN
 * if there is neither a checkpoint to look at nor a reported step.
 *
 * @param step  1 + the furthest step that was reported during this start; 0: none was
 */
enum advance_made advance_note(struct advance *advance, uint64_t step);

/** Milliseconds to wait after `idle` starts in a row without progress: 1, 2, 4 ... 60 seconds, each
 * varied by up to 25 %, so that jobs that fail for the same reason do not restart at the same time.
 * `idle` is at least 1; `draw` is a random number. */
uint64_t advance_pause_ms(uint32_t idle, uint64_t draw);

#endif
