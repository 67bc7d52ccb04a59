/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "launcher/values/texts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/util/util.h"

int texts_add(struct texts *texts, const char *text, size_t len)
{
    char *item;

    /* Room for the text and the terminating NULL. */
    if (array_grow(&texts->items, &texts->cap, texts->count, sizeof(*texts->items)) < 0 ||
        array_grow(&texts->items, &texts->cap, texts->count + 1, sizeof(*texts->items)) < 0)
        return -ENOMEM;
    item = strndup(text, len);
    if (!item)
        return -ENOMEM;
    texts->items[texts->count++] = item;
    texts->items[texts->count] = NULL;
    return 0;
}

void texts_fini(struct texts *texts)
{
    for (size_t i = 0; i < texts->count; i++)
        free(texts->items[i]);
    free(texts->items);
    *texts = (struct texts){0};
}
