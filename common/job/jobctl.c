/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/job/jobctl.h"

#include <stdio.h>
#include <unistd.h>

char *jobctl_address(const char *id, char ret[JOBCTL_NAME_MAX])
{
    (void)snprintf(ret, JOBCTL_NAME_MAX, "unix:@plenumrun-job-%u-%s", (unsigned)geteuid(), id);
    return ret;
}

int jobctl_put_job(struct frame_buffer *b, const struct jobctl_job *m)
{
    size_t begin = frame_begin(b, JOBCTL_JOB, 0);

    frame_put_text(b, m->id);
    frame_put_text(b, m->program);
    frame_put_text(b, m->phase);
    frame_put_u32(b, m->pid);
    frame_put_u32(b, m->hosts);
    frame_put_u32(b, m->instances);
    frame_put_u32(b, m->restarts);
    frame_put_u64(b, m->elapsed_ns);
    frame_put_u64(b, m->asked);
    frame_put_u64(b, m->halted);
    frame_put_text(b, m->slow);
    return frame_end(b, begin);
}

int jobctl_get_job(struct frame_reader *r, struct jobctl_job *ret)
{
    frame_get_text(r, ret->id, sizeof(ret->id));
    frame_get_text(r, ret->program, sizeof(ret->program));
    frame_get_text(r, ret->phase, sizeof(ret->phase));
    ret->pid = frame_get_u32(r);
    ret->hosts = frame_get_u32(r);
    ret->instances = frame_get_u32(r);
    ret->restarts = frame_get_u32(r);
    ret->elapsed_ns = frame_get_u64(r);
    ret->asked = frame_get_u64(r);
    ret->halted = frame_get_u64(r);
    frame_get_text(r, ret->slow, sizeof(ret->slow));
    return frame_got(r);
}

int jobctl_put_instance(struct frame_buffer *b, const struct jobctl_instance *m)
{
    size_t begin = frame_begin(b, JOBCTL_INSTANCE, 0);

    frame_put_u32(b, m->index);
    frame_put_u32(b, m->pid);
    frame_put_text(b, m->host);
    frame_put_text(b, m->state);
    frame_put_u64(b, m->asked);
    frame_put_u64(b, m->output_ns);
    frame_put_u64(b, m->heard_ns);
    frame_put_u64(b, m->own_ns);
    frame_put_u64(b, m->wait_ns);
    frame_put_text(b, m->slow);
    frame_put_text(b, m->cause);
    return frame_end(b, begin);
}

int jobctl_get_instance(struct frame_reader *r, struct jobctl_instance *ret)
{
    ret->index = frame_get_u32(r);
    ret->pid = frame_get_u32(r);
    frame_get_text(r, ret->host, sizeof(ret->host));
    frame_get_text(r, ret->state, sizeof(ret->state));
    ret->asked = frame_get_u64(r);
    ret->output_ns = frame_get_u64(r);
    ret->heard_ns = frame_get_u64(r);
    ret->own_ns = frame_get_u64(r);
    ret->wait_ns = frame_get_u64(r);
    frame_get_text(r, ret->slow, sizeof(ret->slow));
    frame_get_text(r, ret->cause, sizeof(ret->cause));
    return frame_got(r);
}

int jobctl_put_stopped(struct frame_buffer *b, enum jobctl_effect effect)
{
    size_t begin = frame_begin(b, JOBCTL_STOPPED, 0);

    frame_put_u32(b, (uint32_t)effect);
    return frame_end(b, begin);
}

int jobctl_get_stopped(struct frame_reader *r, enum jobctl_effect *ret)
{
    *ret = (enum jobctl_effect)frame_get_choice(r, JOBCTL_EFFECTS);
    return frame_got(r);
}

int jobctl_put_grown(struct frame_buffer *b, const struct jobctl_grown *m)
{
    size_t begin = frame_begin(b, JOBCTL_GROWN, 0);

    frame_put_u32(b, m->grows);
    frame_put_text(b, m->text);
    return frame_end(b, begin);
}

int jobctl_get_grown(struct frame_reader *r, struct jobctl_grown *ret)
{
    ret->grows = (uint32_t)frame_get_choice(r, 2);
    frame_get_text(r, ret->text, sizeof(ret->text));
    return frame_got(r);
}

int jobctl_put_empty(struct frame_buffer *b, enum jobctl_type type)
{
    return frame_end(b, frame_begin(b, (uint16_t)type, 0));
}
