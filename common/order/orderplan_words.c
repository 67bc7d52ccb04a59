/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/order/orderplan_priv.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/util/util.h"

int plan_line_error(const struct plan_parser *p, int r)
{
    return error_prefix(p->err, r, "plan, line %u", p->line);
}

int plan_fail(const struct plan_parser *p, const char *format, ...)
{
    char text[sizeof(p->err->text)];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    return plan_line_error(p, error_set(p->err, -EINVAL, "%s", text));
}

bool plan_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

void plan_skip_blanks(struct plan_parser *p)
{
    while (p->at < p->end && plan_is_blank(*p->at))
        p->at++;
}

int plan_next_word(struct plan_parser *p, char *ret)
{
    bool quoted = false;
    size_t len = 0;

    plan_skip_blanks(p);
    for (; p->at < p->end && (quoted || !plan_is_blank(*p->at)); p->at++) {
        if (*p->at == '"') {
            quoted = !quoted;
            continue;
        }
        if (quoted && *p->at == '\\' && p->at + 1 < p->end)
            p->at++;
        if (len == PLAN_WORD_MAX - 1)
            return plan_fail(p, "a word is longer than %d bytes", PLAN_WORD_MAX - 1);
        ret[len++] = *p->at;
    }
    ret[len] = '\0';
    return quoted ? plan_fail(p, "a quotation mark is missing") : (int)len;
}

int plan_need_word(struct plan_parser *p, const char *what, char *ret)
{
    int r = plan_next_word(p, ret);

    return r == 0 ? plan_fail(p, "%s is missing", what) : r < 0 ? r : 0;
}

int plan_need_number(struct plan_parser *p, const char *what, uint64_t most, uint64_t *ret)
{
    char word[PLAN_WORD_MAX];
    int r = plan_need_word(p, what, word);

    if (r < 0)
        return r;
    return parse_u64(word, most, ret) < 0
               ? plan_fail(p, "%s must be a whole number of at most %llu, not '%s'", what,
                           (unsigned long long)most, word)
               : 0;
}

int plan_need_end(struct plan_parser *p)
{
    plan_skip_blanks(p);
    return p->at < p->end
               ? plan_fail(p, "'%.*s' is not understood here", (int)(p->end - p->at), p->at)
               : 0;
}
