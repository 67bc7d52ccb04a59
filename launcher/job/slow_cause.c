/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/job/slow_cause.h"

#include <assert.h>
#include <stdio.h>

#include "common/util/util.h"

double slow_half_share(const struct slow_need *is, const struct slow_need *usual)
{
    return is->x_s > 0 ? 50 * (is->x_s - usual->x_s) / is->x_s : 0;
}

/* Returns whether this share's excess over the usual one explains half of the excess of time. */
static bool explains(const struct slow_need *is, const struct slow_need *usual, enum slow_fact fact)
{
    double more = is->facts.of[fact] - usual->facts.of[fact];

    return more > 0 && more >= slow_half_share(is, usual);
}

/* Returns the cause for the stage of a batch whose time has grown most, or SLOW_DATA if none has
 * grown. */
static enum slow_cause find_stage(const struct slow_facts *is, const struct slow_facts *usual)
{
    static const enum slow_cause causes[] = {[SLOW_READ] = SLOW_STORAGE,
                                             [SLOW_RENDER] = SLOW_DECODING,
                                             [SLOW_REST] = SLOW_BUDGET,
                                             [SLOW_CARRIAGE] = SLOW_NETWORK};
    enum slow_cause found = SLOW_DATA;
    double most = 0;

    for (size_t i = 0; i < ARRAY_LEN(causes); i++) {
        if (is->of[i] - usual->of[i] <= most)
            continue;
        most = is->of[i] - usual->of[i];
        found = causes[i];
    }
    return found;
}

enum slow_cause slow_find_cause(const struct slow_need *is, const struct slow_need *usual)
{
    enum slow_cause stage;

    if (explains(is, usual, SLOW_IS_STOPPED))
        return SLOW_STOPPED;
    if (is->wait_s - usual->wait_s < (is->x_s - usual->x_s) / 2) {
        if (explains(is, usual, SLOW_IS_THROTTLED))
            return SLOW_THROTTLED;
        if (explains(is, usual, SLOW_IS_STOLEN))
            return SLOW_STOLEN;
        return explains(is, usual, SLOW_IN_MEMORY) ? SLOW_MEMORY : SLOW_PROGRAM;
    }
    stage = find_stage(&is->facts, &usual->facts);
    if (stage == SLOW_BUDGET || stage == SLOW_NETWORK)
        return stage;
    if (explains(is, usual, SLOW_IS_THROTTLED))
        return SLOW_LOADER_THROTTLED;
    return explains(is, usual, SLOW_IS_STOLEN) ? SLOW_LOADER_STOLEN : stage;
}

const char *slow_word(enum slow_cause cause)
{
    static const char *const words[SLOW_CAUSES] = {
        [SLOW_NOT] = "none",
        [SLOW_STOPPED] = "stopped",
        [SLOW_STORAGE] = "storage",
        [SLOW_DECODING] = "decoding",
        [SLOW_LOADER_THROTTLED] = "loader-throttled",
        [SLOW_LOADER_STOLEN] = "loader-stolen",
        [SLOW_BUDGET] = "loader-budget",
        [SLOW_NETWORK] = "network",
        [SLOW_DATA] = "data",
        [SLOW_THROTTLED] = "throttled",
        [SLOW_STOLEN] = "stolen",
        [SLOW_MEMORY] = "memory",
        [SLOW_PROGRAM] = "program",
    };

    assert(cause < SLOW_CAUSES);
    return words[cause];
}

static void describe_data(const struct slow_verdict *v, char *ret, size_t size)
{
    const struct slow_facts *f = &v->is;

    switch (v->cause) {
    case SLOW_STORAGE:
        (void)snprintf(ret, size, "data, storage %.3g ms per read", f->of[SLOW_READ] * 1e3);
        break;
    case SLOW_DECODING:
        (void)snprintf(ret, size, "data, decoding %.3g ms per sample", f->of[SLOW_RENDER] * 1e3);
        break;
    case SLOW_LOADER_THROTTLED:
        (void)snprintf(ret, size, "data, the loader's CPU was throttled for %.0f %% of the time",
                       f->of[SLOW_IS_THROTTLED]);
        break;
    case SLOW_LOADER_STOLEN:
        (void)snprintf(ret, size, "data, the hypervisor took %.0f %% of the loader's CPU time",
                       f->of[SLOW_IS_STOLEN]);
        break;
    case SLOW_BUDGET:
        (void)snprintf(ret, size, "data, the loader's CPU budget costs %.3g ms per batch",
                       f->of[SLOW_REST] * 1e3);
        break;
    case SLOW_NETWORK:
        (void)snprintf(ret, size, "data, network %.3g ms per batch", f->of[SLOW_CARRIAGE] * 1e3);
        break;
    default:
        (void)snprintf(ret, size, "data, %.3g ms of waiting for batches", v->wait_s * 1e3);
        break;
    }
}

static void describe_program(const struct slow_verdict *v, char *ret, size_t size)
{
    switch (v->cause) {
    case SLOW_STOPPED:
        (void)snprintf(ret, size, "stopped by a signal");
        break;
    case SLOW_THROTTLED:
        (void)snprintf(ret, size, "program, CPU throttled for %.0f %% of the time",
                       v->is.of[SLOW_IS_THROTTLED]);
        break;
    case SLOW_STOLEN:
        (void)snprintf(ret, size, "program, the hypervisor took %.0f %% of the CPU time",
                       v->is.of[SLOW_IS_STOLEN]);
        break;
    case SLOW_MEMORY:
        (void)snprintf(ret, size, "program, waits for memory %.0f %% of the time",
                       v->is.of[SLOW_IN_MEMORY]);
        break;
    default:
        (void)snprintf(ret, size, "program, %.3g ms per step instead of %.3g ms", v->x_s * 1e3,
                       v->usual_s * 1e3);
        break;
    }
}

void slow_describe(const struct slow_verdict *verdict, char *ret, size_t size)
{
    char what[128];

    if (verdict->cause >= SLOW_STORAGE && verdict->cause <= SLOW_DATA)
        describe_data(verdict, what, sizeof(what));
    else
        describe_program(verdict, what, sizeof(what));
    (void)snprintf(ret, size, "%s, since step %llu", what, (unsigned long long)verdict->since);
}
