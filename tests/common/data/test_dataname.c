/* SPDX-License-Identifier: MIT */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/parameterized.h>

#include "common/data/dataname.h"
#include "common/data/datasum.h"
#include "common/util/util.h"

struct name_case {
    char text[64], format[16], settings[48], where[48];
};

ParameterizedTestParameters(dataname, splits)
{
    static struct name_case cases[] = {
        {"folder:/a", "folder", "", "/a"},
        {"/a/b", "", "", "/a/b"},
        {"a:b", "a", "", "b"},
        {"./a:b", "", "", "./a:b"},
        {"A:b", "", "", "A:b"},
        {"tfrecord,label=image/label,label-offset=-1:/x-{0..3}", "tfrecord",
         ",label=image/label,label-offset=-1", "/x-{0..3}"},
        {"list,base=/a b:c:d", "list", ",base=/a b", "c:d"},
        {"tar,part=0/4:/a,b:c", "tar", ",part=0/4", "/a,b:c"},
        {"tar,part:/a", "", "", "tar,part:/a"},
        {"tar,=x:/a", "", "", "tar,=x:/a"},
        {"tar,a=:/a", "tar", ",a=", "/a"},
        {"a,b=c", "", "", "a,b=c"},
        {":x", "", "", ":x"},
        {"", "", "", ""},
        {"generated:5", "generated", "", "5"},
        {"abcdefghijklmnopqrs:x", "", "", "abcdefghijklmnopqrs:x"},
    };
    return cr_make_param_array(struct name_case, cases, ARRAY_LEN(cases));
}

ParameterizedTest(struct name_case *c, dataname, splits)
{
    struct dataname name;

    dataname_split(c->text, &name);
    cr_expect(eq(int, name.format != NULL, c->format[0] != '\0'), "%s", c->text);
    cr_expect(eq(sz, name.format_len, strlen(c->format)), "%s", c->text);
    cr_expect(eq(int, memcmp(c->text, c->format, strlen(c->format)), 0));
    cr_expect(eq(sz, name.settings_len, strlen(c->settings)), "%s", c->text);
    if (name.settings)
        cr_expect(eq(int, memcmp(name.settings, c->settings, name.settings_len), 0), "%s", c->text);
    cr_expect(eq(str, (char *)name.where, c->where), "%s", c->text);
}

static void absolute(const char *text, const char *want)
{
    char got[64];

    cr_expect(eq(int, dataname_make_absolute(text, "/here", got, sizeof(got), NULL), 0));
    cr_expect(eq(str, got, (char *)want), "%s", text);
}

Test(dataname, paths_become_absolute)
{
    char got[16];

    absolute("x", "/here/x");
    absolute("/x", "/x");
    absolute("folder:x/y", "folder:/here/x/y");
    absolute("tfrecord,label=a/b:x-{0..3}", "tfrecord,label=a/b:/here/x-{0..3}");
    absolute("generated:7", "generated:7");
    absolute("generated,classes=3:7", "generated,classes=3:7");
    absolute("generated:x", "generated:/here/x");
    absolute("generated:tar,label=cls:x", "generated:tar,label=cls:/here/x");
    absolute("generated:/x", "generated:/x");
    cr_expect(eq(int, dataname_make_absolute("0123456789", "/here", got, 16, NULL), -EINVAL));
    cr_expect(eq(int, dataname_make_absolute("012345678", "/here", got, 16, NULL), 0));
    cr_expect(eq(int, dataname_make_absolute("", "/here", got, 16, NULL), -EINVAL));
    cr_expect(eq(int, dataname_make_absolute("x", "/", got, 16, NULL), 0));
    cr_expect(eq(str, got, "/x"));
}

static void differ(const struct datasum *a, const struct datasum *b, const char *want)
{
    char text[200];
    uint8_t one[16], two[16];

    cr_expect(eq(str, datasum_difference(a, b, text, sizeof(text)), (char *)want));
    datasum_fingerprint(a, one);
    datasum_fingerprint(b, two);
    cr_expect(eq(int, memcmp(one, two, 16) == 0, want[0] == '\0'), "%s", want);
}

Test(datasum, names_the_first_difference)
{
    struct datasum a = {.samples = 1280, .classes = 10}, b = a;

    differ(&a, &b, "");
    b.samples = 1279;
    differ(&a, &b, "one has 1280 samples, the other 1279");
    b = a;
    b.segments[3].labels = 1;
    differ(&a, &b, "the labels of samples differ, first within samples 60 to 79");
    b.segments[3].sizes = 1;
    differ(&a, &b, "the sizes of samples differ, first within samples 60 to 79");
    b.segments[1].names = 1;
    differ(&a, &b, "the names of samples differ, first within samples 20 to 39");
    b = a;
    b.classes = 11;
    differ(&a, &b, "one has 10 classes, the other 11");
    b = a;
    b.class_names = 1;
    differ(&a, &b, "the names of classes differ");
    b = a;
    b.heads = 1;
    differ(&a, &b, "names, sizes and labels are equal, but the contents differ");
    b = a;
    b.bad = 1;
    differ(&a, &b, "different samples are known to be bad (plenumctl verify)");
    a = b = (struct datasum){.samples = 64};
    b.segments[63].names = 5;
    differ(&a, &b, "the names of samples differ, first at sample 63");
}
