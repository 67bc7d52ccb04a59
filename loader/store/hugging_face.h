/* SPDX-License-Identifier: MIT */
/* hugging_face.h - names of files on the Hugging Face Hub, which are URLs of its server in another
 * form: hf://datasets/OWNER/NAME[@REVISION]/PATH. */
#ifndef LOADER_STORE_HUGGING_FACE_H
#define LOADER_STORE_HUGGING_FACE_H

#include <stdbool.h>

#include <plenum/error.h>

/**
 * The URL of a name or pattern that begins with hf://, malloc. The path is taken literally; braces
 * and the characters of patterns stay. The server is HF_ENDPOINT, or huggingface.co.
 *
 * Errors: -EINVAL with `err` set; -ENOMEM.
 */
int hugging_face_url(const char *name, char **ret, struct plenum_error *err);

/** The header with the user's token (HF_TOKEN), malloc, for requests to this host over HTTPS; NULL:
 * there is none, or it is for another host. */
char *hugging_face_header(const char *host);

#endif
