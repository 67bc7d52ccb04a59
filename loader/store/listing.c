/* SPDX-License-Identifier: MIT */
/* listing.c - a small XML parser. It supports elements, texts and entities. Attributes are ignored;
 * DTDs and CDATA, which S3 does not use, are errors. Texts are copied to the caller's memory, and
 * nothing is allocated. */
#include "config.h"

#include "loader/store/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/text.h"
#include "common/util/util.h"

enum {
    KEY_MAX = 1024 + 1, /* the longest key in S3, with its NUL */
    DEPTH_MAX = 16,
};

/* The rest of a document, and the tag that was read last. */
struct xml_reader {
    const char *at, *end;
    const char *name; /* [name_len]: borrowed, without a prefix for a namespace */
    size_t name_len;
    const char *text; /* [text_len]: the text between the last tag and this one */
    size_t text_len;
    bool closes;   /* "</name>" */
    bool is_empty; /* "<name/>" */
};

static const char *find(const char *at, const char *end, const char *what)
{
    return memmem(at, (size_t)(end - at), what, strlen(what));
}

/* Skip a comment, a declaration or a processing instruction at `x->at`. Returns 1; 0 if there is
 * none; or -EBADMSG.
 */
static int skip_declaration(struct xml_reader *x)
{
    const char *close;

    if (x->end - x->at >= 4 && memcmp(x->at, "<!--", 4) == 0) {
        close = find(x->at + 4, x->end, "-->");
        x->at = close ? close + 3 : x->end;
    } else if (x->end - x->at >= 2 && x->at[1] == '?') {
        close = find(x->at, x->end, "?>");
        x->at = close ? close + 2 : x->end;
    } else {
        return x->end - x->at >= 2 && x->at[1] == '!' ? -EBADMSG : 0;
    }
    return close ? 1 : -EBADMSG;
}

/* Read the next tag. Returns 1, 0 at the end, or -EBADMSG. */
static int xml_next(struct xml_reader *x)
{
    const char *open, *close, *end;
    int r;

    x->text = x->at;
    do {
        open = memchr(x->at, '<', (size_t)(x->end - x->at));
        if (!open)
            return 0;
        x->text_len = (size_t)(open - x->text);
        x->at = open;
        r = skip_declaration(x);
        if (r > 0)
            x->text = x->at;
    } while (r > 0);
    close = r < 0 ? NULL : memchr(open, '>', (size_t)(x->end - open));
    if (!close)
        return -EBADMSG;
    x->at = close + 1;
    open++;
    x->closes = open < close && *open == '/';
    open += x->closes;
    x->is_empty = !x->closes && close > open && close[-1] == '/';
    end = close - x->is_empty;
    for (const char *c = open; c < end; c++) {
        if (*c == ':')
            open = c + 1;
        else if (strchr(" \t\r\n", *c))
            end = c; /* attributes follow */
    }
    x->name = open;
    x->name_len = (size_t)(end - open);
    return x->name_len > 0 ? 1 : -EBADMSG;
}

static bool is_named(const struct xml_reader *x, const char *name)
{
    return x->name_len == strlen(name) && memcmp(x->name, name, x->name_len) == 0;
}

/* Write a character as UTF-8 to `to` [4]. Returns the number of bytes, or 0 if the number is
 * invalid. */
static size_t put_character(uint64_t c, char *to)
{
    if (c == 0 || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
        return 0;
    return text_put_utf8((uint32_t)c, to);
}

/* Parse the number of a character reference: "65" or "x41". Returns 0 if it is malformed. */
static uint64_t parse_reference(const char *text)
{
    char *end;
    unsigned long value;
    bool is_hex = *text == 'x';

    text += is_hex;
    if (!strchr("0123456789abcdefABCDEF", *text) || !*text)
        return 0;
    value = strtoul(text, &end, is_hex ? 16 : 10);
    return *end ? 0 : value;
}

/* Decode the entity `name` ("amp", "#10") to `to` [4]. Returns the number of bytes, or 0 if the
 * entity is unknown. */
static size_t decode_entity(const char *name, char *to)
{
    static const char *const known[][2] = {
        {"amp", "&"}, {"lt", "<"}, {"gt", ">"}, {"quot", "\""}, {"apos", "'"}};

    if (*name == '#')
        return put_character(parse_reference(name + 1), to);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strcmp(name, known[i][0]) == 0) {
            *to = known[i][1][0];
            return 1;
        }
    return 0;
}

/* Copy a string, with its entities decoded. Returns its length, or -EBADMSG if it does not fit or
 * is invalid. */
static int copy_text(const char *text, size_t len, char *ret, size_t size)
{
    size_t at = 0;

    for (size_t i = 0; i < len; i++) {
        char one[4] = {text[i]}, name[12] = "";
        size_t n = 1;

        if (text[i] == '&') {
            const char *semicolon = memchr(text + i, ';', min_u64(len - i, sizeof(name)));

            if (!semicolon)
                return -EBADMSG;
            memcpy(name, text + i + 1, (size_t)(semicolon - text) - i - 1);
            n = decode_entity(name, one);
            i = (size_t)(semicolon - text);
        }
        if (n == 0 || one[0] == '\0' || at + n >= size)
            return -EBADMSG;
        memcpy(ret + at, one, n);
        at += n;
    }
    ret[at] = '\0';
    return (int)at;
}

