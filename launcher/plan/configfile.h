/* SPDX-License-Identifier: MIT */
/* configfile.h - options in a file: "name = value", one a line. */
#ifndef LAUNCHER_CONFIGFILE_H
#define LAUNCHER_CONFIGFILE_H

#include <plenum/error.h>

#include "common/options.h"
#include "launcher/texts.h"

/**
 * Append the options of a file, in its order, to `*ret`, but none that is in `own` already.
 *
 * Lines are "name = value" or "name: value", with the names of the command line; '#' begins a
 * comment line; quotes around a value keep its blanks; a flag takes yes or no. A name may come
 * again where it may on the command line.
 *
 * @param texts  keeps the values
 *
 * Errors: -errno of reading; -EINVAL with file and line; -ENOMEM.
 */
int configfile_read(const char *path, const struct options_settings *own,
                    struct options_settings *ret, struct texts *texts, struct plenum_error *err);

/**
 * Write options so that configfile_read() gets them back, apart from those about such files.
 *
 * Errors: -EEXIST when there is a file that may not be overwritten; -errno, with a sentence.
 */
int configfile_write(const char *path, const struct options_settings *settings, bool overwrite,
                     struct plenum_error *err);

#endif
