/* SPDX-License-Identifier: MIT */
/* Tests the reader of plans: the canonical form of a plan, and every message about its text. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "common/order/orderplan.h"
#include "common/util/util.h"

static struct orderplan *parse(const char *text)
{
    struct plenum_error err = {.text = ""};
    struct orderplan *plan = NULL;

    cr_assert(eq(int, orderplan_parse(text, "/here", &plan, &err), 0), "%s", err.text);
    return plan;
}

/* Checks that a plan has this canonical form, and that parsing this does not change it. */
static void becomes(const char *text, const char *want)
{
    struct orderplan *plan = parse(text), *again;

    cr_expect(eq(str, plan->text, (char *)want));
    again = parse(plan->text);
    cr_expect(eq(str, again->text, plan->text));
    orderplan_free(again);
    orderplan_free(plan);
}

/* Checks that a plan is rejected with a message that contains `want`. */
static void refused(const char *text, const char *want)
{
    struct plenum_error err = {.text = ""};
    struct orderplan *plan;

    cr_expect(eq(int, orderplan_parse(text, "/here", &plan, &err), -EINVAL), "%s", text);
    cr_expect(ne(ptr, strstr(err.text, want), NULL), "'%s' is not in '%s'", want, err.text);
}

Test(orderplan, has_one_spelling_for_each_meaning)
{
    becomes("set a 1 tar:s3://bucket/x.tar\n", "set a 1 tar:s3://bucket/x.tar\n");
    becomes("set photos 7 folder:photos\nset art 2 tar:/data/art.tar\n",
            "set photos 7 folder:/here/photos\nset art 2 tar:/data/art.tar\n");
    becomes("# weights are shares\n\nset a 0.7 /x\n set b  1/5  /y  \r\nset c 0.1 /z\n",
            "set a 7 /x\nset b 2 /y\nset c 1 /z\n");
    becomes("set a 14 /x\nset b 4 /y\nset c 2 /z\nblock 64\nlabels names\n",
            "set a 7 /x\nset b 2 /y\nset c 1 /z\n");
    becomes("epoch b\nblock 8\nset a 1 repeat=3 shuffle=block:16 /x\nset b 1 shuffle=none "
            "repeat=1 /y y\nat 16 b 2\nat 24 b 0.5 a 1.5\nlabels stack\n",
            "set a 1 shuffle=block:16 repeat=3 /x\nset b 1 shuffle=none /y y\nblock 8\nepoch b\n"
            "labels stack\nat 16 b 1\nat 24 a 3 b 1\n");
    becomes("set a 1 /x\nset b 1 /y\nskip 10 20\nskip 30 31\n",
            "set a 1 /x\nset b 1 /y\nskip 10 20\nskip 30 31\n");
}

Test(orderplan, samples_have_selections_and_weights)
{
    becomes("set a 1 select=\"label  0..9 and not names list.txt\" /x\n",
            "set a 1 select=\"label 0..9 and not names /here/list.txt\" /x\n");
    becomes("set a 1 weights=file:w.npy draw=independent epoch=100 /x\n",
            "set a 1 weights=\"file:/here/w.npy\" draw=independent epoch=100 /x\n");
    becomes("set a 1 select=\"class 'guinea pig'\" weights=class:1/2 draw=quota /x\n",
            "set a 1 select=\"class 'guinea pig'\" weights=\"class:1/2\" /x\n");
    becomes("set a 1 select=\"name \\\"x\\\"\" /x\n", "set a 1 select=\"name \\\"x\\\"\" /x\n");
    becomes("set a 1 /x\nset b 1 /y\nstratify set\nblock 32\n",
            "set a 1 /x\nset b 1 /y\nblock 32\nstratify set\n");
    becomes("set a 1 /x\nstratify label\nblock 64\n", "set a 1 /x\nblock 64\nstratify label\n");
    becomes("set a 1 /x\nblock 64\nbalance label\n", "set a 1 /x\nblock 64\nbalance label\n");
    becomes("set a 1 /x\nbalance label each=4 classes=32\n",
            "set a 1 /x\nbalance label classes=32 each=4\n");
}

/* A ramp is a series of pieces: each begins at a multiple of the block, and the last has the final
 * weights. */
