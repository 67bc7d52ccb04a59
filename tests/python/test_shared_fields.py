# SPDX-License-Identifier: MIT
"""Tests streams that share renderings (plenumd --share-memory) and have fields or a plan: each receives what it would
receive alone, and the loader renders fewer samples than they receive. tests/loader/serve/test_sharing.py tests streams
of pixels only."""

import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402
from made import npy, png, write_tar  # noqa: E402

COUNT = 48
LIMIT = 300  # seconds for anything that must happen
FIELDS = ["caption:txt", "line:lines.txt:line", "score:score:float32", "vector:npy:npy", "mask:seg.png:mask",
          "boxes:json:boxes", "points:json:keypoints"]
FORMS = [{}, {"layout": "nchw", "micro_batch": 7, "steps": 1}, {"dtype": "int8", "micro_batch": 3}]
PIPELINE = "rrc(16x12) flip(0.5)"


def members(n):
    """Return a sample's members by extension; the lengths of texts and the numbers of objects vary."""
    height, width = 40 + n % 7, 36 + n % 11
    grey = ((np.arange(height)[:, None] * 7 + np.arange(width) * 3 + n) % 251).astype(np.uint8)
    objects = [{"bbox": [k, n % 9, 20, 15 + k], "category_id": k, "id": 10 * n + k,
                "keypoints": [k, 3, 2, n % 30, 8, 1]} for k in range(n % 4)]
    others = [{"bbox": [9, k, 5, 5], "category_id": k, "id": k} for k in range(n % 3)]
    return {"cls": str(n % 3).encode(), "json": json.dumps({"annotations": objects}).encode(),
            "other.json": json.dumps({"annotations": others}).encode(),
            "lines.txt": "".join(f"line {k} of {n}{'.' * k}\n" for k in range(n % 3 + 1)).encode(),
            "npy": npy(np.arange(6, dtype=np.float16) + n), "png": png(grey), "score": f"{n / 3:.9g}".encode(),
            "seg.png": png(grey), "txt": f"picture {n} {'x' * (n % 17)}".encode()}


def path_of(name):
    return os.path.join(T.name, name)


def index_of(data):
    done = subprocess.run([CTL, "index", data, "--json"], capture_output=True, text=True, check=True)
    st = os.stat(json.loads(done.stdout)["index"])
    return st.st_ino, st.st_mtime_ns


