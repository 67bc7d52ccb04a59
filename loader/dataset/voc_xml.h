/* SPDX-License-Identifier: MIT */
/* voc_xml.h - reads an XML file of annotations in the form of Pascal VOC.
 *
 * Elements, attributes, comments, CDATA and the predefined entities are read. Other entities and
 * document type declarations are rejected. <size> is used and, of each <object>, <name>,
 * <difficult>, <truncated> and <bndbox>. */
#ifndef LOADER_DATASET_VOC_XML_H
#define LOADER_DATASET_VOC_XML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <plenum/error.h>

/** An object. Borrowed until the call returns. */
struct voc_object {
    const char *name;
    bool difficult, truncated;
    double edges[4]; /* xmin, ymin, xmax, ymax */
};

/** What a file says of its picture. */
struct voc_picture {
    uint32_t size[2]; /* <width> and <height> of <size>; 0: missing, or not a size */
};

/** Receives an object. Returns 0, or -errno with `err` set to stop. */
typedef int voc_xml_call(void *arg, const struct voc_object *object, struct plenum_error *err);

/** Pass on all objects of a file, in order, and set `*ret` (may be NULL). Returns 0; -EBADMSG with
 * `err` set, which names the line; or the error of `call`. */
int voc_xml_read(const char *text, size_t len, voc_xml_call *call, void *arg,
                 struct voc_picture *ret, struct plenum_error *err);

#endif
