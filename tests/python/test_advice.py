# SPDX-License-Identifier: MIT
"""What users are told of data that cannot be used as it is: the cause, once, and advice that works when it is taken."""

import io
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
import warnings

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL, PLENUMD = os.path.join(BUILD, "plenumctl"), os.path.join(BUILD, "plenumd")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402
from made import png, write_tar  # noqa: E402


def image(seed=0):
    return png((np.arange(12 * 16).reshape(12, 16) * 3 + seed).astype(np.uint8))


def deep_image():
    return png((np.arange(12 * 16).reshape(12, 16) * 300).astype(np.uint16))


def put(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as f:
        f.write(data if isinstance(data, bytes) else data.encode())


class AdviceTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.folder.name)
        os.environ["PLENUM_CACHE_DIR"] = os.path.join(self.folder.name, "cache")

    def ctl(self, *arguments, status=None):
        done = subprocess.run([CTL, *arguments], capture_output=True, text=True)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def refused(self, name):
        """The sentence of an opening that fails."""
        said = self.ctl("index", name, status=1)
        self.assertEqual(said.count("\n"), 1, said)
        return said

    def labels(self, name):
        """The labels of a data set in its order."""
        with pyplenum.Stream(name, "resize(8x8)", shuffle="none", epochs=1, dtype="uint8", micro_batch=1) as s:
            return [int(b.labels.ravel()[0]) for b in s]

    # ---- 16 bits ----

    def test_png_of_16_bits_warns(self):
        """a PNG of 16 bits warns at the index, in the program, and is counted by verify"""
        put("data/a/0.png", image())
        put("data/a/1.png", deep_image())
        sentence = ("only the upper 8 bits are shown of PNGs of 16 bits a channel "
                    "(1 of the 2 images that were looked at)")
        for _ in range(2):  # a new index, and one that is kept
            self.assertIn(sentence, self.ctl("index", "data", status=0))
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            with pyplenum.Stream("data", "resize(8x8)", epochs=3, micro_batch=1, dtype="uint8") as s:
                for _ in s:
                    pass
        self.assertEqual(sum("16 bits" in str(w.message) for w in said), 1, [str(w.message) for w in said])
        self.assertIn("16 bits      1 of the PNGs", self.ctl("verify", "data", "--no-list", status=0))
        self.assertEqual(json.loads(self.ctl("verify", "data", "--no-list", "--json", status=0))["deep"], 1)

    def test_masks_of_16_bits_do_not_warn(self):
        """a mask of 16 bits keeps all of them, so nothing is said"""
        write_tar("x.tar", [("a", {"cls": b"0", "png": image(), "depth.png": deep_image()})])
        for name in ("tar:x.tar", "tar,image=png:x.tar"):
            self.assertNotIn("16 bits", self.ctl("index", name))
        write_tar("none.tar", [("a", {"depth.png": deep_image()})])
        self.assertNotIn("16 bits", self.ctl("index", "tar,image=none:none.tar", status=0))

    # ---- a stream that fails ----

    def test_failed_stream_says_so_once(self):
        """a failed batch is logged once, and no batches behind it are requested"""
        put("data/a/0.png", "no image")
        log = open("log", "w+b")
        self.addCleanup(log.close)
        p = subprocess.Popen([PLENUMD, "--socket", f"unix:{self.folder.name}/p.sock", "--threads", "1"], stderr=log)
        self.addCleanup(p.wait)
        self.addCleanup(p.terminate)
        with pyplenum.Stream("data", "resize(8x8)", loader=f"unix:{self.folder.name}/p.sock", bad="fail",
                             micro_batch=1) as s:
            for _ in range(3):
                with self.assertRaisesRegex(pyplenum.PlenumError, "no image|begins with byte"):
                    next(iter(s))
            failed = [json.loads(self.ctl("status", f"unix:{self.folder.name}/p.sock", "--json",
                                          status=0))["loader"]["failed_batches"] for _ in range(20)]
        self.assertLessEqual(max(failed), 32, failed)
        log.seek(0)
        self.assertEqual(log.read().count(b"0.png"), 1)


if __name__ == "__main__":
    tap.main()
