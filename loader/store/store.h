/* SPDX-License-Identifier: MIT */
/* store.h - objects in S3 and files behind HTTP: finds them, reads ranges of them. Threads: any.
 *
 * Every name is checked against a policy before anything is requested. Reading checks each answer:
 * bytes of another range or version of an object are never returned. */
#ifndef LOADER_STORE_STORE_H
#define LOADER_STORE_STORE_H

#include "loader/cache/keep.h"
#include "loader/store/fetch.h"
#include "loader/store/listing.h"

/** One version of one object. Opaque; constant. */
struct store_object;

/**
 * Find an object: 0 with what its store says about it.
 *
 * Errors: those of fetch_run(), -ENOENT for instance; -EACCES the policy does not allow it; -EINVAL
 * the name is malformed.
 */
int store_stat(const char *name, const struct store_policy *policy, struct object_facts *ret,
               struct plenum_error *err);

/** Receives one object of a listing by its canonical name (borrowed). 0, or an error that ends the
 * listing. */
typedef int store_found(void *arg, const char *name, const struct object_facts *facts);

/**
 * List the objects whose names begin with `prefix`, "s3://BUCKET/KEY...", in byte order. Those that
 * the policy does not allow are left out.
 *
 * @param most  end with -E2BIG after this number of objects; 0: no limit
 * Errors: like store_stat(); -EOPNOTSUPP the place is not in S3.
 */
int store_list(const char *prefix, uint64_t most, const struct store_policy *policy,
               store_found *found, void *arg, struct plenum_error *err);

/**
 * Create the handle of a version of an object. The policy must outlive it.
 *
 * @param owner  identifies the data set for store_forget()
 * Errors: like store_stat(), without asking the store.
 */
int store_open(const char *name, const struct object_facts *facts, const void *owner,
               const struct store_policy *policy, struct store_object **ret,
               struct plenum_error *err);
void store_close(struct store_object *object);
const struct object_facts *store_get_facts(const struct store_object *object);

/** Keep the samples of this object, which belong to this set, in the cache of samples
 * (loader/cache/sample_cache.h), unless later versions of the object could look the same. */
void store_set_cached(struct store_object *object, uint64_t set);

/** Which sample a range belongs to, if it does not belong to any: it is not cached. */
#define STORE_NO_SAMPLE UINT32_MAX

/** Read a range within the object into `dst` [len]: 0, or an error of fetch_run(), such as -ESTALE
 * if it is now another version. */
int store_read(const struct store_object *object, uint64_t offset, size_t len, void *dst,
               struct plenum_error *err);
/** Like store_read(), for bytes of a sample: from the cache of samples if they are there. */
int store_read_sample(const struct store_object *object, uint32_t sample, uint64_t offset,
                      size_t len, void *dst, struct plenum_error *err);
/** Fetch a range soon, for a store_read() of exactly this range, unless it is in the cache of
 * samples. Does not block on the store. */
void store_announce(const struct store_object *object, uint64_t offset, size_t len);
/** Forget what was announced for an owner, before it is freed. */
void store_forget(const void *owner);

/** Read a whole small object of at most `most` bytes, NUL-terminated, malloc: 0, -EFBIG, or an
 * error of store_stat(). */
int store_read_whole(const char *name, uint64_t most, const struct store_policy *policy, char **ret,
                     struct object_facts *facts, struct plenum_error *err);

/**
 * Write an object in S3, whatever was there.
 *
 * Errors: those of fetch_run(); -EACCES the policy does not allow it; -EOPNOTSUPP the place is not
 * in S3.
 */
int store_write(const char *name, const void *bytes, size_t len, const struct store_policy *policy,
                struct plenum_error *err);

#endif
