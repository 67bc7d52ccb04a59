/* SPDX-License-Identifier: MIT */
/* orderplan.c - parses a plan, line by line, and writes it in canonical form: one spelling for each
 * meaning, with absolute paths, integer weights and ramps as pieces. */
#include "config.h"

#include "common/order/orderplan_priv.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"

bool orderplan_is(const char *text)
{
    size_t word = strcspn(text, " \n");

    /* A path may contain newlines, too; but no keyword contains these characters. */
    return strchr(text, '\n') != NULL && strcspn(text, "/:") >= word;
}

/* Remove a byte order mark, which some Windows editors write before the first line. */
static void skip_mark(char *text, int64_t *n)
{
    if (*n < 3 || memcmp(text, "\xef\xbb\xbf", 3) != 0)
        return;
    *n -= 3;
    memmove(text, text + 3, (size_t)*n);
}

static int read_plan_file(const char *path, char **ret, struct plenum_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = fd >= 0 ? malloc(ORDERPLAN_TEXT_MAX + 1) : NULL;
    int64_t n = fd < 0 ? -errno : text ? io_pread_some(fd, text, ORDERPLAN_TEXT_MAX, 0) : -ENOMEM;

    io_close(&fd);
    if (n >= 0 && memchr(text, 0, (size_t)n)) {
        free(text);
        return error_set(err, -EINVAL, "plan %s contains a zero byte: is it a text file?", path);
    }
    if (n >= 0 && n < ORDERPLAN_TEXT_MAX - 1) {
        skip_mark(text, &n);
        if (n == 0 || text[n - 1] != '\n')
            text[n++] = '\n';
        text[n] = '\0';
        *ret = text;
        return 0;
    }
    free(text);
    return n < 0 ? error_set(err, (int)n, "plan %s: %s", path, strerror((int)-n))
                 : error_set(err, -EINVAL, "plan %s is longer than %d bytes", path,
                             ORDERPLAN_TEXT_MAX - 2);
}

int orderplan_read(const char *name, char **ret, struct plenum_error *err)
{
    if (name[0] == '@' && !orderplan_is(name))
        return read_plan_file(name + 1, ret, err);
    *ret = strdup(name);
    return *ret ? 0 : error_set(err, -ENOMEM, "out of memory");
}

uint32_t orderplan_find(const struct orderplan *plan, const char *name, size_t len)
{
    for (uint32_t i = 0; i < plan->num_sets; i++)
        if (strlen(plan->sets[i].name) == len && memcmp(plan->sets[i].name, name, len) == 0)
            return i;
    return UINT32_MAX;
}

/* ---- settings ---- */

static int parse_block(struct plan_parser *p)
{
    uint64_t block;
    int r = plan_need_number(p, "block", UINT32_C(1) << 28, &block);

    if (r < 0)
        return r;
    if (p->plan->block_given)
        return plan_fail(p, "block is given twice");
    if (block == 0)
        return plan_fail(p, "block must be at least 1");
    p->plan->block = (uint32_t)block;
    p->plan->block_given = true;
    return plan_need_end(p);
}

static int parse_epoch(struct plan_parser *p)
{
    struct orderplan *plan = p->plan;
    char word[PLAN_WORD_MAX];
    uint64_t number;
    bool is_number;
    int r = plan_need_word(p, "the length of an epoch", word);

    if (r < 0)
        return r;
    if (plan->epoch > 0 || plan->epoch_set != UINT32_MAX)
        return plan_fail(p, "epoch is given twice");
    plan->epoch_set = orderplan_find(plan, word, strlen(word));
    is_number = parse_u64(word, UINT32_MAX - 1, &number) == 0 && number > 0;
    if (plan->epoch_set != UINT32_MAX && is_number)
        return plan_fail(p,
                         "'epoch %s' is ambiguous: it is a number of positions and also the name "
                         "of a set: rename the set",
                         word);
    if (plan->epoch_set != UINT32_MAX)
        return plan_need_end(p);
    if (!is_number)
        return plan_fail(
            p, "epoch must be the name of a set, or a number of 1 to %u positions, not '%s'",
            UINT32_MAX - 1, word);
    plan->epoch = (uint32_t)number;
    return plan_need_end(p);
}

static const char *const label_words[] = {"names", "numbers", "stack"};

