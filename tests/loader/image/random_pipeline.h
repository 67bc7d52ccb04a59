/* SPDX-License-Identifier: MIT */
/* random_pipeline.h - makes random pipelines, for tests of what must hold for every pipeline. */
#ifndef TESTS_LOADER_IMAGE_RANDOM_PIPELINE_H
#define TESTS_LOADER_IMAGE_RANDOM_PIPELINE_H

#include <stdint.h>

enum { RANDOM_PIPELINE_MAX = 2048 };

/** Write the text of pipeline `number`: a crop and up to eight operations, with arguments in their
 * ranges. Every operation of the language occurs in some pipeline. The text may be too long to be
 * parsed. */
void random_pipeline(uint64_t number, char ret[RANDOM_PIPELINE_MAX]);

#endif