Test(orderplan, ramps_are_pieces)
{
    struct orderplan *plan =
        parse("set a 1 /x\nset b 1 /y\nblock 10\nramp 100 210 4 a 1 b 3\nat 300 b 1\n");

    cr_assert(eq(u32, plan->num_pieces, 6));
    for (uint32_t j = 1; j < 5; j++) {
        const uint32_t *w = plan->pieces[j].weights;
        double share = (double)w[0] / ((double)w[0] + w[1]);

        cr_expect(eq(u64, plan->pieces[j].start % 10, 0));
        cr_expect(share > 0.5 - 0.0625 * j - 1e-6 && share < 0.5 - 0.0625 * j + 1e-6);
    }
    cr_expect(eq(u64, plan->pieces[1].start, 100));
    cr_expect(eq(u32, plan->pieces[4].weights[0], 1));
    cr_expect(eq(u32, plan->pieces[4].weights[1], 3));
    becomes(plan->text, plan->text);
    orderplan_free(plan);
}

Test(orderplan, is_not_a_name_with_a_line_feed)
{
    cr_expect(orderplan_is("set a 1 folder:/x\n"));
    cr_expect(orderplan_is("\n# see http://host/\nset a 1 folder:/x\n"));
    cr_expect(not(orderplan_is("folder:/x")));
    cr_expect(not(orderplan_is("/no\nwhere")));
    cr_expect(not(orderplan_is("folder:no\nwhere")));
}

Test(orderplan, refuses_what_it_does_not_understand)
{
    refused("block 8\n", "no line 'set'");
    refused("sets a 1 /x\n", "a line begins with set, block");
    refused("set a 1 /x\nset b -1 /y\n", "plan, line 2: a weight must be a number");
    refused("set a 1 /x\nset b 1/0 /y\n", "a weight must be a number");
    refused("set a 4294967296 /x\n", "from 0 to 4294967295 and with at most nine digits");
    refused("set a 0.1234567890 /x\n", "at most nine digits");
    refused("set a 0 /x\nset b 0 /y\n", "all weights are 0");
    refused("set a 4294967295 /x\nset b 4294967294 /y\n", "exceed 2^32");
    refused("set a 1 /x\nset a 1 /y\n", "two sets named 'a'");
    refused("set a/b 1 /x\n", "a set's name has at most 63 letters");
    refused("set a 1\n", "the data set of 'a' is missing");
    refused("set a 1 folder:\n", "the data set of 'a' is missing");
    refused("set a 1 ftp://host/x\n", "URL");
    refused("set a 1 repeat=0 /x\n", "repeat=0");
    refused("set a 1 repeat=2 repeat=3 /x\n", "repeat is given twice");
    refused("set a 1 selct=\"label 1\" /x\n",
            "line 1: a set has no key 'selct': did you mean 'select'?");
    refused("set a 1 replabel=/y /x\n", "did you mean 'relabel'?");
    refused("set a 1 colour=red /x\n", "a set has no key 'colour', only shuffle, repeat, select");
    refused("set a 1 x=y\n", "a set has no key 'x'");
    refused("sett a 1 /x\n", "not 'sett': did you mean 'set'?");
    refused("set a 1 /x\nset b 1 /y\nblok 8\n", "line 3: a line begins with");
    refused("set a 1 /x\nset b 1 /y\nblok 8\n", "not 'blok': did you mean 'block'?");
    refused("set a 1 /x\nset b 1 /y\nlabels stack\nlabels names\n", "labels is given twice");
    refused("set a 1 /x\nset b 1 /y\nblock 8\nblock 8\n", "block is given twice");
    refused("set a 1 /x\nset b 1 /y\nepoch 8\nepoch a\n", "epoch is given twice");
    refused("set a 1 /x\nstratify set\nstratify set\n", "stratify is given twice");
    refused("set a 1 /x\nbalance label\nbalance label\n", "balance is given twice");
    refused("set a 1 /x\nbalance label classes=2 classes=3\n", "classes is given twice");
    refused("set 100 1 /x\nset b 1 /y\nepoch 100\n",
            "'epoch 100' is ambiguous: it is a number of positions and also");
    refused("set a 1 relabel= /x\n", "relabel= is empty");
    refused("set a 1 shuffle=some /x\n", "shuffle 'some'");
    refused("set a 1 select=\"label 1 /x\n", "a quotation mark is missing");
    refused("set a 1 /x\nset b 1 /y\nblock 0\n", "block must be at least 1");
    refused("set a 1 /x\nset b 1 /y\nepoch c\n", "epoch must be the name of a set");
    refused("set a 0 /x\nset b 1 /y\nepoch a\nat 64 a 1\n",
            "an epoch cannot show all of 'a', which has weight 0 at first");
    refused("set a 1 /x\nset b 1 /y\nepoch 4294967295\n", "of 1 to 4294967294 positions");
    refused("set a 1 /x\nset b 1 /y\nlabels none\n", "labels must be");
    refused("set a 1 /x\nset b 1 /y\nat 64 c 1\n", "no set named 'c'");
    refused("set a 1 /x\nset b 1 /y\nat 64 a 1 a 2\n", "named twice");
    refused("set a 1 /x\nset b 1 /y\nat 64\n", "all weights are 0");
    refused("set a 1 /x\nset b 1 /y\nat 64 a 1\nat 64 b 1\n", "pieces must be in order");
    refused("set a 1 /x\nset b 1 /y\nat 0 a 1\n",
            "line 3: weights at position 0 are in the lines 'set': a piece begins later");
    refused("set a 1 /x\nset b 1 /y\nramp 64 192 3 a 1\n",
            "a ramp needs steps, each of at least block = 64 positions: from 64 to 192 at most 2 "
            "steps fit, not 3");
    refused("set a 1 /x\nset b 1 /y\nblock 1\nramp 0 999 0 a 1\n", "at most 256 steps fit, not 0");
    refused("set a 1 /x\nset b 1 /y\nramp 64 64 3 a 1\n",
            "a ramp from position 64 must end after it, not at 64");
    refused("set a 1 /x\nset b 1 /y\nblock 12.5\n", "block must be a whole number of at most");
    refused("set a 1 /x\nset b 1 /y\nramp 60 192 2 a 1\n",
            "a ramp begins at position 60, which is not a multiple of block = 64: the next is 64");
    refused("set a 1 /x\nset b 1 /y\nramp 64 200 2 a 1\n",
            "a ramp ends at position 200, which is not a multiple of block = 64: the next is 256");
    refused("set a 1 /x\nset b 1 /y\nskip 5 5\n", "A < B");
    refused("set a 1 /x\nset b 1 /y\nskip 5 9\nskip 9 12\n", "in order and apart");
}

