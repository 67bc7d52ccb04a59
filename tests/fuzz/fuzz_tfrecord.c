/* SPDX-License-Identifier: MIT */
/* fuzz_tfrecord.c - reads arbitrary bytes as a TFRecord file. If the first byte is odd, the rest is
 * used as is; if it is even, the rest becomes the data of a record with correct checksums, so that
 * the code after the checks is reached. An accepted file is then read as a loader reads it: each
 * image must consist of bytes of the file. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "tests/records.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char path[64];

static void require(bool truth)
{
    if (!truth)
        abort();
}

static void remove_file(void)
{
    (void)unlink(path);
}

static void write_file(const struct bytes *file)
{
    int fd;

    if (!path[0]) {
        (void)snprintf(path, sizeof(path), "%.40s/fuzz-XXXXXX",
                       getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
        fd = mkstemp(path);
        (void)atexit(remove_file);
    } else {
        fd = open(path, O_WRONLY);
    }
    /* No O_TRUNC: with it, some file systems write to the disk on close. */
    require(fd >= 0 && io_write_all(fd, file->p, file->len) == 0 &&
            ftruncate(fd, (off_t)file->len) == 0);
    (void)close(fd);
}

static void note_field(void *arg, const char *key, const void *value, size_t len, bool exact)
{
    (void)exact;
    size_t *sum = arg;

    *sum += strlen(key) + len + (len ? ((const uint8_t *)value)[len - 1] : 0);
}

static void read_all(const struct dataset *d, const struct bytes *file)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    char name[512];
    size_t sum = 0;

    require(dataset_get_samples(d) > 0);
    for (uint32_t i = 0; i < dataset_get_samples(d); i++) {
        int r = dataset_read(d, i, &buffer, &err);

        require(r == 0 || r == -EBADMSG || (r == -EINVAL && !dataset_has_images(d)));
        if (r == 0)
            require(memmem(file->p, file->len, buffer.bytes, buffer.len) != NULL);
        require(dataset_get_label(d, i) >= 0 && dataset_get_label(d, i) < dataset_get_classes(d));
        require(dataset_get_sample_name(d, i, name, sizeof(name))[0]);
        r = dataset_fields(d, i, note_field, &sum, &err);
        require(r == 0 || r == -EBADMSG);
    }
    dataset_buffer_fini(&buffer);
}

static void read_fields(const struct dataset *d)
{
    struct dataset_buffer record = {0};
    struct plenum_error err = {""};

    for (uint32_t i = 0; i < dataset_get_samples(d); i++) {
        int r = dataset_read_fields(d, i, &record, &err);

        require(r < 0 ? r == -EBADMSG && err.text[0] : record.len == dataset_get_record_bytes(d));
    }
    dataset_buffer_fini(&record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const settings[] = {"", ",image=a,label=b", ",label=image/format",
                                           ",name=image/encoded", ",image=none"};
    static const char fields[] =
        "a:image/format:bytes,b:image/class/label:int64,c:image/filename:line,"
        "d:image/encoded:boxes";
    struct dataset_options options = {.cache_dir = "/dev/null/none", .threads = 1};
    struct plenum_error err = {""};
    struct bytes file = {0};
    struct dataset *d;
    char name[160];

    if (size == 0)
        return 0;
    if (data[0] & 1)
        bytes_put(&file, data + 1, size - 1);
    else
        record_put_raw(&file, data + 1, size - 1);
    write_file(&file);
    (void)snprintf(name, sizeof(name), "tfrecord%s:%s", settings[data[0] / 2 % ARRAY_LEN(settings)],
                   path);
    if (dataset_open(name, &options, &d, &err) == 0) {
        read_all(d, &file);
        dataset_unref(d);
    } else {
        require(err.text[0]);
    }
    options.fields = fields;
    err.text[0] = '\0';
    if (dataset_open(name, &options, &d, &err) == 0) {
        read_fields(d);
        dataset_unref(d);
    } else {
        require(err.text[0]);
    }
    bytes_fini(&file);
    return 0;
}
