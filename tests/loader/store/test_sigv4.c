/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "loader/store/sigv4.h"

/* Examples that Amazon publishes: the suite aws-sig-v4-test-suite (service "service"), and
 * "Examples: Signature Calculations in AWS Signature Version 4" of the S3 API reference. */
struct sigv4_case {
    char why[40], path[24], query[48], range[16], signature[72];
    bool s3;
};

ParameterizedTestParameters(sigv4, published)
{
    static struct sigv4_case cases[] = {
        {"vanilla", "/", "", "", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31",
         false},
        {"query", "/", "Param1=value1&Param2=value2", "",
         "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500", false},
        {"object", "/test.txt", "", "bytes=0-9",
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41", true},
        {"list", "/", "max-keys=2&prefix=J", "",
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7", true},
        {"empty value", "/", "lifecycle=", "",
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543", true},
    };
    return cr_make_param_array(struct sigv4_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct sigv4_case *c, sigv4, published)
{
    static const char empty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    const char *date = c->s3 ? "20130524T000000Z" : "20150830T123600Z";
    struct sigv4_header headers[4] = {
        {"host", c->s3 ? "examplebucket.s3.amazonaws.com" : "example.amazonaws.com"}};
    struct sigv4_request request = {.method = "GET",
                                    .path = c->path,
                                    .query = c->query,
                                    .headers = headers,
                                    .num_headers = 1,
                                    .payload_hash = empty,
                                    .region = "us-east-1",
                                    .service = c->s3 ? "s3" : "service",
                                    .key_id = c->s3 ? "AKIAIOSFODNN7EXAMPLE" : "AKIDEXAMPLE",
                                    .secret = c->s3 ? "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
                                                    : "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
                                    .date = date};
    const struct store_backend *backend = store_backend_get(NULL);
    char *got;

    if (!backend)
        cr_skip_test("built without libcurl");
    if (*c->range)
        headers[request.num_headers++] = (struct sigv4_header){"range", c->range};
    if (c->s3)
        headers[request.num_headers++] = (struct sigv4_header){"x-amz-content-sha256", empty};
    headers[request.num_headers++] = (struct sigv4_header){"x-amz-date", date};
    got = sigv4_authorization(backend, &request);
    cr_assert(got != NULL);
    cr_expect(eq(str, strstr(got, "Signature=") + 10, c->signature), "%s", c->why);
    free(got);
}

Test(sigv4, dates)
{
    char date[SIGV4_DATE_BYTES];

    sigv4_date(1369353600, date);
    cr_expect(eq(str, date, "20130524T000000Z"));
}
