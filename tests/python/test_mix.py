# SPDX-License-Identifier: MIT
"""Compares streams and plenumctl with an independent implementation of mixup and cutmix from docs/pixels.md, 11."""

import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from fractions import Fraction

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

WORD = 2**32


def draw(seed, position, epoch, number):
    x0, x1, x2, x3 = position, epoch, 19, number
    k0, k1 = seed % WORD, seed // WORD
    for _ in range(10):
        a, b = 0xD2511F53 * x0, 0xCD9E8D57 * x2
        x0, x1, x2, x3 = b // WORD ^ x1 ^ k0, b % WORD, a // WORD ^ x3 ^ k1, a % WORD
        k0, k1 = (k0 + 0x9E3779B9) % WORD, (k1 + 0xBB67AE85) % WORD
    return x0, x1, x2, x3


def log(x):
    """Return -log2(x / 2^33) in units of 2^-32."""
    s = 64 - x.bit_length()
    y, bits = x * 2**s, 0
    for _ in range(32):
        y = y * y // 2**63
        bit = y // 2**64
        y //= 2**bit
        bits = 2 * bits + bit
    return (s - 30) * WORD - bits


ROOTS = [2**47]  # 2^(-2^-k) in units of 2^-48
while len(ROOTS) < 33:
    ROOTS.append(math.isqrt(ROOTS[-1] * 2**48))


def power(n):
    """Return 2^(-n / 2^32) in units of 2^-48."""
    if n // WORD > 48:
        return 0
    f = 2**48
    for k in range(1, 33):
        if n // 2**(32 - k) % 2:
            f = f * ROOTS[k] // 2**48
    return f // 2**(n // WORD)


