/* SPDX-License-Identifier: MIT */
/* fields.h - data that a sample has beside its image and label: captions, numbers, arrays. */
#ifndef COMMON_FIELDS_H
#define COMMON_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/stream.h>

enum {
    FIELDS_MAX = PLENUM_FIELDS_MAX,
    FIELDS_TEXT_MAX = 1024,     /* bytes of the text that lists fields, with its NUL */
    FIELD_NAME_MAX = 32,        /* bytes of a name, with its NUL */
    FIELD_SOURCE_MAX = 128,     /* bytes of a source, with its NUL */
    FIELD_BYTES_MAX = 1 << 20,  /* bytes of one field of one sample, except masks */
    FIELD_VISIBLE_ONE = 10000,  /* field_spec.visible of a completely visible box */
    FIELD_POINTS_MAX = 1024,    /* key points of an object */
    FIELD_PAIRS_MAX = 128,      /* pairs of left and right key points */
    FIELD_INSTANCES_MAX = 4096, /* objects with masks in a sample */
    FIELD_OUTLINES_MAX = 4 * FIELD_BYTES_MAX, /* bytes of their outlines */
};

/** How bytes of the data set become a field. */
enum field_as {
    FIELD_AS_TEXT,      /* UTF-8 */
    FIELD_AS_BYTES,     /* as they are */
    FIELD_AS_NPY,       /* an array in NumPy's format */
    FIELD_AS_INT64,     /* integers, separated by whitespace, commas, semicolons or brackets */
    FIELD_AS_FLOAT,     /* numbers, separated in the same way */
    FIELD_AS_MASK,      /* a PNG of the image's size, cropped and moved like each image */
    FIELD_AS_LINE,      /* one line of UTF-8 text, drawn for each position */
    FIELD_AS_BOXES,     /* JSON: boxes of the image, cropped and moved like each image */
    FIELD_AS_KEYPOINTS, /* JSON: key points of objects, cropped and moved like each image */
    FIELD_AS_INSTANCES, /* JSON: outlines of objects, drawn as masks of each image */
    FIELD_AS_COUNT,
};

/** One requested field: NAME[:SOURCE[:AS[:VISIBLE or PAIRS]]]. */
struct field_spec {
    char name[FIELD_NAME_MAX];
    char source[FIELD_SOURCE_MAX];
    enum field_as as;
    /* Boxes and instances: the smallest visible share of a box that is kept, in 1/10000. */
    uint32_t visible;
    uint32_t pairs;                    /* key points: number of pairs */
    uint16_t pair[FIELD_PAIRS_MAX][2]; /* left and right points, swapped in mirror images */
};

/** A field's properties, which all samples share. The structure has no padding, because its bytes
 * are stored, sent and compared. */
struct field_shape {
    uint32_t type; /* enum plenum_field_type */
    uint32_t dims;
    uint32_t shape[PLENUM_FIELD_DIMS_MAX]; /* key points: most objects, and most points */
    /* Bytes per sample; per pixel of a mask; per image for boxes, key points and instances, of
     * which the masks' bits need more (field_image_bytes()). */
    uint32_t room;
    uint32_t mask; /* 1: an array of each image's height and width */
};

/** All fields of a stream. */
struct fields {
    uint32_t count;
    char text[FIELDS_TEXT_MAX]; /* in canonical form */
    struct field_spec spec[FIELDS_MAX];
    struct field_shape shape[FIELDS_MAX]; /* set once the data set is known */
    uint32_t stored[FIELDS_MAX]; /* most bytes that a loader stores per sample, once known */
};

/** The key points of an object as a loader stores them: this, and then each struct
 * plenum_keypoint. */
struct field_pose {
    int64_t class_id, id;
    uint64_t points; /* number of points */
};

/** The outline of an object as a loader stores it: this, and then numbers of 4 bytes each. For each
 * polygon, these are the number of its points (uint32), then x and y of each point (float); and for
 * a run-length encoded mask, where each of its runs ends (uint32), column after column, beginning
 * with a run of zeros. */
struct field_outline {
    struct plenum_box box;
    uint32_t polygons;      /* number of polygons; 0: run-length encoded */
    uint32_t height, width; /* size of the encoded mask */
    uint32_t numbers;       /* number of numbers */
};

/** Parse "NAME[:SOURCE[:AS[:VISIBLE or PAIRS]]], ..."; "" means no fields. Returns 0, or -EINVAL
 * with a message. */
