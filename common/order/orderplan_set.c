/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/order/orderplan_priv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/data/dataname.h"
#include "common/util/util.h"

static int parse_name(struct plan_parser *p, struct orderplan_set *set)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    char word[PLAN_WORD_MAX];
    int r = plan_need_word(p, "the name of a set", word);

    if (r < 0)
        return r;
    if (strlen(word) >= sizeof(set->name) || word[strspn(word, letters)])
        return plan_fail(
            p, "a set's name has at most %zu letters, digits and the characters _ . - : '%s'",
            sizeof(set->name) - 1, word);
    if (orderplan_find(p->plan, word, strlen(word)) != UINT32_MAX)
        return plan_fail(p, "there are two sets named '%s'", word);
    memcpy(set->name, word, strlen(word) + 1);
    return 0;
}

static int set_shuffle(struct plan_parser *p, struct orderplan_set *set, const char *value)
{
    int r = order_parse_shuffle(value, &set->shuffle, &set->block, p->err);

    return r < 0 ? plan_line_error(p, r) : 0;
}

static int set_repeat(struct plan_parser *p, struct orderplan_set *set, const char *value)
{
    uint64_t repeat;

    if (parse_u64(value, UINT32_MAX - 1, &repeat) < 0 || repeat == 0)
        return plan_fail(p, "repeat=%s: a number of at least 1 is needed", value);
    set->repeat = (uint32_t)repeat;
    return 0;
}

/* Copy a path and make it absolute (malloc). Returns 0, or -errno with a message. */
static int make_path(struct plan_parser *p, const char *path, char **ret)
{
    if (*path != '/' && !p->folder)
        return plan_fail(p, "the path '%s' is not absolute", path);
    *ret = *path == '/' ? strdup(path) : str_format("%s/%s", p->folder, path);
    return *ret ? 0 : error_set(p->err, -ENOMEM, "out of memory");
}

/* Append a word to a selection, quoted if it is empty or contains a space or tab. */
static int add_select_word(struct plan_parser *p, const char *word, char *text)
{
    size_t len = strlen(text);
    const char *quote = !*word || strpbrk(word, " \t") ? "'" : "";
    int n = snprintf(text + len, PLAN_WORD_MAX - len, "%s%s%s%s", len > 0 ? " " : "", quote, word,
                     quote);

    return n < 0 || (size_t)n >= PLAN_WORD_MAX - len ? plan_fail(p, "a selection is too long") : 0;
}

const char *orderplan_select_word(const char *at, char *ret, bool *open)
{
    bool quoted = false;
    size_t len = 0;

    for (; *at && (quoted || (*at != ' ' && *at != '\t')); at++) {
        quoted = quoted != (*at == '\'');
        if (*at != '\'')
            ret[len++] = *at;
    }
    ret[len] = '\0';
    *open = quoted;
    return at + strspn(at, " \t");
}

/* Write a selection in canonical form: single spaces, and an absolute path after "names". */
static int set_select(struct plan_parser *p, struct orderplan_set *set, const char *value)
{
    const char *at = value + strspn(value, " \t");
    char text[PLAN_WORD_MAX] = "", word[PLAN_WORD_MAX];
    bool path = false, begins = true, open; /* `begins`: a term begins here */

    while (*at) {
        char *made = NULL;
        int r;

        at = orderplan_select_word(at, word, &open);
        if (open)
            return plan_fail(p, "select: the closing ' is missing");
        r = path ? make_path(p, word, &made) : 0;
        if (r == 0)
            r = add_select_word(p, made ? made : word, text);
        free(made);
        if (r < 0)
            return r;
        path = begins && strcmp(word, "names") == 0;
        begins = strcmp(word, "and") == 0 || (begins && strcmp(word, "not") == 0);
    }
    if (!*text)
        return plan_fail(p, "select= is empty");
    set->select = strdup(text);
    return set->select ? 0 : error_set(p->err, -ENOMEM, "out of memory");
}

