/* SPDX-License-Identifier: MIT */
/* random_pipeline.h - pipelines that nobody chose, for laws that hold for all of them. */
#ifndef TESTS_LOADER_IMAGE_RANDOM_PIPELINE_H
#define TESTS_LOADER_IMAGE_RANDOM_PIPELINE_H

#include <stdint.h>

enum { RANDOM_PIPELINE_MAX = 2048 };

/** The text of pipeline `number`: a crop and up to eight operations, with arguments within their
 * ranges. Every operation of the language comes. It may be too long to be parsed. */
void random_pipeline(uint64_t number, char ret[RANDOM_PIPELINE_MAX]);

#endif
