/* SPDX-License-Identifier: MIT */
/* inner_output.c - the program's pipes: its output on its way to plenumrun, and its input.
 *
 * Output is sent as complete lines, as fast as plenumrun grants credit; while there is none, the
 * pipes are not read, and the program waits. */
#include "config.h"

#include "launcher/shim/inner_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"

enum {
    TAIL_LINES = 20,
    PROGRESS_MS = 100, /* least time between two PROGRESS messages of a stream */
    READS = 16,        /* number of reads from one pipe before the others get their turn */
};

int *inner_pipe(struct inner *in, int stream)
{
    assert(stream >= 0 && stream < CONTROL_STREAMS);
    return stream == CONTROL_LOADER ? &in->loader_fd : &in->child.output[stream];
}

void inner_read_pipe(struct inner *in, int stream)
{
    struct lines *lines = &in->lines[stream];
    int *fd = inner_pipe(in, stream);

    for (int round = 0; round < READS && *fd >= 0 && lines_has_room(lines); round++) {
        size_t size;
        char *place = lines_reserve(lines, &size);
        ssize_t n = place ? read(*fd, place, size) : -1;

        if (!place)
            return; /* out of memory: the program waits, as it would for a slow reader */
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN && (!inner_is_swept(in) || stream == CONTROL_LOADER))
            return;
        if (n < 0 && errno != EAGAIN && stream != CONTROL_LOADER)
            (void)control_put_number(&in->conn.tx, CONTROL_UNREAD, (uint64_t)errno);
        if (n <= 0) {
            io_close(fd);
            return;
        }
        if (stream == CONTROL_STDERR) {
            tail_add(&in->tail, place, (size_t)n);
            traceback_look(&in->traceback, place, (size_t)n, time_now_ns());
        }
        lines_added(lines, (size_t)n);
        if (in->plan.live & 1 << stream)
            in->progress[stream] = true;
        if ((in->plan.quiet && stream != CONTROL_LOADER) || !inner_is_connected(in))
            lines_drop(lines, lines_pending(lines));
    }
}

void inner_handle_input(struct inner *in, struct frame_reader *payload)
{
    const char *bytes;
    size_t len;

    control_get_bytes(payload, &bytes, &len);
    if (len == 0) {
        in->input_ended = true;
        return;
    }
    if (in->child.input < 0) {
        (void)control_put_number(&in->conn.tx, CONTROL_TAKEN, UINT64_MAX);
        return;
    }
    if (array_reserve(&in->input, &in->input_cap, in->input_len + len, 1) < 0) {
        in->input_ended = true; /* end the input early, rather than leave a gap in it */
        return;
    }
    assert(in->input_cap - in->input_len >= len);
    memcpy(in->input + in->input_len, bytes, len);
    in->input_len += len;
}

void inner_send_lines(struct inner *in, int stream)
{
    struct lines *lines = &in->lines[stream];
    bool flush = *inner_pipe(in, stream) < 0 || (in->plan.at_once && stream != CONTROL_LOADER);
    size_t most = min_u64(max_u64(in->plan.window, 1), INNER_FRAME_BYTES), len;
    const char *bytes;

    while (inner_is_connected(in) && (len = lines_peek(lines, most, flush, &bytes)) > 0) {
        if (in->in_flight > 0 && in->in_flight + len > in->plan.window)
            return;
        if (control_put_output(&in->conn.tx, (enum control_stream)stream, bytes, len) < 0)
            return;
        assert(len > 0 && len <= lines_pending(lines));
        in->in_flight += len;
        lines_drop(lines, len);
    }
}

/* Report the current state of a progress bar, which is redrawn again and again and may have no
 * newline for minutes. Its bytes are sent separately, when the line is complete. */
void inner_send_progress(struct inner *in, int stream, uint64_t now)
{
    const char *bytes;
    size_t len;

    if (!in->progress[stream] || now < in->progress_at[stream] || !inner_is_connected(in))
        return;
    in->progress[stream] = false;
    len = lines_peek_progress(&in->lines[stream], &bytes);
    if (len == 0)
        return;
    in->progress_at[stream] = now + PROGRESS_MS * NS_PER_MS;
    (void)control_put_progress(&in->conn.tx, (enum control_stream)stream, bytes, len);
}

void inner_write_input(struct inner *in)
{
    size_t done = 0;

    while (in->child.input >= 0 && done < in->input_len) {
        ssize_t n = write(in->child.input, in->input + done, in->input_len - done);

        if (n >= 0) {
            done += (size_t)n;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            io_close(&in->child.input);
            (void)control_put_number(&in->conn.tx, CONTROL_TAKEN, UINT64_MAX);
        }
    }
    assert(done <= in->input_len);
    if (done > 0) {
        (void)control_put_number(&in->conn.tx, CONTROL_TAKEN, done);
        in->input_len -= done;
        memmove(in->input, in->input + done, in->input_len);
    }
    if (in->input_len == 0 && in->input_ended)
        io_close(&in->child.input);
}

void inner_finish_output(struct inner *in)
{
    char last[sizeof(in->tail.bytes) + 1];
    size_t len;

    if (in->state != INNER_DRAINING || in->child.output[0] >= 0 || in->child.output[1] >= 0 ||
        lines_pending(&in->lines[CONTROL_STDOUT]) > 0 ||
        lines_pending(&in->lines[CONTROL_STDERR]) > 0)
        return;
    inner_move(in, INNER_DRAINED);
    if (in->failed)
        return;
    len = tail_get(&in->tail, TAIL_LINES, last);
    (void)control_put_bytes(&in->conn.tx, CONTROL_DRAINED, last, len);
}
