/* SPDX-License-Identifier: MIT */
/* badlist.c - reads and writes the list of bad samples that plenumctl verify has found, which
 * loaders reject.
 *
 *     # plenumctl verify of folder:/data/train
 *     fingerprint 0123456789abcdef0123456789abcdef
 *     bad 17 premature end of JPEG file
 *     bytes 0f1e2d3c4b5a6978
 *     bad 29 junk: 4 bytes before the first scan belong to no segment
 *     bytes 1122334455667788
 *     bad 31 the file is empty
 *     bytes ffffffffffffffff
 *     end 3 89abcdef01234567
 *
 * The list is text, so that people can read it. The last line contains the number of samples and
 * the XXH3-64 of all text before it. The fingerprint is that of the data set without the list; if
 * it changes, the list no longer applies. But a fingerprint does not cover all bytes. So each entry
 * has the hash of the bytes that were found bad, or ff..ff if no bytes could be read, and applies
 * only to these bytes. Pipelines with `junk` ignore entries whose reason begins with "junk: ";
 * versions that do not know this word treat it as part of the reason. */
#include "config.h"

#include "loader/dataset/badlist.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/data/datasum.h"
#include "common/util/util.h"
#include "loader/dataset/cache.h"

static const char junk_mark[] = "junk: ", content_mark[] = "bytes ";

enum { BYTES_MAX = 1 << 30, LAST_LINE_MAX = 64, CONTENT_DIGITS = 16 };

void badlist_fini(struct badlist *list)
{
    free(list->samples);
    free(list->text);
    *list = (struct badlist){0};
}

/* Returns the offset of the last line if it is correct, otherwise 0. */
static size_t find_end(const char *text, size_t len, uint32_t *count)
{
    char want[LAST_LINE_MAX];
    const char *number;
    size_t at = len;
    uint64_t n;

    if (len < 2 || text[len - 1] != '\n')
        return 0;
    for (at = len - 1; at > 0 && text[at - 1] != '\n'; at--)
        ;
    number = text + at;
    if (at == 0 || strncmp(number, "end ", 4) != 0)
        return 0;
    number += 4;
    if (parse_next_u64(&number, UINT32_MAX, &n) < 0)
        return 0;
    (void)snprintf(want, sizeof(want), "end %" PRIu64 " %016" PRIx64 "\n", n,
                   XXH3_64bits(text, at));
    if (strcmp(text + at, want) != 0)
        return 0;
    *count = (uint32_t)n;
    return at;
}

/* Parse an optional line "bytes HASH". Returns the hash, or 0. */
static uint64_t parse_content(char **at, const char *end)
{
    size_t mark = strlen(content_mark);
    const char *line = *at;

    if ((size_t)(end - line) <= mark + CONTENT_DIGITS || strncmp(line, content_mark, mark) != 0 ||
        strspn(line + mark, "0123456789abcdef") != CONTENT_DIGITS ||
        line[mark + CONTENT_DIGITS] != '\n')
        return 0;
    *at += mark + CONTENT_DIGITS + 1;
    return strtoull(line + mark, NULL, 16);
}

/* Parse "bad NUMBER [junk:] reason" and an optional line "bytes HASH" after it, and append the
 * sample to the list. Terminates the first line in place. Returns false if it is malformed. */
static bool parse_sample(char **at, char *end, uint32_t samples, struct badlist *list)
{
    char *line = *at, *newline = memchr(line, '\n', (size_t)(end - line));
    const char *rest = line + strlen("bad ");
    uint64_t number, content;
    bool junk;

    if (!newline || strncmp(line, "bad ", 4) != 0)
        return false;
    *newline = '\0';
    *at = newline + 1;
    if (parse_next_u64(&rest, UINT32_MAX, &number) < 0 || *rest != ' ' || number >= samples ||
        (list->count > 0 && number <= list->samples[list->count - 1].sample))
        return false;
    rest++;
    content = parse_content(at, end);
    junk = strncmp(rest, junk_mark, strlen(junk_mark)) == 0;
    list->samples[list->count++] =
        (struct dataset_bad){.sample = (uint32_t)number,
                             .reason = rest + (junk ? strlen(junk_mark) : 0),
                             .junk = junk,
                             .content = content};
    return true;
}

int badlist_parse(char *text, size_t len, const uint8_t fingerprint[16], uint32_t samples,
                  struct badlist *ret)
{
    struct badlist list = {.text = text};
    char hex[33], head[64], *at, *end;
    uint32_t count = 0;
    size_t end_at;

