/* SPDX-License-Identifier: MIT */
/* bench_render.c - bench/render: training images per second per core, rendered in several ways.
 *
 * All rows see the same photographs and, if they crop, the same crops: those that Plenum draws. The
 * photographs are loaded into memory in advance; nothing here reads files or waits. See bench.h for
 * how rows are compared, and bench/README.md for a description of each row. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/forms.h"
#include "bench/render_rows.h"
#include "common/options/options.h"
#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#ifdef HAVE_FFCV_WAY
#include "bench/ffcv.h"
#endif

struct bench_render_arguments {
    const char *images, *pipeline, *rows;
    uint32_t rounds, limit, seed;
    bool json, kernels, forms;
};

#define AT(field) offsetof(struct bench_render_arguments, field)

static const struct option_def defs[] = {
    {"images", 'i', "DIR", OPTION_TEXT, AT(images), 0, 0,
     .help = "folder of photographs (required)"},
    {"pipeline", 'p', "TEXT", OPTION_TEXT, AT(pipeline), 0, 0,
     .help = "rrc pipeline to render (default: train)"},
    {"rounds", 'r', "N", OPTION_U32, AT(rounds), 1, 10000,
     .help = "rounds over all photographs and rows (default 15)"},
    {"limit", 'l', "N", OPTION_U32, AT(limit), 1, 0, .help = "use only the first N photographs"},
    {"seed", 's', "N", OPTION_U32, AT(seed), 0, 0, .help = "seed of the crops (default 1)"},
    {"kernels", 'k', NULL, OPTION_FLAG, AT(kernels), 0, 0,
     .help = "also measure every other set of loops that this processor can use"},
    {"forms", 0, NULL, OPTION_FLAG, AT(forms), 0, 0,
     .help =
         "rewrite the photographs in each form of JPEG, PNG, WebP and AVIF, and compare with the "
         "formats' libraries"},
    {"rows", 0, "NAME[,NAME...]", OPTION_TEXT, AT(rows), 0, 0,
     .help = "measure only these rows, for example to profile one (default: all)"},
    {"json", 'j', NULL, OPTION_FLAG, AT(json), 0, 0, .help = "print JSON"},
};

static const struct options_program program = {
    .name = "bench/render",
    .usage = "--images DIR [options]",
    .summary =
        "Measure training images per second of one core, in CPU time: Plenum compared with other "
        "ways.",
    .defs = defs,
    .count = ARRAY_LEN(defs),
};

/* Returns whether all rows can process a file. */
static bool suits_all(struct render_context *c, const struct bench_file *file, size_t index)
{
    for (size_t k = 0; k < ROWS; k++) {
        const struct render_row *row = &render_rows[k];

        if (!render_rows_shown(row))
            continue;
        if ((row->add && row->add(c, file, index) < 0) || row->run(c, row, file, index, 0) < 0)
            return false;
    }
    return true;
}

/* Leave out files that any row cannot process, so that all rows do the same work. */
static void keep_common_files(struct render_context *c, struct bench_files *files)
{
    size_t kept = 0;

    for (size_t i = 0; i < files->count; i++) {
        struct bench_file *file = &files->files[i];

        if (suits_all(c, file, kept)) {
            files->files[kept++] = *file;
            continue;
        }
        files->bytes -= file->len;
        free(file->bytes);
        free(file->path);
        files->refused++;
    }
    files->count = kept;
}

/* Run one round. rates[row] is in images per second. */
static void run_round(struct render_context *c, const struct bench_files *files, uint32_t round,
                      double *rates)
{
    uint64_t ns[ROWS] = {0};

    for (size_t at = 0; at < files->count; at += BLOCK) {
        for (size_t k = 0; k < ROWS; k++) {
            size_t row = (k + at / BLOCK + round) % ROWS;
            uint64_t start = time_cpu_ns();

            for (size_t i = at;
                 render_rows_shown(&render_rows[row]) && i < files->count && i < at + BLOCK; i++)
                (void)render_rows[row].run(c, &render_rows[row], &files->files[i], i, round);
            ns[row] += time_cpu_ns() - start;
        }
    }
    for (size_t k = 0; k < ROWS; k++)
        rates[k] = (double)files->count * 1e9 / (double)ns[k];
}

struct render_report {
    const struct bench_render_arguments *arguments;
    const struct render_context *context;
    const struct bench_files *files;
    size_t base;            /* the reference row for ratios */
    double *rates, *column; /* [rounds][ROWS], [rounds] */
};

enum { NO_ROW = ROWS };

