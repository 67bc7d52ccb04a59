/* SPDX-License-Identifier: MIT */
/* field_json.h - reads members, boxes, key points and outlines from fields that are stored as
 * JSON. */
#ifndef LOADER_DATASET_FIELD_JSON_H
#define LOADER_DATASET_FIELD_JSON_H

#include "loader/dataset/field_value.h"
#include "loader/dataset/json_find.h"

/**
 * Write the JSON's member s->member to s->picked. A string is written without quotes. For kinds
 * that take several values, numbers are separated by spaces, and strings are lines.
 *
 * Errors: -EBADMSG with `err` set: invalid JSON, no such member, or a member of the wrong kind;
 * -ENOMEM.
 */
int field_pick(const struct field_spec *spec, struct field_stored *s, struct plenum_error *err);

/**
 * Write boxes to s->numbers: struct plenum_box [n], in pixels of the upright image.
 *
 * Errors: -EBADMSG with `err` set: invalid JSON, no such member, or not boxes; -ENOMEM.
 */
int field_make_boxes(struct field_stored *s, struct field_piece *ret, struct plenum_error *err);

/**
 * Write key points to s->numbers: for each object a struct field_pose and then its struct
 * plenum_keypoint [points], in pixels of the upright image.
 *
 * Errors: like those of field_make_boxes().
 */
int field_make_keypoints(struct field_stored *s, struct field_piece *ret, struct plenum_error *err);

/**
 * Write the outlines of objects to s->numbers: for each object a struct field_outline and then its
 * numbers.
 *
 * Errors: like those of field_make_boxes().
 */
int field_make_instances(struct field_stored *s, struct field_piece *ret, struct plenum_error *err);

/** Get the box, class and id of an object of COCO or Pascal VOC, the `index`-th of its list.
 * Returns 0; -EBADMSG with `err` set; or -ENOMEM. */
int field_get_box(struct field_stored *s, struct json_at object, size_t index,
                  struct plenum_box *ret, struct plenum_error *err);

/** Find the requested value in the JSON. Returns 0, or -EBADMSG with `err` set. */
int field_find(const struct field_stored *s, struct json_at *ret, struct plenum_error *err);

/** Find out whether an object of COCO, the `index`-th of its list, marks a group of objects
 * (iscrowd), not a single one. Returns 0 or 1, or -EBADMSG with `err` set. */
int field_is_crowd(struct json_at object, size_t index, struct plenum_error *err);

#endif
