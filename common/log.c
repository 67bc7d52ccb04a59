#include "config.h"

#include "common/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/util.h"

enum { LIMIT_S = 10 };

static const char *log_program = "plenum";
static enum log_level log_level = LOG_LEVEL_INFO;
static bool log_journal;
static enum log_format log_format;
/* No lock, which a process that forks could inherit: a line more or less does no harm. */
static unsigned log_limit;
static _Atomic uint64_t log_window_ns;
static atomic_uint log_written, log_left_out;
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

void log_set_format(enum log_format format)
{
    log_format = format;
}

void log_set_limit(unsigned lines)
{
    log_limit = lines;
}

enum log_level log_get_level(void)
{
    return log_level;
}

void log_set_sink(void (*sink)(const char *line, size_t len))
{
    log_sink = sink;
}

static void write_line(const char *line, size_t n)
{
    if (log_sink)
        log_sink(line, n);
    else
        (void)io_write_all(STDERR_FILENO, line, n);
}

static void write_text(enum log_level level, const char *message)
{
    char line[2100];
    int n;

    if (log_journal)
        n = snprintf(line, sizeof(line), "<%d>%s%s\n", levels[level].priority, levels[level].word,
                     message);
    else
        n = snprintf(line, sizeof(line), "%s: %s%s\n", log_program, levels[level].word, message);
    if (n > 0)
        write_line(line, (size_t)n < sizeof(line) ? (size_t)n : sizeof(line) - 1);
}

static void write_json(enum log_level level, const char *message)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    struct json j = {0};
    struct timespec now;
    struct tm tm;
    char *line = NULL, time[32], stamp[48];
    size_t n = 0;

    j.file = open_memstream(&line, &n);
    if (!j.file)
        return;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    (void)gmtime_r(&now.tv_sec, &tm);
    (void)strftime(time, sizeof(time), "%Y-%m-%dT%H:%M:%S", &tm);
    (void)snprintf(stamp, sizeof(stamp), "%s.%03ldZ", time, now.tv_nsec / 1000000);
    json_begin_object(&j, NULL, true);
    json_text(&j, "time", stamp);
    json_text(&j, "level", names[level]);
    json_text(&j, "program", log_program);
    json_text(&j, "message", message);
    json_end_object(&j);
    if (fclose(j.file) == 0)
        write_line(line, n);
    free(line);
}

static void write_message(enum log_level level, const char *message)
{
    if (log_format == LOG_JSON)
        write_json(level, message);
    else
        write_text(level, message);
}

/* May one more line be written? The first one of a new window tells what the last one left out. */
static bool within_limit(enum log_level level)
{
    uint64_t now, begin;
    unsigned left_out;
    char text[80];

    if (log_limit == 0)
        return true;
    now = time_now_ns();
    begin = atomic_load(&log_window_ns);
    if (now >= begin + LIMIT_S * NS_PER_SEC &&
        atomic_compare_exchange_strong(&log_window_ns, &begin, now)) {
        atomic_store(&log_written, 0);
        left_out = atomic_exchange(&log_left_out, 0);
        if (left_out > 0) {
            (void)snprintf(text, sizeof(text), "%u messages were left out: there were too many",
                           left_out);
            write_message(LOG_LEVEL_WARN, text);
        }
    }
    if (level == LOG_LEVEL_ERROR || atomic_fetch_add(&log_written, 1) < log_limit)
        return true;
    (void)atomic_fetch_add(&log_left_out, 1);
    return false;
}

__attribute__((format(printf, 2, 0))) static void log_line(enum log_level level, const char *format,
                                                           va_list args)
{
    char message[2000];
    int saved = errno;

    if (level > log_level || !within_limit(level))
        return;
    (void)vsnprintf(message, sizeof(message), format, args);
    for (char *c = message; *c; c++) /* one message is one line, whatever a file is called */
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    write_message(level, message);
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
