/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "common/pipeline/views.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/pipeline/pipeline_priv.h"
#include "common/util/error_set.h"
#include "common/util/util.h"

static const char takes[] = "write view(NAME, COUNT, STAGES), as in view(local, 8, rrc(96))";
static const char takes_count[] =
    "the number of images, 1 to 32, must follow the name, as in view(local, 8, rrc(96))";

/* Returns the parenthesis that closes a view's stages, or NULL if there is none. */
static const char *find_end(const char *at)
{
    for (unsigned open = 1; *at; at++) {
        open += *at == '(';
        open -= *at == ')';
        if (open == 0)
            return at;
    }
    return NULL;
}

static int parse_name(struct parser *p, const struct views *views, char ret[VIEW_NAME_MAX])
{
    size_t len = 0;

    parser_skip_space(p);
    while (isalnum((unsigned char)p->at[len]) || p->at[len] == '_')
        len++;
    if (len == 0 || isdigit((unsigned char)*p->at))
        return parser_error(p, "a view's name must begin with a letter or _, and contain only "
                               "letters, digits and _, as in view(local, 8, rrc(96))");
    if (len >= VIEW_NAME_MAX)
        return parser_error(p, "the name of a view can have at most 31 characters");
    memcpy(ret, p->at, len);
    ret[len] = '\0';
    for (uint32_t i = 0; i < views->count; i++)
        if (strcmp(views->view[i].name, ret) == 0)
            return parser_error(p, "another view has that name");
    p->at += len;
    return parser_char(p, ',') ? 0 : parser_error(p, takes);
}

/* Parse one view's pipeline: `prefix` and the text in parentheses. The stages stay at their offset
 * in the whole text, so that a message names the right character. */
static int parse_stages(struct parser *p, const char *prefix, struct view *view)
{
    char text[2 * VIEWS_TEXT_MAX];
    const char *end = find_end(p->at);
    size_t begin = (size_t)(p->at - p->text);
    struct plenum_error why = {""};

    if (!end)
        return parser_error(p, "a parenthesis is not closed");
    if ((size_t)(end - p->text) >= sizeof(text))
        return parser_error(p, "it is too long");
    assert(begin >= strlen(prefix)); /* "view(a,1," is longer */
    (void)snprintf(text, sizeof(text), "%-*s%.*s", (int)begin, prefix, (int)(end - p->at), p->at);
    if (pipeline_parse(text, &view->pipeline, &why) < 0)
        return error_set(p->err, -EINVAL, "view %s: %s", view->name, why.text);
    if (pipeline_mixes(&view->pipeline))
        return error_set(
            p->err, -EINVAL,
            "view %s: pipeline: samples with views cannot be mixed: leave mixup, cutmix or mix out",
            view->name);
    if (pipeline_is_mosaic(&view->pipeline))
        return error_set(p->err, -EINVAL, "view %s: pipeline: samples with views cannot be mosaics",
                         view->name);
    if (view->pipeline.crop == PIPELINE_NO_IMAGE)
        return parser_error(
            p, "a view has images: 'none' must be the only word of the pipeline, without views");
    if (view->pipeline.exif && !strstr(prefix, "exif"))
        return parser_error(p, "write exif before the first view: it applies to all views");
    if (view->pipeline.junk && !strstr(prefix, "junk"))
        return parser_error(p, "write junk before the first view: it applies to all views");
    p->at = end + 1;
    return 0;
}

static int parse_view(struct parser *p, const char *prefix, struct views *views)
{
    struct view *view = &views->view[views->count];
    int r;

    if (views->count == VIEWS_MAX)
        return parser_error(p, "there are more than 4 views");
    if (!parser_char(p, '('))
        return parser_error(p, takes);
    *view = (struct view){.count = 0};
    r = parse_name(p, views, view->name);
    parser_skip_space(p);
    if (r == 0 && !isdigit((unsigned char)*p->at))
        r = parser_error(p, takes_count);
    if (r == 0)
        r = parser_number(p, 1, VIEWS_IMAGES_MAX, takes_count, &view->count);
    if (r == 0 && !parser_char(p, ','))
        r = parser_error(p, takes);
    if (r == 0)
        r = parse_stages(p, prefix, view);
    if (r < 0)
        return r;
    views->count++;
    views->images += view->count;
    return views->images <= VIEWS_IMAGES_MAX
               ? 0
               : parser_error(p, "the views of a sample have more than 32 images");
}

static int write_canonical(struct views *views, const char *prefix, struct plenum_error *err)
{
    size_t len = (size_t)snprintf(views->text, sizeof(views->text), "%.*s",
                                  (int)(strlen(prefix) - 1), prefix);

    for (uint32_t i = 0; i < views->count && len < sizeof(views->text); i++) {
        const struct view *view = &views->view[i];

        len += (size_t)snprintf(views->text + len, sizeof(views->text) - len, " view(%s,%u,%s)",
                                view->name, view->count, view->pipeline.text + strlen(prefix));
    }
    return len < sizeof(views->text)
               ? 0
               : error_set(err, -EINVAL,
                           "pipeline: it is too long: with every parameter written out it has more "
                           "than %zu characters",
                           sizeof(views->text) - 1);
}

