/* SPDX-License-Identifier: MIT */
/* main.c - plenumctl: finds the subcommand. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/log.h"
#include "common/util.h"
#include "loader/ctl/ctl.h"

static const struct ctl_command *const commands[] = {
    &ctl_bench, &ctl_hash,    &ctl_index,  &ctl_key,    &ctl_make_sample, &ctl_order,  &ctl_pack,
    &ctl_plan,  &ctl_preview, &ctl_sample, &ctl_status, &ctl_trace,       &ctl_verify,
};

static void print_help(void)
{
    printf("usage: plenumctl COMMAND [options]\n\n"
           "The tool of the person at the terminal: sees data sets the way a loader does.\n\n"
           "commands:\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        printf("  %-14s%s\n", commands[i]->name, commands[i]->summary);
    printf("\n'plenumctl COMMAND --help' tells of one. See plenumctl(1).\n");
}

/* Complete the command here; the command completes what follows. */
static int complete(int argc, char **argv)
{
    if (argc <= 3) {
        printf("words\n");
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
            printf("%s\t%s\n", commands[i]->name, commands[i]->summary);
        printf("--help\tshow the commands\n--version\tshow the version\n");
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++) {
        if (strcmp(argv[2], commands[i]->name) == 0) {
            argv[2] = argv[1];
            return commands[i]->run(argc - 1, argv + 1);
        }
    }
    printf("words\n");
    return 0;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        if (argc >= 2)
            print_help();
        else
            log_error("a command is missing; see plenumctl --help");
        return argc >= 2 ? 0 : 2;
    }
    if (strcmp(argv[1], OPTIONS_COMPLETE) == 0)
        return complete(argc, argv);
    if (strcmp(argv[1], "--version") == 0) {
        options_print_version("plenumctl");
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(argv[1], commands[i]->name) == 0)
            return commands[i]->run(argc - 1, argv + 1);
    log_error("there is no command '%s'; see plenumctl --help", argv[1]);
    return 2;
}

/* A result that nobody got is a failure. */
int main(int argc, char **argv)
{
    int r;

    io_fill_standard(O_RDONLY);
    log_init("plenumctl", LOG_LEVEL_INFO);
    r = run_command(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return r;
    log_error("cannot write to standard output: %s", strerror(errno));
    return r ? r : 1;
}
