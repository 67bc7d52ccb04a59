/* SPDX-License-Identifier: MIT */
/* output.c - writes output in a thread, because writing to a terminal may block.
 *
 * Standard output may be a stopped terminal or a pipe to a slow program, and other processes share
 * it, so it cannot be made non-blocking. The supervising loop must never block (heartbeats would
 * stop). So one thread writes, and the loop queues:
 *
 *     loop: output_put() ──> queue ──> thread: tags, write(2) ──> credit ──> loop: CREDIT to shim
 *
 * Program output needs no limit here: shims send no more than their credit. Our own messages have
 * one (MESSAGES_MAX), because other hosts can make us print any number of them. Both descriptors
 * share one queue, so that lines appear in the order in which they arrived; our own messages and
 * reports use it, too, and so never break a line.
 *
 * If a line is unfinished when another instance's output follows (a last line without a newline, or
 * a piece of an endless line), a newline is inserted: apart from tags, this is the only byte that
 * no program printed. Standard output and standard error count as one destination if they are the
 * same file.
 *
 * A progress bar, redrawn after carriage returns, is one line without an end. A terminal shows it
 * as the last line, and it is erased before anything else is written; of the complete line only the
 * final state is printed. Files get all of it unchanged. */
#include "config.h"

#include "launcher/job/output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/list.h"
#include "common/util/lock.h"
#include "common/util/util.h"
#include "launcher/job/output_folder.h"
#include "launcher/plan/tag.h"

enum {
    STAGE_BYTES = 64 * 1024, /* bytes written at once */
    OWN = -1,                /* instead of an instance: our own message */
    MESSAGES_MAX = 1 << 20,  /* queued bytes of messages, including overhead */
};

struct output_chunk {
    struct list link; /* in the queue, or in the list that the thread has taken from it */
    int64_t instance;
    enum control_stream stream;
    bool progress;
    bool message; /* one of our own messages, which count towards MESSAGES_MAX */
    size_t len;
    char bytes[];
};

/* A destination in which lines are assembled. */
struct sink {
    int fd;
    bool mid_line;
    int64_t instance; /* the instance whose unfinished line it holds */
    enum control_stream stream;
    int error; /* why writing failed: the rest is discarded; 0: it did not */
    bool terminal;
    bool progress; /* a progress bar is shown as the last line */
};

/* The files of one instance. */
struct files {
    int fd[CONTROL_STREAMS]; /* -1: not opened */
    bool failed[CONTROL_STREAMS];
};

struct output {
    /* Set by output_create(), then constant. */
    char *tag;
    struct output_instance *instances;
    uint32_t count;
    int event_fd;
    pthread_t thread;
    bool started;
    struct sink *sink_of[2]; /* the sinks of standard output and standard error; may be equal */
    char *folder;            /* NULL: no files */
    bool append;
    /* Writer thread only. */
    struct sink sinks[2];
    struct files *files; /* [count] */
    int fd_of[2];
    char stage[STAGE_BYTES];
    size_t staged;
    int staged_fd;
    /* Any thread, holding the lock. */
    struct lock lock;
    pthread_cond_t work, idle;
    struct list queue; /* list of chunks */
    bool busy;         /* the thread is writing chunks */
    bool stop;
    size_t messages;   /* bytes of messages in the queue */
    uint64_t left_out; /* messages dropped since the last report */
    int failure;
    bool failed_stderr; /* the failure was standard error's */
    int file_failure;
    uint32_t file_failures; /* number of files that the text covers */
    char file_failure_text[OUTPUT_FAILURE_MAX];
    uint64_t *credit;   /* [count] */
    uint32_t *credited; /* [count]: the instances whose credit is not 0 */
    uint32_t num_credited;
    uint8_t *progresses; /* [count]: bit 1 << stream: a progress line is queued */
};

