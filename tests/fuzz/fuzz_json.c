/* SPDX-License-Identifier: MIT */
/* fuzz_json.c - any bytes as a JSON text: every answer is a value or a sentence. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset/json_find.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = {"label", "meta.label", "a.b.c.d"};

    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        struct plenum_error err = {""};
        struct json_value v;
        int r = json_find((const char *)data, size, paths[i], &v, &err);

        if (r < 0 ? (r != -EBADMSG && r != -ENOENT) || !err.text[0]
                  : v.type == JSON_TEXT && strnlen(v.text, sizeof(v.text)) == sizeof(v.text))
            abort();
    }
    return 0;
}
