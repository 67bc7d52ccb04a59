/* fuzz_tar.c - any bytes as a tar archive, opened as a data set and read: refused with a sentence,
 * or every sample lies in it.
 *
 * The last byte says where labels are. Checksums of what looks like headers are made right, so that
 * what lies behind them is reached. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util.h"
#include "loader/dataset/dataset.h"

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

static void read_all(const struct dataset *d, const uint8_t *bytes, size_t size)
{
    struct dataset_buffer buffer = {0};
    struct plenum_error err;

    for (uint32_t i = 0; i < dataset_get_samples(d); i++) {
        char name[1000];
        uint64_t len = dataset_get_sample_bytes(d, i);
        int r;

        (void)dataset_get_sample_name(d, i, name, sizeof(name));
        if (dataset_get_label(d, i) < 0 || dataset_get_label(d, i) >= dataset_get_classes(d))
            abort();
        (void)dataset_get_class_name(d, (uint32_t)dataset_get_label(d, i));
        if (len > 1 << 20)
            continue; /* a sparse one: only zeros that cost time */
        err.text[0] = 0;
        r = dataset_read(d, i, &buffer, &err);
        if (r < 0 ? !err.text[0] : buffer.len != len)
            abort();
        /* What is not sparse lies in the archive as it is. */
        if (r == 0 && len <= size && len > 0 && !memmem(bytes, size, buffer.bytes, len) &&
            !memmem(bytes, size, "sparse", 6) && !memmem(bytes, size, "SUN.holesdata", 13) &&
            !memchr(bytes, 'S', size))
            abort();
    }
    dataset_buffer_fini(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const forms[] = {"tar",
                                        "tar,label=txt",
                                        "tar,label=json.meta.label",
                                        "tar,label=folder",
                                        "tar,label=none",
                                        "tar,label=cls"};
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
        read_all(d, bytes, size);
        dataset_unref(d);
    } else if (!err.text[0] || strpbrk(err.text, "\n\r\t")) {
        abort();
    }
    (void)close(fd);
    free(bytes);
    return 0;
}
