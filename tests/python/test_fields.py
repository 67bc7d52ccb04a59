# SPDX-License-Identifier: MIT
"""Tests fields of samples, such as captions, numbers, arrays, masks, boxes and members of JSON, in folders, lists,
archives and TFRecords. tests/e2e/test_columns.py tests fields of Parquet and MDS."""

import json
import os
import re
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
import unittest.mock
import warnings

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402
from ports import free_port  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402
from made import npy, png, write_tar  # noqa: E402

COUNT = 50
FIELDS = ["caption:txt", "meta:json", "vector:npy:npy", "score:score:float32", "ids:ids:int64", "raw:bin:bytes"]
MASKS = ["mask:seg.png:mask", "deep:deep.png:mask", "indices:pal.png:mask"]


def picture(n):
    """Return a grey image that is its own mask; its values are below 255, which means padding."""
    height, width = 40 + n % 7, 36 + n % 11
    return ((np.arange(height)[:, None] * 7 + np.arange(width) * 3 + n) % 251).astype(np.uint8)


def deep(grey):
    """Return different 16-bit numbers, whose two bytes differ."""
    return (grey.astype(np.uint16) * 257 - (grey > 0)).astype(np.uint16)


def members(n):
    """Return a sample's members by extension, in the order of the tar."""
    grey = picture(n)
    return {"cls": str(n % 3).encode(), "deep.png": png(deep(grey)),
            "bin": bytes([n, 0, 255]), "ids": f"[{n}, -{n}, {2**62 + n}]".encode(),
            "json": json.dumps({"id": n, "text": "é" * (n % 5)}).encode(),
            "npy": npy(np.arange(6, dtype=np.float16).reshape(2, 3) + n),
            "pal.png": png(grey % 16, palette=True), "png": png(grey), "score": f"{n / 3:.9g}".encode(),
            "seg.png": png(grey), "txt": f"picture number {n} – {'x' * (n % 17)}".encode()}


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def part(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def example(features):
    """Return a tf.train.Example of bytes, lists of bytes, integers and floats."""
    entries = b""
    for key, value in features.items():
        value = [value] if isinstance(value, bytes) else value
        if isinstance(value[0], bytes):
            feature = part(1, b"".join(part(1, each) for each in value))
        elif isinstance(value[0], int):
            feature = part(3, part(1, b"".join(varint(v % 2**64) for v in value)))
        else:
            feature = part(2, part(1, struct.pack(f"<{len(value)}f", *value)))
        entries += part(1, part(1, key.encode()) + part(2, feature))
    return part(1, entries)


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


def write_tfrecord(path, records):
    with open(path, "wb") as f:
        for record in records:
            length = struct.pack("<Q", len(record))
            f.write(length + masked(length) + record + masked(record))


def path_of(name):
    return os.path.join(T.name, name)


def setUpModule():
    global T
    T = tempfile.TemporaryDirectory(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = path_of("cache")
    os.mkdir(path_of("tars"))
    for k in range(3):
        write_tar(path_of(f"tars/{k}.tar"), [(f"a/{n:03d}", members(n)) for n in range(k, COUNT, 3)])
    with open(path_of("list.csv"), "w") as f:
        f.write("path,label,caption,ids,score,mask,vector\n")
        for n in range(COUNT):
            own = members(n)
            folder = path_of(f"folder/class{n % 3}")
            os.makedirs(folder, exist_ok=True)
            for extension in ("png", "txt", "seg.png", "npy", "score"):
                name = f"{n:03d}.{extension}" if extension != "seg.png" else f"{n:03d}.seg"
                with open(os.path.join(folder, name), "wb") as file:
                    file.write(own[extension])
            there = f"folder/class{n % 3}/{n:03d}"
            f.write(f'{there}.png,{n % 3},"{own["txt"].decode()}",{n} -{n} {2**62 + n},{own["score"].decode()},'
                    f"{there}.seg,{there}.npy\n")
    write_tfrecord(path_of("a.tfrecord"), [example(
        {"image/encoded": members(n)["png"], "image/class/label": [n % 3], "image/filename": f"{n:03d}.png".encode(),
         "caption": members(n)["txt"], "ids": [n, -n, 2**62 + n], "score": [n / 3], "vector": members(n)["npy"],
         "mask": members(n)["seg.png"]}) for n in range(COUNT)])


def tearDownModule():
    T.cleanup()


def stream(dataset, fields, pipeline="rrc(16x12) flip(0.5)", **options):
    options = {"micro_batch": 4, "steps": 2, "epochs": 2, "seed": 5, "dtype": "uint8", **options}
    return pyplenum.Stream(dataset, pipeline, fields=fields, **options)


def ctl_hash(dataset, fields, pipeline="rrc(16x12) flip(0.5)", *options):
    done = subprocess.run([CTL, "hash", dataset, "--pipeline", pipeline, "--seed", "5", "--epochs", "2", "--fields",
                           ",".join(fields), *options], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return int(done.stdout.split()[0], 16)


class FieldsTest(unittest.TestCase):
    def numbers(self, s, batch):
        """Return the samples of a batch, identified by their names."""
        return [int(re.findall(r"(\d{3})(?:\.png)?$", name)[0]) for name in s.names(batch.samples)]

    def check(self, s, checks):
        """Check every sample of two epochs against what was written."""
        seen, total = set(), 0
        for batch in s:
            self.assertEqual(list(batch.fields), list(checks))
            valid = batch.valid.reshape(-1)
            for name, expected in checks.items():
                values = batch[name]
                values = values if isinstance(values, list) else values.reshape((-1,) + values.shape[3:])
                for i, n in enumerate(self.numbers(s, batch)):
                    want = expected(n)
                    self.assertTrue(np.array_equal(values[i], want) and type(values[i]) is type(want)
                                    if isinstance(want, (str, bytes)) else np.array_equal(values[i], want),
                                    (name, n, values[i], want))
            seen |= set(self.numbers(s, batch))
            total += int(valid.sum())
        self.assertEqual((seen, total), (set(range(COUNT)), 2 * COUNT))

    CHECKS = {"caption": lambda n: members(n)["txt"].decode(), "meta": lambda n: members(n)["json"].decode(),
              "vector": lambda n: (np.arange(6).reshape(2, 3) + n).astype(np.float16),
              "score": lambda n: np.float32(n / 3), "ids": lambda n: np.array([n, -n, 2**62 + n]),
              "raw": lambda n: bytes([n, 0, 255])}

    def test_tar(self):
        """fields are members of WebDataset archives"""
        with stream(f"tar:{path_of('tars')}", FIELDS) as s:
            self.check(s, self.CHECKS)
        with stream(f"tar:{path_of('tars')}", "raw:bin:bytes, ids : ids : int64") as s:
            batch = next(s)
            self.assertEqual((batch["ids"].shape, batch["ids"].dtype), ((2, 1, 4, 3), np.int64))
            with self.assertRaisesRegex(KeyError, "'caption': the stream's fields are 'raw', 'ids'"):
                batch["caption"]
        with stream(f"tar:{path_of('tars')}", None) as s:
            self.assertEqual(next(s).fields, {})

    def some(self, *names):
        return {name: self.CHECKS[name] for name in names}

    def test_list(self):
        """fields are columns of a list, or the files that they name"""
        with stream(f"list:{path_of('list.csv')}", ["caption", "ids:ids:int64", "score:score:float32",
                                                     "vector:vector:npy"]) as s:
            self.check(s, self.some("caption", "ids", "score", "vector"))
        with open(path_of("list.csv")) as f:
            rows = [line.rstrip("\n") for line in f][1:]
        with open(path_of("plain.tsv"), "w") as f:  # without names of columns
            for row in rows:
                path, label, rest = row.split(",", 2)
                f.write(f"{path}\t{label}\t{rest.split(chr(34))[1]}\n")
        with stream(f"list:{path_of('plain.tsv')}", ["caption:3"]) as s:
            self.check(s, {"caption": lambda n: members(n)["txt"].decode().rstrip()})

    def test_long_line(self):
        """a column of a long line is complete"""
        texts = [("é" * length + "end")[-length:] for length in (5, 65530, 65536, 300000, 2**20 // 2 - 1)]
        for kind, between, quote in (("csv", ",", '"'), ("tsv", "\t", "")):
            with open(path_of(f"long.{kind}"), "w") as f:
                f.write(between.join(("path", "label", "caption", "n")) + "\n")
                for n, text in enumerate(texts):
                    f.write(between.join((path_of(f"folder/class{n % 3}/{n:03d}.png"), "0", quote + text + quote,
                                          str(n))) + "\n")
            with stream(f"list:{path_of(f'long.{kind}')}", ["caption", "n:n:int64"], shuffle="none") as s:
                batch = next(s)
            self.assertTrue(batch["caption"][:5] == texts, [len(text) for text in batch["caption"]])
            self.assertEqual(batch["n"].reshape(-1)[:5].tolist(), list(range(5)))

    def test_long_numbers(self):
        """numbers may have many digits, and integers are exact"""
        ids = [2**53 + 1, 2**62 + 3, 7, -2**63]
        write_tar(path_of("digits.tar"), [(f"{n}", {
            "png": png(picture(n)), "cls": b"0", "a": b"0." + b"3" * 100, "b": b"0" * 100 + b"7 " + b"1" * 16,
            "json": json.dumps({"id": ids[n]}).encode()}) for n in range(4)])
        with stream(f"tar,label=cls:{path_of('digits.tar')}", ["a:a:float32", "b:b:int64", "id:json.id:int64"],
                    shuffle="none") as s:
            batch = next(s)
        self.assertEqual(batch["a"].reshape(-1).tolist(), 8 * [float(np.float32(1 / 3))])
        self.assertEqual(batch["b"].reshape(-1, 2).tolist(), 8 * [[7, 1111111111111111]])
        self.assertEqual(batch["id"].reshape(-1).tolist(), 2 * ids)
        write_tar(path_of("digits.tar"), [(f"{n}", {  # beside a number that no int64 holds
            "png": png(picture(n)), "cls": b"0", "json": json.dumps({"id": ids[n], "x": 2**64}).encode()})
            for n in range(3)])
        with stream(f"tar,label=cls:{path_of('digits.tar')}", ["id:json.id:int64"]) as s:
            self.assertEqual({int(n) for batch in s for n in batch["id"].reshape(-1)}, set(ids[:3]))

    def test_folder(self):
        """fields are files beside the images"""
        with stream(f"folder:{path_of('folder')}", ["caption:txt", "vector:npy:npy", "score:score:float32"]) as s:
            self.check(s, self.some("caption", "vector", "score"))

    def test_tfrecord(self):
        """fields are features of Examples"""
        with stream(f"tfrecord:{path_of('a.tfrecord')}", ["caption", "ids:ids:int64", "score:score:float32",
                                                          "vector:vector:npy"]) as s:
            self.check(s, self.some("caption", "ids", "score", "vector"))

    def test_hash(self):
        """the hash covers fields, and equals plenumctl's, however samples are requested"""
        data, pipeline = f"tar:{path_of('tars')}", "rrc(16x12) flip(0.5)"
        hashes = set()
        for fields in ([], FIELDS, FIELDS[:2], FIELDS + MASKS):
            want = ctl_hash(data, fields)
            hashes.add(want)
            for options in ({}, {"micro_batch": 7, "steps": 1}, {"prefetch_depth": 1, "layout": "nchw"}):
                with stream(data, fields, **options) as s:
                    self.assertEqual(sum(batch.hash() for batch in s) % 2**64, want, options)
        self.assertEqual(len(hashes), 4)
        for pipeline, options, more in ((pipeline, {"repeat": 3}, ("--repeat", "3")),
                                        ("rrc(8) mixup(0.4)", {}, ()),
                                        ("view(a, 2, rrc(8)) view(b, 3, rrc(4x5) flip(0.5))", {}, ())):
            fields = FIELDS if "mixup" in pipeline else FIELDS + MASKS
            with stream(data, fields, pipeline, **options) as s:
                self.assertEqual(sum(batch.hash() for batch in s) % 2**64, ctl_hash(data, fields, pipeline, *more))

    def test_tcp(self):
        """over TCP, and from two loaders, the hash is the same"""
        data, fields = f"tar:{path_of('tars')}", FIELDS + MASKS
        port = free_port()
        addresses = [f"unix:{T.name}/loader.sock", f"tcp:127.0.0.1:{port}"]
        loader = subprocess.Popen([os.environ.get("PLENUM_PLENUMD") or os.path.join(BUILD, "plenumd"), "--socket",
                                   addresses[0], "--listen", f"127.0.0.1:{port}", "--root", T.name, "--quiet"])
        self.addCleanup(loader.wait)
        self.addCleanup(loader.terminate)
        want = ctl_hash(data, fields)
        for loaders in (addresses[1], ",".join(addresses)):
            with stream(data, fields, loader=loaders) as s:
                self.assertEqual(sum(batch.hash() for batch in s) % 2**64, want, loaders)
        with unittest.mock.patch.dict(os.environ, PLENUM_VERIFY_BATCHES="100"), \
                stream(data, fields, loader=",".join(addresses), epochs=None) as s:
            while s.stats.verified == 0:  # batches are verified only while both loaders are connected
                next(s)

    def test_damaged(self):
        """a sample that lacks a field, or has a damaged one, is a bad sample: reported at once, and never shown"""
        link = tarfile.TarInfo()
        link.type, link.linkname = tarfile.SYMTYPE, "elsewhere"
        damages = {"txt": {"it is not UTF-8 text": b"\xff\xfe", "it has more than 1 MiB": b"x" * (1 << 20) + b"y",
                           "it is missing": None, "it is a link": link, "it is not UTF-8 text ": b"a\0b"},
                   "npy": {"it is float16 \\[3\\]": npy(np.zeros(3, np.float16)), "it is not an array": b"\x93NUMPY",
                           "it is float32": npy(np.zeros((2, 3), np.float32)), "is empty": npy(np.zeros(0)),
                           "has 11 bytes, but its header says 12": npy(np.zeros((2, 3), np.float16))[:-1],
                           "Fortran order": npy(np.asfortranarray(np.zeros((2, 3)))), "'<U5'": npy(np.array("hello")),
                           "more than 4 dimensions": npy(np.zeros((1,) * 5)),
                           "little-endian": npy(np.zeros(2, ">f4"))},
                   "ids": {"it is int64 \\[2\\]": b"1 2", "'2\\.5', which is not an integer": b"1 2.5 3",
                           "'9223372036854775808', which is beyond 64 bits": b"1 2 9223372036854775808",
                           "it contains no number": b" [] "},
                   "score": {"'one', which is not a decimal number": b"one", "it is float32 \\[2\\]": b"1 2"},
                   "seg.png": {"it is not a PNG": b"GIF89a", "a colour PNG": png(np.zeros((4, 4, 3), np.uint8)),
                               "it is uint16": png(np.zeros((4, 4), np.uint16))}}
        for extension, kinds in damages.items():
            for why, data in kinds.items():
                with self.subTest(extension=extension, why=why):
                    bad = {k: v for k, v in members(7).items() if k != extension or data is not None}
                    if data is not None:
                        bad[extension] = data
                    path = path_of("bad.tar")
                    write_tar(path, [(f"{n:03d}", bad if n == 7 else members(n)) for n in range(12)])
                    fields = [f for f in FIELDS + MASKS if f.split(":")[1] == extension]
                    with self.assertWarnsRegex(pyplenum.LoaderWarning,
                                               f"1 of 12 samples lack.*007.*'{extension}'.*{why.strip()}"), \
                            stream(f"tar,label=cls:{path}", fields, steps=1) as s:
                        shown = [n for batch in s for n in self.numbers(s, batch)]
                        self.assertEqual(s.stats.substituted, 2)
                    self.assertEqual(set(shown), set(range(12)) - {7})
                    with warnings.catch_warnings(), stream(f"tar,label=cls:{path}", fields, bad="fail", steps=1) as s, \
                            self.assertRaisesRegex(pyplenum.PlenumError, f"007.*'{extension}'.*{why.strip()}"):
                        warnings.simplefilter("ignore")
                        list(s)

    def test_mask_of_another_size(self):
        """a mask of the wrong size, or a truncated one, is detected when it is shown: the sample is bad"""
        for seg, why in ((png(np.zeros((5, 6), np.uint8)), "the mask has 5 x 6 pixels, but its image has 40 x 43"),
                         (members(7)["seg.png"][:-40], "the PNG file is cut off")):
            write_tar(path_of("bad.tar"), [(f"{n:03d}", {**members(n), **({"seg.png": seg} if n == 7 else {})})
                                           for n in range(12)])
            with stream(f"tar:{path_of('bad.tar')}", MASKS[:1], steps=1) as s:
                shown = [n for batch in s for n in self.numbers(s, batch)]
                self.assertEqual((set(shown), s.stats.substituted), (set(range(12)) - {7}, 2))
            with stream(f"tar:{path_of('bad.tar')}", MASKS[:1], bad="fail", steps=1) as s, \
                    self.assertRaisesRegex(pyplenum.PlenumError, f"007.*'mask' .'seg.png'.*{why}"):
                list(s)

    def test_refused(self):
        """invalid fields are rejected with a message when the stream is opened"""
        tar = f"tar:{path_of('tars')}"
        many = [f"f{i}:txt" for i in range(17)]
        for data, fields, pipeline, why in (
                (tar, ["caption:txt:txet"], "eval", "'txet' is not a kind of field: use text, bytes, npy"),
                (tar, ["2nd:txt"], "eval", "'2nd' is not a valid field name"), (tar, [":txt"], "eval", "is empty"),
                (tar, ["a:txt", "a:json"], "eval", "'a' is given twice"), (tar, many, "eval", "at most 16"),
                (tar, ["a:txt:text:b"], "eval", "more parts"), (tar, ["a:" + "b" * 128], "eval", "is too long"),
                (tar, ["a:"], "eval", "is empty"), (tar, ["a,,b"], "eval", "is empty"),
                (tar, ["a:text"], "eval", "no sample has the field 'a' .'text'.; the first one, .*000.*it is missing"),
                (f"tar,label=folder:{path_of('tars/0.tar')}", ["a:txt"], "eval",
                 "image is a separate sample without fields"),
                ("generated:100", ["a:txt"], "eval", "generated samples have no fields"),
                (f"list:{path_of('list.csv')}", ["a:txt"], "eval", "it is missing: it has .*caption, ids, score, mask"),
                (f"tfrecord:{path_of('a.tfrecord')}", ["a:captoin"], "eval",
                 "missing: it has .*caption, ids, score, vec"),
                (tar, ["json.a:int64"], "eval",
                 "'json.a' is not a valid field name: .* write a field as NAME:SOURCE:KIND"),
                (f"tfrecord:{path_of('a.tfrecord')}", ["a:ids"], "eval", "it has 3 values, but only one is allowed"),
                (tar, MASKS, "rrc(16) augmix", "masks, boxes and key points cannot be used with augmix"),
                (tar, MASKS, "rrc(16) one_of(affine(30) | augmix)", "key points cannot be used with augmix"),
                (tar, MASKS, "rrc(16) mixup(1)", "masks cannot be used with mixup")):
            with self.subTest(why=why), self.assertRaisesRegex(pyplenum.PlenumError, why):
                stream(data, fields, pipeline)
        done = subprocess.run([CTL, "hash", tar, "--pipeline", "rrc(16) augmix", "--fields", MASKS[0]],
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, "cannot be used with augmix" in done.stderr), (1, True), done.stderr)

    def test_changed(self):
        """a changed file causes an error, and is delivered once the data set is opened again"""
        data = path_of("changing")
        for n in range(4):
            os.makedirs(f"{data}/a", exist_ok=True)
            for extension in ("png", "txt"):
                with open(f"{data}/a/{n:03d}.{extension}", "wb") as f:
                    f.write(members(n)[extension])
        with stream(data, ["caption:txt"], epochs=None, prefetch_depth=1, steps=1) as s:
            self.assertEqual(len(next(s)["caption"]), 4)
            with open(f"{data}/a/002.txt", "w") as f:
                f.write("another")
            with self.assertRaisesRegex(pyplenum.PlenumError, "002.txt has changed since the data set was indexed"):
                for batch in s:
                    self.assertNotIn("another", batch["caption"])
        with stream(data, ["caption:txt"], steps=1) as s:
            self.assertIn("another", next(s)["caption"])

    def test_kept(self):
        """the table of fields is stored and reused; a damaged or outdated table is rebuilt"""
        cache = path_of("cache-of-kept")
        data = f"tar:{path_of('tars/0.tar')}"
        before = os.environ["PLENUM_CACHE_DIR"]
        os.environ["PLENUM_CACHE_DIR"] = cache
        self.addCleanup(os.environ.__setitem__, "PLENUM_CACHE_DIR", before)
        want = ctl_hash(data, FIELDS)
        tables = [os.path.join(cache, name) for name in os.listdir(cache) if ".fields-" in name]
        self.assertEqual(len(tables), 1)
        whole, made = open(tables[0], "rb").read(), os.stat(tables[0]).st_mtime_ns
        self.assertEqual(ctl_hash(data, FIELDS), want)
        self.assertEqual(os.stat(tables[0]).st_mtime_ns, made)
        flipped = whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:]
        for damaged in (whole[:-1], whole[:100], b"", flipped, whole + b"x"):
            with open(tables[0], "wb") as f:
                f.write(damaged)
            os.chmod(tables[0], 0o600)
            self.assertEqual(ctl_hash(data, FIELDS), want)
            self.assertEqual(open(tables[0], "rb").read(), whole)

    def test_resumed(self):
        """a cursor of a stream without fields works with fields"""
        data = f"tar:{path_of('tars')}"
        with stream(data, None) as s:
            next(s)
            cursor, rest = s.cursor, [batch.samples.copy() for batch in s]
        with stream(data, FIELDS) as s:
            s.seek(cursor)
            for batch, samples in zip(s, rest):
                self.assertTrue(np.array_equal(batch.samples, samples))


class LinesTest(unittest.TestCase):
    """Tests fields of kind "line": one of several captions, drawn for each position."""

    @staticmethod
    def lines(n):
        return [f"picture {n}, line {k} {'–' * k}" for k in range(1 + n % 5)]

    @classmethod
    def setUpClass(cls):
        write_tar(path_of("lines.tar"), [(f"{n:03d}", {
            "png": png(picture(n)), "cls": b"0", "txt": "\r\n \n".join(cls.lines(n)).encode() + b"\n\n",
            "de": "\n".join(line.replace("line", "Zeile") for line in cls.lines(n)).encode()}) for n in range(COUNT)])
        write_tfrecord(path_of("lines.tfrecord"), [example(
            {"image/encoded": members(n)["png"], "image/class/label": b"0",
             "captions": [line.encode() for line in cls.lines(n)]}) for n in range(COUNT)])

    def test_lines(self):
        """every caption is drawn; all fields of a sample show the caption of the same index"""
        data, fields = f"tar,label=cls:{path_of('lines.tar')}", ["en:txt:line", "de:de:line"]
        for options in ({"epochs": 40}, {"epochs": 10, "repeat": 4}):
            seen = {n: [] for n in range(COUNT)}
            with stream(data, fields, "rrc(8)", **options) as s:
                hashed = 0
                for batch in s:
                    hashed += batch.hash()
                    for name, en, de in zip(s.names(batch.samples), batch["en"], batch["de"]):
                        self.assertEqual(en.replace("line", "Zeile"), de)
                        seen[int(name[-7:-4])].append(en)
            for n, shown in seen.items():
                self.assertEqual(set(shown), set(self.lines(n)))
            shares = np.array([shown.count(self.lines(n)[0]) / len(shown) for n, shown in seen.items() if n % 5 == 4])
            self.assertLess(abs(shares.mean() - 0.2), 0.1)
            epochs, repeat = str(options["epochs"]), str(options.get("repeat", 1))
            self.assertEqual(hashed % 2**64, ctl_hash(data, fields, "rrc(8)", "--epochs", epochs, "--repeat", repeat))

    def test_features(self):
        """each value of a feature is a line"""
        with stream(f"tfrecord:{path_of('lines.tfrecord')}", ["caption:captions:line"], "rrc(8)", epochs=60) as s:
            seen = {line for batch in s for line in batch["caption"]}
        self.assertEqual(seen, {line for n in range(COUNT) for line in self.lines(n)})

    def test_no_line(self):
        """a sample whose text has no lines is bad"""
        write_tar(path_of("bad.tar"), [(f"{n:03d}", {**members(n), "txt": b" \r\n\t\n" if n == 7 else b"a"})
                                       for n in range(12)])
        with self.assertWarnsRegex(pyplenum.LoaderWarning, "1 of 12 samples lack.*007.*it contains no line"):
            stream(f"tar,label=cls:{path_of('bad.tar')}", ["a:txt:line"]).close()


class MasksTest(unittest.TestCase):
    """Tests masks with a grey picture as its own mask: after nearest-pixel resizing, both differ only in padding."""

    def check(self, pipeline, padded=False, **options):
        paddings = 0
        with stream(f"tar:{path_of('tars')}", MASKS, pipeline, **options) as s:
            for batch in s:
                mask, wide, indices = batch["mask"], batch["deep"], batch["indices"]
                own = batch.pixels[..., 0] if options.get("layout") != "nchw" else batch.pixels[:, :, :, 0]
                self.assertEqual((mask.dtype, wide.dtype, mask.shape), (np.uint8, np.uint16, own.shape))
                pad = mask == 255
                paddings += int(pad.sum())
                self.assertTrue(np.array_equal(mask[~pad], own[~pad]))
                self.assertTrue(np.array_equal(wide, np.where(pad, 65535, deep(mask))))
                self.assertTrue(np.array_equal(indices, np.where(pad, 255, mask % 16)))
        self.assertEqual(paddings > 0, padded)

    def test_nearest(self):
        """masks follow crops, flips, sizes and layouts"""
        for pipeline in ("rrc(16x12, interpolation=nearest) flip(0.5) vertical_flip(0.5)",
                         "resize(30, interpolation=nearest) center_crop(24x20)",
                         "resize(64x20, interpolation=nearest) flip(1)",
                         "resize(50, interpolation=nearest) pad(5, reflect) random_crop(32) vertical_flip(0.5)"):
            self.check(pipeline)
        self.check("rrc(16, interpolation=nearest)", layout="nchw", channels=4)

    def test_padding(self):
        """a mask is 255 where the image has padding"""
        self.check("letterbox(40x24, interpolation=nearest, fill=9)", padded=True)
        self.check("resize(30, interpolation=nearest) pad(12) random_crop(40) flip(0.5)", padded=True)

    def test_colours(self):
        """colour operations and the image's resize filter do not affect a mask"""
        hashes = set()
        for more in ("", " color_jitter(0.4, 0.4, 0.4, 0.1) blur(5, 1:1) erase(0.9) solarize(128)"):
            for way in ("", ", interpolation=bicubic", ", interpolation=random"):
                with stream(f"tar:{path_of('tars')}", MASKS[:1], f"rrc(16{way}) flip(0.5){more}") as s:
                    hashes.add(b"".join(batch["mask"].tobytes() for batch in s))
        self.assertEqual(len(hashes), 1)

    def test_views(self):
        """each image of each view has a mask"""
        views = "view(a, 2, rrc(16x12, interpolation=nearest) flip(0.5)) view(b, 3, rrc(8, interpolation=nearest))"
        with stream(f"tar:{path_of('tars')}", MASKS, views) as s:
            for batch in s:
                for name, pixels in batch.views.items():
                    self.assertTrue(np.array_equal(batch["mask"][name], pixels[..., 0]))
                    self.assertTrue(np.array_equal(batch["indices"][name], pixels[..., 0] % 16))

    def test_other_forms(self):
        """masks can be named in a list, lie beside images, or be features"""
        for data, field in ((f"list:{path_of('list.csv')}", "mask:mask:mask"), (path_of("folder"), "mask:seg:mask"),
                            (f"tfrecord:{path_of('a.tfrecord')}", "mask:mask:mask")):
            with stream(data, [field], "rrc(16x12, interpolation=nearest) flip(0.5)") as s:
                for batch in s:
                    self.assertTrue(np.array_equal(batch["mask"], batch.pixels[..., 0]), data)


    def test_named_like_images(self):
        """masks with an image's extension are an error, unless image= selects the images"""
        want = "rrc(16x12, interpolation=nearest) flip(0.5)"
        os.makedirs(path_of("pairs/a"))
        write_tar(path_of("pairs.tar"), [(f"{n:03d}", {"cls": b"0", "jpg": png(picture(n)),
                                                       "png": png(picture(n) % 50)}) for n in range(COUNT)])
        for n in range(COUNT):
            extension = ("jpg", "JPG", "jpeg")[n % 3]
            for name, data in ((extension, png(picture(n))), ("png", png(picture(n) % 50))):
                with open(path_of(f"pairs/a/{n:03d}.{name}"), "wb") as f:
                    f.write(data)
        for data in (f"folder,image=jpg:{path_of('pairs')}", f"folder,image=jpeg:{path_of('pairs')}",
                     f"auto,image=jpg:{path_of('pairs')}", f"tar,image=jpg:{path_of('pairs.tar')}"):
            hashed = 0
            with self.subTest(data=data), stream(data, ["mask:png:mask"], want) as s:
                self.assertEqual(s.num_samples, COUNT)
                for batch in s:
                    hashed += batch.hash()
                    self.assertTrue(np.array_equal(batch["mask"], batch.pixels[..., 0] % 50))
                self.assertEqual(s.stats.substituted, 0)
            self.assertEqual(hashed % 2**64, ctl_hash(data, ["mask:png:mask"], want))
        with stream(f"tar,image=png:{path_of('pairs.tar')}", ["other:jpg:bytes"], want) as s:
            for batch in s:
                self.assertTrue((batch.pixels < 50).all())
                self.assertEqual(batch["other"], [png(picture(n)) for n in batch.samples.reshape(-1)])
        for data, field, why in (
                (path_of("pairs"), "mask:png:mask", "files named .*[.]png are its images, not masks: folder,image"),
                (path_of("pairs"), "mask:seg.png:mask", "files named .*seg.png are its images"),
                (f"folder,image=png:{path_of('pairs')}", "mask:png:mask", "are its images"),
                (f"tar:{path_of('pairs.tar')}", "mask:png:mask", "two images: .jpg and .png; choose .* tar,image=jpg:"),
                (f"folder,image=webp:{path_of('pairs')}", "text:txt",
                 r"no images: put [*][.]webp into sub-fold|'webp' is not an image ext"),
                (f"tar,image=a.png:{path_of('pairs.tar')}", "text:txt", "no images: no member is named [*].a.png")):
            with self.subTest(data=data, field=field), self.assertRaisesRegex(pyplenum.PlenumError, why):
                stream(data, [field], want)


class JsonTest(unittest.TestCase):
    """Tests fields that are members of the JSON file beside an image."""

    @staticmethod
    def meta(n):
        return {"caption": f"picture {n} – \u4e2d", "a": {"b.c": {"n": -n}}, "share": n + 0.3, "big": 2**64 + n,
                "vector": [[n, 1.5], [True, -2e3]], "texts": [f"{n} {k}" for k in range(3)], "none": "",
                "a.d": n, "whole": 3.0, "list": [n]}

    @classmethod
    def setUpClass(cls):
        write_tar(path_of("json.tar"), [(f"{n:03d}", {"cls": b"0", "png": png(picture(n)),
                                                      "json": json.dumps(cls.meta(n)).encode()}) for n in range(COUNT)])
        for n in range(COUNT):
            os.makedirs(path_of("beside/a"), exist_ok=True)
            for extension, data in (("png", png(picture(n))), ("json", json.dumps(cls.meta(n)).encode())):
                with open(path_of(f"beside/a/{n:03d}.{extension}"), "wb") as f:
                    f.write(data)

    def test_members(self):
        """members have their values, in archives and in folders"""
        fields = ["caption:json.caption", "n:json.a.b.c.n:int64", "d:json.a.d:int64", "share:json.share:float32",
                  "vector:json.vector:float32", "text:json.texts:line", "none:json.none", "list:json.list:int64"]
        for data in (f"tar:{path_of('json.tar')}", path_of("beside")):
            with stream(data, fields, "rrc(8)") as s:
                seen, hashed = set(), 0
                for batch in s:
                    hashed += batch.hash()
                    for i, name in enumerate(s.names(batch.samples)):
                        n = int(re.findall(r"(\d{3})\.png$", name)[0])
                        meta, one = self.meta(n), np.unravel_index(i, batch.samples.shape)
                        self.assertEqual((batch["caption"][i], batch["n"][one], batch["d"][one], batch["none"][i]),
                                         (meta["caption"], -n, n, ""))
                        self.assertEqual((batch["share"][one], batch["vector"][one].tolist()),
                                         (np.float32(n + 0.3), [n, 1.5, 1, -2000]))
                        self.assertIn(batch["text"][i], meta["texts"])
                        self.assertEqual(batch["list"][one], n)
                        seen.add(n)
                self.assertEqual(seen, set(range(COUNT)))
                self.assertEqual(hashed % 2**64, ctl_hash(data, fields, "rrc(8)"))

    def test_refused(self):
        """members that are missing or of the wrong type are reported"""
        for field, why in (("a:json.nothing", "it has no member 'nothing'"), ("a:json.a", "an object, but a string is"),
                           ("a:json.share", "a number, but a string is needed: use int64 or float32 for numbers"),
                           ("a:json.texts",
                            "a list, but a string is needed: use line to choose one from a list of strings"),
                           ("a:json.caption:int64", "a string, but a number, or a list of numbers, is needed"),
                           ("a:json.share:int64", "is not an integer"), ("a:json.big:int64", "is beyond 64 bits"),
                           ("a:json.vector:line", "a list, but a string is"), ("a:png", "if it is not text, say"),
                           ("a:other.json.caption", "it is missing$"), ("a:json.a", "needed: name a member of it"),
                           ("a:json.:int64", "it has no member ''"),
                           ("a:json.caption.x", "it has no member 'caption.x'"),
                           ("a:json.caption:npy", "it is missing: members of JSON can be text, line, int64"),
                           ("a:json.none:line", "it contains no line")):
            with self.subTest(field=field), self.assertRaisesRegex(pyplenum.PlenumError, "no sample.*" + why):
                stream(f"tar:{path_of('json.tar')}", [field])

    def test_other_names(self):
        """fields can be members of a file whose name has further words before .json, such as meta.json"""
        write_tar(path_of("meta.tar"), [(f"{n:03d}", {
            "cls": b"0", "png": png(picture(n)), "json": b"{}", "meta.json": json.dumps(self.meta(n)).encode(),
            "a.json.npy": npy(np.arange(3))}) for n in range(COUNT)])
        for n in range(COUNT):
            os.makedirs(path_of("meta/a"), exist_ok=True)
            for extension, data in (("png", png(picture(n))), ("meta.json", json.dumps(self.meta(n)).encode()),
                                    ("a.json.npy", npy(np.arange(3)))):
                with open(path_of(f"meta/a/{n:03d}.{extension}"), "wb") as f:
                    f.write(data)
        fields = ["caption:meta.json.caption", "n:meta.json.a.b.c.n:int64", "all:meta.json", "array:a.json.npy:npy"]
        for data in (f"tar:{path_of('meta.tar')}", path_of("meta")):
            with self.subTest(data=data), stream(data, fields, "rrc(8)") as s:
                for batch in s:
                    metas = [self.meta(int(n)) for n in batch.samples.reshape(-1)]
                    self.assertEqual(batch["caption"], [meta["caption"] for meta in metas])
                    self.assertEqual(batch["n"].reshape(-1).tolist(), [meta["a"]["b.c"]["n"] for meta in metas])
                    self.assertEqual([json.loads(text) for text in batch["all"]], metas)
                    self.assertTrue((batch["array"] == np.arange(3)).all())

    def test_damaged(self):
        """a sample with malformed JSON is bad"""
        for text, why in ((b'{"caption": "x"', "it is not JSON: .* at byte 15"), (b"", "it is not JSON"),
                          (b'{"caption": "a\\u0000b"}', "not UTF-8 text"), (b'{"caption": "\xff"}', "it is not JSON"),
                          (b"[" * 100000, "it is not JSON"), (b'["caption"]', "it has no member"),
                          (b'{"caption": 1e999}', "it is a number, but a string is needed")):
            write_tar(path_of("bad.tar"), [(f"{n:03d}", {
                "cls": b"0", "png": png(picture(n)),
                "json": text if n == 7 else json.dumps(self.meta(n)).encode()}) for n in range(12)])
            with self.subTest(why=why), self.assertWarnsRegex(pyplenum.LoaderWarning, f"1 of 12 samples.*007.*{why}"), \
                    stream(f"tar:{path_of('bad.tar')}", ["caption:json.caption"], steps=1) as s:
                self.assertNotIn(7, [int(name[-7:-4]) for batch in s for name in s.names(batch.samples)])
                self.assertEqual(s.stats.substituted, 2)


class BoxesTest(unittest.TestCase):
    """Compares boxes with a slow computation from each image's crop, and with masks of the same boxes."""

    @staticmethod
    def objects(n):
        """Return left, top, right, bottom, class and id; some are at an edge or beyond it, or have no area."""
        rng = np.random.default_rng(n)
        height, width = picture(n).shape
        corners = rng.uniform(-8, 60, (n % 6, 2, 2)).round(2)
        found = [(*c.min(0), *c.max(0), int(rng.integers(90)), 10**12 + 100 * n + k) for k, c in enumerate(corners)]
        return found + [(3.0, 4.0, 3.0, 9.0, 1, 7), (0.0, 0.0, float(width), float(height), 2, 8)][:n % 3]

    @classmethod
    def coco(cls, n):
        # Differences are not rounded, so that the loader computes nearly the same right and bottom edges.
        return [{"bbox": [x0, y0, x1 - x0, y1 - y0], "category_id": c, "id": i, "area": 1.5, "iscrowd": 0}
                for x0, y0, x1, y1, c, i in cls.objects(n)]

    @classmethod
    def setUpClass(cls):
        crowd = {"bbox": [0, 0, 9, 9], "category_id": 5, "id": 1, "iscrowd": 1}
        write_tar(path_of("boxes.tar"), [(f"{n:03d}", {
            "png": png(picture(n)), "cls": b"0", "json": json.dumps({"annotations": cls.coco(n)}).encode(),
            "coco.json": json.dumps(cls.coco(n) + [crowd]).encode(),
            "voc.json": json.dumps({"objects": [
                {"bndbox": {"xmin": x0 + 1, "ymin": y0 + 1, "xmax": x1, "ymax": y1}, "category_id": float(c), "id": i}
                for x0, y0, x1, y1, c, i in cls.objects(n)]}).encode(),
            "tv.json": json.dumps({"boxes": [o[:4] for o in cls.objects(n)],
                                   "labels": [o[4] for o in cls.objects(n)]}).encode()}) for n in range(COUNT)])

    def expected(self, n, box, flip, size, height, width, visible):
        """Compute the boxes of one image from the batch's geometry."""
        rows = []
        for x0, y0, x1, y1, c, i in self.objects(n):
            edges = np.array([[x0, y0], [x1, y1]]).clip(0, [size[1], size[0]])
            seen = edges.clip(box[:2], box[2:])
            whole, area = np.prod(edges[1] - edges[0]), np.prod(seen[1] - seen[0])
            if area <= 0 or area < visible * whole:
                continue
            at = (seen - box[:2]) * (width, height) / (box[2:] - box[:2])
            if flip & 1:
                at[:, 0] = width - at[::-1, 0]
            if flip & 2:
                at[:, 1] = height - at[::-1, 1]
            rows.append((at.reshape(-1), c, i))
        return rows

    def check_image(self, n, found, geometry, height, width, visible, ids=True):
        boxes, classes, numbers, count = found
        want = self.expected(n, *geometry, height, width, visible)
        self.assertEqual(count, len(want))
        self.assertEqual(classes.tolist(), [c for _, c, _ in want] + [0] * (len(classes) - count))
        if ids:
            self.assertEqual(numbers.tolist(), [i for _, _, i in want] + [0] * (len(classes) - count))
        for box, (edges, _, _) in zip(boxes, want):
            self.assertTrue(np.allclose(box, edges, rtol=0, atol=1e-4), (n, box, edges))
        self.assertFalse(boxes[count:].any())
        self.assertTrue((boxes >= 0).all() and (boxes <= (width, height) * 2).all())

    def test_crops(self):
        """boxes follow crops, padding and flips, and are dropped below a minimum share, in all formats"""
        data, shown = f"tar:{path_of('boxes.tar')}", 0
        for pipeline, (height, width) in (("rrc(16x12) flip(0.5) vertical_flip(0.5)", (16, 12)), ("eval", (224, 224)),
                                          ("letterbox(40x24, fill=9) flip(0.5)", (40, 24)),
                                          ("resize(30) pad(12) random_crop(40)", (40, 40))):
            for source, visible in (("json:boxes", 0), ("coco.json:boxes:0.25", 0.25), ("voc.json:boxes:1", 1),
                                    ("tv.json:boxes:.05", 0.05), ("json.annotations:boxes:0.9999", 0.9999)):
                with stream(data, [f"objects:{source}"], pipeline) as s:
                    hashed = 0
                    for batch in s:
                        hashed += batch.hash()
                        found = batch["objects"]
                        self.assertEqual([(a.dtype, a.shape[3:]) for a in found],
                                         [(np.float32, (7, 4)), (np.int64, (7,)), (np.int64, (7,)), (np.int64, ())])
                        for i, name in enumerate(s.names(batch.samples)):
                            one = np.unravel_index(i, batch.samples.shape)
                            geometry = (batch.boxes[one].astype(float), int(batch.flips[one]), batch.sizes[one])
                            self.check_image(int(name[-7:-4]), [a[one] for a in found], geometry, height, width,
                                             visible, "tv" not in source)
                            shown += int(found.counts[one])
                self.assertEqual(hashed % 2**64, ctl_hash(data, [f"objects:{source}"], pipeline))
        self.assertGreater(shown, 500)

    def test_views(self):
        """each image of each view, and each repeated sample, has its boxes"""
        views = "view(a, 2, rrc(16x12) flip(0.5)) view(b, 3, rrc(8) vertical_flip(0.5))"
        data, fields, sizes = f"tar:{path_of('boxes.tar')}", ["objects:json:boxes"], {"a": (16, 12), "b": (8, 8)}
        for options in ({}, {"repeat": 2}):
            with stream(data, fields, views, **options) as s:
                for batch in s:
                    self.assertEqual(list(batch["objects"]), ["a", "b"])
                    for name, found in batch["objects"].items():
                        for at in np.ndindex(found.counts.shape):
                            n = int(s.names(batch.samples[at[:3]].reshape(1))[0][-7:-4])
                            geometry = (batch.boxes[name][at].astype(float), int(batch.flips[name][at]),
                                        batch.sizes[at[:3]])
                            self.check_image(n, [a[at] for a in found], geometry, *sizes[name], 0)
        with stream(data, fields, views) as s:
            self.assertEqual(sum(batch.hash() for batch in s) % 2**64, ctl_hash(data, fields, views))

    def test_mask(self):
        """a box is where its mask is"""
        boxes = {n: (2 + n % 9, 3 + n % 5, 20 + n % 13, 21 + n % 17) for n in range(COUNT)}
        samples = []
        for n, (x0, y0, x1, y1) in boxes.items():
            filled = np.zeros(picture(n).shape, np.uint8)
            filled[y0:y1, x0:x1] = 1
            objects = [{"bbox": [x0, y0, x1 - x0, y1 - y0], "category_id": n}]
            samples.append((f"{n:03d}", {"png": png(picture(n)), "cls": b"0", "seg.png": png(filled),
                                         "json": json.dumps(objects).encode()}))
        write_tar(path_of("filled.tar"), samples)
        checked = 0
        with stream(f"tar:{path_of('filled.tar')}", ["objects:json:boxes", "mask:seg.png:mask"],
                    "rrc(40x52, scale=0.3:1) flip(0.5) vertical_flip(0.5)") as s:
            for batch in s:
                masks = batch["mask"].reshape(-1, 40, 52)
                for i, (edges, count) in enumerate(zip(batch["objects"].boxes.reshape(-1, 4),
                                                       batch["objects"].counts.reshape(-1))):
                    rows, columns = np.nonzero(masks[i])
                    if not count or not len(rows):
                        continue
                    checked += 1
                    at = np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])
                    self.assertLess(np.abs(edges - at).max(), 1)
        self.assertGreater(checked, COUNT)

    def test_moved(self):
        """boxes and masks follow operations that move pixels: a mask's pixels lie in its box, which is no larger"""
        side, shown = 64, 0
        colours = np.indices((side, side)).sum(0).astype(np.uint8)
        samples = []
        for n in range(COUNT):
            x0, y0, x1, y1 = 8 + n % 9, 12 + n % 5, 30 + n % 13, 40 + n % 17
            image = np.zeros((side, side), np.uint8)
            image[y0:y1, x0:x1] = 128 + colours[y0:y1, x0:x1]
            objects = [{"bbox": [x0, y0, x1 - x0, y1 - y0], "category_id": n}]
            mask = (image > 0).astype(np.uint8)
            samples.append((f"{n:03d}", {"png": png(image), "cls": b"0", "seg.png": png(mask),
                                         "json": json.dumps(objects).encode()}))
        write_tar(path_of("moved.tar"), samples)
        data, fields = f"tar:{path_of('moved.tar')}", ["objects:json:boxes", "mask:seg.png:mask"]
        for operations in ("rotate(180)", "translate(0.4, 0.3)", "shear(30)",
                           "affine(45, translate=0.2:0.1, scale=0.6:1.4)", "perspective(0.5, p=1)",
                           "rand_augment(3, 15)", "trivial_augment_wide", "auto_augment(svhn)",
                           "flip(0.5) rotate(40) erase(1) vertical_flip(0.5) affine(9) flip(0.5)",
                           "one_of(rotate(90) | shear(10) blur(3, 1:1)) vertical_flip(0.5) perspective(0.3, p=0.5)"):
            pipeline = f"resize(64x64) {operations}"
            # Each operation after another one takes the nearest pixel again, so errors of half a pixel add up.
            rounding = 1 if operations.startswith(("rand", "auto", "flip", "one_of")) else 0
            with self.subTest(operations=operations), stream(data, fields, pipeline, epochs=2) as s:
                for batch in s:
                    batch_of = zip(batch["objects"].boxes.reshape(-1, 4), batch["objects"].counts.reshape(-1),
                                   batch["mask"].reshape(-1, side, side))
                    for box, count, mask in batch_of:
                        rows, columns = np.nonzero(mask == 1)
                        if not len(rows):
                            continue
                        self.assertEqual(count, 1)
                        centres = np.array([columns.min(), rows.min(), columns.max(), rows.max()]) + 0.5
                        room = (centres - box) * (1, 1, -1, -1)  # from each edge to the nearest centre
                        self.assertGreater(room.min(), -1e-3 - rounding)
                        # A corner that only touches the image, or is sharp, may show no centre of a pixel.
                        self.assertLess(np.sort(room)[1], 1.5 + rounding)
                        shown += 1
            with stream(data, fields, pipeline) as s:
                self.assertEqual(sum(batch.hash() for batch in s) % 2**64, ctl_hash(data, fields, pipeline))
        self.assertGreater(shown, 15 * COUNT)

    def test_moved_pixels(self):
        """a mask shows the pixels that the image shows, and 255 where the image has the fill"""
        data = f"tar:{path_of('moved.tar')}"
        for operations in ("rotate(180)", "flip(0.5) affine(30, shear=20) vertical_flip(0.5)",
                           "perspective(0.5, p=1, interpolation=nearest)"):
            with stream(data, ["mask:seg.png:mask"], f"resize(64x64) {operations}") as s:
                for batch in s:
                    pixels, masks = batch.images[..., 0].reshape(-1, 64, 64), batch["mask"].reshape(-1, 64, 64)
                    self.assertTrue(((pixels >= 128) == (masks == 1)).all())
                    self.assertTrue((masks == 255).any())

    def test_forms(self):
        """boxes can come from a list's column, a feature, or a file beside the image"""
        with open(path_of("boxes.csv"), "w") as f:
            f.write("path,label,objects\n")
            for n in range(COUNT):
                text = json.dumps(self.coco(n)).replace('"', '""')
                f.write(f'folder/class{n % 3}/{n:03d}.png,0,"{text}"\n')
                with open(path_of(f"folder/class{n % 3}/{n:03d}.json"), "w") as file:
                    json.dump(self.coco(n), file)
        write_tfrecord(path_of("boxes.tfrecord"), [example(
            {"image/encoded": png(picture(n)), "image/class/label": [0], "image/filename": f"{n:03d}.png".encode(),
             "objects": json.dumps(self.coco(n)).encode()}) for n in range(COUNT)])
        for data, field in ((f"list:{path_of('boxes.csv')}", "objects:objects:boxes"),
                            (path_of("folder"), "objects:json:boxes"),
                            (f"tfrecord:{path_of('boxes.tfrecord')}", "objects:objects:boxes")):
            with stream(data, [field]) as s:
                for batch in s:
                    for i, name in enumerate(s.names(batch.samples)):
                        one = np.unravel_index(i, batch.samples.shape)
                        geometry = (batch.boxes[one].astype(float), int(batch.flips[one]), batch.sizes[one])
                        n = int(re.findall(r"(\d{3})(?:\.png)?$", name)[0])
                        self.check_image(n, [a[one] for a in batch["objects"]], geometry, 16, 12, 0)

    def test_none(self):
        """images without objects have no boxes"""
        write_tar(path_of("none.tar"), [(f"{n:03d}", {"png": png(picture(n)), "cls": b"0", "json": b"[]"})
                                        for n in range(9)])
        with stream(f"tar:{path_of('none.tar')}", ["objects:json:boxes"]) as s:
            batch = next(s)
            self.assertEqual(([a.shape for a in batch["objects"]], int(batch["objects"].counts.max())),
                             ([(2, 1, 4, 0, 4), (2, 1, 4, 0), (2, 1, 4, 0), (2, 1, 4)], 0))

    def test_damaged(self):
        """a sample with invalid boxes is bad"""
        good = {"bbox": [1, 2, 3, 4], "category_id": 5}
        for data, why in (({}, "neither a list of boxes"), (3, "neither a list of boxes"),
                          ({"annotations": {}}, "neither a list"),
                          ([{"category_id": 5}], 'box 0 has neither "bbox"'), ([good, 7], "box 1 has neither"),
                          ([{**good, "bbox": [1, 2, 3]}], 'the "bbox" of box 0 must be numbers: .x, y, width'),
                          ([{**good, "bbox": [1, 2, "3", 4]}], 'the "bbox" of box 0 must be numbers'),
                          ([{"category_id": 5, "bndbox": {"xmin": "1", "ymin": "1", "xmax": "2", "ymax": "2"}}],
                           'the "bndbox" of box 0 must be numbers: xmin, ymin, xmax and ymax'),
                          ([{**good, "bbox": None, "bndbox": {"xmin": 1}}], 'the "bbox" of box 0 must be numbers'),
                          ([good, {"bbox": [1, 2, 3, 4]}], 'box 1 has no whole number as "category_id"'),
                          ([{**good, "category_id": "dog"}], "no whole number"),
                          ([{**good, "category_id": 1.5}], "no whole number"),
                          ([good, {**good, "iscrowd": "1"}], 'the "iscrowd" of object 1 is not 0, 1, true or false, '
                           "but a string"),
                          ([{**good, "id": "x"}], 'the "id" of box 0 is not a whole number'),
                          ([good, {**good, "bbox": [1, 2, -3, 4]}], "box 1 ends before it begins: it is .x, y, w"),
                          ({"boxes": [[9, 9, 3, 4]], "labels": [1]}, "box 0 ends before it begins: it is .left, t"),
                          ([good] * 32769, "more than 1 MiB"),
                          ({"boxes": [[1, 2, 3, 4]]}, "not lists of the same length"),
                          ({"boxes": [[1, 2, 3]], "labels": [1]}, "box 0 is not .left, top"),
                          ({"boxes": [[1, 2, 3, 4]], "labels": ["a"]}, "the label of box 0 is no"),
                          ({"boxes": 3, "labels": 3}, "not lists of the same length")):
            write_tar(path_of("bad.tar"), [(f"{n:03d}", {"cls": b"0", "png": png(picture(n)), "json": json.dumps(
                data if n == 7 else [good]).encode()}) for n in range(12)])
            with self.subTest(why=why), self.assertWarnsRegex(pyplenum.LoaderWarning, f"1 of 12 samples.*007.*{why}"), \
                    stream(f"tar,label=cls:{path_of('bad.tar')}", ["objects:json:boxes"], steps=1) as s:
                self.assertNotIn(7, [int(name[-7:-4]) for batch in s for name in s.names(batch.samples)])

    def test_refused(self):
        """invalid shares, and pipelines that boxes cannot follow, are rejected"""
        data = f"tar:{path_of('boxes.tar')}"
        for share in ("1.0001", "-0.1", "", "x", "0.12345", "1e-3", ".", "0.1.2", "11", "0,3"):
            with self.subTest(share=share), self.assertRaisesRegex(pyplenum.PlenumError, "fields: "):
                stream(data, [f"objects:json:boxes:{share}"])
        for text, why in (("o:json:boxes:0.5:1", "more parts"), ("o:json:text:0.5", "more parts")):
            with self.assertRaisesRegex(pyplenum.PlenumError, why):
                stream(data, [text])
        with self.assertRaisesRegex(pyplenum.PlenumError, "key points cannot be used with augmix"):
            stream(data, ["o:json:boxes"], "rrc(16) augmix")


class FieldsAloneTest(unittest.TestCase):
    """Tests data sets without images, and streams that have only fields."""

    @staticmethod
    def tokens(n):
        return np.arange(7, dtype=np.uint16) * 3 + n

    @classmethod
    def setUpClass(cls):
        for k in range(3):
            write_tar(path_of(f"alone-{k}.tar"), [(f"a/{n:03d}", {
                "json": json.dumps({"n": n, "label": n % 3}).encode(), "tokens.npy": npy(cls.tokens(n)),
                "txt": f"text {n}".encode()}) for n in range(k, COUNT, 3)])
        write_tfrecord(path_of("alone.tfrecord"), [example(
            {"text": f"text {n}".encode(), "tokens": [int(t) for t in cls.tokens(n)], "class": [n % 3]})
            for n in range(COUNT)])
        os.makedirs(path_of("tokens"), exist_ok=True)
        for n in range(COUNT):
            with open(path_of(f"tokens/{n}.npy"), "wb") as f:
                f.write(npy(cls.tokens(n)))
        for name, between, head in (("csv", ",", True), ("tsv", "\t", True), ("txt", "\t", False)):
            with open(path_of(f"alone.{name}"), "w") as f:
                if head:
                    f.write(between.join(("text", "tokens", "class")) + "\n")
                for n in range(COUNT):
                    f.write(between.join((f"text {n}", f"tokens/{n}.npy", str(n % 3))) + "\n")

    def test_forms(self):
        """a stream without images delivers every sample once per epoch and repeat, with its values"""
        tar = f"{T.name}/alone-{{0..2}}.tar"
        for data, fields in ((f"tar,image=none:{tar}", ["text:txt", "tokens:tokens.npy:npy"]),
                             (f"tar,image=none,label=json:{tar}", ["text:txt", "tokens:tokens.npy:npy"]),
                             (f"tfrecord,image=none:{path_of('alone.tfrecord')}", ["text", "tokens:tokens:int64"]),
                             (f"tfrecord,image=none,label=class:{path_of('alone.tfrecord')}",
                              ["text", "tokens:tokens:int64"]),
                             (f"list,image=none:{path_of('alone.csv')}", ["text", "tokens:tokens:npy"]),
                             (f"list,image=none,label=class:{path_of('alone.tsv')}", ["text", "tokens:tokens:npy"]),
                             (f"list,image=none,label=3:{path_of('alone.txt')}", ["text:1", "tokens:2:npy"])):
            for options in ({}, {"micro_batch": 7, "repeat": 2}):
                with self.subTest(data=data, options=options), stream(data, fields, "none", **options) as s:
                    seen, hashed = [], 0
                    for batch in s:
                        hashed += batch.hash()
                        self.assertEqual(batch.pixels.shape, (batch.samples.shape) + (0, 0, 3))
                        for i, text in enumerate(batch["text"]):
                            n, at = int(text.split()[1]), np.unravel_index(i, batch.samples.shape)
                            self.assertTrue(np.array_equal(batch["tokens"][at], self.tokens(n)))
                            self.assertEqual(batch.labels[at], n % 3 if "label" in data else 0)
                            if batch.valid[at]:
                                seen.append(n)
                    times = 2 * options.get("repeat", 1)
                    self.assertEqual(sorted(seen), sorted(times * list(range(COUNT))))
                    more = ("--repeat", str(options.get("repeat", 1)))
                    self.assertEqual(hashed % 2**64, ctl_hash(data, fields, "none", *more))

    def test_of_images(self):
        """the pipeline "none" delivers fields without decoding, even beside damaged images"""
        samples = [(f"{n:03d}", {**members(n), "png": b"no picture"}) for n in range(12)]
        write_tar(path_of("bad.tar"), samples)
        with stream(f"tar:{path_of('bad.tar')}", FIELDS, "none", bad="fail") as s:
            captions = [c for batch in s for c in batch["caption"]]
            self.assertEqual(set(captions), {members(n)["txt"].decode() for n in range(12)})
            self.assertEqual(s.stats.substituted, 0)
        data, hashes = f"tar:{path_of('tars')}", set()
        with stream(data, FIELDS, "none") as s:
            for batch in s:
                hashes.add(batch.hash())
                self.assertEqual(batch.boxes.shape, batch.samples.shape + (4,))
        self.assertGreater(len(hashes), 1)

    def test_same_order(self):
        """samples and their order are those of a stream with images"""
        data = f"tar:{path_of('tars')}"
        with stream(data, None) as images, stream(data, ["caption:txt"], "none") as none:
            for one, two in zip(images, none):
                self.assertTrue(np.array_equal(one.samples, two.samples) and np.array_equal(one.labels, two.labels))

    def test_fingerprint(self):
        """the fingerprint covers the contents of samples without images"""
        found = set()
        for tokens in (self.tokens(1), self.tokens(2), self.tokens(2)):
            write_tar(path_of("print.tar"), [("a", {"tokens.npy": npy(tokens)})])
            done = subprocess.run([CTL, "index", "--json", f"tar,image=none:{path_of('print.tar')}"],
                                  capture_output=True, text=True, check=True)
            found.add(json.loads(done.stdout)["fingerprint"])
        self.assertEqual(len(found), 2)

    def test_bad(self):
        """a sample without a requested field is bad, and never shown"""
        write_tar(path_of("bad.tar"), [(f"{n:03d}", {"txt": f"text {n}".encode(), **(
            {} if n == 5 else {"tokens.npy": npy(self.tokens(n))})}) for n in range(12)])
        data, fields = f"tar,image=none:{path_of('bad.tar')}", ["text:txt", "tokens:tokens.npy:npy"]
        with self.assertWarnsRegex(pyplenum.LoaderWarning, "1 of 12 samples.*005.*it is missing"), \
                stream(data, fields, "none", steps=1) as s:
            shown = {text for batch in s for text in batch["text"]}
        self.assertEqual(shown, {f"text {n}" for n in range(12)} - {"text 5"})

    def test_verified(self):
        """plenumctl verify --fields reports every bad field, but no bad image"""
        grey, box = picture(0), [1, 2, 30, 30]
        cut = png(grey)[:-30]
        odd = {2: {"seg.png": png(grey[1:])}, 3: {"seg.png": cut}, 5: {"txt": b"\xff"},
               6: {"boxes": [{"bbox": [20, 2, 30, 3], "category_id": 1, "id": 66}]},
               7: {"boxes": [{"bbox": [.1, .2, .5, .7], "category_id": 1}]}, 8: {"png": cut, "seg.png": cut}, 9: {}}
        rows = []
        for n in range(12):
            own = {"cls": b"0", "png": png(grey), "seg.png": png(grey), "txt": b"good",
                   "boxes": [{"bbox": box, "category_id": 1}], **odd.get(n, {})}
            rows.append((f"{n:03d}", {k: json.dumps(v).encode() if k == "boxes" else v for k, v in own.items()
                                      if n != 9 or k != "txt"}))
        write_tar(path_of("verified.tar"), rows)
        done = subprocess.run([CTL, "verify", path_of("verified.tar"), "--json", "--fields",
                               "mask:seg.png:mask,text:txt,o:boxes:boxes"], capture_output=True, text=True)
        told = json.loads(done.stdout)
        why = {p["sample"]: (p["kind"], p["reason"]) for p in told["problems"]}
        self.assertEqual((done.returncode, sorted(why)), (1, [2, 3, 5, 6, 7, 8, 9]), done.stderr)
        self.assertEqual({n: kind for n, (kind, _) in why.items() if kind != "field"}, {8: "bad"})
        for n, part in ((2, "field 'mask' ('seg.png'): the mask has 39 x 36 pixels, but its image has 40 x 36"),
                        (3, "field 'mask' ('seg.png'): the PNG file is cut off"), (5, "'txt'): it is not UTF-8 text"),
                        (6, "the box with id 66, from (20, 2) to (50, 5), reaches beyond its picture of 36 x 40"),
                        (7, "the box with id 0 lies in its picture's first pixel"), (9, "'txt'): it is missing")):
            self.assertIn(part, why[n][1])
        with open(told["bad_list"], encoding="utf-8") as f:
            self.assertNotIn("field", f.read())
        for fields, code, count in (("text:txt", 1, 3), (None, 1, 1)):
            done = subprocess.run([CTL, "verify", path_of("verified.tar"), "--json",
                                   *(["--fields", fields] if fields else [])], capture_output=True, text=True)
            self.assertEqual((done.returncode, len(json.loads(done.stdout)["problems"])), (code, count), done.stderr)
        alone = f"tar,image=none:{path_of('verified.tar')}"
        done = subprocess.run([CTL, "verify", alone, "--fields", "text:txt"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout.count("field 'text'")), (1, 2), done.stderr)
        self.assertIn("problems     2\n", done.stdout)

    def test_refused(self):
        """a request for images of a data set without images is rejected"""
        alone, images = f"tar,image=none:{path_of('alone-0.tar')}", f"tar:{path_of('tars')}"
        write_tar(path_of("empty.tar"), [])
        for data, fields, pipeline, why in (
                (alone, ["text:txt"], "eval", "its samples have only fields .image=none., and no images"),
                (images, MASKS, "none", "masks, boxes and key points are cropped with the images"),
                (images, None, "none flip(0.5)",
                 "'none' produces no images, and must be the only word of the pipeline"),
                (images, None, "view(a, 1, none)", "a view has images"),
                (images, None, "none(3)", "must be the only word"),
                (f"tar,image=x:{path_of('tars')}", None, "none", "tar,image=x: 'x' is not an image extension"),
                (f"list,image=none,path=1:{path_of('alone.csv')}", None, "none", "there is no column with paths"),
                (f"list,image=none,label=x:{path_of('alone.csv')}", None, "none", "has no column 'x'"),
                (f"folder,image=none:{path_of('folder')}", None, "none", "'none' is not an image extension"),
                (f"tar,image=none,label=cls:{path_of('alone-0.tar')}", None, "none", "no .cls next to it"),
                (f"tar,image=none:{path_of('empty.tar')}", None, "none", "empty.tar contains no samples"),
                (f"tfrecord,image=none,label=x:{path_of('alone.tfrecord')}", None, "none", "no feature 'x'")):
            with self.subTest(why=why), self.assertRaisesRegex(pyplenum.PlenumError, why):
                stream(data, fields, pipeline)
        for command in (["verify", alone], ["pack", alone, path_of("packed")], ["plan", alone, "--micro-batch", "4",
                        "--micro-batch-time", "1ms"], ["preview", alone, path_of("x.jpg")],
                        ["preview", images, path_of("x.jpg"), "--pipeline", "none"], ["hash", alone]):
            done = subprocess.run([CTL, *command], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (1, ""), command)
            self.assertRegex(done.stderr, "no images")

    def test_killed(self):
        """the hash is the same if the loader is killed during the stream"""
        data, fields = f"tar,image=none:{T.name}/alone-{{0..2}}.tar", ["text:txt", "tokens:tokens.npy:npy"]
        address, loaders = f"unix:{T.name}/killed.sock", []

        def start():
            loaders.append(subprocess.Popen([os.environ.get("PLENUM_PLENUMD") or os.path.join(BUILD, "plenumd"),
                                             "--socket", address, "--root", T.name, "--quiet"]))
        start()
        try:
            with warnings.catch_warnings(), stream(data, fields, "none", loader=address, epochs=20, steps=1) as s:
                warnings.simplefilter("ignore", pyplenum.LoaderWarning)
                hashed = 0
                for i, batch in enumerate(s):
                    hashed += batch.hash()
                    if i in (20, 90, 150):
                        loaders[-1].kill()
                        loaders[-1].wait()
                        start()
            self.assertEqual(hashed % 2**64, ctl_hash(data, fields, "none", "--epochs", "20"))
        finally:
            loaders[-1].terminate()
            loaders[-1].wait()


class TorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import pyplenum.torch as plenum_torch
        except ImportError:
            raise unittest.SkipTest("torch is not installed") from None
        cls.torch = plenum_torch

    def test_loader(self):
        """a Loader gives strings as lists and other fields as tensors, also in a short last batch"""
        data, fields = f"tar:{path_of('tars')}", ("images", "samples", *FIELDS, *MASKS)
        for copy in (False, True):
            seen = []
            with self.torch.Loader(data, "rrc(16, interpolation=nearest)", fields=fields, micro_batch=8,
                                   copy=copy) as loader:
                for images, samples, caption, _, vector, score, ids, raw, mask, wide, indices in loader:
                    numbers = [int(name[-7:-4]) for name in loader.stream.names(samples.numpy())]
                    self.assertEqual(caption, [members(n)["txt"].decode() for n in numbers])
                    self.assertEqual(raw, [bytes([n, 0, 255]) for n in numbers])
                    self.assertEqual(ids.tolist(), [[n, -n, 2**62 + n] for n in numbers])
                    self.assertEqual((vector.shape[1:], vector[:, 0, 1].tolist()), ((2, 3), [n + 1 for n in numbers]))
                    self.assertEqual(score.tolist(), [np.float32(n / 3) for n in numbers])
                    self.assertTrue(np.array_equal(mask.numpy(), images[:, 0].numpy()))
                    self.assertTrue(np.array_equal(wide.numpy(), deep(mask.numpy())))
                    self.assertTrue(np.array_equal(indices.numpy(), mask.numpy() % 16))
                    seen += numbers
            self.assertEqual(sorted(seen), list(range(COUNT)))

    def test_views(self):
        """with views, a mask is a list of tensors, one for each image"""
        views = "view(a, 2, rrc(16, interpolation=nearest)) view(b, 1, rrc(8, interpolation=nearest))"
        with self.torch.Loader(f"tar:{path_of('tars')}", views, fields=("views", MASKS[0]), micro_batch=8) as loader:
            for images, masks in loader:
                self.assertEqual(len(masks), 3)
                for image, mask in zip(images, masks):
                    self.assertTrue(np.array_equal(image[:, 0].numpy(), mask.numpy()))

    def test_alone(self):
        """a Loader that has only fields rejects requests for images"""
        data = f"tar:{path_of('tars')}"
        with self.torch.Loader(data, "none", fields=("labels", "ids:ids:int64"), micro_batch=8) as loader:
            ids = sorted(int(i) for _, batch in loader for i in batch[:, 0])
            self.assertEqual(ids, list(range(COUNT)))
        with self.torch.Loader(data, "none", micro_batch=8) as loader, self.assertRaisesRegex(ValueError, "no images"):
            next(iter(loader))

    def test_boxes(self):
        """boxes are a tensor of the valid samples; with views, a list of tensors"""
        BoxesTest.setUpClass()
        data, seen = f"tar:{path_of('boxes.tar')}", 0
        with self.torch.Loader(data, "letterbox(40)", fields=("samples", "objects:json:boxes"),
                               micro_batch=8) as loader:
            for samples, objects in loader:
                self.assertEqual([tuple(t.shape) for t in objects], [(len(samples), 7, 4), (len(samples), 7),
                                                                     (len(samples), 7), (len(samples),)])
                for name, count in zip(loader.stream.names(samples.numpy()), objects.counts.tolist()):
                    self.assertEqual(count, len(BoxesTest().expected(int(name[-7:-4]), np.array([0, 0, 99, 99]), 0,
                                                                     picture(int(name[-7:-4])).shape, 1, 1, 0)))
                    seen += 1
        self.assertEqual(seen, COUNT)
        with self.torch.Loader(data, "view(a, 2, rrc(16)) view(b, 1, rrc(8))", fields=("views", "objects:json:boxes"),
                               micro_batch=8, copy=True) as loader:
            views, objects = next(iter(loader))
            self.assertEqual([o.boxes.shape for o in objects], 3 * [(8, 7, 4)])

    def test_names(self):
        """a name without a colon is one of the fields that every batch has"""
        for fields, why in ((("caption",), "no 'caption'.*; a field of the data set has a colon"),
                            (("labels:txt",), "cannot be called 'labels'")):
            with self.assertRaisesRegex(ValueError, why):
                self.torch.Loader(f"tar:{path_of('tars')}", fields=fields)


class OlderLoaderTest(unittest.TestCase):
    def start(self, version):
        """Start a loader of an older protocol, and return its address."""
        wrong = os.path.join(BUILD, "tests", "libdist", "plenumd-wrong")
        if not os.path.exists(wrong):
            self.skipTest("plenumd-wrong is built only with Criterion")
        address = f"unix:{T.name}/{version}.sock"
        loader = subprocess.Popen([wrong, "--socket", address, "--root", T.name, "--quiet"],
                                  env={**os.environ, "PLENUM_WRONG_VERSION": version})
        self.addCleanup(loader.wait)
        self.addCleanup(loader.terminate)
        return address

    def test_older_loader(self):
        """fields are rejected if the loader's protocol is older than 1.10, and other streams work"""
        loader = self.start("1.9")
        data = f"tar:{path_of('tars')}"
        with self.assertRaisesRegex(pyplenum.PlenumError, "too old for fields"):
            stream(data, FIELDS, loader=loader)
        with stream(data, None, loader=loader) as s:
            self.assertEqual(sum(batch.hash() for batch in s) % 2**64, ctl_hash(data, []))

    def test_loader_without_boxes(self):
        """a loader older than 1.11 has fields, but no boxes, JSON members or streams without images"""
        loader = self.start("1.10")
        data = f"tar:{path_of('tars')}"
        for field in ("o:json:boxes", "o:json.text"):
            with self.assertRaisesRegex(pyplenum.PlenumError, "too old for boxes and members of JSON"):
                stream(data, [field], loader=loader)
        with self.assertRaisesRegex(pyplenum.PlenumError, "too old for streams without images"):
            stream(data, FIELDS, "none", loader=loader)
        with stream(data, FIELDS, loader=loader) as s:
            self.assertEqual(sum(batch.hash() for batch in s) % 2**64, ctl_hash(data, FIELDS))

    def test_loader_without_moves(self):
        """a loader older than 1.18 moves boxes and masks only by crops and flips"""
        loader = self.start("1.17")
        data = f"tar:{path_of('tars')}"
        with self.assertRaisesRegex(pyplenum.PlenumError, "too old for masks and boxes with operations that move"):
            stream(data, MASKS, "rrc(16) rotate(30)", loader=loader)
        for fields, pipeline in ((MASKS, "rrc(16) flip(0.5)"), (FIELDS, "rrc(16) rotate(30)")):
            with stream(data, fields, pipeline, loader=loader) as s:
                self.assertEqual(sum(batch.hash() for batch in s) % 2**64, ctl_hash(data, fields, pipeline))


if __name__ == "__main__":
    tap.main()
