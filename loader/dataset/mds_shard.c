/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/mds_shard.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/dataset/number.h"

int mds_get(struct mds_reader *r, uint64_t at, void *ret, size_t len)
{
    uint64_t size = r->shard->bytes;

    if (at > size || len > size - at)
        return -EBADMSG;
    if (r->bytes) {
        memcpy(ret, r->bytes + at, len);
        return 0;
    }
    if (len > sizeof(r->window))
        return io_pread_all(r->fd, ret, len, at);
    if (at < r->window_at || at - r->window_at + len > r->window_len) {
        size_t want = (size_t)min_u64(size - at, sizeof(r->window));
        int code = io_pread_all(r->fd, r->window, want, at);

        r->window_len = code < 0 ? 0 : want;
        r->window_at = at;
        if (code < 0)
            return code;
    }
    memcpy(ret, r->window + (at - r->window_at), len);
    return 0;
}

int mds_find_sample(struct mds_reader *r, uint32_t number, struct mds_sample *ret)
{
    uint64_t first = sizeof(uint32_t) * ((uint64_t)r->shard->samples + 2);
    uint32_t offsets[2];
    int code = mds_get(r, sizeof(uint32_t) * ((uint64_t)number + 1), offsets, sizeof(offsets));

    assert(number < r->shard->samples);
    if (code < 0)
        return code;
    if (offsets[0] < first || offsets[1] < offsets[0] || offsets[1] > r->shard->bytes)
        return -EBADMSG;
    *ret = (struct mds_sample){offsets[0], offsets[1]};
    return 0;
}

int mds_find_values(struct mds_reader *r, const struct mds_sample *sample, struct mds_value *ret)
{
    const struct mds_layout *l = r->shard->layout;
    uint64_t head = sample->begin, at = sample->begin + l->variable * sizeof(uint32_t);

    assert(sample->begin <= sample->end && sample->end <= r->shard->bytes);
    for (size_t i = 0; i < l->count; i++) {
        uint32_t len = l->columns[i].size;

        if (len == 0) {
            int code = mds_get(r, head, &len, sizeof(len));

            if (code < 0)
                return code;
            head += sizeof(len);
        }
        if (at > sample->end || len > sample->end - at)
            return -EBADMSG;
        ret[i] = (struct mds_value){at, len};
        at += len;
    }
    return at == sample->end ? 0 : -EBADMSG;
}

size_t mds_print(const struct mds_column *column, const uint8_t *value, char *ret)
{
    uint64_t bits = 0;
    unsigned unused = 64 - 8 * column->size;
    double number;
    float single;

    assert(column->kind >= MDS_SIGNED && column->size > 0 && column->size <= 8);
    memcpy(&bits, value, column->size); /* little-endian */
    if (column->kind == MDS_FLOAT && column->size == 4) {
        memcpy(&single, value, sizeof(single));
        return number_print((double)single, 9, ret, MDS_TEXT_MAX);
    }
    if (column->kind == MDS_FLOAT) {
        memcpy(&number, value, sizeof(number));
        return number_print(number, 17, ret, MDS_TEXT_MAX);
    }
    if (column->kind == MDS_UNSIGNED)
        return (size_t)snprintf(ret, MDS_TEXT_MAX, "%llu", (unsigned long long)bits);
    return (size_t)snprintf(ret, MDS_TEXT_MAX, "%lld",
                            (long long)((int64_t)(bits << unused) >> unused));
}
