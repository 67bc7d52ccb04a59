/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/remote/answer.h"

#include <assert.h>
#include <string.h>

#include "common/util/util.h"

enum { KEPT_BYTES = ANSWER_BYTES / 2 }; /* bytes kept when the text is full and has no mark */

void answer_init(struct answer *answer, const char *mark)
{
    size_t len = strlen(mark);

    assert(len > 0 && len < KEPT_BYTES);
    (void)len;
    answer->mark = mark;
    answer->len = 0;
    answer->begun = false;
    answer->text[0] = '\0';
}

static void drop_front(struct answer *a, size_t count)
{
    assert(count <= a->len);
    a->len -= count;
    memmove(a->text, a->text + count, a->len + 1);
}

/* Look for the mark, which may begin before `from`, and drop the text before it. */
static void find_mark(struct answer *a, size_t from)
{
    size_t len = strlen(a->mark);
    const char *at;

    from -= from < len ? from : len;
    at = strstr(a->text + from, a->mark);
    if (!at)
        return;
    drop_front(a, (size_t)(at - a->text));
    a->begun = true;
}

void answer_add(struct answer *answer, const char *bytes, size_t len)
{
    while (len > 0) {
        size_t before = answer->len, n = min_u64(len, sizeof(answer->text) - 1 - before);

        if (n == 0 && answer->begun)
            return;
        if (n == 0) {
            drop_front(answer, before - KEPT_BYTES);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            answer->text[before + i] = bytes[i] ? bytes[i] : '?';
        answer->len += n;
        answer->text[answer->len] = '\0';
        bytes += n;
        len -= n;
        if (!answer->begun)
            find_mark(answer, before);
    }
}

const char *answer_last_line(char *text)
{
    size_t len = strlen(text);
    char *line;

    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r' || text[len - 1] == ' '))
        text[--len] = '\0';
    line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

void answer_hide(char *text, const char *secret)
{
    size_t len = strlen(secret);

    if (len == 0)
        return;
    for (char *at = text; (at = strstr(at, secret)); at += len)
        memset(at, '*', len);
}