/* Returns the spread of a row's images per second, divided in each round by those of `other`
 * (NO_ROW: not divided). */
static struct bench_spread spread_of(const struct render_report *report, size_t row, size_t other)
{
    uint32_t rounds = report->arguments->rounds;

    for (uint32_t r = 0; r < rounds; r++)
        report->column[r] =
            report->rates[r * ROWS + row] / (other == NO_ROW ? 1 : report->rates[r * ROWS + other]);
    return bench_spread_of(report->column, rounds);
}

static void print_json(const struct render_report *report)
{
    struct json j;

    bench_json_begin(&j, "render");
    json_text(&j, "unit", "images/s of one core, CPU time");
    json_number(&j, "images", report->files->count);
    json_number(&j, "left_out", report->files->refused);
    json_number(&j, "rounds", report->arguments->rounds);
    json_text(&j, "pipeline", report->context->pipeline.text);
    json_text(&j, "ratios_to", render_rows[report->base].name);
    json_real(&j, "packed_size", render_packed_size(report->context, report->files), 4);
    json_real(&j, "index_size", render_hints_size(report->context, report->files), 4);
    json_begin_array(&j, "rows", JSON_LINES);
    for (size_t k = 0; k < ROWS; k++) {
        struct bench_spread rate, ratio;

        if (!render_rows_shown(&render_rows[k]))
            continue;
        rate = spread_of(report, k, NO_ROW);
        ratio = spread_of(report, k, report->base);
        json_begin_object(&j, NULL, JSON_FLAT);
        json_text(&j, "name", render_rows[k].name);
        bench_json_spread(&j, &rate, 1);
        json_begin_object(&j, "ratio", JSON_FLAT);
        bench_json_spread(&j, &ratio, 3);
        json_end_object(&j);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_begin_array(&j, "missing", JSON_LINES);
    for (size_t k = 0; k < ROWS; k++) {
        if (!render_rows[k].missing)
            continue;
        json_begin_object(&j, NULL, JSON_FLAT);
        json_text(&j, "name", render_rows[k].name);
        json_text(&j, "why", render_rows[k].missing);
        json_end_object(&j);
    }
    json_end_array(&j);
    json_end_object(&j);
}

static void print_table(const struct render_report *report)
{
    char cpu[128], ratios[64];

    bench_cpu_name(cpu, sizeof(cpu));
    (void)snprintf(ratios, sizeof(ratios), "to %s", render_rows[report->base].name);
    printf("%zu photographs (%.1f KiB each; %zu left out), %u rounds, %s\n%s\n\n"
           "%-18s %28s   %22s\n%-18s %8s %9s %9s   %6s %7s %7s\n",
           report->files->count, (double)report->files->bytes / 1024 / (double)report->files->count,
           report->files->refused, report->arguments->rounds, report->context->pipeline.text, cpu,
           "", "images/s of one core", ratios, "row", "min", "median", "max", "min", "median",
           "max");
    for (size_t k = 0; k < ROWS; k++) {
        struct bench_spread r, q;

        if (!render_rows_shown(&render_rows[k]))
            continue;
        r = spread_of(report, k, NO_ROW);
        q = spread_of(report, k, report->base);
        printf("%-18s %8.1f %9.1f %9.1f   %6.3f %7.3f %7.3f\n", render_rows[k].name, r.min,
               r.median, r.max, q.min, q.median, q.max);
    }
    putchar('\n');
    for (size_t k = 0; k < ROWS; k++)
        if (render_rows_shown(&render_rows[k]))
            printf("%-18s %s\n", render_rows[k].name, render_rows[k].what);
        else if (render_rows[k].missing)
            printf("%s is left out: %s\n", render_rows[k].name, render_rows[k].missing);
    if (report->context->num_hints > 0)
        printf("the index of tiles has %.4f of the bytes\n",
               render_hints_size(report->context, report->files));
    if (report->context->num_packed > 0)
        printf("packed files have %.4f of the bytes\n",
               render_packed_size(report->context, report->files));
}

/* Returns the row to which the others are compared: FFCV's method, or else the first one shown. */
static size_t find_base(void)
{
    size_t first = ROWS;

    for (size_t k = ROWS; k-- > 0;) {
        if (!render_rows_shown(&render_rows[k]))
            continue;
        if (strcmp(render_rows[k].name, FFCV_ROW) == 0)
            return k;
        first = k;
    }
    return first;
}

static int measure(struct render_context *c, struct render_report *report)
{
    uint32_t rounds = report->arguments->rounds;

    report->rates = calloc((size_t)rounds * ROWS, sizeof(*report->rates));
    report->column = calloc(rounds, sizeof(*report->column));
    if (!report->rates || !report->column)
        return -ENOMEM;
    for (uint32_t round = 0; round < rounds; round++)
        run_round(c, report->files, round + 1, report->rates + (size_t)round * ROWS);
    return 0;
}

static void report_fini(struct render_report *report)
{
    free(report->rates);
    free(report->column);
}

static int compare_rows(const struct bench_render_arguments *a, struct render_context *c,
                        struct bench_files *files, struct plenum_error *err)
{
    struct render_report report = {
        .arguments = a, .context = c, .files = files, .base = find_base()};
    int r;

    keep_common_files(c, files);
    if (files->count == 0)
        return error_set(err, -ENOENT, "%s: no photograph suits all rows", a->images);
    r = measure(c, &report);
    if (r == 0)
        (a->json ? print_json : print_table)(&report);
    report_fini(&report);
    return r;
}

static size_t find_row(const char *name)
{
    size_t k = 0;

    while (strcmp(render_rows[k].name, name) != 0)
        k++;
    return k;
}

/* The columns of --forms, each a row relative to another; `jpeg`: only for JPEGs. */
static const struct column {
    const char *title, *key, *row, *other;
    bool jpeg;
} columns[] = {
    {"whole to full", "whole_to_full_decode", WHOLE_ROW, FULL_ROW, false},
    {"first to full", "first_to_full_decode", PLAIN_ROW, FULL_ROW, false},
    {"later to full", "later_to_full_decode", INDEXED_ROW, FULL_ROW, false},
    {"first to turbo", "first_to_libjpeg", PLAIN_ROW, LIBJPEG_ROW, true},
    {"later to turbo", "later_to_libjpeg", INDEXED_ROW, LIBJPEG_ROW, true},
};

static void print_forms_head(const struct bench_render_arguments *a, const struct render_context *c,
                             const struct bench_files *files, struct json *j)
{
    char cpu[128];

    if (a->json) {
        bench_json_begin(j, "render --forms");
        json_text(j, "unit", "images/s of one core, CPU time");
        json_number(j, "images", files->count);
        json_number(j, "rounds", a->rounds);
        json_text(j, "pipeline", c->pipeline.text);
        json_begin_array(j, "forms", JSON_LINES);
        return;
    }
    bench_cpu_name(cpu, sizeof(cpu));
    printf("%zu photographs, %u rounds, %s\n%s\n\n%-12s %9s %7s %8s", files->count, a->rounds,
           c->pipeline.text, cpu, "form", "KiB each", "full/s", "first/s");
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        printf("  %19s", columns[i].title);
    putchar('\n');
}

static void print_form(const struct form *form, const struct render_report *report, struct json *j)
{
    const struct bench_files *files = report->files;
    double kib = (double)files->bytes / 1024 / (double)files->count;
    struct bench_spread full = spread_of(report, find_row(FULL_ROW), NO_ROW);
    struct bench_spread first = spread_of(report, find_row(PLAIN_ROW), NO_ROW);

    if (report->arguments->json) {
        json_begin_object(j, NULL, JSON_LINES);
        json_text(j, "name", form->name);
        json_number(j, "left_out", files->refused);
        json_real(j, "kib_each", kib, 1);
        json_begin_object(j, "full_decode", JSON_FLAT);
        bench_json_spread(j, &full, 1);
        json_end_object(j);
        json_begin_object(j, "first", JSON_FLAT);
        bench_json_spread(j, &first, 1);
        json_end_object(j);
    } else {
        printf("%-12s %9.1f %7.0f %8.0f", form->name, kib, full.median, first.median);
    }
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        const struct column *col = &columns[i];
        bool there = form->jpeg || !col->jpeg;
        struct bench_spread q = {0};

        if (there)
            q = spread_of(report, find_row(col->row), find_row(col->other));
        if (!report->arguments->json && there) {
            printf("  %5.2f (%5.2f %5.2f)", q.median, q.min, q.max);
        } else if (!report->arguments->json) {
            printf("  %19s", "");
        } else if (there) {
            json_begin_object(j, col->key, JSON_FLAT);
            bench_json_spread(j, &q, 3);
            json_end_object(j);
        } else {
            json_null(j, col->key);
        }
    }
    if (report->arguments->json)
        json_end_object(j);
    else
        putchar('\n');
    (void)fflush(stdout);
}