/* An object of a listing that is being read. */
struct listed {
    char key[KEY_MAX];
    bool has_key, has_size;
    struct object_facts facts;
};

/* Store the text of an element of <Contents>, which has ended. Returns 0 or -EBADMSG. */
static int add_fact(const struct xml_reader *x, struct listed *o)
{
    char text[256];
    int n = 0;

    if (is_named(x, "Key")) {
        n = copy_text(x->text, x->text_len, o->key, sizeof(o->key));
        o->has_key = n > 0;
    } else if (is_named(x, "Size")) {
        n = copy_text(x->text, x->text_len, text, sizeof(text));
        o->has_size = n > 0 && parse_u64(text, UINT64_MAX >> 1, &o->facts.size) == 0;
    } else if (is_named(x, "ETag")) {
        n = copy_text(x->text, x->text_len, text, sizeof(text));
        if (n > 0)
            answer_copy_etag(text, (size_t)n, o->facts.etag, sizeof(o->facts.etag));
    } else if (is_named(x, "LastModified")) {
        n = copy_text(x->text, x->text_len, text, sizeof(text));
        o->facts.mtime_s = n > 0 ? answer_parse_time(text) : 0;
    }
    return n < 0 ? n : 0;
}

/* Store the text of an element outside of <Contents>, which has ended. Returns 0 or -EBADMSG. */
static int add_to_page(const struct xml_reader *x, struct listing_page *page)
{
    int n = 0;

    if (is_named(x, "IsTruncated"))
        page->more = x->text_len == 4 && memcmp(x->text, "true", 4) == 0;
    else if (is_named(x, "NextContinuationToken"))
        n = copy_text(x->text, x->text_len, page->token, sizeof(page->token));
    return n < 0 ? n : 0;
}

/* The state of listing_read(). */
struct listing_reading {
    struct listed object;
    unsigned depth, inside; /* inside: the depth of <Contents>, or 0 */
    bool is_listing;
    listing_object *call;
    void *arg;
    struct listing_page *page;
};

static int open_element(struct listing_reading *l, const struct xml_reader *x)
{
    if (l->depth == 0)
        l->is_listing = is_named(x, "ListBucketResult");
    if (l->depth == DEPTH_MAX || !l->is_listing)
        return -EBADMSG;
    if (x->is_empty)
        return 0;
    l->depth++;
    if (l->depth == 2 && is_named(x, "Contents")) {
        l->inside = l->depth;
        l->object = (struct listed){0};
    }
    return 0;
}

static int close_element(struct listing_reading *l, const struct xml_reader *x)
{
    int r = 0;

    if (l->depth == 0)
        return -EBADMSG;
    if (l->inside && l->depth == l->inside) {
        l->inside = 0;
        r = l->object.has_key && l->object.has_size
                ? l->call(l->arg, l->object.key, &l->object.facts)
                : -EBADMSG;
    } else if (l->inside && l->depth == l->inside + 1) {
        r = add_fact(x, &l->object);
    } else if (!l->inside && l->depth == 2) {
        r = add_to_page(x, l->page);
    }
    l->depth--;
    return r;
}

int listing_read(const char *text, size_t len, listing_object *object, void *arg,
                 struct listing_page *ret, struct plenum_error *err)
{
    struct xml_reader x = {.at = text, .end = text + len};
    struct listing_reading l = {.call = object, .arg = arg, .page = ret};
    int r;

    *ret = (struct listing_page){.more = false};
    while ((r = xml_next(&x)) > 0) {
        r = x.closes ? close_element(&l, &x) : open_element(&l, &x);
        if (r < 0)
            break;
    }
    if (r == 0 && (l.depth != 0 || !l.is_listing || (ret->more && !ret->token[0])))
        r = -EBADMSG;
    return r == -EBADMSG ? error_set(err, r, "the server's listing is malformed") : r;
}

bool listing_find(const char *text, size_t len, const char *name, char *ret, size_t size)
{
    struct xml_reader x = {.at = text, .end = text + len};
    bool open = false;

    ret[0] = '\0';
    while (xml_next(&x) > 0) {
        if (x.closes && open && is_named(&x, name)) {
            if (copy_text(x.text, x.text_len, ret, size) >= 0)
                return true;
            ret[0] = '\0';
            return false;
        }
        open = !x.closes && is_named(&x, name);
    }
    return false;
}

void listing_read_error(const char *text, size_t len, struct listing_error *ret)
{
    (void)listing_find(text, len, "Code", ret->code, sizeof(ret->code));
    (void)listing_find(text, len, "Message", ret->message, sizeof(ret->message));
    (void)listing_find(text, len, "RequestId", ret->request_id, sizeof(ret->request_id));
    (void)listing_find(text, len, "Region", ret->region, sizeof(ret->region));
    (void)text_make_plain(ret->code);
    (void)text_make_plain(ret->message);
    (void)text_make_plain(ret->request_id);
    (void)text_make_plain(ret->region);
}
