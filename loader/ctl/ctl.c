/* ctl.c - what several subcommands need. */
#include "config.h"

#include "loader/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/error.h"
#include "common/util.h"

static bool progress_shown;
static uint64_t progress_began_ns;

void ctl_show_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    double seconds, rate;

    (void)arg;
    if (!isatty(STDERR_FILENO))
        return;
    if (!progress_shown)
        progress_began_ns = time_now_ns();
    progress_shown = true;
    seconds = (double)(time_now_ns() - progress_began_ns) / (double)NS_PER_SEC;
    rate = seconds > 0 ? (double)done / seconds : 0;
    if (total > 0 && done > 0 && rate > 0)
        fprintf(stderr, "\r%s: %llu of %llu (%.0f %%), %.0f/s, %.0f s left \033[K", what,
                (unsigned long long)done, (unsigned long long)total,
                100.0 * (double)done / (double)total, rate, (double)(total - done) / rate);
    else
        fprintf(stderr, "\r%s: %llu\033[K", what, (unsigned long long)done);
}

void ctl_end_progress(void)
{
    if (progress_shown)
        fprintf(stderr, "\r\033[K");
    progress_shown = false;
}

void ctl_strip_name(struct plenum_error *err, const char *name)
{
    size_t len = strlen(name);

    if (strncmp(err->text, name, len) == 0 && strncmp(err->text + len, ": ", 2) == 0)
        memmove(err->text, err->text + len + 2, strlen(err->text + len + 2) + 1);
}

int ctl_fail(const char *name, const struct plenum_error *err)
{
    ctl_end_progress();
    fprintf(stderr, "plenumctl %s: %s\n", name, err->text);
    return 1;
}

int ctl_stream_open(const char *dataset, const struct ctl_stream_args *args, struct ctl_stream *ret,
                    struct plenum_error *err)
{
    struct dataset_options options = {.cache_dir = args->cache_dir, .progress = ctl_show_progress};
    struct ctl_stream s = {
        .spec.store = {.dtype = PLENUM_UINT8, .layout = PLENUM_NHWC, .channels = 3}};
    struct order *order = &s.spec.order;
    int r;

    r = pipeline_parse(args->pipeline, &s.spec.pipeline, err);
    if (r == 0)
        r = order_parse_shuffle(args->shuffle, &order->shuffle, &order->block, err);
    if (r < 0)
        return r;
    if (strcmp(args->last, "pad") != 0 && strcmp(args->last, "drop") != 0)
        return error_set(err, -EINVAL, "--last is pad or drop, not '%s'", args->last);
    if (strcmp(args->bad, "substitute") != 0 && strcmp(args->bad, "fail") != 0)
        return error_set(err, -EINVAL, "--bad is substitute or fail, not '%s'", args->bad);
    s.spec.bad = strcmp(args->bad, "fail") == 0 ? PLENUM_BAD_FAIL : PLENUM_BAD_SUBSTITUTE;
    r = dataset_open(dataset, &options, &s.dataset, err);
    ctl_end_progress();
    if (r < 0)
        return r;
    s.spec.dataset = s.dataset;
    order->seed = args->seed;
    order->n = dataset_get_samples(s.dataset);
    s.steps =
        (struct order_steps){.n = order->n,
                             .per_step = args->replicas * args->micro_batch,
                             .last = strcmp(args->last, "drop") == 0 ? ORDER_DROP : ORDER_PAD};
    if (s.steps.last == ORDER_DROP && s.steps.per_step > order->n) {
        ctl_stream_close(&s);
        return error_set(err, -EINVAL,
                         "--last drop leaves nothing: a step takes %u samples, the data set has %u",
                         s.steps.per_step, order->n);
    }
    *ret = s;
    return 0;
}

void ctl_stream_close(struct ctl_stream *stream)
{
    dataset_unref(stream->dataset);
    *stream = (struct ctl_stream){0};
}

int ctl_write_file_by(const char *temporary, const char *path, const void *bytes, size_t len,
                      struct plenum_error *err)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    int r = fd < 0 ? -errno : io_write_all(fd, bytes, len);

    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    if (r < 0) {
        if (fd >= 0)
            (void)unlink(temporary);
        (void)error_set(err, r, "cannot write %s: %s", path, strerror(-r));
    }
    return r;
}

int ctl_write_file(const char *path, const void *bytes, size_t len, struct plenum_error *err)
{
    char *temporary = str_format("%s.%ld.tmp", path, (long)getpid());
    int r = temporary ? ctl_write_file_by(temporary, path, bytes, len, err)
                      : error_set(err, -ENOMEM, "out of memory");

    free(temporary);
    return r;
}
