/* SPDX-License-Identifier: MIT */
/* error.h - filling struct plenum_error. */
#ifndef COMMON_ERROR_H
#define COMMON_ERROR_H

#include <plenum/error.h>

#include "common/message.h"

/**
 * Write the sentence, unless `err` is NULL, and hand `code` back, so that a failure is one
 * line: `return error_set(err, -EINVAL, "...", ...)`. Newlines and other control characters
 * become '?' (text_make_plain()), so that a hostile file name cannot forge a line of a log.
 */
MESSAGE_FORMAT(3, 4)
int error_set(struct plenum_error *err, int code, const char *format, ...);

/* Callers, their compilers and analyzers see which value comes back. */
#define error_set(err, code, ...)                         \
    __extension__({                                       \
        int error_code_ = (code);                         \
        (void)error_set((err), error_code_, __VA_ARGS__); \
        error_code_;                                      \
    })

/** Put "`prefix`: " before the sentence that is there already. */
MESSAGE_FORMAT(3, 4)
int error_prefix(struct plenum_error *err, int code, const char *format, ...);

#define error_prefix(err, code, ...)                         \
    __extension__({                                          \
        int error_code_ = (code);                            \
        (void)error_prefix((err), error_code_, __VA_ARGS__); \
        error_code_;                                         \
    })

#endif