def share(alpha, seed, position, epoch):
    for t in range(1, 65):
        w0, w1, _, _ = draw(seed, position, epoch, t)
        a, b = log(2 * w0 + 1), log(2 * w1 + 1)
        if alpha < 1:
            x, y = a * alpha.denominator // alpha.numerator, b * alpha.denominator // alpha.numerator
            if power(x) + power(y) > 2**48:
                continue
            total = 2**48 + power(abs(x - y))
            larger = (2**63 + total // 2) // total
            return larger if x < y else 2**15 - larger
        q = a + log(2**33 - 2 * w0 - 1) - 2 * WORD
        if b * alpha.denominator >= q * (alpha.numerator - alpha.denominator):
            return (w0 + 2**16) // 2**17
    return 2**14


class Mix:
    """Computes the result that the page defines for mix(mixup=, cutmix=, p=, switch=)."""

    def __init__(self, mixup=None, cutmix=None, p="1", switch="1/2"):
        self.mixup, self.cutmix = (a and Fraction(a) for a in (mixup, cutmix))
        self.p = Fraction(p)
        self.switch = Fraction(switch) if mixup and cutmix else Fraction(1 if cutmix else 0)
        self.text = "mix(" + ",".join(
            f"{k}={v}" for k, v in {"mixup": mixup, "cutmix": cutmix, "p": p, "switch": switch}.items() if v) + ")"

    def of(self, seed, epoch, position, side, own, partner):
        """Return (pixels, weight) for the pixels of a sample and its partner, uint8 [side, side, 3]."""
        import numpy as np

        w0, w1, w2, w3 = draw(seed, position, epoch, 0)
        if w0 * self.p.denominator >= self.p.numerator * WORD:
            return own, 1.0
        if w1 * self.switch.denominator >= self.switch.numerator * WORD:
            s = share(self.mixup, seed, position, epoch)
            d = own.astype(np.int32) - partner
            return (own if s == 2**15 else (partner + ((d * s + 2**14) >> 15)).astype(np.uint8)), s / 2**15
        s = share(self.cutmix, seed, position, epoch)
        half = math.isqrt(side * side * (2**15 - s) // 2**17)
        x, y = w2 * side // WORD, w3 * side // WORD
        left, right, top, bottom = max(0, x - half), min(side, x + half), max(0, y - half), min(side, y + half)
        pixels = own.copy()
        pixels[top:bottom, left:right] = partner[top:bottom, left:right]
        kept = side * side - (right - left) * (bottom - top)
        return pixels, (2 * kept * 2**24 + side * side) // (2 * side * side) / 2**24


@unittest.skipIf(os.environ.get("PLENUM_SANITIZED"), "a sanitized library cannot be loaded into an ordinary Python")
@unittest.skipUnless(tap.find("numpy"), "NumPy is not installed")
class MixTest(unittest.TestCase):
    SIDE = 24
    CROP = f"rrc({SIDE}) flip(0.5) color_jitter(0.4)"

    @classmethod
    def setUpClass(cls):
        import pyplenum

        cls.pyplenum = pyplenum
        cls.folder = tempfile.TemporaryDirectory()
        cls.data = os.path.join(cls.folder.name, "data")
        subprocess.run([CTL, "make-sample", cls.data, "--classes", "3", "--images", "7", "--size", "48"], check=True,
                       stdout=subprocess.DEVNULL)
        files = sorted(os.path.join(d, f) for d, _, names in os.walk(cls.data) for f in names)
        for i in (4, 5, 12):
            with open(files[i], "wb") as f:
                f.write(b"this is not JPEG")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def samples(self, pipeline, epochs=2, **options):
        """Return {(epoch, position): (pixels, label, label2, weight)} without padding, and the hash."""
        got, total = {}, 0
        options = {"dtype": "uint8", "micro_batch": 4, "seed": 9, **options}
        with self.pyplenum.Stream(self.data, pipeline, epochs=epochs, **options) as s:
            for b in s:
                total += b.hash()
                mixes = b.weights is not None
                for at in zip(*b.valid.nonzero()):
                    got[int(b.epochs[at[0]]), int(b.positions[at])] = (
                        b.pixels[at].copy(), int(b.labels[at]), int(b.labels2[at]) if mixes else None,
                        float(b.weights[at]) if mixes else None)
        return got, total % 2**64

    def expect(self, mix, **options):
        import numpy as np

        plain, _ = self.samples(self.CROP, **options)
        mixed, total = self.samples(f"{self.CROP} {mix.text}", **options)
        n, repeat = max(p for _, p in plain) + 1, options.get("repeat", 1)
        self.assertEqual(plain.keys(), mixed.keys())
        weights = []
        for (epoch, p), (pixels, label, label2, weight) in mixed.items():
            own, partner = plain[epoch, p], plain[epoch, (p + repeat) % n]
            want, w = mix.of(options.get("seed", 9), epoch, p, self.SIDE, own[0], partner[0])
            self.assertEqual((label, label2, weight), (own[1], own[1] if w == 1 else partner[1], w), (epoch, p))
            self.assertTrue(np.array_equal(pixels, want), (mix.text, epoch, p))
            weights.append(w)
        return total, weights

    def test_pixels_labels_weights(self):
        """a stream delivers what the page defines, also for bad samples, subsets, repeats and ends of epochs"""
        _, weights = self.expect(Mix(mixup="1/5"))
        self.assertTrue(any(0 < w < 1 for w in weights))
        self.expect(Mix(mixup="1"), seed=2**63 + 5)
        self.expect(Mix(mixup="2", p="1/2"), repeat=3)
        self.expect(Mix(cutmix="1"), subset="2:9", micro_batch=5)
        self.expect(Mix(cutmix="7/2"), shuffle="block:3")
        self.expect(Mix(mixup="4/5", cutmix="1"), shuffle="none", job=3, deal="round-robin")
        self.expect(Mix(mixup="1/100", cutmix="10", switch="3/10"))
        self.expect(Mix(mixup="1/2"), subset="3:4")  # its own partner
        self.expect(Mix(mixup="1/2"), subset="3:4", repeat=2)

    def test_dropped(self):
        """the last position's partner may be a position that last="drop" drops"""
        import numpy as np

        plain, _ = self.samples(self.CROP)
        mix = Mix(mixup="1")
        got, _ = self.samples(f"{self.CROP} {mix.text}", last="drop")
        self.assertEqual(max(p for _, p in got), 19)
        for (epoch, p), (pixels, _, label2, _) in got.items():
            want, _ = mix.of(9, epoch, p, self.SIDE, plain[epoch, p][0], plain[epoch, p + 1][0])
            self.assertTrue(np.array_equal(pixels, want))
            self.assertEqual(label2, plain[epoch, p + 1][1])

    def test_stored(self):
        """the values are the same in all types and layouts of pixels"""
        import numpy as np

        for text in ("mixup(0.4)", "cutmix(1)"):
            want, total = self.samples(f"{self.CROP} {text}", epochs=1)
            for dtype in ("int8", "uint8"):
                for layout in ("nhwc", "nchw"):
                    for channels in (3, 4):
                        got, same = self.samples(f"{self.CROP} {text}", epochs=1, dtype=dtype, layout=layout,
                                                 channels=channels)
                        self.assertEqual(same, total)
                        for at, (pixels, *others) in got.items():
                            pixels = pixels if layout == "nhwc" else pixels.transpose(1, 2, 0)
                            zero = 128 if dtype == "uint8" else 0
                            self.assertTrue((pixels[..., 3:] == zero).all())
                            values = pixels[..., :3].astype(np.int16) + (128 - zero)
                            self.assertTrue(np.array_equal(values, want[at][0]))
                            self.assertEqual(tuple(others), want[at][1:])

    def test_hash(self):
        """batch.hash() equals plenumctl's, and follows order.md"""
        xxhash = __import__("xxhash") if tap.find("xxhash") else None
        text = f"{self.CROP} mix(mixup=0.8, cutmix=1)"
        got, total = self.samples(text)
        out = subprocess.run([CTL, "hash", self.data, "--pipeline", text, "--seed", "9", "--epochs", "2"], check=True,
                             capture_output=True, text=True).stdout
        self.assertEqual(int(out, 16), total)
        if xxhash:
            again = sum(xxhash.xxh3_64_intdigest(struct.pack("<QQqqf", e, p, label, label2, weight) + pixels.tobytes())
                        for (e, p), (pixels, label, label2, weight) in got.items())
            self.assertEqual(again % 2**64, total)

    def test_resume(self):
        """a cursor in mid-epoch continues with the same bytes"""
        options = {"micro_batch": 4, "seed": 3, "epochs": 1}
        text = f"{self.CROP} mixup(0.4)"
        with self.pyplenum.Stream(self.data, text, **options) as s:
            next(s)
            cursor = s.cursor
            want = [(b.pixels.copy(), b.labels2.copy(), b.weights.copy()) for b in s]
        with self.pyplenum.Stream(self.data, text, **options) as s:
            s.seek(cursor)
            for b, (pixels, labels2, weights) in zip(s, want):
                self.assertTrue((b.pixels == pixels).all() and (b.labels2 == labels2).all())
                self.assertTrue((b.weights == weights).all())

    def test_bad_fails(self):
        """with bad="fail", a bad partner ends the stream"""
        with self.assertRaisesRegex(self.pyplenum.PlenumError, "not a JPEG, PNG, WebP, AVIF or PPM"):
            self.samples(f"{self.CROP} mixup(1)", bad="fail", shuffle="none", subset="0:5", micro_batch=1)

    def test_soft_labels(self):
        """soft labels follow torchvision's and timm's formulas"""
        import numpy as np

        with self.pyplenum.Stream(self.data, f"{self.CROP} mixup(1)", micro_batch=6) as s:
            b = next(s)
            one, two = np.eye(3)[b.labels], np.eye(3)[b.labels2]
            lam = b.weights[..., None]
            for smoothing in (0.0, 0.1):
                soft = b.soft_labels(3, smoothing)
                self.assertEqual((soft.dtype, soft.shape), (np.float32, (1, 1, 6, 3)))
                want = (one * lam + two * (1 - lam)) * (1 - smoothing) + smoothing / 3
                self.assertTrue(np.allclose(soft, want, atol=1e-6))
                self.assertTrue(np.allclose(soft.sum(-1), 1, atol=1e-6))
            with self.assertRaisesRegex(ValueError, "num_classes is 2"):
                b.soft_labels(2)
            with self.assertRaisesRegex(ValueError, "smoothing"):
                b.soft_labels(3, 1.5)
        with self.pyplenum.Stream(self.data, self.CROP, micro_batch=6) as s:
            b = next(s)
            self.assertEqual((b.labels2, b.weights), (None, None))
            self.assertTrue(np.array_equal(b.soft_labels(3), np.eye(3, dtype=np.float32)[b.labels]))

    @unittest.skipUnless(tap.find("torch"), "torch is not installed")
    def test_torch(self):
        """a Loader gives soft labels where the pipeline mixes"""
        import torch
        from pyplenum.torch import Loader

        with Loader(self.data, f"{self.CROP} mix(mixup=0.8, cutmix=1)", micro_batch=6, smoothing=0.1) as loader:
            images, soft = next(iter(loader))
            self.assertEqual((soft.dtype, tuple(soft.shape)), (torch.float32, (6, 3)))
            self.assertEqual(tuple(images.shape), (6, 3, self.SIDE, self.SIDE))
        with Loader(self.data, f"{self.CROP} mixup(1)", micro_batch=6,
                    fields=("labels", "labels2", "weights")) as loader:
            *_, (labels, labels2, weights) = loader
            self.assertEqual([len(t) for t in (labels, labels2, weights)], [3, 3, 3])
        with Loader(self.data, self.CROP, micro_batch=6) as loader:
            self.assertEqual(next(iter(loader))[1].dtype, torch.int64)
        with Loader(self.data, self.CROP, micro_batch=6, fields=("images", "weights")) as loader:
            with self.assertRaisesRegex(ValueError, "only if the pipeline"):
                next(iter(loader))
        with Loader(self.data, f"{self.CROP} mixup(1)", micro_batch=6, fields=("images", "labels")) as loader:
            with self.assertRaisesRegex(ValueError, "labels are not enough"):
                next(iter(loader))


if __name__ == "__main__":
    tap.main()
