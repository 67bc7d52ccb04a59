/* SPDX-License-Identifier: MIT */
/* ctl.c - functions shared by several subcommands. */
#include "config.h"

#include "loader/ctl/ctl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/data/dataname.h"
#include "common/order/orderplan.h"
#include "common/util/error_set.h"
#include "common/util/progress.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/image/jpeg/jpeg_marker.h"

/* The interval of progress lines if standard error is not a terminal. */
static const uint64_t progress_line_ns = 10 * NS_PER_SEC;

static struct progress progress;
static bool progress_shown;
static uint64_t progress_told_ns;

void ctl_show_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    bool terminal = isatty(STDERR_FILENO);
    uint64_t now = time_now_ns();
    char text[PROGRESS_TEXT];

    (void)arg;
    (void)progress_text(&progress, what, done, total, now, text);
    if (progress_told_ns == 0)
        progress_told_ns = now;
    if (terminal) {
        fprintf(stderr, "\r%s\033[K", text);
        progress_shown = true;
    } else if (now - progress_told_ns >= progress_line_ns) {
        fprintf(stderr, "%s\n", text);
        progress_told_ns = now;
    }
}

void ctl_end_progress(void)
{
    if (progress_shown)
        fprintf(stderr, "\r\033[K");
    progress_shown = false;
    progress_told_ns = 0;
    progress = (struct progress){0};
}

char *ctl_plain_name(const struct dataset *dataset, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%s", dataset_get_name(dataset));
    return text_make_plain(ret);
}

struct ctl_jpegs ctl_jpegs_of(const uint8_t *bytes, size_t len)
{
    struct jpeg_markers m = {.bytes = bytes, .len = len, .at = 2};
    struct ctl_jpegs ret = {.all = len >= 2 && bytes[0] == 0xFF && bytes[1] == 0xD8};

    while (ret.all && !ret.progressive && jpeg_markers_next(&m))
        ret.progressive = m.code == 0xC2 || m.code == 0xCA; /* SOF2, SOF10 */
    return ret;
}

