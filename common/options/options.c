/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/options/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

enum { HELP_COLUMN = 28, HELP_WIDTH = 80 };

const char *options_near(const struct options_program *program, const char *word, size_t len)
{
    struct str_nearest near = {.word = word, .len = len};

    for (size_t i = 0; i < program->count; i++) {
        const struct option_def *def = &program->defs[i];

        if (def->help && def->name)
            str_nearest_try(&near, def->name);
    }
    return near.name;
}

static int unknown_option(const struct options_program *p, const char *word, size_t len,
                          struct plenum_error *err)
{
    const char *near = options_near(p, word, len);

    if (near)
        return error_set(err, -EINVAL, "unknown option --%.*s; did you mean --%s?", (int)len, word,
                         near);
    return error_set(err, -EINVAL, "unknown option --%.*s; see %s --help", (int)len, word, p->name);
}

/* Format a limit as the user may write it; a time in days if `days`. */
static char *format_limit(enum option_type type, bool days, uint64_t value, char *text, size_t size)
{
    if (type == OPTION_DURATION)
        return days ? format_duration(value, text, size) : format_hours(value, text, size);
    if (type == OPTION_BYTES)
        return format_exact_bytes(value, text, size);
    (void)snprintf(text, size, "%llu", (unsigned long long)value);
    return text;
}

static int out_of_range(const struct option_def *def, uint64_t max, const char *value,
                        struct plenum_error *err)
{
    bool days = strchr(value, 'd') != NULL; /* as the user wrote the value */
    char least[32], most[32];

    (void)format_limit(def->type, days, def->min, least, sizeof(least));
    if (max == UINT64_MAX)
        return error_set(err, -EINVAL, "--%s must be at least %s and fit into 64 bits, not %s",
                         def->name, least, value);
    return error_set(err, -EINVAL, "--%s must be %s to %s, not %s", def->name, least,
                     format_limit(def->type, days, max, most, sizeof(most)), value);
}

int options_apply(const struct option_def *def, void *target, const char *value,
                  struct plenum_error *err)
{
    char *field = (char *)target + def->offset;
    uint64_t max = def->max, number = 0;
    int r = 0;

    if (max == 0)
        max = def->type == OPTION_U32 ? UINT32_MAX : UINT64_MAX;
    switch (def->type) {
    case OPTION_FLAG:
        *(bool *)field = true;
        return 0;
    case OPTION_TEXT:
        *(const char **)field = value;
        return 0;
    case OPTION_CALL:
    case OPTION_OPTIONAL:
        return def->call(target, value, err);
    case OPTION_U32:
    case OPTION_U64:
        r = parse_u64(value, UINT64_MAX, &number);
        break;
    case OPTION_BYTES:
        r = parse_bytes(value, &number);
        break;
    case OPTION_DURATION:
        r = parse_duration(value, &number);
        break;
    }
    if (r == -EINVAL)
        return error_set(err, -EINVAL, "--%s needs %s, not '%s'", def->name,
                         def->type == OPTION_BYTES      ? "a size such as 512M or 2G"
                         : def->type == OPTION_DURATION ? "a time such as 500ms, 30s, 5m, 2h or 7d"
                                                        : "a whole number",
                         value);
    if (r == -ERANGE || number < def->min || number > max)
        return out_of_range(def, max, value, err);
    if (def->type == OPTION_U32)
        *(uint32_t *)field = (uint32_t)number;
    else
        *(uint64_t *)field = number;
    return 0;
}

static const struct option_def *find_name(const struct options_program *p, const char *word,
                                          size_t len)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->defs[i].name && strlen(p->defs[i].name) == len &&
            memcmp(p->defs[i].name, word, len) == 0)
            return &p->defs[i];
    return NULL;
}

const struct option_def *options_find(const struct options_program *program, const char *name)
{
    return find_name(program, name, strlen(name));
}

void options_settings_fini(struct options_settings *settings)
{
    free(settings->list);
    *settings = (struct options_settings){0};
}

