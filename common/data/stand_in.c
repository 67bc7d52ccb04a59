/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/data/stand_in.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

static bool begins(const char *text, size_t len, const char *with)
{
    return len >= strlen(with) && strncasecmp(text, with, strlen(with)) == 0;
}

/* Returns whether the text is an HTML page, or the XML that object stores send. */
static bool is_page(const char *text, size_t len)
{
    size_t bom = begins(text, len, "\xef\xbb\xbf") ? 3 : 0;

    text += bom;
    len -= bom;
    while (len > 0 && *text && strchr(" \t\r\n", *text)) {
        text++;
        len--;
    }
    return begins(text, len, "<!DOCTYPE html") || begins(text, len, "<html") ||
           (begins(text, len, "<?xml") && memmem(text, len, "<Error>", 7));
}

int stand_in_refuse(const void *bytes, size_t len, int code, struct plenum_error *err)
{
    len = (size_t)min_u64(len, STAND_IN_HEAD);
    if (begins(bytes, len, "version https://git-lfs.github.com/spec/"))
        return error_set(
            err, code,
            "it is a git-lfs pointer, not the file itself: fetch the file with 'git lfs pull'");
    if (is_page(bytes, len))
        return error_set(err, code,
                         "it is a web page, such as the error message of a server, not the file "
                         "itself: download the file again");
    return 0;
}
