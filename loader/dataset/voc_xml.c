/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/voc_xml.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/message.h"
#include "common/util/text.h"
#include "common/util/util.h"
#include "loader/dataset/number.h"

enum { DEPTH_MAX = 32, NAME_BYTES = 64, TEXT_BYTES = 512 };

/* Bits of voc_reader.found: the name, four edges, and flags, which need not be there. */
enum { NAMED = 1, EDGES = 2, NEEDED = 0x1f, DIFFICULT = 0x20, TRUNCATED = 0x40 };

/* The value of an element is in `text` when it ends. Longer ones are cut off, and are then not
 * used. */
struct voc_reader {
    const char *at, *end;
    size_t line;
    unsigned depth;                    /* open elements */
    char names[DEPTH_MAX][NAME_BYTES]; /* of the open elements */
    char text[TEXT_BYTES];
    size_t text_len;
    voc_xml_call *call;
    void *arg;
    struct voc_object object; /* the open <object> */
    char name[TEXT_BYTES];
    unsigned found; /* its elements: NAMED, EDGES << n ... */
    bool has_root;
    struct voc_picture picture;
};

MESSAGE static int fail(const struct voc_reader *x, const char *why, struct plenum_error *err)
{
    return error_set(err, -EBADMSG, "line %zu: %s", x->line, why);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || number_is_digit(c) || c == '_' ||
           c == '-' || c == '.' || c == ':' || (unsigned char)c >= 0x80;
}

static void step(struct voc_reader *x, size_t n)
{
    assert(n <= (size_t)(x->end - x->at));
    for (; n > 0; n--)
        x->line += *x->at++ == '\n';
}

static bool begins(const struct voc_reader *x, const char *word)
{
    return strlen(word) <= (size_t)(x->end - x->at) && memcmp(x->at, word, strlen(word)) == 0;
}

/* Step past the next `end`. */
static int skip_past(struct voc_reader *x, const char *end, struct plenum_error *err)
{
    const char *found = memmem(x->at, (size_t)(x->end - x->at), end, strlen(end));

    if (!found)
        return error_set(err, -EBADMSG, "line %zu: '%s' is missing", x->line, end);
    step(x, (size_t)(found - x->at) + strlen(end));
    return 0;
}

static void skip_space(struct voc_reader *x)
{
    while (x->at < x->end && is_space(*x->at))
        step(x, 1);
}

static void add_text(struct voc_reader *x, const char *bytes, size_t len)
{
    size_t n = min_u64(len, sizeof(x->text) - x->text_len);

    memcpy(x->text + x->text_len, bytes, n);
    x->text_len += n;
}

/* Returns the character of "#10" or "#xA"; 0 if it is none. */
static uint32_t number_of(const char *at, size_t len)
{
    unsigned base = len > 1 && at[1] == 'x' ? 16 : 10;
    uint32_t code = 0;

    for (size_t i = base == 16 ? 2 : 1; i < len; i++) {
        const char *digits = "0123456789abcdef";
        const char *found =
            at[i] ? strchr(digits, at[i] >= 'A' && at[i] <= 'F' ? at[i] | 32 : at[i]) : NULL;

        if (!found || (unsigned)(found - digits) >= base || code > 0x10ffff)
            return 0;
        code = code * base + (uint32_t)(found - digits);
    }
    return code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : code;
}

/* Read "&amp;" and others. */
static int read_entity(struct voc_reader *x, struct plenum_error *err)
{
    static const char *const names[] = {"amp", "lt", "gt", "quot", "apos"};
    static const char meant[] = "&<>\"'";
    const char *begin = x->at + 1,
               *stop = memchr(begin, ';', min_u64((uint64_t)(x->end - begin), 12));
    size_t len = stop ? (size_t)(stop - begin) : 0;
    char bytes[4];
    uint32_t code = len > 1 && *begin == '#' ? number_of(begin, len) : 0;

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strlen(names[i]) == len && memcmp(begin, names[i], len) == 0)
            code = (uint32_t)meant[i];
    if (code == 0)
        return fail(x, "an entity other than &amp; &lt; &gt; &quot; &apos; is not supported", err);
    add_text(x, bytes, text_put_utf8(code, bytes));
    step(x, len + 2);
    return 0;
}