/* Format the tag of a chunk's lines; returns its length. */
static size_t make_tag(const struct output *o, const struct output_chunk *c, char ret[TAG_MAX])
{
    static const char *const names[CONTROL_STREAMS] = {
        [CONTROL_STDOUT] = "out", [CONTROL_STDERR] = "err", [CONTROL_LOADER] = "loader"};
    const struct output_instance *instance = &o->instances[c->instance];
    struct tag_fields fields = {.instance = instance->index,
                                .host = instance->host,
                                .pid = instance->pid,
                                .stream = names[c->stream]};

    assert(c->instance >= 0 && c->instance < (int64_t)o->count);
    (void)clock_gettime(CLOCK_REALTIME, &fields.now);
    return tag_format(o->tag, &fields, ret);
}

static void fail(struct output *o, struct sink *sink, int error)
{
    assert(error < 0);
    sink->error = error;
    lock_acquire(&o->lock);
    if (o->failure == 0 || error == -EPIPE) { /* a reader that has closed the pipe ends the job */
        o->failure = error;
        o->failed_stderr = sink != o->sink_of[0];
    }
    lock_release(&o->lock);
}

static void flush_stage(struct output *o)
{
    assert(o->staged <= STAGE_BYTES);
    for (int i = 0; i < 2 && o->staged > 0; i++) {
        if (o->fd_of[i] != o->staged_fd)
            continue;
        if (!o->sink_of[i]->error) {
            int r = io_write_all(o->staged_fd, o->stage, o->staged);

            if (r < 0)
                fail(o, o->sink_of[i], r);
        }
        break;
    }
    o->staged = 0;
}

static void stage(struct output *o, int fd, const char *bytes, size_t len)
{
    if (fd != o->staged_fd)
        flush_stage(o);
    o->staged_fd = fd;
    while (len > 0) {
        size_t n = min_u64(len, STAGE_BYTES - o->staged);

        assert(n > 0); /* a full stage has been flushed */
        memcpy(o->stage + o->staged, bytes, n);
        o->staged += n;
        bytes += n;
        len -= n;
        if (o->staged == STAGE_BYTES)
            flush_stage(o);
    }
}

/* Returns whether these bytes would break up another instance's line. A single instance may break
 * up its own, as it could when writing to the terminal itself. */
static bool tears(const struct output *o, const struct sink *sink, const struct output_chunk *c)
{
    return sink->mid_line &&
           (sink->instance != c->instance || (sink->stream != c->stream && o->count > 1));
}

/* ---- files ---- */

static void fail_file(struct output *o, const char *path, int error)
{
    size_t len;

    assert(error < 0);
    lock_acquire(&o->lock);
    if (o->file_failure == 0)
        o->file_failure = error;
    o->file_failures++;
    len = strlen(o->file_failure_text);
    (void)snprintf(o->file_failure_text + len, sizeof(o->file_failure_text) - len,
                   "%scannot write %.200s: %s", len > 0 ? "; " : "", path,
                   error == -EINVAL ? "it is not a regular file" : strerror(-error));
    lock_release(&o->lock);
}

/* Open an instance's file, which must be a regular one (otherwise -EINVAL): a FIFO may have no
 * reader, or a slow one. Never blocks. */
static int open_file(const char *path, int flags, int *ret)
{
    struct stat st;

    *ret = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags, 0666);
    if (*ret < 0)
        return errno == ENXIO ? -EINVAL : -errno;
    if (fstat(*ret, &st) == 0 && S_ISREG(st.st_mode))
        return 0;
    io_close(ret);
    return -EINVAL;
}

static void write_file(struct output *o, const struct output_chunk *c)
{
    static const char *const endings[] = {
        [CONTROL_STDOUT] = "out", [CONTROL_STDERR] = "err", [CONTROL_LOADER] = "loader"};
    struct files *f = &o->files[c->instance];
    char path[4096];
    int r = 0;

    assert(o->folder && c->instance >= 0 && c->instance < (int64_t)o->count);
    if (f->failed[c->stream])
        return;
    (void)snprintf(path, sizeof(path), "%s/instance-%u.%s", o->folder,
                   o->instances[c->instance].index, endings[c->stream]);
    if (f->fd[c->stream] < 0) {
        r = open_file(path, o->append ? O_APPEND : O_TRUNC, &f->fd[c->stream]);
    }
    if (r == 0)
        r = io_write_all(f->fd[c->stream], c->bytes, c->len);
    if (r < 0) {
        f->failed[c->stream] = true;
        fail_file(o, path, r);
    }
}

