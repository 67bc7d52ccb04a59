/* SPDX-License-Identifier: MIT */
/* inner_output.c - the program's pipes: its output on its way to plenumrun, and its input.
 *
 * Output is sent as complete lines, as fast as plenumrun grants credit; while there is none, the
 * pipes are not read, and the program waits. */
#include "config.h"

#include "launcher/shim/inner_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util.h"

enum {
    TAIL_LINES = 20,
    PROGRESS_MS = 100, /* between two PROGRESS messages of a stream */
    READS = 16,        /* of one pipe, before the others have their turn */
};

int *inner_pipe(struct inner *a, int stream)
{
    return stream == CONTROL_LOADER ? &a->loader_fd : &a->child.output[stream];
}

void inner_read_pipe(struct inner *a, int stream)
{
    struct lines *lines = &a->lines[stream];
    int *fd = inner_pipe(a, stream);

    for (int round = 0; round < READS && *fd >= 0 && lines_has_room(lines); round++) {
        size_t size;
        char *place = lines_reserve(lines, &size);
        ssize_t n = place ? read(*fd, place, size) : -1;

        if (!place)
            return; /* out of memory: the program waits, as it would for a slow reader */
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && (!a->swept || stream == CONTROL_LOADER))
            return;
        if (n < 0 && errno != EAGAIN && stream != CONTROL_LOADER)
            (void)control_put_number(&a->conn.tx, CONTROL_UNREAD, (uint64_t)errno);
        if (n <= 0) {
            io_close(fd);
            return;
        }
        if (stream == CONTROL_STDERR) {
            tail_add(&a->tail, place, (size_t)n);
            traceback_look(&a->traceback, place, (size_t)n, time_now_ns());
        }
        lines_added(lines, (size_t)n);
        if (a->plan.live & 1 << stream)
            a->progress[stream] = true;
        if ((a->plan.quiet && stream != CONTROL_LOADER) || !a->connected)
            lines_drop(lines, lines_pending(lines));
    }
}

void inner_handle_input(struct inner *a, struct frame_reader *payload)
{
    const char *bytes;
    size_t len;
    char *more;

    control_get_bytes(payload, &bytes, &len);
    if (len == 0) {
        a->input_ended = true;
        return;
    }
    if (a->child.input < 0) {
        (void)control_put_number(&a->conn.tx, CONTROL_TAKEN, UINT64_MAX);
        return;
    }
    more = realloc(a->input, a->input_len + len);
    if (!more) {
        a->input_ended = true; /* end the input early rather than with a gap in it */
        return;
    }
    memcpy(more + a->input_len, bytes, len);
    a->input = more;
    a->input_len += len;
}

void inner_send_lines(struct inner *a, int stream)
{
    struct lines *lines = &a->lines[stream];
    bool flush = *inner_pipe(a, stream) < 0 || (a->plan.at_once && stream != CONTROL_LOADER);
    const char *bytes;
    size_t len;

    while (a->connected && (len = lines_peek(lines, INNER_FRAME_BYTES, flush, &bytes)) > 0) {
        if (a->in_flight > 0 && a->in_flight + len > a->plan.window)
            return;
        if (control_put_output(&a->conn.tx, (enum control_stream)stream, bytes, len) < 0)
            return;
        a->in_flight += len;
        lines_drop(lines, len);
    }
}

/* A progress bar that is redrawn again and again has no newline for minutes. Report its current
 * state to plenumrun, apart from its bytes, which are sent when the line is complete. */
void inner_send_progress(struct inner *a, int stream, uint64_t now)
{
    const char *bytes;
    size_t len;

    if (!a->progress[stream] || now < a->progress_at[stream] || !a->connected)
        return;
    a->progress[stream] = false;
    len = lines_peek_progress(&a->lines[stream], &bytes);
    if (len == 0)
        return;
    a->progress_at[stream] = now + PROGRESS_MS * NS_PER_MS;
    (void)control_put_progress(&a->conn.tx, (enum control_stream)stream, bytes, len);
}

void inner_write_input(struct inner *a)
{
    size_t done = 0;

    while (a->child.input >= 0 && done < a->input_len) {
        ssize_t n = write(a->child.input, a->input + done, a->input_len - done);

        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            io_close(&a->child.input);
            (void)control_put_number(&a->conn.tx, CONTROL_TAKEN, UINT64_MAX);
        }
    }
    if (done > 0) {
        (void)control_put_number(&a->conn.tx, CONTROL_TAKEN, done);
        a->input_len -= done;
        memmove(a->input, a->input + done, a->input_len);
    }
    if (a->input_len == 0 && a->input_ended)
        io_close(&a->child.input);
}

void inner_finish_output(struct inner *a)
{
    char last[sizeof(a->tail.bytes) + 1];
    size_t len;

    if (a->drained || !a->exited || !a->swept || a->child.output[0] >= 0 ||
        a->child.output[1] >= 0 || lines_pending(&a->lines[CONTROL_STDOUT]) > 0 ||
        lines_pending(&a->lines[CONTROL_STDERR]) > 0)
        return;
    a->drained = true;
    if (a->failed)
        return;
    len = tail_get(&a->tail, TAIL_LINES, last);
    (void)control_put_bytes(&a->conn.tx, CONTROL_DRAINED, last, len);
}
