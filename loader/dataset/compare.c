/* SPDX-License-Identifier: MIT */
/* compare.c - finds the first difference between the indices of two data sets that should be equal,
 * such as those of two hosts. Samples are compared by name. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/util/error_set.h"
#include "common/util/text.h"
#include "loader/dataset/format.h"

/* Write a sample's "archive, name" to `ret`; returns `ret`. */
static const char *name_of(const struct index *index, uint32_t i, char *ret, size_t size)
{
    const struct index_sample *s = &index->samples[i];
    const char *container = index_name(index, index->containers[s->container].name);
    const char *name = index_name(index, s->name);

    (void)snprintf(ret, size, "%s%s%s", container, *name ? "/" : "", name);
    return ret;
}

static bool compare_sample(const struct index *a, const struct index *b, uint32_t i, char *ret,
                           size_t size)
{
    const struct index_sample *x = &a->samples[i], *y = &b->samples[i];
    char one[400], two[400];

    (void)name_of(a, i, one, sizeof(one));
    (void)name_of(b, i, two, sizeof(two));
    if (strcmp(one, two) != 0)
        (void)snprintf(ret, size, "sample %u is %s here and %s there", i, one, two);
    else if (x->len != y->len)
        (void)snprintf(ret, size, "sample %u, %s, has %u bytes here and %u there", i, one, x->len,
                       y->len);
    else if (x->label != y->label)
        (void)snprintf(ret, size, "sample %u, %s, has label %d here and %d there", i, one, x->label,
                       y->label);
    else
        return true;
    return false;
}

int dataset_compare(const struct dataset *dataset, const char *index_path, char *ret, size_t size,
                    struct plenum_error *err)
{
    const struct index *here = &dataset->index;
    uint32_t common, i = 0;
    struct index there;
    char name[400];
    int r;

    ret[0] = '\0';
    if (dataset_is_generated(dataset))
        return error_set(err, -EINVAL, "%s has no index", dataset->name);
    r = index_read(index_path, &there);
    if (r < 0)
        return error_set(err, r, "%s: %s", index_path,
                         r == -EBADMSG ? "this is not an index, or it has a different version"
                                       : strerror(-r));
    common = here->header->samples < there.header->samples ? here->header->samples
                                                           : there.header->samples;
    while (i < common && compare_sample(here, &there, i, ret, size))
        i++;
    if (!ret[0] && here->header->samples > common)
        (void)snprintf(ret, size, "sample %u, %s, is here but not there", i,
                       name_of(here, i, name, sizeof(name)));
    else if (!ret[0] && there.header->samples > common)
        (void)snprintf(ret, size, "sample %u, %s, is there but not here", i,
                       name_of(&there, i, name, sizeof(name)));
    if (!ret[0])
        (void)datasum_difference(&here->header->sum, &there.header->sum, ret, size);
    index_close(&there);
    (void)text_make_plain(ret); /* names in the other index are untrusted */
    return 0;
}
