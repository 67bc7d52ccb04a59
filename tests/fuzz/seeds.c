/* SPDX-License-Identifier: MIT */
/* seeds.c - writes an initial corpus for fuzz_TARGET to a folder: seeds TARGET FOLDER. */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/util/util.h"
#include "common/net/wire.h"
#include "launcher/control/control.h"
#include "libdist/collectives/comm_header.h"
#include "loader/dataset/index_builder.h"
#include "loader/dataset/hint_cache.h"
#include "loader/dataset/tar_writer.h"
#include "tests/records.h"

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
                                    .width = 224,
                                    .height = 160,
                                    .slots = 5};
    static struct wire_fields fields = {
        .field = {{.type = PLENUM_FIELD_TEXT, .room = 99},
                  {.type = PLENUM_FIELD_FLOAT16, .dims = 2, .shape = {3, 4}, .room = 24},
                  {.type = PLENUM_FIELD_UINT8, .room = 1, .mask = 1},
                  {.type = PLENUM_FIELD_BOXES, .room = 8 + 3 * 32},
                  {.type = PLENUM_FIELD_KEYPOINTS,
                   .dims = 2,
                   .shape = {3, 17},
                   .room = 8 + 3 * (16 + 12 * 17 + 4)},
                  {.type = PLENUM_FIELD_INSTANCES, .dims = 1, .shape = {3}, .room = 8 + 3 * 16}}};
    struct wire_slot slot;

    (void)wire_slot_init(&open, &slot);
    open.slot_bytes = slot.bytes;
    wire_hello_init(&hello, "job 1 instance 2");
    (void)wire_put_hello(b, &hello);
    (void)wire_put_open(b, 1, &open);
    open.mix = true;
    (void)wire_slot_init(&open, &slot);
    open.slot_bytes = slot.bytes;
    (void)wire_put_open(b, 1, &open);
    open.mix = false;
    open.views = 2;
    open.view[0] = (struct wire_view){2, 160, 224};
    open.view[1] = (struct wire_view){8, 96, 96};
    open.geometry = true;
    (void)wire_slot_init(&open, &slot);
    open.slot_bytes = slot.bytes;
    (void)wire_put_open(b, 1, &open);
    (void)snprintf(open.fields, sizeof(open.fields),
                   "a:txt:text,b:c.npy:npy,m:m.png:mask,o:json:boxes:0.2500,"
                   "k:json:keypoints:1-2 3-4,i:json:instances:0.2500");
    open.num_fields = fields.count = 6;
    memcpy(open.field, fields.field, sizeof(open.field));
    (void)wire_slot_init(&open, &slot);
    open.slot_bytes = slot.bytes;
    (void)wire_put_open(b, 1, &open);
    open.views = open.height = open.width = 0; /* for the pipeline "none" */
    (void)snprintf(open.pipeline, sizeof(open.pipeline), "v1 none");
    (void)snprintf(open.fields, sizeof(open.fields), "a:txt:text,b:c.npy:npy");
    open.num_fields = 2;
    (void)wire_slot_init(&open, &slot);
    open.slot_bytes = slot.bytes;
    (void)wire_put_open(b, 1, &open);
    (void)wire_put_fields(b, 1, &fields);
    (void)wire_put_ask_fields(b, 1,
                              &(struct wire_ask_fields){.dataset = "tar:/x", .fields = "a:txt"});
    (void)wire_put_opened(b, 1, &(struct wire_opened){.samples = 1000, .classes = 10});
    (void)wire_put_render(
        b, 2,
        &(struct wire_render){
            .epoch = 1, .position = 16, .slot = 3, .waited_ns = 5, .per_step = 64, .offset = 16});
    (void)wire_put_done(b, 2, &(struct wire_done){.status = -5, .text = "cannot read"});
    (void)wire_put_stats(b, 3, &(struct wire_stats){.samples = 7});
    (void)wire_put_error(b, 4, &(struct wire_error){.code = -2, .text = "no such data set"});
    (void)wire_put_status(
        b, 5,
        &(struct wire_status){.version = "0.1.0", .threads = 2, .lanes = 1, .lane = {{2, 1, 99}}});
    (void)wire_put_status_stream(
        b, 5, &(struct wire_status_stream){.client = "job 1", .bound = WIRE_BOUND_CPU});
    (void)wire_put_progress(b, 4, &(struct wire_progress){.done = 1, .total = 2, .text = "x"});
    (void)wire_put_ask_name(b, 5, &(struct wire_ask_name){.number = 17});
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
    for (; (n = frame_parse(b.bytes + at, b.len - at, WIRE_MAX_PAYLOAD, &h, &r)) > 0;
         at += (size_t)n)
        write_seed(b.bytes + at, (size_t)n);
    frame_buffer_fini(&b);
}

