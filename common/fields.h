/* SPDX-License-Identifier: MIT */
/* fields.h - what a sample has beside its image and its label: captions, numbers, arrays. */
#ifndef COMMON_FIELDS_H
#define COMMON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/stream.h>

enum {
    FIELDS_MAX = PLENUM_FIELDS_MAX,
    FIELDS_TEXT_MAX = 1024,    /* bytes of the text that asks for fields, with its NUL */
    FIELD_NAME_MAX = 32,       /* of a name, with its NUL */
    FIELD_SOURCE_MAX = 128,    /* of a source, likewise */
    FIELD_BYTES_MAX = 1 << 20, /* of one field of one sample, but for masks */
    FIELD_VISIBLE_ONE = 10000, /* field_spec.visible of a whole box */
};

/** How the bytes of the data set become a field. */
enum field_as {
    FIELD_AS_TEXT,  /* UTF-8 */
    FIELD_AS_BYTES, /* as they are */
    FIELD_AS_NPY,   /* an array in NumPy's format */
    FIELD_AS_INT64, /* whole numbers, */
    FIELD_AS_FLOAT, /* or others, with blanks, commas or brackets between */
    FIELD_AS_MASK,  /* a PNG of the image's size, cropped and flipped as each image is */
    FIELD_AS_LINE,  /* one line of a text in UTF-8, drawn for each position */
    FIELD_AS_BOXES, /* JSON: boxes of the image, cut and flipped as each image is */
    FIELD_AS_COUNT,
};

/** One field, as it is asked for: NAME[:SOURCE[:AS[:VISIBLE]]]. */
struct field_spec {
    char name[FIELD_NAME_MAX];
    char source[FIELD_SOURCE_MAX];
    enum field_as as;
    uint32_t visible; /* of boxes: the least share that an image must show, in 1/10000 */
};

/** What is the same in all samples. Plain numbers without holes: it is stored, sent and compared as
 * it is. */
struct field_shape {
    uint32_t type; /* enum plenum_field_type */
    uint32_t dims, shape[PLENUM_FIELD_DIMS_MAX];
    uint32_t room; /* bytes for it in each sample; of an array, its bytes; of a mask, a pixel's; of
                      boxes, an image's */
    uint32_t mask; /* 1: an array of each image's height and width */
};

/** All fields of a stream. */
struct fields {
    uint32_t count;
    char text[FIELDS_TEXT_MAX]; /* as canonical text */
    struct field_spec spec[FIELDS_MAX];
    struct field_shape shape[FIELDS_MAX]; /* once the data set is known */
    uint32_t stored[FIELDS_MAX]; /* likewise: most bytes that a loader keeps of a sample's */
};

/** Parse "NAME[:SOURCE[:AS[:VISIBLE]]], ..."; "" is no field. -EINVAL with a sentence. */
int fields_parse(const char *text, struct fields *ret, struct plenum_error *err);

/** "a.b" of a field of the member a.b of a file of JSON ("json.a.b", "meta.json.a.b"); NULL: it is
 * a whole file. Of data sets whose fields are files. */
const char *field_member(const struct field_spec *spec);

/** Would it be one, were it of another kind than bytes, npy and mask? */
bool field_names_member(const struct field_spec *spec);

/** How long the extension is of the file that a field is, or is a member of: its source begins with
 * that. */
size_t field_extension_len(const struct field_spec *spec);

/** Does any of them follow the pixels, as masks and boxes do? Then pipelines may neither move
 * pixels behind the crop, but for flips, nor mix samples. */
bool fields_follow_pixels(const struct fields *fields);

/** Are boxes or members of JSON among them, which loaders before WIRE_MINOR_BOXES lack? */
bool fields_are_new(const struct fields *fields);

/** Has each sample a length of its own (texts and bytes)? */
static inline bool field_varies(const struct field_shape *shape)
{
    return shape->type <= PLENUM_FIELD_BYTES;
}

/** The next line of a text that is not blank, without its end: `*len` bytes, `*at` being moved
 * behind it; NULL: there are no more. */
const char *field_next_line(const char **at, const char *end, size_t *len);

/** Bytes of a sample that has `images` images, of `pixels` pixels in all. */
uint64_t field_sample_bytes(const struct field_shape *shape, uint32_t images, uint64_t pixels);

/** Bytes of one image's boxes, `count` at most. */
static inline size_t field_boxes_bytes(size_t count)
{
    return sizeof(struct plenum_boxes) + count * sizeof(struct plenum_box);
}

/** How many boxes an image may have, where there are so many bytes for them. */
static inline uint32_t field_boxes_most(uint32_t room)
{
    return (uint32_t)((room - sizeof(struct plenum_boxes)) / sizeof(struct plenum_box));
}

/** Bytes of one number of an array of this type; 0: it is no array, or there is no such type. */
uint32_t field_item_bytes(uint32_t type);

/** Is it a shape that can be: do type, dimensions and room fit each other? */
bool field_shape_is_valid(const struct field_shape *shape);

/** Is it one of the kind that was asked for? */
bool field_shape_is_as(const struct field_shape *shape, enum field_as as);

#endif
