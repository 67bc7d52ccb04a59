/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/store/endpoint.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/store/store_place.h"

static bool is_region(const char *text)
{
    return *text && strlen(text) < sizeof(((struct endpoint *)NULL)->region) &&
           !text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-")];
}

void endpoint_of_aws(const char *bucket, const char *region, struct endpoint *ret)
{
    const char *china = strncmp(region, "cn-", 3) == 0 ? ".cn" : "";
    bool by_path = strchr(bucket, '.') != NULL; /* a wildcard certificate covers no further dots */

    *ret = (struct endpoint){.scheme = "https", .is_aws = true};
    (void)snprintf(ret->region, sizeof(ret->region), "%s", region);
    (void)snprintf(ret->host, sizeof(ret->host), "%s%ss3.%s.amazonaws.com%s", by_path ? "" : bucket,
                   by_path ? "" : ".", region, china);
    (void)snprintf(ret->path, sizeof(ret->path), "%s%s", by_path ? "/" : "", by_path ? bucket : "");
}

/* Use a configured endpoint; `source` names the setting. */
static int use(const char *url, const char *source, const char *bucket, struct endpoint *ret,
               struct plenum_error *err)
{
    const char *style = aws_variable("PLENUM_S3_ADDRESSING");
    bool virtual = style && strcmp(style, "virtual") == 0;
    struct store_place place;
    size_t len;
    int r;

    if (style && !virtual && strcmp(style, "path") != 0)
        return error_set(err, -EINVAL, "PLENUM_S3_ADDRESSING must be path or virtual, not '%s'",
                         style);
    r = place_parse(url, &place, err);
    if (r < 0 || place.scheme == DATANAME_S3) {
        if (r == 0)
            place_fini(&place);
        return error_set(err, -EINVAL,
                         "%s is not the URL of an endpoint: use http://HOST:PORT or https://HOST",
                         source); /* not the URL: it may contain a password, and clients get this
                                   * message */
    }
    len = strlen(place.key);
    while (len > 0 && place.key[len - 1] == '/')
        len--;
    (void)snprintf(ret->scheme, sizeof(ret->scheme), "%s",
                   place.scheme == DATANAME_HTTPS ? "https" : "http");
    r = snprintf(ret->host, sizeof(ret->host), "%s%s%s", virtual ? bucket : "", virtual ? "." : "",
                 place.host);
    if (r < (int)sizeof(ret->host))
        r = snprintf(ret->path, sizeof(ret->path), "%s%.*s%s%s", len ? "/" : "", (int)len,
                     place.key, virtual ? "" : "/", virtual ? "" : bucket);
    place_fini(&place);
    return r < (int)sizeof(ret->host) ? 0 : error_set(err, -EINVAL, "%s is too long", source);
}

int endpoint_find(const char *bucket, const struct aws_config *config, struct endpoint *ret,
                  struct plenum_error *err)
{
    static const char *const names[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"};
    const char *region = aws_variable("AWS_REGION");

    if (!region)
        region = aws_variable("AWS_DEFAULT_REGION");
    if (!region)
        region = config->value[AWS_REGION];
    if (region && !is_region(region))
        return error_set(err, -EINVAL, "'%s' is not the name of a region", region);
    *ret = (struct endpoint){.is_aws = false};
    (void)snprintf(ret->region, sizeof(ret->region), "%s", region ? region : "us-east-1");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *url = getenv(names[i]);

        if (url && !*url)
            return error_set(err, -EINVAL,
                             "%s is set, but empty: name an endpoint, or unset it to use AWS",
                             names[i]);
        if (url)
            return use(url, names[i], bucket, ret, err);
    }
    if (config->value[AWS_ENDPOINT])
        return use(config->value[AWS_ENDPOINT], "endpoint_url of the profile in ~/.aws", bucket,
                   ret, err);
    if (!region)
        return error_set(err, -EINVAL,
                         "neither an endpoint nor a region is configured on this host: set "
                         "AWS_ENDPOINT_URL, or AWS_REGION for a bucket of AWS");
    endpoint_of_aws(bucket, region, ret);
    return 0;
}
