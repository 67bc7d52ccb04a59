# SPDX-License-Identifier: MIT
"""Fields in plenumctl hash. The same samples have the same hash in a folder, an archive and a list, and damaged samples
give an error message. This does not load libplenum into Python, so it also runs with sanitizers."""

import csv
import json
import os
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
sys.path[:0] = [os.path.join(SOURCE, "tests", "python")]

import tap  # noqa: E402

if tap.find("numpy") is None:
    tap.skip_all("NumPy is not installed for this Python")

import numpy as np  # noqa: E402

from made import npy, png, write_tar  # noqa: E402

COUNT = 12
CROPS = "rrc(16x12) flip(0.5) vertical_flip(0.5)"
VIEWS = "exif view(a, 2, rrc(9x7) flip(0.5)) view(b, 1, resize(12) pad(4, reflect) random_crop(14))"


def sample(n):
    grey = ((np.arange(20 + n)[:, None] * 7 + np.arange(31) * 3 + n) % 251).astype(np.uint8)
    boxes = [{"bbox": [k - 3, k, 5 * k, 9], "category_id": k} for k in range(n % 4)]
    return {"png": png(grey), "txt": f"text {n}\nand another".encode(), "json": json.dumps(boxes).encode(),
            "npy": npy(np.arange(n, n + 6).reshape(2, 3)), "seg": png(grey), "n": f"{n} {-n} {n * 10**15}".encode()}


class CtlFieldsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="plenum-test-")
        cls.addClassCleanup(cls.folder.cleanup)
        os.environ["PLENUM_CACHE_DIR"] = cls.path("cache")
        for n in range(COUNT):
            os.makedirs(cls.path("data/c"), exist_ok=True)
            for extension, data in sample(n).items():
                with open(cls.path(f"data/c/{n:02d}.{extension}"), "wb") as f:
                    f.write(data)
        write_tar(cls.path("data.tar"), [(f"{n:02d}", sample(n)) for n in range(COUNT)])
        with open(cls.path("data.csv"), "w", newline="", encoding="utf-8") as f:
            rows = csv.writer(f)
            rows.writerow(["path", "label", "txt", "json", "n", "npy", "seg"])
            for n in range(COUNT):
                one = sample(n)
                rows.writerow([f"data/c/{n:02d}.png", 0, *(one[k].decode() for k in ("txt", "json", "n")),
                               f"data/c/{n:02d}.npy", f"data/c/{n:02d}.seg"])

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    def hash(self, data, fields, *more):
        done = subprocess.run([CTL, "hash", data, "--seed", "3", "--epochs", "2", "--fields", fields, *more],
                              capture_output=True, text=True)
        return done.returncode, done.stdout.strip(), done.stderr

    def test_forms(self):
        """a folder, an archive and a list of the same samples have the same hash"""
        alone = "txt,line:txt:line,raw:txt:bytes,npy:npy:npy,n:n:int64,share:n:float32"
        masks = alone + ",objects:json:boxes,some:json:boxes:0.5,seg:seg:mask"
        forms = [self.path("data"), f"tar,label=none:{self.path('data.tar')}", f"list:{self.path('data.csv')}"]
        seen = set()
        for pipeline, fields in ((CROPS, masks), (VIEWS, masks), ("rrc(8) mixup(1)", alone), ("none", alone)):
            for more in ((), ("--repeat", "3")):
                # without `raw`: in a list, bytes come from files
                hashes = {self.hash(form, fields.replace("raw:txt:bytes,", ""), "--pipeline", pipeline, *more)
                          for form in forms}
                self.assertEqual([(code, err) for code, _, err in hashes], [(0, "")], (pipeline, more))
                seen |= hashes
        self.assertEqual(len(seen), 8)

    def test_damaged(self):
        """malformed JSON, arrays, numbers, PNGs and strings give an error message that names their sample"""
        for extension, data, fields in (
                ("json", b"[" * 3000, "a:json:boxes"), ("json", b"[{}]", "a:json:boxes"), ("json", b"", "a:json:boxes"),
                ("json", b'[{"bbox": [1, 2, -3, 4], "category_id": 1}]', "a:json:boxes"), ("txt", b"\xff", "a:txt"),
                ("json", b'{"boxes": [[1, 2, 3]], "labels": [1]}', "a:json:boxes"), ("n", b"1 x", "a:n:float32"),
                ("npy", b"\x93NUMPY\1\0\377\377{", "a:npy:npy"), ("txt", b" \n ", "a:txt:line"),
                ("seg", png(np.zeros((3, 4), np.uint8))[:-20], "a:seg:mask")):
            write_tar(self.path("bad.tar"), [(f"{n:02d}", {**sample(n), **({extension: data} if n == 5 else {})})
                                             for n in range(COUNT)])
            code, out, err = self.hash(f"tar,label=none:{self.path('bad.tar')}", fields, "--pipeline", CROPS, "--bad",
                                       "fail")
            self.assertEqual((code, out), (1, ""), (extension, data[:20]))
            self.assertRegex(err, f"plenumctl hash: .*05.*'{extension}'.*[a-z]{{3}}")


if __name__ == "__main__":
    tap.main()