/* The weights of samples change at passes of their set. */
Test(orderplan, has_weights_of_samples)
{
    char many[32 * (ORDERPLAN_REWEIGHS_MAX + 2)] = "set a 1 /x\n";
    struct orderplan *plan;

    becomes("weights 3 b class\nset a 1 draw=independent /x\nset b 1 /y\n"
            "weights 1 a \"file:w x.npy\"\nweights 7 a repeat:file:/q\n",
            "set a 1 draw=independent /x\nset b 1 /y\nweights 1 a \"file:/here/w x.npy\"\n"
            "weights 7 a \"repeat:file:/q\"\nweights 3 b \"class\"\n");
    for (size_t i = 1, n = strlen(many); i <= ORDERPLAN_REWEIGHS_MAX + 1; i++) {
        if (i == ORDERPLAN_REWEIGHS_MAX + 1) {
            plan = parse(many);
            cr_expect(eq(u32, plan->num_reweighs, ORDERPLAN_REWEIGHS_MAX));
            orderplan_free(plan);
        }
        n += (size_t)snprintf(many + n, sizeof(many) - n, "weights %zu a class\n", i);
    }
    refused(many, "a plan changes the weights of samples at most 256 times");
    refused("set a 1 /x\nweights 0 a class\n", "weights of pass 0 are in the line of the set");
    refused("set a 1 /x\nweights 2 b class\n", "there is no set named 'b'");
    refused("set a 1 /x\nweights 2 a class\nweights 2 a class\n",
            "in the order of passes, each once");
    refused("set a 1 /x\nweights 3 a class\nweights 2 a class\n",
            "in the order of passes, each once");
    refused("set a 1 /x\nweights 3 a\n", "a rule is missing");
    refused("set a 1 /x\nweights 3 a class 4\n", "'4' is not understood here");
    refused("set a 1 /x\nweights 3 a \"\"\n", "a rule is missing");
    refused("set a 1 /x\nweights a 3 class\n", "the pass must be a whole number");
}

