/* SPDX-License-Identifier: MIT */
/* log.h - messages of programs (never of libraries) to their users, on standard error. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include "common/util/message.h"

/** error: a request failed; warn: we continue, and the message says how; notice: what users want to
 * know at once, such as why they have to wait; info: a state that an operator wants to know once;
 * debug: everything else. */
enum log_level {
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_NOTICE,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG
};

/**
 * Set the program's name, which precedes each line, and the least urgent level that is shown.
 *
 * Lines have the form "name: warning: text". If standard error is systemd's journal (JOURNAL_STREAM
 * names it), they begin with the priority that the journal parses ("<4>").
 *
 * Threads: call once, before other threads start. The log_*() calls are safe from any thread: each
 * writes one whole line with one write(2).
 */
void log_init(const char *program, enum log_level level);
void log_set_level(enum log_level level);

/** LOG_TEXT as above, or LOG_JSON: one object per line with time (UTC), level, program and
 *  message. */
enum log_format { LOG_TEXT, LOG_JSON };
void log_set_format(enum log_format format);

/** If standard error is the journal and the format is LOG_TEXT, send messages as entries with
 *  fields, and as lines only if that fails. For long-running programs: the journal looks up an
 *  entry's process after it has arrived, and cannot if that process has ended. */
void log_set_entries(bool entries);

/** Write at most this many lines in ten seconds, then one that counts the dropped ones. 0, the
 *  default: no limit. Errors are always written. */
void log_set_limit(unsigned lines);
enum log_level log_get_level(void);

/** Pass each whole line, including its newline, to `sink` instead of standard error, for a program
 *  whose standard error has another writer. NULL: standard error again. */
void log_set_sink(void (*sink)(const char *line, size_t len));

MESSAGE_FORMAT(1, 2)
void log_error(const char *format, ...);
MESSAGE_FORMAT(1, 2)
void log_warn(const char *format, ...);
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/** Metadata by which messages can be searched. Names are lower case: "client" is PLENUM_CLIENT in
 *  the journal and "client" in JSON. The text format shows only the message. */
struct log_field {
    const char *name;
    const char *value;
};

/** Log with fields. The last entry has no name. Very long values are truncated. */
void log_about(enum log_level level, const struct log_field *fields, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
