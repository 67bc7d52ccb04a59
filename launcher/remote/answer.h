/* SPDX-License-Identifier: MIT */
/* answer.h - finds plenumrun's answer in the output of another host's login. */
#ifndef LAUNCHER_ANSWER_H
#define LAUNCHER_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

enum { ANSWER_BYTES = 16384 };

/** Collects a login's output, in which any amount of text may precede the answer. Only the end of
 * the text is kept until the mark arrives; from then on, the text that begins with the mark. */
struct answer {
    const char *mark; /* the answer's first line; borrowed; not empty */
    size_t len;       /* length of `text` without its NUL */
    bool begun;       /* `text` begins with the mark */
    char text[ANSWER_BYTES];
};

/** Forget everything, and look for this mark. */
void answer_init(struct answer *answer, const char *mark);

/** Add the next `len` bytes. NULs become question marks. Text after the mark that does not fit is
 * dropped. */
void answer_add(struct answer *answer, const char *bytes, size_t len);

/** Returns the last line that is not empty, or "". Borrowed from `text`, whose trailing line ends
 * and spaces are removed. */
const char *answer_last_line(char *text);

/** Overwrite `secret` with asterisks wherever it occurs in `text`. Has no effect if it is empty. */
void answer_hide(char *text, const char *secret);

#endif
