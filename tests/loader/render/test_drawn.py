#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare the masks of objects with exact arithmetic, over random pipelines.

The oracle moves the centre of each pixel back to the picture, with the integers of the maps that move the pixels, and
counts the edges of each polygon beside it. The loader moves polygons to the image, in double precision. Both must have
the same bits, except that a centre may lie within 10^-9 pixel of an edge. Encoded masks must equal those that the rules
for class masks give, bit for bit.

PLENUM_DRAWN=N: numbers of random pipelines that are tried.
"""

import math
import os
import subprocess
import sys
import unittest
from fractions import Fraction as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import tap  # noqa: E402

DRAWN = os.path.join(os.environ.get("top_builddir", "."), "tests/loader/render/drawn")
NUMBERS = int(os.environ.get("PLENUM_DRAWN", "2000"))


def times(a, b):
    return [[sum(a[i][k] * b[k][j] for k in range(3)) for j in range(3)] for i in range(3)]


def flip(size, axis):
    m = [[F(int(i == j)) for j in range(3)] for i in range(3)]
    m[axis][axis], m[axis][2] = F(-1), F(size)
    return m


class Image:
    def __init__(self, words):
        self.width, self.height, self.mirror, self.turned = map(int, words[:4])
        self.text = " ".join(words[4:])
        self.axes, self.maps = [], []

    def finish(self):
        """Compute the matrix from the image to the picture, in integers, and what each pixel shows."""
        back = flip(self.height, 1) if self.turned else [[F(int(i == j)) for j in range(3)] for i in range(3)]
        for divides, mirror, turn, *n in reversed(self.maps):
            rows = [[F(v, 65536) for v in n[:3]], [F(v, 65536) for v in n[3:6]],
                    [F(v) for v in (n[6:] if divides else (0, 0, 1))]]
            back = times([[a, b, c - (a + b) / 2] for a, b, c in rows], back)  # a pixel's centre is at 1/2
            back = times(flip(self.width, 0), back) if mirror else back
            back = times(flip(self.height, 1), back) if turn else back
        back = times(flip(self.width, 0), back) if self.mirror else back
        for k, size in enumerate((self.width, self.height)):
            low, high = self.part[k], self.part[k + 2]
            back[k] = [(high - low) / size * v + low * w for v, w in zip(back[k], back[2])]
        den = 2  # a common denominator
        for v in sum(back, []):
            den = den * v.denominator // math.gcd(den, v.denominator)
        self.back = [[int(v * den) for v in row] for row in back]
        self.places = [self.place(i, j) for j in range(self.height) for i in range(self.width)]

    def place(self, i, j):
        """Return the pixel of the picture that a pixel shows, or None."""
        j = self.height - 1 - j if self.turned else j
        for divides, mirror, turn, *n in reversed(self.maps):
            x, y = (n[k] * i + n[k + 1] * j + n[k + 2] for k in (0, 3))
            if divides:
                d = n[6] * i + n[7] * j + n[8]
                if d == 0:
                    return None
                x, y = x // d, y // d
            i, j = x >> 16, y >> 16
            if not (0 <= i < self.width and 0 <= j < self.height):
                return None
            i, j = self.width - 1 - i if mirror else i, self.height - 1 - j if turn else j
        i = self.width - 1 - i if self.mirror else i
        found = []
        for at, (begin, length, size, first) in zip((i, j), self.axes):
            if not 0 <= at + first < size:
                return None
            found.append(begin + (2 * (at + first) + 1) * length // (2 * size))
        return tuple(found)


def is_inside(polygon, x, y, z):
    """Returns whether (x / z, y / z) is inside a polygon by the even-odd rule. Its points are in 1/64 pixel."""
    odd = False
    x, y = 64 * x, 64 * y
    for (a, b), (c, d) in zip(polygon, polygon[1:] + polygon[:1]):
        if (b * z <= y) != (d * z <= y):
            side = (x - a * z) * (d - b) - (y - b * z) * (c - a)
            odd ^= (side >= 0) if d > b else (side <= 0)
    return odd


def distance(polygon, x, y):
    """Return the distance of a point from the nearest edge."""
    best = 10**9
    for (a, b), (c, d) in zip(polygon, polygon[1:] + polygon[:1]):
        a, b, c, d = (n / 64 for n in (a, b, c, d))
        length = (c - a) ** 2 + (d - b) ** 2
        t = min(max(((x - a) * (c - a) + (y - b) * (d - b)) / length, 0), 1) if length else 0
        best = min(best, ((x - a - t * (c - a)) ** 2 + (y - b - t * (d - b)) ** 2) ** 0.5)
    return best


class DrawnTest(unittest.TestCase):
    def check_mask(self, image, bits, words):
        polygons = []
        while words:
            count = 2 * int(words[0])
            numbers = [int(64 * float.fromhex(n)) for n in words[1:1 + count]]
            polygons.append(list(zip(numbers[::2], numbers[1::2])))
            words = words[1 + count:]
        for n, place in enumerate(image.places):
            got = bool(bits[n // 8] >> n % 8 & 1)
            if not place:
                self.assertFalse(got, (image.text, n))
                continue
            i, j = 2 * (n % image.width) + 1, 2 * (n // image.width) + 1
            x, y, z = (a * i + b * j + 2 * c for a, b, c in image.back)
            x, y, z = (-x, -y, -z) if z < 0 else (x, y, z)
            want = z != 0 and any(is_inside(polygon, x, y, z) for polygon in polygons)
            self.set += want
            self.clear += not want
            if got != want:
                self.close += 1
                near = min(distance(polygon, float(F(x, z)), float(F(y, z))) for polygon in polygons)
                self.assertLess(near, 1e-9, (image.text, polygons, n))

    def check_runs(self, image, bits, words):
        ends, (_, height) = [int(n) for n in words], image.size
        runs = bytearray()
        for n, (begin, end) in enumerate(zip([0] + ends, ends)):
            runs += bytes([n % 2]) * (end - begin)
        for n, place in enumerate(image.places):
            want = place is not None and runs[place[0] * int(height) + place[1]]
            self.runs += bool(want)
            self.assertEqual(bits[n // 8] >> n % 8 & 1, want, (image.text, n, place))

    def test_exactly(self):
        """masks of random pipelines have exactly the pixels whose centres are inside"""
        self.set = self.clear = self.close = self.runs = 0
        images = maps = lost = 0
        with subprocess.Popen([DRAWN, "0", str(NUMBERS)], stdout=subprocess.PIPE, text=True) as done:
            for line in done.stdout:
                kind, *words = line.split()
                if kind == "image":
                    image = Image(words)
                    images += 1
                elif kind == "picture":
                    numbers = [F(float.fromhex(n)) if "x" in n else F(n) for n in words]
                    image.size, image.part = numbers[:2], [F(math.floor(n * 2**20 + F(1, 2)), 2**20)
                                                           for n in numbers[2:]]
                elif kind == "axis":
                    image.axes.append(tuple(map(int, words)))
                elif kind == "map":
                    image.maps.append(tuple(map(int, words)))
                    maps += 1
                elif kind == "lost":  # its box is the whole picture
                    lost += 1
                else:
                    if not hasattr(image, "back"):
                        image.finish()
                    check = self.check_mask if kind == "mask" else self.check_runs
                    check(image, bytes.fromhex(words[0]), words[1:])
                    count = image.width * image.height
                    rest = int.from_bytes(bytes.fromhex(words[0]), "little") >> count
                    self.assertEqual((rest, len(words[0]) // 2), (0, (count + 63) // 64 * 8))
        self.assertEqual(done.returncode, 0)
        print(f"# {images} pipelines, {maps} maps, {lost} objects that no image shows, {self.set} pixels inside and "
              f"{self.clear} outside, {self.close} too close to an edge, {self.runs} of encoded masks")
        self.assertGreater(images, NUMBERS / 4)
        self.assertGreater(maps, images / 2)
        self.assertGreater(min(self.set, self.clear, self.runs), 50 * images)
        self.assertLess(self.close, (self.set + self.clear) / 1000)
        self.assertLess(lost, images / 4)


if not os.path.exists(DRAWN):
    tap.skip_all("drawn is built only with Criterion")
tap.main()
