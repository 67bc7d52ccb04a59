/* SPDX-License-Identifier: MIT */
/* environment.h - looks up names in an environment, an array for execve(2). */
#ifndef TESTS_LAUNCHER_ENVIRONMENT_H
#define TESTS_LAUNCHER_ENVIRONMENT_H

#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static inline const char *value_of(char **environment, const char *name)
{
    size_t len = strlen(name);
    const char *value = NULL;

    for (size_t i = 0; environment[i]; i++) {
        if (strncmp(environment[i], name, len) == 0 && environment[i][len] == '=') {
            cr_expect(value == NULL, "%s must be set only once", name);
            value = environment[i] + len + 1;
        }
    }
    return value;
}

static inline void expect(char **environment, const char *name, const char *want)
{
    const char *got = value_of(environment, name);

    if (!want)
        cr_expect(got == NULL, "%s must be unset, not %s", name, got);
    else
        cr_expect(got && strcmp(got, want) == 0, "%s=%s, not %s", name, got, want);
}

#endif
