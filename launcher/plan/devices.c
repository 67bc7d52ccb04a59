/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/plan/devices.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/util/error_set.h"
#include "common/util/util.h"

/* Each vendor's variable takes a list; only some need a prefix. */
static const struct {
    const char *word, *variable, *prefix;
} known[] = {
    {"cuda", "CUDA_VISIBLE_DEVICES", ""}, {"rocr", "ROCR_VISIBLE_DEVICES", ""},
    {"hip", "HIP_VISIBLE_DEVICES", ""},   {"oneapi", "ONEAPI_DEVICE_SELECTOR", "level_zero:"},
    {"ze", "ZE_AFFINITY_MASK", ""},       {"habana", "HABANA_VISIBLE_DEVICES", ""},
    {"tpu", "TPU_VISIBLE_CHIPS", ""},
};

void device_pool_fini(struct device_pool *pool)
{
    for (uint32_t i = 0; pool->items && i < pool->count; i++)
        free(pool->items[i]);
    free(pool->items);
    free(pool->variable);
    *pool = (struct device_pool){0};
}

static int check_variable(const char *name, struct plenum_error *err)
{
    bool good = *name && !isdigit((unsigned char)*name);

    for (const char *c = name; *c; c++)
        good &= isalnum((unsigned char)*c) || *c == '_';
    return good ? 0
                : error_set(err, -EINVAL, "'%s' is not the name of an environment variable", name);
}

static int add_item(struct device_pool *pool, const char *text, size_t len)
{
    char *item;

    if (array_grow(&pool->items, &pool->cap, pool->count, sizeof(*pool->items)) < 0)
        return -ENOMEM;
    item = strndup(text, len);
    if (!item)
        return -ENOMEM;
    assert(pool->count < pool->cap);
    pool->items[pool->count++] = item;
    return 0;
}

static bool is_in(const struct device_pool *pool, const char *text, size_t len)
{
    for (uint32_t i = 0; i < pool->count; i++)
        if (strncmp(pool->items[i], text, len) == 0 && pool->items[i][len] == '\0')
            return true;
    return false;
}

/* Returns whether the text is a range, such as "4-7". Names such as GPU-8932f937 contain dashes,
 * too. */
static bool is_range(const char *text, size_t len, uint64_t *first, uint64_t *last)
{
    const char *at = text;

    return parse_next_u64(&at, UINT32_MAX, first) == 0 && *at++ == '-' &&
           parse_next_u64(&at, UINT32_MAX, last) == 0 && at == text + len;
}

/* Add one item, or the numbers in a range. */
static int add_items(struct device_pool *pool, const char *text, size_t len,
                     struct plenum_error *err)
{
    uint64_t first, last;
    char number[24];

    if (!is_range(text, len, &first, &last)) {
        if (is_in(pool, text, len))
            return error_set(err, -EINVAL, "device %.*s is given twice", (int)len, text);
        return add_item(pool, text, len) < 0 ? error_set(err, -ENOMEM, "out of memory") : 0;
    }
    if (first > last)
        return error_set(err, -EINVAL, "%.*s runs backwards", (int)len, text);
    assert(last <= UINT32_MAX);
    for (uint64_t i = first; i <= last; i++) {
        int r = pool->count == DEVICES_MAX
                    ? error_set(err, -EINVAL, "there are more than %d devices", DEVICES_MAX)
                    : add_items(pool, number, (size_t)sprintf(number, "%" PRIu64, i), err);

        if (r < 0)
            return r;
    }
    return 0;
}

/* Returns whether an item hides itself and all items after it: a negative number, or a word that
 * means no device. */
static bool hides_rest(const char *item, size_t len)
{
    static const char *const words[] = {"NoDevFiles", "none", "void"};

    if (len > 1 && item[0] == '-' && strspn(item + 1, "0123456789") >= len - 1)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (strlen(words[i]) == len && strncasecmp(item, words[i], len) == 0)
            return true;
    return false;
}

