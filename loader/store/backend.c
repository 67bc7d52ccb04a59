/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "loader/store/backend.h"

#include <errno.h>

#include "common/util/error_set.h"
#include "common/util/lock.h"
#include "common/util/module.h"

static struct lock mu = LOCK_INITIALIZER;
static const struct store_backend *loaded; /* protected by mu */

const struct store_backend *store_backend_get(struct plenum_error *err)
{
    const struct store_backend *backend;
    struct plenum_error why = {""};

    lock_acquire(&mu);
    if (!loaded)
        loaded = module_load("libplenum-store.so", STORE_BACKEND_SYMBOL, &why);
    backend = loaded;
    lock_release(&mu);
    if (!backend) {
        (void)error_set(err, -ENOTSUP,
                        "data in object stores needs libplenum-store.so, libcurl and OpenSSL, "
                        "which are not installed here: %s",
                        why.text);
        return NULL;
    }
    if (backend->version != STORE_BACKEND_VERSION) {
        (void)error_set(err, -ENOTSUP,
                        "libplenum-store.so belongs to a different version of Plenum");
        return NULL;
    }
    return backend;
}