static int parse_labels(struct plan_parser *p)
{
    char word[PLAN_WORD_MAX];
    int r = plan_need_word(p, "labels", word);

    if (r < 0)
        return r;
    if (p->labels_given)
        return plan_fail(p, "labels is given twice");
    for (size_t i = 0; i < ARRAY_LEN(label_words); i++)
        if (strcmp(word, label_words[i]) == 0) {
            p->plan->labels = (enum orderplan_labels)i;
            p->labels_given = true;
            return plan_need_end(p);
        }
    return plan_fail(p, "labels must be names, numbers or stack, not '%s'", word);
}

static int refuse_second_order(const struct plan_parser *p, bool same, const char *word)
{
    return same ? plan_fail(p, "%s is given twice", word)
                : plan_fail(p, "stratify and balance cannot be used together");
}

static int parse_stratify(struct plan_parser *p)
{
    char word[PLAN_WORD_MAX];
    int r = plan_need_word(p, "label or set", word);

    if (r < 0)
        return r;
    if (p->plan->order != ORDERPLAN_MIX)
        return refuse_second_order(p, p->plan->order != ORDERPLAN_BALANCE, "stratify");
    if (strcmp(word, "label") != 0 && strcmp(word, "set") != 0)
        return plan_fail(p, "stratify must be label or set, not '%s'", word);
    p->plan->order = *word == 'l' ? ORDERPLAN_STRATA_LABEL : ORDERPLAN_STRATA_SET;
    return plan_need_end(p);
}

/* Parse label [classes=P each=K]. */
static int parse_balance(struct plan_parser *p)
{
    struct orderplan *plan = p->plan;
    char word[PLAN_WORD_MAX];
    int r = plan_need_word(p, "label", word);

    if (r < 0)
        return r;
    if (plan->order != ORDERPLAN_MIX)
        return refuse_second_order(p, plan->order == ORDERPLAN_BALANCE, "balance");
    if (strcmp(word, "label") != 0)
        return plan_fail(p, "balance must be label, not '%s'", word);
    plan->order = ORDERPLAN_BALANCE;
    while ((r = plan_next_word(p, word)) > 0) {
        const char *classes = str_after(word, "classes="), *each = str_after(word, "each=");
        uint32_t *to = classes ? &plan->classes : &plan->each;
        uint64_t value;

        if ((!classes && !each) || parse_u64(classes ? classes : each, 1 << 20, &value) < 0 ||
            value == 0)
            return plan_fail(p, "balance label classes=P each=K needs numbers, not '%s'", word);
        if (*to > 0)
            return plan_fail(p, "%s is given twice", classes ? "classes" : "each");
        *to = (uint32_t)value;
    }
    if (r == 0 && !plan->classes != !plan->each)
        return plan_fail(p, "balance needs both classes=P and each=K, or neither");
    return r;
}

static int parse_skip(struct plan_parser *p)
{
    struct orderplan *plan = p->plan;
    struct order_gap gap;
    int r = plan_need_number(p, "the first position", INT64_MAX, &gap.begin);

    if (r == 0)
        r = plan_need_number(p, "the position after the last", INT64_MAX, &gap.end);
    if (r == 0)
        r = plan_need_end(p);
    if (r < 0)
        return r;
    if (plan->num_skips == ORDERPLAN_SKIPS_MAX)
        return plan_fail(p, "a plan skips at most %d ranges", ORDERPLAN_SKIPS_MAX);
    if (gap.begin >= gap.end ||
        (plan->num_skips > 0 && gap.begin <= plan->skips[plan->num_skips - 1].end))
        return plan_fail(p, "skip A B needs A < B, and ranges must be in order and apart");
    plan->skips[plan->num_skips++] = gap;
    return 0;
}

/* ---- lines ---- */

/* The rounds in which lines are read: first the sets, because settings name them; last the pieces,
 * because they begin at multiples of the block. */
enum round { ROUND_SETS, ROUND_SETTINGS, ROUND_PIECES, ROUNDS_COUNT };

