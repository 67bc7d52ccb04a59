/* SPDX-License-Identifier: MIT */
/* fuzz_tar.c - reads arbitrary bytes as a tar archive, which is opened as a data set and read.
 * Either it is rejected with an error message, or every sample is inside it.
 *
 * The last byte selects where labels are. The checksums of everything that looks like a header are
 * corrected, so that the code after the check is reached. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util/util.h"
#include "loader/dataset/dataset.h"
#include "loader/dataset/tar_reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fix_checksums(uint8_t *bytes, size_t size)
{
    for (size_t at = 0; at + 512 <= size; at += 512) {
        unsigned sum = 0;

        if (memcmp(bytes + at + 257, "ustar", 5) != 0)
            continue;
        memset(bytes + at + 148, ' ', 8);
        for (size_t i = 0; i < 512; i++)
            sum += bytes[at + i];
        (void)snprintf((char *)bytes + at + 148, 7, "%06o", sum);
    }
}

/* Read a member in the slow, obvious way: go through all members from the beginning of the archive.
 * Returns false if there is no such member or it is a link. */
static bool read_in_turn(int fd, size_t size, const char *name, uint8_t *bytes, size_t len)
{
    struct tar_reader *reader;
    struct tar_member m;
    bool found = false;

    if (tar_reader_open(&(struct source){.fd = fd}, 0, size, &reader, NULL) < 0)
        return false;
    while (!found && tar_reader_next(reader, &m, NULL) > 0) {
        const char *p = m.name;

        while (strncmp(p, "./", 2) == 0)
            p += 2;
        found = strcmp(p, name) == 0 && m.type == TAR_FILE && m.size == len;
    }
    found = found && tar_reader_read(reader, bytes, len, NULL) == 0;
    tar_reader_close(reader);
    return found;
}

static void read_all(const struct dataset *d, int fd, size_t size)
{
    static uint8_t want[1 << 20];
    struct dataset_buffer buffer = {0};
    struct plenum_error err;

    for (uint32_t i = 0; i < dataset_get_samples(d); i++) {
        uint64_t len = dataset_get_sample_bytes(d, i);
        char name[1000];
        int r;

        (void)dataset_get_sample_name(d, i, name, sizeof(name));
        if (dataset_get_label(d, i) < 0 || dataset_get_label(d, i) >= dataset_get_classes(d))
            abort();
        (void)dataset_get_class_name(d, (uint32_t)dataset_get_label(d, i));
        if (len > sizeof(want))
            continue; /* a large sparse file: zeros that only take time */
        err.text[0] = 0;
        r = dataset_read(d, i, &buffer, &err);
        if (r < 0 ? !err.text[0] : buffer.len != len)
            abort();
        (void)dataset_get_sample_path(d, i, name, sizeof(name));
        if (r == 0 && read_in_turn(fd, size, name, want, len) &&
            memcmp(want, buffer.bytes, len) != 0)
            abort();
    }
    dataset_buffer_fini(&buffer);
}

/* Check that each record has the declared length, and that the lengths of its fields fit. */
static void read_fields(const struct dataset *d)
{
    const struct fields *fields = dataset_get_fields(d);
    struct dataset_buffer record = {0};
    struct plenum_error err;

    for (uint32_t i = 0; i < dataset_get_samples(d); i++) {
        int r = dataset_read_fields(d, i, &record, &err);

        if (r < 0 ? !err.text[0] : record.len != dataset_get_record_bytes(d))
            abort();
        for (uint32_t k = 0; r == 0 && k < fields->count; k++) {
            uint32_t len;

            memcpy(&len, record.bytes + k * sizeof(len), sizeof(len));
            if (len > fields->stored[k] || !field_shape_is_valid(&fields->shape[k]))
                abort();
        }
    }
    dataset_buffer_fini(&record);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const forms[] = {"tar",
                                        "tar,label=txt",
                                        "tar,label=json.meta.label",
                                        "tar,label=folder",
                                        "tar,label=none",
                                        "tar,label=cls",
                                        "tar,image=none",
                                        "tar,image=none,label=json"};
    static const char *const fields[] = {"a:txt",
                                         "a:json:bytes,b:cls:int64",
                                         "a:npy:npy",
                                         "a:m.png:mask",
                                         "a:txt:float32",
                                         "a:cls:text",
                                         "a:json:boxes,b:json.label:line",
                                         "a:json.label:int64,b:jpg:bytes"};
    struct dataset_options options = {.threads = 1, .cache_dir = "/dev/null/nowhere"};
    struct plenum_error err = {""};
    struct dataset *d;
    uint8_t *bytes;
    char name[100];
    int fd;

    if (size < 1)
        return 0;
    size--;
    bytes = malloc(size + 1);
    if (!bytes)
        abort();
    memcpy(bytes, data, size);
    fix_checksums(bytes, size);
    fd = memfd_create("archive", MFD_CLOEXEC);
    if (fd < 0 || io_write_all(fd, bytes, size) < 0)
        abort();
    (void)snprintf(name, sizeof(name), "%s:/proc/self/fd/%d", forms[data[size] % ARRAY_LEN(forms)],
                   fd);
    if (dataset_open(name, &options, &d, &err) == 0) {
        read_all(d, fd, size);
        dataset_unref(d);
    } else if (!err.text[0] || strpbrk(err.text, "\n\r\t")) {
        abort();
    }
    options.fields = fields[data[size] / ARRAY_LEN(forms) % ARRAY_LEN(fields)];
    if (dataset_open(name, &options, &d, &err) == 0) {
        read_fields(d);
        dataset_unref(d);
    } else if (!err.text[0] || strpbrk(err.text, "\n\r\t")) {
        abort();
    }
    (void)close(fd);
    free(bytes);
    return 0;
}