/* Set `ret` to a pipeline without views. */
static void set_alone(const struct pipeline *pipeline, struct views *ret)
{
    *ret = (struct views){.count = 1, .images = 1, .view = {{.count = 1, .pipeline = *pipeline}}};
    (void)snprintf(ret->text, sizeof(ret->text), "%s", pipeline->text);
}

int views_parse(const char *text, struct views *ret, struct plenum_error *err)
{
    struct parser p = {.text = text, .at = text, .stage = text, .err = err};
    struct pipeline alone;
    bool exif, junk;
    char prefix[24];
    int r;

    (void)parser_word(&p, pipeline_version_name(PIPELINE_V1));
    parser_head(&p, &exif, &junk);
    parser_skip_space(&p);
    p.stage = p.at;
    *ret = (struct views){.count = 0};
    if (!parser_word(&p, "view")) {
        r = pipeline_parse(text, &alone, err);
        if (r == 0)
            set_alone(&alone, ret);
        return r;
    }
    (void)snprintf(prefix, sizeof(prefix), "%s %s%s", pipeline_version_name(PIPELINE_V1),
                   exif ? "exif " : "", junk ? "junk " : "");
    ret->named = true;
    for (;;) {
        r = parse_view(&p, prefix, ret);
        if (r < 0)
            return r;
        parser_skip_space(&p);
        p.stage = p.at;
        if (!*p.at)
            return write_canonical(ret, prefix, err);
        if (!parser_word(&p, "view"))
            return parser_error(&p, "only another view may follow a view");
    }
}

uint64_t views_pixels(const struct views *views)
{
    uint64_t pixels = 0;

    for (uint32_t i = 0; i < views->count; i++)
        pixels += (uint64_t)views->view[i].count * views->view[i].pipeline.width *
                  views->view[i].pipeline.height;
    return pixels;
}

/* Returns whether any field is of this kind. */
static bool have_kind(const struct fields *fields, enum field_as as)
{
    for (uint32_t i = 0; i < fields->count; i++)
        if (fields->spec[i].as == as)
            return true;
    return false;
}

int views_check_fields(const struct views *views, const struct fields *fields,
                       struct plenum_error *err)
{
    int r = views_check_boxes(views, fields, err);

    if (r < 0 || !fields_follow_pixels(fields))
        return r;
    if (!views_have_images(views))
        return error_set(
            err, -EINVAL,
            "masks, boxes and key points are cropped with the images: the pipeline cannot be none");
    if (views_mix(views) && views->view[0].pipeline.mix.mixup.num > 0 &&
        have_kind(fields, FIELD_AS_MASK))
        return error_set(err, -EINVAL,
                         "masks cannot be used with mixup, because each pixel then belongs to two "
                         "pictures: use cutmix, or leave mixup out");
    if (views_parts(views) > 1 && have_kind(fields, FIELD_AS_INSTANCES))
        return error_set(err, -EINVAL,
                         "instances cannot be used with mosaic: request masks or boxes instead");
    for (uint32_t i = 0; i < views->count; i++) {
        const struct pipeline *p = &views->view[i].pipeline;

        for (uint32_t k = 0; k < p->ops_count; k++)
            if (p->ops[k].kind == PIPELINE_AUGMIX)
                return error_set(err, -EINVAL,
                                 "masks, boxes and key points cannot be used with augmix, which "
                                 "blends copies of an image that are moved differently");
    }
    return 0;
}

uint32_t views_pictures(const struct views *views)
{
    return (views_mix(views) ? 2 : 1) * views_parts(views);
}

int views_shape_fields(const struct views *views, const struct fields *fields,
                       const struct field_shape *of, struct field_shape *ret,
                       struct plenum_error *err)
{
    uint32_t pictures = views_pictures(views);

    for (uint32_t i = 0; i < fields->count; i++) {
        ret[i] = of[i];
        field_shape_repeat(&ret[i], pictures);
        if (!field_shape_is_valid(&ret[i]))
            return error_set(err, -EINVAL,
                             "field '%s': an image of this pipeline shows up to %u pictures, whose "
                             "objects may need more than 1 MiB: leave out mosaic, mixup "
                             "and cutmix, or samples with very many objects",
                             fields->spec[i].name, pictures);
    }
    return 0;
}

bool views_move(const struct views *views)
{
    for (uint32_t i = 0; i < views->count; i++)
        if (pipeline_moves(&views->view[i].pipeline))
            return true;
    return false;
}
