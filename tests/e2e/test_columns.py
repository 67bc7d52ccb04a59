# SPDX-License-Identifier: MIT
"""Parquet files and MDS data sets: columns, fields, classes, and data sets that are rejected. If pyarrow, datasets or
streaming (MosaicML) is installed, the same is tested with files that it writes."""

import io
import itertools
import json
import os
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["top_srcdir"]
sys.path[:0] = [os.path.join(SOURCE, "tests", "python"), os.path.join(SOURCE, "tests", "e2e")]

import columns  # noqa: E402
import tap  # noqa: E402
from columns import BOOLEAN, BYTES, DOUBLE, I64, INT32, INT64, Column, Struct, mds, parquet  # noqa: E402

BUILD = os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
STREAM = ["--pipeline", "rrc(32)flip(0.5)", "--seed", "5"]


def setUpModule():
    global T, classes, pictures, want
    T = tempfile.mkdtemp(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = os.path.join(T, "cache")
    ctl("make-sample", at("data"), "--classes", "3", "--images", "8", "--size", "48")
    classes, pictures = columns.pictures(at("data"))
    want = ctl("hash", at("data"), *STREAM).split()[0]


def tearDownModule():
    shutil.rmtree(T)


def at(*parts):
    return os.path.join(T, *parts)


def ctl(*words):
    return subprocess.run([CTL, *words], check=True, capture_output=True, text=True, timeout=300).stdout


def sample(data, number):
    return json.loads(ctl("sample", data, str(number), "--json"))


def images():
    return [p[0] for p in pictures]


def labels():
    return [p[1] for p in pictures]


def module(name):
    found = tap.find(name)
    if found is None:
        raise unittest.SkipTest(f"{name} is not installed")
    return found


class Columns(unittest.TestCase):
    def refuses(self, data, *sentences):
        done = subprocess.run([CTL, "index", data], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 1, done.stdout)
        for sentence in sentences:
            self.assertIn(sentence, done.stderr)

    def same(self, data):
        self.assertEqual(ctl("hash", data, *STREAM).split()[0], want, data)

    def damaged(self, data, path, *sentences):
        """Check that truncated copies of a file are rejected, with the file's name."""
        with open(path, "rb") as f:
            whole = f.read()
        try:
            for size in (0, 3, 11, len(whole) // 2, len(whole) - 1):
                with open(path, "wb") as f:
                    f.write(whole[:size])
                self.refuses(data, path, *sentences)
        finally:
            with open(path, "wb") as f:
                f.write(whole)


class ParquetTest(Columns):
    def test_fields(self):
        """Parquet: other columns are fields, in every encoding; nulls are missing"""
        n = len(pictures)
        for codec, dictionary, version in itertools.product(("none", "snappy"), (False, True), (1, 2)):
            path = at(f"fields-{codec}-{dictionary}-{version}.parquet")
            parquet(path, [Column("image", BYTES, images()), Column("label", INT64, labels()),
                           Column("text", BYTES, [f"t{i % 3}".encode() if i % 5 else None for i in range(n)], codec,
                                  dictionary, text=True),
                           Column("number", INT32, [-i for i in range(n)], codec, dictionary, required=True),
                           Column("score", DOUBLE, [i / 4 for i in range(n)], codec),
                           Column("even", BOOLEAN, [i % 2 == 0 for i in range(n)], codec)], version, 7, 3)
            self.assertEqual(sample(path, 0)["fields"], {"label": "0", "number": "0", "score": "0", "even": "1"})
            for i in (1, 6, 7, 13, n - 1):
                fields = {"label": str(pictures[i][1]), "number": str(-i), "score": f"{i / 4:g}",
                          "even": str(1 - i % 2)}
                self.assertEqual(sample(path, i)["fields"], {**fields, **({"text": f"t{i % 3}"} if i % 5 else {})})
            hashes = ctl("hash", path, *STREAM, "--fields", "number:number:int64,s:score:float32")
            self.assertNotEqual(hashes.split()[0], want)

    def test_fields_only(self):
        """Parquet: image=none has one sample per row"""
        path = at("only.parquet")
        parquet(path, [Column("tokens", BYTES, [b"1 2", b"3 4", b"5 6"], text=True)])
        self.assertEqual(sample(f"parquet,image=none:{path}", 2)["fields"], {"tokens": "5 6"})
        ctl("hash", f"parquet,image=none:{path}", "--pipeline", "none", "--fields", "t:tokens:int64")

    def test_classes(self):
        """Parquet: names of classes come from the metadata of datasets, unless classes= sets them"""
        keys = columns.huggingface({"picture": {"_type": "Image"}, "kind": {"_type": "ClassLabel", "names": classes}})
        path = at("classes.parquet")
        parquet(path, [Column(["picture", "bytes"], BYTES, images()), Column("kind", INT64, labels())], keys=keys)
        self.same(path)
        self.assertEqual([sample(path, i)["class"] for i in (0, 8, 23)], classes)
        with open(at("names"), "w") as f:
            f.write("x\ny\nz\n")
        self.assertEqual(sample(f"parquet,classes={at('names')}:{path}", 8)["class"], "y")
        other = columns.huggingface({"picture": {"_type": "Image"}, "kind": {"_type": "ClassLabel", "names": ["q"]}})
        parquet(at("classes2.parquet"), [Column(["picture", "bytes"], BYTES, images()),
                                         Column("kind", INT64, labels())], keys=other)
        self.refuses("parquet:" + at("classes{,2}.parquet"), "name different classes")
        said = f"only the first 1 of {len(classes)} classes have names: classes=FILE names all of them"
        self.assertIn(said, ctl("index", at("classes2.parquet")))
        self.assertNotIn("have names", ctl("index", path))

    def test_names(self):
        """Parquet: columns are selected by name, strings can be labels, and a column can name the samples"""
        path = at("names.parquet")
        parquet(path, [Column("x", BYTES, images()), Column("y", BYTES, [classes[n].encode() for n in labels()],
                                                            text=True),
                       Column("file", BYTES, [p[2].encode() for p in pictures], text=True)])
        self.refuses(path, f"{path}: it has no column 'image'; its columns: x, y, file", "parquet,image=COLUMN")
        self.refuses(f"parquet,image=x:{path}", "no column 'label'", "parquet,label=none")
        self.refuses(f"parquet,image=file:{path}", "'file' holds texts")
        self.same(f"parquet,image=x,label=y,name=file:{path}")
        self.assertIn(f"row 3 ({pictures[3][2]})", sample(f"parquet,image=x,label=y,name=file:{path}", 3)["name"])
        self.assertEqual(sample(f"parquet,image=x,label=none:{path}", 9)["label"], 0)

    def test_nulls(self):
        """Parquet: a null image is a bad sample, and a null label is rejected"""
        path, some = at("nulls.parquet"), images()
        some[2] = some[11] = None
        parquet(path, [Column("image", BYTES, some), Column("label", INT64, labels())], page_rows=2)
        done = subprocess.run([CTL, "verify", path], capture_output=True, text=True, timeout=300)
        for row in 2, 11:
            self.assertIn(f"{path}, row {row}: its image is null", done.stdout + done.stderr)
        self.assertEqual(sample(path, 12)["bytes"], len(images()[12]))
        parquet(path, [Column("image", BYTES, [None] * 24), Column("label", INT64, labels())])
        self.refuses(path, "all images, in column 'image', are null")
        parquet(path, [Column("image", BYTES, images()), Column("label", INT64, [None] + labels()[1:])])
        self.refuses(path, "row 0 has no label")

    def test_meanings(self):
        """Parquet: decimals that are stored as integers are rejected, and so are dates and times as labels"""
        path = at("meanings.parquet")
        logical = {5: {1: 2, 2: 5}, 6: {}, 7: {1: False, 2: Struct({1: Struct({})})},
                   8: {1: True, 2: Struct({2: Struct({})})}}
        for kind, sentence in [({6: 5, 7: 1, 8: 5}, "DECIMAL"), ({10: Struct({5: Struct(logical[5])})}, "DECIMAL"),
                               *(({6: old}, "dates or times") for old in range(6, 11)),
                               *(({10: Struct({new: Struct(logical[new])})}, "dates or times") for new in (6, 7, 8))]:
            parquet(path, [Column("image", BYTES, images()), Column("label", INT64, labels(), kind=kind)])
            self.refuses(path, f"{path}: its column 'label'", sentence)
            fields = sample(f"parquet,label=none:{path}", 9)["fields"]
            self.assertEqual(fields, {} if sentence == "DECIMAL" else {"label": str(pictures[9][1])})
        for kind in ({6: 5, 7: 0, 8: 5}, {10: Struct({5: Struct({1: 0, 2: 5})})}):
            parquet(path, [Column("image", BYTES, images()), Column("label", INT64, labels(), kind=kind)])
            self.same(path)

    def test_cost(self):
        """Parquet: a warning states how many samples are in compressed pages"""
        path = at("cost.parquet")
        parquet(path, [Column("image", BYTES, images(), "snappy"), Column("label", INT64, labels())])
        warning = json.loads(ctl("index", path, "--json"))["warning"]
        self.assertIn("24 of 24 samples are in compressed pages or shards", warning)
        self.assertIn("plenumctl pack", warning)

    def test_damage(self):
        """Parquet: a truncated or damaged file is rejected, with its name"""
        path = at("damage.parquet")
        parquet(path, [Column("image", BYTES, images()), Column("label", INT64, labels(), "snappy")])
        self.damaged(path, path)
        self.damaged(f"parquet:{path}", path)
        with open(path, "rb") as f:
            whole = bytearray(f.read())
        whole[-4:] = b"PARE"
        with open(path, "wb") as f:
            f.write(whole)
        self.refuses(path, "it is encrypted")

    def one_page(self, name, codec, packed, size, rows=2, claimed=None):
        """Write a file with one page of images, whose header claims `size` bytes when decompressed."""
        c, path = Column("image", BYTES, [], codec, required=True), at(name)
        page = columns.value(Struct({1: 0, 2: size, 3: len(packed), 5: Struct({1: rows, 2: 0, 3: 3, 4: 3})})) + packed
        meta = Struct({1: BYTES, 2: [0], 3: ["image"], 4: columns.CODECS[codec][0], 5: I64(claimed or rows),
                       6: I64(len(page)), 7: I64(len(page)), 9: I64(4)})
        group = Struct({1: [Struct({2: I64(4), 3: meta})], 2: I64(100), 3: I64(claimed or rows)})
        tail = columns.value(Struct({1: 2, 2: columns.schema([c]), 3: I64(claimed or rows), 4: [group]}))
        with open(path, "wb") as f:
            f.write(b"PAR1" + page + tail + struct.pack("<I", len(tail)) + b"PAR1")
        return path

    @staticmethod
    def zeros(head, size):
        """Return a zstd frame of `head` and zeros."""
        out = struct.pack("<IBQ", 0xFD2FB528, 0xE0, size) + struct.pack("<I", len(head) << 3)[:3] + head
        left = size - len(head)
        while left:
            n = min(left, 100000)
            left -= n
            out += struct.pack("<I", (left == 0) | 2 | n << 3)[:3] + b"\0"
        return out

    def test_empty_groups(self):
        """Parquet: row groups without rows are skipped, wherever their chunks claim to be"""
        path, other = at("empty-groups.parquet"), at("no-empty-groups.parquet")
        made = [Column(["image", "bytes"], BYTES, images(), "snappy", True), Column("label", INT64, labels(), "gzip")]
        parquet(other, made)
        want = ctl("hash", other, "-p", "resize(32) center_crop(32)").strip()
        for empty in ({0}, {10}, {len(pictures)}, {0, 10, 20, len(pictures)}):
            parquet(path, made, empty=empty)
            self.assertEqual(ctl("hash", path, "-p", "resize(32) center_crop(32)").strip(), want, empty)
        parquet(path, [Column("image", BYTES, []), Column("label", INT64, [])], empty={0})
        self.refuses(path, "contains no rows")

    def test_twins(self):
        """Parquet: a name that two columns have selects neither column"""
        path = at("twins.parquet")
        label = [Column("label", INT64, labels()), Column("label", INT64, [n + 1 for n in labels()])]
        parquet(path, [Column("image", BYTES, images()), *label])
        self.refuses(path, "its column 'label' has the name of another column: choose another with")
        parquet(path, [Column("image", BYTES, images()), Column("image", BYTES, images()[::-1]), label[0]])
        self.refuses(path, "two of its columns are called 'image': rename one of them")

    def test_claims(self):
        """Parquet: impossible sizes and numbers of rows are rejected before memory is allocated"""
        for codec, packed, size in (("snappy", bytes(1000), 1 << 30), ("zstd", bytes(1000), 1 << 30)):
            self.refuses(f"parquet,label=none:{self.one_page('claim.parquet', codec, packed, size)}",
                         "its header gives more bytes than its compressed data can become")
        self.refuses(f"parquet,label=none:{self.one_page('claim.parquet', 'zstd', bytes(1 << 17), (1 << 31) - 1)}",
                     "has 2147483647 bytes when it is decompressed, and 1 GiB is the most that is supported")
        path = self.one_page("rows.parquet", "none", columns.plain(BYTES, [b"a", b"b"]), 10)
        ctl("index", f"parquet,image=none,label=none:{path}")
        for rows in (1, 3, 1 << 40):
            self.one_page("rows.parquet", "none", columns.plain(BYTES, [b"a", b"b"]), 10, claimed=rows)
            self.refuses(f"parquet,image=none,label=none:{path}", f"has {rows} rows, but the pages of column 'image'")

    def test_budget(self):
        """Parquet: decompressed pages count towards the loader's memory limit"""
        image = b"P6\n5000 4000\n255\n"
        size = len(image) + 5000 * 4000 * 3
        head = struct.pack("<I", size) + image
        path = self.one_page("large.parquet", "zstd", self.zeros(head, size + 4), size + 4, rows=1)
        os.utime(path, (1e9, 1e9))  # otherwise the file would be indexed again, because it is new
        name = f"parquet,label=none:{path}"
        ctl("index", name)
        for budget, answer in (("40M", "reading its samples takes up to 57"), ("2G", "samples")):
            socket = at(f"{budget}.sock")
            loader = subprocess.Popen([os.path.join(BUILD, "plenumd"), "--socket", f"unix:{socket}",
                                       "--threads", "1", "--io-threads", "1", "--memory-budget", budget],
                                      stderr=subprocess.DEVNULL)
            try:
                while not os.path.exists(socket) and loader.poll() is None:
                    select.select([], [], [], 0.02)
                got = subprocess.run([os.path.join(BUILD, "examples", "feed"), name, "--loader", f"unix:{socket}",
                                      "--pipeline", "resize(32) center_crop(32)"], capture_output=True, text=True,
                                     timeout=300, check=False)
                self.assertIn(answer, got.stdout + got.stderr)
            finally:
                loader.terminate()
                loader.wait()

    def test_changed(self):
        """Parquet: a file that is replaced is indexed again"""
        path = at("changed.parquet")
        parquet(path, [Column("image", BYTES, images()), Column("label", INT64, labels())])
        self.same(path)
        parquet(path, [Column("image", BYTES, images()[:5], "snappy"), Column("label", INT64, labels()[:5])])
        self.assertEqual(json.loads(ctl("index", path, "--json"))["samples"], 5)

    def test_shared_pages(self):
        """Parquet: two row groups with different dictionaries can share a page"""
        c = Column("x", BYTES, [], required=True)

        def dictionary(words):
            return columns.page(c, {1: 2, 7: Struct({1: len(words), 2: 0, 3: False})}, b"",
                                columns.plain(BYTES, words), 1)

        first, second = dictionary([b"A" * 2000, b"B" * 10]), dictionary([b"q", b"r"])
        data = columns.page(c, {1: 0, 5: Struct({1: 4, 2: 8, 3: 3, 4: 3})}, b"", b"\1" + columns.runs([1] * 4, 1), 1)
        # The second dictionary is the content of an index page, which the first chunk skips before the shared page.
        begin = len(b"PAR1" + first)
        index = columns.value(Struct({1: 1, 2: len(second), 3: len(second)}))
        out = b"PAR1" + first + index + second + data
        at_data = len(out) - len(data)
        groups = [Struct({1: [Struct({2: I64(at), 3: Struct({1: BYTES, 2: [8], 3: ["x"], 4: 0, 5: I64(4),
                                                             6: I64(len(out) - at), 7: I64(len(out) - at),
                                                             9: I64(at_data), 11: I64(at)})})],
                          2: I64(100), 3: I64(4)}) for at in (4, begin + len(index))]
        meta = columns.value(Struct({1: 2, 2: columns.schema([c]), 3: I64(8), 4: groups}))
        path = at("shared.parquet")
        with open(path, "wb") as f:
            f.write(out + meta + len(meta).to_bytes(4, "little") + b"PAR1")
        name = f"parquet,image=none,label=none:{path}"
        shown = [json.loads(line) for line in ctl("sample", name, "0", "5", "0", "--json").splitlines()]
        self.assertEqual([s["fields"]["x"] for s in shown], ["B" * 10, "r", "B" * 10])

    def test_pyarrow(self):
        """pyarrow's files can be read with each codec, both versions of pages, and with and without dictionaries"""
        pa, pq = module("pyarrow"), module("pyarrow.parquet")
        table = pa.table({"image": pa.array([{"bytes": p[0], "path": p[2]} for p in pictures]),
                          "label": pa.array(labels(), pa.uint8()), "even": pa.array([n % 2 == 0 for n in labels()]),
                          "lists": pa.array([[1, 2]] * len(pictures))})
        for codec, version, dictionary, rows in itertools.product(("none", "snappy", "gzip", "zstd"), ("1.0", "2.0"),
                                                                  (True, False), (7, 100)):
            path = at("pyarrow.parquet")
            pq.write_table(table, path, compression=codec, data_page_version=version, use_dictionary=dictionary,
                           row_group_size=rows, write_page_checksum=rows == 7, write_page_index=rows == 7)
            self.same(path)
            self.assertEqual(sample(path, 9)["fields"], {"image.path": pictures[9][2], "label": str(pictures[9][1]),
                                                         "even": str(1 - pictures[9][1] % 2)})
        parquet(path, [Column(["image", "bytes"], BYTES, images(), "snappy", True),
                       Column("label", INT64, labels())], 2)
        self.assertEqual([r["bytes"] for r in pq.read_table(path)["image"].to_pylist()], images(), "from our writer")
        for codec in "brotli", "lz4":
            pq.write_table(table, path, compression=codec)
            self.refuses(path, path, "compressed with " + codec)
        flat = pa.table({"image": pa.array(images()), "label": pa.array(labels(), pa.int32())})
        pq.write_table(flat, path, compression="none", use_dictionary=False,
                       column_encoding={"image": "DELTA_LENGTH_BYTE_ARRAY", "label": "DELTA_BINARY_PACKED"})
        self.same(path)
        pq.write_table(flat, path, compression="none", use_dictionary=False,
                       column_encoding={"image": "DELTA_BYTE_ARRAY", "label": "PLAIN"})
        self.refuses(path, "has an encoding that is not supported")
        pq.write_table(pa.table({"image": pa.array([[i] for i in images()]), "label": pa.array(labels())}), path)
        self.refuses(path, "its column 'image' is a list, a map or a struct")

    def test_datasets(self):
        """files of the library datasets can be read"""
        datasets = module("datasets")
        features = datasets.Features({"image": datasets.Image(), "kind": datasets.ClassLabel(names=classes)})
        made = datasets.Dataset.from_dict({"image": [{"bytes": p[0], "path": p[2]} for p in pictures],
                                           "kind": labels()}, features=features)
        path = at("datasets.parquet")
        made.to_parquet(path, batch_size=7)
        self.same(path)
        self.assertEqual(sample(path, 23)["class"], classes[2])
        self.assertIsNone(json.loads(ctl("index", path, "--json"))["warning"])


class MdsTest(Columns):
    encodings = {"image": "jpeg", "label": "int", "caption": "str", "score": "float32", "small": "uint8"}

    def write(self, name, **options):
        samples = [{"image": p[0], "label": p[1], "caption": f"c{p[1]}", "score": p[1] / 2, "small": 200 + p[1]}
                   for p in pictures]
        mds(at(name), self.encodings, samples, **options)
        return f"mds:{at(name)}"

    def test_fields(self):
        """MDS: other columns are fields, also in compressed shards"""
        for compression in None, "snappy":
            data = self.write(f"mds-{compression}", compression=compression)
            self.same(data)
            self.assertEqual(sample(data, 23)["fields"], {"caption": "c2", "label": "2", "score": "1", "small": "202"})
            ctl("hash", data, *STREAM, "--fields", "caption,s:small:int64")
        self.assertIn("samples are in compressed pages or shards", json.loads(ctl("index", data, "--json"))["warning"])

    def test_names(self):
        """MDS: columns are selected by name, a shard in both forms is read uncompressed, and patterns name folders"""
        data = self.write("both", compression="snappy", keep_raw=True)
        self.assertIsNone(json.loads(ctl("index", data, "--json"))["warning"])
        self.same(f"mds,label=small,label-offset=-200:{at('both')}")
        self.refuses(f"mds,label=nothing:{at('both')}", "no column 'nothing'; its columns: caption, image, label")
        self.refuses(f"mds,image=caption:{at('both')}", "'caption' holds texts or numbers")
        self.write("other")
        self.assertEqual(json.loads(ctl("index", "mds:" + at("{both,other}"), "--json"))["samples"], 48)
        self.assertEqual(json.loads(ctl("index", f"mds,part=1/4:{at('other')}", "--json"))["samples"], 7)
        self.refuses(f"mds:{at('data')}", "there is no index.json in")

    def test_pil(self):
        """MDS: pixels that PIL has stored can be read"""
        pixels = bytes(range(75))
        image = (5).to_bytes(4, "little") * 2 + (3).to_bytes(4, "little") + b"RGB" + pixels
        mds(at("pil"), {"image": "pil", "label": "int"}, [{"image": image, "label": 0}])
        os.makedirs(at("ppm", "a"))
        with open(at("ppm", "a", "0.ppm"), "wb") as f:
            f.write(b"P6\n5 5\n255\n" + pixels)
        self.assertEqual(ctl("hash", f"mds:{at('pil')}", *STREAM), ctl("hash", at("ppm"), *STREAM))

    def test_damage(self):
        """MDS: a truncated shard or index is rejected, with its name"""
        for compression, end in (None, ""), ("snappy", ".snappy"):
            data = self.write("damage" + end, compression=compression)
            self.damaged(data, at("damage" + end, "shard.00001.mds" + end))
            self.damaged(data, at("damage" + end, "index.json"))
        with open(at("damage", "shard.00001.mds"), "r+b") as f:
            f.seek(8)
            f.write(b"\xff\xff\xff\x7f")
        self.refuses(f"mds:{at('damage')}", "shard.00001.mds: it is damaged: sample 0 is not where the offset at byte")
        with open(at("damage", "index.json"), "ab") as f:
            f.write(b"\0{}")
        self.refuses(f"mds:{at('damage')}", at("damage", "index.json"))
        with open(at("damage", "index.json"), "rb+") as f:
            f.truncate(os.path.getsize(at("damage", "index.json")) - 3)
        os.unlink(at("damage", "shard.00001.mds"))
        self.refuses(f"mds:{at('damage')}", "shard.00001.mds: No such file")

    def test_outside(self):
        """MDS: a shard outside the folder is rejected"""
        data = self.write("outside")
        with open(at("outside", "index.json")) as f:
            index = json.load(f)
        for path in "../mds/shard.00000.mds", "/etc/passwd", "a/../../b":
            index["shards"][0]["raw_data"]["basename"] = path
            with open(at("outside", "index.json"), "w") as f:
                json.dump(index, f)
            self.refuses(data, "its shard 0 has no valid 'raw_data'")

    def test_claims(self):
        """MDS: a size that a compressed shard cannot have is rejected before memory is allocated"""
        data = self.write("claims", compression="gz")
        with open(at("claims", "index.json")) as f:
            index = json.load(f)
        index["shards"][0]["raw_data"]["bytes"] = 1 << 29
        with open(at("claims", "index.json"), "w") as f:
            json.dump(index, f)
        self.refuses(data, "bytes become 536870912, which is impossible")

    def test_streaming(self):
        """MDSWriter's files can be read"""
        writer, image = module("streaming").MDSWriter, module("PIL.Image")
        for compression, kind in itertools.product((None, "zstd", "gz"), ("jpeg", "bytes")):
            folder = at(f"streaming-{compression}-{kind}")
            with writer(out=folder, columns={"image": kind, "label": "int"}, compression=compression,
                        size_limit=20000) as out:
                for data, label, _ in pictures:
                    out.write({"image": image.open(io.BytesIO(data)) if kind == "jpeg" else data, "label": label})
            self.same(f"mds:{folder}")


tap.main()
