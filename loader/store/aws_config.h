/* SPDX-License-Identifier: MIT */
/* aws_config.h - the files of AWS's tools, ~/.aws/credentials and ~/.aws/config. */
#ifndef LOADER_STORE_AWS_CONFIG_H
#define LOADER_STORE_AWS_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

/** The settings that are used. */
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
    bool found;            /* a file has the profile */
};

/** Add the settings of a section ("profile NAME" and "NAME" are equivalent), except those that are
 * set already. 0 or -ENOMEM. Lines that are not understood are ignored, as AWS's tools do. */
int aws_config_parse(const char *text, size_t len, const char *profile, struct aws_config *config);

/**
 * Read the profile AWS_PROFILE (default "default") from both files: 0, also if neither exists.
 *
 * Errors: -EACCES and others if a file cannot be read; -EINVAL AWS_PROFILE names a profile that no
 * file has; -ENOMEM; with `err` set.
 */
int aws_config_read(struct aws_config *ret, struct plenum_error *err);
void aws_config_fini(struct aws_config *config);

/** The value of an environment variable, or NULL if it is unset or empty. */
const char *aws_variable(const char *name);

/** Read a small file of at most 64 KiB, NUL-terminated, malloc: 0 or -errno. */
int aws_read_file(const char *path, char **ret, size_t *len);

/** Wipe and free a string. NULL is ignored. */
void aws_wipe(char *text);

#endif