static const struct {
    const char *word;
    enum round round;
    int (*parse)(struct plan_parser *p);
} line_kinds[] = {
    {"set", ROUND_SETS, plan_parse_set},        {"block", ROUND_SETTINGS, parse_block},
    {"epoch", ROUND_SETTINGS, parse_epoch},     {"labels", ROUND_SETTINGS, parse_labels},
    {"skip", ROUND_SETTINGS, parse_skip},       {"stratify", ROUND_SETTINGS, parse_stratify},
    {"balance", ROUND_SETTINGS, parse_balance}, {"at", ROUND_PIECES, plan_parse_at},
    {"ramp", ROUND_PIECES, plan_parse_ramp},    {"weights", ROUND_SETTINGS, plan_parse_reweigh},
};

static int refuse_line(const struct plan_parser *p, const char *word)
{
    struct str_nearest near = {.word = word, .len = strlen(word)};

    for (size_t i = 0; i < ARRAY_LEN(line_kinds); i++)
        str_nearest_try(&near, line_kinds[i].word);
    return plan_fail(
        p,
        "a line begins with set, block, epoch, labels, at, ramp, weights, skip, stratify or "
        "balance, not '%s'%s%s%s",
        word, near.name ? ": did you mean '" : "", near.name ? near.name : "",
        near.name ? "'?" : "");
}

static int parse_line(struct plan_parser *p, enum round round)
{
    char word[PLAN_WORD_MAX];
    int r;

    plan_skip_blanks(p);
    if (p->at == p->end || *p->at == '#')
        return 0;
    r = plan_next_word(p, word);
    if (r < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(line_kinds); i++)
        if (strcmp(word, line_kinds[i].word) == 0)
            return line_kinds[i].round == round ? line_kinds[i].parse(p) : 0;
    return refuse_line(p, word);
}

static int parse_round(struct plan_parser *p, const char *text, enum round round)
{
    int r = 0;

    p->line = 0;
    for (const char *at = text; *at && r == 0;) {
        size_t len = strcspn(at, "\n");

        p->line++;
        p->at = at;
        p->end = at + len;
        r = parse_line(p, round);
        at += len + (at[len] == '\n');
    }
    return r;
}

/* ---- the canonical form ---- */

__attribute__((format(printf, 2, 3))) static void put(struct plan_parser *p, const char *format,
                                                      ...)
{
    size_t room = sizeof(p->plan->text) - p->len;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(p->plan->text + p->len, room, format, args);
    va_end(args);
    p->len += n >= 0 && (size_t)n < room ? (size_t)n : room - 1;
}

static void put_quoted(struct plan_parser *p, const char *key, const char *value)
{
    put(p, " %s\"", key);
    for (; *value; value++)
        put(p, "%s%c", *value == '"' || *value == '\\' ? "\\" : "", *value);
    put(p, "\"");
}

static void put_set(struct plan_parser *p, const struct orderplan_set *set, uint32_t weight)
{
    put(p, "set %s %u", set->name, weight);
    if (set->shuffle == ORDER_NONE)
        put(p, " shuffle=none");
    else if (set->shuffle == ORDER_BLOCK)
        put(p, " shuffle=block:%u", set->block);
    if (set->repeat > 1)
        put(p, " repeat=%u", set->repeat);
    if (set->select)
        put_quoted(p, "select=", set->select);
    if (set->weights)
        put_quoted(p, "weights=", set->weights);
    if (set->relabel)
        put_quoted(p, "relabel=", set->relabel);
    if (set->drawn)
        put(p, " draw=independent");
    if (set->epoch > 0)
        put(p, " epoch=%u", set->epoch);
    put(p, " %s\n", set->dataset);
}

static void put_pieces(struct plan_parser *p)
{
    const struct orderplan *plan = p->plan;

    for (uint32_t j = 1; j < plan->num_pieces; j++) {
        put(p, "at %llu", (unsigned long long)plan->pieces[j].start);
        for (uint32_t i = 0; i < plan->num_sets; i++)
            if (plan->pieces[j].weights[i] > 0)
                put(p, " %s %u", plan->sets[i].name, plan->pieces[j].weights[i]);
        put(p, "\n");
    }
}

static const char *const order_lines[] = {"", "stratify label", "stratify set", "balance label"};

