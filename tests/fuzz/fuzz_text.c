/* fuzz_text.c - any text as what a person could have written: pipelines, orders, addresses, sizes, times. What is
 * accepted must be accepted again in its canonical form, and mean the same. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "common/address.h"
#include "common/order.h"
#include "common/pipeline.h"
#include "common/util.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* An error is a sentence: not empty, on one line. */
static void require_sentence(const struct plenum_error *err)
{
    require(err->text[0] != '\0' && !strpbrk(err->text, "\n\r\t"));
}

static void try_pipeline(const char *text)
{
    struct plenum_error err = {""};
    struct pipeline one, two;

    if (pipeline_parse(text, &one, &err) < 0) {
        require_sentence(&err);
        return;
    }
    require(one.side >= 1 && one.side <= PIPELINE_SIDE_MAX);
    require(one.flip.den > 0 && one.flip.num <= one.flip.den);
    require(pipeline_parse(one.text, &two, &err) == 0);
    require(memcmp(&one, &two, sizeof(one)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct address addresses[ADDRESS_LIST_MAX];
    struct plenum_error err = {""};
    enum order_shuffle shuffle;
    uint64_t number;
    uint32_t block;
    char *text = malloc(size + 1);
    int n;

    if (!text)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    try_pipeline(text);
    if (order_parse_shuffle(text, &shuffle, &block, &err) < 0)
        require_sentence(&err);
    else
        require((shuffle == ORDER_BLOCK) == (block > 0));
    err.text[0] = '\0';
    n = address_parse_list(text, addresses, &err);
    if (n < 0)
        require_sentence(&err);
    for (int i = 0; i < n; i++)
        require(addresses[i].len <= sizeof(addresses[i].un));
    (void)parse_u64(text, UINT64_MAX, &number);
    (void)parse_bytes(text, &number);
    (void)parse_duration(text, &number);
    free(text);
    return 0;
}
