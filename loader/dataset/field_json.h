/* SPDX-License-Identifier: MIT */
/* field_json.h - fields that are in JSON: members of it, and boxes. */
#ifndef LOADER_DATASET_FIELD_JSON_H
#define LOADER_DATASET_FIELD_JSON_H

#include "loader/dataset/field_value.h"

/**
 * Make s->picked of s->member: a text as it is; of kinds that take several values, numbers with
 * blanks between, or texts as lines.
 *
 * Errors: -EBADMSG with a sentence: no JSON, no such member, or one of another kind; -ENOMEM.
 */
int field_pick(const struct field_spec *spec, struct field_stored *s, struct plenum_error *err);

/**
 * Make s->numbers of boxes: struct plenum_box [n], in pixels of the image as it is seen.
 *
 * Errors: -EBADMSG with a sentence: no JSON, no such member, or no boxes; -ENOMEM.
 */
int field_make_boxes(struct field_stored *s, struct field_piece *ret, struct plenum_error *err);

#endif
