/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/store/credentials.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "loader/store/aws_config.h"
#include "loader/store/exchange.h"
#include "loader/store/listing.h"
#include "loader/store/store_place.h"

enum {
    EARLY_S = 300,        /* credentials are renewed this long before they expire */
    LATE_S = 20,          /* credentials are not used in this time before they expire */
    METADATA_TRIES = 3,   /* tries of the metadata endpoints */
    METADATA_MS = 1000,   /* time limit of each try for connecting */
    METADATA_STALL_S = 5, /* time limit of each try for an answer */
};

/* Whether a provider is configured. */
enum provided { NOT_CONFIGURED = 0, PROVIDED = 1 };

struct kept_credentials {
    struct credentials public; /* must be first */
    atomic_uint refs;
};

/* Held while credentials are found, which may take seconds. `mu` is acquired inside it. */
static struct lock renewal = LOCK_INITIALIZER;
static struct lock mu = LOCK_INITIALIZER;
static struct kept_credentials *current; /* protected by mu; NULL: none yet */

static struct kept_credentials *create(void)
{
    size_t size = sizeof(struct kept_credentials);
    struct kept_credentials *c =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (c == MAP_FAILED)
        return NULL;
    (void)madvise(c, size, MADV_DONTDUMP);
    atomic_init(&c->refs, 1);
    c->public.expires_s = UINT64_MAX;
    return c;
}

void credentials_unref(const struct credentials *credentials)
{
    struct kept_credentials *c = (struct kept_credentials *)(uintptr_t)credentials;

    if (!c || atomic_fetch_sub(&c->refs, 1) != 1)
        return;
    explicit_bzero(c, sizeof(*c));
    (void)munmap(c, sizeof(*c));
}

static uint64_t now_s(void)
{
    return time_clock_ns(CLOCK_REALTIME) / NS_PER_SEC;
}

/* ---- answers of endpoints ---- */

static bool copy(const char *text, char *ret, size_t size)
{
    return (size_t)snprintf(ret, size, "%s", text ? text : "") < size;
}

/* Copy the string value of a member of a flat JSON object. Returns false if there is none, if it
 * does not fit, or if it contains a control character. Only escaped slashes, quotes and backslashes
 * are decoded, because credentials have no other escapes. */
static bool copy_member(const char *text, size_t len, const char *name, char *ret, size_t size)
{
    const char *at, *end = text + len;
    size_t used = 0;
    char *quoted = str_format("\"%s\"", name);

    ret[0] = '\0';
    at = quoted ? memmem(text, len, quoted, strlen(quoted)) : NULL;
    at = at ? at + strlen(quoted) : end;
    free(quoted);
    while (at < end && strchr(" \t\r\n:", *at) && *at)
        at++;
    if (at == end || *at++ != '"')
        return false;
    for (; at < end && *at != '"' && used + 1 < size; at++) {
        at += *at == '\\' && end - at > 1 && strchr("/\\\"", at[1]);
        if ((unsigned char)*at < ' ')
            return false;
        ret[used++] = *at;
    }
    ret[used] = '\0';
    return at < end && *at == '"';
}

static int check_expiry(const char *text, struct credentials *ret, struct plenum_error *err)
{
    ret->expires_s = *text ? answer_parse_time(text) : UINT64_MAX;
    return ret->expires_s ? 0 : error_set(err, -EBADMSG, "its expiration is malformed");
}

int credentials_parse_json(const char *text, size_t len, struct credentials *ret,
                           struct plenum_error *err)
{
    char expires[64];

    if (!copy_member(text, len, "AccessKeyId", ret->key_id, sizeof(ret->key_id)) ||
        !copy_member(text, len, "SecretAccessKey", ret->secret, sizeof(ret->secret)))
        return error_set(err, -EBADMSG, "its answer contains no credentials");
    (void)copy_member(text, len, "Token", ret->token, sizeof(ret->token));
    (void)copy_member(text, len, "Expiration", expires, sizeof(expires));
    return check_expiry(expires, ret, err);
}

int credentials_parse_sts(const char *text, size_t len, struct credentials *ret,
                          struct plenum_error *err)
{
    char expires[64];

    if (!listing_find(text, len, "AccessKeyId", ret->key_id, sizeof(ret->key_id)) ||
        !listing_find(text, len, "SecretAccessKey", ret->secret, sizeof(ret->secret)) ||
        !listing_find(text, len, "SessionToken", ret->token, sizeof(ret->token)))
        return error_set(err, -EBADMSG, "its answer contains no credentials");
    (void)listing_find(text, len, "Expiration", expires, sizeof(expires));
    return check_expiry(expires, ret, err);
}

