/* SPDX-License-Identifier: MIT */
/* The checks of a host's health, on a machine whose accelerators are files of a folder. A socket
 * is a device that cannot be opened (ENXIO). */
#include "config.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/util/util.h"
#include "launcher/host/health.h"
#include "launcher/host/proctree.h"

enum { SECONDS = 60 };

static char folder[] = "/tmp/plenum-test-XXXXXX";

static void setup(void)
{
    cr_assert_not_null(mkdtemp(folder));
    cr_assert(eq(int, chdir(folder), 0));
    cr_assert(eq(int, mkdir("dev", 0700), 0));
    cr_assert(eq(int, mkdir("bin", 0700), 0));
    cr_assert(eq(int, setenv("PATH", "bin:/usr/bin:/bin", 1), 0));
}

static void teardown(void)
{
    cr_assert(eq(int, system("rm -rf \"$PWD\""), 0));
}

TestSuite(health, .init = setup, .fini = teardown);

static struct health_report check_with(const struct health_request *request)
{
    struct health_report report;
    struct health *health;

    cr_assert(eq(int, health_begin(request, &health), 0));
    health_finish(health, &report);
    return report;
}

static struct health_report check_for(const char *command, uint64_t limit_ns)
{
    const struct health_request request = {.command = command, .root = ".", .limit_ns = limit_ns};

    return check_with(&request);
}

static void check(const char *command, enum health_state state, const char *why)
{
    struct health_report report = check_for(command, SECONDS * NS_PER_SEC);

    cr_expect(eq(int, report.state, state), "%s", report.why);
    cr_expect(eq(str, report.why, (char *)why));
}

/* Everything but the accelerators is in this state. */
static void check_device(const char *command, enum health_state state, const char *device)
{
    struct health_report report = check_for(command, SECONDS * NS_PER_SEC);

    cr_expect(eq(int, report.state, state), "%s", report.why);
    cr_expect(eq(str, report.device, (char *)device));
    health_need_devices(&report);
    cr_expect(eq(int, report.state, HEALTH_BAD));
    if (state != HEALTH_BAD)
        cr_expect(eq(str, report.why, (char *)device));
}

static void add_device(const char *path, bool works)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd;

    if (works) {
        cr_assert(eq(int, io_write_file(path, "", 0), 0));
        return;
    }
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert(eq(int, bind(fd, (const struct sockaddr *)&name, sizeof(name)), 0));
    (void)close(fd);
}

static void add_program(const char *path, const char *text)
{
    char script[400];

    (void)snprintf(script, sizeof(script), "#!/bin/sh\n%s\n", text);
    cr_assert(eq(int, io_write_file(path, script, strlen(script)), 0));
    cr_assert(eq(int, chmod(path, 0700), 0));
}

Test(health, a_machine_without_accelerators_is_healthy)
{
    add_program("bin/nvidia-smi", "exit 9"); /* not called */
    check(NULL, HEALTH_GOOD, "");
    check("", HEALTH_GOOD, "");
}

Test(health, the_status_of_the_command_decides)
{
    check("echo well", HEALTH_GOOD, "");
    check("echo a; printf 'b c \\n\\n'; exit 1", HEALTH_BAD,
          "--health-check exited with code 1: b c");
    check("exit 2", HEALTH_UNKNOWN, "--health-check exited with code 2");
    check("no-such-command 2>/dev/null", HEALTH_UNKNOWN, "--health-check exited with code 127");
    check("kill -SEGV $$", HEALTH_UNKNOWN,
          "--health-check was ended by signal 11 (Segmentation fault)");
}

Test(health, a_command_does_not_end_later_than_allowed)
{
    struct health_report report = check_for("trap '' TERM; sleep 1000", NS_PER_SEC);

    cr_expect(eq(int, report.state, HEALTH_UNKNOWN));
    cr_expect(eq(str, report.why, (char *)"--health-check did not end in time"));
}

/* Wait until the process of the file "pid" has ended. Returns whether it did so as a descendant of
 * the check. We adopt orphans, so one that is not killed becomes our child. */
static bool is_ended(void)
{
    FILE *file = fopen("pid", "r");
    int pid = 0, parent = 0;
    char path[64];

    cr_assert(ne(ptr, file, NULL));
    cr_assert(eq(int, fscanf(file, "%d", &pid), 1));
    (void)fclose(file);
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    while (parent != getpid()) {
        file = fopen(path, "r");
        if (!file)
            return true;
        (void)!fscanf(file, "%*d (%*[^)]) %*c %d", &parent);
        (void)fclose(file);
    }
    (void)kill(pid, SIGKILL);
    return false;
}

