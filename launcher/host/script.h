/* SPDX-License-Identifier: MIT */
/* script.h - checks whether the kernel, and the interpreter that a file names, can run a
 * program. */
#ifndef LAUNCHER_SCRIPT_H
#define LAUNCHER_SCRIPT_H

#include <plenum/error.h>

/**
 * Check a program that host_find_program() has found, before it is started: execve(2) fails with a
 * bare ENOENT if a script's interpreter is missing, and execvp(3) lets a shell run files that the
 * kernel does not recognise, including Python code.
 *
 * @param file  path of the program
 * @param path  folders in which env(1) looks for interpreters, "DIR:DIR"; NULL: PATH is not set
 *
 * Errors, each with a message that names the file and the remedy: -ENOENT if an interpreter or a
 * dynamic loader is missing, or the first line ends with a carriage return that the interpreter
 * rejects; -EACCES if an interpreter cannot be executed; -ENOEXEC if the first line does not name
 * an interpreter, or is longer than what the kernel reads. An unreadable file is accepted.
 */
int script_check(const char *file, const char *path, struct plenum_error *err);

/**
 * Find a program as execvp(3) does, and check it with script_check().
 *
 * @param program  name or path of the program
 * @param path     folders to look in, "DIR:DIR"; NULL: PATH is not set
 *
 * Errors, each with a message that names the program and the remedy: -ENOENT if there is no such
 * file; -EACCES if it cannot be executed; those of script_check().
 */
int script_find(const char *program, const char *path, struct plenum_error *err);

#endif