/* Send a request to an endpoint of this host or to STS, at most METADATA_TRIES times if it
 * fails. */
static int ask(struct exchange *x, struct plenum_error *err)
{
    const char *const *headers = x->transfer.headers;
    struct transfer request = x->transfer;

    assert(request.url && headers && !x->body);
    for (int i = 0; i < METADATA_TRIES; i++) {
        exchange_fini(x);
        *x = (struct exchange){.transfer = {.method = request.method,
                                            .url = request.url,
                                            .headers = headers,
                                            .any_address = request.any_address,
                                            .no_proxy = request.no_proxy,
                                            .connect_ns = METADATA_MS * NS_PER_MS,
                                            .stall_ns = METADATA_STALL_S * NS_PER_SEC}};
        exchange_run(x, NULL);
        if (x->code == 0 && x->answer.status < 500)
            break;
    }
    if (x->code < 0)
        return error_set(err, x->code, "%s", x->why.text);
    return x->answer.status == 200 && x->body
               ? 0
               : error_set(err, -EACCES, "it answers with status %u", x->answer.status);
}

/* ---- providers: PROVIDED, NOT_CONFIGURED, or -errno ---- */

static int set_keys(const char *id, const char *secret, const char *token, const char *source,
                    struct credentials *ret, struct plenum_error *err)
{
    if (!secret)
        return error_set(err, -EINVAL, "%s: the access key has no secret key", source);
    if (!copy(id, ret->key_id, sizeof(ret->key_id)) ||
        !copy(secret, ret->secret, sizeof(ret->secret)) ||
        !copy(token, ret->token, sizeof(ret->token)))
        return error_set(err, -EINVAL, "%s: a key is too long", source);
    (void)copy(source, ret->source, sizeof(ret->source));
    return PROVIDED;
}

static int from_environment(struct credentials *ret, struct plenum_error *err)
{
    const char *off = aws_variable("AWS_NO_SIGN_REQUEST"), *id = aws_variable("AWS_ACCESS_KEY_ID");

    if (off && (*off == '1' || strcasecmp(off, "yes") == 0 || strcasecmp(off, "true") == 0)) {
        ret->anonymous = true;
        (void)copy("AWS_NO_SIGN_REQUEST", ret->source, sizeof(ret->source));
        return PROVIDED;
    }
    return id ? set_keys(id, aws_variable("AWS_SECRET_ACCESS_KEY"),
                         aws_variable("AWS_SESSION_TOKEN"), "AWS_ACCESS_KEY_ID", ret, err)
              : NOT_CONFIGURED;
}

/* Returns the configured endpoint of STS, or NULL for AWS's. The token must not go to AWS if
 * another service is configured. */
static const char *sts_endpoint(void)
{
    const char *own = aws_variable("AWS_ENDPOINT_URL_STS");

    return own ? own : aws_variable("AWS_ENDPOINT_URL");
}

/* Exchange the token in a file for the credentials of a role. */
static int assume_role(const char *role, const char *file, const char *region,
                       struct credentials *ret, struct plenum_error *err)
{
    static const char *const none[] = {NULL};
    struct exchange x = {.answer = {0}};
    char *token = NULL, *name = place_encode(role, true), *quoted = NULL, *url = NULL;
    const char *endpoint = sts_endpoint();
    size_t len;
    int r = aws_read_file(file, &token, &len);

    if (r < 0) {
        r = error_set(err, r, "web identity token %s: %s", file, strerror(-r));
        goto out;
    }
    while (len > 0 && (unsigned char)token[len - 1] <= ' ')
        token[--len] = '\0';
    quoted = place_encode(token, true);
    if (quoted && name && endpoint)
        url = str_format("%s%s?Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleSessionName="
                         "plenum&RoleArn=%s&WebIdentityToken=%s",
                         endpoint, endpoint[strlen(endpoint) - 1] == '/' ? "" : "/", name, quoted);
    else if (quoted && name)
        url = str_format("https://sts%s%s.amazonaws.com/?Action=AssumeRoleWithWebIdentity&Version="
                         "2011-06-15&RoleSessionName=plenum&RoleArn=%s&WebIdentityToken=%s",
                         region ? "." : "", region ? region : "", name, quoted);
    if (!url) {
        r = error_set(err, -ENOMEM, "out of memory");
        goto out;
    }
    x.transfer = (struct transfer){
        .method = "GET", .url = url, .headers = none, .any_address = endpoint != NULL};
    r = ask(&x, err);
    if (r == 0)
        r = credentials_parse_sts(x.body, x.body_len, ret, err);
    r = r < 0 ? error_prefix(err, r, "role %s by web identity", role) : PROVIDED;
    (void)copy("AWS_WEB_IDENTITY_TOKEN_FILE", ret->source, sizeof(ret->source));

out:
    exchange_fini(&x);
    aws_wipe(token);
    aws_wipe(quoted);
    aws_wipe(url);
    free(name);
    return r;
}

