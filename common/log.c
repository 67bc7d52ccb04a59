#include "config.h"

#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

static const char *log_program = "plenum";
static enum log_level log_level = LOG_LEVEL_INFO;
static bool log_journal;
static void (*log_sink)(const char *line, size_t len);

static const struct {
    const char *word;
    int priority; /* sd-daemon(3) */
} levels[] = {
    [LOG_LEVEL_ERROR] = {"error: ", 3},
    [LOG_LEVEL_WARN] = {"warning: ", 4},
    [LOG_LEVEL_INFO] = {"", 6},
    [LOG_LEVEL_DEBUG] = {"debug: ", 7},
};

void log_init(const char *program, enum log_level level)
{
    log_program = program;
    log_level = level;
    log_journal = getenv("JOURNAL_STREAM") != NULL && !isatty(STDERR_FILENO);
}

void log_set_level(enum log_level level)
{
    log_level = level;
}

enum log_level log_get_level(void)
{
    return log_level;
}

void log_set_sink(void (*sink)(const char *line, size_t len))
{
    log_sink = sink;
}

__attribute__((format(printf, 2, 0))) static void log_line(enum log_level level, const char *format,
                                                           va_list args)
{
    char line[2048];
    int saved = errno;
    size_t n;

    if (level > log_level)
        return;
    if (log_journal)
        n = (size_t)snprintf(line, sizeof(line), "<%d>%s", levels[level].priority,
                             levels[level].word);
    else
        n = (size_t)snprintf(line, sizeof(line), "%s: %s", log_program, levels[level].word);
    (void)vsnprintf(line + n, sizeof(line) - n - 1, format, args);
    n = strlen(line);
    for (size_t i = 0; i < n; i++) /* one message is one line, whatever a file is called */
        if ((unsigned char)line[i] < 0x20 || line[i] == 0x7f)
            line[i] = '?';
    line[n++] = '\n';
    if (log_sink)
        log_sink(line, n);
    else
        (void)io_write_all(STDERR_FILENO, line, n);
    errno = saved;
}

#define DEFINE_LOG(name, level)        \
    void name(const char *format, ...) \
    {                                  \
        va_list args;                  \
        va_start(args, format);        \
        log_line(level, format, args); \
        va_end(args);                  \
    }

DEFINE_LOG(log_error, LOG_LEVEL_ERROR)
DEFINE_LOG(log_warn, LOG_LEVEL_WARN)
DEFINE_LOG(log_info, LOG_LEVEL_INFO)
DEFINE_LOG(log_debug, LOG_LEVEL_DEBUG)
