#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare where scale_jitter and zoom_out place pictures and boxes with docs/pixels.md, sections 3.6 and 3.8 to 3.11.

Draws, sizes and places are computed as the page has them, with integers and fractions.

PLENUM_PLACES=N: numbers of random pipelines.
"""

import math
import os
import re
import subprocess
import sys
import unittest
from fractions import Fraction as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import tap  # noqa: E402

PLACED = os.path.join(os.environ.get("top_builddir", "."), "tests/loader/render/placed")
NUMBERS = int(os.environ.get("PLENUM_PLACES", "10000"))
NEAR = F(1, 64)


def philox(seed, position, epoch, purpose, draw):
    """Return four random words (docs/order.md, section 1)."""
    words, key = [position, epoch, purpose, draw], [seed % 2**32, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [b >> 32 ^ words[1] ^ key[0], b % 2**32, a >> 32 ^ words[3] ^ key[1], a % 2**32]
        key = [(key[0] + 0x9E3779B9) % 2**32, (key[1] + 0xBB67AE85) % 2**32]
    return words


def below(word, n):
    return word * n >> 32


def uniform(low, high, word):
    """Return low + (high - low) * word / 2^32, exactly."""
    return low + (high - low) * F(word, 2**32)


class Picture:
    """What an image shows: the picture, resized to `size`, begins at `at`. Numbers are x, y."""

    def __init__(self, seed, epoch, position, width, height, text):
        self.draw = lambda purpose, number=0: philox(seed, position, epoch, purpose, number)
        self.picture = width, height
        self.stages = re.findall(r"(\w+)\(([^)]*)\)", text)
        self.sample = tuple(map(int, reversed(self.stage("resize|letterbox|scale_jitter")[0].split("x") * 2)))[-2:]
        flip = self.stage("flip")
        self.mirrored = bool(flip) and F(self.draw(8)[0], 2**32) < F(flip[0])
        if self.stage("scale_jitter"):
            self.jitter()
        else:
            self.zoom()

    def stage(self, names):
        """Return the arguments of a stage; None: there is none."""
        for name, arguments in self.stages:
            if name in names.split("|"):
                return arguments.split(",")
        return None

    def jitter(self):
        """Section 3.10."""
        scale, place, *_ = self.draw(26)
        (width, height), (wide, high) = self.picture, self.sample
        fits, of = (wide, width) if width * high >= height * wide else (high, height)
        side = math.floor(2**32 * fits * uniform(*map(F, self.stage("scale_jitter")[1].split(":")), scale))
        self.size = [max(1, side * n // (of * 2**32)) for n in self.picture]
        self.at = [-below(place, n - s) if n > s else 0 for s, n in zip(self.sample, self.size)]

    def zoom(self):
        """Section 3.11."""
        chance, side, *places = self.draw(27)
        sides, *_, p = self.stage("zoom_out")
        canvas, at = self.picture, [0, 0]
        if F(chance, 2**32) < F(p[2:]):
            side = uniform(*map(F, sides.split(":")), side)
            canvas = [math.floor(n * side) for n in canvas]
            at = [below(word, c - n) for word, c, n in zip(places, canvas, self.picture)]
        to, more = self.sample, [0, 0]
        if self.stage("letterbox"):
            fit = min(F(s, c) for s, c in zip(to, canvas))
            to = [max(1, round(c * fit)) for c in canvas]
            more = [round(F(s - t, 2)) for s, t in zip(self.sample, to)]
        self.at, self.size = [], []
        for place, n, c, t, add in zip(at, self.picture, canvas, to, more):
            first = min(round(F(place * t, c)), t - 1)
            self.size.append(max(1, round(F((place + n) * t, c)) - first))
            self.at.append(first + add)

    def shown(self):
        low = [F(-a * n, s) for a, n, s in zip(self.at, self.picture, self.size)]
        return low + [F((m - a) * n, s) for m, a, n, s in zip(self.sample, self.at, self.picture, self.size)]

    def box(self, box):
        """Return where a box of the picture is in the image; None: it is not shown."""
        ends = []
        for k in (0, 1):
            edges = (min(max(n, 0), self.picture[k]) for n in box[k::2])
            edges = [self.at[k] + n * self.size[k] / self.picture[k] for n in edges]
            ends.append([min(max(n, 0), self.sample[k]) for n in edges])
        if self.mirrored:
            ends[0] = [self.sample[0] - n for n in reversed(ends[0])]
        (left, right), (top, bottom) = ends
        return [left, top, right, bottom] if left < right and top < bottom else None


class PlacedTest(unittest.TestCase):
    def check_box(self, picture, numbers):
        box, got = numbers[:4], numbers[4:]
        want = picture.box(box)
        if not want or not got:  # a sliver within the rounding of doubles
            sides = (want[2] - want[0], want[3] - want[1]) if want else (0,)
            return self.assertTrue(not got and min(sides) < F(1, 1000), (picture.stages, box, got, want))
        for a, b in zip(got, want):
            self.assertLess(abs(a - b), NEAR, (picture.stages, picture.picture, box, got, want))
        self.boxes += 1
        return None

    def test_exactly(self):
        """sizes and places are those of the page, and boxes are within 1/64 pixel of them"""
        self.boxes = zoomed = cropped = 0
        with subprocess.Popen([PLACED, "0", str(NUMBERS)], stdout=subprocess.PIPE, text=True) as done:
            for line in done.stdout:
                kind, *words = line.split()
                if kind == "image":
                    picture = Picture(*map(int, words[:5]), " ".join(words[5:]))
                    zoomed += min(picture.at) > 0
                    cropped += min(picture.at) < 0
                    continue
                numbers = [F(float.fromhex(n)) if "x" in n else F(n) for n in words]
                if kind == "resized":
                    self.assertEqual(numbers, picture.size + picture.at, (picture.stages, picture.picture))
                elif kind == "shown":
                    self.assertEqual(numbers[4], picture.mirrored)
                    for a, b in zip(numbers, picture.shown()):
                        self.assertLessEqual(abs(a - b), abs(b) / 2**23, (picture.stages, picture.picture))
                else:
                    self.check_box(picture, numbers)
        self.assertEqual(done.returncode, 0)
        print(f"# {self.boxes} boxes; {zoomed} smaller pictures, {cropped} cropped ones")
        self.assertGreater(self.boxes, NUMBERS)
        self.assertGreater(min(zoomed, cropped), NUMBERS / 10)


if not os.path.exists(PLACED):
    tap.skip_all("placed is built only with Criterion")
tap.main()
