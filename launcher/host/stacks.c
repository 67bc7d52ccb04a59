/* SPDX-License-Identifier: MIT */
/* stacks.c - what /proc shows about threads, and what py-spy or gdb show, which are run for the
 * program itself and its first children.
 *
 * /proc/PID/task/TID/stack needs privileges, so the name of the kernel's function (wchan) and the
 * number of the system call are shown instead where it cannot be read. */
#include "config.h"

#include "launcher/host/stacks.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/text.h"
#include "common/util/util.h"
#include "launcher/host/host.h"

enum { PROCESSES_MOST = 4, THREADS_MOST = 32, STACK_LINES = 12 };

/* Read a thread's file in /proc up to its first newline; "" if it cannot be read. */
static void read_small(char *ret, size_t size, const char *name, int pid, int tid)
{
    char path[128];
    ssize_t n = 0;
    int fd;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", pid, tid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        n = read(fd, ret, size - 1);
        (void)close(fd);
    }
    ret[n > 0 ? n : 0] = '\0';
    ret[strcspn(ret, "\n")] = '\0';
}

/* Returns the process state, which follows the name; that may contain any character. */
static char state_of(const char *stat)
{
    const char *end = strrchr(stat, ')');

    return end && end[1] == ' ' && end[2] ? end[2] : '?';
}

static const char *name_state(char state)
{
    switch (state) {
    case 'R':
        return "running";
    case 'S':
        return "sleeping";
    case 'D':
        return "waiting in the kernel (uninterruptible)";
    case 'T':
        return "stopped by a signal";
    case 't':
        return "stopped by a debugger";
    case 'Z':
        return "ended";
    default:
        return "in an unknown state";
    }
}

static void show_kernel_stack(int pid, int tid)
{
    char path[128], line[200];
    struct text_lines lines;

    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/stack", pid, tid);
    if (text_lines_open(&lines, path) < 0)
        return;
    for (int i = 0; i < STACK_LINES && text_lines_next(&lines, line, sizeof(line)); i++)
        printf("      %s\n", line);
    text_lines_close(&lines);
}

static void show_thread(int pid, int tid)
{
    char name[64], stat[512], wchan[128], call[64];

    read_small(name, sizeof(name), "comm", pid, tid);
    read_small(stat, sizeof(stat), "stat", pid, tid);
    read_small(wchan, sizeof(wchan), "wchan", pid, tid);
    read_small(call, sizeof(call), "syscall", pid, tid);
    call[strcspn(call, " ")] = '\0';
    printf("    thread %d (%s): %s", tid, name, name_state(state_of(stat)));
    if (wchan[0] && strcmp(wchan, "0") != 0)
        printf(", in %s", wchan);
    if (call[0] >= '0' && call[0] <= '9')
        printf(", system call %s", call);
    printf("\n");
    show_kernel_stack(pid, tid);
}

static void show_threads(int pid)
{
    char path[64];
    struct dirent *entry;
    DIR *dir;
    int count = 0;

    (void)snprintf(path, sizeof(path), "/proc/%d/task", pid);
    dir = opendir(path);
    while (dir && (entry = readdir(dir))) {
        int tid = atoi(entry->d_name);

        if (tid > 0 && ++count <= THREADS_MOST)
            show_thread(pid, tid);
    }
    if (count > THREADS_MOST)
        printf("    and %d more threads\n", count - THREADS_MOST);
    if (dir)
        (void)closedir(dir);
}

/* Print a tool's output. Returns whether there was any and the tool succeeded. */
static bool show_tool(char *const *words)
{
    struct capture c;
    bool shown = false;

    if (capture_command(&c, words, STACKS_TOOL_MS * NS_PER_MS) < 0)
        return false;
    capture_wait(&c, 1);
    if (c.len > 0) {
        printf("    %s%s:\n", words[0], c.late ? ", which did not end in time" : "");
        for (char *save = NULL, *line = strtok_r(c.text, "\n", &save); line;
             line = strtok_r(NULL, "\n", &save))
            printf("      %s\n", line);
        shown = capture_has_exited(&c, 0);
    }
    capture_fini(&c);
    return shown;
}

static bool is_installed(const char *name)
{
    char path[4096];

    return host_find_program(name, path, sizeof(path)) == 0;
}

static void show_program(int pid)
{
    char number[16], exe[4096] = "", link[32];
    char *const spy[] = {(char *)"py-spy", (char *)"dump", (char *)"--nonblocking",
                         (char *)"--pid",  number,         NULL};
    char *const gdb[] = {(char *)"gdb",
                         (char *)"-batch",
                         (char *)"-nx",
                         (char *)"-p",
                         number,
                         (char *)"-ex",
                         (char *)"thread apply all bt 20",
                         NULL};

    (void)snprintf(number, sizeof(number), "%d", pid);
    (void)snprintf(link, sizeof(link), "/proc/%d/exe", pid);
    if (readlink(link, exe, sizeof(exe) - 1) > 0 && strstr(exe, "python") &&
        is_installed("py-spy") && show_tool(spy))
        return;
    if (is_installed("gdb"))
        (void)show_tool(gdb);
}

static void show_process(int pid)
{
    char name[64], stat[512];

    read_small(name, sizeof(name), "comm", pid, pid);
    read_small(stat, sizeof(stat), "stat", pid, pid);
    printf("  process %d (%s): %s\n", pid, name, name_state(state_of(stat)));
    show_threads(pid);
    (void)fflush(stdout);
    show_program(pid);
    (void)fflush(stdout);
}

static int show(const void *arg)
{
    int pid = *(const pid_t *)arg, count = 1;
    char children[1024], *save = NULL;

    show_process(pid);
    read_small(children, sizeof(children), "children", pid, pid);
    for (char *word = strtok_r(children, " ", &save); word && count < PROCESSES_MOST;
         word = strtok_r(NULL, " ", &save), count++)
        show_process(atoi(word));
    return 0;
}

int stacks_begin(struct capture *capture, const pid_t *pid)
{
    return capture_call(capture, show, pid, STACKS_LIMIT_MS * NS_PER_MS);
}
