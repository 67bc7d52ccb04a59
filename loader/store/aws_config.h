/* SPDX-License-Identifier: MIT */
/* aws_config.h - reads the files of AWS's tools, ~/.aws/credentials and ~/.aws/config. */
#ifndef LOADER_STORE_AWS_CONFIG_H
#define LOADER_STORE_AWS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

/** The settings that we use. */
enum aws_key {
    AWS_KEY_ID,
    AWS_SECRET,
    AWS_TOKEN,
    AWS_REGION,
    AWS_ENDPOINT,
    AWS_ROLE,
    AWS_TOKEN_FILE,
    AWS_PROCESS,
    AWS_SSO,
    AWS_KEYS
};

/** The settings of one profile. Zero-initialised. */
struct aws_config {
    char *value[AWS_KEYS]; /* owned, and wiped; NULL: not set */
    bool found;            /* one of the files has the profile */
};

/** Add the settings in the section of a profile ("profile NAME" or "NAME"), except those that are
 * already set. Returns 0 or -ENOMEM. Malformed lines are ignored, as in AWS's tools. */
int aws_config_parse(const char *text, size_t len, const char *profile, struct aws_config *config);

/**
 * Read the profile AWS_PROFILE (default "default") from both files. Returns 0 even if the files in
 * ~/.aws do not exist or may not be read.
 *
 * Errors: -ENOENT, -EACCES and others if a file that a variable names cannot be read; -EINVAL
 * AWS_PROFILE names a profile that no file has; -ENOMEM; with `err` set.
 */
int aws_config_read(struct aws_config *ret, struct plenum_error *err);
void aws_config_fini(struct aws_config *config);

/** Returns the value of an environment variable, or NULL if it is unset or empty. */
const char *aws_variable(const char *name);

/** Read a regular file of less than 64 KiB into `*ret` (malloc, NUL-terminated). Returns 0, -EFBIG
 * or another -errno. */
int aws_read_file(const char *path, char **ret, size_t *len);

/** Wipe and free a string. NULL is ignored. */
void aws_wipe(char *text);

#endif
