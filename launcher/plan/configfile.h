/* SPDX-License-Identifier: MIT */
/* configfile.h - options in a file: "name = value", one per line. */
#ifndef LAUNCHER_CONFIGFILE_H
#define LAUNCHER_CONFIGFILE_H

#include <plenum/error.h>

#include "common/options/options.h"
#include "launcher/values/texts.h"

/**
 * Append a file's options to `*ret`, in order, except those that `own` already has.
 *
 * Lines are "name = value" or "name: value", with the names used on the command line; '#' begins a
 * comment line; quotes around a value keep its spaces; a flag takes yes or no. A name may be
 * repeated if it may be repeated on the command line.
 *
 * @param texts  owns the values
 *
 * Errors: -errno from reading; -EINVAL with file and line; -ENOMEM.
 */
int configfile_read(const char *path, const struct options_settings *own,
                    struct options_settings *ret, struct texts *texts, struct plenum_error *err);

/**
 * Write options in the form that configfile_read() reads, except those that a file cannot contain
 * (--import-config, --export-config, --overwrite-config, --version-format).
 *
 * Errors, each with a message: -EEXIST if the file exists and must not be overwritten, or another
 * -errno.
 */
int configfile_write(const char *path, const struct options_settings *settings, bool overwrite,
                     struct plenum_error *err);

#endif
