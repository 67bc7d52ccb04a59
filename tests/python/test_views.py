# SPDX-License-Identifier: MIT
"""Tests several views of a sample: arrays, lists of tensors, and hashes. Also tests the geometry of images."""

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
from ports import free_port  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import made  # noqa: E402
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


def write_png(path, pixels):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(made.png(pixels))


def stream(pipeline=VIEWS, dataset=None, **options):
    options = {"micro_batch": 4, "steps": 2, "epochs": 2, "seed": 5, "dtype": "uint8", **options}
    return pyplenum.Stream(dataset or DATA, pipeline, **options)


class ViewsTest(unittest.TestCase):
    def test_shapes(self):
        """each view has an array, in every dtype and layout"""
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
        """a stream's hash covers all views, and equals that of one thread; different views give a different hash"""
        want = ctl_hash("--pipeline", VIEWS, "--seed", "5", "--epochs", "2")
        for options in ({}, {"dtype": "int8", "layout": "nchw"}, {"micro_batch": 3, "steps": 1, "channels": 4}):
            with stream(**options) as s:
                self.assertEqual(sum(batch.hash() for batch in s) % 2**64, want)
        with stream(f"view(b, 2, {A}) view(a, 3, {B})") as s:
            self.assertEqual(sum(batch.hash() for batch in s) % 2**64, want)  # a name changes no pixel
        with stream(f"view(a, 2, {A}) view(b, 4, {B})") as s:
            self.assertNotEqual(sum(batch.hash() for batch in s) % 2**64, want)

    def test_first_image(self):
        """the first image is that of the pipeline without views; no two images of a sample are equal"""
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
        """repeated positions have their own views, whatever the micro-batch"""
        want = ctl_hash("--pipeline", VIEWS, "--seed", "5", "--repeat", "3")
        for micro_batch in (1, 2, 3, 9, 16):
            with stream(repeat=3, epochs=1, micro_batch=micro_batch, steps=1) as s:
                self.assertEqual(sum(batch.hash() for batch in s) % 2**64, want, micro_batch)

    def test_images(self):
        """`images` and `pixels` exist only without views, and `views` only with them"""
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
        """a cursor is valid only for the same views"""
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