int options_settings_add(struct options_settings *settings, const struct option_def *def,
                         const char *value)
{
    int r = array_grow(&settings->list, &settings->cap, settings->count, sizeof(*settings->list));

    if (r < 0)
        return r;
    settings->list[settings->count++] = (struct option_setting){.def = def, .value = value};
    return 0;
}

/* Returns whether these are two names of one option, or one. */
static bool is_same(const struct option_def *a, const struct option_def *b)
{
    return a == b || (a->type == b->type && a->call == b->call && a->offset == b->offset);
}

bool options_is_taken(const struct options_settings *settings, const struct option_def *def)
{
    for (size_t i = 0; i < settings->count; i++)
        if (def->arg && !def->repeats && is_same(settings->list[i].def, def))
            return true;
    return false;
}

static int collect(struct options_settings *settings, const struct option_def *def,
                   const char *value, struct plenum_error *err)
{
    int r;

    if (def->once && options_is_taken(settings, def))
        return error_set(err, -EINVAL, "--%s is given twice: give one list, with commas",
                         def->name);
    r = options_settings_add(settings, def, value);
    return r < 0 ? error_set(err, r, "out of memory") : 0;
}

const struct option_def *options_find_letter(const struct options_program *p, char letter)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->defs[i].letter && p->defs[i].letter == letter)
            return &p->defs[i];
    return NULL;
}

bool options_is_long(const struct options_program *p, const char *word)
{
    size_t len = strcspn(word + 1, "=");

    return word[1] == '-' ||
           (p->one_dash && strlen(p->one_dash) == len && strncmp(p->one_dash, word + 1, len) == 0);
}

/* Returns the number of words used, or -EINVAL. */
static int parse_long(const struct options_program *p, struct options_settings *settings, int argc,
                      char **argv, int i, struct plenum_error *err)
{
    const char *word = argv[i] + (argv[i][1] == '-' ? 2 : 1), *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    const struct option_def *def = find_name(p, word, len);
    const char *value = equals ? equals + 1 : NULL;
    int used = 1, r;

    if (!def)
        return unknown_option(p, word, len, err);
    if (!def->arg && value)
        return error_set(err, -EINVAL, "--%s takes no value", def->name);
    if (def->arg && !value && def->type != OPTION_OPTIONAL) {
        if (i + 1 == argc)
            return error_set(err, -EINVAL, "--%s needs a value: --%s %s", def->name, def->name,
                             def->arg);
        value = argv[i + 1];
        used = 2;
    }
    r = collect(settings, def, value, err);
    return r < 0 ? r : used;
}

/* Parse argv[i], which is "-x", "-xyz" (flags) or "-xvalue". */
static int parse_short(const struct options_program *p, struct options_settings *settings, int argc,
                       char **argv, int i, struct plenum_error *err)
{
    for (const char *c = argv[i] + 1; *c; c++) {
        const struct option_def *def = options_find_letter(p, *c);
        int r, used = 1;
        const char *value = NULL;

        if (!def)
            return error_set(err, -EINVAL, "unknown option -%c; see %s --help", *c, p->name);
        if (def->arg && c[1]) {
            value = c + 1;
        } else if (def->arg && def->type != OPTION_OPTIONAL) {
            if (i + 1 == argc)
                return error_set(err, -EINVAL, "-%c needs a value: -%c %s", *c, *c, def->arg);
            value = argv[i + 1];
            used = 2;
        }
        r = collect(settings, def, value, err);
        if (r < 0 || value)
            return r < 0 ? r : used;
    }
    return 1;
}

int options_collect(const struct options_program *program, int argc, char **argv,
                    struct options_settings *ret, int *operands, struct plenum_error *err)
{
    bool only_operands = false, version = false;
    int count = 0;

