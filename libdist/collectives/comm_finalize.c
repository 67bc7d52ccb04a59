/* SPDX-License-Identifier: MIT */
/* comm_finalize.c - for carriers other than MPI: notices that a program that uses MPI itself calls
 * MPI_Finalize(), which waits for the other instances. */
#include "config.h"

#include <dlfcn.h>
#include <errno.h>

#include "common/util/error_set.h"
#include "common/util/module.h"
#include "libdist/collectives/comm_priv.h"

int comm_watch_mpi(void (*leave)(void), struct plenum_error *err)
{
    void *mpi = dlopen("libmpi.so.40", RTLD_NOLOAD | RTLD_NOW); /* of Open MPI 4 and 5 */
    const struct comm_backend *module;

    if (!mpi)
        return 0;
    (void)dlclose(mpi); /* it stays loaded for the program */
    module = module_load(COMM_BACKEND_FILE, COMM_BACKEND_SYMBOL, NULL);
    return module && module->version == COMM_BACKEND_VERSION ? module->watch_finalize(leave, err)
                                                             : 0;
}

int comm_finalised(struct plenum_error *err)
{
    return error_set(err, -ENOTSUP,
                     "the program has already finalised MPI: collectives are no longer possible");
}
