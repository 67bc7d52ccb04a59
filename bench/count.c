/* SPDX-License-Identifier: MIT */
/* count.c - a qemu plugin (user mode) that counts the instructions of a program, for
 * bench/instructions. Debian does not package qemu's qemu-plugin.h, so the required parts are
 * declared here. VERSION is the version of that interface, which bench/instructions tries out. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id,
                                           void (*call)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block,
                                          void (*call)(unsigned, void *), int flags, void *arg);
void qemu_plugin_register_atexit_cb(plugin_id id, void (*call)(plugin_id, void *), void *arg);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

extern int qemu_plugin_version;
int qemu_plugin_version = VERSION;

static uint64_t count;

static void on_block(unsigned cpu, void *instructions)
{
    (void)cpu;
    count += (uintptr_t)instructions;
}

static void on_translation(plugin_id id, struct qemu_plugin_tb *block)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(block, on_block, 0,
                                         (void *)(uintptr_t)qemu_plugin_tb_n_insns(block));
}

static void on_exit_of_program(plugin_id id, void *arg)
{
    (void)id;
    (void)arg;
    fprintf(stderr, "instructions %llu\n", (unsigned long long)count);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv)
{
    (void)info;
    (void)argc;
    (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
    qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
    return 0;
}