static int put_plan(struct plan_parser *p)
{
    const struct orderplan *plan = p->plan;

    for (uint32_t i = 0; i < plan->num_sets; i++)
        put_set(p, &plan->sets[i], plan->weights[i]);
    if (plan->block != MIXTURE_BLOCK || (plan->block_given && plan->order != ORDERPLAN_MIX))
        put(p, "block %u\n", plan->block);
    if (plan->epoch_set != UINT32_MAX)
        put(p, "epoch %s\n", plan->sets[plan->epoch_set].name);
    else if (plan->epoch > 0)
        put(p, "epoch %u\n", plan->epoch);
    if (plan->labels != ORDERPLAN_NAMES)
        put(p, "labels %s\n", label_words[plan->labels]);
    if (plan->order == ORDERPLAN_BALANCE && plan->classes > 0)
        put(p, "balance label classes=%u each=%u\n", plan->classes, plan->each);
    else if (plan->order != ORDERPLAN_MIX)
        put(p, "%s\n", order_lines[plan->order]);
    put_pieces(p);
    for (uint32_t i = 0; i < plan->num_reweighs; i++) {
        put(p, "weights %u %s", plan->reweighs[i].pass, plan->sets[plan->reweighs[i].set].name);
        put_quoted(p, "", plan->reweighs[i].weights);
        put(p, "\n");
    }
    for (uint32_t i = 0; i < plan->num_skips; i++)
        put(p, "skip %llu %llu\n", (unsigned long long)plan->skips[i].begin,
            (unsigned long long)plan->skips[i].end);
    return p->len >= sizeof(plan->text) - 1
               ? error_set(p->err, -EINVAL, "the plan is longer than %d bytes",
                           ORDERPLAN_TEXT_MAX - 2)
               : 0;
}

/* Check one set for options that exclude each other. */
static int check_set(struct plan_parser *p, uint32_t i)
{
    const struct orderplan_set *set = &p->plan->sets[i];
    bool weighed = set->weights || orderplan_count_reweighs(p->plan, i) > 0;

    if ((set->drawn && !weighed) || (set->epoch > 0 && !set->weights))
        return error_set(p->err, -EINVAL, "set '%s': draw= and epoch= need weights=", set->name);
    if (weighed && (set->repeat > 1 || set->shuffle != ORDER_GLOBAL))
        return error_set(
            p->err, -EINVAL,
            "set '%s': weights= says how often samples are shown and in which order, so "
            "repeat= and shuffle= cannot be used with it",
            set->name);
    if (p->plan->order == ORDERPLAN_MIX)
        return 0;
    if (weighed)
        return error_set(p->err, -EINVAL,
                         "set '%s': weights= cannot be used with stratify and balance", set->name);
    if (set->repeat > 1 || set->shuffle != ORDER_GLOBAL)
        return error_set(p->err, -EINVAL,
                         "set '%s': repeat= and shuffle= cannot be used with stratify and balance",
                         set->name);
    return 0;
}

/* Check for options that exclude one order of all samples (stratify, balance). */
static int check_order(struct plan_parser *p)
{
    const struct orderplan *plan = p->plan;
    bool counted = plan->order == ORDERPLAN_BALANCE && plan->classes > 0;

    for (uint32_t i = 1; i < plan->num_sets; i++)
        if (plan->weights[i] != plan->weights[0])
            return error_set(p->err, -EINVAL,
                             "stratify and balance show all sets as one, so weights must be equal");
    if (plan->num_pieces > 1)
        return error_set(
            p->err, -EINVAL,
            "stratify and balance show all sets as one: 'at' and 'ramp' cannot be used");
    if (counted && plan->block_given)
        return error_set(p->err, -EINVAL,
                         "balance with classes=P each=K has blocks of P x K: leave block out");
    if (!counted && !plan->block_given)
        return error_set(p->err, -EINVAL,
                         "stratify and balance need block = the samples of a batch");
    if (plan->epoch_set != UINT32_MAX || (plan->epoch > 0 && plan->order != ORDERPLAN_BALANCE))
        return error_set(p->err, -EINVAL,
                         "epoch cannot be used with stratify, which shows each sample once, and "
                         "must be a number with balance");
    return 0;
}

