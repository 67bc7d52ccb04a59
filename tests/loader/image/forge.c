#include "config.h"

#include "tests/loader/image/forge.h"

#include <errno.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

size_t forge_find(const uint8_t *bytes, size_t len)
{
    for (size_t at = 2; at + 20 <= len; at++)
        if (memcmp(bytes + at, "\xFF\xE9", 2) == 0 && memcmp(bytes + at + 4, "Plenum", 7) == 0)
            return at;
    return 0;
}

bool forge_sign(uint8_t *bytes, size_t len)
{
    size_t at = forge_find(bytes, len);
    uint8_t *copy;
    uint64_t sum;

    if (at == 0)
        return false;
    at += 12;
    copy = malloc(len);
    memcpy(copy, bytes, at);
    memcpy(copy + at, bytes + at + 8, len - at - 8);
    sum = XXH3_64bits(copy, len - 8);
    free(copy);
    for (int i = 0; i < 8; i++)
        bytes[at + i] = (uint8_t)(sum >> (56 - 8 * i));
    return true;
}

struct errors {
    struct jpeg_error_mgr manager;
    jmp_buf escape;
};

static void on_error(j_common_ptr c)
{
    longjmp(((struct errors *)c->err)->escape, 1);
}

static void on_output(j_common_ptr c)
{
    (void)c;
}

int forge_decode(const uint8_t *bytes, size_t len, struct oracle_image *ret)
{
    struct jpeg_decompress_struct d;
    struct errors errors;

    ret->rgb = NULL;
    d.err = jpeg_std_error(&errors.manager);
    errors.manager.error_exit = on_error;
    errors.manager.output_message = on_output;
    jpeg_create_decompress(&d);
    if (setjmp(errors.escape)) {
        jpeg_destroy_decompress(&d);
        free(ret->rgb);
        ret->rgb = NULL;
        return -EBADMSG;
    }
    jpeg_mem_src(&d, bytes, len);
    (void)jpeg_read_header(&d, TRUE);
    ret->width = d.image_width;
    ret->height = d.image_height;
    if ((d.num_components != 1 && d.num_components != 3) ||
        (uint64_t)ret->width * ret->height > 1 << 22)
        longjmp(errors.escape, 1);
    d.out_color_space = JCS_RGB;
    d.dct_method = JDCT_ISLOW;
    d.do_block_smoothing = FALSE;
    (void)jpeg_start_decompress(&d);
    ret->rgb = malloc((size_t)ret->width * ret->height * 3);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = ret->rgb + (size_t)d.output_scanline * ret->width * 3;

        (void)jpeg_read_scanlines(&d, &row, 1);
    }
    jpeg_destroy_decompress(&d);
    return 0;
}
