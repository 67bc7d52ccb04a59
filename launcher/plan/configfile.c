/* SPDX-License-Identifier: MIT */
/* configfile.c - reads and writes the command line's options in files.
 *
 * Names are looked up in the table of options, and values are parsed as on the command line, so a
 * file can contain any option, including new ones. */
#include "config.h"

#include "launcher/plan/configfile.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "launcher/plan/cmdline.h"

/* Returns the row that --help shows for an option: `def` may be only another name for it. */
static const struct option_def *principal(const struct option_def *def)
{
    if (def->help)
        return def;
    for (size_t i = 0; i < cmdline_program.count; i++) {
        const struct option_def *d = &cmdline_program.defs[i];

        if (d->name && d->help && d->type == def->type && d->call == def->call &&
            d->offset == def->offset)
            return d;
    }
    return def;
}

/* Returns whether a file cannot contain the option: those about files, and --version-format. */
static bool is_about_files(const struct option_def *def)
{
    return strcmp(def->name, "import-config") == 0 || strcmp(def->name, "export-config") == 0 ||
           strcmp(def->name, "overwrite-config") == 0 || strcmp(def->name, "version-format") == 0;
}

static bool is_set(const struct options_settings *settings, const struct option_def *def)
{
    for (size_t i = 0; i < settings->count; i++)
        if (principal(settings->list[i].def) == principal(def))
            return true;
    return false;
}

static char *trim(char *text)
{
    char *end;

    text += strspn(text, " \t");
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

/* Remove the quotes around a value; inside double quotes a backslash escapes the next character. */
static int unquote(char *text)
{
    char quote = *text, *to = text, *from = text + 1;
    size_t len = strlen(text);

    if (quote != '"' && quote != '\'')
        return 0;
    if (len < 2 || text[len - 1] != quote)
        return -EINVAL;
    text[len - 1] = '\0';
    while (*from) {
        if (quote == '"' && *from == '\\' && from[1])
            from++;
        *to++ = *from++;
    }
    *to = '\0';
    return 0;
}

struct configfile_reader {
    const struct options_settings *own;
    struct options_settings *ret;
    struct texts *texts;
    struct plenum_error *err;
};

static int apply_option(struct configfile_reader *r, const struct option_def *def,
                        const char *value)
{
    bool on = true;

    if (is_set(r->own, def))
        return 0;
    if (!def->arg) {
        if (*value && cmdline_parse_truth(value, &on) < 0)
            return error_set(r->err, -EINVAL, "%s must be yes or no, not '%s'", def->name, value);
        value = NULL;
    } else if (options_is_taken(r->ret, def)) {
        return error_set(r->err, -EINVAL, "%s is set twice: remove one of the two lines",
                         def->name);
    } else if (def->type == OPTION_OPTIONAL && !*value) {
        value = NULL;
    } else {
        if (texts_add(r->texts, value, strlen(value)) < 0)
            return error_set(r->err, -ENOMEM, "out of memory");
        value = r->texts->items[r->texts->count - 1];
    }
    if (!on)
        return 0;
    return options_settings_add(r->ret, def, value) < 0
               ? error_set(r->err, -ENOMEM, "out of memory")
               : 0;
}

static int read_line(struct configfile_reader *r, char *line)
{
    const struct option_def *def;
    char *name, *value, *separator;

    name = trim(line);
    if (!*name || *name == '#')
        return 0;
    separator = name + strcspn(name, "=: \t");
    value = separator + strspn(separator, " \t");
    if (*value == '=' || *value == ':')
        value = trim(value + 1);
    else if (*value)
        return error_set(r->err, -EINVAL, "'%s' is not 'name = value'", name);
    *separator = '\0';
    if (strncmp(name, "--", 2) == 0)
        name += 2;
    def = options_find(&cmdline_program, name);
    if (!def)
        return error_set(r->err, -EINVAL, "there is no option '%s'", name);
    if (is_about_files(def))
        return error_set(r->err, -EINVAL, "'%s' cannot be used in a file", name);
    if (unquote(value) < 0)
        return error_set(r->err, -EINVAL, "a quote around the value of %s is unmatched", name);
    return apply_option(r, def, value);
}

int configfile_read(const char *path, const struct options_settings *own,
                    struct options_settings *ret, struct texts *texts, struct plenum_error *err)
{
    struct configfile_reader reader = {.own = own, .ret = ret, .texts = texts, .err = err};
    FILE *file = fopen(path, "re");
    char *line = NULL;
    size_t cap = 0;
    int number = 0, r = 0;

    if (!file) {
        r = -errno;
        return error_set(err, r, "--import-config: cannot read %s: %s", path, strerror(-r));
    }
    while ((r = text_read_line(file, path, &line, &cap, err)) > 0) {
        number++;
        r = read_line(&reader, line);
        if (r < 0) {
            (void)error_prefix(err, r, "%s:%d", path, number);
            goto out;
        }
    }
    if (r < 0)
        (void)error_prefix(err, r, "--import-config");
out:
    free(line);
    (void)fclose(file);
    return r;
}

static bool needs_quotes(const char *value)
{
    size_t len = strlen(value);

    return len == 0 || *value == '"' || *value == '\'' || *value == ' ' || *value == '\t' ||
           isspace((unsigned char)value[len - 1]);
}

static void put_value(FILE *file, const char *value)
{
    if (!needs_quotes(value)) {
        (void)fputs(value, file);
        return;
    }
    (void)fputc('"', file);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            (void)fputc('\\', file);
        (void)fputc(*value, file);
    }
    (void)fputc('"', file);
}

static int put_settings(FILE *file, const struct options_settings *settings,
                        struct plenum_error *err)
{
    (void)fprintf(file, "# Options of plenumrun %s, for --import-config.\n", PACKAGE_VERSION);
    for (size_t i = 0; i < settings->count; i++) {
        const struct option_def *def = principal(settings->list[i].def);
        const char *value = settings->list[i].value;

        if (is_about_files(def))
            continue;
        if (value && strchr(value, '\n'))
            return error_set(
                err, -EINVAL,
                "--export-config: the value of --%s has several lines, which a file of "
                "options cannot hold",
                def->name);
        (void)fprintf(file, "%s = ", def->name);
        if (value)
            put_value(file, value);
        else if (!def->arg)
            (void)fputs("yes", file);
        (void)fputc('\n', file);
    }
    return 0;
}

int configfile_write(const char *path, const struct options_settings *settings, bool overwrite,
                     struct plenum_error *err)
{
    char *text = NULL;
    size_t len = 0;
    FILE *file = open_memstream(&text, &len);
    int r;

    if (!file)
        return error_set(err, -ENOMEM, "out of memory");
    r = put_settings(file, settings, err);
    if (r < 0) {
        (void)fclose(file);
        goto out;
    }
    if (fclose(file) != 0) {
        r = error_set(err, -ENOMEM, "out of memory");
        goto out;
    }
    r = overwrite ? io_write_file(path, text, len) : io_write_new_file(path, text, len);
    if (r == -EEXIST)
        (void)error_set(err, r, "--export-config: %s exists; use --overwrite-config to replace it",
                        path);
    else if (r < 0)
        (void)error_set(err, r, "--export-config: cannot write %s: %s", path, strerror(-r));
out:
    free(text);
    return r;
}