class GeometryTest(unittest.TestCase):
    """Checks that each image is its box of the whole picture, flipped as `flips` says."""

    @classmethod
    def setUpClass(cls):
        cls.data = os.path.join(T.name, "noise")
        numbers = np.random.default_rng(1)
        for i in range(IMAGES):
            pixels = numbers.integers(0, 256, (64, 56, 3), np.uint8)
            write_png(os.path.join(cls.data, "c", f"{i:02}.png"), pixels)

    def stream(self, pipeline, **options):
        return stream(pipeline, dataset=self.data, **options)

    def whole(self):
        """Return the whole pictures, by number."""
        with self.stream("resize(64x56)", epochs=1) as s:
            return {int(n): image for batch in s for n, image in zip(batch.samples.reshape(-1), batch.images.copy())}

    def shown(self, whole, box, flips):
        """Return a box of whole pixels; those outside the picture are 7."""
        left, top, right, bottom = (int(x) for x in box)
        padded = np.pad(whole, ((99, 99), (99, 99), (0, 0)), constant_values=7)
        image = padded[top + 99:bottom + 99, left + 99:right + 99]
        image = image[:, ::-1] if flips & 1 else image
        return image[::-1] if flips & 2 else image

    def test_crops(self):
        """boxes and flips give the exact pixels that are delivered, also for padding and repeated positions"""
        whole, flipped, beyond = self.whole(), set(), 0
        for text in ("pad(9, fill=7) random_crop(40x32) flip(0.5) vertical_flip(0.5)",
                     "pad(0, fill=7) random_crop(70x80) flip(0.5)", "resize(56) center_crop(20x30)",
                     "pad(3, fill=7) random_crop(64) vertical_flip(0.5) flip(0.5) flip(0.5)"):
            with self.stream(text, repeat=2) as s:
                for batch in s:
                    self.assertTrue((batch.sizes == (64, 56)).all())
                    for image, n, box, flips in zip(batch.images, batch.samples.reshape(-1), batch.boxes.reshape(-1, 4),
                                                    batch.flips.reshape(-1)):
                        self.assertTrue(np.array_equal(image, self.shown(whole[int(n)], box, flips)), (text, box))
                        flipped.add(int(flips))
                        beyond += int(box.min() < 0)
        self.assertEqual(flipped, {0, 1, 2, 3})
        self.assertGreater(beyond, 10)

    def test_views(self):
        """each image of each view has its own geometry"""
        whole, count = self.whole(), 0
        text = "view(a, 2, pad(9, fill=7) random_crop(40x32) flip(0.5)) view(b, 1, pad(2, fill=7) random_crop(9))"
        with self.stream(text) as s:
            for batch in s:
                self.assertEqual(batch.boxes["a"].shape, (2, 1, 4, 2, 4))
                self.assertEqual(batch.flips["b"].shape, (2, 1, 4, 1))
                for place in np.ndindex(2, 1, 4):
                    for name in "ab":
                        for i, image in enumerate(batch.views[name][place]):
                            box, flips = batch.boxes[name][place][i], batch.flips[name][place][i]
                            want = self.shown(whole[int(batch.samples[place])], box, flips)
                            self.assertTrue(np.array_equal(image, want), (name, box))
                            count += 1
        self.assertGreater(count, 2 * IMAGES)

    def test_resized(self):
        """a resized crop lies within the picture, and its sides match its scale and ratio"""
        with self.stream("rrc(16, scale=0.2:0.5, ratio=1/2:2)", epochs=3) as s:
            for batch in s:
                left, top, right, bottom = batch.boxes.reshape(-1, 4).T
                self.assertTrue((left >= 0).all() and (top >= 0).all() and (right <= 56).all() and (bottom <= 64).all())
                share = (right - left) * (bottom - top) / (64 * 56)
                self.assertTrue((share > 0.17).all() and (share < 0.54).all())

    def test_mixed(self):
        """a mixed sample has its own geometry, not its partner's"""
        with self.stream("rrc(16) mixup(1)") as mixed, self.stream("rrc(16)") as alone:
            for one, two in zip(mixed, alone):
                self.assertTrue(np.array_equal(one.boxes, two.boxes))
                self.assertTrue(np.array_equal(one.sizes, two.sizes))


