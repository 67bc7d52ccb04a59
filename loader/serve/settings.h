/* SPDX-License-Identifier: MIT */
/* settings.h - reads plenumd.conf: options of the command line, one "key = value" per line. One
 * table of options defines both. */
#ifndef LOADER_SERVE_SETTINGS_H
#define LOADER_SERVE_SETTINGS_H

#include <stdio.h>

#include <plenum/error.h>

#include "common/options/options.h"

/** The strings of a file, to which fields of the target point. {0}: none. */
struct settings_texts {
    struct settings_text *first;
};

void settings_texts_fini(struct settings_texts *texts);

struct settings_rules {
    const struct options_program *program;
    const char *const *command_line_only; /* names that a file may not use; ends with NULL */
    /** Check what the table's rules cannot express. Returns 0, or -errno with a message. */
    int (*check)(const char *name, const char *value, struct plenum_error *err);
};

/**
 * Read a file into `target`.
 *
 * `fault` is called for each fault with a message ("FILE:LINE: what is wrong; what to do"). If
 * there was any, -EINVAL is returned and the target must not be used. In either case, `texts` owns
 * the strings.
 */
int settings_read(const char *path, const struct settings_rules *rules, void *target,
                  struct settings_texts *texts, void (*fault)(const char *sentence));

/** Like settings_read(), but reads an open file. NULL: it could not be opened, and errno has the
 * reason. */
int settings_read_stream(FILE *file, const char *path, const struct settings_rules *rules,
                         void *target, struct settings_texts *texts,
                         void (*fault)(const char *sentence));

#endif
