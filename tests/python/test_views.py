# SPDX-License-Identifier: MIT
"""Several views of a sample: arrays, lists of tensors, and hashes."""

import os
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402

A, B = "rrc(32x24, scale=0.4:1) flip(0.5)", "rrc(16, scale=0.05:0.4) hue(-0.3:0.3)"
VIEWS = f"view(a, 2, {A}) view(b, 3, {B})"
IMAGES = 3 * 7


def setUpModule():
    global T, DATA
    T = tempfile.TemporaryDirectory(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = os.path.join(T.name, "cache")
    DATA = os.path.join(T.name, "data")
    subprocess.run([CTL, "make-sample", DATA, "--classes", "3", "--images", "7", "--size", "64"], check=True,
                   stdout=subprocess.DEVNULL)


def tearDownModule():
    T.cleanup()


def ctl_hash(*options):
    done = subprocess.run([CTL, "hash", DATA, *options], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0], 16)


def stream(pipeline=VIEWS, **options):
    options = {"micro_batch": 4, "steps": 2, "epochs": 2, "seed": 5, "dtype": "uint8", **options}
    return pyplenum.Stream(DATA, pipeline, **options)


class ViewsTest(unittest.TestCase):
    def test_shapes(self):
        """an array for each view, in all ways of storing pixels"""
        for layout in ("nhwc", "nchw"):
            for channels in (3, 4):
                with stream(layout=layout, channels=channels, dtype="int8") as s:
                    batch = next(s)
                    self.assertEqual(list(batch.views), ["a", "b"])
                    for name, count, height, width in (("a", 2, 32, 24), ("b", 3, 16, 16)):
                        image = (channels, height, width) if layout == "nchw" else (height, width, channels)
                        array = batch.views[name]
                        self.assertEqual(array.shape, (2, 1, 4, count) + image)
                        self.assertEqual(array.dtype, np.int8)
                    self.assertEqual(batch.labels.shape, (2, 1, 4))
                    self.assertIn("a [2, 1, 4, 2,", repr(batch))

    def test_hash(self):
        """a stream's hash covers all views, and is that of one thread; other views have another"""
        want = ctl_hash("--pipeline", VIEWS, "--seed", "5", "--epochs", "2")
        for options in ({}, {"dtype": "int8", "layout": "nchw"}, {"micro_batch": 3, "steps": 1, "channels": 4}):
            with stream(**options) as s:
                self.assertEqual(sum(batch.hash() for batch in s) % 2**64, want)
        with stream(f"view(b, 2, {A}) view(a, 3, {B})") as s:
            self.assertEqual(sum(batch.hash() for batch in s) % 2**64, want)  # a name changes no pixel
        with stream(f"view(a, 2, {A}) view(b, 4, {B})") as s:
            self.assertNotEqual(sum(batch.hash() for batch in s) % 2**64, want)

    def test_first_image(self):
        """the first image is what the pipeline alone makes; no two of a sample are the same"""
        with stream() as several, stream(A) as one:
            for batch, alone in zip(several, one):
                first = batch.views["a"][:, :, :, 0]
                self.assertTrue(np.array_equal(first, alone.pixels))
                for name, array in batch.views.items():
                    flat = array.reshape((-1,) + array.shape[3:])[batch.valid.reshape(-1)]
                    for i in range(flat.shape[1]):
                        for k in range(i):
                            self.assertFalse(any(np.array_equal(x, y) for x, y in zip(flat[:, i], flat[:, k])), name)

    def test_repeat(self):
        """repeated positions have views of their own, whatever the micro-batch"""
        want = ctl_hash("--pipeline", VIEWS, "--seed", "5", "--repeat", "3")
        for micro_batch in (1, 2, 3, 9, 16):
            with stream(repeat=3, epochs=1, micro_batch=micro_batch, steps=1) as s:
                self.assertEqual(sum(batch.hash() for batch in s) % 2**64, want, micro_batch)

    def test_images(self):
        """`images` and `pixels` are those of a pipeline without views, and `views` of one with some"""
        with stream() as s:
            batch = next(s)
            for field in ("images", "pixels"):
                with self.assertRaisesRegex(ValueError, r"batch\.views\['a'\]"):
                    getattr(batch, field)
        with stream(A) as s:
            self.assertEqual(next(s).views, {})

    def test_lease(self):
        """a view's array holds the slot"""
        with stream(prefetch_depth=1, epochs=None) as s:
            held = next(s).views["b"]
            before = held.copy()
            for _ in range(10):
                next(s)
            self.assertTrue(np.array_equal(held, before))

    def test_cursor(self):
        """a cursor fits the same views alone"""
        with stream() as s:
            next(s)
            cursor = s.cursor
            rest = [batch.hash() for batch in s]
        with stream() as s:
            s.seek(cursor)
            self.assertEqual([batch.hash() for batch in s], rest)
        with stream(f"view(a, 2, {A}) view(b, 2, {B})") as s:
            with self.assertRaises(pyplenum.PlenumError):
                s.seek(cursor)


class TorchTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        try:
            import pyplenum.torch as plenum_torch
        except ImportError:
            raise unittest.SkipTest("torch is not installed") from None
        cls.torch = plenum_torch

    def test_list(self):
        """a loop gets a list of tensors, one for each image; the last batch may be short"""
        seen = 0
        with self.torch.Loader(DATA, VIEWS, micro_batch=8, seed=5) as loader, \
                stream(micro_batch=8, steps=1, layout="nchw") as s:
            for (images, labels), batch in zip(loader, s):
                self.assertEqual(len(images), 5)
                count = batch.num_valid
                for i, image in enumerate(images):
                    array = batch.views["a"][0, 0, :count, i] if i < 2 else batch.views["b"][0, 0, :count, i - 2]
                    self.assertTrue(np.array_equal(image.numpy(), array))
                self.assertEqual(len(labels), count)
                seen += count
        self.assertEqual(seen, IMAGES)

    def test_copies(self):
        """copies do not hold the ring"""
        with self.torch.Loader(DATA, VIEWS, micro_batch=1, copy=True, fields=("views",)) as loader:
            held = [images for images, in loader]
            self.assertEqual(len(held), IMAGES)
            self.assertTrue(all(image.is_contiguous() for images in held for image in images))

    def test_mistakes(self):
        """what there is not is said"""
        with self.torch.Loader(DATA, A, fields=("views",)) as loader:
            with self.assertRaisesRegex(ValueError, "has no views"):
                next(iter(loader))
        with self.torch.Loader(DATA, VIEWS, fields=("images",)) as loader:
            with self.assertRaisesRegex(ValueError, "has views"):
                next(iter(loader))
        with stream() as s:
            with self.assertRaisesRegex(ValueError, "view_list"):
                self.torch.tensor(next(s), "views")


if __name__ == "__main__":
    tap.main()
