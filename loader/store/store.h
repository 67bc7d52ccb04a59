/* SPDX-License-Identifier: MIT */
/* store.h - finds objects in S3 and files behind HTTP, and reads ranges of them. Threads: any.
 *
 * Every name is checked against a policy before anything is requested. Every answer is checked,
 * too: bytes of a different range or version of an object are never returned. */
#ifndef LOADER_STORE_STORE_H
#define LOADER_STORE_STORE_H

#include "loader/cache/keep.h"
#include "loader/store/fetch.h"
#include "loader/store/listing.h"

/** One version of one object. Opaque; constant. */
struct store_object;

/**
 * Find an object. Returns 0, with the store's facts about it in `*ret`.
 *
 * Errors: those of fetch_run(), such as -ENOENT; -EACCES the policy does not allow it; -EINVAL the
 * name is malformed, or its endpoint is not known; -ENOTSUP the module is not installed;
 * -EOPNOTSUPP the server does not report the object's size.
 */
int store_stat(const char *name, const struct store_policy *policy, struct object_facts *ret,
               struct plenum_error *err);

/** Receives one object of a listing by its canonical name (borrowed). Returns 0, or an error that
 * ends the listing. */
typedef int store_found(void *arg, const char *name, const struct object_facts *facts);

/**
 * List the objects whose names begin with `prefix`, "s3://BUCKET/KEY...", in byte order. Those that
 * the policy does not allow are left out.
 *
 * @param most  end with -E2BIG after this number of objects; 0: no limit
 * Errors: like store_stat(); -EOPNOTSUPP the name is not in S3; -EBADMSG the listing is malformed;
 * those of `found`.
 */
int store_list(const char *prefix, uint64_t most, const struct store_policy *policy,
               store_found *found, void *arg, struct plenum_error *err);

/**
 * Create the handle of a version of an object. The policy must outlive it.
 *
 * @param owner  identifies the data set for store_forget()
 * Errors: -EACCES the policy does not allow it; -EINVAL the name is malformed, or its endpoint is
 * not known; -ENOTSUP the module is not installed; -ENOMEM. The store is not contacted.
 */
int store_open(const char *name, const struct object_facts *facts, const void *owner,
               const struct store_policy *policy, struct store_object **ret,
               struct plenum_error *err);
void store_close(struct store_object *object);
const struct object_facts *store_get_facts(const struct store_object *object);

/** Let the cache of samples (loader/cache/sample_cache.h) keep samples of this object, as samples
 * of data set `set`. Has no effect if a later version of the object could look like this one. */
void store_set_cached(struct store_object *object, uint64_t set);

/** The sample number of a range that belongs to no sample, and so is not cached. */
#define STORE_NO_SAMPLE UINT32_MAX

/** Read a range within the object into `dst` [len]. Returns 0, or an error of fetch_run(), such as
 * -ESTALE if the object now has another version. */
int store_read(const struct store_object *object, uint64_t offset, size_t len, void *dst,
               struct plenum_error *err);
/** Like store_read(), for bytes of a sample, which may come from the cache of samples. */
int store_read_sample(const struct store_object *object, uint32_t sample, uint64_t offset,
                      size_t len, void *dst, struct plenum_error *err);
/** Start to fetch a range for a later store_read() of exactly this range, unless the range is in
 * the cache of samples. Does not wait for the store. */
void store_announce(const struct store_object *object, uint64_t offset, size_t len);
/** Drop everything that was announced for an owner. Call it before the owner is freed. */
void store_forget(const void *owner);

/** Read a whole object of at most `most` bytes into `*ret` (malloc, NUL-terminated). Returns 0,
 * -EFBIG, or an error of store_stat() or store_read(). */
int store_read_whole(const char *name, uint64_t most, const struct store_policy *policy, char **ret,
                     struct object_facts *facts, struct plenum_error *err);

/**
 * Write an object in S3; an existing one is replaced.
 *
 * Errors: like store_stat(); -EOPNOTSUPP the name is not in S3.
 */
int store_write(const char *name, const void *bytes, size_t len, const struct store_policy *policy,
                struct plenum_error *err);

#endif
