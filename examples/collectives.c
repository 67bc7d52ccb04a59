/* SPDX-License-Identifier: MIT */
/* collectives.c - share a seed, add up and compare values across all processes of a job.
 *
 *     cc collectives.c -o collectives $(pkg-config --cflags --libs plenum)
 *     plenumrun -n 2 ./collectives
 */
#include <inttypes.h>
#include <stdio.h>

#include <plenum/plenum.h>

int main(void)
{
    struct plenum_job *job = NULL;
    struct plenum_error err;
    uint64_t seed = 0; // 0: draw one, the same for all

    int r = plenum_job_open(&job, &err);
    if (r < 0)
        goto fail;
    const struct plenum_job_info *info = plenum_job_get_info(job);
    int64_t sum = info->instance_index + 1;
    if ((r = plenum_broadcast_seed(job, &seed, &err)) < 0 ||
        (r = plenum_allreduce(job, &sum, 1, PLENUM_INT64, PLENUM_SUM, &err)) < 0 ||
        (r = plenum_same(job, &seed, sizeof(seed), &err)) < 0)
        goto fail;
    printf("instance %" PRIu32 " of %" PRIu32 ": the sum is %" PRId64 "\n", info->instance_index,
           info->num_instances, sum);
    plenum_job_close(job);
    return 0;
fail:
    fprintf(stderr, "collectives: %s\n", err.text);
    plenum_job_close(job);
    return 1;
}
