/* SPDX-License-Identifier: MIT */
/* error.h - how Plenum's functions say what went wrong. */
#ifndef PLENUM_ERROR_H
#define PLENUM_ERROR_H

#ifdef __cplusplus
extern "C" {
#endif

/** Marks what libplenum exports; everything else in it is hidden. */
#define PLENUM_API __attribute__((visibility("default")))

/**
 * A sentence for users, beside the negative errno value for programs.
 *
 * A function that takes one fills it when it fails and leaves it alone when it succeeds; NULL is
 * always allowed. The text is UTF-8, ends in NUL, holds no newline and no final full stop, and
 * names the option, file or host that it is about.
 *
 * Ownership: the caller's storage; nothing to free.
 */
struct plenum_error {
    char text[512];
};

#ifdef __cplusplus
}
#endif

#endif
