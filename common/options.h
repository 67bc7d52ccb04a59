/* SPDX-License-Identifier: MIT */
/* options.h - command lines, from one table: parsing, --help, what shells complete, and the tests
 * that compare it with the man page. */
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
    OPTION_CALL,     /* whatever `call` makes of it */
    OPTION_OPTIONAL, /* the same; the value may be missing (NULL), else it follows after '=' */
};

struct option_def {
    const char *name; /* without the dashes; NULL: a heading of --help, which is `help` */
    char letter;      /* short form, or 0 */
    const char *arg;  /* what the value is called in --help; NULL for flags */
    enum option_type type;
    size_t offset;     /* of the field in the target structure */
    uint64_t min, max; /* of numbers; max 0: as much as fits */
    const char *help;  /* one line or more; NULL hides the option from --help */
    /** OPTION_CALL, OPTION_OPTIONAL: take `value` (NULL for a flag): 0, or -EINVAL with a sentence.
     */
    int (*call)(void *target, const char *value, struct plenum_error *err);
};

/** What can be written as the value of an option, for shells that complete it: words with blanks
 * between, or one of "@files", "@directories", "@hosts", "@variables", "@users", "@groups". */
struct option_words {
    const char *option;
    const char *words;
};

struct options_program {
    const char *name;    /* "plenumd", "plenumctl hash" */
    const char *usage;   /* what follows the name */
    const char *summary; /* what it does, in a sentence */
    const char *footer;  /* after the options, or NULL */
    const struct option_def *defs;
    size_t count;
    bool stop_at_operand; /* options end at the first word that is none (plenumrun) */
    const char *one_dash; /* this option may be written with one dash, too, or NULL */
    /** Ended by {0}, or NULL. Not named here need be what the option's `arg` says: FILE, DIR, or
     * words like on|off. */
    const struct option_words *words;
};

enum { OPTIONS_HELP = 1, OPTIONS_VERSION = 2 };

/** An option as it was written. */
struct option_setting {
    const struct option_def *def;
    const char *value; /* borrowed; NULL: none was written */
};

/** Options in the order in which they were written. Zero-initialised: none. */
struct options_settings {
    struct option_setting *list;
    size_t count, cap;
};

void options_settings_fini(struct options_settings *settings);
/** 0 or -ENOMEM. */
int options_settings_add(struct options_settings *settings, const struct option_def *def,
                         const char *value);

/** The option of that name, or NULL. */
const struct option_def *options_find(const struct options_program *program, const char *name);

/** The option with that letter, or NULL. */
const struct option_def *options_find_letter(const struct options_program *program, char letter);
/** Is this word, which begins with '-', "--name" or "--name=value", or of one dash where that is
 * allowed? */
bool options_is_long(const struct options_program *program, const char *word);

/**
 * The first half of options_parse(): which options are there, with which values? Appended to
 * `*ret`; nothing is looked at but names. For a program that has a second source of options.
 */
int options_collect(const struct options_program *program, int argc, char **argv,
                    struct options_settings *ret, int *operands, struct plenum_error *err);
/** The second half, one option (`value` NULL for a flag): 0, or -EINVAL with a sentence, which
 * begins with "--name". */
int options_apply(const struct option_def *def, void *target, const char *value,
                  struct plenum_error *err);

/**
 * Parse `argv` into `target`. Operands are moved to the front of argv[1 ...] and counted in
 * `*operands`.
 *
 * --help and --version are understood without being in the table: OPTIONS_HELP or OPTIONS_VERSION
 * is returned and nothing else is looked at. 0, or -EINVAL with a sentence.
 */
int options_parse(const struct options_program *program, void *target, int argc, char **argv,
                  int *operands, struct plenum_error *err);

/** The name of the option that is most like this word, or NULL when none is: for "did you mean". */
const char *options_near(const struct options_program *program, const char *word, size_t len);

/** The first argument by which a shell asks what could stand on a command line. */
#define OPTIONS_COMPLETE "--complete"

/**
 * Answer a shell, to standard output. argv[2 ...] are the words behind the program's name, the last
 * one as far as it is written. The first line says what can stand there: "words", which follow, one
 * a line, with a tab and a description where there is one; "files", "directories", "hosts",
 * "variables", "users", "groups"; or "command" and the number of the word at which another
 * program's command line begins. Behind "--name=" words have that in front. Returns the exit
 * status.
 */
int options_complete(const struct options_program *program, int argc, char **argv);

/** The help text, to standard output. */
void options_print_help(const struct options_program *program);

/** "NAME VERSION", to standard output. */
void options_print_version(const char *name);

/** Deal with what options_parse() returned: -1 to go on, or the exit status. */
int options_answer(const struct options_program *program, int r, const struct plenum_error *err);

/**
 * Parse, and deal with --help, --version and errors as every program does. Returns -1 to go on, or
 * the exit status: 0 after help, version and completion, 2 for a wrong command line.
 */
int options_start(const struct options_program *program, void *target, int argc, char **argv,
                  int *operands);

#endif
