/* SPDX-License-Identifier: MIT */
/* hugging_face.h - converts names of files on the Hugging Face Hub to URLs of its server:
 * hf://datasets/OWNER/NAME[@REVISION]/PATH. */
#ifndef LOADER_STORE_HUGGING_FACE_H
#define LOADER_STORE_HUGGING_FACE_H

#include <stdbool.h>

#include <plenum/error.h>

/**
 * Convert a name or pattern that begins with hf:// to a URL in `*ret` (malloc). The path is taken
 * literally; braces and wildcards are kept. The server is HF_ENDPOINT, or huggingface.co.
 *
 * Errors: -EINVAL with `err` set; -ENOMEM.
 */
int hugging_face_url(const char *name, char **ret, struct plenum_error *err);

/** Returns the header with the user's token (HF_TOKEN) for HTTPS requests to this host (malloc), or
 * NULL if there is no valid token, it is for another host, or memory runs out. */
char *hugging_face_header(const char *host);

#endif
