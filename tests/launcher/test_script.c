/* SPDX-License-Identifier: MIT */
/* Tests how programs that cannot start are recognised. The kernel is the oracle: accepted programs
 * must run and exit with 0, and rejected ones must fail in execve(2) or env(1), except files that
 * only a shell would run.
 *
 * PLENUM_SCRIPT_LINES=20000 tries that many random first lines instead of a sample. */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/script.h"

static char folder[] = "/tmp/plenum-script-XXXXXX";

static void write_file(const char *name, const void *bytes, size_t len, mode_t mode)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);

    cr_assert(fd >= 0 && io_write_all(fd, bytes, len) == 0 && fchmod(fd, mode) == 0);
    io_close(&fd);
}

static void write_text(const char *name, const char *text)
{
    write_file(name, text, strlen(text), 0755);
}

/* A folder with a valid interpreter, one that is a script, one whose own interpreter is missing,
 * and one without permission. "run" is the program. */
static void setup(void)
{
    char path[200], text[300];

    cr_assert(mkdtemp(folder) && chdir(folder) == 0);
    (void)snprintf(path, sizeof(path), "%s:/usr/bin:/bin", folder);
    setenv("PATH", path, 1);
    write_text("good", "#!/bin/sh\nexit 0\n");
    (void)snprintf(text, sizeof(text), "#!%s/good\n", folder);
    write_text("nested", text);
    write_text("broken", "#!/nowhere/python9\n");
    write_text("good\r", "#!/bin/sh\nexit 0\n"); /* a known remedy for scripts from Windows */
    write_text("good 9", "#!/bin/sh\nexit 0\n");
    cr_assert(mkdir("sub9", 0755) == 0);
    write_text("sub9/only", "#!/bin/sh\nexit 0\n");
    write_file("locked", "#!/bin/sh\n", 10, 0644);
}

static void teardown(void)
{
    static const char *const names[] = {"good",   "nested", "broken", "locked",   "run",
                                        "run.py", "good\r", "good 9", "sub9/only"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        (void)unlink(names[i]);
    (void)rmdir("sub9");
    (void)rmdir(folder);
}

/* Returns the program's status: 0, its exit status, or 127 when execve() fails. */
static int run(const char *file)
{
    char *argv[] = {(char *)file, NULL};
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);

        (void)dup2(null, STDIN_FILENO);
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
        /* "#!/usr/bin/env" runs itself without end, perhaps with signals blocked. */
        (void)setrlimit(RLIMIT_CPU, &(struct rlimit){.rlim_cur = 2, .rlim_max = 2});
        (void)setitimer(ITIMER_PROF, &(struct itimerval){.it_value.tv_usec = 100000}, NULL);
        (void)execve(file, argv, environ);
        _exit(127);
    }
    cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

TestSuite(script, .init = setup, .fini = teardown);

struct script_case {
    char text[80]; /* contents of the file; "%s" is replaced by the folder */
    int want;
    char says[2][80]; /* the interpreter, the remedy */
};

ParameterizedTestParameters(script, first_lines)
{
    static struct script_case cases[] = {
        {"#!/bin/sh\n", 0, {"", ""}},
        {"#!/bin/sh", 0, {"", ""}},
        {"#! \t/bin/sh  \n", 0, {"", ""}},
        {"#!/bin/sh -e\nexit 0\n", 0, {"", ""}},
        {"#!%s/good\n", 0, {"", ""}},
        {"#!%s/nested\n", 0, {"", ""}},
        {"#!/usr/bin/env good\n", 0, {"", ""}},
        {"#!/usr/bin/env nested\n", 0, {"", ""}},
        {"#!/usr/bin/env -S good -u\n", 0, {"", ""}},
        {"#!/usr/bin/env -S -u HOME A=b good\n", 0, {"", ""}},
        {"#!/usr/bin/env -S 'good'\n", 0, {"", ""}},
        {"#!/usr/bin/env -S good\r\n", 0, {"", ""}}, /* a carriage return is whitespace there */
        {"#!/usr/bin/env -S good -u \r\n", 0, {"", ""}},
        {"#!/usr/bin/env -S PATH=%s/sub9:/bin only\n", 0, {"", ""}},
        {"#!/usr/bin/env -S -C %s/sub9 ./only\n", 0, {"", ""}},
        {"#!/usr/bin/env good 9\n", 0, {"", ""}},
        {"#!good\r\n", 0, {"", ""}},
        {"#!/usr/bin/env good\r\n", 0, {"", ""}},
        {"#!%s/good -u\r\n", 0, {"", ""}},
        {"#!%s/good \r\n", 0, {"", ""}},
        {"#!/bin/sh -e\r\n", -ENOENT, {"asks for '-e\\r'", "convert it"}},
        {"#!/bin/sh \r\n", -ENOENT, {"asks for '\\r'", "convert it"}},
        {"#!good9\r\n", -ENOENT, {"asks for 'good9\\r'", "convert it"}},
        {"#!/bin/sh\r\n", -ENOENT, {"asks for '/bin/sh\\r'", "sed -i 's/\\r$//' "}},
        {"#!/bin/sh\r", -ENOENT, {"'/bin/sh\\r'", "convert it"}},
        {"#!/usr/bin/env nested\r\n", -ENOENT, {"asks for 'nested\\r'", "CR LF, as on Windows"}},
        {"#!/usr/bin/env good \r\n", -ENOENT, {"asks for 'good\\r'", "convert it"}},
        {"#!/nowhere/python9\n", -ENOENT, {"'/nowhere/python9', which is missing", "install it"}},
        {"#!/nowhere/python9 -u\n", -ENOENT, {"'/nowhere/python9', which", "first line"}},
        {"#!%s/broken\n", -ENOENT, {"'/nowhere/python9'", "install it"}},
        {"#!%s/locked\n", -EACCES, {"/locked', which cannot be executed", "permission"}},
        {"#!/tmp\n", -EACCES, {"'/tmp', which cannot be executed", "permission"}},
        {"#!good9\n", -ENOENT, {"'good9' without a folder", "write '#!/usr/bin/env good9'"}},
        {"#!/usr/bin/env python9\n", -ENOENT, {"'python9', which is not in PATH", "install it"}},
        {"#!/usr/bin/env broken\n", -ENOENT, {"'/nowhere/python9', which is missing", "install"}},
        {"#!/usr/bin/env locked\n", -EACCES, {"/locked' cannot be executed", "permission"}},
        {"#!/usr/bin/env good -u\n", -ENOENT, {"env good -u'", "write '#!/usr/bin/env -S good"}},
        {"#!/usr/bin/env -S python9 -u\n", -ENOENT, {"'python9', which is not in PATH", "install"}},
    };
    return cr_make_param_array(struct script_case, cases, ARRAY_LEN(cases));
}

