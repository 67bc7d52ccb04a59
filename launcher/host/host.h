/* SPDX-License-Identifier: MIT */
/* host.h - this machine: its names, its addresses, its programs. */
#ifndef LAUNCHER_HOST_H
#define LAUNCHER_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "common/net/hostlist.h"

enum { HOST_NAME_MAX_BYTES = 256 };

/** Get the machine's own name from gethostname(2). */
void host_get_name(char *ret, size_t size);

/** Returns whether `name` is a name of this machine: localhost, its short or long host name, or one
 * of its addresses. Does not use a name server. */
bool host_is_this(const char *name);

/**
 * Like host_is_this(), for a list, and including names that resolve to an address of this machine:
 * unknown names are looked up, all at once, for at most two seconds. A host that is listed with a
 * user or port counts as another host, because it needs ssh.
 *
 * @param ret  [list->count]
 */
void host_find_this(const struct hostlist *list, bool *ret);

/**
 * Find the program that execvp(3) would run for `name`. Returns 0, -ENOENT if there is none,
 * -EACCES if the file in `ret` exists but cannot be executed, or -ENAMETOOLONG.
 */
int host_find_program(const char *name, char *ret, size_t size);
/** Like host_find_program(), but searches these folders, "DIR:DIR"; NULL: the default without
 * PATH. */
int host_find_program_in(const char *path, const char *name, char *ret, size_t size);

/** Get this program's own file, or the one that has replaced it. Returns 0, or -ENOENT with a
 * message. */
int host_get_self(char *ret, size_t size, struct plenum_error *err);

/** Returns a TCP port that is unused at the moment, or 0. */
uint16_t host_find_free_port(void);

/** Check that /proc belongs to this process's PID namespace, because processes are found and killed
 * by number (otherwise -ESRCH), and that a process can adopt orphans (otherwise -ENOSYS). Returns
 * 0, or such an error with a message. */
int host_check_proc(struct plenum_error *err);

/** Get the working directory, under the name that the user entered (symbolic links kept). */
int host_get_directory(char *ret, size_t size, struct plenum_error *err);

/** Get the folder for Open MPI's files, TMPDIR or /tmp. Returns 0, or -errno if a file cannot be
 * written there; `*ret` is set in either case. */
int host_check_folder(const char **ret);

#endif
