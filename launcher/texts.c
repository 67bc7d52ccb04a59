/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/texts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int texts_add(struct texts *texts, const char *text, size_t len)
{
    char **items = realloc(texts->items, (texts->count + 2) * sizeof(*items));

    if (!items)
        return -ENOMEM;
    texts->items = items;
    items[texts->count] = strndup(text, len);
    if (!items[texts->count])
        return -ENOMEM;
    items[++texts->count] = NULL;
    return 0;
}

void texts_fini(struct texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free(texts->items[i]);
    free(texts->items);
    *texts = (struct texts){0};
}
