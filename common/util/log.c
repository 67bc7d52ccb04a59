/* SPDX-License-Identifier: MIT */
/* log.c - messages as lines of text or JSON on standard error, or as entries of the journal.
 *
 * The journal accepts a datagram with a line "NAME=value" for each field, a format that systemd
 * documents and keeps stable ("Native Journal Protocol"). Its library would pull six others into
 * every loader of every job. Values with newlines would need a different form; ours have none. */
#include "config.h"

#include "common/util/log.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util/json.h"
#include "common/util/text.h"
#include "common/util/util.h"

enum { LIMIT_S = 10, MESSAGE_MAX = 2000, VALUE_MAX = 400, FIELDS_MAX = 4 };

static const char *log_program = "plenum";
static enum log_level log_level = LOG_LEVEL_INFO;
static bool log_journal;        /* standard error is the journal */
static int log_journal_fd = -1; /* for sending entries */
static atomic_bool log_entries; /* send entries */
static enum log_format log_format;
/* Not locked, because a forked child could inherit a held lock. An extra line, or a missing one,
 * does no harm. */
static unsigned log_limit;
static _Atomic uint64_t log_window_ns;
static atomic_uint log_written, log_left_out;
static void (*log_sink)(const char *line, size_t len);

static const struct {
    const char *word;
    int priority; /* sd-daemon(3) */
} levels[] = {
    [LOG_LEVEL_ERROR] = {"error: ", 3}, [LOG_LEVEL_WARN] = {"warning: ", 4},
    [LOG_LEVEL_NOTICE] = {"", 5},       [LOG_LEVEL_INFO] = {"", 6},
    [LOG_LEVEL_DEBUG] = {"debug: ", 7},
};

/* Returns whether standard error is the journal, according to the "device:inode" in
 * JOURNAL_STREAM. */
static bool is_journal(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    char own[64];
    struct stat st;

    if (!stream || fstat(fd, &st) < 0)
        return false;
    (void)snprintf(own, sizeof(own), "%llu:%llu", (unsigned long long)st.st_dev,
                   (unsigned long long)st.st_ino);
    return strcmp(stream, own) == 0;
}

void log_init(const char *program, enum log_level level)
{
    log_program = program;
    log_level = level;
    log_journal = is_journal(STDERR_FILENO);
}

void log_set_entries(bool entries)
{
    if (entries && log_journal && log_journal_fd < 0)
        log_journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    atomic_store(&log_entries, entries && log_journal_fd >= 0);
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

static int send_to_journal(enum log_level level, const struct log_field *fields,
                           const char *message)
{
    static const struct sockaddr_un journal = {.sun_family = AF_UNIX,
                                               .sun_path = "/run/systemd/journal/socket"};
    char text[MESSAGE_MAX + FIELDS_MAX * (VALUE_MAX + 80) + 200], value[VALUE_MAX];
    size_t n = 0;
    ssize_t sent;

    n += (size_t)snprintf(text, sizeof(text), "MESSAGE=%s\nPRIORITY=%d\nSYSLOG_IDENTIFIER=%s\n",
                          message, levels[level].priority, log_program);
    for (unsigned i = 0; fields && fields[i].name && i < FIELDS_MAX; i++) {
        (void)snprintf(value, sizeof(value), "%s", fields[i].value);
        (void)text_make_plain(value);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "PLENUM_");
        for (const char *c = fields[i].name; *c; c++)
            text[n++] = (char)toupper((unsigned char)*c);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "=%s\n", value);
    }
    sent = sendto(log_journal_fd, text, n, MSG_NOSIGNAL, (const struct sockaddr *)&journal,
                  sizeof(journal));
    return sent == (ssize_t)n ? 0 : -1;
}

static void write_json(enum log_level level, const struct log_field *fields, const char *message)
{
    static const char *const names[] = {"error", "warning", "notice", "info", "debug"};
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
    json_begin_object(&j, NULL, JSON_FLAT);
    json_text(&j, "time", stamp);
    json_text(&j, "level", names[level]);
    json_text(&j, "program", log_program);
    json_text(&j, "message", message);
    for (unsigned i = 0; fields && fields[i].name && i < FIELDS_MAX; i++)
        json_text(&j, fields[i].name, fields[i].value);
    json_end_object(&j);
    if (fclose(j.file) == 0)
        write_line(line, n);
    free(line);
}

static void write_message(enum log_level level, const struct log_field *fields, const char *message)
{
    if (log_format == LOG_JSON)
        write_json(level, fields, message);
    else if (!atomic_load(&log_entries) || log_sink || send_to_journal(level, fields, message) < 0)
        write_text(level, message);
}

/* Count one more line. Returns whether it may be written, which errors always may. The first line
 * of a new window first reports how many were left out. */
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
            write_message(LOG_LEVEL_WARN, NULL, text);
        }
    }
    if (level == LOG_LEVEL_ERROR || atomic_fetch_add(&log_written, 1) < log_limit)
        return true;
    (void)atomic_fetch_add(&log_left_out, 1);
    return false;
}

__attribute__((format(printf, 3, 0))) static void log_line(enum log_level level,
                                                           const struct log_field *fields,
                                                           const char *format, va_list args)
{
    char message[MESSAGE_MAX];
    int saved = errno;

    if (level > log_level || !within_limit(level))
        return;
    (void)vsnprintf(message, sizeof(message), format, args);
    (void)text_make_plain(message);
    write_message(level, fields, message);
    errno = saved;
}

void log_about(enum log_level level, const struct log_field *fields, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    log_line(level, fields, format, args);
    va_end(args);
}

#define DEFINE_LOG(name, level)              \
    void name(const char *format, ...)       \
    {                                        \
        va_list args;                        \
        va_start(args, format);              \
        log_line(level, NULL, format, args); \
        va_end(args);                        \
    }

DEFINE_LOG(log_error, LOG_LEVEL_ERROR)
DEFINE_LOG(log_warn, LOG_LEVEL_WARN)
DEFINE_LOG(log_info, LOG_LEVEL_INFO)
DEFINE_LOG(log_debug, LOG_LEVEL_DEBUG)
