/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/dataset/label.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "common/util/error_set.h"
#include "common/util/util.h"
#include "loader/dataset/number.h"

/* The beginning of a string, for a message. */
struct shown {
    const char *text;
    int len;
};

static struct shown show(const char *text, size_t len)
{
    return (struct shown){text, (int)min_u64(len, 100)};
}

static int not_listed(const struct class_list *classes, struct shown s, struct plenum_error *err)
{
    return error_set(err, -EBADMSG,
                     "class '%.*s' is not listed in %s (classes=), which has %u class%s", s.len,
                     s.text, classes->path, classes->count, classes->count == 1 ? "" : "es");
}

/* Interpret a number as the number of a class. */
static int take_number(const struct label_rule *rule, int64_t value, struct shown s,
                       struct label *ret, struct plenum_error *err)
{
    const struct class_list *classes = rule->classes;
    int64_t most = INT32_MAX - 1;

    if (classes)
        most = classes->numbers ? CLASS_LIST_MAX - 1 : (int64_t)classes->count - 1;
    /* An offset is below 2^31, so these numbers are out of range with any offset. */
    if (value > 2 * (int64_t)INT32_MAX || value < -2 * (int64_t)INT32_MAX ||
        value + rule->offset < 0 || value + rule->offset > most)
        return error_set(err, -EBADMSG,
                         "label '%.*s' is out of range%s: class numbers are 0 to %" PRId64 "%s",
                         s.len, s.text, rule->offset ? " with the label-offset" : "", most,
                         value < 0 || rule->offset < 0 ? " (see label-offset)" : "");
    ret->class = (int32_t)(value + rule->offset);
    assert(ret->class >= 0);
    return 0;
}

/* Interpret a number when listed names are also numbers: it means the name with its value. */
static int take_numeral(const struct label_rule *rule, int64_t value, struct shown s,
                        struct label *ret, struct plenum_error *err)
{
    const struct class_list *classes = rule->classes;
    const struct class_numeral *found;
    size_t count = class_list_find_value(classes, value, &found);

    assert(!classes->numbers && classes->has_numerals);
    if (count == 0)
        return not_listed(classes, s, err);
    if (count > 1)
        return error_set(err, -EBADMSG,
                         "label '%.*s' could be class '%.50s' (number %u) or '%.50s' (number %u) "
                         "of %s (classes=): list each number only once, whatever its spelling",
                         s.len, s.text, classes->names[found[0].class], found[0].class,
                         classes->names[found[1].class], found[1].class, classes->path);
    if (rule->offset != 0)
        return error_set(err, -EBADMSG,
                         "label '%.*s' is the name of a class, because names in %s (classes=) are "
                         "numbers: label-offset cannot be used with it",
                         s.len, s.text, classes->path);
    ret->class = (int32_t)found->class;
    return 0;
}

int label_read(const struct label_rule *rule, enum label_source source, const char *text,
               size_t len, struct label *ret, struct plenum_error *err)
{
    const struct class_list *classes = rule->classes;
    bool listed = classes && !classes->numbers;
    enum number_kind kind = NUMBER_NONE;
    struct shown s = show(text, len);
    int64_t value = 0, found;

    assert(rule->offset >= INT32_MIN && rule->offset <= -(int64_t)INT32_MIN);
    *ret = (struct label){0};
    if (source == LABEL_VALUE || (classes && classes->numbers))
        kind = number_parse(text, len, &value);
    found = listed ? class_list_find(classes, text, len) : -1;
    ret->is_name = kind == NUMBER_NONE || (listed && classes->has_numerals);
    if (kind == NUMBER_INTEGER && listed && classes->has_numerals)
        return take_numeral(rule, value, s, ret, err);
    if (found >= 0) {
        ret->is_name = true;
        ret->class = (int32_t)found;
        return 0;
    }
    if (kind == NUMBER_INTEGER)
        return take_number(rule, value, s, ret, err);
    if (kind == NUMBER_HUGE)
        return error_set(err, -EBADMSG, "label '%.*s' is out of range: it is beyond 64 bits", s.len,
                         s.text);
    if (kind != NUMBER_NONE)
        return error_set(
            err, -EBADMSG, "label '%.*s' %s%s", s.len, s.text, number_why_no_integer(kind),
            number_is_decimal(kind) ? ""
                                    : "; if it is the name of a class, list it with classes=FILE");
    if (listed)
        return not_listed(classes, s, err);
    if (classes)
        return error_set(err, -EBADMSG,
                         "label '%.*s' is not an integer, which classes=numbers requires", s.len,
                         s.text);
    ret->is_open = true;
    return 0;
}
