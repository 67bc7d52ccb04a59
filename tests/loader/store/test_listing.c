/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "loader/store/aws_config.h"
#include "loader/store/credentials.h"
#include "loader/store/endpoint.h"
#include "loader/store/listing.h"

static char found[400];

static int keep(void *arg, const char *key, const struct object_facts *facts)
{
    size_t at = strlen(found);

    (void)arg;
    (void)snprintf(found + at, sizeof(found) - at, "%s|%llu|%s|%llu;", key,
                   (unsigned long long)facts->size, facts->etag,
                   (unsigned long long)facts->mtime_s);
    return strcmp(key, "stop") == 0 ? -E2BIG : 0;
}

struct listing_case {
    char text[500], want[120], token[20];
    int code;
};

#define LISTING(inner) \
    "<?xml version=\"1.0\"?><ListBucketResult xmlns='x'>" inner "</ListBucketResult>"
#define OBJECT(key, size) "<Contents><Key>" key "</Key><Size>" size "</Size></Contents>"

ParameterizedTestParameters(listing, pages)
{
    static struct listing_case cases[] = {
        {LISTING(""), "", "", 0},
        {LISTING(OBJECT("a", "1") "<IsTruncated>false</IsTruncated>"), "a|1||0;", "", 0},
        {LISTING("<Contents>\n <Key>a&amp;b&#x41;&#66;&lt;</Key>"
                 "<LastModified>1970-01-01T00:00:01.5Z</LastModified><ETag>&quot;e-1&quot;</ETag>"
                 "<Size>12</Size><Owner><ID>z</ID></Owner></Contents>"),
         "a&bAB<|12|e-1|1;", "", 0},
        {LISTING("<IsTruncated>true</IsTruncated>"
                 "<NextContinuationToken>t/1=</NextContinuationToken>" OBJECT("a", "1")),
         "a|1||0;", "t/1=", 0},
        {LISTING("<s:Contents><s:Key>a</s:Key><s:Size>1</s:Size></s:Contents>"), "a|1||0;", "", 0},
        {LISTING("<!-- <Contents> --><CommonPrefixes><Prefix>p</Prefix></CommonPrefixes>"), "", "",
         0},
        {LISTING(OBJECT("stop", "1") OBJECT("b", "1")), "stop|1||0;", "", -E2BIG},
        {LISTING("<IsTruncated>true</IsTruncated>"), "", "", -EBADMSG},
        {LISTING(OBJECT("a", "-1")), "", "", -EBADMSG},
        {LISTING(OBJECT("a", "99999999999999999999")), "", "", -EBADMSG},
        {LISTING(OBJECT("", "1")), "", "", -EBADMSG},
        {LISTING("<Contents><Size>1</Size></Contents>"), "", "", -EBADMSG},
        {LISTING(OBJECT("a&nbsp;b", "1")), "", "", -EBADMSG},
        {LISTING(OBJECT("a&#0;b", "1")), "", "", -EBADMSG},
        {LISTING(OBJECT("a&amp", "1")), "", "", -EBADMSG},
        {"<ListBucketResult>" OBJECT("a", "1"), "a|1||0;", "", -EBADMSG},
        {"<!DOCTYPE x [<!ENTITY a 'b'>]><ListBucketResult></ListBucketResult>", "", "", -EBADMSG},
        {"<Error><Code>x</Code></Error>", "", "", -EBADMSG},
        {"", "", "", -EBADMSG},
        {"not XML", "", "", -EBADMSG},
        {"<a", "", "", -EBADMSG},
    };
    return cr_make_param_array(struct listing_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct listing_case *c, listing, pages)
{
    struct plenum_error err = {""};
    struct listing_page page;

    found[0] = '\0';
    cr_expect(eq(int, listing_read(c->text, strlen(c->text), keep, NULL, &page, &err), c->code),
              "%s", c->text);
    cr_expect(eq(str, found, c->want));
    if (c->code == 0)
        cr_expect(eq(str, page.token, c->token));
}

Test(listing, errors)
{
    static const char text[] =
        "<Error><Code>AccessDenied</Code><Message>a\nb</Message><RequestId>4</RequestId></Error>";
    struct listing_error e;

    listing_read_error(text, strlen(text), &e);
    cr_expect(eq(str, e.code, "AccessDenied"));
    cr_expect(eq(str, e.message, "a?b"));
    cr_expect(eq(str, e.request_id, "4"));
    listing_read_error("<html>", 6, &e);
    cr_expect(eq(str, e.code, ""));
}

Test(listing, profiles)
{
    static const char text[] =
        "# comment\n[default]\naws_access_key_id = d\n\n[profile other ]\r\nregion=eu-1\r\n"
        "aws_access_key_id =  a b \ns3 =\n  region = nested\nsso_session\n[ other]\n"
        "aws_secret_access_key=s=1\nregion = later";
    struct aws_config config = {.found = false};

    cr_assert(eq(int, aws_config_parse(text, strlen(text), "other", &config), 0));
    cr_expect(config.found);
    cr_expect(eq(str, config.value[AWS_KEY_ID], "a b"));
    cr_expect(eq(str, config.value[AWS_SECRET], "s=1"));
    cr_expect(eq(str, config.value[AWS_REGION], "eu-1")); /* the first one counts */
    cr_expect(config.value[AWS_SSO] == NULL);
    aws_config_fini(&config);
    cr_assert(eq(int, aws_config_parse(text, strlen(text), "absent", &config), 0));
    cr_expect(not(config.found));
}

Test(listing, credentials_of_endpoints)
{
    static const char keys[] =
        "{ \"Code\" : \"Success\",\"AccessKeyId\":\"A\", \"SecretAccessKey\" : \"s\\/x\"";
    static const char json[] =
        "{ \"Code\" : \"Success\",\"AccessKeyId\":\"A\", \"SecretAccessKey\" : \"s\\/x\","
        "\"Token\":\"t\",\"Expiration\":\"1970-01-01T00:01:40Z\"}";
    struct credentials c = {.anonymous = false};
    struct plenum_error err;

    cr_assert(eq(int, credentials_parse_json(json, strlen(json), &c, &err), 0));
    cr_expect(eq(str, c.secret, "s/x"));
    cr_expect(eq(str, c.token, "t"));
    cr_expect(eq(u64, c.expires_s, 100));
    for (size_t len = 0; len < strlen(json) - 1; len++) /* a truncated answer is rejected */
        if (credentials_parse_json(json, len, &c, &err) == 0)
            cr_expect(ge(sz, len, strlen(keys)), "%zu bytes", len);
    cr_expect(eq(int, credentials_parse_json("{}", 2, &c, &err), -EBADMSG));
}

Test(listing, endpoints)
{
    struct aws_config config = {.found = false};
    struct endpoint e;

    endpoint_of_aws("bucket", "eu-central-1", &e);
    cr_expect(eq(str, e.host, "bucket.s3.eu-central-1.amazonaws.com"));
    cr_expect(eq(str, e.path, ""));
    /* the certificate would not match a name with this dot */
    endpoint_of_aws("a.bucket", "cn-north-1", &e);
    cr_expect(eq(str, e.host, "s3.cn-north-1.amazonaws.com.cn"));
    cr_expect(eq(str, e.path, "/a.bucket"));
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_REGION");
    unsetenv("AWS_DEFAULT_REGION");
    setenv("AWS_ENDPOINT_URL_S3", "https://Store.Example:443/base/", 1);
    cr_assert(eq(int, endpoint_find("bucket", &config, &e, NULL), 0));
    cr_expect(eq(str, e.host, "store.example"));
    cr_expect(eq(str, e.path, "/base/bucket"));
    setenv("PLENUM_S3_ADDRESSING", "virtual", 1);
    cr_assert(eq(int, endpoint_find("bucket", &config, &e, NULL), 0));
    cr_expect(eq(str, e.host, "bucket.store.example"));
    cr_expect(eq(str, e.path, "/base"));
    setenv("PLENUM_S3_ADDRESSING", "other", 1);
    cr_expect(eq(int, endpoint_find("bucket", &config, &e, NULL), -EINVAL));
}
