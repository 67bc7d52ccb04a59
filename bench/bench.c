/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "bench/bench.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "common/util/error_set.h"
#include "common/util/log.h"
#include "common/util/util.h"
#include "loader/image/image.h"

static int read_whole(const char *path, size_t len, uint8_t **ret)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), r = 0;
    uint8_t *bytes = malloc(len + !len);

    if (fd < 0)
        r = -errno;
    else if (!bytes)
        r = -ENOMEM;
    else
        r = io_pread_all(fd, bytes, len, 0);
    io_close(&fd);
    if (r < 0)
        free(bytes);
    else
        *ret = bytes;
    return r;
}

/* Add a file if it is a JPEG that decodes completely. */
static int add_file(struct bench_files *all, struct image_decoder *decoder, const char *path,
                    size_t len, struct plenum_error *err)
{
    struct bench_file *grown, file = {.len = len};
    struct image_info info;
    int r = read_whole(path, len, &file.bytes);

    if (r < 0)
        return error_set(err, r, "%s: %s", path, strerror(-r));
    if (image_verify(decoder, &(struct image_file){file.bytes, len}, &info, NULL) < 0 ||
        strcmp(info.format, "JPEG") != 0) {
        all->refused++;
        free(file.bytes);
        return 0;
    }
    file.width = info.width;
    file.height = info.height;
    file.path = strdup(path);
    grown = realloc(all->files, (all->count + 1) * sizeof(*grown));
    if (grown)
        all->files = grown;
    if (!grown || !file.path) {
        free(file.bytes);
        free(file.path);
        return error_set(err, -ENOMEM, "out of memory");
    }
    all->files[all->count++] = file;
    all->bytes += len;
    return 0;
}

static int add_folder(struct bench_files *all, struct image_decoder *decoder, const char *folder,
                      uint32_t limit, struct plenum_error *err)
{
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort), r = 0;

    if (count < 0)
        return error_set(err, -errno, "%s: %s", folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char *path = str_format("%s/%s", folder, names[i]->d_name);
        struct stat s;

        if (!path)
            r = error_set(err, -ENOMEM, "out of memory");
        else if (r == 0 && names[i]->d_name[0] != '.' && (limit == 0 || all->count < limit) &&
                 stat(path, &s) == 0)
            r = S_ISDIR(s.st_mode) ? add_folder(all, decoder, path, limit, err)
                                   : add_file(all, decoder, path, (size_t)s.st_size, err);
        free(path);
        free(names[i]);
    }
    free(names);
    return r;
}

int bench_files_load(const char *folder, uint32_t limit, struct bench_files *ret,
                     struct plenum_error *err)
{
    struct bench_files all = {0};
    struct image_decoder *decoder;
    int r;

    if (image_decoder_create(&decoder) < 0)
        return error_set(err, -ENOMEM, "out of memory");
    r = add_folder(&all, decoder, folder, limit, err);
    image_decoder_destroy(decoder);
    if (r == 0 && all.count == 0)
        r = error_set(err, -ENOENT, "%s: there is no JPEG that can be decoded", folder);
    if (r < 0)
        bench_files_free(&all);
    else
        *ret = all;
    return r;
}

void bench_files_free(struct bench_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        free(files->files[i].bytes);
        free(files->files[i].path);
    }
    free(files->files);
    *files = (struct bench_files){0};
}

int bench_start(const struct options_program *program, void *target, const char *const *images,
                int argc, char **argv)
{
    int operands, r;

    log_init(program->name, LOG_LEVEL_INFO);
    r = options_start(program, target, argc, argv, &operands);
    if (r >= 0)
        return r;
    if (*images && operands == 0)
        return -1;
    log_error("--images DIR is needed, and nothing else; see --help");
    return 2;
}

_Noreturn void bench_die(const struct options_program *program, const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", program->name, what);
    exit(1);
}

static char stage[] = "/tmp/plenum-bench-XXXXXX";

const char *bench_stage_open(const struct options_program *program)
{
    (void)setenv("PLENUM_PLENUMD", "./plenumd", 0);
    if (!mkdtemp(stage))
        bench_die(program, "no folder can be made in /tmp");
    (void)setenv("PLENUM_CACHE_DIR", stage, 1);
    return stage;
}

int bench_stage_close(void)
{
    char command[64];

    (void)snprintf(command, sizeof(command), "rm -rf %s", stage);
    return system(command) == 0 ? 0 : 1;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

struct bench_spread bench_spread_of(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return (struct bench_spread){
        .min = values[0],
        .median = (values[(count - 1) / 2] + values[count / 2]) / 2,
        .max = values[count - 1],
    };
}

void bench_cpu_name(char *text, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[256];

    (void)snprintf(text, size, "unknown processor");
    while (f && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) != 0 || !colon)
            continue;
        line[strcspn(line, "\n")] = 0;
        (void)snprintf(text, size, "%s", colon + 2);
        break;
    }
    if (f)
        (void)fclose(f);
}

void bench_json_begin(struct json *j, const char *name)
{
    char cpu[128];

    *j = (struct json){.file = stdout};
    bench_cpu_name(cpu, sizeof(cpu));
    json_begin_object(j, NULL, JSON_LINES);
    json_text(j, "benchmark", name);
    json_text(j, "processor", cpu);
}

void bench_json_spread(struct json *j, const struct bench_spread *s, int decimals)
{
    json_real(j, "min", s->min, decimals);
    json_real(j, "median", s->median, decimals);
    json_real(j, "max", s->max, decimals);
}