/* Read a name to `ret` [NAME_BYTES]; a longer one is cut off. */
static int read_name(struct voc_reader *x, char *ret, struct plenum_error *err)
{
    size_t len = 0;

    while (x->at + len < x->end && is_name(x->at[len]))
        len++;
    if (len == 0)
        return fail(x, "the name of an element or attribute is missing", err);
    memcpy(ret, x->at, min_u64(len, NAME_BYTES - 1));
    ret[min_u64(len, NAME_BYTES - 1)] = '\0';
    step(x, len);
    return 0;
}

/* Skip the attributes of an element, up to its '>' or "/>". */
static int skip_attributes(struct voc_reader *x, struct plenum_error *err)
{
    for (;;) {
        char name[NAME_BYTES], quote[2] = "";
        int r;

        skip_space(x);
        if (x->at == x->end || *x->at == '>' || *x->at == '/')
            return 0;
        r = read_name(x, name, err);
        skip_space(x);
        if (r == 0 && !begins(x, "="))
            r = fail(x, "an attribute has no value", err);
        if (r < 0)
            return r;
        step(x, 1);
        skip_space(x);
        if (x->at == x->end || (*x->at != '"' && *x->at != '\''))
            return fail(x, "an attribute's value is not in quotes", err);
        quote[0] = *x->at;
        step(x, 1);
        r = skip_past(x, quote, err);
        if (r < 0)
            return r;
    }
}

/* ---- the meaning of elements ---- */

static bool is_inside(const struct voc_reader *x, unsigned depth, const char *name)
{
    return x->depth > depth && strcmp(x->names[depth], name) == 0;
}

static bool is_in_object(const struct voc_reader *x)
{
    return is_inside(x, 0, "annotation") && is_inside(x, 1, "object");
}

/* Returns the element's text without spaces around it, NUL-terminated; "" if it is too long. */
static const char *plain_text(struct voc_reader *x)
{
    size_t begin = 0, len = x->text_len;

    if (len == sizeof(x->text) || memchr(x->text, '\0', len))
        return "";
    while (len > 0 && is_space(x->text[len - 1]))
        len--;
    while (begin < len && is_space(x->text[begin]))
        begin++;
    x->text[len] = '\0';
    return x->text + begin;
}

static int take_edge(struct voc_reader *x, const char *text, unsigned edge,
                     struct plenum_error *err)
{
    int64_t ignored;

    if (!number_is_decimal(number_parse(text, strlen(text), &ignored)))
        return fail(x, "an edge of a box is not a number", err);
    if (x->found & (unsigned)EDGES << edge)
        return fail(x, "a box has the same edge twice", err);
    x->object.edges[edge] = strtod(text, NULL);
    if (!isfinite(x->object.edges[edge]))
        return fail(x, "an edge of a box is too large", err);
    x->found |= (unsigned)EDGES << edge;
    return 0;
}

/* Use <difficult> or <truncated>, the bit `flag` of x->found. An element that is cut off or has
 * others inside it has the text "". */
static int take_flag(struct voc_reader *x, const char *text, unsigned flag, bool *ret,
                     struct plenum_error *err)
{
    if ((strcmp(text, "0") != 0 && strcmp(text, "1") != 0) || x->found & flag)
        return fail(x, "<difficult> and <truncated> must be 0 or 1, once", err);
    *ret = *text == '1';
    x->found |= flag;
    return 0;
}

/* Use the text of an element of an object that ends. */
static int take_element(struct voc_reader *x, struct plenum_error *err)
{
    static const char *const edges[] = {"xmin", "ymin", "xmax", "ymax"};
    const char *text = plain_text(x), *name = x->names[x->depth - 1];

    if (x->depth == 4 && strcmp(x->names[2], "bndbox") == 0)
        for (unsigned i = 0; i < ARRAY_LEN(edges); i++)
            if (strcmp(name, edges[i]) == 0)
                return take_edge(x, text, i, err);
    if (x->depth != 3)
        return 0;
    if (strcmp(name, "difficult") == 0)
        return take_flag(x, text, DIFFICULT, &x->object.difficult, err);
    if (strcmp(name, "truncated") == 0)
        return take_flag(x, text, TRUNCATED, &x->object.truncated, err);
    if (strcmp(name, "name") != 0)
        return 0;
    if (!*text || x->found & NAMED)
        return fail(x,
                    "the name of an object is empty, or is given twice, or has more than 511 "
                    "bytes",
                    err);
    memcpy(x->name, text, strlen(text) + 1);
    x->found |= NAMED;
    return 0;
}

