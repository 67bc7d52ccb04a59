/* SPDX-License-Identifier: MIT */
/* log.h - what programs (never libraries) tell the users who run them, on standard error. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/message.h"

/** error: a request failed; warn: we go on, and how; notice: why somebody must wait; info: a state
 * an operator wants once; debug: the rest. */
enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_NOTICE,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG
};

/**
 * Set the program's name before each line, and the least urgent level that is shown.
 *
 * Lines are "name: warning: text". Where standard error is systemd's journal (JOURNAL_STREAM names
 * it) they begin with the priority that it reads ("<4>").
 *
 * Threads: call once, before other threads start. The log_*() calls are safe from any thread: each
 * writes one whole line with one write(2).
 */
void log_init(const char *program, enum log_level level);
void log_set_level(enum log_level level);

/** LOG_TEXT as above, or LOG_JSON: one object a line with time (UTC), level, program and message.
 */
enum log_format { LOG_TEXT, LOG_JSON };
void log_set_format(enum log_format format);

/** Where standard error is the journal, and the format is LOG_TEXT: send messages to it as entries
 * with fields, and as lines only where that fails. For a program that stays: whose an entry is the
 * journal finds out after it has come, and of a process that has ended meanwhile it does not. */
void log_set_entries(bool entries);

/** At most so many lines in ten seconds; then one tells how many were left out. 0 (at the start):
 * all. Errors are always written. */
void log_set_limit(unsigned lines);
enum log_level log_get_level(void);

/** Hand each whole line, newline included, to `sink` instead of writing it to standard error: for a
 * program whose standard error has another writer. NULL: standard error again. */
void log_set_sink(void (*sink)(const char *line, size_t len));

MESSAGE_FORMAT(1, 2)
void log_error(const char *format, ...);
MESSAGE_FORMAT(1, 2)
void log_warn(const char *format, ...);
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** What a message is about, for those who look for messages by it. Names are lower case: "client"
 * is PLENUM_CLIENT in the journal, and "client" in JSON; a text shows the message alone. */
struct log_field {
    const char *name;
    const char *value;
};

/** As the others, with fields; one without a name ends them. Of values that are very long the rest
 * is left out. */
void log_about(enum log_level level, const struct log_field *fields, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
