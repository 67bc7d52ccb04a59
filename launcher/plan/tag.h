/* SPDX-License-Identifier: MIT */
/* tag.h - what --tag-output puts before each line: a template, and what it becomes. */
#ifndef LAUNCHER_TAG_H
#define LAUNCHER_TAG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <plenum/error.h>

enum { TAG_MAX = 512 }; /* bytes of a tag */

/** What the fields of a template stand for. */
struct tag_fields {
    uint32_t instance;   /* %i */
    const char *host;    /* %h */
    pid_t pid;           /* %p */
    const char *stream;  /* %s */
    struct timespec now; /* %t, of the real-time clock */
};

/** Is the template one that tag_format() can use? -EINVAL with a sentence. */
int tag_check(const char *tag, struct plenum_error *err);

/** The tag of a line, not ended by NUL: its length, less than TAG_MAX. A blank follows where the
 * template ends without one. */
size_t tag_format(const char *tag, const struct tag_fields *fields, char ret[TAG_MAX]);

#endif
