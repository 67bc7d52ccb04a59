/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"

Test(util, an_array_grows_and_keeps_what_it_has)
{
    uint32_t *numbers = NULL;
    size_t cap = 0;

    for (uint32_t i = 0; i < 1000; i++) {
        cr_assert(eq(int, array_grow(&numbers, &cap, i, sizeof(*numbers)), 0));
        cr_assert(gt(sz, cap, i));
        numbers[i] = i;
    }
    for (uint32_t i = 0; i < 1000; i++)
        cr_assert(eq(u32, numbers[i], i));
    cr_expect(lt(sz, cap, 2048), "the buffer must not grow more than needed");
    free(numbers);
}

Test(util, an_array_has_room_for_what_was_reserved)
{
    size_t cap = 0;
    char *text = NULL;

    for (size_t count = 1; count < 5000; count += count / 3 + 1) {
        cr_assert(eq(int, array_reserve(&text, &cap, count, 1), 0));
        cr_assert(ge(sz, cap, count));
        cr_assert(le(sz, cap, max_u64(2 * count, 16)), "the buffer must not grow more than needed");
        memset(text, 'x', count);
    }
    free(text);
}

Test(util, an_array_that_cannot_grow_is_unchanged)
{
    size_t half = SIZE_MAX / 2, cap = half;
    char byte, *bytes = &byte;

    cr_expect(eq(int, array_grow(&bytes, &cap, half, 8), -ENOMEM));
    cr_expect(eq(ptr, bytes, &byte));
    cr_expect(eq(sz, cap, half));
}

/* A program may have set a locale with a decimal comma. (Locales that the system lacks are the same
 * as "C".) */
Test(util, numbers_have_points_in_any_locale)
{
    static const char *const locales[] = {"C", "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE"};
    static const struct {
        const char *text;
        double number;
        size_t len;
    } cases[] = {{"0.5", 0.5, 3}, {"0.5%", 0.5, 3}, {"1e-3", 1e-3, 4}, {"2,5", 2, 1}, {"x", 0, 0}};

    for (size_t l = 0; l < ARRAY_LEN(locales); l++) {
        (void)setlocale(LC_ALL, locales[l]);
        for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
            char *end;

            cr_expect(eq(dbl, parse_real(cases[i].text, &end), cases[i].number));
            cr_expect(eq(sz, (size_t)(end - cases[i].text), cases[i].len), "%s", cases[i].text);
        }
    }
}

Test(util, percentages_are_numbers_from_0_to_100)
{
    static const struct {
        const char *text;
        double share; /* -1: an error */
    } cases[] = {{"0", 0},      {"0.5", 0.005}, {"12.5%", 0.125}, {"100%", 1},
                 {"100.1", -1}, {"-1", -1},     {"", -1},         {"%", -1},
                 {"nan", -1},   {"5%%", -1},    {"2,5", -1},      {"5 %", -1}};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        double share = -1;

        cr_expect(eq(int, parse_percent(cases[i].text, &share), cases[i].share < 0 ? -EINVAL : 0),
                  "%s", cases[i].text);
        cr_expect(eq(dbl, share, cases[i].share), "%s", cases[i].text);
    }
}

Test(util, random_digits_are_hexadecimal_and_terminated)
{
    char text[2 * 48 + 2];

    for (size_t bytes = 0; bytes <= 48; bytes++) {
        memset(text, 'x', sizeof(text));
        cr_assert(eq(int, random_hex(text, bytes), 0));
        cr_expect(eq(sz, strspn(text, "0123456789abcdef"), 2 * bytes));
        cr_expect(eq(chr, text[2 * bytes], '\0'));
        cr_expect(eq(chr, text[2 * bytes + 1], 'x'));
    }
}

Test(util, ends_and_last_parts_of_paths)
{
    static const char *const paths[][2] = {{"a", "a"},   {"/", "/"},        {"/a", "a"},
                                           {"a/b", "b"}, {"/a/b.c", "b.c"}, {"a/b/", "a/b/"}};

    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        cr_expect(eq(str, (char *)io_base_name(paths[i][0]), (char *)paths[i][1]));
    cr_expect(str_ends_with("a.py", ".py"));
    cr_expect(not(str_ends_with(".py", ".py")));
    cr_expect(not(str_ends_with("py", ".py")));
    cr_expect(not(str_ends_with("a.pyc", ".py")));
    cr_expect(not(str_ends_with("", ".py")));
}

