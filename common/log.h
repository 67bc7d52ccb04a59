/* log.h - what programs (never libraries) tell the people who run them, on standard error. */
#ifndef COMMON_LOG_H
#define COMMON_LOG_H

#include <stddef.h>

/** error: a request failed; warn: we go on, and how; info: a state an operator wants once; debug:
 * the rest. */
enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/**
 * Set the program's name before each line, and the least urgent level that is shown.
 *
 * Lines are "name: warning: text". Under systemd (JOURNAL_STREAM set) they begin with the priority
 * that the journal reads ("<4>") and carry no time, since the journal has its own.
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

/** At most so many lines in ten seconds; then one tells how many were left out. 0 (at the start):
 * all. Errors are always written. */
void log_set_limit(unsigned lines);
enum log_level log_get_level(void);

/** Hand each whole line, newline included, to `sink` instead of writing it to standard error: for a
 * program whose standard error has another writer. NULL: standard error again. */
void log_set_sink(void (*sink)(const char *line, size_t len));

void log_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
