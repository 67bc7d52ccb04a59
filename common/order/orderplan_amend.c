/* SPDX-License-Identifier: MIT */
/* orderplan_amend.c - changes of a plan during a run: its text without the lines that are replaced,
 * with the new lines, parsed again. */
#include "config.h"

#include "common/order/orderplan_priv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"

/* Where new lines begin to change a plan. */
struct plan_changes {
    uint64_t from;                   /* for weights of sets; UINT64_MAX: nowhere */
    uint64_t pass[MIXTURE_SETS_MAX]; /* for weights of samples; UINT64_MAX: nowhere */
};

/* Read "weights PASS NAME", after the first word. The parser reports names that no set has. */
static int note_reweigh(const struct orderplan *plan, const char *at, struct plan_changes *changes)
{
    uint64_t pass;
    uint32_t set;

    at += strspn(at, " \t");
    if (parse_next_u64(&at, UINT32_MAX, &pass) < 0)
        return -EINVAL;
    at += strspn(at, " \t");
    set = orderplan_find(plan, at, strcspn(at, " \t\r\n"));
    if (set != UINT32_MAX)
        changes->pass[set] = min_u64(changes->pass[set], pass);
    return 0;
}

/* Read "at POSITION" or "ramp FROM". */
static int note_piece(const char *line, struct plan_changes *changes)
{
    const char *at = str_after(line, "at ");
    uint64_t from;

    at = at ? at : str_after(line, "ramp ");
    if (!at)
        return -EINVAL;
    at += strspn(at, " \t");
    if (parse_next_u64(&at, INT64_MAX, &from) < 0)
        return -EINVAL;
    changes->from = min_u64(changes->from, from);
    return 0;
}

/* Find what `lines` change. Returns -EINVAL if there are other lines, or none. */
static int find_changes(const struct orderplan *plan, const char *lines,
                        struct plan_changes *changes, struct plenum_error *err)
{
    bool found = false;

    memset(changes, 0xff, sizeof(*changes));
    for (const char *at = lines; *at; at += *at != '\0') {
        const char *line = at + strspn(at, " \t\r"), *weights = str_after(line, "weights ");

        at = line + strcspn(line, "\n");
        if (line == at || *line == '#')
            continue;
        if ((weights ? note_reweigh(plan, weights, changes) : note_piece(line, changes)) < 0)
            return error_set(err, -EINVAL,
                             "amend: lines must begin with 'at POSITION', 'ramp FROM' or 'weights "
                             "PASS NAME', not '%.*s'",
                             (int)min_u64((uint64_t)(at - line), 60), line);
        found = true;
    }
    return found ? 0 : error_set(err, -EINVAL, "amend: no new weights are given");
}

/* Returns whether a line of the old plan, in canonical form, is kept. */
static bool stays(const struct orderplan *plan, const char *line,
                  const struct plan_changes *changes)
{
    struct plan_changes own;
    const char *weights = str_after(line, "weights ");

    memset(&own, 0xff, sizeof(own));
    if (weights ? note_reweigh(plan, weights, &own) < 0 : note_piece(line, &own) < 0)
        return true;
    for (uint32_t i = 0; i < plan->num_sets; i++)
        if (own.pass[i] < UINT64_MAX && own.pass[i] >= changes->pass[i])
            return false;
    return own.from == UINT64_MAX || own.from < changes->from;
}

int orderplan_amend(const struct orderplan *plan, const char *lines, const char *folder,
                    struct orderplan **ret, uint64_t *ret_from, struct plenum_error *err)
{
    struct plan_changes changes;
    size_t len = strlen(lines), n = 0;
    char *text;
    int r = find_changes(plan, lines, &changes, err);

    if (r < 0)
        return r;
    *ret_from = changes.from;
    if (len > ORDERPLAN_TEXT_MAX)
        return error_set(err, -EINVAL, "the plan is longer than %d bytes", ORDERPLAN_TEXT_MAX - 2);
    text = malloc(sizeof(plan->text) + len + 2);
    if (!text)
        return error_set(err, -ENOMEM, "out of memory");
    for (const char *at = plan->text; *at;) {
        size_t line = strcspn(at, "\n") + 1;

        if (stays(plan, at, &changes)) {
            memcpy(text + n, at, line);
            n += line;
        }
        at += line;
    }
    memcpy(text + n, lines, len + 1);
    r = orderplan_parse(text, folder, ret, err);
    free(text);
    return r;
}
