/* SPDX-License-Identifier: MIT */
/* sidecar.c - fetches and uploads indices. The object's name is derived from the index's subject,
 * so that a folder can have several indices: for different settings or archives, and for builds
 * that decode different images. */
#include "config.h"

#include "loader/dataset/sidecar.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/util/error_set.h"
#include "loader/dataset/cache.h"
#include "loader/dataset/dataset_priv.h"
#include "loader/dataset/remote.h"

#define SIDECAR_MAX (UINT64_C(4) << 30) /* maximum bytes of an index */

int sidecar_init(struct dataset *d)
{
    char classes[32] = "";

    if (!d->remote || d->files.count == 0)
        return 0;
    if (d->classes)
        (void)snprintf(classes, sizeof(classes), " %016llx", (unsigned long long)d->classes->hash);
    d->sidecar = str_format("%s\nuploaded%s\n%s\n%s", dataset_image_names(), classes,
                            d->scope.folder, d->name);
    return d->sidecar ? 0 : -ENOMEM;
}

/* Returns the object's name below the folder. Patterns do not match it. */
static char *name_of(const struct dataset *d)
{
    assert(d->sidecar);
    return str_format(".plenum-%016llx.index",
                      (unsigned long long)XXH3_64bits(d->sidecar, strlen(d->sidecar)));
}

bool sidecar_is_subject(const struct dataset *d, const char *subject)
{
    return d->sidecar && strcmp(d->sidecar, subject) == 0;
}

bool sidecar_fetch(const struct dataset *d)
{
    char *name = d->sidecar && d->index_path ? name_of(d) : NULL, *bytes = NULL;
    struct stamp stamp;
    bool written = false;

    if (name && remote_read_whole(d, name, SIDECAR_MAX, &bytes, &stamp, NULL) == 0 && bytes)
        written = cache_write(d->index_path, bytes, stamp.size) == 0;
    free(name);
    free(bytes);
    return written;
}

int sidecar_upload(const struct dataset *d, char **ret, struct plenum_error *err)
{
    char *name;
    void *bytes = NULL;
    size_t len;
    int r = 0;

    if (!d->sidecar)
        return error_set(err, -EINVAL,
                         "%s: only an index of archives in a store can be uploaded beside them",
                         d->name);
    name = name_of(d);
    if (!name || index_copy_as(&d->index, d->sidecar, &bytes, &len) < 0)
        r = error_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        r = remote_write(d, name, bytes, len, ret, err);
    free(name);
    free(bytes);
    return r;
}
