/* SPDX-License-Identifier: MIT */
/* error_set.h - writes struct plenum_error. */
#ifndef COMMON_ERROR_SET_H
#define COMMON_ERROR_SET_H

#include <plenum/error.h>

#include "common/util/message.h"

/**
 * Write the message, unless `err` is NULL, and return `code`, so that a failure takes one line:
 * `return error_set(err, -EINVAL, "...", ...)`. text_make_plain() turns newlines and other control
 * characters into '?', so that a hostile file name cannot forge a log line.
 */
MESSAGE_FORMAT(3, 4)
int error_set(struct plenum_error *err, int code, const char *format, ...);

/* Shows compilers and analysers which value is returned. */
#define error_set(err, code, ...)                         \
    __extension__({                                       \
        int error_code_ = (code);                         \
        (void)error_set((err), error_code_, __VA_ARGS__); \
        error_code_;                                      \
    })

/** Insert "`prefix`: " before the existing message. */
MESSAGE_FORMAT(3, 4)
int error_prefix(struct plenum_error *err, int code, const char *format, ...);

#define error_prefix(err, code, ...)                         \
    __extension__({                                          \
        int error_code_ = (code);                            \
        (void)error_prefix((err), error_code_, __VA_ARGS__); \
        error_code_;                                         \
    })

#endif
