/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/store/hugging_face.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/dataname.h"
#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/store/aws_config.h"
#include "loader/store/store_place.h"

static const char hub[] = "https://huggingface.co";

static int malformed(const char *name, struct plenum_error *err)
{
    return error_set(err, -EINVAL,
                     "%s: names of files on the Hugging Face Hub have the form "
                     "hf://datasets/OWNER/NAME[@REVISION]/PATH",
                     name);
}

/* Returns the server, without a final slash (malloc). */
static char *find_server(void)
{
    const char *other = aws_variable("HF_ENDPOINT");
    char *server = strdup(other ? other : hub);

    for (size_t len = server ? strlen(server) : 0; len > 0 && server[len - 1] == '/'; len--)
        server[len - 1] = '\0';
    return server;
}

/* Returns the length of the revision after '@'. Revisions that the Hub creates contain slashes,
 * such as refs/convert/parquet and refs/pr/7. */
static size_t revision_length(const char *at)
{
    size_t len = strcspn(at, "/");

    if (len != 4 || strncmp(at, "refs", 4) != 0)
        return len;
    for (int i = 0; i < 2 && at[len] == '/'; i++)
        len += 1 + strcspn(at + len + 1, "/");
    return len;
}

/* Percent-encode a path, except for the characters of patterns (malloc). */
static char *encode(const char *path)
{
    char *plain = place_encode(path, false), *to = plain;
    static const char kept[] = "{},*?[]";

    for (const char *at = plain; plain && *at; to++) {
        uint8_t byte = 0;
        char digits[3] = {at[0] == '%' ? at[1] : '\0', at[0] == '%' ? at[2] : '\0', '\0'};

        if (digits[0] && parse_hex(digits, &byte, 1) == 0 && strchr(kept, byte) && byte) {
            *to = (char)byte;
            at += 3;
        } else {
            *to = *at++;
        }
    }
    if (plain)
        *to = '\0';
    return plain;
}

/* Build a URL from its parts (malloc); `set` [set_len] is OWNER/NAME. Returns 0 or -ENOMEM. */
static int join(const char *set, size_t set_len, const char *revision, size_t revision_len,
                const char *path, char **ret)
{
    char *server = find_server(), *quoted = encode(path);
    bool is_parquet = revision_len == 8 && strncmp(revision, "~parquet", 8) == 0;

    *ret = NULL;
    if (server && quoted)
        *ret =
            str_format("%s/datasets/%.*s/resolve/%.*s%s%s", server, (int)set_len, set,
                       (int)(is_parquet ? strlen("refs/convert/parquet") : revision_len),
                       is_parquet ? "refs/convert/parquet" : revision, *quoted ? "/" : "", quoted);
    free(server);
    free(quoted);
    return *ret ? 0 : -ENOMEM;
}

int hugging_face_url(const char *name, char **ret, struct plenum_error *err)
{
    enum dataname_scheme scheme;
    const char *rest = dataname_after_scheme(name, &scheme), *set, *revision = "main", *slash;
    size_t set_len, revision_len = strlen(revision);
    char *url;
    int r;

    set = rest && scheme == DATANAME_HF ? str_after(rest, "datasets/") : NULL;
    slash = set ? strchr(set, '/') : NULL; /* the slash between owner and name */
    if (!slash || slash == set)
        return malformed(name, err);
    set_len = (size_t)(slash + 1 - set) + strcspn(slash + 1, "/@");
    rest = set + set_len;
    if (set[set_len - 1] == '/' || strcspn(set, "?#%") < set_len ||
        memchr(set, '@', (size_t)(slash - set)))
        return malformed(name, err);
    if (*rest == '@') {
        revision = rest + 1;
        revision_len = revision_length(revision);
        rest = revision + revision_len;
        if (revision_len == 0)
            return malformed(name, err);
    }
    r = join(set, set_len, revision, revision_len, *rest == '/' ? rest + 1 : rest, &url);
    if (r < 0)
        return error_set(err, r, "out of memory");
    if (!dataname_after_scheme(url, &scheme) ||
        (scheme != DATANAME_HTTPS && scheme != DATANAME_HTTP)) {
        free(url);
        return error_set(err, -EINVAL, "HF_ENDPOINT must be a URL like %s", hub);
    }
    *ret = url;
    return 0;
}

char *hugging_face_header(const char *host)
{
    const char *token = aws_variable("HF_TOKEN");
    char *server = token ? find_server() : NULL, *header = NULL;
    const char *own = server ? str_after(server, "https://") : NULL;

    if (own && strcmp(own, host) == 0 && !token[strcspn(token, "\r\n")])
        header = str_format("Authorization: Bearer %s", token);
    free(server);
    return header;
}
