/* SPDX-License-Identifier: MIT */
/* texts.h - lists of texts that a person has given. */
#ifndef LAUNCHER_TEXTS_H
#define LAUNCHER_TEXTS_H

#include <stddef.h>

/** Zero-initialised: none. */
struct texts {
    char **items; /* owned, ended by NULL once there is one */
    size_t count, cap;
};

/** Append `len` bytes of a text (copied): 0 or -ENOMEM. */
int texts_add(struct texts *texts, const char *text, size_t len);
void texts_fini(struct texts *texts);

#endif
