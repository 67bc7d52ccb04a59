/* SPDX-License-Identifier: MIT */
/* message.h - marks functions that report an error to a user.
 *
 * The mark comes first in the declaration, and before a static definition. Text arguments in calls
 * of such a function are messages: docs/messages.md has a line for each.
 * tests/docs/test_messages.py finds the functions by this mark, and fails if a message is passed to
 * a function without it. */
#ifndef COMMON_MESSAGE_H
#define COMMON_MESSAGE_H

/** For a message without conversions. */
#define MESSAGE

/** For a printf() format: the positions of the format and of its first value. */
#define MESSAGE_FORMAT(format_at, values_at) __attribute__((format(printf, format_at, values_at)))

#endif