/* Convert all photographs to a form; those that cannot be converted are left out. */
static int make_form(const struct form *form, const struct bench_files *from,
                     struct bench_files *ret)
{
    int r = 0;

    *ret = (struct bench_files){.files = calloc(from->count, sizeof(*ret->files))};
    if (!ret->files)
        return -ENOMEM;
    for (size_t i = 0; i < from->count; i++) {
        r = form_make(form, &from->files[i], &ret->files[ret->count]);
        if (r == 0)
            ret->bytes += ret->files[ret->count++].len;
        else if (r == -EBADMSG)
            ret->refused++;
        else
            return r;
    }
    return 0;
}

static int measure_form(const struct form *form, const struct bench_render_arguments *a,
                        struct render_context *c, const struct bench_files *photographs,
                        struct json *j)
{
    struct bench_files files;
    struct render_report report = {.arguments = a, .context = c, .files = &files};
    int r = make_form(form, photographs, &files);

    if (r == 0)
        keep_common_files(c, &files);
    if (r == 0 && files.count > 0) {
        r = measure(c, &report);
        if (r == 0)
            print_form(form, &report, j);
    }
    report_fini(&report);
    bench_files_free(&files);
    return r;
}

static int compare_forms(const struct bench_render_arguments *a, struct render_context *c,
                         const struct bench_files *files)
{
    struct json j;
    int r = 0;

    print_forms_head(a, c, files, &j);
    for (const struct form *f = forms; r == 0 && f->name; f++) {
        r = measure_form(f, a, c, files, &j);
        if (r == -EOPNOTSUPP) {
            if (!a->json)
                printf("%-12s is left out: this build has no encoder for it\n", f->name);
            r = 0;
        }
    }
    if (a->json) {
        json_end_array(&j);
        json_end_object(&j);
        return r;
    }
    printf("\nfull   the format's own library decodes the whole picture: libjpeg-turbo, libpng, "
           "libwebp, libavif\nturbo  libjpeg-turbo decodes what lies under the crop, for the same "
           "pixels\nwhole  Plenum decodes the whole picture, and hashes it\n"
           "first  Plenum in a first epoch; later: with hints about where tiles begin\n\n");
    for (const struct form *f = forms; f->name; f++)
        printf("%-12s %s\n", f->name, f->what);
    return r;
}

