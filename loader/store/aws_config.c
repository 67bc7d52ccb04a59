/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/store/aws_config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum { FILE_BYTES_MAX = 64 << 10 };

static const char *const keys[AWS_KEYS] = {
    [AWS_KEY_ID] = "aws_access_key_id",
    [AWS_SECRET] = "aws_secret_access_key",
    [AWS_TOKEN] = "aws_session_token",
    [AWS_REGION] = "region",
    [AWS_ENDPOINT] = "endpoint_url",
    [AWS_ROLE] = "role_arn",
    [AWS_TOKEN_FILE] = "web_identity_token_file",
    [AWS_PROCESS] = "credential_process",
    [AWS_SSO] = "sso_session",
};

const char *aws_variable(const char *name)
{
    const char *value = getenv(name);

    return value && *value ? value : NULL;
}

void aws_wipe(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

void aws_config_fini(struct aws_config *config)
{
    for (size_t i = 0; i < AWS_KEYS; i++)
        aws_wipe(config->value[i]);
    *config = (struct aws_config){.found = false};
}

/* A part of the text without the whitespace around it. */
struct slice {
    const char *at;
    size_t len;
};

static struct slice trim(const char *at, const char *end)
{
    while (at < end && isspace((unsigned char)*at))
        at++;
    while (end > at && isspace((unsigned char)end[-1]))
        end--;
    return (struct slice){at, (size_t)(end - at)};
}

static bool slice_is(struct slice s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.at, text, s.len) == 0;
}

/* Returns whether a line is the header of the profile's section: "[NAME]" or "[profile NAME]". */
static bool is_section(struct slice line, const char *profile)
{
    static const char word[] = "profile";
    const char *end = memchr(line.at, ']', line.len);
    struct slice name;

    if (!end)
        return false;
    name = trim(line.at + 1, end);
    if (slice_is(name, profile))
        return true;
    if (name.len < sizeof(word) || memcmp(name.at, word, sizeof(word) - 1) != 0 ||
        !isspace((unsigned char)name.at[sizeof(word) - 1]))
        return false;
    return slice_is(trim(name.at + sizeof(word), end), profile);
}

static int add_setting(struct slice line, struct aws_config *config)
{
    const char *equals = memchr(line.at, '=', line.len);
    struct slice key, value;

    if (!equals)
        return 0;
    key = trim(line.at, equals);
    value = trim(equals + 1, line.at + line.len);
    for (size_t i = 0; i < AWS_KEYS; i++) {
        if (!slice_is(key, keys[i]) || config->value[i] || value.len == 0)
            continue;
        config->value[i] = strndup(value.at, value.len);
        return config->value[i] ? 0 : -ENOMEM;
    }
    return 0;
}

int aws_config_parse(const char *text, size_t len, const char *profile, struct aws_config *config)
{
    const char *end = text + len, *next;
    bool inside = false;
    int r;

    for (const char *at = text; at < end; at = next + 1) {
        struct slice line;
        bool is_nested = isspace((unsigned char)*at); /* it belongs to the setting above it */

        next = memchr(at, '\n', (size_t)(end - at));
        if (!next)
            next = end;
        line = trim(at, next);
        if (line.len == 0 || *line.at == '#' || *line.at == ';')
            continue;
        if (*line.at == '[') {
            inside = is_section(line, profile);
            config->found = config->found || inside;
        } else if (inside && !is_nested) {
            r = add_setting(line, config);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

int aws_read_file(const char *path, char **ret, size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    int64_t n;
    char *text;

    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return -EINVAL;
    }
    text = malloc(FILE_BYTES_MAX + 1);
    n = text ? io_pread_some(fd, text, FILE_BYTES_MAX, 0) : -ENOMEM;
    (void)close(fd);
    if (n < 0 || n == FILE_BYTES_MAX) {
        if (text)
            explicit_bzero(text, FILE_BYTES_MAX);
        free(text);
        return n < 0 ? (int)n : -EFBIG;
    }
    text[n] = '\0';
    *ret = text;
    *len = (size_t)n;
    return 0;
}

/* Returns the path of a file (malloc): the variable's value, or ~/.aws/NAME; NULL if there is no
 * home folder. */
static char *path_of(const char *variable, const char *name)
{
    const char *path = aws_variable(variable), *home = aws_variable("HOME");
    struct passwd entry, *found = NULL;
    char room[4096];

    if (path)
        return strdup(path);
    if (!home && getpwuid_r(geteuid(), &entry, room, sizeof(room), &found) == 0 && found)
        home = found->pw_dir;
    return home ? str_format("%s/.aws/%s", home, name) : NULL;
}

static int read_into(const char *variable, const char *name, const char *profile,
                     struct aws_config *config, struct plenum_error *err)
{
    char *path = path_of(variable, name), *text = NULL;
    size_t len = 0;
    int r = path ? aws_read_file(path, &text, &len) : -ENOENT;

    if ((r == -ENOENT || r == -ENOTDIR || r == -EACCES) && !aws_variable(variable)) {
        r = 0; /* a service often cannot read its home folder */
        goto out;
    }
    if (r < 0) {
        r = error_set(err, r, "%s: %s", path, strerror(-r));
        goto out;
    }
    r = aws_config_parse(text, len, profile, config);
    explicit_bzero(text, len);
    if (r < 0)
        r = error_set(err, r, "out of memory");

out:
    free(text);
    free(path);
    return r;
}

int aws_config_read(struct aws_config *ret, struct plenum_error *err)
{
    const char *chosen = aws_variable("AWS_PROFILE"), *profile = chosen ? chosen : "default";
    struct aws_config config = {.found = false};
    int r = read_into("AWS_SHARED_CREDENTIALS_FILE", "credentials", profile, &config, err);

    if (r == 0)
        r = read_into("AWS_CONFIG_FILE", "config", profile, &config, err);
    if (r == 0 && chosen && !config.found)
        r = error_set(err, -EINVAL,
                      "AWS_PROFILE is '%s', but neither ~/.aws/credentials nor ~/.aws/config has "
                      "this profile",
                      chosen);
    if (r < 0)
        aws_config_fini(&config);
    else
        *ret = config;
    return r;
}
