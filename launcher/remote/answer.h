/* SPDX-License-Identifier: MIT */
/* answer.h - finds plenumrun's answer in what another host's login prints. */
#ifndef LAUNCHER_ANSWER_H
#define LAUNCHER_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

enum { ANSWER_BYTES = 16384 };

/** A login may print any amount before the answer. Only its end is kept, until the mark has come;
 * from then on, the text that begins with the mark. */
struct answer {
    const char *mark; /* borrowed; "" is not a mark */
    size_t len;       /* bytes of `text` in front of its NUL */
    bool begun;       /* `text` begins with the mark */
    char text[ANSWER_BYTES];
};

/** Forget everything, and wait for this mark. */
void answer_init(struct answer *answer, const char *mark);

/** Take the next `len` bytes. NULs become question marks. What does not fit behind the mark is
 * dropped. */
void answer_add(struct answer *answer, const char *bytes, size_t len);

/** The last line that is not empty, or "". Cuts line ends off the text; borrowed from it. */
const char *answer_last_line(char *text);

/** Replace each occurrence of `secret` in a text by as many asterisks. An empty secret has none. */
void answer_hide(char *text, const char *secret);

#endif
