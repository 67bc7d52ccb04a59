/* SPDX-License-Identifier: MIT */
/* ctl.h - what the subcommands of plenumctl share. Each subcommand has a file, which ends with its
 * entry for the table in plenumctl.c. */
#ifndef LOADER_CTL_CTL_H
#define LOADER_CTL_CTL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/options/options.h"
#include "common/order/order.h"
#include "loader/render/render.h"

struct status;

struct ctl_command {
    const char *name;
    const char *summary; /* one line for plenumctl --help */
    /** Run the command; argv[0] is its name. Returns the exit status: 0 success, 1 failure, 2
     * usage. */
    int (*run)(int argc, char **argv);
};

extern const struct ctl_command ctl_bench, ctl_cache, ctl_hash, ctl_index, ctl_job, ctl_key,
    ctl_make_sample, ctl_order, ctl_pack, ctl_plan, ctl_preview, ctl_sample, ctl_status, ctl_trace,
    ctl_verify;

/** The options that determine pixels, for all subcommands that render. */
struct ctl_stream_args {
    const char *pipeline, *shuffle, *subset, *last, *bad, *cache_dir, *fields;
    uint64_t seed;
    uint32_t replicas, micro_batch, repeat;
    bool own_boxes; /* if the pipeline depends on boxes, use those of a detection data set */
};

#define CTL_STREAM_DEFAULTS                                                           \
    {                                                                                 \
        .pipeline = "train", .shuffle = "global", .last = "pad", .bad = "substitute", \
        .replicas = 1, .micro_batch = 1, .repeat = 1                                  \
    }

/* clang-format off */
/** Option table entries that fill a struct ctl_stream_args: field `f` of struct `t`. */
#define CTL_STREAM_OPTIONS(t, f)                                                                   \
    {"pipeline", 'p', "TEXT", OPTION_TEXT, offsetof(t, f.pipeline),                                \
     .help = "how to render images: train (default), eval, or stages such as "                     \
             "'rrc(224) flip(0.5)'"},                                                              \
    {"seed", 's', "N", OPTION_U64, offsetof(t, f.seed),                                            \
     .help = "key of all random numbers (default 0)"},                                             \
    {"shuffle", 0, "ORDER", OPTION_TEXT, offsetof(t, f.shuffle),                                   \
     .help = "global (default), none or block:B"},                                                 \
    {"subset", 0, "A:B", OPTION_TEXT, offsetof(t, f.subset),                                       \
     .help = "use only samples A to B - 1 of the data set"},                                       \
    {"repeat", 0, "K", OPTION_U32, offsetof(t, f.repeat), 1, UINT32_MAX,                           \
     .help = "show each sample K times in a row, each time with a different crop (default 1)"},    \
    {"bad", 0, "POLICY", OPTION_TEXT, offsetof(t, f.bad),                                          \
     .help = "substitute (default) a bad sample, or fail"},                                        \
    {"cache-dir", 0, "DIR", OPTION_TEXT, offsetof(t, f.cache_dir),                                 \
     .help = "folder for indices"}
/* clang-format on */

/** The words that these and other common options accept as values. */
extern const struct option_words ctl_words[];

/** A data set opened for rendering, with the steps of its epochs. */
struct ctl_stream {
    struct dataset *dataset;
    struct render_spec spec;
    struct order_steps steps;
};

/** Open a data set for rendering into u8 RGB NHWC. Returns 0, or -errno with a message. */
int ctl_stream_open(const char *dataset, const struct ctl_stream_args *args, struct ctl_stream *ret,
                    struct plenum_error *err);
/** Open part `part` of `parts`, as an instance of a job with split = file does. */
int ctl_part_open(const char *dataset, const struct ctl_stream_args *args, uint32_t part,
                  uint32_t parts, struct ctl_stream *ret, struct plenum_error *err);
void ctl_stream_close(struct ctl_stream *stream);

/** Show progress on standard error: in place on a terminal, otherwise as a line every ten seconds.
 * For dataset_options.progress. */
void ctl_show_progress(void *arg, const char *what, uint64_t done, uint64_t total);
/** Remove the progress line. */
void ctl_end_progress(void);

/** Write a data set's name to `ret` in a form that is safe to print on a terminal. */
char *ctl_plain_name(const struct dataset *dataset, char *ret, size_t size);

/** The number of JPEGs among some files, and how many of these are progressive. */
struct ctl_jpegs {
    uint64_t all, progressive;
};

/** Returns the counts for one file. */
struct ctl_jpegs ctl_jpegs_of(const uint8_t *bytes, size_t len);

/** Print in a summary how many JPEGs are progressive (or which share, if `drawn` samples were
 * counted), and what to do about it. Prints nothing if there are none. */
void ctl_print_progressive(const struct ctl_jpegs *jpegs, bool drawn);

/** Remove "NAME: " from the start of a message that is shown next to that name. */
void ctl_strip_name(struct plenum_error *err, const char *name);

/**
 * Like options_start(), for a subcommand with a fixed number of operands, which `needed` describes,
 * such as "one data set is". `target` is NULL if there are no options. Returns -1 to continue, or
 * the exit status.
 */
int ctl_start(const struct options_program *program, void *target, int argc, char **argv,
              int operands, const char *needed);

/** Copy a data set's name (malloc), with "~/" replaced by the home folder, because shells replace
 * it only at the beginning of a word, not after "tar:". NULL: out of memory. */
char *ctl_with_home(const char *name);

/** Like dataset_open(), but shows its progress, reads a plan from "@FILE", makes a plan's paths
 * absolute, and replaces "~/". Sets options->progress. */
int ctl_dataset_open(const char *name, struct dataset_options *options, struct dataset **ret,
                     struct plenum_error *err);

/** Returns whether an operand is a plan: the text of one, or "@FILE". */
bool ctl_is_plan(const char *name);

/** Processes the files of one data set. Returns an exit status, or -errno with `err` set. */
typedef int ctl_each(void *arg, const char *dataset, struct plenum_error *err);
/**
 * Call `each` for a data set, or once for each data set of a plan, even if several sets share it.
 * Stops at the first negative result. Returns that result, or the largest one.
 */
int ctl_for_each(const char *name, ctl_each *each, void *arg, struct plenum_error *err);

/** Like ctl_dataset_open(), but rejects a plan: for commands that process the files of one data
 * set. */
int ctl_files_open(const char *name, struct dataset_options *options, struct dataset **ret,
                   struct plenum_error *err);

/** How a command shows the status of a loader. */
struct ctl_status_view {
    const char *name; /* the command's name, for messages */
    bool json;        /* print no headings with addresses between several loaders */
    void (*write)(void *arg, const struct status *status);
    void *arg;
};

/** Request and show the status of the loader at an address. If `named` is NULL, do this for all
 * loaders that the user may mean, as plenumctl status does. Returns 0, 1 if one of several does not
 * answer, or -errno with `err` set. */
int ctl_show_status(const char *named, const struct ctl_status_view *view,
                    struct plenum_error *err);

/** Remove the progress line, print "plenumctl NAME: MESSAGE" to standard error and return 1. */
int ctl_fail(const char *name, const struct plenum_error *err);

/** Write a whole file under a temporary name, then rename it. Returns 0, or -errno with a
 * message. */
int ctl_write_file(const char *path, const void *bytes, size_t len, struct plenum_error *err);

#endif
