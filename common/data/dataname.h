/* SPDX-License-Identifier: MIT */
/* dataname.h - the parts of a data set's name: FORMAT[,KEY=VALUE...]:WHERE, or a plain path. */
#ifndef COMMON_DATANAME_H
#define COMMON_DATANAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** The URL schemes of data in object stores and on web servers. */
enum dataname_scheme { DATANAME_S3, DATANAME_HTTPS, DATANAME_HTTP, DATANAME_HF };

/** Returns a scheme's text: "s3://" and so on. */
const char *dataname_scheme(enum dataname_scheme scheme);
/** Returns the text after the scheme that a path or pattern begins with, in upper or lower case;
 * NULL if there is none. */
const char *dataname_after_scheme(const char *text, enum dataname_scheme *ret);
/** Does a path or pattern begin with one of these schemes? */
bool dataname_is_remote(const char *text);

/** The parts of a name: pointers into its text, which must outlive this structure. */
struct dataname {
    const char *format; /* [format_len]; NULL for a plain path */
    size_t format_len;
    const char *settings; /* [settings_len]: ",key=value,key=value" or empty */
    size_t settings_len;
    const char *where; /* up to the end of the text */
};

/**
 * Split a name. A format consists of 1 to 15 lower-case letters. A setting is a word of lower-case
 * letters and dashes, '=', and a value in which '\\' escapes ',', ':' and '\\'. URLs (enum
 * dataname_scheme) and anything else are plain paths; a file whose name looks like a format is
 * written "./tar:x".
 */
void dataname_split(const char *text, struct dataname *ret);

/** Returns a setting's value with its escapes removed (dataname_value) or added (dataname_quote).
 * The caller frees it; NULL if out of memory. */
char *dataname_value(const char *value, size_t len);
char *dataname_quote(const char *value);

/** Get the next setting in a list and advance `*at` past it; false at the end. */
bool dataname_next_setting(const char **at, const char *end, const char **key, size_t *key_len,
                           const char **value, size_t *value_len);

/** Returns the path within a name, which may be nested (generated:folder:PATH); NULL if there is
 *  none (generated:N). */
const char *dataname_path(const char *text);

/** Does a name contain no relative path, neither its own nor that of "classes="? */
bool dataname_is_absolute(const char *text);

/**
 * Reject names whose path is a command (pipe:), or a URL whose scheme is not in enum
 * dataname_scheme. Other libraries accept these. Returns 0, or -EINVAL with a message for such a
 * name.
 */
int dataname_refuse_url(const char *text, struct plenum_error *err);

/**
 * Make the paths in a name absolute: relative ones are below `folder`; names in stores do not
 * change. This includes the path in "classes=", unless it is the word "numbers".
 *
 * Returns 0; -EINVAL with a message if the name is empty, too long for `size`, or one that
 * dataname_refuse_url() rejects; or -ENOMEM.
 */
int dataname_make_absolute(const char *text, const char *folder, char *ret, size_t size,
                           struct plenum_error *err);

/**
 * Write the name of part number `part` of `parts` equal parts of a name's archives. Each part is a
 * separate data set. A plain path becomes "auto,part=...:path", whose format is detected as usual.
 *
 * Returns 0, or -EINVAL with a message if the result is too long for `size`, or `text` already
 * names a part.
 */
int dataname_make_part(const char *text, uint32_t part, uint32_t parts, char *ret, size_t size,
                       struct plenum_error *err);

#endif
