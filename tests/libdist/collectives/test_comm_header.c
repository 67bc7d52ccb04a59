/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "libdist/collectives/comm_header.h"

enum { COUNT = 3 };

static struct comm_block all[COUNT];

static void fill(void)
{
    for (int i = 0; i < COUNT; i++) {
        all[i].header = (struct comm_header){.version = COMM_HEADER_VERSION,
                                             .kind = COMM_ALLREDUCE,
                                             .number = 12,
                                             .bytes = 16,
                                             .type = PLENUM_FLOAT32,
                                             .op = PLENUM_SUM,
                                             .name = "allreduce",
                                             .what = "float32 (4,)"};
        memset(all[i].data, i, sizeof(all[i].data));
    }
}

/* Whichever byte of one instance's header differs, every instance gets an error. */
Test(comm_header, every_byte_is_compared)
{
    struct plenum_error err;

    for (size_t at = 0; at < sizeof(struct comm_header); at++)
        for (int odd = 0; odd < COUNT; odd++) {
            fill();
            ((unsigned char *)&all[odd].header)[at] ^= 1;
            for (uint32_t i = 0; i < COUNT; i++) {
                cr_expect(eq(int, comm_header_compare(all, COUNT, i, &err), -EIO), "byte %zu", at);
                cr_expect(ne(chr, err.text[0], '\0'));
            }
        }
}

Test(comm_header, data_is_not_compared)
{
    struct plenum_error err = {""};

    fill();
    for (uint32_t i = 0; i < COUNT; i++)
        cr_expect(eq(int, comm_header_compare(all, COUNT, i, &err), 0));
    cr_expect(eq(str, err.text, (char *)""));
}

static void expect_sentence(uint32_t index, const char *want)
{
    struct plenum_error err = {""};

    cr_expect(eq(int, comm_header_compare(all, COUNT, index, &err), -EIO));
    cr_expect(ne(ptr, strstr(err.text, want), NULL), "'%s' does not say '%s'", err.text, want);
}

Test(comm_header, differences_are_named)
{
    fill();
    all[2].header.op = PLENUM_MAX;
    expect_sentence(
        0, "this instance calls allreduce (16 bytes, sum of float32) while instance 2 calls "
           "allreduce (16 bytes, max of float32): all must make the same calls");
    expect_sentence(2, "while instance 0 calls allreduce (16 bytes, sum of float32)");

    fill();
    all[1].header.bytes = 8;
    (void)snprintf(all[1].header.what, sizeof(all[1].header.what), "float32 (2,)");
    expect_sentence(2,
                    "this instance calls allreduce (16 bytes, float32 (4,)) while instance 1 calls "
                    "allreduce (8 bytes, float32 (2,))");

    fill();
    for (int i = 0; i < COUNT; i++)
        all[i].header = (struct comm_header){.version = COMM_HEADER_VERSION,
                                             .kind = COMM_BROADCAST,
                                             .bytes = 3,
                                             .name = "broadcast"};
    all[0].header.root = 1;
    expect_sentence(1,
                    "calls broadcast (3 bytes, from instance 0) while instance 0 calls broadcast "
                    "(3 bytes, from instance 1)");
}

/* Data from another process is not trusted. */
Test(comm_header, unterminated_strings_are_not_read_beyond_their_end)
{
    fill();
    memset(all[1].header.name, 'x', sizeof(all[1].header.name));
    memset(all[1].header.what, 'y', sizeof(all[1].header.what));
    expect_sentence(0, "instance 1 has a different version of libplenum");
    fill();
    all[1].header.version++;
    expect_sentence(0, "instance 1 has a different version of libplenum");
    fill();
    all[1].header.kind = all[1].header.type = all[1].header.op = 77;
    expect_sentence(0, "while instance 1 calls allreduce");
}
