/* SPDX-License-Identifier: MIT */
/* endpoint.h - finds the server that requests for a bucket go to. */
#ifndef LOADER_STORE_ENDPOINT_H
#define LOADER_STORE_ENDPOINT_H

#include <stdbool.h>
#include <stddef.h>

#include <plenum/error.h>

#include "loader/store/aws_config.h"

struct endpoint {
    char scheme[8]; /* "https" or "http" */
    char host[256]; /* with its port, as in the header Host */
    char path[512]; /* before the key, with its leading slash and without a final one: "/bucket" */
    char region[64];
    bool is_aws; /* otherwise the user configured it */
};

/**
 * Find the endpoint of a bucket: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, endpoint_url of the
 * profile, or AWS in the configured region.
 *
 * AWS is used only if a region is configured, and a configured endpoint that is empty or malformed
 * is an error: requests meant for another store must not go to AWS.
 *
 * Errors: -EINVAL with `err` set.
 */
int endpoint_find(const char *bucket, const struct aws_config *config, struct endpoint *ret,
                  struct plenum_error *err);

/** Write the endpoint of an AWS bucket in this region to `ret`. */
void endpoint_of_aws(const char *bucket, const char *region, struct endpoint *ret);

#endif
