/* SPDX-License-Identifier: MIT */
/* plenumctl.c - plenumctl: finds and runs the subcommand. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/util/log.h"
#include "common/util/util.h"
#include "loader/ctl/ctl.h"

static const struct ctl_command *const commands[] = {
    &ctl_bench,   &ctl_cache,       &ctl_hash,   &ctl_index, &ctl_job,
    &ctl_key,     &ctl_make_sample, &ctl_order,  &ctl_pack,  &ctl_plan,
    &ctl_preview, &ctl_sample,      &ctl_status, &ctl_trace, &ctl_verify,
};

static void print_help(void)
{
    printf("usage: plenumctl COMMAND [options]\n\n"
           "Inspects, prepares and checks data sets, and shows what loaders are doing.\n\n"
           "commands:\n");
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        printf("  %-14s%s\n", commands[i]->name, commands[i]->summary);
    printf("\nRun 'plenumctl COMMAND --help' for its options. See plenumctl(1).\n");
}

static const struct ctl_command *find_command(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        if (strcmp(name, commands[i]->name) == 0)
            return commands[i];
    return NULL;
}

static int refuse_command(const char *name)
{
    struct str_nearest near = {.word = name, .len = strlen(name)};

    for (size_t i = 0; i < ARRAY_LEN(commands); i++)
        str_nearest_try(&near, commands[i]->name);
    if (near.name)
        log_error("there is no command '%s'; did you mean %s?", name, near.name);
    else
        log_error("there is no command '%s'; see plenumctl --help", name);
    return 2;
}

/* Handle "help" alone, or "help COMMAND", which means "COMMAND --help". */
static int help(int argc, char **argv)
{
    static char option[] = "--help";
    const struct ctl_command *command;

    if (argc < 3 || strcmp(argv[1], "help") != 0) {
        print_help();
        return 0;
    }
    command = find_command(argv[2]);
    if (!command)
        return refuse_command(argv[2]);
    return command->run(2, (char *[]){argv[2], option, NULL});
}

/* Complete the name of a command here; a command completes its own arguments. */
static int complete(int argc, char **argv)
{
    const struct ctl_command *command;

    if (argc <= 3) {
        printf("words\n");
        for (size_t i = 0; i < ARRAY_LEN(commands); i++)
            printf("%s\t%s\n", commands[i]->name, commands[i]->summary);
        printf("--help\tshow the commands\n--version\tshow the version\n");
        return 0;
    }
    command = find_command(argv[2]);
    if (command) {
        argv[2] = argv[1];
        return command->run(argc - 1, argv + 1);
    }
    printf("words\n");
    return 0;
}

static int run_command(int argc, char **argv)
{
    const struct ctl_command *command;

    if (argc < 2) {
        log_error("a command is missing; see plenumctl --help");
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0)
        return help(argc, argv);
    if (strcmp(argv[1], OPTIONS_COMPLETE) == 0)
        return complete(argc, argv);
    if (strcmp(argv[1], "--version") == 0) {
        options_print_version("plenumctl");
        return 0;
    }
    command = find_command(argv[1]);
    return command ? command->run(argc - 1, argv + 1) : refuse_command(argv[1]);
}

/* Run the subcommand. A result that cannot be written is a failure. */
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