/* Copy a weights rule, and make its path absolute. */
static int make_rule(struct plan_parser *p, const char *value, char **ret)
{
    const char *repeat = str_after(value, "repeat:"), *rule = repeat ? repeat : value,
               *file = str_after(rule, "file:");
    char *path;
    int r;

    if (!*value)
        return plan_fail(p, "weights= is empty");
    if (!file) {
        *ret = strdup(value);
        return *ret ? 0 : error_set(p->err, -ENOMEM, "out of memory");
    }
    r = make_path(p, file, &path);
    if (r < 0)
        return r;
    *ret = str_format("%sfile:%s", repeat ? "repeat:" : "", path);
    free(path);
    return *ret ? 0 : error_set(p->err, -ENOMEM, "out of memory");
}

static int set_weights(struct plan_parser *p, struct orderplan_set *set, const char *value)
{
    return make_rule(p, value, &set->weights);
}

static int set_relabel(struct plan_parser *p, struct orderplan_set *set, const char *value)
{
    return *value ? make_path(p, value, &set->relabel) : plan_fail(p, "relabel= is empty");
}

static int set_draw(struct plan_parser *p, struct orderplan_set *set, const char *value)
{
    if (strcmp(value, "quota") != 0 && strcmp(value, "independent") != 0)
        return plan_fail(p, "draw must be quota or independent, not '%s'", value);
    set->drawn = *value == 'i';
    return 0;
}

static int set_epoch(struct plan_parser *p, struct orderplan_set *set, const char *value)
{
    uint64_t positions;

    if (parse_u64(value, UINT32_MAX - 1, &positions) < 0 || positions == 0)
        return plan_fail(p, "epoch=%s: a number of positions is needed", value);
    set->epoch = (uint32_t)positions;
    return 0;
}

static const struct {
    const char *name;
    int (*set)(struct plan_parser *p, struct orderplan_set *set, const char *value);
} set_keys[] = {
    {"shuffle", set_shuffle}, {"repeat", set_repeat}, {"select", set_select},
    {"weights", set_weights}, {"draw", set_draw},     {"epoch", set_epoch},
    {"relabel", set_relabel},
};

/* Returns the length of the key in KEY= at the parser's place; 0 if the data set begins there. A
 * path of this form can be written as ./PATH. */
static size_t key_length(const struct plan_parser *p)
{
    size_t room = (size_t)(p->end - p->at), len = 0;

    while (len < room && ((p->at[len] >= 'a' && p->at[len] <= 'z') || p->at[len] == '_'))
        len++;
    return len < room && p->at[len] == '=' ? len : 0;
}

/* Returns the number of a key, or -EINVAL with a message that suggests a similar one. */
static int find_key(const struct plan_parser *p, size_t len)
{
    struct str_nearest near = {.word = p->at, .len = len};

    for (size_t i = 0; i < ARRAY_LEN(set_keys); i++) {
        if (strlen(set_keys[i].name) == len && memcmp(p->at, set_keys[i].name, len) == 0)
            return (int)i;
        str_nearest_try(&near, set_keys[i].name);
    }
    if (near.name)
        return plan_fail(p, "a set has no key '%.*s': did you mean '%s'?", (int)min_u64(len, 40),
                         p->at, near.name);
    return plan_fail(p,
                     "a set has no key '%.*s', only shuffle, repeat, select, weights, draw, epoch "
                     "and relabel",
                     (int)min_u64(len, 40), p->at);
}

/* Parse KEY=VALUE ..., up to the data set. */
static int parse_keys(struct plan_parser *p, struct orderplan_set *set)
{
    unsigned seen = 0;

    for (;;) {
        char word[PLAN_WORD_MAX];
        size_t len;
        int i, r;

        plan_skip_blanks(p);
        len = key_length(p);
        if (len == 0)
            return 0;
        i = find_key(p, len);
        if (i < 0)
            return i;
        if (seen & 1U << i)
            return plan_fail(p, "%s is given twice", set_keys[i].name);
        seen |= 1U << i;
        r = plan_next_word(p, word);
        if (r >= 0)
            r = set_keys[i].set(p, set, word + len + 1);
        if (r < 0)
            return r;
    }
}