Test(orderplan, a_piece_begins_with_a_block)
{
    refused(
        "set a 1 /x\nset b 1 /y\nat 1000 a 1\n",
        "a piece begins at position 1000, which is not a multiple of block = 64: the next is 1024");
}

Test(orderplan, refuses_what_does_not_go_together)
{
    refused("set a 1 draw=independent /x\n", "draw= and epoch= need weights=");
    refused("set a 1 weights=class repeat=2 /x\n", "repeat= and shuffle= cannot be used");
    refused("set a 1 weights=class /x\nstratify label\nblock 8\n",
            "weights= cannot be used with stratify and balance");
    refused("set a 1 weights=class /x\nbalance label\nblock 8\n",
            "weights= cannot be used with stratify and balance");
    refused("set a 1 /x\nstratify label\nbalance label\nblock 8\n", "cannot be used together");
    refused("set a 1 /x\nset b 2 /y\nstratify set\nblock 8\n", "weights must be equal");
    refused("set a 1 /x\nset b 1 /y\nstratify set\nblock 8\nat 64 a 1\n", "'at' and 'ramp'");
    refused("set a 1 /x\nstratify label\n", "need block");
    refused("set a 1 /x\nbalance label classes=4\n", "both classes=P and each=K");
    refused("set a 1 /x\nbalance label classes=4 each=2\nblock 8\n", "leave block out");
    refused("set a 1 /x\nstratify label\nblock 8\nepoch 100\n", "each sample once");
    refused("set a 1 /x\nat 64 a 1\n", "one set has no weights to change");
    refused("set a 1 /x\nblock 8\n", "block is for mixtures");
    refused("set a 1 /x\nepoch 8\n", "write epoch=N in its line");
    refused("set a 1 repeat=2 /x\nweights 1 a class\n", "repeat= and shuffle= cannot be used");
    refused("set a 1 epoch=9 /x\nweights 1 a class\n", "draw= and epoch= need weights=");
    refused("set a 1 /x\nstratify label\nblock 8\nweights 1 a class\n",
            "weights= cannot be used with stratify and balance");
}

static const char *const other_lines[] = {"\n", "block 8\n", "at 640 a 1\nset c 1 /z\n",
                                          "at x a 1\n", "weights a 1\n"};

/* New weights replace those that were planned at or after their first position. */
Test(orderplan, is_amended)
{
    struct orderplan *plan = parse("set a 1 /x\nset b 1 /y\nat 64 a 1\nat 640 b 1\nskip 5 9\n");
    struct orderplan *amended = NULL;
    struct plenum_error err;
    uint64_t from = 0;

    cr_assert(
        eq(int,
           orderplan_amend(plan, "# new\n at 640 a 3 b 1\nat 704 b 1", NULL, &amended, &from, &err),
           0),
        "%s", err.text);
    cr_expect(eq(u64, from, 640));
    cr_expect(
        eq(str, amended->text,
           (char *)"set a 1 /x\nset b 1 /y\nat 64 a 1\nat 640 a 3 b 1\nat 704 b 1\nskip 5 9\n"));
    orderplan_free(amended);
    cr_assert(
        eq(int, orderplan_amend(plan, "ramp 0 128 2 b 1\n", NULL, &amended, &from, &err), -EINVAL));
    cr_assert(
        eq(int, orderplan_amend(plan, "ramp 64 192 2 b 1\n", NULL, &amended, &from, &err), 0));
    cr_expect(eq(str, amended->text,
                 (char *)"set a 1 /x\nset b 1 /y\nat 64 a 1 b 3\nat 128 b 1\nskip 5 9\n"));
    orderplan_free(amended);
    for (size_t i = 0; i < ARRAY_LEN(other_lines); i++)
        cr_expect(
            eq(int, orderplan_amend(plan, other_lines[i], NULL, &amended, &from, &err), -EINVAL),
            "%s", other_lines[i]);
    orderplan_free(plan);
}

