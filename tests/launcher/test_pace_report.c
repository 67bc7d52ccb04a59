/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "launcher/control/control.h"
#include "launcher/control/pace_report.h"

static const struct pace_report full = {
    .step = UINT64_MAX - 1,
    .count = PACE_REPORT_STEPS,
    .stride = 1024,
    .meets = 1,
    .steps = {{1000, 2000}, {2047000, 2048000}, {NS_PER_SEC, 0}, {0, 3600 * NS_PER_SEC}, {5000, 1}},
    .read_ns = 80000000,
    .render_ns = 123456789,
    .rest_ns = 1,
    .network_ns = UINT64_MAX,
    .share = {0, 1, 50, 99, 100, 7}};

static int pass(const struct pace_report *m, size_t cut, struct pace_report *ret, size_t *len)
{
    struct frame_buffer b = {0};
    struct frame_header header;
    struct frame_reader r;
    int code;

    cr_assert(eq(int, pace_report_put(&b, m), 0));
    cr_assert(gt(i64, frame_parse(b.bytes, b.len, CONTROL_MAX_PAYLOAD, &header, &r), 0));
    cr_expect(eq(int, header.type, CONTROL_PACE));
    r.end -= cut;
    *len = b.len;
    code = pace_report_get(&r, ret);
    frame_buffer_fini(&b);
    return code;
}

static void expect_close(uint64_t is, uint64_t was)
{
    uint64_t kept = was < UINT64_MAX ? was / 1000 * 1000 : (UINT64_C(1) << 40) * 1000;

    cr_expect(le(u64, is, kept));
    cr_expect(ge(u64, is, kept - kept / 1000), "%llu", (unsigned long long)was);
}

Test(pace_report, arrives_with_three_digits_in_64_bytes)
{
    struct pace_report m;
    size_t len;

    cr_assert(eq(int, pass(&full, 0, &m, &len), 0));
    cr_expect(le(sz, len, 64));
    cr_expect(eq(u64, m.step, full.step));
    cr_expect(eq(u32, m.count, full.count));
    cr_expect(eq(u32, m.stride, full.stride));
    cr_expect(eq(u8, m.meets, 1));
    cr_expect(eq(int, memcmp(m.share, full.share, sizeof(m.share)), 0));
    for (unsigned i = 0; i < PACE_REPORT_STEPS; i++) {
        expect_close(m.steps[i].own_ns, full.steps[i].own_ns);
        expect_close(m.steps[i].wait_ns, full.steps[i].wait_ns);
    }
    expect_close(m.read_ns, full.read_ns);
    expect_close(m.render_ns, full.render_ns);
    expect_close(m.rest_ns, full.rest_ns);
    expect_close(m.network_ns, full.network_ns);
}

Test(pace_report, without_steps)
{
    struct pace_report m;
    size_t len;

    cr_assert(eq(int, pass(&(struct pace_report){.stride = 1}, 0, &m, &len), 0));
    cr_expect(eq(u32, m.count, 0));
    cr_expect(eq(u32, m.stride, 1));
    cr_expect(eq(u8, m.meets, 0));
}

Test(pace_report, what_is_cut_off_or_out_of_bounds_is_refused)
{
    struct pace_report m, wrong = full;
    uint8_t bytes[64] = {0};
    struct frame_reader r = {.at = bytes, .end = bytes + sizeof(bytes)}, again = r;
    size_t len;

    for (size_t cut = 1; cut < 48; cut++)
        cr_expect(eq(int, pass(&full, cut, &m, &len), -EPROTO), "%zu bytes less", cut);
    wrong.share[3] = 101;
    cr_expect(eq(int, pass(&wrong, 0, &m, &len), -EPROTO));
    cr_expect(eq(int, pace_report_get(&again, &m), 0));
    bytes[8] = PACE_REPORT_STEPS + 1;
    again = r;
    cr_expect(eq(int, pace_report_get(&again, &m), -EPROTO));
    bytes[8] = 0;
    bytes[9] = 32;
    again = r;
    cr_expect(eq(int, pace_report_get(&again, &m), -EPROTO), "the stride");
}