static void expect_says(const char *text, const char *part)
{
    cr_expect(strstr(text, part) != NULL, "no '%s' in '%s'", part, text);
}

ParameterizedTest(struct script_case *c, script, first_lines)
{
    const char *at = strstr(c->text, "%s");
    struct plenum_error err = {""};
    char text[300], file[200];

    (void)snprintf(text, sizeof(text), "%.*s%s%s", (int)(at ? at - c->text : 0), c->text,
                   at ? folder : "", at ? at + 2 : c->text);
    (void)snprintf(file, sizeof(file), "%s/run", folder);
    write_text("run", text);
    cr_expect(eq(int, script_check(file, getenv("PATH"), &err), c->want), "%s: %s", text, err.text);
    cr_expect(eq(int, run(file) == 0, c->want == 0), "the kernel and env disagree about %s", text);
    if (c->want < 0) {
        expect_says(err.text, file);
        expect_says(err.text, c->says[0]);
        expect_says(err.text, c->says[1]);
    }
}

/* execvp(3) runs these with a shell. */
Test(script, files_that_only_a_shell_would_run)
{
    struct plenum_error err = {""};

    write_text("run", "\xef\xbb\xbf#!/bin/sh\nexit 0\n");
    cr_expect(eq(int, script_check("./run", NULL, &err), -ENOEXEC));
    expect_says(err.text, "./run");
    expect_says(err.text, "byte order mark before '#!'");
    expect_says(err.text, "UTF-8 without BOM");
    cr_expect(eq(int, run("./run"), 127));

    write_file("run", "\xff\xfe#\0!\0/\0b\0", 10, 0755);
    cr_expect(eq(int, script_check("./run", NULL, &err), -ENOEXEC));
    expect_says(err.text, "UTF-16");

    write_text("run.py", "import sys\n");
    cr_expect(eq(int, script_check("./run.py", NULL, &err), -ENOEXEC));
    expect_says(err.text, "start it with python3 ./run.py");

    write_text("run.py", "#! \nimport sys\n");
    cr_expect(eq(int, script_check("./run.py", NULL, &err), -ENOEXEC));
    cr_expect(eq(int, run("./run.py"), 127));

    write_text("run.py", "\"exec\" \"python3\" \"$0\" \"$@\"\nimport sys\n"); /* for a shell */
    cr_expect(eq(int, script_check("./run.py", NULL, &err), 0));

    write_text("run", "exit 0\n"); /* a shell script */
    cr_expect(eq(int, script_check("./run", NULL, &err), 0));
    write_text("run", "");
    cr_expect(eq(int, script_check("./run", NULL, &err), 0));
}

/* Every length around the kernel's limit. */
Test(script, long_first_lines)
{
    struct plenum_error err = {""};
    char text[400];

    for (size_t len = 240; len < 270; len++) {
        bool runs;

        memset(text, '/', sizeof(text));
        memcpy(text, "#!", 2);
        memcpy(text + len - 8, "/bin/sh\n", 9);
        write_text("run", text);
        runs = run("./run") == 0;
        cr_expect(eq(int, script_check("./run", NULL, &err) == 0, runs), "%zu bytes", len);
    }
    expect_says(err.text, "a first line of more than 255 bytes");
}

