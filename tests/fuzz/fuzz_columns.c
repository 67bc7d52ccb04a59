/* SPDX-License-Identifier: MIT */
/* fuzz_columns.c - reads arbitrary bytes as a Parquet file, or as an MDS data set. The first byte
 * selects the format and the settings. For MDS, two bytes with the length of index.json follow,
 * then index.json, then the shard, which is written under the names that seeds use. An accepted
 * data set is then read as a loader reads it. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"a.parquet", "index.json", "shard.00000.mds",
                                    "shard.00000.mds.snappy"};

enum { PARQUET, INDEX, SHARD, PACKED, NAMES };

static char folder[64], paths[NAMES][96];

static void require(bool truth)
{
    if (!truth)
        abort();
}

static void remove_all(void)
{
    for (int i = 0; i < NAMES; i++)
        (void)unlink(paths[i]);
    (void)rmdir(folder);
}

static void create_folder(void)
{
    (void)snprintf(folder, sizeof(folder), "%.40s/fuzz-XXXXXX",
                   getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    require(mkdtemp(folder) != NULL);
    for (int i = 0; i < NAMES; i++)
        (void)snprintf(paths[i], sizeof(paths[i]), "%s/%s", folder, names[i]);
    (void)atexit(remove_all);
}

static void write_file(int which, const uint8_t *bytes, size_t len)
{
    int fd = open(paths[which], O_WRONLY | O_CREAT, 0600);

    /* No O_TRUNC: with it, some file systems write to the disk on close. */
    require(fd >= 0 && io_write_all(fd, bytes, len) == 0 && ftruncate(fd, (off_t)len) == 0);
    (void)close(fd);
}

static void note_field(void *arg, const char *key, const void *value, size_t len, bool exact)
{
    size_t *sum = arg;

    (void)exact;
    *sum += strlen(key) + len + (len ? ((const uint8_t *)value)[len - 1] : 0);
}

static void read_all(const struct dataset *d)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;
    char name[512];
    size_t sum = 0;

    require(dataset_get_samples(d) > 0);
    for (uint32_t i = 0; i < dataset_get_samples(d) && i < 1000; i++) {
        int r = dataset_read(d, i, &buffer, &err);

        require(r == 0 || r == -EBADMSG || (r == -EINVAL && !dataset_has_images(d)));
        for (size_t k = 0; r == 0 && k < buffer.len; k++)
            sum += buffer.bytes[k];
        require(dataset_get_label(d, i) >= 0 && dataset_get_label(d, i) < dataset_get_classes(d));
        require(dataset_get_sample_name(d, i, name, sizeof(name))[0]);
        r = dataset_fields(d, i, note_field, &sum, &err);
        require(r == 0 || r == -EBADMSG || r == -EOPNOTSUPP);
    }
    dataset_buffer_fini(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const settings[] = {"", ",label=none", ",label=caption",
                                           ",name=caption,image=image", ",image=none"};
    struct dataset_options options = {
        .cache_dir = "/dev/null/none", .threads = 1, .memory = 64 << 20};
    struct plenum_error err = {""};
    struct dataset *d;
    char name[512];
    size_t len;
    bool mds;

    if (size < 3)
        return 0;
    if (!folder[0])
        create_folder();
    mds = data[0] & 1;
    if (mds) {
        len = min_u64((uint64_t)data[1] | (uint64_t)data[2] << 8, size - 3);
        write_file(INDEX, data + 3, len);
        write_file(SHARD, data + 3 + len, size - 3 - len);
        write_file(PACKED, data + 3 + len, size - 3 - len);
        if (data[0] & 2) /* only the compressed shard exists */
            (void)unlink(paths[SHARD]);
    } else {
        write_file(PARQUET, data + 1, size - 1);
    }
    (void)snprintf(name, sizeof(name), "%s%s:%s", mds ? "mds" : "parquet",
                   settings[data[0] / 4 % ARRAY_LEN(settings)], paths[mds ? INDEX : PARQUET]);
    if (dataset_open(name, &options, &d, &err) == 0) {
        read_all(d);
        dataset_unref(d);
    } else {
        require(err.text[0]);
    }
    return 0;
}