def setUpModule():
    global T, DATA
    T = tempfile.TemporaryDirectory(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = path_of("cache")
    DATA = f"tar:{path_of('a.tar')}"
    write_tar(path_of("a.tar"), [(f"a/{n:03d}", members(n)) for n in range(COUNT)])
    end = time.monotonic() + LIMIT
    while index_of(DATA) != index_of(DATA):  # while files are new, each opening has an index of its own
        assert time.monotonic() < end, "the index is not kept"
        time.sleep(0.1)


def tearDownModule():
    T.cleanup()


def stream(options, **more):
    return pyplenum.Stream(DATA, **{"pipeline": PIPELINE, "micro_batch": 4, "steps": 2, "epochs": 3, "seed": 5,
                                    "dtype": "uint8", **options, **more})


def hash_alone(options):
    with stream(options) as s:
        return sum(batch.hash() for batch in s) % 2**64


def save_weights(name, weight):
    np.save(path_of(f"{name}.npy"), np.array([weight(n) for n in range(COUNT)], np.float32))
    return f"file:{path_of(name)}.npy"


class SharedFieldsTest(unittest.TestCase):
    def setUp(self):
        self.address = f"unix:{T.name}/{self.id().rsplit('.', 1)[1]}.sock"
        loader = subprocess.Popen([os.environ.get("PLENUM_PLENUMD") or os.path.join(BUILD, "plenumd"), "--socket",
                                   self.address, "--share-memory", "64M", "--quiet"])
        self.addCleanup(loader.wait)
        self.addCleanup(loader.terminate)

    def hashes_together(self, forms):
        """Read streams of these options in turn, a batch each, and return their hashes."""
        streams = [stream(form, loader=self.address) for form in forms]
        hashes, under_way = [0] * len(forms), set(range(len(forms)))
        try:
            while under_way:
                for k in sorted(under_way):
                    batch = next(streams[k], None)
                    if batch is None:
                        under_way.remove(k)
                    else:
                        hashes[k] = (hashes[k] + batch.hash()) % 2**64
        finally:
            for s in streams:
                s.close()
        return hashes

    def copied(self):
        done = subprocess.run([CTL, "status", self.address, "--json"], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["loader"]["shared"]["copied"]

    def check_shared(self, options):
        alone = hash_alone(options)
        before = self.copied() if os.path.exists(self.address[5:]) else 0
        self.assertEqual(self.hashes_together([{**options, **form} for form in FORMS]), [alone] * len(FORMS))
        self.assertGreater(self.copied(), before)

    def test_fields(self):
        """Streams with the same fields share them, whatever their lengths and kinds"""
        self.check_shared({"fields": FIELDS})

    def test_fields_of_views(self):
        """Masks, boxes and key points of each image are shared"""
        self.check_shared({"fields": FIELDS, "pipeline": "view(a, 2, rrc(16x12) flip(0.5)) view(b, 1, rrc(8))"})

    def test_fields_of_several_pictures(self):
        """Objects and masks are shared where images show several pictures"""
        objects = [field for field in FIELDS if not field.endswith(":mask")]
        for pipeline, fields in ((f"{PIPELINE} mixup(1)", objects), (f"{PIPELINE} cutmix(1, p=0.8)", FIELDS),
                                 ("mosaic(24)", FIELDS), ("mosaic(24) flip(0.5) mixup(1)", objects)):
            with self.subTest(pipeline=pipeline):
                self.check_shared({"fields": fields, "pipeline": pipeline})

    def test_crops_around_boxes(self):
        """Crops that depend on boxes are shared only by streams with the same boxes"""
        pipeline = "iou_crop(boxes=b) resize(16x12) flip(0.5)"
        self.check_shared({"fields": ["b:json:boxes"], "pipeline": pipeline})
        before = self.copied()
        forms = [{"fields": [field], "pipeline": pipeline} for field in ("b:json:boxes:0.5", "b:other.json:boxes")]
        self.assertEqual(self.hashes_together(forms), [hash_alone(form) for form in forms])
        self.assertEqual(self.copied(), before)

    def test_other_fields(self):
        """Streams with other fields share nothing, and receive their own"""
        lists = [FIELDS[:1], FIELDS[:2], ["caption:lines.txt"], [], ["b:json:boxes:0.2"], ["b:json:boxes:0.9"],
                 ["b:json:keypoints"], ["b:json:keypoints:0-1"]]
        forms = [{"fields": fields} for fields in lists]
        self.assertEqual(self.hashes_together(forms), [hash_alone(form) for form in forms])
        self.assertEqual(self.copied(), 0)

    def test_plans(self):
        """Streams with the same plan share what they show"""
        weights = save_weights("weights", lambda n: n % 5 + 1)
        for plan in ({"select": "label 0..1"}, {"stratify": "label", "block": 6}, {"weights": weights},
                     {"select": "label 1", "fields": FIELDS}):
            with self.subTest(plan=plan):
                self.check_shared(plan)

    def test_other_plans(self):
        """Streams with other plans share nothing, even if only the contents of a file differ"""
        forms = [{"weights": save_weights("a", lambda n: n % 5 + 1)},
                 {"weights": save_weights("b", lambda n: n % 7 + 1)}]
        forms += [{"select": "label 0..1"}, {"select": "label 0..2"}, {}]
        self.assertEqual(self.hashes_together(forms), [hash_alone(form) for form in forms])
        self.assertEqual(self.copied(), 0)

    def test_changed_weights(self):
        """A stream that opens after its file of weights has changed shares nothing with those that opened before"""
        alone, streams = [], []
        for k in (5, 7):
            options = {"weights": save_weights("changed", lambda n, k=k: n % k + 1)}
            alone.append(hash_alone(options))
            streams.append(stream(options, loader=self.address))
            self.addCleanup(streams[-1].close)
        self.assertEqual([sum(batch.hash() for batch in s) % 2**64 for s in streams], alone)
        self.assertEqual(self.copied(), 0)


if __name__ == "__main__":
    tap.main()
