/* SPDX-License-Identifier: MIT */
/* field_json.h - fields stored as JSON: its members, and boxes. */
#ifndef LOADER_DATASET_FIELD_JSON_H
#define LOADER_DATASET_FIELD_JSON_H

#include "loader/dataset/field_value.h"

/**
 * Write s->member to s->picked: a string as it is. For kinds that take several values: numbers
 * separated by blanks, or strings as lines.
 *
 * Errors: -EBADMSG with `err` set: invalid JSON, no such member, or one of another kind; -ENOMEM.
 */
int field_pick(const struct field_spec *spec, struct field_stored *s, struct plenum_error *err);

/**
 * Write boxes to s->numbers: struct plenum_box [n], in pixels of the upright image.
 *
 * Errors: -EBADMSG with `err` set: invalid JSON, no such member, or not boxes; -ENOMEM.
 */
int field_make_boxes(struct field_stored *s, struct field_piece *ret, struct plenum_error *err);

#endif
