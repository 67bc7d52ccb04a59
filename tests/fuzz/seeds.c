/* seeds.c - writes a first corpus for a fuzz target into a folder: seeds wire|text|index|launcher|settings FOLDER. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/util.h"
#include "common/wire.h"
#include "launcher/control.h"
#include "loader/dataset/index.h"

static const char *folder;
static unsigned number;

static void write_seed(const void *bytes, size_t len)
{
    char *path = str_format("%s/seed-%02u", folder, number++);
    FILE *f = path ? fopen(path, "wb") : NULL;

    if (!f || fwrite(bytes, 1, len, f) != len || fclose(f) != 0) {
        perror(folder);
        exit(1);
    }
    free(path);
}

static void put_all(struct frame_buffer *b)
{
    struct wire_hello hello;
    static struct wire_open open = {.dataset = "folder:/data/train",
                                    .pipeline = "v1 rrc(224,scale=2/25:1,ratio=3/4:4/3) flip(1/2)",
                                    .seed = 42,
                                    .shuffle = ORDER_BLOCK,
                                    .block = 64,
                                    .per_step = 16,
                                    .local = 8,
                                    .offset = 8,
                                    .steps = 2,
                                    .channels = 3,
                                    .side = 224,
                                    .slots = 5};
    struct wire_slot slot;

    (void)wire_slot_init(&open, &slot);
    open.slot_bytes = slot.bytes;
    wire_hello_init(&hello, "job 1 instance 2");
    (void)wire_put_hello(b, &hello);
    (void)wire_put_open(b, 1, &open);
    (void)wire_put_opened(b, 1, &(struct wire_opened){.samples = 1000, .classes = 10});
    (void)wire_put_render(b, 2, &(struct wire_render){1, 16, 3, 5});
    (void)wire_put_done(b, 2, &(struct wire_done){.status = -5, .text = "cannot read"});
    (void)wire_put_stats(b, 3, &(struct wire_stats){.samples = 7});
    (void)wire_put_error(b, 4, &(struct wire_error){.code = -2, .text = "no such data set"});
    (void)wire_put_status(b, 5, &(struct wire_status){.version = "0.1.0", .threads = 2, .lanes = 1, .lane = {{2, 1, 99}}});
    (void)wire_put_status_stream(b, 5, &(struct wire_status_stream){.client = "job 1", .bound = WIRE_BOUND_CPU});
    (void)wire_put_progress(b, 4, &(struct wire_progress){.done = 1, .total = 2, .text = "x"});
    (void)wire_put_ask_name(b, 5, &(struct wire_ask_name){.sample = 17});
    (void)wire_put_name(b, 5, &(struct wire_name){.text = "/data/train/a/1.jpg"});
    (void)wire_put_empty(b, WIRE_CANCEL, 2);
}

static void wire_seeds(void)
{
    struct frame_buffer b = {0};
    struct frame_header h;
    struct frame_reader r;
    size_t at = 0;
    int64_t n;

    put_all(&b);
    write_seed(b.bytes, b.len);
    for (; (n = frame_parse(b.bytes + at, b.len - at, WIRE_MAX_PAYLOAD, &h, &r)) > 0; at += (size_t)n)
        write_seed(b.bytes + at, (size_t)n);
    frame_buffer_fini(&b);
}

static void text_seeds(void)
{
    static const char *const texts[] = {"train",
                                        "eval",
                                        "v1 exif rrc(160, scale=0.25:1, ratio=3/4:4/3) flip(0.5)",
                                        "resize(256) center_crop(224) flip(1/3)",
                                        "block:1024",
                                        "global",
                                        "unix:/run/plenum/plenumd.sock,unix:@plenum-1",
                                        "512M",
                                        "500ms"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        write_seed(texts[i], strlen(texts[i]));
}

static void settings_seeds(void)
{
    static const char *const texts[] = {"# all is well\nsocket = unix:@x\nthreads=4 ; four\n\n",
                                        "ring-limit = 2G\n drain-timeout: 500ms\nall-cpus = yes",
                                        "[section]\nkey = value\nthreads = 0\nthreads = 9\n",
                                        "garbage\n=\nsocket =\nall-cpus = maybe\n"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        write_seed(texts[i], strlen(texts[i]));
}

static void index_seeds(void)
{
    struct index_builder b = {0};
    struct index index;

    (void)index_builder_add_class(&b, "cats");
    (void)index_builder_add_class(&b, "dogs");
    (void)index_builder_add_container(&b, ".", 5, 0, INDEX_SETTLED);
    (void)index_builder_add_container(&b, "cats", 6, 0, 0);
    for (int i = 0; i < 3; i++)
        (void)index_builder_add_sample(
            &b, &(struct index_sample){.len = 10, .container = 1, .label = i % 2}, "x.jpg");
    if (index_build(&b, &index) < 0)
        exit(1);
    index_set_sum(&index, &(struct datasum){.samples = 3, .classes = 2});
    write_seed(index.header, index.bytes);
    index_close(&index);
    index_builder_fini(&b);
}

static void launcher_seeds(void)
{
    static const char *const texts[] = {
        "node[0-2,7]:4,me@spare:2222,[fd00::7]:2,b:22:3",
        "n[1-3],m\n2(x2),1,4",
        "a 4 b 2",
        "# hosts\na slots=2 user=me port=22\nb\n",
        "# options\nhost = a,b:2\ntag-output =\nexport = \"A=1 2\"\nsmt: off\nverbose\n",
        "plenumrun-probe\nversion 0.1.0\ntime 1500\ndirectory 0\nprogram 0\nmemory 5 7\naddress "
        "eth0 10.1.2.3/16 reached\nend\n",
        "eth0 10.1.2.3/16 virtual reached",
        "10.1.0.0/16",
        "cuda=0,1,GPU-8",
        "[%i@%h] %s %t",
        "0-3,8-11",
    };
    static char *argv[] = {(char *)"prog", (char *)"x", NULL};
    struct control_plan plan = {.directory = (char *)"/tmp",
                                .cpus = (char *)"0-3",
                                .nodes = (char *)"0",
                                .loader_cpus = (char *)"",
                                .argv = argv};
    const struct control_started started = {
        .pid = 1, .cpus = (char *)"0", .nodes = (char *)""};
    struct control_hello hello;
    struct frame_buffer b = {0};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        write_seed(texts[i], strlen(texts[i]));
    control_hello_init(&hello);
    (void)control_put_hello(&b, &hello);
    write_seed(b.bytes + FRAME_HEADER_BYTES, b.len - FRAME_HEADER_BYTES);
    b.len = 0;
    (void)environ_list_put(&plan.environment, ENVIRON_SET, "A", "1");
    (void)control_put_plan(&b, &plan);
    write_seed(b.bytes + FRAME_HEADER_BYTES, b.len - FRAME_HEADER_BYTES);
    b.len = 0;
    (void)control_put_started(&b, &started);
    write_seed(b.bytes + FRAME_HEADER_BYTES, b.len - FRAME_HEADER_BYTES);
    environ_list_fini(&plan.environment);
    frame_buffer_fini(&b);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    folder = argv[2];
    (void)mkdir(folder, 0777);
    if (strcmp(argv[1], "wire") == 0)
        wire_seeds();
    else if (strcmp(argv[1], "text") == 0)
        text_seeds();
    else if (strcmp(argv[1], "settings") == 0)
        settings_seeds();
    else if (strcmp(argv[1], "index") == 0)
        index_seeds();
    else if (strcmp(argv[1], "launcher") == 0)
        launcher_seeds();
    else
        return 2;
    return 0;
}
