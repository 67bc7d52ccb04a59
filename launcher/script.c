/* SPDX-License-Identifier: MIT */
/* script.c - reads a program's first bytes as the kernel does.
 *
 * "#!/usr/bin/env -S python3 -u": the interpreter and one argument, which is the rest of the line.
 * The interpreter may be a script, too; env searches PATH for the next one; and a binary names its
 * dynamic loader. Each of these may be missing. Anything unknown is accepted: this finds the usual
 * mistakes early, and execve() decides. */
#include "config.h"

#include "launcher/script.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/error.h"
#include "common/util.h"
#include "launcher/host.h"

enum {
    LINE_BYTES = 256, /* length of the first line that the kernel reads */
    DEPTH_MOST = 4,   /* nested interpreters that are scripts */
};

/* A "#!" line, split as the kernel does. */
struct hashbang {
    char line[LINE_BYTES + 1];
    const char *interpreter;
    const char *argument; /* the rest of the line, "" if there is none */
};

/* ---- binaries ---- */

/* Without its dynamic loader a binary fails like a script without its interpreter. */
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
                     "program '%s' needs the dynamic loader '%s', which is missing: install what "
                     "it belongs to, or a build for this system",
                     file, name);
}

/* Emulators run binaries for other processors, and look for loaders elsewhere. */
static bool is_native(const Elf64_Ehdr *header)
{
    Elf64_Ehdr own = {0};
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : pread(fd, &own, sizeof(own), 0);

    io_close(&fd);
    return n == (ssize_t)sizeof(own) && own.e_machine == header->e_machine &&
           own.e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           own.e_ident[EI_DATA] == header->e_ident[EI_DATA] &&
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

/* execvp() would run them with a shell. */
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
    if (str_ends_with(file, ".py"))
        return error_set(err, -ENOEXEC,
                         "program '%s' does not begin with a line like '#!/usr/bin/env python3', "
                         "so a shell would run it: start it by python3 %s",
                         file, file);
    return 0;
}

/* ---- env ---- */

/* Get the next word of `*at`, and cut the text there; NULL: there is none. */
static char *next_word(char **at)
{
    char *word = *at + strspn(*at, " \t");

    *at = word + strcspn(word, " \t");
    if (**at)
        *(*at)++ = '\0';
    return *word ? word : NULL;
}

/* The program that env -S starts; NULL if that is not obvious. */
static const char *find_split_word(char *words)
{
    bool operands = false; /* variables, after which there are no options */
    char *word;

    if (strpbrk(words, "\"'\\$#"))
        return NULL;
    while ((word = next_word(&words))) {
        bool takes_next = strcmp(word, "-u") == 0 || strcmp(word, "-C") == 0 ||
                          strcmp(word, "--unset") == 0 || strcmp(word, "--chdir") == 0;

        if (takes_next && !operands)
            (void)next_word(&words);
        else if ((word[0] != '-' || operands) && !strchr(word, '='))
            return word;
        operands |= word[0] != '-';
    }
    return NULL;
}

/* Find the program that env starts for this argument, in `*ret`; NULL: not known. */
static int parse_env(const char *file, const struct hashbang *h, char argument[LINE_BYTES + 1],
                     const char **ret, struct plenum_error *err)
{
    static const char *const splits[] = {"-S", "-vS", "--split-string="};

    *ret = NULL;
    for (size_t i = 0; i < ARRAY_LEN(splits); i++)
        if (strncmp(argument, splits[i], strlen(splits[i])) == 0) {
            *ret = find_split_word(argument + strlen(splits[i]));
            return 0;
        }
    if (argument[0] == '-')
        return 0;
    if (strpbrk(argument, " \t"))
        return error_set(err, -ENOENT,
                         "program '%s': '#!%s %s' makes env look for one program of that whole "
                         "name; write '#!%s -S %s'",
                         file, h->interpreter, argument, h->interpreter, argument);
    *ret = argument;
    return 0;
}

/* ---- scripts ---- */

static int check_at(const char *file, const char *path, int depth, struct plenum_error *err);

