/* SPDX-License-Identifier: MIT */
/* fuzz_badlist.c - reads arbitrary bytes as a list of bad samples. If the first byte is odd, the
 * rest is used as is; if it is even, a last line with the correct checksum is appended. The samples
 * of an accepted list are in order, and its strings are inside the text. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "loader/dataset/badlist.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SAMPLES = 1000, LAST_LINE = 64 };

static void require(bool truth)
{
    if (!truth)
        abort();
}

static size_t count_lines(const char *text, size_t len)
{
    size_t count = 0;

    for (size_t i = 0; i + 4 <= len; i++)
        count += (i == 0 || text[i - 1] == '\n') && memcmp(text + i, "bad ", 4) == 0;
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t fingerprint[16];
    struct badlist list;
    size_t len = size - 1;
    char *text;
    int r;

    if (size == 0)
        return 0;
    text = malloc(len + LAST_LINE + 1);
    require(text != NULL);
    memcpy(text, data + 1, len);
    if (data[0] % 2 == 0)
        len += (size_t)snprintf(text + len, LAST_LINE, "end %zu %016" PRIx64 "\n",
                                count_lines(text, len), XXH3_64bits(text, len));
    r = badlist_parse(text, len, fingerprint, SAMPLES, &list);
    require(r == 0 || r == -EBADMSG);
    for (uint32_t i = 0; r == 0 && i < list.count; i++) {
        const struct dataset_bad *bad = &list.samples[i];

        require(bad->sample < SAMPLES && (i == 0 || bad->sample > bad[-1].sample));
        require(bad->reason >= list.text && bad->reason + strlen(bad->reason) < list.text + len);
        require(!strchr(bad->reason, '\n') && badlist_find(&list, bad->sample) == i);
    }
    badlist_fini(&list);
    return 0;
}
