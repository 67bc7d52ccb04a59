/* SPDX-License-Identifier: MIT */
/* script.c - reads a program's first bytes as the kernel does.
 *
 * "#!/usr/bin/env -S python3 -u" names the interpreter and one argument, the rest of the line. The
 * interpreter may be a script, too; env searches PATH for the next one; and a binary names its
 * dynamic loader. Each of these may be missing. Anything unknown is accepted: these checks only
 * find common mistakes early, and execve() decides. */
#include "config.h"

#include "launcher/host/script.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "launcher/host/host.h"

enum {
    LINE_BYTES = 256, /* number of bytes of a first line that the kernel reads */
    DEPTH_MOST = 4,   /* number of files checked, each the interpreter of the one before */
};

/* A "#!" line, split as the kernel does. */
struct hashbang {
    char line[LINE_BYTES + 1];
    const char *interpreter;
    const char *argument; /* the rest of the line, "" if there is none */
};

/* ---- binaries ---- */

/* Check that a binary's dynamic loader exists. Without it, a binary fails like a script without its
 * interpreter. */
static int check_dynamic_loader(int fd, const char *file, const Elf64_Ehdr *header,
                                struct plenum_error *err)
{
    char name[PATH_MAX] = "";
    Elf64_Phdr part = {0};
    struct stat st;

    for (size_t i = 0; i < header->e_phnum && part.p_type != PT_INTERP; i++)
        if (pread(fd, &part, sizeof(part), (off_t)(header->e_phoff + i * sizeof(part))) !=
            (ssize_t)sizeof(part))
            return 0;
    if (part.p_type != PT_INTERP || part.p_filesz == 0 || part.p_filesz >= sizeof(name) ||
        pread(fd, name, part.p_filesz, (off_t)part.p_offset) != (ssize_t)part.p_filesz)
        return 0;
    if (!*name || stat(name, &st) == 0 || errno != ENOENT)
        return 0;
    return error_set(err, -ENOENT,
                     "program '%s' needs the dynamic loader '%s', which is missing: install its "
                     "package, or a build of the program for this system",
                     file, name);
}

/* The header of this program, which the linker provides. */
extern const Elf64_Ehdr own_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

/* Is the binary for this processor? Emulators run others, and look for their loaders elsewhere. */
static bool is_native(const Elf64_Ehdr *header)
{
    return own_header.e_machine == header->e_machine &&
           own_header.e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           own_header.e_ident[EI_DATA] == header->e_ident[EI_DATA] &&
           header->e_phentsize == sizeof(Elf64_Phdr);
}

static int check_binary(int fd, const char *file, struct plenum_error *err)
{
    Elf64_Ehdr header;

    if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) || !is_native(&header))
        return 0;
    return check_dynamic_loader(fd, file, &header, err);
}

/* ---- files without "#!" ---- */

/* Check a file without "#!", which execvp() would run with a shell: reject it if it is marked as
 * UTF-8 or UTF-16, or is a Python program. */
static int check_unmarked(const char *file, const char *bytes, struct plenum_error *err)
{
    if (strncmp(bytes, "\xef\xbb\xbf#!", 5) == 0)
        return error_set(
            err, -ENOEXEC,
            "program '%s' has a byte order mark before '#!', so no interpreter is "
            "found: save it as UTF-8 without BOM, or sed -i '1s/^\\xEF\\xBB\\xBF//' %s",
            file, file);
    if (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0)
        return error_set(err, -ENOEXEC,
                         "program '%s' is text in UTF-16, not a program: save it as UTF-8 without "
                         "BOM",
                         file);
    /* A first line with 'exec' is for a shell. Such a file restarts itself with Python. */
    if (str_ends_with(file, ".py") && !memmem(bytes, strcspn(bytes, "\n"), "exec", 4))
        return error_set(err, -ENOEXEC,
                         "program '%s' does not begin with a line like '#!/usr/bin/env python3', "
                         "so a shell would run it: start it with python3 %s",
                         file, file);
    return 0;
}

/* ---- env ---- */

/* Terminate the next word of `*at`, and advance `*at` past it. Returns the word, or NULL if there
 * is none. For env -S, a carriage return is whitespace. */
static char *next_word(char **at)
{
    static const char blanks[] = " \t\r\v\f";
    char *word = *at + strspn(*at, blanks);

    *at = word + strcspn(word, blanks);
    if (**at)
        *(*at)++ = '\0';
    return *word ? word : NULL;
}