/* Create every file, even if its instance prints nothing. */
static int make_files(struct output *o, struct plenum_error *err)
{
    int r;

    r = o->append ? 0 : output_folder_prepare(o->folder, err);
    if (r < 0)
        return r;
    o->files = malloc((o->count + 1) * sizeof(*o->files));
    if (!o->files)
        return error_set(err, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < o->count; i++)
        o->files[i] = (struct files){.fd = {-1, -1, -1}};
    for (uint32_t i = 0; i < o->count; i++) {
        for (int stream = CONTROL_STDOUT; stream <= CONTROL_STDERR; stream++) {
            struct output_chunk nothing = {.instance = i, .stream = (enum control_stream)stream};

            write_file(o, &nothing);
        }
    }
    return o->file_failure < 0
               ? error_set(err, o->file_failure, "--output-dir: %s", o->file_failure_text)
               : 0;
}

/* ---- progress bars ---- */

static void clear_progress(struct output *o, struct sink *sink)
{
    static const char erase[] = "\r\033[K";

    if (sink->progress)
        stage(o, sink->fd, erase, strlen(erase));
    sink->progress = false;
}

/* Returns the number of bytes that fit on a line. Escape sequences have no width, nor do
 * continuation bytes of a character. */
static size_t fit(const char *text, size_t len, size_t columns)
{
    size_t used = 0, i = 0;

    while (i < len) {
        if (text[i] == '\033' && i + 1 < len && text[i + 1] == '[') {
            for (i += 2; i < len && (text[i] < '@' || text[i] > '~');)
                i++;
            i += i < len;
            continue;
        }
        if (((unsigned char)text[i] & 0xc0) != 0x80 && used++ == columns)
            return i;
        i++;
    }
    return len;
}

static size_t columns_of(int fd)
{
    struct winsize size;

    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79;
}

static void write_progress(struct output *o, const struct output_chunk *c)
{
    int which = c->stream == CONTROL_STDOUT ? 0 : 1, fd = o->fd_of[which];
    struct sink *sink = o->sink_of[which];
    char line[TAG_MAX + CONTROL_PROGRESS_MAX];
    size_t len = 0;

    if (sink->error || !sink->terminal || sink->mid_line)
        return;
    clear_progress(o, sink);
    if (o->tag)
        len = make_tag(o, c, line);
    assert(len <= TAG_MAX);
    memcpy(line + len, c->bytes, min_u64(c->len, sizeof(line) - len));
    len += min_u64(c->len, sizeof(line) - len);
    sink->fd = fd;
    sink->progress = true;
    stage(o, fd, line, fit(line, len, columns_of(fd)));
}

/* Get the final state of a line: the text after its last carriage return, ignoring one before the
 * newline. */
static const char *shown_part(const char *line, const char *end)
{
    const char *last;

    if (end > line && end[-1] == '\n')
        end--;
    if (end > line && end[-1] == '\r')
        end--;
    last = memrchr(line, '\r', (size_t)(end - line));
    return last ? last + 1 : line;
}

/* Write a chunk, with its tags and inserted newlines. */
static void write_chunk(struct output *o, const struct output_chunk *c)
{
    int which = c->stream == CONTROL_STDOUT ? 0 : 1, fd = o->fd_of[which];
    struct sink *sink = o->sink_of[which];
    const char *p = c->bytes, *end = p + c->len;
    bool bars = sink->terminal && o->count > 1 && c->instance != OWN && memchr(p, '\r', c->len);
    char tag[TAG_MAX];
    size_t tag_len = 0;

    if (sink->error || c->len == 0)
        return;
    clear_progress(o, sink);
    if (tears(o, sink, c)) {
        stage(o, sink->fd, "\n", 1);
        sink->mid_line = false;
    }
    if (o->tag && c->instance != OWN)
        tag_len = make_tag(o, c, tag);
    sink->fd = fd;
    sink->instance = c->instance;
    sink->stream = c->stream;
    if (tag_len == 0 && !bars) {
        stage(o, fd, p, c->len);
        sink->mid_line = end[-1] != '\n';
        return;
    }
    assert(tag_len <= sizeof(tag));
    while (p < end) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        const char *next = newline ? newline + 1 : end, *from = bars ? shown_part(p, next) : p;

        if (bars && !newline) /* a piece of a very long bar: the next one replaces it */
            return;
        if (!sink->mid_line)
            stage(o, fd, tag, tag_len);
        stage(o, fd, from, (size_t)(next - from));
        sink->mid_line = !newline;
        p = next;
    }
}

