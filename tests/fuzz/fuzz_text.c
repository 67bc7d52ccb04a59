/* SPDX-License-Identifier: MIT */
/* fuzz_text.c - reads any text as something that a user writes: pipelines, plans, names of data
 * sets, patterns, fields, orders, addresses, numbers, sizes and times. If the text is accepted and
 * has a canonical form, that form must be accepted, too, and mean the same. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/dataname.h"
#include "common/data/fields.h"
#include "common/net/address.h"
#include "common/order/order.h"
#include "common/order/orderplan.h"
#include "common/pipeline/views.h"
#include "common/util/util.h"
#include "loader/dataset/pattern.h"
#include "loader/dataset/scope.h"

static const struct scope anywhere = {.fd = -1};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* Check that an error message is not empty and has one line. */
static void require_sentence(const struct plenum_error *err)
{
    require(err->text[0] != '\0' && !strpbrk(err->text, "\n\r\t"));
}

static void try_views(const char *text)
{
    static struct views one, two;
    struct plenum_error err = {""};
    uint32_t images = 0;

    if (views_parse(text, &one, &err) < 0) {
        require_sentence(&err);
        return;
    }
    require(one.count >= 1 && one.count <= VIEWS_MAX && (one.named || one.images == 1));
    for (uint32_t i = 0; i < one.count; i++) {
        images += one.view[i].count;
        require((one.view[i].name[0] != '\0') == one.named);
    }
    require(images == one.images && images <= VIEWS_IMAGES_MAX);
    require(views_parse(one.text, &two, &err) == 0);
    require(memcmp(&one, &two, sizeof(one)) == 0);
}

static void try_pipeline(const char *text)
{
    struct plenum_error err = {""};
    struct pipeline one, two;

    try_views(text);
    if (pipeline_parse(text, &one, &err) < 0) {
        require_sentence(&err);
        return;
    }
    require((one.crop == PIPELINE_NO_IMAGE) == (one.width == 0));
    require((one.crop == PIPELINE_NO_IMAGE) == (one.height == 0));
    require(one.width <= PIPELINE_SIDE_MAX && one.height <= PIPELINE_SIDE_MAX);
    require(one.flip.den > 0 && one.flip.num <= one.flip.den);
    require(pipeline_parse(one.text, &two, &err) == 0);
    require(memcmp(&one, &two, sizeof(one)) == 0);
}

/* Check that a plan's canonical form is its own canonical form, and has absolute paths. */
static void try_plan(const char *text)
{
    struct plenum_error err = {""};
    struct orderplan *one, *two;

    if (orderplan_parse(text, "/here", &one, &err) < 0) {
        require_sentence(&err);
        return;
    }
    require(one->num_sets > 0 && one->num_pieces > 0);
    require(orderplan_parse(one->text, NULL, &two, &err) == 0);
    require(strcmp(one->text, two->text) == 0);
    require(one->num_pieces == two->num_pieces);
    orderplan_free(one);
    orderplan_free(two);
}

/* Check that making the name of a data set absolute works, and keeps its format and settings. */
static void try_dataname(const char *text)
{
    struct plenum_error err = {""};
    struct dataname one, two;
    char absolute[4096];
    const char *path;

    dataname_split(text, &one);
    require(one.where >= text && one.where <= text + strlen(text));
    if (dataname_make_absolute(text, "/here", absolute, sizeof(absolute), &err) < 0) {
        require_sentence(&err);
        return;
    }
    dataname_split(absolute, &two);
    path = dataname_path(absolute);
    require(!path || *path == '/' || *path == '\0');
    require((one.format != NULL) == (two.format != NULL) && one.format_len == two.format_len &&
            one.settings_len == two.settings_len);
    if (dataname_make_part(text, 1, 3, absolute, sizeof(absolute), &err) < 0) {
        require_sentence(&err);
        return;
    }
    dataname_split(absolute, &two);
    require(two.format && strcmp(two.where, one.where) == 0);
    require(dataname_make_part(absolute, 0, 1, absolute, sizeof(absolute), &err) == -EINVAL);
}

/* Expand braces. Patterns that would search the file system are skipped. */
static void try_pattern(const char *text)
{
    struct plenum_error err = {""};
    struct pattern_list list = {0};

    if (strpbrk(text, "*?["))
        return;
    if (pattern_expand(&anywhere, "/nowhere", text, &list, &err) < 0) {
        require_sentence(&err);
        require(list.count == 0);
    } else {
        require(list.count > 0 && list.count <= PATTERN_PATHS_MAX);
    }
    pattern_list_fini(&list);
}

static void try_fields(const char *text)
{
    static struct fields one, two;
    struct plenum_error err = {""};

    if (fields_parse(text, &one, &err) < 0) {
        require_sentence(&err);
        return;
    }
    require(one.count <= FIELDS_MAX);
    require(fields_parse(one.text, &two, &err) == 0);
    require(memcmp(&one, &two, sizeof(one)) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct order_subset subset;
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
    try_plan(text);
    try_dataname(text);
    try_pattern(text);
    try_fields(text);
    if (order_parse_subset(text, &subset, &err) < 0)
        require_sentence(&err);
    else
        require(subset.end == 0 || subset.first < subset.end);
    err.text[0] = '\0';
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
