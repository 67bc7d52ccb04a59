/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/options/program.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/util/util.h"

/* Returns the word after `word`, or NULL after the last one. */
static const char *next_word(const char *word, const char *end)
{
    word += strlen(word) + 1;
    return word < end ? word : NULL;
}

/* Returns the script or module (-m) that Python runs; NULL for a command (-c) or standard input. */
static const char *find_script(const char *word, const char *end)
{
    while ((word = next_word(word, end)) != NULL) {
        if (word[0] != '-' || !word[1])
            return word[0] == '-' ? NULL : io_base_name(word);
        if (strcmp(word, "-m") == 0)
            return next_word(word, end);
        if (strcmp(word, "-c") == 0)
            return NULL;
        if (strcmp(word, "-X") == 0 || strcmp(word, "-W") == 0)
            word = next_word(word, end);
        if (!word)
            return NULL;
    }
    return NULL;
}

void program_name_of(const char *words, size_t len, char *ret, size_t size)
{
    const char *end = words + len, *name = len > 0 ? io_base_name(words) : "", *script = NULL;

    if (strncmp(name, "python", strlen("python")) == 0)
        script = find_script(words, end);
    (void)snprintf(ret, size, "%s", script ? script : name);
}

void program_name(char *ret, size_t size)
{
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = 0;
    char words[4096];

    if (fd >= 0) {
        n = read(fd, words, sizeof(words) - 1);
        (void)close(fd);
    }
    n = n > 0 ? n : 0;
    words[n] = '\0';
    program_name_of(words, (size_t)n, ret, size);
}
