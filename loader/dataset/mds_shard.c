/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/mds_shard.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/util.h"
#include "loader/dataset/number.h"

/* Returns the size of the shard's head: the number of samples, and the offsets. */
static uint64_t head_bytes(const struct mds_shard *s)
{
    return sizeof(uint32_t) * ((uint64_t)s->samples + 2);
}

/* Make the window `w` contain [at, at + len). There are two windows, because samples need bytes
 * from both places in turn. */
static int fill(const struct mds_reader *r, struct mds_window *w, uint64_t at, size_t len)
{
    size_t want = (size_t)min_u64(r->shard->bytes - at, sizeof(w->bytes));
    int code;

    assert(len <= want);
    if (at >= w->at && at - w->at + len <= w->len)
        return 0;
    code = source_read(&r->source, w->bytes, want, at, r->err);
    w->len = code < 0 ? 0 : want;
    w->at = at;
    return code;
}

int mds_get(struct mds_reader *r, uint64_t at, void *ret, size_t len)
{
    struct mds_window *w = at < head_bytes(r->shard) ? &r->head : &r->body;
    uint64_t size = r->shard->bytes;
    int code;

    if (at > size || len > size - at)
        return -EBADMSG;
    if (r->bytes) {
        memcpy(ret, r->bytes + at, len);
        return 0;
    }
    if (len > sizeof(w->bytes))
        return source_read(&r->source, ret, len, at, r->err);
    code = fill(r, w, at, len);
    if (code == 0)
        memcpy(ret, w->bytes + (at - w->at), len);
    return code;
}

int mds_find_sample(struct mds_reader *r, uint32_t number, struct mds_sample *ret)
{
    uint64_t first = head_bytes(r->shard);
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
