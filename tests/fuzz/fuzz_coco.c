/* SPDX-License-Identifier: MIT */
/* fuzz_coco.c - reads arbitrary bytes as a file of COCO's annotations. The first byte is the size
 * of the pieces in which the file is read. A file is accepted in pieces if and only if it is valid
 * JSON as a whole; its annotations are sorted, and have images and categories. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset/coco_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct fuzz_pieces {
    const uint8_t *data;
    size_t size, at, each;
};

static void require(bool truth)
{
    if (!truth)
        abort();
}

static int64_t read_piece(void *arg, void *bytes, size_t len)
{
    struct fuzz_pieces *p = arg;
    size_t n = p->size - p->at;

    n = n > len ? len : n;
    n = n > p->each ? p->each : n;
    if (n > 0)
        memcpy(bytes, p->data + p->at, n);
    p->at += n;
    return (int64_t)n;
}

static int ignore(void *arg, const struct json_item *item, struct plenum_error *err)
{
    (void)arg;
    (void)err;
    require(strlen(item->member) < 64);
    return 0;
}

/* Check that the stream accepts an object exactly if json_parse() does. */
static void compare(struct fuzz_pieces p)
{
    struct json_source source = {.read = read_piece, .arg = &p};
    struct plenum_error err = {""};
    struct json_at whole;
    int r = json_stream_read(&source, ignore, NULL, &err);
    int want = json_parse((const char *)p.data, p.size, &whole, NULL);

    require(r == 0 || (r == -EBADMSG && err.text[0]));
    require((r == 0) == (want == 0 && json_type(whole) == JSON_AT_OBJECT));
}

static void check(const struct coco_file *f)
{
    size_t image = 0;

    for (size_t i = 0; i < f->num_objects; i++) {
        const struct coco_object *o = &f->objects[i];
        struct plenum_error err;
        struct json_at ignored;
        char *json;

        while (image < f->num_images && f->images[image].id < o->image)
            image++;
        require(image < f->num_images && f->images[image].id == o->image);
        require(coco_file_category(f, o->category) >= 0);
        require(o->text < f->text_bytes);
        json = malloc(strlen(f->text + o->text) + 3);
        require(json != NULL);
        json[0] = '{';
        strcpy(json + 1, f->text + o->text);
        strcat(json, "}");
        require(json_parse(json, strlen(json), &ignored, &err) == 0);
        free(json);
    }
    for (size_t i = 0; i < f->num_images; i++)
        require(f->text[f->images[i].name]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_pieces p = {.data = data + 1, .size = size - 1};
    struct json_source source = {.read = read_piece, .arg = &p};
    struct plenum_error err = {""};
    struct coco_file f = {.images = NULL};
    int r;

    if (size == 0)
        return 0;
    p.each = data[0] ? data[0] : 256;
    compare(p);
    r = coco_file_read(&f, &source, &err);
    require(r == 0 || (r == -EBADMSG && err.text[0]));
    if (r == 0)
        check(&f);
    coco_file_fini(&f);
    return 0;
}
