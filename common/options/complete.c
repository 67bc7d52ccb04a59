/* SPDX-License-Identifier: MIT */
/* complete.c - shell completion, from the tables of options.
 *
 * The shells' own files (completion/) contain no options. They pass the words of a command line to
 * the program, which prints what may follow according to the parser's own tables. So every option
 * that is parsed is also completed. */
#include "config.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/options/options.h"
#include "common/util/util.h"

/* Print `text` on one line, without tabs. */
static void print_line(const char *text)
{
    for (; *text; text++)
        (void)putchar(iscntrl((unsigned char)*text) ? ' ' : *text);
    (void)putchar('\n');
}

static void print_word(const char *before, const char *word, size_t len, const char *help)
{
    printf("%s%.*s\t", before, (int)len, word);
    print_line(help);
}

/* Print each word of a list, preceded by `before`. */
static void print_words(const char *before, const char *list, const char *separators)
{
    while (*list) {
        size_t len = strcspn(list, separators);

        /* "auto|none|ADDRESSES": the last word is a placeholder */
        if (len > 0 && !isupper((unsigned char)*list))
            printf("%s%.*s\n", before, (int)len, list);
        list += len + (list[len] != '\0');
    }
}

/* Print the possible values of an option; `before` is "--name=" or empty. */
static void print_values(const struct options_program *p, const struct option_def *def,
                         const char *before)
{
    const struct option_words *words = p->words;

    while (words && words->option && strcmp(words->option, def->name) != 0)
        words++;
    if (words && words->option) {
        printf("%s\n", words->words[0] == '@' ? words->words + 1 : "words");
        if (words->words[0] != '@')
            print_words(before, words->words, " ");
    } else if (strcmp(def->arg, "FILE") == 0) {
        printf("files\n");
    } else if (strcmp(def->arg, "DIR") == 0) {
        printf("directories\n");
    } else {
        printf("words\n");
        if (strchr(def->arg, '|'))
            print_words(before, def->arg, "|");
    }
}

static void print_options(const struct options_program *p, bool letters)
{
    printf("words\n");
    for (size_t i = 0; i < p->count; i++) {
        const struct option_def *def = &p->defs[i];
        char name[80];

        if (!def->help || !def->name)
            continue;
        (void)snprintf(name, sizeof(name), "--%s", def->name);
        print_word("", name, strlen(name), def->help);
        if (letters && def->letter)
            print_word("-", &def->letter, 1, def->help);
    }
    print_word("", "--help", strlen("--help"), "show this text");
    print_word("", "--version", strlen("--version"), "show the version");
}

/* Print what operand number `at` can be, according to the usage: "DATASET DIR [options]",
 * "[ADDRESS]". */
static void print_operand(const struct options_program *p, size_t at)
{
    const char *word = p->usage;
    size_t len;
    bool again;

    for (;; word += len + strspn(word + len, " []")) {
        word += strspn(word, "[");
        len = strcspn(word, " ]");
        if (len == 0 || !isupper((unsigned char)*word)) {
            printf("words\n"); /* "options", or the end: nothing may come here */
            return;
        }
        again = len > 3 && strncmp(word + len - 3, "...", 3) == 0;
        if (at == 0 || again)
            break;
        at--;
    }
    len -= again ? 3 : 0;
    if (strncmp(word, "DATASET", len) == 0 || strncmp(word, "FILE", len) == 0 ||
        memchr(word, '.', len))
        printf("files\n");
    else
        printf("%s\n", strncmp(word, "DIR", len) == 0 ? "directories" : "words");
}

/* Returns the option whose value is the next word after `word`, or NULL. */
static const struct option_def *wants_value(const struct options_program *p, const char *word)
{
    const struct option_def *def = NULL;

    if (options_is_long(p, word)) {
        def = options_find(p, word + (word[1] == '-' ? 2 : 1));
    } else {
        for (const char *c = word + 1; *c; c++) {
            def = options_find_letter(p, *c);
            if (def && def->arg && c[1])
                return NULL; /* the rest of the word is its value */
        }
    }
    return def && def->arg && def->type != OPTION_OPTIONAL ? def : NULL;
}

int options_complete(const struct options_program *program, int argc, char **argv)
{
    const char *last = argc > 2 ? argv[argc - 1] : "", *equals = strchr(last, '=');
    bool only_operands = false;
    size_t operands = 0;

    for (int i = 2; i < argc - 1; i++) {
        const char *word = argv[i];
        const struct option_def *def;

        if (only_operands || word[0] != '-' || word[1] == '\0') {
            if (program->stop_at_operand) {
                printf("command %d\n", i - 1);
                return 0;
            }
            operands++;
        } else if (strcmp(word, "--") == 0) {
            only_operands = true;
        } else if ((def = wants_value(program, word)) != NULL && ++i == argc - 1) {
            print_values(program, def, "");
            return 0;
        }
    }
    if (!only_operands && last[0] == '-' && equals && options_is_long(program, last)) {
        char *before = strndup(last, (size_t)(equals - last) + 1), *name = strdup(last);
        const struct option_def *def = NULL;

        if (name) {
            name[equals - last] = '\0';
            def = options_find(program, name + strspn(name, "-"));
        }
        if (before && def && def->arg)
            print_values(program, def, before);
        else
            printf("words\n");
        free(before);
        free(name);
    } else if (!only_operands && last[0] == '-') {
        print_options(program, last[1] == '\0');
    } else if (program->stop_at_operand) {
        printf("command %d\n", argc > 2 ? argc - 2 : 1);
    } else {
        print_operand(program, operands);
    }
    return 0;
}