static int from_profile(const struct aws_config *config, struct credentials *ret,
                        struct plenum_error *err)
{
    const char *role = config->value[AWS_ROLE], *file = config->value[AWS_TOKEN_FILE];

    if (role && file)
        return assume_role(role, file, config->value[AWS_REGION], ret, err);
    if (config->value[AWS_KEY_ID])
        return set_keys(config->value[AWS_KEY_ID], config->value[AWS_SECRET],
                        config->value[AWS_TOKEN], "profile in ~/.aws", ret, err);
    if (role || config->value[AWS_PROCESS] || config->value[AWS_SSO])
        return error_set(
            err, -ENOKEY,
            "the profile in ~/.aws uses %s, which Plenum does not support: export credentials with "
            "'aws configure export-credentials --format env'",
            config->value[AWS_SSO]       ? "single sign-on"
            : config->value[AWS_PROCESS] ? "credential_process"
                                         : "source_profile");
    return NOT_CONFIGURED;
}

/* Returns whether a container's token may be sent to this URL: over HTTPS, to this host, or to a
 * link-local address of AWS. */
static bool is_container_endpoint(const char *url)
{
    static const char *const hosts[] = {"localhost", "[::1]", "169.254.170.2", "169.254.170.23",
                                        "[fd00:ec2::23]"};
    char *plain = strndup(url, strcspn(url, "?#"));
    struct store_place place = {.host = NULL};
    bool may;

    if (!plain || place_parse(plain, &place, NULL) < 0) {
        free(plain);
        return false;
    }
    may = place.scheme == DATANAME_HTTPS ||
          (place.scheme == DATANAME_HTTP && strncmp(place.host, "127.", 4) == 0 &&
           place_is_literal(place.host));
    for (size_t i = 0; i < ARRAY_LEN(hosts) && place.scheme == DATANAME_HTTP; i++) {
        const char *port = str_after(place.host, hosts[i]);

        may = may || (port && (*port == '\0' || *port == ':'));
    }
    place_fini(&place);
    free(plain);
    return may;
}

static int from_container(struct credentials *ret, struct plenum_error *err)
{
    const char *relative = aws_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = aws_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    const char *file = aws_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    const char *token = aws_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
    char *read = NULL, *header = NULL, *url;
    const char *headers[2] = {NULL, NULL};
    struct exchange x = {.answer = {0}};
    size_t len;
    int r = 0;

    if (!relative && !full)
        return NOT_CONFIGURED;
    url = relative ? str_format("http://169.254.170.2%s", relative) : strdup(full);
    if (url && !is_container_endpoint(url))
        r = error_set(err, -EINVAL,
                      "AWS_CONTAINER_CREDENTIALS_FULL_URI must begin with https://, or name this "
                      "host");
    else if (file)
        r = aws_read_file(file, &read, &len);
    if (r == 0 && (read || token))
        headers[0] = header = str_format("Authorization: %s", read ? read : token);
    if (header)
        header[strcspn(header, "\r\n")] = '\0';
    x.transfer = (struct transfer){
        .method = "GET", .url = url, .headers = headers, .any_address = true, .no_proxy = true};
    if (r == 0)
        r = url ? ask(&x, err) : error_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        r = credentials_parse_json(x.body, x.body_len, ret, err);
    (void)copy("the container's endpoint", ret->source, sizeof(ret->source));
    exchange_fini(&x);
    aws_wipe(read);
    aws_wipe(header);
    free(url);
    return r < 0 ? error_prefix(err, r, "credentials of the container") : PROVIDED;
}

/* Request a path from the instance's metadata. Returns 0 with the body in x->body, or -errno. */
static int ask_instance(struct exchange *x, const char *method, const char *path,
                        const char *header, struct plenum_error *err)
{
    const char *base = aws_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    const char *headers[] = {header, NULL};
    char *url = str_format("%s%s", base ? base : "http://169.254.169.254", path);
    int r;

    if (!url)
        return error_set(err, -ENOMEM, "out of memory");
    exchange_fini(x);
    *x = (struct exchange){.transfer = {.method = method,
                                        .url = url,
                                        .headers = headers,
                                        .any_address = true,
                                        .no_proxy = true}};
    r = ask(x, err);
    free(url);
    return r;
}

/* Get credentials by IMDSv2: request a token, the name of the instance's role, and the role's
 * credentials. */
