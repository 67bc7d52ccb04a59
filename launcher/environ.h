/* SPDX-License-Identifier: MIT */
/* environ.h - the environment variables of an instance. */
#ifndef LAUNCHER_ENVIRON_H
#define LAUNCHER_ENVIRON_H

#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

#include "launcher/plan/cmdline.h"
#include "launcher/plan/plan.h"

enum environ_how {
    ENVIRON_SET,    /* whatever was there */
    ENVIRON_SET_IF, /* when it is not set */
    ENVIRON_UNSET,
    ENVIRON_HOWS
};

struct environ_entry {
    char *name, *value; /* owned by the list */
    enum environ_how how;
};

/** Changes to an environment, each name once. Zero-initialised: none. */
struct environ_list {
    struct environ_entry *entries;
    size_t count, cap;
};

void environ_list_fini(struct environ_list *list);
/** Add a change, in place of an earlier one of that name: 0 or -ENOMEM. */
int environ_list_put(struct environ_list *list, enum environ_how how, const char *name,
                     const char *value);

/** `environment` with the changes made: an array for execve(2), owned by the caller with all in
 * it (environ_free()); NULL when memory is short. */
char **environ_apply(char *const *environment, const struct environ_list *list);
void environ_free(char **environment);
/** Make the changes to our own: 0 or -ENOMEM. */
int environ_adopt(const struct environ_list *list);

/** What all instances of a job share. */
struct environ_job {
    const char *id;
    const char *master_address;
    uint16_t master_port;
    uint32_t restart_count;
    const char *interface; /* of the instance's host, for programs that talk; NULL: not known */
    const char *meeting;   /* MEETING_VARIABLE (meeting.h), or NULL */
};

/**
 * The changes for one instance: who it is, its tuning, what the person exports.
 *
 * @param loader  addresses, or NULL: no loader is named (and an inherited one is taken away)
 * @return 0 or -ENOMEM
 */
int environ_of_instance(const struct environ_job *job, const struct plan *plan, uint32_t index,
                        const struct cmdline *options, const char *loader,
                        struct environ_list *ret);

/** Where programs are looked for: PATH as the instances have it (-x PATH=...), or NULL.
 * Borrowed. */
const char *environ_get_path(const struct cmdline *options);

/** The changes for a loader on a host without instances: what travels, and what the person
 * exports. */
int environ_of_loader(const struct cmdline *options, struct environ_list *ret);

/** Take the quotes off the value of NAME="value" or NAME='value', in place: 0, or -EINVAL when it
 * is not NAME=value. */
int environ_unquote(char *text);

/** Tell of variables in our own environment that the instances will see with another value, and of
 * exports that have none. */
void environ_warn(const struct plan *plan, const struct cmdline *options);

#endif