/* Parse the rest of the line, which is the data set's name. */
static int parse_dataset(struct plan_parser *p, struct orderplan_set *set)
{
    char text[PLAN_WORD_MAX], made[PLAN_WORD_MAX];
    size_t len;
    int r;

    while (p->end > p->at && plan_is_blank(p->end[-1]))
        p->end--;
    len = (size_t)(p->end - p->at);
    if (len == 0)
        return plan_fail(p, "the data set of '%s' is missing", set->name);
    if (len >= sizeof(text))
        return plan_fail(p, "the data set's name is longer than %zu bytes", sizeof(text) - 1);
    memcpy(text, p->at, len);
    text[len] = '\0';
    if (!p->folder && !dataname_is_absolute(text))
        return plan_fail(p, "the path of data set '%s' is not absolute", text);
    r = dataname_make_absolute(text, p->folder ? p->folder : "/", made, sizeof(made), p->err);
    if (r < 0)
        return plan_line_error(p, r);
    if (!dataname_is_absolute(made)) /* nothing follows the colon */
        return plan_fail(p, "the data set of '%s' is missing", set->name);
    set->dataset = strdup(made);
    return set->dataset ? 0 : error_set(p->err, -ENOMEM, "out of memory");
}

int plan_parse_set(struct plan_parser *p)
{
    struct orderplan *plan = p->plan;
    struct orderplan_set *set = &plan->sets[plan->num_sets];
    char word[PLAN_WORD_MAX];
    int r;

    if (plan->num_sets == MIXTURE_SETS_MAX)
        return plan_fail(p, "a mixture has at most %d sets", MIXTURE_SETS_MAX);
    *set = (struct orderplan_set){.shuffle = ORDER_GLOBAL, .repeat = 1};
    r = parse_name(p, set);
    if (r == 0)
        r = plan_need_word(p, "the weight", word);
    if (r == 0)
        r = plan_parse_weight(p, word, &p->weights[plan->num_sets]);
    if (r == 0)
        r = parse_keys(p, set);
    if (r == 0)
        r = parse_dataset(p, set);
    plan->num_sets += r == 0;
    return r;
}

/* Insert new weights after those of the same set, which have smaller passes. */
static int add_reweigh(struct plan_parser *p, uint32_t set, uint64_t pass, char *rule)
{
    struct orderplan *plan = p->plan;
    uint32_t at = plan->num_reweighs;

    while (at > 0 && plan->reweighs[at - 1].set > set)
        at--;
    if (at > 0 && plan->reweighs[at - 1].set == set && plan->reweighs[at - 1].pass >= pass)
        return plan_fail(p, "the weights of set '%s' must be in the order of passes, each once",
                         plan->sets[set].name);
    memmove(&plan->reweighs[at + 1], &plan->reweighs[at],
            (plan->num_reweighs - at) * sizeof(plan->reweighs[0]));
    plan->reweighs[at] =
        (struct orderplan_reweigh){.set = set, .pass = (uint32_t)pass, .weights = rule};
    plan->num_reweighs++;
    return 0;
}

int plan_parse_reweigh(struct plan_parser *p)
{
    char word[PLAN_WORD_MAX], *rule;
    uint64_t pass;
    uint32_t set;
    int r = plan_need_number(p, "the pass", UINT32_MAX - 1, &pass);

    if (r == 0)
        r = plan_need_word(p, "the name of a set", word);
    if (r < 0)
        return r;
    set = orderplan_find(p->plan, word, strlen(word));
    if (set == UINT32_MAX)
        return plan_fail(p, "there is no set named '%s'", word);
    if (pass == 0)
        return plan_fail(p, "weights of pass 0 are in the line of the set: weights=RULE");
    if (p->plan->num_reweighs == ORDERPLAN_REWEIGHS_MAX)
        return plan_fail(p, "a plan changes the weights of samples at most %d times",
                         ORDERPLAN_REWEIGHS_MAX);
    r = plan_need_word(p, "a rule", word);
    if (r == 0)
        r = plan_need_end(p);
    if (r == 0)
        r = make_rule(p, word, &rule);
    if (r < 0)
        return r;
    r = add_reweigh(p, set, pass, rule);
    if (r < 0)
        free(rule);
    return r;
}
