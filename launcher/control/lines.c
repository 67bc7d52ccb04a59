/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/control/lines.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"

enum {
    READ_BYTES = 64 * 1024,
    FOLLOW_READS = 4, /* number of reads from a pipe before other pipes get their turn */
    CHAIN_MS = 1000,  /* longest time between two tracebacks of one chain of exceptions */
};

void lines_fini(struct lines *lines)
{
    free(lines->bytes);
    *lines = (struct lines){0};
}

bool lines_has_room(const struct lines *lines)
{
    return lines_pending(lines) < LINES_LONGEST;
}

char *lines_reserve(struct lines *lines, size_t *ret_size)
{
    assert(lines->at <= lines->len && lines->len <= lines->cap);
    /* Move to the front only if that is cheap or necessary: less than one line is moved. */
    if (lines->at > 0 && (lines->at == lines->len || lines->cap - lines->len < READ_BYTES)) {
        memmove(lines->bytes, lines->bytes + lines->at, lines->len - lines->at);
        lines->len -= lines->at;
        lines->last_newline = lines->last_newline > lines->at ? lines->last_newline - lines->at : 0;
        lines->at = 0;
    }
    if (array_reserve(&lines->bytes, &lines->cap, lines->len + READ_BYTES, 1) < 0)
        return NULL;
    assert(lines->cap - lines->len >= READ_BYTES);
    *ret_size = lines->cap - lines->len;
    return lines->bytes + lines->len;
}

void lines_added(struct lines *lines, size_t len)
{
    const char *newline = memrchr(lines->bytes + lines->len, '\n', len);

    assert(len <= lines->cap - lines->len);
    if (newline)
        lines->last_newline = (size_t)(newline - lines->bytes) + 1;
    lines->len += len;
}

size_t lines_peek(struct lines *lines, size_t most, bool flush, const char **ret)
{
    const char *start = lines->bytes + lines->at, *newline;
    size_t whole = lines->last_newline > lines->at ? lines->last_newline - lines->at : 0;
    size_t waiting = lines_pending(lines);

    assert(lines->last_newline <= lines->len);
    assert(most > 0);
    *ret = start;
    if (whole > 0 && whole <= most)
        return whole;
    if (whole > most) {
        newline = memrchr(start, '\n', most);
        if (!newline)
            newline = memchr(start + most, '\n', whole - most);
        assert(newline); /* the last byte of `whole` is a newline */
        return (size_t)(newline - start) + 1;
    }
    if (flush || waiting >= LINES_LONGEST)
        return waiting < most ? waiting : most;
    return 0;
}

size_t lines_peek_progress(const struct lines *lines, const char **ret)
{
    size_t from = lines->last_newline > lines->at ? lines->last_newline : lines->at;
    const char *start = lines->bytes + from, *end = lines->bytes + lines->len, *last;

    if (from == lines->len)
        return 0;
    last = memrchr(start, '\r', (size_t)(end - start));
    if (!last)
        return 0;
    if (last + 1 == end) {
        end = last;
        last = memrchr(start, '\r', (size_t)(end - start));
    }
    assert(start <= end);
    *ret = last ? last + 1 : start;
    return (size_t)(end - *ret);
}

void lines_drop(struct lines *lines, size_t len)
{
    assert(len <= lines_pending(lines));
    lines->at += len;
}

void lines_hand_on(struct lines *lines, bool flush, lines_call *call, void *arg)
{
    const char *text;
    size_t len;

    while ((len = lines_peek(lines, 4096, flush, &text)) > 0) {
        for (const char *p = text, *end = text + len; p < end;) {
            const char *newline = memchr(p, '\n', (size_t)(end - p));
            size_t n = newline ? (size_t)(newline - p) : (size_t)(end - p);

            call(arg, p, n > 0 && p[n - 1] == '\r' ? n - 1 : n);
            p += n + 1;
        }
        lines_drop(lines, len);
    }
}

void lines_follow(struct lines *lines, int *fd, lines_call *call, void *arg)
{
    for (int i = 0; i < FOLLOW_READS && *fd >= 0; i++) {
        size_t size;
        char *place = lines_reserve(lines, &size);
        ssize_t n = place ? read(*fd, place, size) : -1;

        if (!place || (n < 0 && errno == EAGAIN))
            return;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            io_close(fd);
        else
            lines_added(lines, (size_t)n);
        lines_hand_on(lines, *fd < 0, call, arg);
    }
}

bool line_limit_pass(struct line_limit *limit, uint64_t now_ns)
{
    if (now_ns >= limit->begun_ns + NS_PER_SEC) {
        limit->begun_ns = now_ns;
        limit->passed = 0;
    }
    if (limit->passed++ < LINES_A_SECOND)
        return true;
    limit->left_out++;
    return false;
}

uint64_t line_limit_settle(struct line_limit *limit, uint64_t now_ns)
{
    uint64_t left_out = now_ns >= limit->begun_ns + NS_PER_SEC ? limit->left_out : 0;

    limit->left_out -= left_out;
    return left_out;
}

/* The line that begins a traceback. Only its first byte is a 'T', so after a mismatch a new match
 * can begin only at a 'T'. */
static const char traceback_line[] = "Traceback (most recent call last):";

void traceback_look(struct traceback *t, const char *bytes, size_t len, uint64_t now_ns)
{
    for (size_t i = 0; i < len; i++) {
        t->matched = bytes[i] == traceback_line[t->matched] ? t->matched + 1 : bytes[i] == 'T';
        assert(t->matched < sizeof(traceback_line));
        if (t->matched < sizeof(traceback_line) - 1)
            continue;
        t->matched = 0;
        if (!t->began_ns || now_ns - t->last_ns > CHAIN_MS * NS_PER_MS)
            t->began_ns = now_ns;
        t->last_ns = now_ns;
    }
}

void tail_add(struct tail *tail, const char *bytes, size_t len)
{
    const size_t size = sizeof(tail->bytes);

    if (len > size) {
        tail->total += len - size;
        bytes += len - size;
        len = size;
    }
    while (len > 0) {
        size_t at = tail->total % size, n = len < size - at ? len : size - at;

        memcpy(tail->bytes + at, bytes, n);
        tail->total += n;
        bytes += n;
        len -= n;
    }
}

size_t tail_get(const struct tail *tail, size_t most, char *ret)
{
    const size_t size = sizeof(tail->bytes);
    size_t len = tail->total < size ? tail->total : size, start = 0, lines = 0;

    for (size_t i = 0; i < len; i++)
        ret[i] = tail->bytes[(tail->total - len + i) % size];
    /* Search backwards for newlines, not counting one at the very end. */
    for (size_t i = len; i-- > 0;) {
        if (ret[i] == '\n' && i + 1 < len && ++lines == most) {
            start = i + 1;
            break;
        }
    }
    if (start == 0 && tail->total > size) { /* the first line is cut: omit it if possible */
        const char *newline = memchr(ret, '\n', len);

        if (newline && newline + 1 < ret + len)
            start = (size_t)(newline - ret) + 1;
    }
    memmove(ret, ret + start, len - start);
    ret[len - start] = '\0';
    return len - start;
}
