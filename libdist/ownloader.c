/* SPDX-License-Identifier: MIT */
/* ownloader.c - see ownloader.h.
 *
 * The instances of a job on a host find each other through an abstract socket, whose name is a hash
 * of the job's name. Socket names belong to the network namespace, but the files that a loader
 * reads belong to the mount namespace: two containers that share a network (--network host) may
 * have the same user, the same process numbers and different files under the same paths. The hash
 * therefore also covers the mount and process namespaces and the root folder.
 *
 * A job's only process does not need to be found, so its name is random. Other names can be
 * guessed, and another user may take them first. We therefore check which user listens
 * (loader_session.c), and there are several names, which all instances try in the same order. */
#include "config.h"

#include "libdist/ownloader.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/job/jobloader.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

/* Get 64 random bits that stay the same in this process. Returns 0, or -EIO. */
static int random_of_process(_Atomic uint64_t *at, uint64_t *ret, struct plenum_error *err)
{
    uint64_t fresh, before = 0;

    *ret = atomic_load(at);
    if (*ret)
        return 0;
    if (random_bytes(&fresh, sizeof(fresh)) < 0)
        return error_set(err, -EIO, "the system provides no random numbers: %s", strerror(errno));
    fresh |= 1; /* 0 means not drawn yet */
    *ret = atomic_compare_exchange_strong(at, &before, fresh) ? fresh : before;
    return 0;
}

static int add_process(XXH3_state_t *hash, struct plenum_error *err)
{
    static _Atomic uint64_t randoms[2];
    uint64_t id[3] = {(uint64_t)getpid()}; /* a forked child has a different one */

    for (size_t i = 0; i < ARRAY_LEN(randoms); i++) {
        int r = random_of_process(&randoms[i], &id[1 + i], err);

        if (r < 0)
            return r;
    }
    (void)XXH3_128bits_update(hash, id, sizeof(id));
    return 0;
}

static void add_file(XXH3_state_t *hash, const char *path)
{
    struct stat st = {0};
    uint64_t id[2];

    (void)stat(path, &st); /* without /proc, only the rest of the hash distinguishes containers */
    id[0] = st.st_dev;
    id[1] = st.st_ino;
    (void)XXH3_128bits_update(hash, id, sizeof(id));
}

int ownloader_key(const struct plenum_job_info *info, struct ownloader_key *ret,
                  struct plenum_error *err)
{
    XXH128_canonical_t digest;
    XXH3_state_t hash;
    int r = 0;

    (void)XXH3_128bits_reset(&hash);
    if (info->num_instances == 1 || !info->job_id)
        r = add_process(&hash, err);
    else
        (void)XXH3_128bits_update(&hash, info->job_id, strlen(info->job_id));
    if (r < 0)
        return r;
    add_file(&hash, "/proc/self/ns/mnt");
    add_file(&hash, "/proc/self/ns/pid");
    add_file(&hash, "/");
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(&hash));
    memcpy(ret->bytes, digest.digest, sizeof(ret->bytes));
    return 0;
}

void ownloader_address(const struct ownloader_key *key, unsigned turn, struct address *ret)
{
    XXH128_hash_t hash = XXH3_128bits_withSeed(key->bytes, sizeof(key->bytes), turn);
    char job[33], text[sizeof(ret->text)];

    (void)snprintf(job, sizeof(job), "%016llx%016llx", (unsigned long long)hash.high64,
                   (unsigned long long)hash.low64);
    (void)address_parse(jobloader_form_address(job, text, sizeof(text)), ret, NULL);
}
