/* SPDX-License-Identifier: MIT */
/* dataname.h - the parts of a data set's name: FORMAT[,KEY=VALUE...]:WHERE, or a plain path. */
#ifndef COMMON_DATANAME_H
#define COMMON_DATANAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** Where the parts lie in the text that was split, which must outlive this. */
struct dataname {
    const char *format; /* [format_len]; NULL: a plain path */
    size_t format_len;
    const char *settings; /* [settings_len]: ",key=value,key=value" or nothing */
    size_t settings_len;
    const char *where; /* to the end of the text */
};

/**
 * Split a name. A format is lower-case letters; a setting is a word of lower-case letters and
 * dashes, '=', and a value; before each ',', ':' and '\\' in it stands a '\\'. What does not begin
 * so is a plain path; a file whose name looks so is reached as "./tar:x".
 */
void dataname_split(const char *text, struct dataname *ret);

/** A setting's value without its backslashes, and with them: malloc; NULL: out of memory. */
char *dataname_value(const char *value, size_t len);
char *dataname_quote(const char *value);

/** The next setting of a list, `*at` being moved behind it; false at the end. */
bool dataname_next_setting(const char **at, const char *end, const char **key, size_t *key_len,
                           const char **value, size_t *value_len);

/** The path within a name, which may be wrapped (generated:folder:PATH); NULL: there is none
 * (generated:N). */
const char *dataname_path(const char *text);

/** Does a name hold no relative path, neither its own nor that of "classes="? */
bool dataname_is_absolute(const char *text);

/**
 * -EINVAL with a sentence where the name's path is a URL (s3://, https:// ...) or a command
 * (pipe:), as other libraries take them; else 0.
 */
int dataname_refuse_url(const char *text, struct plenum_error *err);

/**
 * The same name with an absolute path: relative ones are below `folder`. So is the path of
 * "classes=", unless it is the word "numbers".
 *
 * 0, or -EINVAL with a sentence: no name, a URL, or longer than `size` allows.
 */
int dataname_make_absolute(const char *text, const char *folder, char *ret, size_t size,
                           struct plenum_error *err);

/**
 * The name of one of `parts` equal parts of the archives that a name stands for: a data set of its
 * own. A plain path becomes "auto,part=...:path", whose format is found out as ever.
 *
 * 0, or -EINVAL with a sentence: longer than `size` allows, or the name of a part already.
 */
int dataname_make_part(const char *text, uint32_t part, uint32_t parts, char *ret, size_t size,
                       struct plenum_error *err);

#endif