/* Use the text of an element of <size> that ends. */
static void take_side(struct voc_reader *x)
{
    const char *text = plain_text(x), *name = x->names[2];
    unsigned side = strcmp(name, "height") == 0;
    int64_t number;

    if ((side || strcmp(name, "width") == 0) &&
        number_parse(text, strlen(text), &number) == NUMBER_INTEGER && number > 0 &&
        number <= UINT32_MAX)
        x->picture.size[side] = (uint32_t)number;
}

static int end_element(struct voc_reader *x, struct plenum_error *err)
{
    bool in_object = is_in_object(x);
    int r = 0;

    assert(x->depth > 0);
    if (in_object && x->depth == 2) {
        x->object.name = x->name;
        r = (x->found & NEEDED) == NEEDED
                ? x->call(x->arg, &x->object, err)
                : fail(x, "this <object> lacks its <name>, or an edge of its <bndbox>", err);
    } else if (in_object) {
        r = take_element(x, err);
    } else if (x->depth == 3 && is_inside(x, 1, "size")) {
        take_side(x);
    }
    x->depth--;
    x->text_len = 0;
    return r;
}

/* ---- parts of the file ---- */

static int begin_tag(struct voc_reader *x, struct plenum_error *err)
{
    bool empty;
    int r;

    if (x->depth == DEPTH_MAX)
        return fail(x, "elements are nested more than 32 deep", err);
    step(x, 1);
    r = read_name(x, x->names[x->depth], err);
    if (r == 0)
        r = skip_attributes(x, err);
    if (r < 0)
        return r;
    if (x->depth == 0 && (x->has_root || strcmp(x->names[0], "annotation") != 0))
        return fail(x, "it is not an <annotation>", err);
    x->has_root = true;
    x->depth++;
    x->text_len = 0;
    if (is_in_object(x) && x->depth == 2) {
        x->object = (struct voc_object){.name = NULL};
        x->found = 0;
    }
    empty = begins(x, "/>");
    if (!empty && !begins(x, ">"))
        return fail(x, "an element's '>' is missing", err);
    step(x, empty ? 2 : 1);
    return empty ? end_element(x, err) : 0;
}

static int end_tag(struct voc_reader *x, struct plenum_error *err)
{
    char name[NAME_BYTES];
    int r;

    step(x, 2);
    r = read_name(x, name, err);
    if (r < 0)
        return r;
    if (x->depth == 0 || strcmp(name, x->names[x->depth - 1]) != 0)
        return error_set(err, -EBADMSG, "line %zu: </%s> ends an element that is not open", x->line,
                         name);
    skip_space(x);
    if (!begins(x, ">"))
        return fail(x, "an element's '>' is missing", err);
    step(x, 1);
    return end_element(x, err);
}

static int read_part(struct voc_reader *x, struct plenum_error *err)
{
    if (begins(x, "<?"))
        return skip_past(x, "?>", err);
    if (begins(x, "<!--"))
        return skip_past(x, "-->", err);
    if (begins(x, "<![CDATA[")) {
        const char *begin = x->at + 9;
        int r = skip_past(x, "]]>", err);

        if (r == 0)
            add_text(x, begin, (size_t)(x->at - 3 - begin));
        return r;
    }
    if (begins(x, "<!"))
        return fail(x, "document type declarations are not supported", err);
    if (begins(x, "</"))
        return end_tag(x, err);
    if (begins(x, "<"))
        return begin_tag(x, err);
    if (begins(x, "&"))
        return read_entity(x, err);
    if (x->depth == 0 && !is_space(*x->at))
        return fail(x, "it has something outside its elements", err);
    add_text(x, x->at, 1);
    step(x, 1);
    return 0;
}

int voc_xml_read(const char *text, size_t len, voc_xml_call *call, void *arg,
                 struct voc_picture *ret, struct plenum_error *err)
{
    struct voc_reader x = {.at = text, .end = text + len, .line = 1, .call = call, .arg = arg};
    int r = 0;

    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        x.at += 3;
    while (x.at < x.end && r == 0) {
        r = read_part(&x, err);
    }
    if (r == 0 && x.depth > 0)
        r = error_set(err, -EBADMSG, "line %zu: <%s> has no end", x.line, x.names[x.depth - 1]);
    if (r == 0 && !x.has_root)
        r = fail(&x, "it is not an <annotation>", err);
    if (r == 0 && ret)
        *ret = x.picture;
    return r;
}