/* Check that a plan of one set has no settings that need several. */
static int check_single(struct plan_parser *p)
{
    const struct orderplan *plan = p->plan;

    if (plan->num_pieces > 1)
        return error_set(
            p->err, -EINVAL,
            "a plan of one set has no weights to change: 'at' and 'ramp' need several");
    if (plan->block_given)
        return error_set(p->err, -EINVAL, "block is for mixtures, stratify and balance");
    if (plan->epoch > 0 || plan->epoch_set != UINT32_MAX)
        return error_set(p->err, -EINVAL,
                         "a plan of one set has the set's epochs: with weights=, write epoch=N in "
                         "its line");
    return 0;
}

/* Check a mixture of several sets. */
static int check_mixture(struct plan_parser *p)
{
    const struct orderplan *plan = p->plan;
    uint32_t set = plan->epoch_set;

    if (set != UINT32_MAX && plan->pieces[0].weights[set] == 0)
        return error_set(p->err, -EINVAL,
                         "an epoch cannot show all of '%s', which has weight 0 at first: set epoch "
                         "to a number",
                         plan->sets[set].name);
    return 0;
}

static int check_plan(struct plan_parser *p)
{
    const struct orderplan *plan = p->plan;
    int r = 0;

    for (uint32_t i = 0; i < plan->num_sets && r == 0; i++)
        r = check_set(p, i);
    if (r == 0 && plan->order != ORDERPLAN_MIX)
        return check_order(p);
    if (r < 0)
        return r;
    return plan->num_sets == 1 ? check_single(p) : check_mixture(p);
}

static int parse_plan(struct plan_parser *p, const char *text)
{
    struct orderplan *plan = p->plan;
    uint32_t *first;
    int r = parse_round(p, text, ROUND_SETS);

    if (r < 0)
        return r;
    if (plan->num_sets == 0)
        return error_set(p->err, -EINVAL, "the plan names no data set: it has no line 'set'");
    r = parse_round(p, text, ROUND_SETTINGS);
    if (r == 0)
        r = plan_add_piece(p, 0, &first);
    if (r == 0)
        r = plan_reduce(p, p->weights, first);
    if (r == 0)
        r = parse_round(p, text, ROUND_PIECES);
    if (r == 0)
        r = check_plan(p);
    return r < 0 ? r : put_plan(p);
}

int orderplan_parse(const char *text, const char *folder, struct orderplan **ret,
                    struct plenum_error *err)
{
    struct plan_parser p = {.plan = calloc(1, sizeof(*p.plan)), .folder = folder, .err = err};
    int r;

    if (!p.plan)
        return error_set(err, -ENOMEM, "out of memory");
    p.plan->block = MIXTURE_BLOCK;
    p.plan->epoch_set = UINT32_MAX;
    r = parse_plan(&p, text);
    if (r < 0) {
        orderplan_free(p.plan);
        return r;
    }
    assert(p.plan->num_sets > 0 && p.plan->num_pieces > 0);
    *ret = p.plan;
    return 0;
}

void orderplan_free(struct orderplan *plan)
{
    if (!plan)
        return;
    for (uint32_t i = 0; i < MIXTURE_SETS_MAX; i++) {
        free(plan->sets[i].dataset);
        free(plan->sets[i].select);
        free(plan->sets[i].weights);
        free(plan->sets[i].relabel);
    }
    for (uint32_t i = 0; i < plan->num_reweighs; i++)
        free(plan->reweighs[i].weights);
    free(plan);
}

int orderplan_generate(struct orderplan *plan, struct plenum_error *err)
{
    struct plan_parser p = {.plan = plan, .err = err};

    for (uint32_t i = 0; i < plan->num_sets; i++) {
        struct orderplan_set *set = &plan->sets[i];
        char *made = str_after(set->dataset, "generated:")
                         ? strdup(set->dataset)
                         : str_format("generated:%s", set->dataset);

        if (!made)
            return error_set(err, -ENOMEM, "out of memory");
        free(set->dataset);
        set->dataset = made;
    }
    return put_plan(&p);
}

char *orderplan_describe(const struct orderplan *plan, char *ret, size_t size)
{
    size_t n = (size_t)snprintf(ret, size, "%s", plan->num_sets > 1 ? "mixture of " : "plan of ");

    for (uint32_t i = 0; i < plan->num_sets && n < size; i++)
        n += (size_t)snprintf(ret + n, size - n, "%s%s", i ? ", " : "", plan->sets[i].name);
    return ret;
}
