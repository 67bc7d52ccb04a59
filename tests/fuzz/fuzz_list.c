/* SPDX-License-Identifier: MIT */
/* fuzz_list.c - reads arbitrary bytes as a list of samples. The first byte selects the format and
 * whether columns are requested. All fields must begin and end inside the text, and lines must keep
 * their order. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "loader/dataset/listfile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* Check that a field is inside the text. The text is terminated inside its memory, so strlen()
 * stays inside. */
static void require_inside(const struct listfile *list, const char *field)
{
    require(field >= list->text && field <= list->text + list->len);
    require(strlen(field) <= (size_t)(list->text + list->len - field));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct listfile list = {0};
    struct listfile_line line;
    struct plenum_error err = {""};
    size_t last = 0, count = 0;
    int r;

    if (size == 0)
        return 0;
    list.kind = (enum listfile_kind)(data[0] % 3);
    list.path_column = data[0] & 4 ? "path" : data[0] & 8 ? "2" : NULL;
    list.label_column = data[0] & 16 ? "label" : data[0] & 32 ? "1" : NULL;
    list.no_images = data[0] & 64;
    list.len = size - 1;
    list.text = malloc(size);
    require(list.text != NULL);
    memcpy(list.text, data + 1, size - 1);
    r = listfile_begin(&list, &err);
    for (unsigned i = 0; r == 0 && i < list.num_header; i++)
        require_inside(&list, list.header[i]);
    while (r >= 0 && (r = listfile_next(&list, &line, &err)) > 0) {
        require(line.number > last && line.offset < list.len);
        last = line.number;
        require(line.num_fields > 0 && line.num_fields <= LISTFILE_FIELDS_MAX);
        for (unsigned i = 0; i < line.num_fields; i++)
            require_inside(&list, line.fields[i]);
        require(list.no_images || line.path[0]);
        require(!line.path || line.path[0]);
        require(line.label ? line.label[0] : list.no_images && !list.label_column);
        require(++count <= size);
    }
    require(r >= 0 || err.text[0]);
    free(list.text);
    return 0;
}