void ctl_print_progressive(const struct ctl_jpegs *jpegs, bool drawn)
{
    double percent = 100 * (double)jpegs->progressive / (double)jpegs->all;

    if (jpegs->progressive == 0)
        return;
    if (drawn)
        printf("%.1f %% of the JPEGs that were measured are progressive", percent);
    else
        printf("progressive  %llu of the JPEGs (%.1f %%)", (unsigned long long)jpegs->progressive,
               percent);
    printf(": plenumctl pack makes copies of them with the same pixels, which take about half the "
           "time to decode\n");
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

const struct option_words ctl_words[] = {
    {"pipeline", "train eval"},
    {"shuffle", "global none block:"},
    {"bad", "substitute fail"},
    {"last", "pad drop"},
    {"decoder", "auto plenum libjpeg"},
    {"split", "sample file"},
    {"deal", "consecutive round-robin"},
    {"sources", "real generated synthetic"},
    {0},
};

int ctl_start(const struct options_program *program, void *target, int argc, char **argv,
              int operands, const char *needed)
{
    int given, r = options_start(program, target, argc, argv, &given);

    if (r >= 0 || given == operands)
        return r;
    fprintf(stderr, "%s: %s needed; see --help\n", program->name, needed);
    return 2;
}

/* Returns how many characters at the beginning of a name are formats with their settings, as in
 * "list,base=images:". */
static size_t prefix_len(const char *name)
{
    size_t len = 0;

    for (;;) {
        size_t n = strspn(name + len, "abcdefghijklmnopqrstuvwxyz"), settings = 0;

        if (n > 0 && name[len + n] == ',')
            settings = strcspn(name + len + n, ":");
        if (n == 0 || name[len + n + settings] != ':')
            return len;
        len += n + settings + 1;
    }
}

char *ctl_with_home(const char *name)
{
    const char *home = getenv("HOME");
    size_t prefix = prefix_len(name), size = 0;
    char *text = NULL;
    FILE *to = home && *home && !orderplan_is(name) ? open_memstream(&text, &size) : NULL;

    if (!to)
        return strdup(name);
    for (size_t i = 0; name[i]; i++) {
        bool begins = i == prefix || (i < prefix && i > 0 && name[i - 1] == '=');

        if (begins && name[i] == '~' && name[i + 1] == '/')
            (void)fputs(home, to);
        else
            (void)fputc(name[i], to);
    }
    if (fclose(to) == 0)
        return text;
    free(text);
    return NULL;
}

/* Read the plan in "@FILE", or a plan's text, and make its paths absolute. Any other name is
 * copied, with "~/" replaced. */
static int read_plan(const char *name, char **ret, struct plenum_error *err)
{
    struct orderplan *plan;
    char here[4096], *full = ctl_with_home(name), *text = NULL;
    int r = full ? orderplan_read(full, &text, err) : error_set(err, -ENOMEM, "out of memory");

    free(full);
    if (r < 0 || !orderplan_is(text)) {
        *ret = r < 0 ? NULL : text;
        return r;
    }
    r = getcwd(here, sizeof(here))
            ? orderplan_parse(text, here, &plan, err)
            : error_set(err, -errno, "cannot find the current folder: %s", strerror(errno));
    free(text);
    if (r < 0)
        return r;
    *ret = strdup(plan->text);
    orderplan_free(plan);
    return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

int ctl_dataset_open(const char *name, struct dataset_options *options, struct dataset **ret,
                     struct plenum_error *err)
{
    char *text;
    int r = read_plan(name, &text, err);

    if (r < 0)
        return r;
    options->progress = ctl_show_progress;
    r = dataset_open(text, options, ret, err);
    ctl_end_progress();
    free(text);
    return r;
}

bool ctl_is_plan(const char *name)
{
    return name[0] == '@' || orderplan_is(name);
}

/* Returns whether one of the sets before `i` has the same data set. */
static bool has_been(const struct orderplan *plan, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (strcmp(plan->sets[k].dataset, plan->sets[i].dataset) == 0)
            return true;
    return false;
}

int ctl_for_each(const char *name, ctl_each *each, void *arg, struct plenum_error *err)
{
    struct orderplan *plan;
    char *text;
    int r, most = 0;

    if (!ctl_is_plan(name))
        return each(arg, name, err);
    r = read_plan(name, &text, err);
    if (r < 0)
        return r;
    r = orderplan_parse(text, NULL, &plan, err);
    free(text);
    if (r < 0)
        return r;
    for (uint32_t i = 0; r >= 0 && i < plan->num_sets; i++)
        if (!has_been(plan, i)) {
            r = each(arg, plan->sets[i].dataset, err);
            most = r > most ? r : most;
        }
    orderplan_free(plan);
    return r < 0 ? r : most;
}

int ctl_files_open(const char *name, struct dataset_options *options, struct dataset **ret,
                   struct plenum_error *err)
{
    if (ctl_is_plan(name))
        return error_set(err, -EINVAL, "this is a plan: run the command on each of its data sets");
    return ctl_dataset_open(name, options, ret, err);
}

static int check_fields(const struct render_spec *spec, struct plenum_error *err)
{
    const struct fields *fields = dataset_get_fields(spec->dataset);
    struct field_shape shape[FIELDS_MAX];
    int r = views_check_fields(&spec->views, fields, err);

    return r < 0 ? r : views_shape_fields(&spec->views, fields, fields->shape, shape, err);
}

int ctl_stream_open(const char *dataset, const struct ctl_stream_args *args, struct ctl_stream *ret,
                    struct plenum_error *err)
{
    struct dataset_options options = {.cache_dir = args->cache_dir, .fields = args->fields};
    struct ctl_stream s = {
        .spec.store = {.dtype = PLENUM_UINT8, .layout = PLENUM_NHWC, .channels = 3}};
    struct order *order = &s.spec.order;
    struct order_subset subset = {0};
    bool shuffled = strcmp(args->shuffle, "global") != 0;
    int r;

    r = views_parse(args->pipeline, &s.spec.views, err);
    if (r < 0)
        return r;
    r = order_parse_shuffle(args->shuffle, &order->shuffle, &order->block, err);
    if (r < 0)
        return r;
    if (args->subset) {
        r = order_parse_subset(args->subset, &subset, err);
        if (r < 0)
            return r;
    }
    if (strcmp(args->last, "pad") != 0 && strcmp(args->last, "drop") != 0)
        return error_set(err, -EINVAL, "--last must be pad or drop, not '%s'", args->last);
    if (strcmp(args->bad, "substitute") != 0 && strcmp(args->bad, "fail") != 0)
        return error_set(err, -EINVAL, "--bad must be substitute or fail, not '%s'", args->bad);
    options.junk = views_forgive_junk(&s.spec.views);
    options.own_fields = args->own_boxes && views_need_boxes(&s.spec.views);
    if ((uint64_t)args->replicas * args->micro_batch > UINT32_MAX)
        return error_set(err, -EINVAL, "a step of %u replicas with %u samples each is too large",
                         args->replicas, args->micro_batch);
    s.spec.bad = strcmp(args->bad, "fail") == 0 ? PLENUM_BAD_FAIL : PLENUM_BAD_SUBSTITUTE;
    r = ctl_dataset_open(dataset, &options, &s.dataset, err);
    if (r < 0)
        return r;
    s.spec.dataset = s.dataset;
    r = render_check_images(s.dataset, &s.spec.views, err);
    if (r < 0) {
        ctl_stream_close(&s);
        return r;
    }
    r = check_fields(&s.spec, err);
    if (r < 0) {
        ctl_stream_close(&s);
        return r;
    }
    order->seed = args->seed;
    r = dataset_set_order(s.dataset, order, err);
    if (r == 0 && order->mixture && (args->subset || args->repeat > 1 || shuffled))
        r = error_set(err, -EINVAL,
                      "a plan has its own shuffle, subset and repeat: write them in the lines of "
                      "sets");
    if (r == 0 && !order->mixture)
        r = order_init(order, dataset_get_samples(s.dataset), &subset, args->repeat, err);
    if (r == 0)
        r = render_check_samples(&s.spec, err);
    if (r < 0) {
        ctl_stream_close(&s);
        return r;
    }
    s.steps =
        (struct order_steps){.n = order_positions(order),
                             .per_step = args->replicas * args->micro_batch,
                             .last = strcmp(args->last, "drop") == 0 ? ORDER_DROP : ORDER_PAD};
    s.steps.num_gaps = dataset_get_skips(s.dataset, &s.steps.gaps);
    if (s.steps.last == ORDER_DROP && s.steps.per_step > s.steps.n) {
        r = error_set(
            err, -EINVAL,
            "--last drop leaves nothing: a step takes %u samples, but the data set has %u",
            s.steps.per_step, s.steps.n);
        ctl_stream_close(&s);
        return r;
    }
    *ret = s;
    return 0;
}

int ctl_part_open(const char *dataset, const struct ctl_stream_args *args, uint32_t part,
                  uint32_t parts, struct ctl_stream *ret, struct plenum_error *err)
{
    struct ctl_stream_args mine = *args;
    char name[4096];
    int r;

    if (args->replicas % parts != 0)
        return error_set(err, -EINVAL, "%u replicas cannot be shared evenly by %u instances",
                         args->replicas, parts);
    r = dataname_make_part(dataset, part, parts, name, sizeof(name), err);
    if (r < 0)
        return r;
    mine.seed = order_part_seed(args->seed, part);
    mine.replicas = args->replicas / parts;
    return ctl_stream_open(name, &mine, ret, err);
}

void ctl_stream_close(struct ctl_stream *stream)
{
    dataset_unref(stream->dataset);
    *stream = (struct ctl_stream){0};
}

int ctl_write_file(const char *path, const void *bytes, size_t len, struct plenum_error *err)
{
    int r = io_write_file(path, bytes, len);

    return r < 0 ? error_set(err, r, "cannot write %s: %s", path, strerror(-r)) : 0;
}
