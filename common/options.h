/* options.h - command lines, from one table: parsing, --help, and the tests that compare it with
 * the man page. */
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

struct options_program {
    const char *name;    /* "plenumd", "plenumctl hash" */
    const char *usage;   /* what follows the name */
    const char *summary; /* what it does, in a sentence */
    const char *footer;  /* after the options, or NULL */
    const struct option_def *defs;
    size_t count;
    bool stop_at_operand; /* options end at the first word that is none (plenumrun) */
    const char *one_dash; /* this option may be written with one dash, too, or NULL */
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

/** The help text, to standard output. */
void options_print_help(const struct options_program *program);

/** "NAME VERSION", to standard output. */
void options_print_version(const char *name);

/** Deal with what options_parse() returned: -1 to go on, or the exit status. */
int options_answer(const struct options_program *program, int r, const struct plenum_error *err);

/**
 * Parse, and deal with --help, --version and errors as every program does. Returns -1 to go on, or
 * the exit status: 0 after help and version, 2 for a wrong command line.
 */
int options_start(const struct options_program *program, void *target, int argc, char **argv,
                  int *operands);

#endif
