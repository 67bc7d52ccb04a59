# SPDX-License-Identifier: MIT
"""Compares the conversion of pixels to floats with NumPy, and with torch if it is installed."""

import os
import subprocess
import sys
import tempfile
import threading
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")
torch = tap.find("torch")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402

MEAN, STD = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])


def pixels(*shape, dtype="u1"):
    """Return pixels with various values: all 256, if there are enough pixels."""
    count = int(np.prod(shape))
    return ((np.arange(count) * 167 + np.arange(count) // 256 * 31) % 256).astype("u1").view(dtype).reshape(shape)


def plainly(images, source, layout, mean=MEAN, std=STD):
    """Return the float32 values that the docstring defines."""
    level = images.astype(np.int32) + (128 if images.dtype == np.int8 else 0)
    level = level if source == "nhwc" else np.moveaxis(level, -3, -1)
    scale, bias = (1 / (255 * std)).astype("f4"), (-mean / std).astype("f4")
    floats = level[..., :3].astype("f4") * scale + bias
    return np.ascontiguousarray(floats if layout == "nhwc" else np.moveaxis(floats, -1, -3))


def bfloat16_bits(floats):
    bits = floats.view("u4")
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype("u2")


class NormaliseTest(unittest.TestCase):
    def test_numpy(self):
        """the result equals NumPy's, bit for bit: all types, layouts, channels and shapes"""
        for shape in ((1, 1), (7, 13), (96, 96)):
            for lead in ((), (3,), (2, 1, 3)):
                for channels in (3, 4):
                    for dtype in ("u1", "i1"):
                        for source, of in (("nhwc", shape + (channels,)), ("nchw", (channels,) + shape)):
                            images = pixels(*lead, *of, dtype=dtype)
                            for layout in (None, "nhwc", "nchw"):
                                want = plainly(images, source, layout or source)
                                got = pyplenum.normalise(images, layout=layout, source=source)
                                self.assertEqual((got.dtype, got.shape), (np.float32, want.shape))
                                self.assertTrue(np.array_equal(got.view("u4"), want.view("u4")))
                                got = pyplenum.normalise(images, dtype="float16", layout=layout, source=source)
                                self.assertTrue(np.array_equal(got.view("u2"), want.astype("f2").view("u2")))
                                got = pyplenum.normalise(images, dtype="bfloat16", layout=layout, source=source)
                                self.assertTrue(np.array_equal(got, bfloat16_bits(want)))

    def test_constants(self):
        """mean and std are three numbers or one"""
        images = pixels(4, 16, 16, 3)
        for mean, std in ((0.5, 0.25), ([0.1, 0.2, 0.3], (0.4, 0.5, 0.6)), (np.float32(0), np.array([1, 2, 3]))):
            want = plainly(images, "nhwc", "nhwc", np.broadcast_to(mean, 3).astype(float),
                           np.broadcast_to(std, 3).astype(float))
            self.assertTrue(np.array_equal(pyplenum.normalise(images, mean, std), want))
        exact = (images / 255 - MEAN) / STD
        self.assertLess(np.abs(pyplenum.normalise(images) - exact).max(), 1e-6)

    def test_out(self):
        """normalise() returns the array `out`, and writes nothing outside it"""
        images = pixels(5, 3, 7, 13, dtype="i1")
        memory = np.full(5 * 3 * 7 * 13 + 2, 7, "f4")
        out = memory[1:-1].reshape(5, 7, 13, 3)
        self.assertIs(pyplenum.normalise(images, layout="nhwc", out=out), out)
        self.assertTrue(np.array_equal(out, plainly(images, "nchw", "nhwc")))
        self.assertEqual((memory[0], memory[-1]), (7, 7))
        images.setflags(write=False)
        pyplenum.normalise(images, layout="nhwc", out=out)

    def test_batch(self):
        """arrays of a batch are accepted directly, also those of views"""
        with tempfile.TemporaryDirectory(prefix="plenum-test-") as folder:
            os.environ["PLENUM_CACHE_DIR"] = os.path.join(folder, "cache")
            data = os.path.join(folder, "data")
            subprocess.run([os.path.join(BUILD, "plenumctl"), "make-sample", data, "--images", "5", "--size", "64"],
                           check=True, stdout=subprocess.DEVNULL)
            for pipeline in ("rrc(32)", "view(a, 2, rrc(32)) view(b, 1, rrc(16x24))"):
                for options in ({}, {"dtype": "uint8", "layout": "nchw"}, {"channels": 4}):
                    with pyplenum.Stream(data, pipeline, micro_batch=4, epochs=1, **options) as stream:
                        batch = next(stream)
                        for array in batch.views.values() or (batch.images, batch.pixels):
                            got = pyplenum.normalise(array, layout="nchw")
                            want = plainly(array, options.get("layout", "nhwc"), "nchw")
                            self.assertTrue(np.array_equal(got, want))

    def test_torch(self):
        """the result equals torch's, and a tensor's memory can be written to"""
        if torch is None:
            self.skipTest("no torch")
        images = pixels(4, 32, 24, 3, dtype="i1")
        mean, std = (torch.tensor(v, dtype=torch.float32).reshape(3, 1, 1) for v in (MEAN, STD))
        x = torch.from_numpy(images).permute(0, 3, 1, 2)
        want = ((x.float() + 128) / 255).sub_(mean).div_(std)
        got = torch.from_numpy(pyplenum.normalise(images, layout="nchw"))
        self.assertLess(float((got - want).abs().max()), 1e-6)
        bits = pyplenum.normalise(images, dtype="bfloat16", layout="nchw")
        self.assertTrue(torch.equal(torch.from_numpy(bits.view("i2")).view(torch.bfloat16), got.to(torch.bfloat16)))
        halves = torch.from_numpy(pyplenum.normalise(images, dtype="float16", layout="nchw"))
        self.assertTrue(torch.equal(halves, got.to(torch.float16)))
        tensor = torch.empty(4, 3, 32, 24, dtype=torch.bfloat16)
        pyplenum.normalise(images, dtype="bfloat16", layout="nchw", out=tensor.view(torch.int16).numpy().view("u2"))
        self.assertTrue(torch.equal(tensor, got.to(torch.bfloat16)))

    def test_threads(self):
        """threads can convert parts of an array at the same time"""
        images = pixels(8, 48, 64, 3)
        out = np.empty((8, 3, 48, 64), "f4")
        threads = [threading.Thread(target=lambda i=i: pyplenum.normalise(images[2 * i:2 * i + 2], layout="nchw",
                                                                          out=out[2 * i:2 * i + 2])) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertTrue(np.array_equal(out, plainly(images, "nhwc", "nchw")))

    def test_refusals(self):
        """invalid arguments are rejected with a message"""
        images, call = pixels(2, 8, 8, 3), pyplenum.normalise
        for error, sentence, arguments in (
                (TypeError, "not float32", {"images": images.astype("f4")}),
                (TypeError, "not list", {"images": [1, 2, 3]}),
                (ValueError, r"numpy\.ascontiguousarray\(images\)", {"images": images[:, ::2]}),
                (ValueError, r"\[2, 8, 8, 5\] is not such a shape", {"images": pixels(2, 8, 8, 5)}),
                (ValueError, r"\[8, 3\] is not such a shape", {"images": pixels(8, 3)}),
                (ValueError, r"\[2, 8, 8, 3\] is not nchw", {"images": images, "source": "nchw"}),
                (ValueError, "source must be nhwc or nchw, not 'hwc'", {"images": images, "source": "hwc"}),
                (ValueError, "could be NHWC or NCHW: pass source", {"images": pixels(2, 3, 8, 4)}),
                (ValueError, "dtype must be one of float32, float16, bfloat16, not 'float64'",
                 {"images": images, "dtype": "float64"}),
                (ValueError, "layout must be nhwc or nchw, not 'chw'", {"images": images, "layout": "chw"}),
                (ValueError, "mean must be three numbers", {"images": images, "mean": (1, 2)}),
                (ValueError, "std must be three numbers", {"images": images, "std": "wide"}),
                (ValueError, r"out must be a NumPy array, float32 \[2, 3, 8, 8\], not float32 \[2, 8, 8, 3\]",
                 {"images": images, "layout": "nchw", "out": np.empty((2, 8, 8, 3), "f4")}),
                (ValueError, "uint16 .*, not float16", {"images": images, "dtype": "bfloat16",
                                                        "out": np.empty((2, 8, 8, 3), "f2")}),
                (ValueError, "not list", {"images": images, "out": []}),
                (ValueError, "out must be contiguous",
                 {"images": images, "out": np.empty((2, 8, 16, 3), "f4")[:, :, ::2]}),
                (pyplenum.PlenumError, r"std\[1\] is 0: it must be", {"images": images, "std": (1, 0, 1)}),
                (pyplenum.PlenumError, r"mean\[0\] is nan", {"images": images, "mean": float("nan")}),
                (pyplenum.PlenumError, "0x8: both must be", {"images": pixels(2, 0, 8, 3)})):
            with self.assertRaisesRegex(error, sentence):
                call(**arguments)
        self.assertEqual(call(pixels(0, 8, 8, 3), layout="nchw").shape, (0, 3, 8, 8))


if __name__ == "__main__":
    tap.main()
