/* SPDX-License-Identifier: MIT */
/* cmd_trace.c - plenumctl trace: joins the traces of a job's streams into one file, and summarises
 * them.
 *
 * With PLENUM_TRACE=DIR libplenum writes one file for each stream (libdist/batch_trace.c): an array
 * of events, one per line. If the process was killed, the array has no end, and the last line may
 * be incomplete; then only the complete lines are used. */
#include "config.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/error_set.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"

static const char suffix[] = ".trace.json";

static const struct options_program program = {
    .name = "plenumctl trace",
    .usage = "DIR OUT.json",
    .summary = "Merge the traces that the streams of a job have written into DIR "
               "(PLENUM_TRACE=DIR) into one file for ui.perfetto.dev or chrome://tracing, and "
               "summarise how long batches took.",
};

/* The stages of a batch, in order. */
enum { KINDS = 5 };
static const char *const kinds[KINDS] = {"queue", "render", "ready", "in use", "wait"};

/* How long one stage took for each batch, in microseconds. */
struct times {
    double *values;
    size_t count, room;
};

static int add_time(struct times *t, double value)
{
    int r = array_grow(&t->values, &t->room, t->count, sizeof(*t->values));

    if (r < 0)
        return r;
    t->values[t->count++] = value;
    return 0;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Returns the event on a line, without its comma; NULL: the line is incomplete. */
static char *event_of(char *line)
{
    size_t len;

    line += strspn(line, " ");
    len = strcspn(line, "\n");
    if (line[len] != '\n' && line[len - (len > 0)] != '}')
        return NULL; /* incomplete */
    while (len > 0 && (line[len - 1] == ',' || line[len - 1] == ' '))
        len--;
    line[len] = '\0';
    return len >= 2 && line[0] == '{' && line[len - 1] == '}' ? line : NULL;
}

static int count_event(struct times *times, const char *event)
{
    const char *name = strstr(event, "\"name\": \""), *dur = strstr(event, "\"dur\": ");

    if (!name || !dur)
        return 0;
    name += strlen("\"name\": \"");
    for (int i = 0; i < KINDS; i++)
        if (strncmp(name, kinds[i], strlen(kinds[i])) == 0 && name[strlen(kinds[i])] == '"')
            return add_time(&times[i], parse_real(dur + strlen("\"dur\": "), NULL));
    return 0;
}

struct join {
    FILE *out;
    struct times times[KINDS];
    unsigned files;
    size_t events;
};

/* Write an event, with the number of its file instead of the process ID, because processes on
 * different hosts may have the same ID. */
static void put_event(struct join *join, const char *event)
{
    const char *pid = strstr(event, "\"pid\": ");

    assert(join->files > 0); /* the number of this file */
    fprintf(join->out, "%s\n", join->events++ ? "," : "[");
    if (!pid) {
        fputs(event, join->out);
        return;
    }
    pid += strlen("\"pid\": ");
    fprintf(join->out, "%.*s%u%s", (int)(pid - event), event, join->files,
            pid + strspn(pid, "0123456789"));
}

static int join_file(struct join *join, const char *path, struct plenum_error *err)
{
    FILE *f = fopen(path, "re");
    char *line = NULL, *event;
    size_t room = 0;
    int r = 0;

    if (!f)
        return error_set(err, -errno, "%s: %s", path, strerror(errno));
    join->files++;
    while ((r = text_read_line(f, path, &line, &room, err)) > 0) {
        event = event_of(line);
        if (!event)
            continue;
        put_event(join, event);
        r = count_event(join->times, event);
        if (r < 0) {
            (void)error_set(err, r, "out of memory");
            goto out;
        }
    }
out:
    free(line);
    (void)fclose(f);
    return r;
}

static int is_trace(const struct dirent *e)
{
    size_t len = strlen(e->d_name), end = strlen(suffix);

    return len > end && strcmp(e->d_name + len - end, suffix) == 0;
}

static int join_entry(struct join *join, const char *folder, const char *name,
                      struct plenum_error *err)
{
    char *path = str_format("%s/%s", folder, name);
    int r = path ? join_file(join, path, err) : error_set(err, -ENOMEM, "out of memory");

    free(path);
    return r;
}

static int join_folder(struct join *join, const char *folder, struct plenum_error *err)
{
    struct dirent **names;
    int n = scandir(folder, &names, is_trace, alphasort), r = 0;

    if (n < 0)
        return error_set(err, -errno, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < n && r >= 0; i++)
        r = join_entry(join, folder, names[i]->d_name, err);
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
    if (n == 0)
        return error_set(err, -ENOENT,
                         "%s holds no traces: run the job with PLENUM_TRACE=%s in its environment",
                         folder, folder);
    return r;
}

/* Write the joined traces of a folder to a file. */
static int write_joined(struct join *join, const char *folder, const char *path,
                        struct plenum_error *err)
{
    char *temporary = str_format("%s.%ld", path, (long)getpid());
    int r;

    join->out = temporary ? fopen(temporary, "wxe") : NULL;
    if (!join->out) {
        r = error_set(err, -errno, "%s: %s", path, strerror(errno));
        free(temporary);
        return r;
    }
    r = join_folder(join, folder, err);
    fputs(join->events ? "\n]\n" : "[]\n", join->out);
    if ((ferror(join->out) | fclose(join->out)) && r >= 0)
        r = error_set(err, -EIO, "%s cannot be written", path);
    if (r < 0)
        goto fail;
    if (rename(temporary, path) < 0) {
        r = error_set(err, -errno, "%s: %s", path, strerror(errno));
        goto fail;
    }
    free(temporary);
    return 0;

fail:
    (void)unlink(temporary);
    free(temporary);
    return r;
}

static void print_summary(struct join *join)
{
    static const char *const what[KINDS] = {"requested, until the loader starts it",
                                            "being rendered", "ready, until the program takes it",
                                            "held by the program", "the program waited"};

    printf("%u streams, %zu batches\n\n", join->files, join->times[3].count);
    printf("           median ms     90 %% ms      max ms\n");
    for (int i = 0; i < KINDS; i++) {
        struct times *t = &join->times[i];

        if (t->count == 0)
            continue;
        qsort(t->values, t->count, sizeof(*t->values), by_value);
        printf("%-8s %11.3f %11.3f %11.3f  %s\n", kinds[i], t->values[t->count / 2] / 1e3,
               t->values[t->count * 9 / 10] / 1e3, t->values[t->count - 1] / 1e3, what[i]);
    }
}

static int run(int argc, char **argv)
{
    struct join join = {0};
    struct plenum_error err;
    int r;

    r = ctl_start(&program, NULL, argc, argv, 2, "a folder and a file to write are");
    if (r >= 0)
        return r;
    r = write_joined(&join, argv[1], argv[2], &err);
    if (r >= 0)
        print_summary(&join);
    for (int i = 0; i < KINDS; i++)
        free(join.times[i].values);
    return r < 0 ? ctl_fail("trace", &err) : 0;
}

const struct ctl_command ctl_trace = {
    .name = "trace",
    .summary = "merge traces of batches, for Perfetto or Chrome's trace viewer",
    .run = run,
};