static void handle_chunk(struct output *o, const struct output_chunk *c)
{
    bool own = c->instance == OWN;

    assert(own || c->instance < (int64_t)o->count);
    if (!own && o->folder && !c->progress)
        write_file(o, c);
    if (!own && o->instances[c->instance].hidden && c->stream != CONTROL_LOADER)
        return;
    if (c->progress)
        write_progress(o, c);
    else
        write_chunk(o, c);
}

static void add_credit(struct output *o, uint32_t instance, uint64_t bytes)
{
    if (bytes > 0 && o->credit[instance] == 0) {
        assert(o->num_credited < o->count);
        o->credited[o->num_credited++] = instance;
    }
    o->credit[instance] += bytes;
}

static void give_credit(struct output *o, const struct output_chunk *c)
{
    lock_acquire(&o->lock);
    if (c->progress)
        o->progresses[c->instance] &= (uint8_t) ~(1 << c->stream);
    else if (c->instance != OWN)
        add_credit(o, (uint32_t)c->instance, c->len);
    else if (c->message)
        o->messages -= sizeof(*c) + c->len;
    lock_release(&o->lock);
}

static void wake_loop(struct output *o)
{
    io_event_set(o->event_fd);
}

/* Report how many messages were dropped, once the queued ones are written. */
static void write_left_out(struct output *o)
{
    char text[160];
    struct output_chunk *c;
    uint64_t count;
    int n;

    lock_acquire(&o->lock);
    count = o->messages == 0 ? o->left_out : 0;
    o->left_out -= count;
    lock_release(&o->lock);
    if (count == 0)
        return;
    n = snprintf(text, sizeof(text),
                 "plenumrun: warning: %llu messages were left out, because standard error accepted "
                 "no more\n",
                 (unsigned long long)count);
    c = malloc(sizeof(*c) + (size_t)n);
    if (!c)
        return;
    *c = (struct output_chunk){.instance = OWN, .stream = CONTROL_STDERR, .len = (size_t)n};
    memcpy(c->bytes, text, c->len);
    handle_chunk(o, c);
    flush_stage(o);
    free(c);
}

static void *run(void *arg)
{
    struct output *o = arg;

    lock_acquire(&o->lock);
    for (;;) {
        struct list batch, *link;

        while (list_is_empty(&o->queue) && !o->stop)
            lock_wait(&o->lock, &o->work);
        if (o->stop)
            break;
        list_init(&batch);
        while ((link = list_pop_first(&o->queue)))
            list_add_last(&batch, link);
        o->busy = true;
        lock_release(&o->lock);
        for (link = list_first(&batch); link; link = list_next(&batch, link))
            handle_chunk(o, container_of(link, struct output_chunk, link));
        flush_stage(o);
        while ((link = list_pop_first(&batch))) {
            struct output_chunk *c = container_of(link, struct output_chunk, link);

            give_credit(o, c);
            free(c);
        }
        write_left_out(o);
        lock_acquire(&o->lock);
        o->busy = false;
        if (list_is_empty(&o->queue))
            (void)pthread_cond_broadcast(&o->idle);
        wake_loop(o);
    }
    lock_release(&o->lock);
    return NULL;
}