/* Returns the program that env -S starts; NULL if that is not obvious, or if env looks for it in
 * another PATH or folder. */
static const char *find_split_word(char *words)
{
    char *word;

    if (strpbrk(words, "\"'\\$#"))
        return NULL;
    while ((word = next_word(&words))) {
        const char *unset = NULL;

        if (strcmp(word, "-u") == 0 || strcmp(word, "--unset") == 0)
            unset = next_word(&words);
        else if (word[0] != '-' && !strchr(word, '='))
            return word;
        else if (word[0] == '-' && strcmp(word, "-v") != 0)
            return NULL;
        if (str_after(word, "PATH=") || (unset && strcmp(unset, "PATH") == 0))
            return NULL;
    }
    return NULL;
}

/* Returns the program that env starts for this argument, or NULL if that is not known. */
static const char *parse_env(char argument[LINE_BYTES + 1])
{
    static const char *const splits[] = {"-S", "-vS", "--split-string="};

    for (size_t i = 0; i < ARRAY_LEN(splits); i++)
        if (strncmp(argument, splits[i], strlen(splits[i])) == 0)
            return find_split_word(argument + strlen(splits[i]));
    if (argument[0] == '-')
        return NULL;
    return strchr(argument, '=') && !strpbrk(argument, " \t") ? NULL : argument;
}

/* ---- scripts ---- */

static int check_at(const char *file, const char *path, int depth, struct plenum_error *err);

/* Check an interpreter, which may be a script, or a binary whose loader is missing. */
static int check_next(const char *file, const char *interpreter, const char *path, int depth,
                      struct plenum_error *err)
{
    int r = check_at(interpreter, path, depth + 1, err);

    return r < 0 ? error_prefix(err, r, "program '%s'", file) : 0;
}

/* Returns whether the word ends with a carriage return. Windows ends lines with CR LF, and the CR
 * becomes part of the last word. */
static bool is_returned(const char *word)
{
    return *word && word[strlen(word) - 1] == '\r';
}

static int tell_return(const char *file, const char *word, struct plenum_error *err)
{
    size_t len = strlen(word);

    while (len > 0 && strchr(" \t\r", word[len - 1]))
        len--;
    return error_set(err, -ENOENT,
                     "program '%s' has lines that end with CR LF, as on Windows, so its first line "
                     "asks for '%.*s\\r': convert it, for instance with sed -i 's/\\r$//' %s",
                     file, (int)len, word, file);
}

/* Returns whether the interpreter rejects this argument because it ends with a carriage return.
 * Perl, for example, treats that as whitespace. */
static bool rejects_return(const struct hashbang *h)
{
    static const char *const strict[] = {"sh", "bash", "dash", "ksh", "zsh"};
    const char *name = io_base_name(h->interpreter), *argument = h->argument;
    bool known = str_after(name, "python") != NULL;

    if (!is_returned(argument) || (argument[0] != '-' && strcmp(argument, "\r") != 0))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(strict); i++)
        known |= strcmp(name, strict[i]) == 0;
    return known && !strpbrk(argument, "WX "); /* Python's -W and -X accept any text */
}

static int tell_env(const char *file, const struct hashbang *h, const char *name,
                    struct plenum_error *err)
{
    if (is_returned(name))
        return tell_return(file, name, err);
    if (strpbrk(name, " \t"))
        return error_set(err, -ENOENT,
                         "program '%s': '#!%s %s' makes env look for a program with that whole "
                         "name; write '#!%s -S %s'",
                         file, h->interpreter, name, h->interpreter, name);
    return error_set(err, -ENOENT,
                     "program '%s' needs the interpreter '%s', which is not in PATH: install "
                     "it, activate its environment, or correct the file's first line",
                     file, name);
}

static int check_env(const char *file, const struct hashbang *h, const char *path, int depth,
                     struct plenum_error *err)
{
    char argument[LINE_BYTES + 1], found[PATH_MAX];
    const char *name;

    (void)snprintf(argument, sizeof(argument), "%s", h->argument);
    name = parse_env(argument);
    if (!name)
        return 0;
    switch (host_find_program_in(path, name, found, sizeof(found))) {
    case 0:
        return check_next(file, found, path, depth, err);
    case -EACCES:
        return error_set(err, -EACCES,
                         "program '%s' needs the interpreter '%s', but '%s' cannot be executed: "
                         "correct its permission or PATH",
                         file, name, found);
    default:
        return tell_env(file, h, name, err);
    }
}