bool devices_hides_all(const char *list)
{
    list += strspn(list, " ");
    return *list == '\0' || hides_rest(list, strcspn(list, ", "));
}

static int tell_hidden(const struct device_pool *pool, const char *list, struct plenum_error *err)
{
    return error_set(err, -EINVAL,
                     "%s='%s' hides every device: unset it, or name the devices with --device-env "
                     "%s=0,1; leave --device-env out for a job without devices",
                     pool->variable, list, pool->variable);
}

int devices_check_visible(struct plenum_error *err)
{
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        const char *list = getenv(known[i].variable);

        if (list && devices_hides_all(list))
            return error_set(err, -EINVAL,
                             "--process-placement device: %s='%s' hides every device: unset it, or "
                             "choose another placement",
                             known[i].variable, list);
    }
    return 0;
}

/* Parse "0-3,GPU-8932f937". */
static int parse_list(struct device_pool *pool, const char *list, struct plenum_error *err)
{
    size_t skip = strlen(pool->prefix);
    const char *p = list;

    if (skip > 0 && strncmp(list, pool->prefix, skip) == 0)
        p += skip;
    for (;;) {
        size_t len;
        int r;

        p += strspn(p, " ");
        len = strcspn(p, ", ");
        if (pool->count > 0 && hides_rest(p, len))
            return 0; /* vendors' runtimes show only the devices before this item */
        if (len == 0 || pool->count == DEVICES_MAX)
            return error_set(err, -EINVAL, "%s='%s' is not a list of devices like 0-3 or 0,1,2",
                             pool->variable, list);
        r = add_items(pool, p, len, err);
        if (r < 0)
            return error_prefix(err, r, "%s='%s'", pool->variable, list);
        p += len;
        p += strspn(p, " ");
        if (!*p)
            return 0;
        if (*p != ',')
            return error_set(err, -EINVAL, "%s='%s' is not a list of devices like 0-3 or 0,1,2",
                             pool->variable, list);
        p++;
    }
}

int device_pool_parse(const char *text, struct device_pool *ret, struct plenum_error *err)
{
    const char *equals = strchr(text, '='), *list;
    struct device_pool pool = {.prefix = "", .variable = strndup(text, strcspn(text, "="))};
    int r;

    if (!pool.variable)
        return error_set(err, -ENOMEM, "out of memory");
    for (size_t i = 0; i < ARRAY_LEN(known); i++) {
        if (strcmp(pool.variable, known[i].word) == 0) {
            free(pool.variable);
            pool.variable = strdup(known[i].variable);
            if (!pool.variable)
                return error_set(err, -ENOMEM, "out of memory");
        }
        if (strcmp(pool.variable, known[i].variable) == 0)
            pool.prefix = known[i].prefix;
    }
    list = equals ? equals + 1 : getenv(pool.variable);
    r = check_variable(pool.variable, err);
    if (r == 0 && list && devices_hides_all(list) && (!equals || *list))
        r = tell_hidden(&pool, list, err);
    else if (r == 0 && list)
        r = parse_list(&pool, list, err);
    if (r < 0) {
        device_pool_fini(&pool);
        return r;
    }
    *ret = pool;
    return 0;
}

char *device_pool_format(const struct device_pool *pool, uint32_t first, uint32_t count)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (!f)
        return NULL;
    assert(pool->count == 0 || (first <= pool->count && count <= pool->count - first));
    for (uint32_t i = first; i < first + count; i++) {
        if (pool->count > 0)
            (void)fprintf(f, "%s%s", i > first ? "," : "", pool->items[i]);
        else
            (void)fprintf(f, "%s%u", i > first ? "," : "", i);
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

uint32_t device_pool_number(const struct device_pool *pool, uint32_t nth)
{
    uint64_t number;

    if (nth < pool->count && parse_u64(pool->items[nth], UINT32_MAX, &number) == 0)
        return (uint32_t)number;
    return nth;
}
