/* SPDX-License-Identifier: MIT */
/* output.h - the one writer of our standard output and standard error. */
#ifndef LAUNCHER_OUTPUT_H
#define LAUNCHER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

#include "launcher/control.h"

enum { OUTPUT_FAILURE_MAX = 1200 };

/** A queue and a thread that writes it out, however slow the reader. Opaque. */
struct output;

/** What the output knows of an instance: for tags, and names of files. */
struct output_instance {
    uint32_t index;   /* in the plan */
    const char *host; /* borrowed for the output's life */
    pid_t pid;
    bool hidden; /* goes to files only */
};

struct output_options {
    const char *tag;    /* template (tag.h); NULL: no tags */
    const char *folder; /* of files for each instance and stream, made if need be; NULL: none */
    bool append;        /* to files that are there */
    const struct output_instance *instances;
    uint32_t count; /* of instances */
    int stdout_fd, stderr_fd;
};

int output_create(const struct output_options *options, struct output **ret,
                  struct plenum_error *err);

/**
 * Queue bytes of an instance (copied): 0 or -ENOMEM.
 *
 * They are written in the order of these calls. Whole lines stay whole; when bytes end within a
 * line and somebody else's follow, a newline is put between.
 */
int output_put(struct output *output, uint32_t instance, enum control_stream stream,
               const char *bytes, size_t len);

/**
 * Queue what an unfinished line shows at the moment (copied): on a terminal it is the last line,
 * until something else is written. Elsewhere it is nothing.
 */
int output_put_progress(struct output *output, uint32_t instance, enum control_stream stream,
                        const char *bytes, size_t len);

/** Queue text of our own, on standard error or standard output. There is no limit: for tables and
 * reports, of which there are few. */
int output_put_own(struct output *output, bool on_stderr, const char *bytes, size_t len);

/** Queue a message for standard error. While nobody takes standard error, messages wait up to a
 * limit; those beyond it are dropped, and when there is room again a line tells how many. */
int output_put_message(struct output *output, const char *bytes, size_t len);

/** The process of an instance, for tags. */
void output_set_pid(struct output *output, uint32_t instance, pid_t pid);

/** A descriptor that is readable when bytes were written out or an output failed. Borrowed. */
int output_get_fd(const struct output *output);

/** Bytes of an instance that were written out (or thrown away) since the last call. */
uint64_t output_collect_credit(struct output *output, uint32_t instance);
/** Reset output_get_fd(): to be called before a round of output_collect_credit(). */
void output_acknowledge(struct output *output);

/** 0, or the -errno with which writing to standard output or standard error failed first (`*stream`
 * names which): what is queued for it is thrown away then. */
int output_get_failure(struct output *output, const char **stream);

/** Has a file lost output? */
bool output_lost_files(struct output *output);

/** How many files have failed since the last call; `ret` names each with its reason, as far as it
 * has room. */
uint32_t output_take_file_failures(struct output *output, char ret[OUTPUT_FAILURE_MAX]);

/** Is all written? */
bool output_is_idle(struct output *output);

/** Wait until all is written, at most `timeout_ms` (-1: as long as it takes): 0 or -ETIMEDOUT. */
int output_flush(struct output *output, int timeout_ms);

/** End the thread. What is not written yet is lost: flush before. When the reader does not read,
 * the thread and its memory are left to the end of the process. */
void output_destroy(struct output *output);

#endif
