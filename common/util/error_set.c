/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/util/error_set.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/util/text.h"

int(error_set)(struct plenum_error *err, int code, const char *format, ...)
{
    struct plenum_error made; /* a copy, because the arguments may point into *err */
    va_list args;

    if (!err)
        return code;
    va_start(args, format);
    (void)vsnprintf(made.text, sizeof(made.text), format, args);
    va_end(args);
    (void)text_make_plain(made.text);
    memcpy(err->text, made.text, strlen(made.text) + 1);
    return code;
}

int(error_prefix)(struct plenum_error *err, int code, const char *format, ...)
{
    char prefix[256];
    va_list args;

    if (!err)
        return code;
    va_start(args, format);
    (void)vsnprintf(prefix, sizeof(prefix), format, args);
    va_end(args);
    return error_set(err, code, "%s: %s", prefix, err->text);
}
