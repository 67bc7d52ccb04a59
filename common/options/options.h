/* SPDX-License-Identifier: MIT */
/* options.h - command lines from one table: parsing, --help, shell completion, and the tests that
 * compare it with the manual page. */
#ifndef COMMON_OPTIONS_H
#define COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

enum option_type {
    OPTION_FLAG,     /* bool, set to true */
    OPTION_TEXT,     /* const char *, borrowed from argv */
    OPTION_U32,      /* uint32_t */
    OPTION_U64,      /* uint64_t */
    OPTION_BYTES,    /* uint64_t: 512, 64K, 2G */
    OPTION_DURATION, /* uint64_t, ns: 90, 500ms, 5m */
    OPTION_CALL,     /* passed to `call` */
    OPTION_OPTIONAL, /* passed to `call`; the value is optional (NULL) and must follow after '=' */
};

struct option_def {
    const char *name; /* without the dashes; NULL: `help` is a heading of --help */
    char letter;      /* short form, or 0 */
    const char *arg;  /* name of the value in --help; NULL for flags */
    enum option_type type;
    size_t offset;     /* the offset of the field in the target struct */
    uint64_t min, max; /* bounds of numbers; max 0: only the type's bounds */
    const char *help;  /* one line or more; NULL hides the option from --help */
    /** For OPTION_CALL and OPTION_OPTIONAL. Handles `value` (NULL for a flag). Returns 0, or a
     * negative errno with a message. */
    int (*call)(void *target, const char *value, struct plenum_error *err);
    bool repeats; /* its values add up: it may be given several times */
    bool once;    /* a list, of which the last would replace the others: it is given once */
};

/** Possible values of an option, for shell completion: words separated by spaces, or one of
 *  "@files", "@directories", "@hosts", "@variables", "@users", "@groups". */
struct option_words {
    const char *option;
    const char *words;
};

struct options_program {
    const char *name;    /* "plenumd", "plenumctl hash" */
    const char *usage;   /* the usage line, without the name */
    const char *summary; /* what the program does, in one sentence */
    const char *footer;  /* text after the options, or NULL */
    const struct option_def *defs;
    size_t count;
    bool stop_at_operand; /* options end at the first operand (plenumrun) */
    const char *one_dash; /* an option that may also be written with one dash, or NULL */
    /** Ended by {0}, or NULL. An option whose `arg` already shows its values (FILE, DIR, or words
     *  like on|off) needs no entry. */
    const struct option_words *words;
};

enum { OPTIONS_HELP = 1, OPTIONS_VERSION = 2 };

/** An option as written on a command line or in a file. */
struct option_setting {
    const struct option_def *def;
    const char *value; /* borrowed; NULL: no value */
};

/** Options in the order in which they were written. Zero-initialised: empty. */
struct options_settings {
    struct option_setting *list;
    size_t count, cap;
};

void options_settings_fini(struct options_settings *settings);
/** Append an option. Returns 0 or -ENOMEM. */
int options_settings_add(struct options_settings *settings, const struct option_def *def,
                         const char *value);

/** Returns the option of that name, or NULL. */
const struct option_def *options_find(const struct options_program *program, const char *name);

/** Returns whether settings have this option, which has a value and does not repeat, by this or
 * another name. */
bool options_is_taken(const struct options_settings *settings, const struct option_def *def);

/** Returns the option with that letter, or NULL. */
const struct option_def *options_find_letter(const struct options_program *program, char letter);
/** Returns whether this word, which begins with '-', has the form "--name" or "--name=value", or
 *  one dash if that is allowed. */
bool options_is_long(const struct options_program *program, const char *word);

/**
 * First half of options_parse(), with its results: append the options and their values to `*ret`,
 * and check only names, and that options that are given once are not given twice. For programs with
 * a second source of options.
 */
int options_collect(const struct options_program *program, int argc, char **argv,
                    struct options_settings *ret, int *operands, struct plenum_error *err);
/** Second half of options_parse(), for one option (`value` is NULL for a flag). Returns 0, or
 * -EINVAL with a message that begins with "--name". */
int options_apply(const struct option_def *def, void *target, const char *value,
                  struct plenum_error *err);

/**
 * Parse `argv` into `target`. Operands are moved to the front of argv[1 ...] and counted in
 * `*operands`.
 *
 * --help and --version need no entry in the table: they return OPTIONS_HELP or OPTIONS_VERSION, and
 * nothing else is parsed. Returns 0, or -EINVAL with a message.
 */
int options_parse(const struct options_program *program, void *target, int argc, char **argv,
                  int *operands, struct plenum_error *err);

/** Returns the option name most similar to this word, or NULL if none is similar: for "did you
 * mean". */
const char *options_near(const struct options_program *program, const char *word, size_t len);

/** The first argument with which a shell requests completions. */
#define OPTIONS_COMPLETE "--complete"

/**
 * Print completions to standard output. argv[2 ...] are the words after the program's name, the
 * last one possibly incomplete. The first line of the output is "words", followed by one word per
 * line, with a tab and a description if there is one; "files", "directories", "hosts", "variables",
 * "users" or "groups"; or "command" and the index of the word at which another program's command
 * line begins. After "--name=", words include that prefix. Returns the exit status.
 */
int options_complete(const struct options_program *program, int argc, char **argv);

/** Print the help text to standard output. */
void options_print_help(const struct options_program *program);

/** Print "NAME VERSION" to standard output. */
void options_print_version(const char *name);

/** Handle the result of options_parse(). Returns -1 to continue, or the exit status. */
int options_answer(const struct options_program *program, int r, const struct plenum_error *err);

/**
 * Parse, and handle --help, --version and errors like every program. Returns -1 to continue, or the
 * exit status: 0 after help, version and completion, 2 for a usage error.
 */
int options_start(const struct options_program *program, void *target, int argc, char **argv,
                  int *operands);

#endif