Test(health, what_a_command_leaves_running_is_ended)
{
    static const char *const starts[] = {"", "setsid "};
    char command[200];

    cr_assert(eq(int, proctree_adopt(), 0));
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        (void)snprintf(command, sizeof(command),
                       "rm -f pid; %ssh -c 'echo $$ >pid; exec sleep 1000' & "
                       "until test -s pid; do sleep 0.01; done; exit 1",
                       starts[i]);
        check(command, HEALTH_BAD, "--health-check exited with code 1");
        cr_expect(is_ended(), "%s", command);
    }
}

static int is_begun(void)
{
    return access("begun", F_OK) == 0;
}

Test(health, a_command_that_is_interrupted_leaves_nothing_running)
{
    struct health_request request = {
        .command = "trap '' TERM; setsid sh -c 'echo $$ >pid; : >begun; exec sleep 1000' & wait",
        .root = ".",
        .interrupted = is_begun,
        .limit_ns = SECONDS * NS_PER_SEC};

    cr_assert(eq(int, proctree_adopt(), 0));
    (void)check_with(&request);
    cr_expect(is_ended());
}

Test(health, accelerators_are_opened_without_a_tool)
{
    add_device("dev/nvidia0", true);
    check(NULL, HEALTH_GOOD, "");
    add_device("dev/nvidia1", false);
    check_device(NULL, HEALTH_GOOD,
                 "accelerator ./dev/nvidia1 does not answer: No such device or address");
    check_device("exit 3", HEALTH_UNKNOWN,
                 "accelerator ./dev/nvidia1 does not answer: No such device or address");
}

Test(health, other_devices_of_a_driver_are_not_accelerators)
{
    add_device("dev/nvidiactl", false);
    add_device("dev/nvidia-uvm", false);
    check(NULL, HEALTH_GOOD, "");
}

Test(health, nvidia_smi_knows_which_accelerators_answer)
{
    add_device("dev/nvidia0", false); /* not opened */
    add_device("dev/nvidia1", true);
    add_program("bin/nvidia-smi", "printf '0\\n1\\n'");
    check(NULL, HEALTH_GOOD, "");
    add_program("bin/nvidia-smi", "echo 0");
    check_device(NULL, HEALTH_GOOD, "only 1 of 2 accelerators answer nvidia-smi");
    add_program("bin/nvidia-smi", "echo 0; echo GPU is lost; exit 15");
    check_device(NULL, HEALTH_GOOD,
                 "an accelerator does not answer: nvidia-smi exited with code 15: GPU is lost");
}

Test(health, accelerators_that_the_job_does_not_use_are_left_alone)
{
    static const char *const tools[] = {"bin/nvidia-smi", "bin/rocm-smi"};
    struct health_request request = {
        .root = ".", .no_devices = true, .limit_ns = SECONDS * NS_PER_SEC};
    struct health_report report;

    add_device("dev/nvidia0", true);
    add_device("dev/kfd", false);
    for (size_t i = 0; i < ARRAY_LEN(tools); i++)
        add_program(tools[i], ": >called");
    report = check_with(&request);
    cr_expect(eq(int, report.state, HEALTH_GOOD), "%s", report.why);
    cr_expect(eq(str, report.device, (char *)""));
    cr_expect(ne(int, access("called", F_OK), 0), "a tool was called");
    request.no_devices = false;
    (void)check_with(&request);
    cr_expect(eq(int, access("called", F_OK), 0), "the test's tools are not found");
}

Test(health, the_kernel_driver_of_rocm_is_opened)
{
    add_device("dev/kfd", false);
    check_device(NULL, HEALTH_GOOD,
                 "accelerator ./dev/kfd does not answer: No such device or address");
}

Test(health, an_accelerator_that_hangs_is_named)
{
    struct health_report report;

    add_device("dev/nvidia0", true);
    add_program("bin/nvidia-smi", "exec sleep 1000");
    report = check_for(NULL, NS_PER_SEC);
    cr_expect(eq(int, report.state, HEALTH_GOOD));
    cr_expect(eq(str, report.device,
                 (char *)"an accelerator does not answer: nvidia-smi did not end in time"));
}