/* New weights of samples replace those of the same set from the same pass on, and nothing else. */
Test(orderplan, weights_of_samples_are_amended)
{
    struct orderplan *plan = parse("set a 1 /x\nset b 1 /y\nat 64 a 1\nweights 2 a class\n"
                                   "weights 5 a class:1/2\nweights 3 b class\n");
    struct orderplan *amended = NULL;
    struct plenum_error err;
    uint64_t from = 0;

    cr_assert(eq(int,
                 orderplan_amend(plan, " weights  4  a file:w.npy\nweights 9 a class\n", "/there",
                                 &amended, &from, &err),
                 0),
              "%s", err.text);
    cr_expect(eq(u64, from, UINT64_MAX));
    cr_expect(eq(str, amended->text,
                 (char *)"set a 1 /x\nset b 1 /y\nat 64 a 1\nweights 2 a \"class\"\n"
                         "weights 4 a \"file:/there/w.npy\"\nweights 9 a \"class\"\n"
                         "weights 3 b \"class\"\n"));
    orderplan_free(amended);
    cr_assert(eq(
        int, orderplan_amend(plan, "weights 1 b class\nat 64 b 1\n", NULL, &amended, &from, &err),
        0));
    cr_expect(eq(u64, from, 64));
    cr_expect(eq(str, amended->text,
                 (char *)"set a 1 /x\nset b 1 /y\nat 64 b 1\nweights 2 a \"class\"\n"
                         "weights 5 a \"class:1/2\"\nweights 1 b \"class\"\n"));
    orderplan_free(amended);
    cr_expect(eq(int, orderplan_amend(plan, "weights 1 c class\n", NULL, &amended, &from, &err),
                 -EINVAL));
    cr_expect(ne(ptr, strstr(err.text, "there is no set named 'c'"), NULL), "%s", err.text);
    orderplan_free(plan);
}

/* A loader accepts only absolute paths. */
Test(orderplan, loaders_need_absolute_paths)
{
    struct plenum_error err;
    struct orderplan *plan;

    cr_expect(eq(int, orderplan_parse("set a 1 folder:x\n", NULL, &plan, &err), -EINVAL));
    cr_expect(ne(ptr, strstr(err.text, "not absolute"), NULL));
    cr_expect(
        eq(int, orderplan_parse("set a 1 weights=file:w.npy /x\n", NULL, &plan, &err), -EINVAL));
    cr_assert(eq(int, orderplan_parse("set a 1 folder:/x\n", NULL, &plan, &err), 0));
    orderplan_free(plan);
}

Test(orderplan, is_read_from_a_file)
{
    char path[] = "/tmp/plenum-plan-XXXXXX", name[64], *text = NULL;
    int fd = mkstemp(path);
    struct plenum_error err;

    cr_assert(fd >= 0 && io_write_all(fd, "\xef\xbb\xbfset a 1 /x", 13) == 0);
    (void)snprintf(name, sizeof(name), "@%s", path);
    cr_assert(eq(int, orderplan_read(name, &text, &err), 0));
    cr_expect(eq(str, text, (char *)"set a 1 /x\n"));
    free(text);
    cr_assert(eq(int, io_write_all(fd, "\n\0set b 1 /y\n", 14), 0)); /* not a plan of `a` alone */
    cr_expect(eq(int, orderplan_read(name, &text, &err), -EINVAL));
    cr_expect(ne(ptr, strstr(err.text, "contains a zero byte: is it a text file?"), NULL));
    (void)unlink(path);
    cr_expect(eq(int, orderplan_read(name, &text, &err), -ENOENT));
    cr_assert(eq(int, orderplan_read("folder:/x", &text, &err), 0));
    cr_expect(not(orderplan_is(text)));
    free(text);
    io_close(&fd);
}

Test(orderplan, has_a_short_name)
{
    struct orderplan *plan = parse("set photos 7 /x\nset art 2 /y\n");
    char text[16];

    cr_expect(eq(str, orderplan_describe(plan, text, sizeof(text)), (char *)"mixture of phot"));
    orderplan_free(plan);
}
