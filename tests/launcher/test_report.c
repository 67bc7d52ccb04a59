/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "common/util/util.h"
#include "launcher/job/report.h"

static struct plan_host hosts[] = {{.name = (char *)"n1"}, {.name = (char *)"n2"}};
static struct plan_instance instances[] = {{.host = 0}, {.host = 1}};
static const struct plan plan = {
    .hosts = hosts, .num_hosts = 2, .instances = instances, .num_instances = 2};

#define DAY (UINT64_C(24) * 3600 * 1000000000)

struct report_case {
    struct report report;
    int status;
    char says[100];
};

enum { EXIT_3 = 3 << 8, KILLED = 9 };

ParameterizedTestParameters(report, of)
{
    static struct report_case cases[] = {
        {{.kind = REPORT_SUCCESS}, 0, ""},
        {{.kind = REPORT_EXITED,
          .instance = 1,
          .exited = {.status = EXIT_3, .elapsed_ns = 2500000000}},
         3,
         "instance 1 on host n2 exited with code 3 after 2.5 s"},
        {{.kind = REPORT_EXITED,
          .instance = 1,
          .by_traceback = true,
          .exited = {.status = EXIT_3, .elapsed_ns = 2500000000}},
         3,
         "instance 1 on host n2 failed first, according to its traceback; the first to end was "
         "instance 0 on "},
        {{.kind = REPORT_EXITED, .exited = {.status = KILLED, .memory_kills = 1}},
         137,
         "; meanwhile the kernel killed 1 process there because memory ran out"},
        {{.kind = REPORT_EXITED, .instance = 1, .exited = {.status = SIGBUS}},
         135,
         "(Bus error) after 0.0 s; a file that it had mapped could not be read or written: is "
         "/dev"},
        {{.kind = REPORT_EXITED, .instance = 0, .exited = {.status = KILLED}},
         137,
         "instance 0 on host n1 was ended by signal 9 (Killed)"},
        {{.kind = REPORT_EXITED, .exited = {.status = 2}, .signal = 2},
         130,
         "the job was ended by SIGINT; instance 0 on host n1 was ended by signal 2"},
        {{.kind = REPORT_EXITED,
          .exited = {.status = KILLED, .cause = CONTROL_CAUSE_ASKED},
          .signal = 15},
         143,
         "the job was ended by SIGTERM"},
        {{.kind = REPORT_FAILED,
          .instance = 1,
          .failed = {CONTROL_STEP_EXEC, -ENOENT, "program 'prog' needs the interpreter 'x'"}},
         127,
         "instance 1 on host n2 cannot be started: program 'prog' needs the interpreter 'x'"},
        {{.kind = REPORT_FAILED, .failed = {CONTROL_STEP_EXEC, -ENOEXEC, "program 'prog' is text"}},
         126,
         "instance 0 on host n1 cannot be started: program 'prog' is text"},
        {{.kind = REPORT_FAILED, .failed = {CONTROL_STEP_EXEC, -EACCES, ""}},
         126,
         "program 'prog': Permission denied"},
        {{.kind = REPORT_FAILED, .failed = {CONTROL_STEP_DIRECTORY, -ENOENT, ""}},
         125,
         "the working directory /work: No such file"},
        {{.kind = REPORT_FAILED, .failed = {CONTROL_STEP_FORK, -EAGAIN, ""}}, 125, "a new process"},
        {{.kind = REPORT_LOST, .instance = 1, .text = "silence"}, 125, "host n2 was lost: silence"},
        {{.kind = REPORT_MPIRUN, .instance = UINT32_MAX, .text = "mpirun says no"},
         125,
         "mpirun says no"},
        {{.kind = REPORT_LATE,
          .instance = UINT32_MAX,
          .limit_ns = 3000000000,
          .text = "no sign of x"},
         125,
         "within 3.0 s (--start-timeout): no sign of x"},
        {{.kind = REPORT_TIMED_OUT, .instance = UINT32_MAX, .limit_ns = 1000000000},
         124,
         "1.0 s (--timeout)"},
        {{.kind = REPORT_TIMED_OUT, .instance = UINT32_MAX, .limit_ns = 7 * DAY},
         124,
         "after 7d (--timeout)"},
        {{.kind = REPORT_TIMED_OUT, .instance = UINT32_MAX, .limit_ns = DAY + DAY / 2},
         124,
         "after 36h (--timeout)"},
        {{.kind = REPORT_CLOSED, .instance = UINT32_MAX}, 141, "the reader of its"},
        {{.kind = REPORT_OTHER, .instance = UINT32_MAX, .signal = 15, .text = "killed"},
         143,
         "killed"},
    };
    return cr_make_param_array(struct report_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct report_case *c, report, of)
{
    char text[2048];

    cr_expect(eq(int, report_exit_status(&c->report), c->status), "%s", c->says);
    report_sentence(&c->report, &plan, "prog", "/work", text, sizeof(text));
    cr_expect(strstr(text, c->says) != NULL, "'%s', not '%s'", text, c->says);
    cr_expect(c->says[0] || !text[0], "'%s'", text);
}
