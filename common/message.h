/* SPDX-License-Identifier: MIT */
/* message.h - the mark of a function that tells a user what is wrong.
 *
 * It stands first in the declaration, and before a static definition. Texts among the arguments of
 * such a call are messages: docs/messages.md has a line for each. tests/docs/test_messages.py finds
 * the functions by this mark, and fails where a function without it is given a sentence. */
#ifndef COMMON_MESSAGE_H
#define COMMON_MESSAGE_H

/** For a text without conversions. */
#define MESSAGE

/** For a format of printf(): which argument it is, and which is the first of its values. */
#define MESSAGE_FORMAT(format_at, values_at) __attribute__((format(printf, format_at, values_at)))

#endif
