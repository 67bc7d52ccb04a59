/* SPDX-License-Identifier: MIT */
/* settings.c - reads plenumd.conf. Lines are split here, so that each error has its line number.
 * They are parsed by inih, so that quotes and comments work as usual in ini files. */
#include "config.h"

#include "loader/serve/settings.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HAVE_INIH
#include <ini.h>
#endif

#include "common/util/error_set.h"
#include "common/util/util.h"

enum { KEYS_MAX = 128 };

struct settings_text {
    struct settings_text *next;
    char text[];
};

void settings_texts_fini(struct settings_texts *texts)
{
    struct settings_text *next;

    for (struct settings_text *t = texts->first; t; t = next) {
        next = t->next;
        free(t);
    }
    texts->first = NULL;
}

struct reading {
    const char *path;
    const struct settings_rules *rules;
    void *target;
    struct settings_texts *texts;
    void (*fault)(const char *sentence);
    FILE *file;
    unsigned line;
    unsigned faults;
    bool understood;         /* the line had a key, or was empty */
    unsigned seen[KEYS_MAX]; /* line of each option in the table; 0: not seen */
};

MESSAGE_FORMAT(2, 3)
static void fault(struct reading *f, const char *format, ...)
{
    char text[900], sentence[1200];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (f->line > 0)
        (void)snprintf(sentence, sizeof(sentence), "%.250s:%u: %s", f->path, f->line, text);
    else
        (void)snprintf(sentence, sizeof(sentence), "%.250s: %s", f->path, text);
    f->faults++;
    f->fault(sentence);
}

#ifdef HAVE_INIH
static bool named(const char *const *list, const char *name)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return true;
    return false;
}

static const char *keep(struct reading *f, const char *value)
{
    struct settings_text *t = malloc(sizeof(*t) + strlen(value) + 1);

    if (!t)
        return NULL;
    strcpy(t->text, value);
    t->next = f->texts->first;
    f->texts->first = t;
    return t->text;
}

/* Returns 1 for yes, 0 for no, and -1 for any other value. */
static int yes_or_no(const char *value)
{
    static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};

    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strcmp(value, words[i]) == 0)
            return (int)i % 2;
    return -1;
}

static void set(struct reading *f, const struct option_def *def, const char *value)
{
    struct plenum_error err;
    int truth = 1;

    if (!def->arg) {
        truth = yes_or_no(value);
        if (truth < 0) {
            fault(f, "%s needs yes or no, not '%s'", def->name, value);
            return;
        }
        value = NULL;
    } else if (!*value) {
        fault(f, "%s needs a value: %s = %s", def->name, def->name, def->arg);
        return;
    } else {
        value = keep(f, value);
        if (!value) {
            fault(f, "out of memory");
            return;
        }
    }
    if (truth && (options_apply(def, f->target, value, &err) < 0 ||
                  (value && f->rules->check && f->rules->check(def->name, value, &err) < 0)))
        fault(f, "%s", strncmp(err.text, "--", 2) == 0 ? err.text + 2 : err.text);
}

static int on_key(void *arg, const char *section, const char *key, const char *value)
{
    struct reading *f = arg;
    const struct options_program *p = f->rules->program;
    const struct option_def *def = options_find(p, key);
    const char *near;
    unsigned *seen;

    f->understood = true;
    (void)section;
    if (!def) {
        near = options_near(p, key, strlen(key));
        if (near && !named(f->rules->command_line_only, near))
            fault(f, "there is no key '%s'; did you mean %s?", key, near);
        else
            fault(f, "there is no key '%s'; see plenumd.conf(5)", key);
        return 1;
    }
    if (named(f->rules->command_line_only, key)) {
        fault(f, "%s is only for the command line: remove this line", key);
        return 1;
    }
    seen = &f->seen[def - p->defs];
    if (*seen && !def->repeats)
        fault(f, "%s is already set on line %u: remove one of the two", key, *seen);
    *seen = f->line;
    set(f, def, value);
    return 1;
}

/* Read a line for inih, which parses each line before it reads the next. inih treats a line that
 * begins with whitespace as a continuation of the previous value, so that is skipped. */
static char *next_line(char *text, int size, void *arg)
{
    struct reading *f = arg;
    size_t blanks;

    if (f->line > 0 && !f->understood)
        fault(f, "this is not 'key = value': correct it, or begin a comment with #");
    memset(text, '\n', (size_t)size); /* the last NUL is then the one that fgets() writes */
    if (!fgets(text, size, f->file)) {
        f->understood = true;
        return NULL;
    }
    f->line++;
    if (memrchr(text, 0, (size_t)size) != text + strlen(text))
        fault(f, "the line contains a zero byte: is this a text file?");
    if (strlen(text) == (size_t)size - 1 && text[size - 2] != '\n') {
        int c;

        fault(f, "the line is longer than %d characters: shorten it", size - 2);
        while ((c = getc(f->file)) != EOF && c != '\n')
            ;
        text[0] = '\0';
    }
    blanks = strspn(text, " \t");
    memmove(text, text + blanks, strlen(text + blanks) + 1);
    if (text[0] == '[')
        fault(f, "sections are not supported: remove this line");
    f->understood =
        strchr("#;[\r\n", text[0]) != NULL; /* strchr() finds the NUL of an empty line, too */
    return text;
}

static void read_file(struct reading *f)
{
    unsigned before = f->faults;

    if (ini_parse_stream(next_line, f, on_key, f) != 0 && f->faults == before) {
        f->line = 0;
        fault(f, "a line could not be understood: each must be 'key = value'");
    } else if (ferror(f->file)) {
        f->line = 0;
        fault(f, "it cannot be read: %s", strerror(errno));
    }
}
#else
static void read_file(struct reading *f)
{
    fault(f, "this plenumd was built without libinih and cannot read files: use the command line");
}
#endif

int settings_read_stream(FILE *file, const char *path, const struct settings_rules *rules,
                         void *target, struct settings_texts *texts,
                         void (*fault_)(const char *sentence))
{
    struct reading f = {.file = file,
                        .path = path,
                        .rules = rules,
                        .target = target,
                        .texts = texts,
                        .fault = fault_};

    if (rules->program->count > KEYS_MAX)
        return -EINVAL;
    if (file)
        read_file(&f);
    else
        fault(&f, "%s; create the file, or name another with --config", strerror(errno));
    return f.faults > 0 ? -EINVAL : 0;
}

int settings_read(const char *path, const struct settings_rules *rules, void *target,
                  struct settings_texts *texts, void (*fault_)(const char *sentence))
{
    FILE *file = fopen(path, "re");
    int r = settings_read_stream(file, path, rules, target, texts, fault_);

    if (file)
        (void)fclose(file);
    return r;
}