static bool same_file(int a, int b)
{
    struct stat x, y;

    return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int start_thread(struct output *o)
{
    int r = thread_start(&o->thread, run, o);

    o->started = r == 0;
    return r;
}

static int init_sync(struct output *o)
{
    int r;

    lock_init(&o->lock);
    if ((r = pthread_cond_init(&o->work, NULL)) != 0 ||
        (r = pthread_cond_init(&o->idle, NULL)) != 0)
        return -r;
    return 0;
}

int output_create(const struct output_options *options, struct output **ret,
                  struct plenum_error *err)
{
    struct output *o = calloc(1, sizeof(*o));
    int r = -ENOMEM;

    if (!o)
        return error_set(err, r, "out of memory");
    o->event_fd = -1;
    list_init(&o->queue);
    o->count = options->count;
    o->fd_of[0] = options->stdout_fd;
    o->fd_of[1] = options->stderr_fd;
    o->staged_fd = -1;
    o->sink_of[0] = &o->sinks[0];
    o->sink_of[1] = same_file(options->stdout_fd, options->stderr_fd) ? &o->sinks[0] : &o->sinks[1];
    o->credit = calloc(options->count + 1, sizeof(*o->credit));
    o->credited = calloc(options->count + 1, sizeof(*o->credited));
    o->progresses = calloc(options->count + 1, sizeof(*o->progresses));
    o->instances = calloc(options->count + 1, sizeof(*o->instances));
    if (!o->credit || !o->credited || !o->progresses || !o->instances)
        goto fail;
    if (options->count > 0)
        memcpy(o->instances, options->instances, options->count * sizeof(*o->instances));
    if (options->tag) {
        o->tag = strdup(options->tag);
        if (!o->tag)
            goto fail;
    }
    for (int i = 0; i < 2; i++)
        o->sink_of[i]->terminal |= isatty(o->fd_of[i]) != 0;
    o->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r = o->event_fd < 0 ? -errno : init_sync(o);
    if (r < 0)
        goto fail;
    if (options->folder) {
        o->append = options->append;
        o->folder = strdup(options->folder);
        r = o->folder ? make_files(o, err) : -ENOMEM;
        if (r < 0 && r != -ENOMEM) {
            output_destroy(o);
            return r;
        }
        if (r < 0)
            goto fail;
    }
    r = start_thread(o);
    if (r < 0)
        goto fail;
    *ret = o;
    return 0;

fail:
    output_destroy(o);
    return error_set(err, r, "cannot prepare the output: %s", strerror(-r));
}

/* Returns whether there is room for a chunk without credit, and counts it as queued; otherwise
 * counts a message as left out. Without limits, such chunks would fill the memory while a terminal
 * is stopped: at most one progress line per stream is queued, and messages have a byte limit. Needs
 * the lock. */
static bool has_room(struct output *o, const struct output_chunk *c)
{
    assert(lock_is_held(&o->lock));
    if (c->progress) {
        uint8_t bit = (uint8_t)(1 << c->stream);
        bool queued = o->progresses[c->instance] & bit;

        o->progresses[c->instance] |= bit;
        return !queued;
    }
    if (!c->message)
        return true;
    if (o->messages + sizeof(*c) + c->len > MESSAGES_MAX) {
        o->left_out++;
        return false;
    }
    o->messages += sizeof(*c) + c->len;
    return true;
}

/* Queue a chunk like `kind` with these bytes. */
static int put(struct output *o, const struct output_chunk *kind, const char *bytes, size_t len)
{
    struct output_chunk *c = malloc(sizeof(*c) + len);
    bool queued;

    assert(kind->instance == OWN || (kind->instance >= 0 && kind->instance < (int64_t)o->count));
    assert(!kind->progress || len <= CONTROL_PROGRESS_MAX);
    if (!c)
        return -ENOMEM;
    *c = *kind;
    c->len = len;
    memcpy(c->bytes, bytes, len);
    lock_acquire(&o->lock);
    queued = has_room(o, c);
    if (queued) {
        list_add_last(&o->queue, &c->link);
        (void)pthread_cond_signal(&o->work);
    }
    lock_release(&o->lock);
    if (!queued)
        free(c);
    return 0;
}

int output_put(struct output *output, uint32_t instance, enum control_stream stream,
               const char *bytes, size_t len)
{
    return put(output, &(struct output_chunk){.instance = instance, .stream = stream}, bytes, len);
}

int output_put_progress(struct output *output, uint32_t instance, enum control_stream stream,
                        const char *bytes, size_t len)
{
    return put(output,
               &(struct output_chunk){.instance = instance, .stream = stream, .progress = true},
               bytes, len);
}

int output_put_own(struct output *output, enum control_stream stream, const char *bytes, size_t len)
{
    return put(output, &(struct output_chunk){.instance = OWN, .stream = stream}, bytes, len);
}

int output_put_message(struct output *output, const char *bytes, size_t len)
{
    return put(output,
               &(struct output_chunk){.instance = OWN, .stream = CONTROL_STDERR, .message = true},
               bytes, len);
}

void output_set_pid(struct output *output, uint32_t instance, pid_t pid)
{
    assert(instance < output->count);
    /* The thread reads the pid only for tags, so it may see either value. */
    __atomic_store_n(&output->instances[instance].pid, pid, __ATOMIC_RELAXED);
}

int output_get_fd(const struct output *output)
{
    return output->event_fd;
}

void output_acknowledge(struct output *output)
{
    io_event_clear(output->event_fd);
}

uint64_t output_collect_credit(struct output *output, uint32_t *ret_instance)
{
    uint64_t bytes = 0;

    lock_acquire(&output->lock);
    if (output->num_credited > 0) {
        *ret_instance = output->credited[--output->num_credited];
        bytes = output->credit[*ret_instance];
        output->credit[*ret_instance] = 0;
    }
    lock_release(&output->lock);
    return bytes;
}

int output_get_failure(struct output *output, const char **stream)
{
    int r;

    lock_acquire(&output->lock);
    r = output->failure;
    *stream = output->failed_stderr ? "standard error" : "standard output";
    lock_release(&output->lock);
    return r;
}

bool output_lost_files(struct output *output)
{
    bool lost;

    lock_acquire(&output->lock);
    lost = output->file_failure < 0;
    lock_release(&output->lock);
    return lost;
}

uint32_t output_take_file_failures(struct output *output, char ret[OUTPUT_FAILURE_MAX])
{
    uint32_t count;

    lock_acquire(&output->lock);
    count = output->file_failures;
    output->file_failures = 0;
    (void)snprintf(ret, OUTPUT_FAILURE_MAX, "%s", output->file_failure_text);
    output->file_failure_text[0] = '\0';
    lock_release(&output->lock);
    return count;
}

int output_flush(struct output *output, int timeout_ms)
{
    uint64_t until = timeout_ms < 0 ? UINT64_MAX : time_now_ns() + (uint64_t)timeout_ms * NS_PER_MS;
    int r = 0;

    lock_acquire(&output->lock);
    while ((!list_is_empty(&output->queue) || output->busy) && r == 0)
        r = lock_wait_until(&output->lock, &output->idle, until);
    lock_release(&output->lock);
    return r;
}

void output_destroy(struct output *output)
{
    struct list *link;

    if (!output)
        return;
    if (output->started) {
        bool busy;

        lock_acquire(&output->lock);
        busy = output->busy;
        output->stop = true;
        (void)pthread_cond_signal(&output->work);
        lock_release(&output->lock);
        if (busy) {
            (void)pthread_detach(output->thread);
            return;
        }
        (void)pthread_join(output->thread, NULL);
        (void)pthread_cond_destroy(&output->work);
        (void)pthread_cond_destroy(&output->idle);
        lock_fini(&output->lock);
    }
    while ((link = list_pop_first(&output->queue)))
        free(container_of(link, struct output_chunk, link));
    for (uint32_t i = 0; output->files && i < output->count; i++)
        for (int stream = 0; stream < CONTROL_STREAMS; stream++)
            io_close(&output->files[i].fd[stream]);
    free(output->files);
    free(output->folder);
    io_close(&output->event_fd);
    free(output->tag);
    free(output->instances);
    free(output->progresses);
    free(output->credit);
    free(output->credited);
    free(output);
}
