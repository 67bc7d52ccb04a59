/* SPDX-License-Identifier: MIT */
/* fuzz_store.c - reads arbitrary bytes as an answer of a store, or as a user's file. The first byte
 * selects the reader: a listing, an error, a profile, the header of an answer, a name, credentials
 * as JSON or XML. Texts must end inside their memory, and the canonical form of a canonical name
 * must be the same. */
#include "config.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loader/store/aws_config.h"
#include "loader/store/credentials.h"
#include "loader/store/listing.h"
#include "loader/store/store_place.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

static int on_object(void *arg, const char *key, const struct object_facts *facts)
{
    size_t *count = arg;

    require(key[0] && strlen(key) <= 1024);
    require(strlen(facts->etag) < sizeof(facts->etag));
    return ++*count == 1000 ? -E2BIG : 0;
}

static void read_listing(const char *text, size_t len)
{
    struct listing_page page;
    struct plenum_error err = {""};
    size_t count = 0;
    int r = listing_read(text, len, on_object, &count, &page, &err);

    require(r == 0 || r == -EBADMSG || r == -E2BIG);
    require(r != 0 || !page.more || page.token[0]);
    require(r != -EBADMSG || err.text[0]);
}

static void read_error(const char *text, size_t len)
{
    struct listing_error e;

    listing_read_error(text, len, &e);
    require(strlen(e.code) < sizeof(e.code) && strlen(e.message) < sizeof(e.message));
}

static void read_profile(const char *text, size_t len)
{
    static const char *const names[] = {"default", "x"};

    for (size_t i = 0; i < 2; i++) {
        struct aws_config config = {.found = false};

        require(aws_config_parse(text, len, names[i], &config) == 0);
        for (size_t k = 0; k < AWS_KEYS; k++)
            require(!config.value[k] || (config.found && strlen(config.value[k]) <= len));
        aws_config_fini(&config);
    }
}

/* Read a header. The bytes of a range must be inside the body that was announced. */
static void read_header(const char *text, size_t len)
{
    const struct object_facts facts = {.size = 1000, .etag = "v1"};
    const struct wanted_range want = {.offset = 100, .len = 100, .facts = &facts};
    struct store_answer a = {0};
    uint64_t skip = 0;

    for (const char *at = text, *end = text + len; at < end;) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t line = next ? (size_t)(next - at) + 1 : (size_t)(end - at);

        answer_add_line(&a, at, line);
        at += line;
    }
    if (answer_check_range(&a, &want, &skip, NULL) == 0) {
        require(a.status == 200 || a.status == 206);
        require(skip == 0 || (skip == 100 && a.length == 1000));
        require(!a.has_range || (a.first == 100 && a.last == 199));
    }
    (void)answer_classify(&a, "");
}

static void read_name(const char *text)
{
    struct plenum_error err;
    char *name = NULL, *again = NULL;

    if (place_canonical(text, &name, &err) < 0)
        return;
    require(place_canonical(name, &again, &err) == 0 && strcmp(name, again) == 0);
    require(!strstr(name, "/../") && strlen(name) <= 3 * strlen(text));
    free(name);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct credentials c = {.anonymous = false};
    struct plenum_error err;
    char *text;

    if (size == 0)
        return 0;
    text = malloc(size);
    require(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    switch (data[0] % 7) {
    case '0' % 7:
        read_listing(text, size - 1);
        break;
    case '1' % 7:
        read_error(text, size - 1);
        break;
    case '2' % 7:
        read_profile(text, size - 1);
        break;
    case '3' % 7:
        read_header(text, size - 1);
        break;
    case '4' % 7:
        read_name(text);
        break;
    case '5' % 7:
        (void)credentials_parse_json(text, size - 1, &c, &err);
        break;
    default:
        (void)credentials_parse_sts(text, size - 1, &c, &err);
    }
    free(text);
    return 0;
}
