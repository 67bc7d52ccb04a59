/* SPDX-License-Identifier: MIT */
/* tag.h - formats the text that --tag-output puts before each line, from a template. */
#ifndef LAUNCHER_TAG_H
#define LAUNCHER_TAG_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include <plenum/error.h>

enum { TAG_MAX = 512 }; /* size of a tag */

/** The values of a template's fields. */
struct tag_fields {
    uint32_t instance;   /* %i */
    const char *host;    /* %h */
    pid_t pid;           /* %p */
    const char *stream;  /* %s */
    struct timespec now; /* %t, real-time clock */
};

/** Check that tag_format() can use the template. Returns 0, or -EINVAL with a message. */
int tag_check(const char *tag, struct plenum_error *err);

/** Format a line's tag, without a NUL; returns its length, less than TAG_MAX. If the template does
 * not end with a space or tab, a space is added. */
size_t tag_format(const char *tag, const struct tag_fields *fields, char ret[TAG_MAX]);

#endif
