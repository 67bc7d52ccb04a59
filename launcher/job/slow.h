/* SPDX-License-Identifier: MIT */
/* slow.h - finds the hosts that make a job slow, and the cause. Pure: no messages, no clock.
 *
 * All hosts of a job wait for the slowest in each step. So what counts is the time that a host
 * itself takes for a step, x = own time + wait for batches, and not how long the step lasts. Hosts
 * are compared with each other, step by step:
 *
 *   A step marks a host if z > 6 and x > 1.1 times the median of all hosts, where z is the distance
 *   from that median, in units of 1.4826 times the median absolute deviation (at least 1 % of the
 *   median). Three marked steps in a row name the host; three others end that.
 *   Fewer than SLOW_FEW hosts have no useful deviation. Each of them is compared with the median of
 *   the others, in units of the deviation of its own last steps.
 *   If no host is marked, the median of all hosts is compared with that of the last steps. If that
 *   marks the step, all hosts are slow; three such steps in a row name the run.
 *   If collectives are not Plenum's, the hosts wait for each other in their own time, and all have
 *   the same x. Then the waits are compared, and what the kernel reports about a host.
 *   The slower rule: a host is also named if the median of its last 64 steps exceeds that of the
 *   other hosts by more than 3 % (5 % with fewer than SLOW_FEW hosts) and by more than the noise,
 *   in two such periods in a row. It finds a few percent, because medians have little noise.
 *
 * A host is logged if, in at least ten seconds, at least 90 % of its steps were slow by one of
 * these rules, but at most once in ten minutes for the same cause. Its end is logged once at most
 * 10 % are. */
#ifndef LAUNCHER_SLOW_H
#define LAUNCHER_SLOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SLOW_FEW = 5,      /* fewer hosts are compared with their own past */
    SLOW_IN_A_ROW = 3, /* marked steps that name a host */
    SLOW_PERIOD = 64,  /* steps of the slower rule, and of a history */
    SLOW_REPORT_STEPS = 6,
};

enum slow_cause {
    SLOW_NOT, /* it is not slow */
    SLOW_STOPPED,
    /* It waits for batches. */
    SLOW_STORAGE,
    SLOW_DECODING,
    SLOW_LOADER_THROTTLED,
    SLOW_LOADER_STOLEN,
    SLOW_BUDGET,
    SLOW_NETWORK,
    SLOW_DATA, /* none of the above */
    /* Its own time is longer. */
    SLOW_THROTTLED,
    SLOW_STOLEN,
    SLOW_MEMORY,
    SLOW_PROGRAM, /* none of the above */
    SLOW_CAUSES
};

/** An instance's batches and host, during the time of one report. */
enum slow_fact {
    SLOW_READ,     /* seconds, mean of a sample */
    SLOW_RENDER,   /* seconds, mean of a sample */
    SLOW_REST,     /* seconds, mean of a batch: what the loader's CPU budget costs */
    SLOW_CARRIAGE, /* seconds, mean of a batch: from request to answer, without the loader */
    /* Shares of the time, in percent. */
    SLOW_IS_STOPPED,   /* the program was stopped by a signal */
    SLOW_IS_THROTTLED, /* its control group had used up its CPU quota */
    SLOW_IS_STOLEN,    /* the hypervisor did not run the machine */
    SLOW_IN_MEMORY,    /* a process waited for memory */
    SLOW_IN_CPU,       /* a process waited for a CPU */
    SLOW_IN_IO,        /* a process waited for storage */
    SLOW_FACTS
};

struct slow_facts {
    double of[SLOW_FACTS];
};

struct slow_report {
    uint32_t count;
    struct slow_step {
        uint64_t step;
        double own_s, wait_s;
    } steps[SLOW_REPORT_STEPS]; /* [count], ascending */
    bool meets;                 /* it uses Plenum's collectives */
    struct slow_facts facts;
};

/** Why a host is slow. */
struct slow_verdict {
    enum slow_cause cause;
    uint64_t since;       /* the first marked step */
    double x_s, usual_s;  /* own time + wait: of this host; of the others (of the run: earlier) */
    double wait_s;        /* part of x_s */
    struct slow_facts is; /* of this host's slowest instance */
    uint32_t instance;    /* that instance */
};

/** A line for the log. */
struct slow_line {
    uint32_t unit; /* slow_count(): the run */
    bool ends;     /* it is no longer slow */
    struct slow_verdict verdict;
};

/** Opaque. */
struct slow;

/**
 * @param unit_of  [instances]: the host of each instance, below `units`; or the instances
 *                 themselves, if there is only one host
 */
int slow_create(uint32_t instances, uint32_t units, const uint32_t *unit_of, struct slow **ret);
/** NULL is ignored. */
void slow_destroy(struct slow *slow);

void slow_note(struct slow *slow, uint32_t instance, const struct slow_report *report);
/** Note that the instance's program has been stopped by a signal, or continues. */
void slow_note_stop(struct slow *slow, uint32_t instance, bool stopped);
/** Note that the instance has ended, so its steps no longer count. */
void slow_note_end(struct slow *slow, uint32_t instance);

/** Judge all steps that all instances have reported. Call it once a second. */
void slow_judge(struct slow *slow, uint64_t now_ns);

/** Returns the number of units. */
uint32_t slow_count(const struct slow *slow);
/** Returns the verdict on a unit, or on the run; its cause is SLOW_NOT if it is not slow. */
const struct slow_verdict *slow_get(const struct slow *slow, uint32_t unit);
/** Returns the last verdict that was logged; its cause is SLOW_NOT if there was none. */
const struct slow_verdict *slow_get_logged(const struct slow *slow, uint32_t unit);
/** Returns the number of steps judged so far. */
uint64_t slow_get_judged(const struct slow *slow);
/** Get the next line for the log. Returns whether there is one. */
bool slow_take_line(struct slow *slow, struct slow_line *ret);

/** Returns the cause as one word, such as "storage". */
const char *slow_word(enum slow_cause cause);
/** Describe a verdict, such as "data, storage 80 ms per read, since step 1200". */
void slow_describe(const struct slow_verdict *verdict, char *ret, size_t size);

#endif