class OlderLoaderTest(unittest.TestCase):
    """Tests a loader whose protocol is older than 1.9."""

    def setUp(self):
        wrong = os.path.join(BUILD, "tests", "libdist", "plenumd-wrong")  # emulates an older loader
        if not os.path.exists(wrong):
            self.skipTest("plenumd-wrong is built only with Criterion")
        port = free_port()
        self.addresses = [f"unix:{T.name}/older.sock", f"tcp:127.0.0.1:{port}"]
        self.loader = subprocess.Popen([wrong, "--socket", self.addresses[0], "--listen", f"127.0.0.1:{port}", "--root",
                                        T.name, "--quiet"], env={**os.environ, "PLENUM_WRONG_VERSION": "1.8"})
        self.addCleanup(self.loader.wait)
        self.addCleanup(self.loader.terminate)

    def test_older_loader(self):
        """such a loader delivers the same batches without boxes, over a Unix socket, TCP, or both"""
        want = ctl_hash("--pipeline", A, "--seed", "5", "--epochs", "2")
        for loader in (*self.addresses, ",".join(self.addresses)):
            with stream(A, loader=loader) as s:
                batches = [(batch.hash(), batch.boxes, batch.flips, batch.sizes) for batch in s]
            self.assertEqual(sum(hashed for hashed, *_ in batches) % 2**64, want, loader)
            self.assertTrue(all(geometry == [None] * 3 for _, *geometry in batches))

    def test_views(self):
        """a request for views is rejected with a message"""
        for loader in self.addresses:
            with self.assertRaisesRegex(pyplenum.PlenumError, "too old for views"):
                stream(loader=loader)

    def test_junk(self):
        """the word junk is rejected with a message"""
        for loader in self.addresses:
            for pipeline in ("junk " + A, "exif junk view(a, 1, rrc(8))"):
                with self.assertRaisesRegex(pyplenum.PlenumError, "too old for the word junk in pipelines|for views"):
                    stream(pipeline, loader=loader)


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

    def test_geometry(self):
        """batches have boxes, flips and sizes; with views, those of each image"""
        fields = ("boxes", "flips", "sizes")
        with self.torch.Loader(DATA, A, micro_batch=8, seed=5, fields=fields) as loader, \
                stream(A, micro_batch=8, steps=1) as s:
            for (boxes, flips, sizes), batch in zip(loader, s):
                self.assertTrue(np.array_equal(boxes.numpy(), batch.boxes[batch.valid]))
                self.assertTrue(np.array_equal(flips.numpy(), batch.flips[batch.valid]))
                self.assertTrue(np.array_equal(sizes.numpy(), batch.sizes[batch.valid]))
        with self.torch.Loader(DATA, VIEWS, micro_batch=8, seed=5, fields=fields) as loader, \
                stream(micro_batch=8, steps=1) as s:
            for (boxes, flips, sizes), batch in zip(loader, s):
                self.assertEqual((len(boxes), len(flips)), (5, 5))
                self.assertTrue(np.array_equal(boxes[3].numpy(), batch.boxes["b"][:, :, :, 1][batch.valid]))
                self.assertTrue(np.array_equal(flips[1].numpy(), batch.flips["a"][:, :, :, 1][batch.valid]))

    def test_floats(self):
        """floats are normalised images, also of views and in a short batch"""
        import torch

        mean, std = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
        scale = np.float32(1 / (255 * np.array(std))).reshape(3, 1, 1)
        bias = np.float32(-np.array(mean) / np.array(std)).reshape(3, 1, 1)
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            for layout, channels in (("nchw", 3), ("nhwc", 4)):
                options = {"micro_batch": 8, "seed": 5, "layout": layout, "channels": channels}
                with self.torch.Loader(DATA, A, dtype=dtype, mean=mean, std=std, **options) as loader, \
                        self.torch.Loader(DATA, A, **options) as plain:
                    for (floats, labels), (images, same) in zip(loader, plain):
                        planes = (images if layout == "nchw" else images.permute(0, 3, 1, 2))[:, :3].numpy()
                        want = torch.from_numpy(planes.astype("f4") * scale + bias).to(dtype)
                        got = floats if layout == "nchw" else floats.permute(0, 3, 1, 2)
                        self.assertTrue(torch.equal(got, want))
                        self.assertTrue(torch.equal(labels, same))
                with self.torch.Loader(DATA, VIEWS, dtype=dtype, mean=mean, std=std, **options) as loader, \
                        self.torch.Loader(DATA, VIEWS, **options) as plain:
                    for (floats, _), (images, _) in zip(loader, plain):
                        self.assertEqual(len(floats), 5)
                        for one, two in zip(floats, images):
                            planes = (two if layout == "nchw" else two.permute(0, 3, 1, 2))[:, :3].numpy()
                            want = torch.from_numpy(planes.astype("f4") * scale + bias).to(dtype)
                            self.assertTrue(torch.equal(one if layout == "nchw" else one.permute(0, 3, 1, 2), want))

    def test_floats_that_are_wrong(self):
        """invalid options are rejected before anything is opened"""
        import torch

        for options, what in (({"mean": 0.5}, "mean and std apply to floats"),
                              ({"dtype": torch.int32}, "dtype must be"),
                              ({"dtype": torch.float32, "std": 0}, r"std\[0\]"),
                              ({"dtype": torch.float32, "mean": (1, 2)}, "mean must be three numbers")):
            with self.assertRaisesRegex((ValueError, pyplenum.PlenumError), what):
                self.torch.Loader(DATA, A, **options)

    def test_mistakes(self):
        """a missing field is rejected with a message"""
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
