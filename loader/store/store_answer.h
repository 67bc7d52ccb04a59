/* SPDX-License-Identifier: MIT */
/* store_answer.h - parses the headers of HTTP answers, and checks that an answer is the requested
 * one. Does no I/O. Every byte comes from a server, which may be faulty or hostile. */
#ifndef LOADER_STORE_STORE_ANSWER_H
#define LOADER_STORE_STORE_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** An object as its store describes it. */
struct object_facts {
    uint64_t size;
    uint64_t mtime_s; /* Last-Modified, in seconds since 1970; 0: unknown */
    char etag[96];    /* without quotes; "W/..." if it is weak; "": the store has none */
    bool racy;        /* it has no ETag, and a later change might not change its time */
    uint64_t version; /* object_version() if only this is known; otherwise 0 */
};

/** Returns a hash of the ETag; the time if there is no ETag; or 0 if the store has neither.
 * `facts->version` must be 0. */
uint64_t object_version(const struct object_facts *facts);

/** Returns whether the object that a store describes (`now`) is the known version. Compares the
 * sizes, and then object_version(now) with known->version. If that is 0, compares the ETags; if
 * neither has one, the times. */
bool object_is_same(const struct object_facts *now, const struct object_facts *known);

/** Set `racy` if the object has no ETag and changed so recently that another change could have the
 * same time. `date_s` is the store's clock; 0: unknown. */
void object_judge_time(struct object_facts *facts, uint64_t date_s);

struct store_answer {
    unsigned status; /* 0: no answer yet */
    bool has_length, has_range, has_total;
    uint64_t length; /* Content-Length */
    uint64_t first, last,
        total; /* Content-Range; has_range: first and last are set; has_total: total is set */
    uint64_t retry_after_s;    /* 0: none */
    uint64_t date_s;           /* Date; 0: none */
    struct object_facts facts; /* without the size */
    char request_id[80];
    char region[40];   /* x-amz-bucket-region */
    char encoding[32]; /* Content-Encoding; "" also for "identity" */
    char location[2048];
};

/** Parse a line of the header. A status line resets the answer. */
void answer_add_line(struct store_answer *a, const char *line, size_t len);

/** Returns the time, in seconds since 1970, of an HTTP date ("Wed, 12 Oct 2009 17:50:00 GMT") or of
 * an ISO 8601 time as in listings ("2009-10-12T17:50:30.000Z"); 0 if it is neither. */
uint64_t answer_parse_time(const char *text);
/** Copy an ETag without its quotes; "" if it is malformed or does not fit. */
void answer_copy_etag(const char *text, size_t len, char *ret, size_t size);

/** A range of an object that was requested. */
struct wanted_range {
    uint64_t offset, len;             /* len > 0 */
    const struct object_facts *facts; /* the known version; NULL: not known yet */
};

/**
 * Check that a successful answer is the requested range. Returns 0; `*skip` is the number of bytes
 * in the body before the range.
 *
 * Errors: -ESTALE the object has another version; -EPROTO the answer is not the requested one, but
 * the next may be; -EOPNOTSUPP the server does not support ranges, or encodes the object. `err`
 * receives a clause.
 */
int answer_check_range(const struct store_answer *a, const struct wanted_range *want,
                       uint64_t *skip, struct plenum_error *err);

/** What to do after an answer that is not a success. */
enum answer_class {
    ANSWER_RETRY,   /* the server or the network failed */
    ANSWER_SLOW,    /* like RETRY, and the server asks for fewer requests */
    ANSWER_REFRESH, /* the credentials have expired */
    ANSWER_CLOCK,   /* our clock is wrong: use the answer's date */
    ANSWER_REGION,  /* the bucket is in the answer's `region` */
    ANSWER_MOVED,   /* repeat the request at the answer's `location` */
    ANSWER_CHANGED, /* the object has another version */
    ANSWER_ABSENT,
    ANSWER_REFUSED,
    ANSWER_WRONG, /* the request is invalid */
};

/** Returns what to do after this answer. `code` is the code of its XML error ("SlowDown"), or
 * "". */
enum answer_class answer_classify(const struct store_answer *a, const char *code);

#endif