/* Each unit is tested at both ends of the range of 64-bit nanoseconds. */
Test(util, times_have_units)
{
    static const struct {
        const char *unit;
        uint64_t ns;
    } units[] = {{"", NS_PER_SEC},       {"ms", NS_PER_MS},        {"s", NS_PER_SEC},
                 {"m", 60 * NS_PER_SEC}, {"h", 3600 * NS_PER_SEC}, {"d", 86400 * NS_PER_SEC}};
    static const char *const bad[] = {"",   "d",    "-1d", "+1d", "1 d",  "1D",
                                      "1w", "1d2h", "1.d", "1dd", "1.5h", " 1d"};
    uint64_t ns = 7;

    for (size_t i = 0; i < ARRAY_LEN(units); i++) {
        uint64_t most = UINT64_MAX / units[i].ns, values[] = {0, 1, 7, most, most + 1};

        for (size_t v = 0; v < ARRAY_LEN(values); v++) {
            bool fits = values[v] <= most;
            char text[40];

            (void)sprintf(text, "%llu%s", (unsigned long long)values[v], units[i].unit);
            cr_expect(eq(int, parse_duration(text, &ns), fits ? 0 : -ERANGE), "%s", text);
            cr_expect(eq(u64, ns, fits ? values[v] * units[i].ns : ns), "%s", text);
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        cr_expect(eq(int, parse_duration(bad[i], &ns), -EINVAL), "'%s'", bad[i]);
}

/* What was written must be read back. */
Test(util, units_are_written_as_they_are_read)
{
    static const struct {
        uint64_t ns;
        const char *with_days, *without;
    } times[] = {{0, "0", "0"},
                 {999999, "0", "0"},
                 {NS_PER_MS, "1ms", "1ms"},
                 {1500 * NS_PER_MS + 7, "1500ms", "1500ms"},
                 {90 * NS_PER_SEC, "90s", "90s"},
                 {3600 * NS_PER_SEC, "1h", "1h"},
                 {36 * 3600 * NS_PER_SEC, "36h", "36h"},
                 {168 * 3600 * NS_PER_SEC, "7d", "168h"},
                 {UINT64_MAX, "18446744073709ms", "18446744073709ms"}};
    static const uint64_t factors[] = {1, 1000, 60000, 3600000, 86400000};
    char text[40];
    uint64_t back;

    for (size_t i = 0; i < ARRAY_LEN(times); i++) {
        cr_expect(
            eq(str, format_duration(times[i].ns, text, sizeof(text)), (char *)times[i].with_days));
        cr_expect(eq(str, format_hours(times[i].ns, text, sizeof(text)), (char *)times[i].without));
    }
    for (uint64_t i = 0; i < 20000; i++) {
        uint64_t ns = (i * i % 9973) * factors[i % 5] * NS_PER_MS;
        uint64_t bytes = (i * i % 9973) << (i % 45);

        cr_assert(eq(
            int,
            parse_duration((i & 1 ? format_duration : format_hours)(ns, text, sizeof(text)), &back),
            0));
        cr_assert(eq(u64, back, ns), "%s", text);
        cr_assert(eq(int, parse_bytes(format_exact_bytes(bytes, text, sizeof(text)), &back), 0));
        cr_assert(eq(u64, back, bytes), "%s", text);
    }
    cr_expect(eq(str, format_exact_bytes(3 << 20, text, sizeof(text)), (char *)"3M"));
    cr_expect(eq(str, format_exact_bytes(1025, text, sizeof(text)), (char *)"1025"));
}

/* Behaves like pwrite() on a difficult file system: it writes a few bytes at once, and is
 * interrupted in between. */
static unsigned pwrite_calls;
static size_t pwrite_most; /* 0: no byte is written */

ssize_t __real_pwrite(int fd, const void *bytes, size_t len, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t offset);
ssize_t __wrap_pwrite(int fd, const void *bytes, size_t len, off_t offset)
{
    if (pwrite_calls++ % 2 == 1) {
        errno = EINTR;
        return -1;
    }
    return __real_pwrite(fd, bytes, min_u64(len, pwrite_most), offset);
}

Test(util, io_pwrite_all_survives_short_writes)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    char bytes[1000], read[1000];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)i;
    for (pwrite_most = 1; pwrite_most <= 1024; pwrite_most *= 4) {
        cr_assert(eq(int, ftruncate(fd, 0), 0));
        cr_expect(eq(int, io_pwrite_all(fd, bytes, sizeof(bytes), 7 + pwrite_most), 0));
        cr_assert(eq(int, io_pread_all(fd, read, sizeof(read), 7 + pwrite_most), 0));
        cr_expect(eq(int, memcmp(read, bytes, sizeof(bytes)), 0));
    }
    pwrite_most = 0;
    cr_expect(eq(int, io_pwrite_all(fd, bytes, sizeof(bytes), 0), -ENOSPC),
              "writing must end when no byte is written");
    cr_expect(eq(int, io_pwrite_all(-1, bytes, 0, 0), 0));
    pwrite_calls = 0;
    cr_expect(eq(int, io_pwrite_all(-1, bytes, 1, 0), -EBADF));
    (void)close(fd);
}
