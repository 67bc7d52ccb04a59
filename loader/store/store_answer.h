/* SPDX-License-Identifier: MIT */
/* store_answer.h - what the header of an HTTP answer says, and whether an answer is the one that
 * was requested. Pure; every byte comes from a server that may be wrong or hostile. */
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
    bool racy;        /* without an ETag, a later change could leave its time as it is */
    uint64_t version; /* instead of ETag and time, of which only object_version() is known; or 0 */
};

/** A hash of the ETag, or the time without one; 0: the store has neither. */
uint64_t object_version(const struct object_facts *facts);

/** Does an object that a store describes have the known version? ETags decide; without them, the
 * time. */
bool object_is_same(const struct object_facts *now, const struct object_facts *known);

/** Set `racy`: it changed so recently that another change could have the same time. `date_s` is the
 * time of the store; 0: unknown. */
void object_judge_time(struct object_facts *facts, uint64_t date_s);

struct store_answer {
    unsigned status; /* 0: no answer yet */
    bool has_length, has_range, has_total;
    uint64_t length;             /* Content-Length */
    uint64_t first, last, total; /* Content-Range: has_range the first two, has_total the third */
    uint64_t retry_after_s;      /* 0: none */
    uint64_t date_s;             /* Date; 0: none */
    struct object_facts facts;   /* without the size */
    char request_id[80];
    char region[40];   /* x-amz-bucket-region */
    char encoding[32]; /* Content-Encoding; "" also for "identity" */
    char location[2048];
};

/** Add a line of the header; a status line starts over. */
void answer_add_line(struct store_answer *a, const char *line, size_t len);

/** Seconds since 1970 of an HTTP date ("Wed, 12 Oct 2009 17:50:00 GMT") or of an ISO 8601 time as
 * in listings ("2009-10-12T17:50:30.000Z"); 0 if it is neither. */
uint64_t answer_parse_time(const char *text);
/** Copy an ETag without its quotes; "" if it does not fit. */
void answer_copy_etag(const char *text, size_t len, char *ret, size_t size);

/** A range of an object that was requested. */
struct wanted_range {
    uint64_t offset, len;             /* len > 0 */
    const struct object_facts *facts; /* NULL: not known yet */
};

/**
 * Is a successful answer the requested range? 0, with the number of bytes of the body to drop
 * before the range in `*skip`.
 *
 * Errors: -ESTALE the object is another version; -EPROTO the answer is not what was requested, and
 * a second request may get a better one; -EOPNOTSUPP the server does not support ranges, or encodes
 * the object. `err` has a clause.
 */
int answer_check_range(const struct store_answer *a, const struct wanted_range *want,
                       uint64_t *skip, struct plenum_error *err);

/** What to do after an answer that is not a success. */
enum answer_class {
    ANSWER_RETRY,   /* a fault of the server or the network */
    ANSWER_SLOW,    /* like RETRY, and there were too many requests */
    ANSWER_REFRESH, /* the credentials have expired */
    ANSWER_CLOCK,   /* our clock is wrong: use that of the answer */
    ANSWER_REGION,  /* the bucket is in another region: `region` */
    ANSWER_MOVED,   /* go to `location` */
    ANSWER_CHANGED, /* the object is another version */
    ANSWER_ABSENT,
    ANSWER_REFUSED,
    ANSWER_WRONG, /* the request itself is at fault */
};

/** `code` is the code of an XML error ("SlowDown"), or "". */
enum answer_class answer_classify(const struct store_answer *a, const char *code);

#endif