/* The kernel truncates the argument, and the interpreter may not need the rest. */
Test(script, long_arguments)
{
    struct plenum_error err = {""};
    char text[400];

    for (size_t len = 240; len < 300; len++) {
        memset(text, ' ', sizeof(text));
        memcpy(text, "#!/bin/sh -e", 12);
        memcpy(text + len, "\nexit 0\n", 9);
        write_text("run", text);
        cr_expect(eq(int, run("./run"), 0));
        cr_expect(eq(int, script_check("./run", NULL, &err), 0), "%zu bytes: %s", len, err.text);
    }
}

/* Perl treats a carriage return as whitespace. */
Test(script, perl_from_windows)
{
    struct plenum_error err = {""};

    if (access("/usr/bin/perl", X_OK) < 0)
        cr_skip("there is no perl");
    write_text("run", "#!/usr/bin/perl -w\r\nexit 0;\r\n");
    cr_expect(eq(int, run("./run"), 0));
    cr_expect(eq(int, script_check("./run", getenv("PATH"), &err), 0), "%s", err.text);
}

/* Write a random first line, and a second one. */
static void make_line(unsigned short seed[3], char *ret, size_t size)
{
    static const char *const starts[] = {"/usr/bin/env -S ", "/usr/bin/env ", "/bin/sh ", "./good ",
                                         ""};
    static const char *const words[] = {
        "good",         "./good",    "nested",   "broken",       "locked",
        "good\r",       "good 9",    "nowhere",  "only",         "sub9/only",
        "/bin/sh",      "-e",        "-u",       "-u HOME",      "-u PATH",
        "-i",           "-",         "--",       "-v",           "-C sub9",
        "-C /",         "PATH=sub9", "A=b",      "'good'",       "good\\_x",
        "\r",           "#",         "-S",       "/usr/bin/env", "--chdir=sub9",
        "--unset=PATH", "${HOME}",   "PATH=/bin"};
    static const char *const blanks[] = {"", " ", " ", " ", "\t", "  "};
    static const char *const ends[] = {"\n", "\n", "\n", "\r\n", " \n", " \r\n", "\t\n", ""};
    size_t len = (size_t)snprintf(ret, size, "#!%s%s", blanks[nrand48(seed) % 6],
                                  starts[(size_t)nrand48(seed) % ARRAY_LEN(starts)]);

    for (long n = nrand48(seed) % 5; n > 0; n--)
        len += (size_t)snprintf(ret + len, size - len, "%s%s",
                                words[(size_t)nrand48(seed) % ARRAY_LEN(words)],
                                blanks[nrand48(seed) % 6]);
    if (nrand48(seed) % 8 == 0)
        len += (size_t)snprintf(ret + len, size - len, "%*s", (int)(nrand48(seed) % 300), "");
    (void)snprintf(ret + len, size - len, "%sexit 0\n", ends[nrand48(seed) % 8]);
}

/* The law: a script that runs is accepted. env(1) without a program, which prints its variables, is
 * not such a script. */
Test(script, random_first_lines)
{
    const char *number = getenv("PLENUM_SCRIPT_LINES");
    long count = number ? atol(number) : 200, run_well = 0;
    unsigned short seed[3] = {1, 2, 3};

    for (long i = 0; i < count; i++) {
        struct plenum_error err = {""};
        char text[1000];

        make_line(seed, text, sizeof(text));
        write_text("run", text);
        if ((strchr(text, '=') && !strstr(text, "-S")) || run("./run") != 0)
            continue;
        run_well++;
        cr_expect(eq(int, script_check("./run", getenv("PATH"), &err), 0), "'%s': %s", text,
                  err.text);
    }
    cr_expect(run_well > count / 20, "only %ld of %ld run", run_well, count);
}

/* A binary of this system, and one whose dynamic loader is missing. */
Test(script, a_binary_without_its_dynamic_loader)
{
    static const char name[] = "/lib64/ld-linux-x86-64.so.2";
    struct plenum_error err = {""};
    char *bytes = NULL, *at;
    struct stat st;
    int fd = open("/bin/true", O_RDONLY | O_CLOEXEC);

    cr_expect(eq(int, script_check("/bin/true", NULL, &err), 0));
    cr_expect(eq(int, script_check("/proc/self/exe", NULL, &err), 0));
    cr_assert(fd >= 0 && fstat(fd, &st) == 0);
    bytes = malloc((size_t)st.st_size);
    cr_assert(bytes && read(fd, bytes, (size_t)st.st_size) == st.st_size);
    at = memmem(bytes, (size_t)st.st_size, name, strlen(name));
    if (at) { /* other systems name it differently */
        memcpy(at, "/nowhere", 8);
        write_file("run", bytes, (size_t)st.st_size, 0755);
        cr_expect(eq(int, script_check("./run", NULL, &err), -ENOENT));
        cr_expect(eq(int, run("./run"), 127));
        expect_says(err.text, "the dynamic loader '/nowhere");
    }
    free(bytes);
    io_close(&fd);
}

Test(script, unreadable_files_are_accepted)
{
    struct plenum_error err = {""};

    cr_expect(eq(int, script_check("/nowhere/run", NULL, &err), 0));
    cr_expect(eq(int, script_check("/tmp", NULL, &err), 0));
}
