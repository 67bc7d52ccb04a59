/* SPDX-License-Identifier: MIT */
/* credentials.h - finds the credentials of this process for S3, and renews them. It checks
 * AWS_NO_SIGN_REQUEST first, and then the places that AWS's tools check, in this order:
 *
 *     AWS_NO_SIGN_REQUEST=1          anonymous
 *     AWS_ACCESS_KEY_ID, ...         the environment
 *     AWS_WEB_IDENTITY_TOKEN_FILE    web identity (Kubernetes service accounts)
 *     AWS_PROFILE                    a profile of ~/.aws/credentials or ~/.aws/config
 *     AWS_CONTAINER_CREDENTIALS_...  the endpoint of a container (ECS, EKS)
 *     AWS_EC2_METADATA_...           the instance's role (IMDSv2)
 */
#ifndef LOADER_STORE_CREDENTIALS_H
#define LOADER_STORE_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** Constant. Their memory is left out of core dumps, and wiped before it is freed. Threads: any. */
struct credentials {
    bool anonymous;
    char key_id[256], secret[256], token[8192]; /* token: "" if there is none */
    uint64_t expires_s;                         /* time of day; UINT64_MAX: never */
    char source[128];                           /* "AWS_ACCESS_KEY_ID", for messages */
};

/**
 * Get the credentials. If necessary, this first finds or renews them, which may take seconds.
 * Release them with credentials_unref().
 *
 * @param bad  credentials that a server rejected as expired, which must not be returned if others
 *             can be found; or NULL
 *
 * Errors: -ENOKEY none were found; -EACCES, -EINVAL and others; `err` says what to do.
 */
int credentials_get(const struct credentials *bad, const struct credentials **ret,
                    struct plenum_error *err);
/** Returns the current credentials, or NULL if they have to be found or renewed first. Does not
 * block. */
const struct credentials *credentials_get_current(void);
void credentials_unref(const struct credentials *credentials);

/** Parse the answer of a container's or instance's endpoint. Returns 0, or -EBADMSG with `err`
 * set. */
int credentials_parse_json(const char *text, size_t len, struct credentials *ret,
                           struct plenum_error *err);
/** Parse the answer of AssumeRoleWithWebIdentity. Returns 0, or -EBADMSG with `err` set. */
int credentials_parse_sts(const char *text, size_t len, struct credentials *ret,
                          struct plenum_error *err);

#endif