static int context_init(struct render_context *c, const struct bench_render_arguments *a,
                        struct plenum_error *err)
{
    int r = pipeline_parse(a->pipeline, &c->pipeline, err);
    size_t room = 0;

    if (r < 0)
        return r;
    if (c->pipeline.crop != PIPELINE_RRC || c->pipeline.exif)
        return error_set(err, -EINVAL, "--pipeline: it must be rrc(S), without exif");
    if (a->forms && (a->rows || a->kernels))
        return error_set(err, -EINVAL, "--forms has its own rows: omit --rows and --kernels");
    c->seed = a->seed;
    r = render_rows_init(a->forms ? FORM_ROWS : a->rows, a->kernels, &room, err);
    if (r < 0)
        return r;
    c->dst = malloc(max_u64(room, (size_t)c->pipeline.width * c->pipeline.height * 4));
    if (!c->dst || image_decoder_create(&c->decoder) < 0)
        return error_set(err, -ENOMEM, "out of memory");
#ifdef HAVE_FFCV_WAY
    if (ffcv_way_create(&c->ffcv) < 0)
        return error_set(err, -ENOMEM, "TurboJPEG does not start");
#endif
    return 0;
}

static void context_fini(struct render_context *c)
{
#ifdef HAVE_FFCV_WAY
    ffcv_way_destroy(c->ffcv);
#endif
    image_decoder_destroy(c->decoder);
    render_rows_fini();
    for (size_t i = 0; i < c->num_packed; i++)
        free(c->packed[i].bytes);
    free(c->packed);
    for (size_t i = 0; i < c->num_hints; i++)
        free(c->hints[i].bytes);
    free(c->hints);
    free(c->dst);
}

int main(int argc, char **argv)
{
    struct bench_render_arguments a = {.pipeline = "train", .rounds = 15, .seed = 1};
    struct bench_files files = {0};
    struct render_context c = {0};
    struct plenum_error err = {""};
    int r = bench_start(&program, &a, &a.images, argc, argv);

    if (r >= 0)
        return r;
    r = context_init(&c, &a, &err);
    if (r == 0)
        r = bench_files_load(a.images, a.limit, &files, &err);
    if (r == 0)
        r = a.forms ? compare_forms(&a, &c, &files) : compare_rows(&a, &c, &files, &err);
    if (r < 0)
        log_error("%s", err.text[0] ? err.text : strerror(-r));
    bench_files_free(&files);
    context_fini(&c);
    return r < 0;
}