static int check_interpreter(const char *file, const struct hashbang *h, const char *path,
                             int depth, struct plenum_error *err)
{
    struct stat st;
    bool there = stat(h->interpreter, &st) == 0;

    if (!there && is_returned(h->interpreter))
        return tell_return(file, h->interpreter, err);
    if (!there && !strchr(h->interpreter, '/'))
        return error_set(err, -ENOENT,
                         "program '%s' names the interpreter '%s' without a folder, and the kernel "
                         "does not look in PATH: write '#!/usr/bin/env %s'",
                         file, h->interpreter, h->interpreter);
    if (!there && errno != EACCES)
        return error_set(err, -ENOENT,
                         "program '%s' needs the interpreter '%s', which is missing: install it, "
                         "or correct the file's first line",
                         file, h->interpreter);
    if (!there || !S_ISREG(st.st_mode) || access(h->interpreter, X_OK) < 0)
        return error_set(err, -EACCES,
                         "program '%s' needs the interpreter '%s', which cannot be executed: "
                         "correct its permission, or the file's first line",
                         file, h->interpreter);
    if (strcmp(io_base_name(h->interpreter), "env") == 0 && *h->argument)
        return check_env(file, h, path, depth, err);
    if (rejects_return(h))
        return tell_return(file, h->argument, err);
    return check_next(file, h->interpreter, path, depth, err);
}

/* Split the line. Returns 0; -E2BIG if the kernel does not see where the interpreter's name ends;
 * -ENOENT if there is no name, and a shell runs the file. */
static int parse_line(struct hashbang *h)
{
    char *at = h->line + 2, *end = at + strcspn(at, "\n");

    while (end > at && strchr(" \t", end[-1]))
        end--;
    *end = '\0';
    at += strspn(at, " \t");
    h->interpreter = at;
    at += strcspn(at, " \t");
    if (at == h->line + LINE_BYTES)
        return -E2BIG;
    if (*at)
        *at++ = '\0';
    h->argument = at + strspn(at, " \t");
    return *h->interpreter ? 0 : -ENOENT;
}

static int check_line(const char *file, struct hashbang *h, const char *path, int depth,
                      struct plenum_error *err)
{
    switch (parse_line(h)) {
    case 0:
        return check_interpreter(file, h, path, depth, err);
    case -E2BIG:
        return error_set(err, -ENOEXEC,
                         "program '%s' has a first line of more than %d bytes, and the kernel "
                         "reads no more: install the interpreter below a shorter path, or name "
                         "the interpreter before the script",
                         file, LINE_BYTES - 1);
    default:
        return depth == 0 ? check_unmarked(file, h->line, err) : 0;
    }
}

static int check_at(const char *file, const char *path, int depth, struct plenum_error *err)
{
    struct hashbang h = {.line = ""};
    int fd = depth < DEPTH_MOST ? open(file, O_RDONLY | O_CLOEXEC) : -1, r = 0;

    if (fd < 0)
        return 0;
    if (read(fd, h.line, LINE_BYTES) < 4)
        goto out; /* neither a script nor a binary */
    if (memcmp(h.line, ELFMAG, SELFMAG) == 0)
        r = check_binary(fd, file, err);
    else if (h.line[0] == '#' && h.line[1] == '!')
        r = check_line(file, &h, path, depth, err);
    else if (depth == 0)
        r = check_unmarked(file, h.line, err);
out:
    io_close(&fd);
    return r;
}

int script_check(const char *file, const char *path, struct plenum_error *err)
{
    return check_at(file, path, 0, err);
}

int script_find(const char *program, const char *path, struct plenum_error *err)
{
    bool in_path = !strchr(program, '/'), python = str_ends_with(program, ".py");
    char found[PATH_MAX];

    switch (host_find_program_in(path, program, found, sizeof(found))) {
    case 0:
        return script_check(found, path, err);
    case -EACCES:
        return error_set(
            err, -EACCES,
            "program '%s' cannot be executed: is it a program, and is it executable (chmod +x)?%s",
            program, python ? " Start Python scripts with python3 FILE" : "");
    default: /* a bare name is not searched for in the working directory */
        if (python)
            return error_set(err, -ENOENT,
                             "there is no program '%s'%s: start a Python script with python3 %s",
                             program, in_path ? " in PATH" : "", program);
        return error_set(err, -ENOENT, "there is no program '%s'%s", program,
                         in_path ? " in PATH" : "");
    }
}
