/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/util/util.h"
#include "loader/store/hugging_face.h"
#include "loader/store/store_place.h"

Test(hugging_face, names)
{
    static const char *const cases[][2] = {
        {"hf://datasets/o/n/train.parquet",
         "https://huggingface.co/datasets/o/n/resolve/main/train.parquet"},
        {"HF://datasets/o/n@v1.0/a/b.tar",
         "https://huggingface.co/datasets/o/n/resolve/v1.0/a/b.tar"},
        {"hf://datasets/o/n@~parquet/default/0.parquet",
         "https://huggingface.co/datasets/o/n/resolve/refs/convert/parquet/default/0.parquet"},
        {"hf://datasets/o/n@refs/pr/7/x",
         "https://huggingface.co/datasets/o/n/resolve/refs/pr/7/x"},
        {"hf://datasets/o/n/a b%c-{000..002}.tar",
         "https://huggingface.co/datasets/o/n/resolve/main/a%20b%25c-{000..002}.tar"},
        {"hf://datasets/o/n", "https://huggingface.co/datasets/o/n/resolve/main"},
    };

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char *url = NULL;

        cr_assert(eq(int, hugging_face_url(cases[i][0], &url, NULL), 0), "%s", cases[i][0]);
        cr_expect(eq(str, url, (char *)cases[i][1]));
        free(url);
    }
}

Test(hugging_face, malformed_names)
{
    static const char *const cases[] = {"hf://",
                                        "hf://models/o/n/x",
                                        "hf://datasets/o",
                                        "hf://datasets/o/",
                                        "hf://datasets//n/x",
                                        "hf://datasets/o@1/n/x",
                                        "hf://datasets/o/n@/x",
                                        "hf://datasets/o/n?x/y"};

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct plenum_error err = {""};
        char *url = NULL;

        cr_expect(eq(int, hugging_face_url(cases[i], &url, &err), -EINVAL), "%s", cases[i]);
        cr_expect(ne(str, err.text, ""));
    }
}

Test(hugging_face, places)
{
    struct store_place place;

    cr_assert(eq(int, place_parse("hf://datasets/o/n/a b", &place, NULL), 0));
    cr_expect(eq(str, place.host, "huggingface.co"));
    cr_expect(eq(str, place.key, "datasets/o/n/resolve/main/a b"));
    place_fini(&place);
    cr_expect(eq(int, place_parse("hf://datasets/o/n/../../x", &place, NULL), -EINVAL));
    (void)setenv("HF_ENDPOINT", "hf://datasets/o/n", 1);
    cr_expect(eq(int, place_parse("hf://datasets/o/n/a", &place, NULL), -EINVAL));
}

Test(hugging_face, the_token_is_for_one_host)
{
    char *header;

    cr_expect(zero(ptr, hugging_face_header("huggingface.co")), "there is no token");
    (void)setenv("HF_TOKEN", "hf_secret", 1);
    header = hugging_face_header("huggingface.co");
    cr_assert(ne(ptr, header, NULL));
    cr_expect(eq(str, header, "Authorization: Bearer hf_secret"));
    free(header);
    cr_expect(zero(ptr, hugging_face_header("huggingface.co.example.org")));
    (void)setenv("HF_ENDPOINT", "http://huggingface.co", 1);
    cr_expect(zero(ptr, hugging_face_header("huggingface.co")), "no token is sent without TLS");
    (void)setenv("HF_ENDPOINT", "https://mirror.example.org/", 1);
    cr_expect(zero(ptr, hugging_face_header("huggingface.co")));
    header = hugging_face_header("mirror.example.org");
    cr_expect(ne(ptr, header, NULL));
    free(header);
}
