/* SPDX-License-Identifier: MIT */
/* output.h - the only writer of our standard output and standard error. */
#ifndef LAUNCHER_OUTPUT_H
#define LAUNCHER_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <plenum/error.h>

#include "launcher/control/control.h"

enum { OUTPUT_FAILURE_MAX = 1200 };

/** A queue, and a thread that writes it out, however slow the reader is. Opaque. */
struct output;

/** What the output needs for an instance's tags and file names. */
struct output_instance {
    uint32_t index;   /* the instance's index in the plan */
    const char *host; /* borrowed for the output's life */
    pid_t pid;
    bool hidden; /* written to files only */
};

struct output_options {
    const char *tag;    /* template (tag.h); NULL: no tags */
    const char *folder; /* folder with a file per instance and stream, or NULL */
    bool append;        /* append to existing files */
    const struct output_instance *instances;
    uint32_t count; /* number of instances */
    int stdout_fd, stderr_fd;
};

int output_create(const struct output_options *options, struct output **ret,
                  struct plenum_error *err);

/**
 * Queue bytes of an instance (copied). Returns 0 or -ENOMEM.
 *
 * They are written in the order of these calls. Lines stay whole; if bytes end within a line and
 * another instance's follow, a newline is inserted.
 */
int output_put(struct output *output, uint32_t instance, enum control_stream stream,
               const char *bytes, size_t len);

/**
 * Queue the current contents of an unfinished line (copied). A terminal shows it as the last line
 * until something else is written; other outputs ignore it. Dropped if one of this stream is
 * queued.
 */
int output_put_progress(struct output *output, uint32_t instance, enum control_stream stream,
                        const char *bytes, size_t len);

/** Queue our own text for CONTROL_STDERR or CONTROL_STDOUT. There is no limit: this is for tables
 * and reports, which are rare. */
int output_put_own(struct output *output, enum control_stream stream, const char *bytes,
                   size_t len);

/** Queue a message for standard error. While standard error is not being read, messages queue up to
 * a limit; further ones are dropped, and a later line reports how many. */
int output_put_message(struct output *output, const char *bytes, size_t len);

/** Set the process number of an instance, for tags. */
void output_set_pid(struct output *output, uint32_t instance, pid_t pid);

/** Returns a descriptor that becomes readable when bytes were written or an output failed.
 * Borrowed. */
int output_get_fd(const struct output *output);

/** Take the credit of an instance: the number of its bytes that were written (or discarded) since
 * the last call; 0: no instance has any. */
uint64_t output_collect_credit(struct output *output, uint32_t *ret_instance);
/** Reset output_get_fd(). Call this before a round of output_collect_credit(). */
void output_acknowledge(struct output *output);

/** Returns 0, or the first -errno from writing to standard output or standard error; `*stream` is
 * the name of that stream. Bytes queued for it are then discarded. */
int output_get_failure(struct output *output, const char **stream);

/** Has a file lost output? */
bool output_lost_files(struct output *output);

/** Returns how many files have failed since the last call. `ret` names as many of them as fit, each
 * with its reason. */
uint32_t output_take_file_failures(struct output *output, char ret[OUTPUT_FAILURE_MAX]);

/** Wait until everything is written, at most `timeout_ms` (-1: no limit). Returns 0 or
 * -ETIMEDOUT. */
int output_flush(struct output *output, int timeout_ms);

/** End the thread. Unwritten output is lost, so flush first. If the thread is still writing, it and
 * its memory are left until the process ends. NULL is ignored. */
void output_destroy(struct output *output);

#endif