/* The interpreter may be a script, or a binary whose loader is missing. */
static int check_next(const char *file, const char *interpreter, const char *path, int depth,
                      struct plenum_error *err)
{
    int r = check_at(interpreter, path, depth + 1, err);

    return r < 0 ? error_prefix(err, r, "program '%s'", file) : 0;
}

static int check_env(const char *file, const struct hashbang *h, const char *path, int depth,
                     struct plenum_error *err)
{
    char argument[LINE_BYTES + 1], found[PATH_MAX];
    const char *name;
    int r;

    (void)snprintf(argument, sizeof(argument), "%s", h->argument);
    r = parse_env(file, h, argument, &name, err);
    if (r < 0 || !name)
        return r;
    switch (host_find_program_in(path, name, found, sizeof(found))) {
    case 0:
        return check_next(file, found, path, depth, err);
    case -EACCES:
        return error_set(err, -EACCES,
                         "program '%s' needs the interpreter '%s', but '%s' cannot be executed: "
                         "correct its permission or PATH",
                         file, name, found);
    default:
        return error_set(err, -ENOENT,
                         "program '%s' needs the interpreter '%s', which is not in PATH: install "
                         "it, activate its environment, or correct the file's first line",
                         file, name);
    }
}

static int check_interpreter(const char *file, const struct hashbang *h, const char *path,
                             int depth, struct plenum_error *err)
{
    struct stat st;
    bool there = stat(h->interpreter, &st) == 0;

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
    return check_next(file, h->interpreter, path, depth, err);
}

/* Windows ends lines with CR LF, and the CR becomes part of the last word. */
static int tell_return(const char *file, const struct hashbang *h, struct plenum_error *err)
{
    const char *word = *h->argument ? h->argument : h->interpreter;

    return error_set(err, -ENOENT,
                     "program '%s' has lines that end with CR LF, as on Windows, so its first line "
                     "asks for '%s\\r': convert it, for instance by sed -i 's/\\r$//' %s",
                     file, word, file);
}

/* Split the line. False: the kernel finds no interpreter, and a shell runs the file. */
static bool parse_line(struct hashbang *h, bool *ret_returned)
{
    char *at = h->line + 2, *end = at + strcspn(at, "\n");
    char *last = end;

    *end = '\0';
    while (last > at && strchr(" \t\r", last[-1]))
        last--;
    *ret_returned = strchr(last, '\r') != NULL;
    *last = '\0';
    at += strspn(at, " \t");
    h->interpreter = at;
    at += strcspn(at, " \t");
    if (*at)
        *at++ = '\0';
    h->argument = at + strspn(at, " \t");
    return *h->interpreter != '\0';
}

static int check_line(const char *file, struct hashbang *h, const char *path, int depth,
                      struct plenum_error *err)
{
    bool returned;

    if (!strchr(h->line, '\n') && strlen(h->line) == LINE_BYTES)
        return error_set(err, -ENOEXEC,
                         "program '%s' has a first line of more than %d bytes, and the kernel "
                         "reads no more: install the interpreter below a shorter path, or name "
                         "the interpreter before the script",
                         file, LINE_BYTES - 1);
    if (!parse_line(h, &returned))
        return 0;
    return returned ? tell_return(file, h, err) : check_interpreter(file, h, path, depth, err);
}

static int check_at(const char *file, const char *path, int depth, struct plenum_error *err)
{
    struct hashbang h = {.line = ""};
    int fd = depth < DEPTH_MOST ? open(file, O_RDONLY | O_CLOEXEC) : -1, r = 0;

    if (fd < 0)
        return 0;
    if (read(fd, h.line, LINE_BYTES) < 4)
        goto out; /* neither */
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
        return error_set(err, -EACCES,
                         "program '%s' cannot be executed: is it a program, and has it the "
                         "permission (chmod +x)?%s",
                         program, python ? " Python scripts are started by python3 FILE" : "");
    default: /* a bare name is not searched for in the working directory */
        if (python)
            return error_set(err, -ENOENT,
                             "there is no program '%s'%s: a Python script is started by python3 %s",
                             program, in_path ? " in PATH" : "", program);
        return error_set(err, -ENOENT, "there is no program '%s'%s", program,
                         in_path ? " in PATH" : "");
    }
}
