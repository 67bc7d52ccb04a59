/* SPDX-License-Identifier: MIT */
/* screen.h - shows a table on the terminal, and refreshes it until q is pressed. */
#ifndef LOADER_CTL_SCREEN_H
#define LOADER_CTL_SCREEN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <plenum/error.h>

/** Write one frame of at most `rows` lines, each with "\033[K" before its newline. Returns 0, or
 * -errno with a message, which ends the display. */
typedef int screen_draw(void *arg, FILE *file, unsigned rows, struct plenum_error *err);

/** Run until q, SIGINT (control-C), SIGTERM, SIGHUP, the end of the terminal, or an error of
 * `draw`. Handlers of these signals stay installed. Returns 0, also after a signal, or the error of
 * `draw`. */
int screen_run(screen_draw *draw, void *arg, uint64_t interval_ns, struct plenum_error *err);

/** Returns whether a signal has ended the display. Then `draw` must return. */
bool screen_is_interrupted(void);

#endif