int fields_parse(const char *text, struct fields *ret, struct plenum_error *err);

/** Returns the path "a.b" of a field's member in a JSON file ("json.a.b", "meta.json.a.b"); NULL if
 *  the field is a whole file. For data sets whose fields are files. */
const char *field_member(const struct field_spec *spec);

/** Returns whether the source has the form of a member, even if the field's kind (bytes, npy, mask)
 *  makes it the name of a whole file. */
bool field_names_member(const struct field_spec *spec);

/** Returns the length of the extension at the start of a field's source: that of the file that is
 *  the field, or contains it. */
size_t field_extension_len(const struct field_spec *spec);

/** Returns whether any field follows the pixels, as masks, boxes, key points and instances do.
 * views_check_fields() checks whether a pipeline allows this. */
bool fields_follow_pixels(const struct fields *fields);

/** Returns whether the fields include boxes or members of JSON, which loaders older than
 *  WIRE_MINOR_BOXES lack. */
bool fields_are_new(const struct fields *fields);

/** Returns whether the fields include key points, which loaders older than WIRE_MINOR_KEYPOINTS
 *  lack. */
bool fields_have_keypoints(const struct fields *fields);

/** Returns whether the fields include instances, which loaders older than WIRE_MINOR_INSTANCES
 *  lack. */
bool fields_have_instances(const struct fields *fields);

/** Does each sample have its own length (text and bytes)? */
static inline bool field_varies(const struct field_shape *shape)
{
    return shape->type <= PLENUM_FIELD_BYTES;
}

/** Does each image have its own value (boxes, key points and instances; masks have one for each
 * pixel)? */
static inline bool field_is_of_image(const struct field_shape *shape)
{
    return shape->type >= PLENUM_FIELD_BOXES;
}

/** Returns whether the samples of a data set may need different room. */
static inline bool field_grows(const struct field_shape *shape)
{
    return field_varies(shape) || field_is_of_image(shape);
}

/** Make room for the values of another shape of the same type. */
void field_shape_grow(struct field_shape *shape, const struct field_shape *by);

/** Make room for the objects of this many pictures, if each image has its own value. */
void field_shape_repeat(struct field_shape *shape, uint32_t pictures);

/** Returns the next non-blank line of text, without its line end: `*len` bytes, with `*at` advanced
 *  past it; NULL if there are no more. */
const char *field_next_line(const char **at, const char *end, size_t *len);

/** Returns the bytes of one image of `pixels` pixels, for a field that each image has its own value
 * of. */
uint64_t field_image_bytes(const struct field_shape *shape, uint64_t pixels);

/** Returns the bytes of one image's boxes, at most `count` of them. */
static inline size_t field_boxes_bytes(size_t count)
{
    return sizeof(struct plenum_boxes) + count * sizeof(struct plenum_box);
}

/** Returns the number of boxes that fit into this many bytes of an image. */
static inline uint32_t field_boxes_most(uint32_t room)
{
    return (uint32_t)((room - sizeof(struct plenum_boxes)) / sizeof(struct plenum_box));
}

/** Returns the bytes of an object with this many key points, and of one image's objects. */
static inline uint32_t field_pose_bytes(uint32_t points)
{
    size_t bytes = sizeof(struct plenum_pose) + points * sizeof(struct plenum_keypoint);

    return (uint32_t)((bytes + 7) / 8 * 8);
}

static inline size_t field_poses_bytes(size_t count, uint32_t points)
{
    return sizeof(struct plenum_poses) + count * field_pose_bytes(points);
}

/** Returns the bytes of an object's mask in an image of `pixels` pixels: a bit each. */
static inline uint64_t field_bits_bytes(uint64_t pixels)
{
    return (pixels + 63) / 64 * 8;
}

/** Returns the bytes of the instances of one image, except for their bits. */
static inline size_t field_instances_bytes(size_t count)
{
    return sizeof(struct plenum_instances) + count * sizeof(struct plenum_instance);
}

/** Returns the bytes of one element of an array of this type; 0 if it is not an array, or not a
 * type. */
uint32_t field_item_bytes(uint32_t type);

/** Are type, dimensions and room of the shape valid and consistent? */
bool field_shape_is_valid(const struct field_shape *shape);

/** Does the shape match the requested kind? */
bool field_shape_is_as(const struct field_shape *shape, enum field_as as);

#endif
