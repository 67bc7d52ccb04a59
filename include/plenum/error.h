/* SPDX-License-Identifier: MIT */
/* error.h - error messages of libplenum's functions. */
#ifndef PLENUM_ERROR_H
#define PLENUM_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/** Marks the symbols that libplenum exports; all others are hidden. */
#define PLENUM_API __attribute__((visibility("default")))

/**
 * An error message for people, in addition to the negative errno value for programs.
 *
 * A function that takes one writes it on failure and leaves it unchanged on success. NULL is always
 * allowed. The text is UTF-8, ends in NUL, contains no newline, has no final full stop, and names
 * the option, file or host at fault.
 *
 * Ownership: the caller's storage; there is nothing to free.
 */
struct plenum_error {
    char text[512];
};

#ifdef __cplusplus
}
#endif

#endif
