/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/data/datasum.h"

#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(struct datasum) == (6 + 3 * DATASUM_SEGMENTS) * sizeof(uint64_t),
               "a sum has no holes");

void datasum_fingerprint(const struct datasum *sum, uint8_t ret[16])
{
    XXH128_canonical_t canonical;

    XXH128_canonicalFromHash(&canonical, XXH3_128bits(sum, sizeof(*sum)));
    memcpy(ret, canonical.digest, 16);
}

char *datasum_hex(const uint8_t fingerprint[16], char ret[33])
{
    for (size_t i = 0; i < 16; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", fingerprint[i]);
    return ret;
}

/* Compare a segment: names first, because different names explain different sizes and labels. */
static const char *segment_difference(const struct datasum_segment *a,
                                      const struct datasum_segment *b)
{
    if (a->names != b->names)
        return "names";
    if (a->sizes != b->sizes)
        return "sizes";
    return a->labels != b->labels ? "labels" : NULL;
}

char *datasum_difference(const struct datasum *a, const struct datasum *b, char *ret, size_t size)
{
    ret[0] = '\0';
    if (a->samples != b->samples) {
        (void)snprintf(ret, size, "one has %llu samples, the other %llu",
                       (unsigned long long)a->samples, (unsigned long long)b->samples);
        return ret;
    }
    for (unsigned i = 0; i < DATASUM_SEGMENTS; i++) {
        const char *what = segment_difference(&a->segments[i], &b->segments[i]);
        uint32_t begin = datasum_segment_begin(a->samples, i),
                 end = datasum_segment_begin(a->samples, i + 1);

        if (what && end - begin > 1)
            (void)snprintf(ret, size, "the %s of samples differ, first within samples %u to %u",
                           what, begin, end - 1);
        else if (what)
            (void)snprintf(ret, size, "the %s of samples differ, first at sample %u", what, begin);
        if (what)
            return ret;
    }
    if (a->classes != b->classes)
        (void)snprintf(ret, size, "one has %llu classes, the other %llu",
                       (unsigned long long)a->classes, (unsigned long long)b->classes);
    else if (a->class_names != b->class_names)
        (void)snprintf(ret, size, "the names of classes differ");
    else if (a->bad != b->bad)
        (void)snprintf(ret, size, "different samples are known to be bad (plenumctl verify)");
    else if (a->heads != b->heads || a->bytes != b->bytes)
        (void)snprintf(ret, size, "names, sizes and labels are equal, but the contents differ");
    return ret;
}
