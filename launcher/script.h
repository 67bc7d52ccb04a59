/* SPDX-License-Identifier: MIT */
/* script.h - will the kernel, and the interpreter that a file names, start this program? */
#ifndef LAUNCHER_SCRIPT_H
#define LAUNCHER_SCRIPT_H

#include <plenum/error.h>

/**
 * Check a program that host_find_program() has found, before it is started: execve(2) fails with a
 * bare ENOENT when a script's interpreter is missing, and execvp(3) has a shell run what the kernel
 * does not recognise, Python code included.
 *
 * @param file  the program, by a path
 * @param path  folders in which env(1) looks for interpreters, "DIR:DIR"; NULL: PATH is not set
 *
 * Errors: -ENOENT an interpreter is missing, or its name ends with a carriage return; -EACCES it
 *         cannot be executed; -ENOEXEC the file does not say what runs it. Each with a sentence
 *         that names the file, the interpreter and the remedy. A file that cannot be read passes.
 */
int script_check(const char *file, const char *path, struct plenum_error *err);

#endif
