/* SPDX-License-Identifier: MIT */
/* stopper.c - a program that calls plenum_job_should_stop(), and misbehaves on request. For
 * test_stop.py.
 *
 *     stopper STEPS [WORD[=RANK[:STEP]]]...
 *
 *     together       all instances call plenum_barrier() in each step
 *     work           each step takes some time
 *     slow=1         the steps of instance 1 take much longer
 *     end=1:5        instance 1 has only 5 steps
 *     die=1:5        instance 1 exits with status 3 in step 5
 *     say=1:5        instance 1 prints a line when it begins step 5
 *     hang=1:5       instance 1 stays in step 5 for ever
 *     wait=1:5       instance 1 waits in step 5 until its standard input ends
 *     never=1        instance 1 does not call plenum_job_should_stop()
 *     fail=1         instance 1 exits with status 4 when it is to stop
 *     linger         an instance that is to stop stays until it is killed
 *     fork           a child process that has inherited the job calls plenum_job_should_stop()
 *     twice          a child process that has opened the job calls it, too
 *     own            handles SIGTERM itself
 *     raise=1:5      instance 1 sends itself SIGUSR1 in step 5
 *     raised=1:5     instance 1 sends itself SIGTERM in step 5 */
#include "config.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <plenum/plenum.h>

static struct plenum_job *job;
static uint32_t rank;
static char **words;

/* Returns whether this instance was asked to do this, in this step. */
static bool is_told(const char *word, uint64_t step)
{
    for (char **w = words; *w; w++) {
        size_t len = strlen(word);
        char *end;

        if (strncmp(*w, word, len) != 0)
            continue;
        if ((*w)[len] == '\0')
            return true;
        if ((*w)[len] != '=' || strtoul(*w + len + 1, &end, 10) != rank)
            continue;
        if (*end == '\0' || strtoull(end + 1, NULL, 10) == step)
            return true;
    }
    return false;
}

static void stay(void)
{
    for (;;)
        (void)pause();
}

static void in_step(uint64_t step)
{
    struct plenum_error err;

    if (is_told("say", step)) {
        printf("step %llu\n", (unsigned long long)step);
        (void)fflush(stdout);
    }
    if (is_told("work", step))
        (void)usleep(5000);
    if (is_told("slow", step))
        (void)usleep(100000);
    if (is_told("wait", step))
        while (getchar() != EOF)
            ;
    if (is_told("die", step))
        exit(3);
    if (is_told("hang", step))
        stay();
    if (is_told("raise", step))
        (void)raise(SIGUSR1);
    if (is_told("raised", step))
        (void)raise(SIGTERM);
    if (is_told("together", step) && plenum_barrier(job, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        exit(5);
    }
    if (step % 7 == rank)
        (void)usleep(100);
}

static int ask(uint64_t step)
{
    struct plenum_error err = {""};
    int r = plenum_job_should_stop(job, step, &err);

    if (r >= 0)
        return r;
    printf("instance %u: error %d: %s\n", rank, r, err.text);
    (void)fflush(stdout);
    exit(6);
}

/* Print the answer that another process of this instance receives. */
static void ask_in_child(bool inherited)
{
    struct plenum_job *own = job;
    struct plenum_error err = {""};
    pid_t pid;
    int r;

    (void)fflush(stdout);
    pid = fork();
    if (pid > 0) {
        (void)waitpid(pid, NULL, 0);
        return;
    }
    if (!inherited && plenum_job_open(&own, &err) < 0)
        _exit(1);
    r = plenum_job_should_stop(own, 0, &err);
    printf("child: %d: %s\n", r, err.text);
    (void)fflush(stdout);
    _exit(0);
}

static void take(int signal)
{
    (void)signal;
}

static void halt(uint64_t step)
{
    printf("instance %u stops before %llu\n", rank, (unsigned long long)step);
    (void)fflush(stdout);
    if (is_told("linger", step))
        stay();
    exit(is_told("fail", step) ? 4 : 0);
}

int main(int argc, char **argv)
{
    struct plenum_error err;
    uint64_t steps, step;

    if (argc < 2 || plenum_job_open(&job, &err) < 0)
        return 2;
    words = argv + 2;
    rank = plenum_job_get_info(job)->instance_index;
    steps = strtoull(argv[1], NULL, 10);
    if (is_told("own", 0))
        (void)signal(SIGTERM, take);
    printf("instance %u is process %d of %d\n", rank, (int)getpid(), (int)getppid());
    for (step = 0; step < steps && !is_told("end", step); step++) {
        if (!is_told("never", step) && ask(step) != 0)
            halt(step);
        if (step == 0 && is_told("fork", 0))
            ask_in_child(true);
        if (step == 0 && is_told("twice", 0))
            ask_in_child(false);
        printf("instance %u is in step %llu\n", rank, (unsigned long long)step);
        (void)fflush(stdout);
        in_step(step);
    }
    printf("instance %u completes\n", rank);
    plenum_job_close(job);
    return 0;
}