    *ret = (struct badlist){0};
    text[len] = '\0';
    end_at = memchr(text, '\0', len) ? 0 : find_end(text, len, &count);
    at = end_at ? strchr(text, '\n') : NULL;
    if (!at || text[0] != '#' || count > samples) {
        badlist_fini(&list);
        return -EBADMSG;
    }
    at++;
    assert(at <= text + end_at);
    end = text + end_at;
    datasum_hex(fingerprint, hex);
    (void)snprintf(head, sizeof(head), "fingerprint %s\n", hex);
    if (strncmp(at, head, strlen(head)) != 0) { /* the list belongs to another data set */
        badlist_fini(&list);
        return 0;
    }
    at += strlen(head);
    list.samples = malloc((count + !count) * sizeof(*list.samples));
    if (!list.samples) {
        badlist_fini(&list);
        return -ENOMEM;
    }
    assert(at <= end);
    while (list.count < count && parse_sample(&at, end, samples, &list))
        ;
    if (list.count < count || at != end) {
        badlist_fini(&list);
        return -EBADMSG;
    }
    assert(list.count == count && count <= samples);
    *ret = list;
    return 0;
}

int badlist_read(const char *path, const uint8_t fingerprint[16], uint32_t samples,
                 struct badlist *ret)
{
    int fd = cache_open(path), r;
    char *text = NULL;
    struct stat st;

    *ret = (struct badlist){0};
    if (fd < 0)
        return fd == -ENOENT ? 0 : fd;
    if (fstat(fd, &st) < 0) {
        r = -errno;
        goto fail;
    }
    if (st.st_size > BYTES_MAX) {
        r = -EBADMSG;
        goto fail;
    }
    text = malloc((size_t)st.st_size + 1);
    if (!text) {
        r = -ENOMEM;
        goto fail;
    }
    r = io_pread_all(fd, text, (size_t)st.st_size, 0);
    if (r < 0)
        goto fail;
    (void)close(fd);
    return badlist_parse(text, (size_t)st.st_size, fingerprint, samples, ret);

fail:
    (void)close(fd);
    free(text);
    return r == -ENODATA ? -EBADMSG : r;
}

static void put_plain(FILE *f, const char *text)
{
    for (; *text; text++)
        (void)fputc((unsigned char)*text < 0x20 ? '?' : *text, f);
}

int badlist_write(const char *path, const char *name, const uint8_t fingerprint[16],
                  const struct dataset_bad *samples, uint32_t count)
{
    char *text = NULL, hex[33];
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    bool failed;
    int r;

    if (!f)
        return -ENOMEM;
    datasum_hex(fingerprint, hex);
    (void)fprintf(f, "# plenumctl verify of ");
    put_plain(f, name);
    (void)fprintf(f, "\nfingerprint %s\n", hex);
    for (uint32_t i = 0; i < count; i++) {
        (void)fprintf(f, "bad %" PRIu32 " ", samples[i].sample);
        (void)fputs(samples[i].junk ? junk_mark : "", f);
        put_plain(f, samples[i].reason);
        (void)fputc('\n', f);
        if (samples[i].content)
            (void)fprintf(f, "%s%016" PRIx64 "\n", content_mark, samples[i].content);
    }
    failed = fflush(f) != 0;
    if (!failed)
        (void)fprintf(f, "end %" PRIu32 " %016" PRIx64 "\n", count, XXH3_64bits(text, len));
    failed = fclose(f) != 0 || failed;
    r = failed ? -ENOMEM : cache_write(path, text, len);
    free(text);
    return r;
}

void badlist_forgive_junk(struct badlist *list)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < list->count; i++)
        if (!list->samples[i].junk)
            list->samples[count++] = list->samples[i];
    assert(count <= list->count);
    list->count = count;
}

static int by_sample(const void *a, const void *b)
{
    const struct dataset_bad *x = a, *y = b;

    return (x->sample > y->sample) - (x->sample < y->sample);
}

int64_t badlist_find(const struct badlist *list, uint32_t sample)
{
    struct dataset_bad key = {.sample = sample};
    const struct dataset_bad *found =
        list->count ? bsearch(&key, list->samples, list->count, sizeof(key), by_sample) : NULL;

    return found ? found - list->samples : -1;
}

uint64_t badlist_hash(const struct badlist *list)
{
    XXH3_state_t state;

    if (list->count == 0)
        return 0;
    (void)XXH3_64bits_reset(&state);
    for (uint32_t i = 0; i < list->count; i++)
        (void)XXH3_64bits_update(&state, &list->samples[i].sample, sizeof(list->samples[i].sample));
    return XXH3_64bits_digest(&state);
}
