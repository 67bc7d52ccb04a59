/* SPDX-License-Identifier: MIT */
/* Checks that the marker is found in any amount of text, however it is split: the text from the
 * marker on must equal the result of strstr() on the whole. PLENUM_TEST_COUNT sets the number of
 * cases (500 by default). */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "launcher/remote/answer.h"

enum { TEXT_MAX = 70000 };

static const char mark[] = "probe-mark\n";

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

/* Text made of the marker's own letters, so that it is full of partial markers. */
static size_t put_noise(char *text, size_t len, uint64_t *state)
{
    for (size_t i = 0; i < len; i++)
        text[i] = mark[next_random(state) % (sizeof(mark) - 1)];
    return len;
}

static void add_in_pieces(struct answer *a, const char *text, size_t len, uint64_t *state)
{
    size_t most = (size_t)1 << next_random(state) % 16;

    while (len > 0) {
        size_t n = min_u64(len, 1 + next_random(state) % most);

        answer_add(a, text, n);
        text += n;
        len -= n;
    }
}

static void expect_end(const struct answer *a, const char *text, size_t len)
{
    cr_assert(a->len <= len && a->len >= min_u64(len, ANSWER_BYTES / 2), "%zu of %zu", a->len, len);
    cr_assert(memcmp(a->text, text + len - a->len, a->len) == 0);
}

static void expect_answer(const struct answer *a, const char *at)
{
    size_t want = min_u64(strlen(at), ANSWER_BYTES - 1);

    cr_assert(eq(sz, a->len, want));
    cr_assert(memcmp(a->text, at, want) == 0);
}

static void try_one(struct answer *a, char *text, uint64_t *state)
{
    bool marked = next_random(state) % 4 > 0;
    size_t len = put_noise(text, next_random(state) % (TEXT_MAX / 2 - 100), state);
    const char *at;

    if (marked) {
        memcpy(text + len, mark, sizeof(mark) - 1);
        len += sizeof(mark) - 1;
        len += put_noise(text + len, next_random(state) % (TEXT_MAX / 2 - 100), state);
    }
    text[len] = '\0';
    answer_init(a, mark);
    add_in_pieces(a, text, len, state);
    at = strstr(text, mark);
    cr_assert(eq(int, a->begun, at != NULL));
    cr_assert(eq(int, a->text[a->len], '\0'));
    if (at)
        expect_answer(a, at);
    else
        expect_end(a, text, len);
}

Test(answer, is_found_wherever_it_begins)
{
    const char *count = getenv("PLENUM_TEST_COUNT");
    uint64_t state = 1, cases = count ? strtoull(count, NULL, 10) : 500;
    struct answer *a = malloc(sizeof(*a));
    char *text = malloc(TEXT_MAX);

    cr_assert(a && text);
    for (uint64_t i = 0; i < cases; i++)
        try_one(a, text, &state);
    free(text);
    free(a);
}

Test(answer, nul_bytes_do_not_hide_the_answer)
{
    static struct answer a;

    answer_init(&a, "mark");
    answer_add(&a, "x\0y\0mark\0z", 10);
    cr_expect(a.begun);
    cr_expect(eq(str, a.text, (char *)"mark?z"));
}

Test(answer, last_line)
{
    static const char *const cases[][2] = {
        {"", ""},
        {"\n\n", ""},
        {"one", "one"},
        {"one\ntwo\n", "two"},
        {"one\r\n\n", "one"},
        {"one\n  \n", "one"},
        {"a\n b\r\n", " b"},
    };
    char text[40];

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        strcpy(text, cases[i][0]);
        cr_expect(eq(str, (char *)answer_last_line(text), (char *)cases[i][1]), "case %zu", i);
    }
}

Test(answer, secrets_are_hidden)
{
    char text[] = "key=abcabcab, again abc", none[] = "text";

    answer_hide(text, "abc");
    cr_expect(eq(str, text, (char *)"key=******ab, again ***"));
    answer_hide(none, "");
    cr_expect(eq(str, none, (char *)"text"));
}
