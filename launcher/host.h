/* SPDX-License-Identifier: MIT */
/* host.h - this machine among others: its names, its addresses, its programs. */
#ifndef LAUNCHER_HOST_H
#define LAUNCHER_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/hostlist.h"

enum { HOST_NAME_MAX_BYTES = 256 };

/** The machine's own name, as gethostname(2) has it. */
void host_get_name(char *ret, size_t size);

/** Is `name` a name of this machine? (localhost, its host name in long or short, an address of
 * its.) Asks no name server. */
bool host_is_this(const char *name);

/**
 * The same for a list, names that stand for an address of this machine included: those that are not
 * known otherwise are looked up, all at once, for two seconds at most. A host with a user or port
 * of its own is another one: the person wants ssh.
 *
 * @param ret  [list->count]
 */
void host_find_this(const struct hostlist *list, bool *ret);

/**
 * The program that execvp(3) would run for `name`: 0, -ENOENT there is none, -EACCES there is a
 * file, `ret`, but it cannot be executed, -ENAMETOOLONG.
 */
int host_find_program(const char *name, char *ret, size_t size);
/** The same in these folders, "DIR:DIR"; NULL: where programs are without PATH. */
int host_find_program_in(const char *path, const char *name, char *ret, size_t size);

/** This program's own file. */
int host_get_self(char *ret, size_t size, struct plenum_error *err);

/** A TCP port that nobody uses at this moment, or 0. */
uint16_t host_find_free_port(void);

/** Is /proc that of this process's PID name space? Processes are found and killed by their numbers
 * in it, and in another name space these would be other processes. And may a process adopt orphans?
 * 0, or -ESRCH or -ENOSYS with a sentence. */
int host_check_proc(struct plenum_error *err);

/** The working directory, by the name under which the person came here (symbolic links kept). */
int host_get_directory(char *ret, size_t size, struct plenum_error *err);

/** Where Open MPI keeps its files, TMPDIR or /tmp, in `*ret`: 0, or the -errno with which a file
 * cannot be written there. */
int host_check_folder(const char **ret);

#endif
