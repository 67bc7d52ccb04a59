/* SPDX-License-Identifier: MIT */
/* texts.h - lists of strings given by the user. */
#ifndef LAUNCHER_TEXTS_H
#define LAUNCHER_TEXTS_H

#include <stddef.h>

/** Empty if zero-initialised. */
struct texts {
    char **items; /* owned; terminated by NULL; NULL: empty */
    size_t count, cap;
};

/** Append `len` bytes of a string (copied). Returns 0 or -ENOMEM. */
int texts_add(struct texts *texts, const char *text, size_t len);
void texts_fini(struct texts *texts);

#endif
