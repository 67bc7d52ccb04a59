/* SPDX-License-Identifier: MIT */
/* fuzz_settings.c - reads arbitrary bytes as plenumd.conf. Each error is one line that names the
 * file, and a file without errors gives the same values when it is read again. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "loader/serve/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct target {
    const char *text;
    uint64_t bytes, time;
    uint32_t number;
    bool flag;
};

#define AT(field) offsetof(struct target, field)

static const struct option_def defs[] = {
    {"socket", 's', "ADDRESS", OPTION_TEXT, AT(text), 0, 0, .help = "text"},
    {"ring-limit", 0, "BYTES", OPTION_BYTES, AT(bytes), 1, 0, .help = "bytes"},
    {"drain-timeout", 0, "TIME", OPTION_DURATION, AT(time), 0, 0, .help = "time"},
    {"threads", 't', "N", OPTION_U32, AT(number), 1, 4096, .help = "number"},
    {"all-cpus", 0, NULL, OPTION_FLAG, AT(flag), 0, 0, .help = "flag"},
};
static const struct options_program program = {.name = "fuzz", .defs = defs, .count = 5};
static const char *const none[] = {NULL};
static const struct settings_rules rules = {.program = &program, .command_line_only = none};
static unsigned faults;

static void require(bool truth)
{
    if (!truth)
        abort();
}

static void on_fault(const char *sentence)
{
    require(strncmp(sentence, "f:", 2) == 0);
    faults++;
}

static int read_once(const uint8_t *data, size_t size, struct target *target,
                     struct settings_texts *texts)
{
    FILE *file = fmemopen((void *)(uintptr_t)data, size, "r");
    int r;

    require(file != NULL);
    faults = 0;
    r = settings_read_stream(file, "f", &rules, target, texts, on_fault);
    (void)fclose(file);
    require((r < 0) == (faults > 0));
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct settings_texts one_texts = {0}, two_texts = {0};
    struct target one = {0}, two = {0};

    if (size == 0)
        return 0;
    if (read_once(data, size, &one, &one_texts) == 0) {
        require(read_once(data, size, &two, &two_texts) == 0);
        require(one.bytes == two.bytes && one.time == two.time && one.number == two.number &&
                one.flag == two.flag);
        require(!one.text == !two.text && (!one.text || strcmp(one.text, two.text) == 0));
        require(one.number <= 4096);
    }
    settings_texts_fini(&one_texts);
    settings_texts_fini(&two_texts);
    return 0;
}