    for (int i = 1; i < argc;) {
        char *word = argv[i];
        int r;

        if (only_operands || word[0] != '-' || word[1] == '\0') {
            argv[1 + count++] = word;
            i++;
            only_operands = only_operands || program->stop_at_operand;
            continue;
        }
        if (strcmp(word, "--") == 0) {
            only_operands = true;
            i++;
            continue;
        }
        if (strcmp(word, "--help") == 0 ||
            (strcmp(word, "-h") == 0 && !options_find_letter(program, 'h')))
            return OPTIONS_HELP;
        if (strcmp(word, "--version") == 0) {
            version = true;
            i++;
            continue;
        }
        r = options_is_long(program, word) ? parse_long(program, ret, argc, argv, i, err)
                                           : parse_short(program, ret, argc, argv, i, err);
        if (r < 0)
            return version ? OPTIONS_VERSION : r;
        i += r;
    }
    *operands = count;
    return version ? OPTIONS_VERSION : 0;
}

int options_parse(const struct options_program *program, void *target, int argc, char **argv,
                  int *operands, struct plenum_error *err)
{
    struct options_settings settings = {0};
    int r = options_collect(program, argc, argv, &settings, operands, err);

    for (size_t i = 0; r == 0 && i < settings.count; i++)
        r = options_apply(settings.list[i].def, target, settings.list[i].value, err);
    options_settings_fini(&settings);
    return r;
}

/* Print the words of `text`, wrapped at HELP_WIDTH, with all lines but the first indented. */
static void print_wrapped(const char *text, size_t column)
{
    size_t at = column;

    while (*text) {
        size_t len = strcspn(text, " \n");

        if (at > column && at + 1 + len > HELP_WIDTH) {
            printf("\n%*s", (int)column, "");
            at = column;
        } else if (at > column) {
            printf(" ");
            at++;
        }
        printf("%.*s", (int)len, text);
        at += len;
        text += len;
        if (*text == '\n') {
            printf("\n%*s", (int)column, "");
            at = column;
        }
        text += *text != '\0';
    }
    printf("\n");
}

void options_print_help(const struct options_program *program)
{
    printf("usage: %s %s\n\n", program->name, program->usage);
    print_wrapped(program->summary, 0);
    if (program->count == 0 || program->defs[0].name)
        printf("\noptions:\n");
    for (size_t i = 0; i < program->count; i++) {
        const struct option_def *d = &program->defs[i];
        char left[128];
        int n;

        if (!d->help)
            continue;
        if (!d->name) {
            printf("\n%s:\n", d->help);
            continue;
        }
        n = snprintf(left, sizeof(left), "  %c%c%s --%s%s%s%s", d->letter ? '-' : ' ',
                     d->letter ? d->letter : ' ', d->letter ? "," : " ", d->name,
                     d->type == OPTION_OPTIONAL ? "[="
                     : d->arg                   ? " "
                                                : "",
                     d->arg ? d->arg : "", d->type == OPTION_OPTIONAL ? "]" : "");
        if (n >= HELP_COLUMN - 1)
            printf("%s\n%*s", left, HELP_COLUMN, "");
        else
            printf("%-*s", HELP_COLUMN, left);
        print_wrapped(d->help, HELP_COLUMN);
    }
    printf("%-*sshow this text\n", HELP_COLUMN,
           options_find_letter(program, 'h') ? "      --help" : "  -h, --help");
    printf("%-*sshow the version\n", HELP_COLUMN, "      --version");
    if (program->footer)
        printf("\n%s\n", program->footer);
}

void options_print_version(const char *name)
{
    printf("%s %s\n", name, PACKAGE_VERSION);
}

int options_answer(const struct options_program *program, int r, const struct plenum_error *err)
{
    if (r == OPTIONS_HELP || r == OPTIONS_VERSION) {
        if (r == OPTIONS_HELP)
            options_print_help(program);
        else
            options_print_version(program->name);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    if (r < 0) {
        fprintf(stderr, "%s: %s\n", program->name, err->text);
        return 2;
    }
    return -1;
}

int options_start(const struct options_program *program, void *target, int argc, char **argv,
                  int *operands)
{
    struct plenum_error err;
    int r;

    if (argc > 1 && strcmp(argv[1], OPTIONS_COMPLETE) == 0)
        return options_complete(program, argc, argv);
    r = options_parse(program, target, argc, argv, operands, &err);
    return options_answer(program, r, &err);
}
