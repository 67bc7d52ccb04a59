/* SPDX-License-Identifier: MIT */
/* fuzz_index.c - reads arbitrary bytes as an index file. The checksum is corrected, so that the
 * code after the check is reached. An accepted index is then read as in a loader, which must stay
 * in bounds. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/util.h"
#include "loader/dataset/index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const struct index *index)
{
    const struct index_header *h = index->header;
    size_t sum = strlen(index_subject(index));

    for (uint32_t i = 0; i < h->samples; i++) {
        sum += strlen(index_name(index, index->samples[i].name));
        sum += index->containers[index->samples[i].container].stamp.mtime_ns;
        if (h->class_names > 0)
            sum += index->classes[index->samples[i].label];
    }
    for (uint32_t i = 0; i < h->containers; i++)
        sum += strlen(index_name(index, index->containers[i].name));
    for (uint64_t i = 0; i < h->heads; i++)
        sum += index->samples[index->heads[i].sample].len + index->heads[i].stamp.content;
    for (uint32_t i = 0; i < h->class_names; i++)
        sum += strlen(index_name(index, index->classes[i]));
    if (sum == 4711) /* keeps the compiler from removing the reads */
        printf("%zu\n", sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct index index;
    char path[64];
    int fd = memfd_create("index", MFD_CLOEXEC);

    if (fd < 0 || io_write_all(fd, data, size) < 0)
        abort();
    if (size >= sizeof(struct index_header)) {
        struct index_header h;
        XXH3_state_t state;
        uint64_t sum;

        memcpy(&h, data, sizeof(h));
        h.checksum = 0;
        (void)XXH3_64bits_reset(&state);
        (void)XXH3_64bits_update(&state, &h, sizeof(h));
        (void)XXH3_64bits_update(&state, data + sizeof(h), size - sizeof(h));
        sum = XXH3_64bits_digest(&state);
        if (pwrite(fd, &sum, sizeof(sum), offsetof(struct index_header, checksum)) != sizeof(sum))
            abort();
    }
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (index_read(path, &index) == 0) {
        read_all(&index);
        index_close(&index);
    }
    (void)close(fd);
    return 0;
}