static int from_instance(struct credentials *ret, struct plenum_error *err)
{
    static const char folder[] = "/latest/meta-data/iam/security-credentials/";
    const char *off = aws_variable("AWS_EC2_METADATA_DISABLED");
    struct exchange x = {.answer = {0}};
    char *header = NULL, *path = NULL;
    int r;

    if (off && strcasecmp(off, "true") == 0)
        return NOT_CONFIGURED;
    r = ask_instance(&x, "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600",
                     err);
    if (r < 0) {
        exchange_fini(&x);
        return NOT_CONFIGURED; /* this host is not an EC2 instance */
    }
    x.body[strcspn(x.body, "\r\n")] = '\0';
    header = str_format("X-aws-ec2-metadata-token: %s", x.body);
    r = header ? ask_instance(&x, "GET", folder, header, err) : -ENOMEM;
    if (r == 0) {
        x.body[strcspn(x.body, "\r\n")] = '\0';
        path = str_format("%s%s", folder, x.body);
        r = path ? ask_instance(&x, "GET", path, header, err) : -ENOMEM;
    }
    if (r == 0)
        r = credentials_parse_json(x.body, x.body_len, ret, err);
    (void)copy("the instance's role", ret->source, sizeof(ret->source));
    exchange_fini(&x);
    aws_wipe(header);
    free(path);
    return r < 0 ? error_prefix(err, r, "credentials of the instance") : PROVIDED;
}

static int find(struct credentials *ret, struct plenum_error *err)
{
    const char *role = aws_variable("AWS_ROLE_ARN"),
               *file = aws_variable("AWS_WEB_IDENTITY_TOKEN_FILE");
    struct aws_config config = {.found = false};
    int r = from_environment(ret, err);

    if (r == NOT_CONFIGURED && role && file)
        r = assume_role(role, file, aws_variable("AWS_REGION"), ret, err);
    if (r != NOT_CONFIGURED)
        return r;
    r = aws_config_read(&config, err);
    if (r < 0)
        return r;
    r = from_profile(&config, ret, err);
    aws_config_fini(&config);
    if (r == NOT_CONFIGURED)
        r = from_container(ret, err);
    if (r == NOT_CONFIGURED)
        r = from_instance(ret, err);
    if (r == NOT_CONFIGURED)
        r = error_set(err, -ENOKEY,
                      "there are no credentials for S3 on this host: set AWS_ACCESS_KEY_ID and "
                      "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or AWS_NO_SIGN_REQUEST=1 for a "
                      "public bucket");
    return r;
}

/* ---- the current credentials ---- */

/* Returns a reference to the current credentials if they last for that many seconds and are not
 * `bad`, or NULL. Call it with mu held. */
static const struct credentials *use_current(uint64_t seconds, const struct credentials *bad)
{
    assert(lock_is_held(&mu));
    if (!current || &current->public == bad ||
        (current->public.expires_s != UINT64_MAX && current->public.expires_s <= now_s() + seconds))
        return NULL;
    (void)atomic_fetch_add(&current->refs, 1);
    return &current->public;
}

static const struct credentials *try_current(uint64_t seconds, const struct credentials *bad)
{
    const struct credentials *found;

    lock_acquire(&mu);
    found = use_current(seconds, bad);
    lock_release(&mu);
    return found;
}

const struct credentials *credentials_get_current(void)
{
    return try_current(LATE_S, NULL);
}

/* Find new credentials. If that fails, the current ones are used while they last. Call it with
 * `renewal` held. */
static int renew(const struct credentials *bad, const struct credentials **ret,
                 struct plenum_error *err)
{
    struct kept_credentials *fresh = create(), *old;
    int r = fresh ? find(&fresh->public, err) : error_set(err, -ENOMEM, "out of memory");

    assert(lock_is_held(&renewal));
    if (r < 0) {
        credentials_unref(fresh ? &fresh->public : NULL);
        *ret = try_current(LATE_S, bad);
        return *ret ? 0 : r;
    }
    lock_acquire(&mu);
    old = current;
    current = fresh;
    *ret = use_current(0, NULL);
    lock_release(&mu);
    credentials_unref(old ? &old->public : NULL);
    return *ret ? 0
                : error_set(err, -EACCES, "the credentials (%s) have expired: renew them",
                            fresh->public.source);
}

int credentials_get(const struct credentials *bad, const struct credentials **ret,
                    struct plenum_error *err)
{
    int r = 0;

    *ret = try_current(EARLY_S, bad);
    if (*ret)
        return 0;
    lock_acquire(&renewal);
    *ret = try_current(EARLY_S, bad); /* another thread may have renewed them */
    if (!*ret)
        r = renew(bad, ret, err);
    lock_release(&renewal);
    return r;
}