static void text_seeds(void)
{
    static const char *const texts[] = {
        "caption:txt, vector:clip.npy:npy,ids : json.ids:int64",
        "a:json:boxes:0.25,b:json.c:boxes",
        "k:json:keypoints:coco,l:json.c:keypoints:1-2 3-4",
        "i:json:instances,j:json.c:instances:0.25",
        "train",
        "scale_jitter(64x32, 0.1:2, fill=1:2:3, interpolation=bicubic) hsv(0.015, 0.7, 0.4)",
        "zoom_out(1:4, fill=9, p=0.5) letterbox(64)",
        "zoom_out(1:4) iou_crop(scale=0.3:1, ratio=1/2:2, boxes=objects) resize(30x20)",
        "eval",
        "none",
        "v1 exif rrc(160, scale=0.25:1, ratio=3/4:4/3) flip(0.5)",
        "resize(256) center_crop(224) flip(1/3)",
        "rrc(24) mixup(0.2)",
        "mosaic(24x32, block=16, fill=0, interpolation=bicubic) flip(0.5) mixup(0.2)",
        "rrc(24) invert(0.1) mix(mixup=0.8, cutmix=1, p=0.9, switch=0.3)",
        "block:1024",
        "set a 0.7 select=\"label 0..9 and not names x.txt\" folder:x\nset b 1/3 repeat=2 "
        "shuffle=block:8 /y\nblock 8\nepoch a\nlabels stack\nat 16 a 1\n"
        "ramp 24 80 3 b 1\nskip 3 5\n",
        "set a 1 weights=file:w.npy draw=independent epoch=9 generated:5\n",
        "set a 1 draw=independent generated:5\nweights 2 a file:w.npy\nweights 9 a class\n",
        "set a 1 /x\nbalance label classes=4 each=2\nstratify set\n",
        "tfrecord,label=image/label,label-offset=-1:/data/x-{000..146}.tar",
        "generated:folder:/data/{a,b{1..3}}",
        "100:2000",
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

static void hint_cache_seeds(void)
{
    const struct hint_cache_key subject = {.samples = 4, .bytes = 8192 * 25};
    char *path = str_format("%s/hint_cache", folder);
    static uint8_t bytes[8192];
    struct hint_cache *cache;
    FILE *f;

    for (size_t i = 0; i < sizeof(bytes); i++) /* tiles of 772 bits, and some of 1000 */
        bytes[i] = i % 100 == 1 ? 232 : i % 2 ? 3 : 4;
    if (!path || hint_cache_make(path, &subject, &cache) < 0)
        exit(1);
    for (uint32_t i = 0; i < 3; i++)
        (void)hint_cache_put(cache, i, bytes, 100 * (i + 1), 400, 0);
    hint_cache_close(cache);
    f = fopen(path, "rb");
    write_seed(bytes, f ? fread(bytes, 1, sizeof(bytes), f) : 0);
    (void)fclose(f);
    (void)unlink(path);
    free(path);
}

static void index_seeds(void)
{
    struct index_builder b = {0};
    struct index index;

    (void)index_builder_add_class(&b, "cats");
    (void)index_builder_add_class(&b, "dogs");
    (void)index_builder_add_container(
        &b, ".", &(struct stamp){.mtime_ns = 5, .content = 7, .flags = STAMP_SETTLED});
    (void)index_builder_add_container(&b, "cats", &(struct stamp){.mtime_ns = 6});
    for (int i = 0; i < 3; i++)
        (void)index_builder_add_sample(
            &b, &(struct index_sample){.len = 10, .container = 1, .label = i % 2}, "x.jpg");
    if (index_build(&b, 1, &index) < 0)
        exit(1);
    index_set_head(&index, 0, &(struct index_head){.sample = 2, .stamp = {.mtime_ns = 8}});
    index_set_sum(&index, &(struct datasum){.samples = 3, .classes = 2},
                  &(struct index_checked){.deep = 1});
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
        "node1\nnode1\nnode-2.example\n",                                  /* PBS, OAR, Cobalt */
        "n1.example 4 all.q@n1.example UNDEFINED\nn2 2 all.q@n2 <NULL>\n", /* SGE */
        "fluke[2-3,7]",                                                    /* flux hostlist local */
        "# hosts\na slots=2 user=me port=22\nb\n",
        "# options\nhost = a,b:2\ntag-output =\nexport = \"A=1 2\"\nsmt: off\nverbose\n",
        ("plenumrun-probe\nversion 0.1.0\ntime 1500\ndirectory 0\nprogram 0\nmemory 5 7\naddress "
         "eth0 10.1.2.3/16 reached\nback 10.1.2.9 0\nend\n"),
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
                                .loader_key = (char *)"0a1b",
                                .place_instances = 2,
                                .place = (char *)"a-0",
                                .place_job = (char *)"job",
                                .place_key = (char *)"0c1d",
                                .argv = argv};
    struct control_keep keep = {.address = (char *)"0.0.0.0:0", .key = (char *)"0a1b"};
    const struct control_started started = {.pid = 1, .cpus = (char *)"0", .nodes = (char *)""};
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
    keep.environment = plan.environment;
    (void)control_put_keep(&b, &keep);
    write_seed(b.bytes + FRAME_HEADER_BYTES, b.len - FRAME_HEADER_BYTES);
    b.len = 0;
    (void)control_put_started(&b, &started);
    write_seed(b.bytes + FRAME_HEADER_BYTES, b.len - FRAME_HEADER_BYTES);
    environ_list_fini(&plan.environment);
    frame_buffer_fini(&b);
}

static void npy_seed(const char *descr, const char *shape, size_t len)
{
    static const char zeros[64];
    struct bytes seed = {0};
    char header[120];
    int n = snprintf(header, sizeof(header),
                     "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", descr, shape);

    bytes_put(&seed, "\x93NUMPY\1", 8);
    bytes_put(&seed, (char[]){(char)n, 0}, 2);
    bytes_put(&seed, header, (size_t)n);
    bytes_put(&seed, zeros, len);
    write_seed(seed.p, seed.len);
    bytes_fini(&seed);
}

static void npy_seeds(void)
{
    npy_seed("<f4", "(3, 5)", 60);
    npy_seed("<f2", "(7,)", 14);
    npy_seed("|u1", "()", 1);
    npy_seed("|b1", "(1, 2, 3, 4)", 24);
    npy_seed("<i8", "(0,)", 0);
}

static void json_seeds(void)
{
    static const char *const texts[] = {
        "{\"label\": 17}",
        "{\"meta\": {\"a\": [1, -2.5e3, true, null], \"label\": \"n01\"}}",
        "{\"label\": \"\\u00fc\\ud83d\\ude00\\n\"}",
        " [ ] ",
        "{\"a\": {\"b\": [{\"bbox\": [1, 2.5, 3, 4], \"category_id\": 5, \"id\": 6}]}}",
        "{\"objects\": [{\"bndbox\": {\"xmin\": 1, \"ymin\": 2, \"xmax\": 3, \"ymax\": 4}, "
        "\"category_id\": 5}]}",
        "{\"boxes\": [[1, 2, 3, 4]], \"labels\": [5]}",
        "{\"annotations\": [{\"keypoints\": [1, 2.5, 2, 3, 4, 1], \"category_id\": 5}, {}]}",
        "{\"keypoints\": [[[1, 2, 2], [0, 0, 0]], [1, 2, 1]], \"labels\": [5, 6]}",
        "[1, 2, 2, 3.5, 4.5, 1]",
        "[{\"segmentation\": [[1, 2.5, 3, 4, 5, 6], [0, 0, 9, 0, 9, 9]], \"category_id\": 5}]",
        "{\"annotations\": [{\"segmentation\": {\"size\": [3, 4], \"counts\": [2, 3, 7]}, "
        "\"bbox\": [0, 0, 2, 3], \"category_id\": 5}, {\"iscrowd\": 1}]}",
        "[{\"segmentation\": {\"size\": [30, 40], \"counts\": \"T3n0b1nn0\"}, \"category_id\": 5}]",
        "\xef\xbb\xbf{\"x\": [NaN, Infinity, -Infinity, 1e999], \"label\": 1.0}",
        "{\"x\": \"\\ud800\", \"label\": \"10\"}",
        "{\"x\": \"a\\u0000b\", \"label\": \"a\\u0000b\"}",
        "[[1, NaN], [2.5e-3]]",
        "-12.50e+2",
        "+1,000.5",
        "0x1f"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        write_seed(texts[i], strlen(texts[i]));
}

/* Write files of annotations. The first byte selects in which pieces they arrive. */
static void coco_seeds(void)
{
    static const char *const texts[] = {
        "\3{\"info\": {\"year\": 2017}, \"licenses\": [{\"id\": 1}], \"images\": [{\"id\": 7, "
        "\"file_name\": \"7.jpg\"}, {\"id\": 12, \"file_name\": \"\\u00fc.jpg\"}], "
        "\"annotations\": [{\"id\": 1, \"image_id\": 7, \"category_id\": 90, \"bbox\": [1, 2.5, 3, "
        "4e0], \"iscrowd\": 1, \"segmentation\": [[1, 2, 3]]}, {\"id\": 2, \"image_id\": 12, "
        "\"category_id\": 1, \"bbox\": [0, 0, 1, 1], \"keypoints\": [1, 2, 2]}], \"categories\": "
        "[{\"id\": 90, \"name\": \"toothbrush\"}, {\"id\": 1, \"name\": \"person\"}]}",
        "\1{\"images\":[],\"annotations\":[],\"categories\":[]}",
        "\2\xef\xbb\xbf{\"images\":[{\"file_name\":\"a\",\"id\":1}],\"categories\":[]}",
        "\100{\"a\":\"}\\\"]\",\"b\":[[{}],1,\"\",null]}"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        write_seed(texts[i], strlen(texts[i]));
}

/* Write data.yaml files and label files. */
static void yolo_seeds(void)
{
    static const char *const texts[] = {
        "path: ../coco8 # root\ntrain: images/train\nval: [images/val, 'a b.txt']\ntest: # none\n"
        "\nnames:\n"
        "  0: person\n  1: \"traffic light\"\ndownload: |\n  import x\n  y = {1: 2}\n",
        "---\ntrain:\n- ../train/images\n- ./b\nnc: 2\nnames: ['a', 'it''s',\n]\n"
        "roboflow:\n  license: x\n",
        "train: x\nnames: {0: a, 1: b}\nkpt_shape: [2, 3]\nflip_idx: [1, 0]\n",
        "0 0.5 0.5 0.25 1\r\n2 1e-1 .5 0.1 0.1\n\n",
        "1 0.1 0.1 0.9 0.1 0.5 0.75\n",
        "0 0.5 0.5 0.2 0.2 0.1 0.1 2 0.3 0.4 0\n",
        "0 0.5 0.5 0.2 0.2 0.1 0.1\n"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        write_seed(texts[i], strlen(texts[i]));
}

/* Write XML files of annotations. */
static void voc_seeds(void)
{
    static const char *const texts[] = {
        "<?xml version=\"1.0\"?>\n<annotation verified='yes'>\n<!-- a -->\n"
        "<folder>VOC</folder><size/>"
        "<object>\n<name>a&amp;b&#x41;</name><difficult>1</difficult><bndbox>"
        "<xmin>1</xmin><ymin>2.5</ymin><xmax> 30 </xmax><ymax>4e1</ymax></bndbox>"
        "<part><name>head</name><bndbox><xmin>1</xmin></bndbox></part></object>\n</annotation>\n",
        "\xef\xbb\xbf<annotation><object><name><![CDATA[x<y]]></name><truncated>1</truncated>"
        "<bndbox>"
        "<xmax>1</xmax><ymax>1</ymax><xmin>1</xmin><ymin>1</ymin></bndbox></object></annotation>",
        "<annotation/>"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        write_seed(texts[i], strlen(texts[i]));
}

/* Write archives. A byte after each selects where labels are (% 8) and which fields are
 * requested. */
static void tar_seeds(void)
{
    static const char *const labels[] = {"cls", "json", "txt"};
    static const char *const texts[] = {"7", "{\"label\":1,\"boxes\":[[1,2,3,4]],\"labels\":[5]}",
                                        "x"};
    static const uint8_t last[] = {0, 1, 2, 3, 4, 5, 6 + 8 * 5, 6 + 8 * 6, 7 + 8 * 7, 4 + 8 * 6};

    for (unsigned i = 0; i < ARRAY_LEN(last); i++) {
        char *path = str_format("%s/seed-%02u", folder, number++), name[300];
        struct tar_writer *w;
        struct tar_written written;
        unsigned kind = i < 6 ? i % 3 : i % 3 == 0 ? 0 : 1;
        FILE *f;

        if (tar_writer_create(path, &w, NULL) < 0)
            exit(1);
        for (unsigned k = 0; k < 3; k++) {
            (void)snprintf(name, sizeof(name), "a/%0*u.jpg", i == 5 ? 180 : 4, k);
            (void)tar_writer_add(w, name, "image", 5, NULL);
            (void)snprintf(strrchr(name, '.'), 8, ".%s", labels[kind]);
            (void)tar_writer_add(w, name, texts[kind], strlen(texts[kind]), NULL);
        }
        (void)tar_writer_finish(w, &written, NULL);
        tar_writer_destroy(w);
        f = fopen(path, "ab");
        if (!f || fputc(last[i], f) < 0 || fclose(f) != 0)
            exit(1);
        free(path);
    }
}

/* Write lists of bad samples. fuzz_badlist.c appends a correct last line if the first byte is
 * even. */
static void badlist_seeds(void)
{
    static const char *const texts[] = {
        "# of\nfingerprint 00000000000000000000000000000000\nbad 3 x\nbad 17 it is cut off\n",
        "# of\nfingerprint 00000000000000000000000000000000\n",
        "# of\nfingerprint 10000000000000000000000000000000\nbad 3 x\n",
        "# of\nfingerprint 00000000000000000000000000000000\nbad 3 junk: x\n"
        "bytes 0f1e2d3c4b5a6978\nbad 9 it is empty\nbytes ffffffffffffffff\nbad 17 x\n"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        char *seed = str_format("0%s", texts[i]);

        write_seed(seed, strlen(seed));
        free(seed);
    }
}

/* Write seeds for fuzz_store.c, whose first byte selects the reader. */
static void store_seeds(void)
{
    static const char *const texts[] = {
        "0<?xml version=\"1.0\"?><ListBucketResult xmlns=\"x\"><IsTruncated>true</IsTruncated>"
        "<Contents><Key>a&amp;b&#x41;</Key><LastModified>2009-10-12T17:50:30.000Z</LastModified>"
        "<ETag>&quot;e-1&quot;</ETag><Size>12</Size></Contents><NextContinuationToken>t</"
        "NextContinuationToken></ListBucketResult>",
        "1<Error><Code>AccessDenied</Code><Message>no</Message><RequestId>4</RequestId></Error>",
        "2[default]\naws_access_key_id = A\naws_secret_access_key=s\n[profile x]\nregion = eu\n",
        "3HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 100-199/1000\r\nETag: \"v1\"\r\n"
        "Content-Length: 100\r\nLast-Modified: Wed, 12 Oct 2009 17:50:00 GMT\r\nRetry-After: 3\r\n",
        "4s3://bucket/a/b.tar",
        "4https://user@host:8080/a%20b/../c?d#e",
        "5{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"s\\/\",\"Token\":\"t\",\"Expiration\":"
        "\"2036-01-01T00:00:00Z\"}",
        "6<A><SessionToken>t</SessionToken><AccessKeyId>A</AccessKeyId><SecretAccessKey>s</"
        "SecretAccessKey><Expiration>2036-01-01T00:00:00Z</Expiration></A>"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        write_seed(texts[i], strlen(texts[i]));
}

/* Write rows, most of which get a checksum (fuzz_shelf.c). */
static void shelf_seeds(void)
{
    uint8_t rows[20][48] = {{0}};

    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        memset(rows[i], (int)i, 32);
        rows[i][32] = (uint8_t)(i + 1);
        rows[i][34] = (uint8_t)(i * i);
        rows[i][47] = i % 5 != 0;
    }
    rows[7][0] = 1;
    write_seed(rows, sizeof(rows));
    write_seed(rows, sizeof(rows[0]));
}

static void put_call(struct bytes *seed, const struct comm_header *call)
{
    bytes_put(seed, call, sizeof(*call));
}

/* Write the number of instances minus one, and a header of each. */
static void comm_header_seeds(void)
{
    const struct comm_header sum = {.version = COMM_HEADER_VERSION,
                                    .kind = COMM_ALLREDUCE,
                                    .number = 12,
                                    .bytes = 16,
                                    .type = PLENUM_FLOAT32,
                                    .op = PLENUM_SUM,
                                    .name = "allreduce",
                                    .what = "float32 (4,)"};
    struct comm_header calls[] = {sum, sum, sum, sum};
    struct bytes seed = {0};

    calls[1].op = PLENUM_MAX;
    calls[2].kind = COMM_BROADCAST;
    calls[2].root = 1;
    calls[3].number++;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++) {
        seed.len = 0;
        bytes_put(&seed, "\2", 1);
        put_call(&seed, &sum);
        put_call(&seed, &calls[i]);
        put_call(&seed, &sum);
        write_seed(seed.p, seed.len);
    }
    bytes_fini(&seed);
}

static void list_seeds(void)
{
    static const char *const texts[] = {"\0a.jpg 1\nb c.jpg 2\n# d 3\n\ne.jpg\tf\tg\n",
                                        "\1x\t1\ny\t2\n",
                                        "\2\"a, b\",1\r\n\"say \"\"c\"\"\",2\r\n",
                                        "\2number,label,path\n1,cat,a.jpg\n2,dog,b.jpg\n",
                                        "\26label,path\n3,a.jpg\n",
                                        "\52a,b,c\n1,2,3\n",
                                        "\102text,n\na,1\n\"b\nc\",2\n",
                                        "\120text,label\na,1\n"};

    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        write_seed(texts[i], 1 + strlen(texts[i] + 1));
}

/* Write seeds for fuzz_tfrecord.c: an even byte and the Example of one record, or an odd byte and
 * a whole file. */
static void tfrecord_seeds(void)
{
    struct bytes file = {0}, seed = {0};

    record_put_image(&file, "an image", 8, 3, "name.jpg");
    bytes_put(&seed, "\0", 1);
    bytes_put(&seed, file.p + 12, file.len - 16);
    write_seed(seed.p, seed.len);
    seed.p[0] = 4;
    write_seed(seed.p, seed.len);
    seed.p[0] = 6;
    write_seed(seed.p, seed.len);
    seed.p[0] = 8; /* image=none */
    write_seed(seed.p, seed.len);
    record_put_image(&file, "another", 7, 300, NULL);
    seed.len = 0;
    bytes_put(&seed, "\1", 1);
    bytes_put(&seed, file.p, file.len);
    write_seed(seed.p, seed.len);
    bytes_fini(&file);
    bytes_fini(&seed);
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
    else if (strcmp(argv[1], "hint_cache") == 0)
        hint_cache_seeds();
    else if (strcmp(argv[1], "badlist") == 0)
        badlist_seeds();
    else if (strcmp(argv[1], "comm_header") == 0)
        comm_header_seeds();
    else if (strcmp(argv[1], "list") == 0)
        list_seeds();
    else if (strcmp(argv[1], "tfrecord") == 0)
        tfrecord_seeds();
    else if (strcmp(argv[1], "launcher") == 0)
        launcher_seeds();
    else if (strcmp(argv[1], "coco") == 0)
        coco_seeds();
    else if (strcmp(argv[1], "yolo") == 0)
        yolo_seeds();
    else if (strcmp(argv[1], "voc") == 0)
        voc_seeds();
    else if (strcmp(argv[1], "json") == 0)
        json_seeds();
    else if (strcmp(argv[1], "npy") == 0)
        npy_seeds();
    else if (strcmp(argv[1], "store") == 0)
        store_seeds();
    else if (strcmp(argv[1], "shelf") == 0)
        shelf_seeds();
    else if (strcmp(argv[1], "tar") == 0)
        tar_seeds();
    else
        return 2;
    return 0;
}
