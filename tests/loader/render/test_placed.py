#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare where scale_jitter, zoom_out and iou_crop place pictures and boxes with docs/pixels.md, sections 3.6 to 3.12.

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
NUMBERS = int(os.environ.get("PLENUM_PLACES", "3000"))
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
    """What an image shows: a part of the picture, resized to `size`, begins at `at`. Numbers are x, y."""

    def __init__(self, numbers, text, boxes):
        seed, epoch, position, width, height = numbers
        self.draw = lambda purpose, number=0: philox(seed, position, epoch, purpose, number)
        self.picture = self.part = width, height
        self.begin, self.boxes = [0, 0], boxes
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
        sides, *_, p = self.stage("zoom_out") or ("1:1", "p=0")
        canvas, at = self.picture, [0, 0]
        if F(chance, 2**32) < F(p[2:]):
            side = uniform(*map(F, sides.split(":")), side)
            canvas = [math.floor(n * side) for n in canvas]
            at = [below(word, c - n) for word, c, n in zip(places, canvas, self.picture)]
        left, top, *region = self.crop(canvas, at) or (0, 0, *canvas)
        to, more = self.sample, [0, 0]
        if self.stage("letterbox"):
            fit = min(F(s, c) for s, c in zip(to, canvas))
            to = [max(1, round(c * fit)) for c in canvas]
            more = [round(F(s - t, 2)) for s, t in zip(self.sample, to)]
        self.at, self.size, self.part, self.begin = [], [], [], []
        for start, place, n, c, t, add in zip((left, top), at, self.picture, region, to, more):
            begin, end = max(place - start, 0), min(place + n - start, c)  # in the region
            first = min(round(F(begin * t, c)), t - 1)
            self.begin.append(begin + start - place)
            self.part.append(end - begin)
            self.size.append(max(1, round(F(end * t, c)) - first))
            self.at.append(first + add)

    def crop(self, canvas, at):
        """Section 3.12: return the left, top, width and height of the region; None: the whole canvas."""
        if not self.stage("iou_crop"):
            return None
        (scale, ratio), boxes = ([[F(n) for n in word[6:].split(":")] for word in self.stage("iou_crop")[:2]], [])
        for box in self.boxes:
            edges = [F(math.floor(min(max(n, 0), self.picture[i % 2]) * 256 + F(1, 2)), 256) for i, n in enumerate(box)]
            if edges[0] < edges[2] and edges[1] < edges[3]:
                boxes.append([n + at[i % 2] for i, n in enumerate(edges)])
        for k in range(7):
            share = below(self.draw(28, 64 * k)[0], 7)
            if share == 6:
                return None
            for t in range(1, 41):
                *sides, w2, w3 = self.draw(28, 64 * k + t)
                width, height = (math.floor(c * uniform(*scale, word)) for c, word in zip(canvas, sides))
                if width == 0 or height == 0 or not ratio[0] <= F(width, height) <= ratio[1]:
                    continue
                left, top = below(w2, canvas[0] - width), below(w3, canvas[1] - height)
                if any(self.fits(box, (left, top, left + width, top + height), (0, 1, 3, 5, 7, 9)[share])
                       for box in boxes):
                    return left, top, width, height
        return None

    @staticmethod
    def fits(box, crop, tenths):
        centre = [(box[k] + box[k + 2]) / 2 for k in (0, 1)]
        common = math.prod(max(0, min(box[k + 2], crop[k + 2]) - max(box[k], crop[k])) for k in (0, 1))
        areas = sum((edges[2] - edges[0]) * (edges[3] - edges[1]) for edges in (box, crop))
        return all(crop[k] < centre[k] < crop[k + 2] for k in (0, 1)) and 10 * common >= tenths * (areas - common)

    def shown(self):
        low = [b - F(a * n, s) for b, a, n, s in zip(self.begin, self.at, self.part, self.size)]
        return low + [n + F(m * p, s) for n, m, p, s in zip(low, self.sample, self.part, self.size)]

    def box(self, box):
        """Return where a box of the picture is in the image (None: it is not shown), and how clear that is."""
        ends, low, clear = [], self.shown(), 1
        for k in (0, 1):
            edges = [min(max(n, 0), self.picture[k]) for n in box[k::2]]
            if self.stage("iou_crop"):
                inside = min(sum(edges) / 2 - low[k], low[k + 2] - sum(edges) / 2)
                clear = min(clear, abs(inside))
                if inside <= 0:
                    return None, clear
            edges = [self.at[k] + (n - self.begin[k]) * self.size[k] / self.part[k] for n in edges]
            ends.append([min(max(n, 0), self.sample[k]) for n in edges])
        if self.mirrored:
            ends[0] = [self.sample[0] - n for n in reversed(ends[0])]
        (left, right), (top, bottom) = ends
        clear = min(clear, abs(right - left), abs(bottom - top))
        return [left, top, right, bottom] if left < right and top < bottom else None, clear


class PlacedTest(unittest.TestCase):
    def check_box(self, picture, got):
        box = picture.boxes[self.checked % 4]
        self.checked += 1
        want, clear = picture.box(box)
        if not want or not got:
            if clear > F(1, 1000):  # otherwise undecided within the rounding of floats
                self.assertEqual(bool(want), bool(got), (picture.stages, picture.picture, box))
            return
        for a, b in zip(got, want):
            self.assertLess(abs(a - b), NEAR, (picture.stages, picture.picture, box, got, want))
        self.boxes += 1

    def test_exactly(self):
        """sizes and places are those of the page, and boxes are within 1/64 pixel of them"""
        self.boxes = self.checked = zoomed = jittered = cropped = 0
        with subprocess.Popen([PLACED, "0", str(NUMBERS)], stdout=subprocess.PIPE, text=True) as done:
            for line in done.stdout:
                kind, *words = line.split()
                if kind == "image":
                    image = [int(word) for word in words[:5]], " ".join(words[5:])
                    continue
                numbers = [F(float.fromhex(n)) if "x" in n else F(n) for n in words]
                if kind == "boxes":
                    picture = Picture(*image, [numbers[at:at + 4] for at in range(0, 16, 4)])
                    zoomed += min(picture.at) > 0
                    jittered += min(picture.at) < 0
                    cropped += list(picture.part) != list(picture.picture)
                elif kind == "part":
                    self.assertEqual(numbers, [*picture.begin, *picture.part], (picture.stages, picture.picture))
                elif kind == "resized":
                    self.assertEqual(numbers, picture.size + picture.at, (picture.stages, picture.picture))
                elif kind == "shown":
                    self.assertEqual(numbers[4], picture.mirrored)
                    for a, b in zip(numbers, picture.shown()):
                        self.assertLessEqual(abs(a - b), abs(b) / 2**23, (picture.stages, picture.picture))
                else:
                    self.check_box(picture, numbers)
        self.assertEqual(done.returncode, 0)
        print(f"# {self.boxes} boxes; {zoomed} smaller pictures, {jittered} larger ones, {cropped} crops around boxes")
        self.assertGreater(self.boxes, NUMBERS)
        self.assertGreater(min(zoomed, jittered, cropped), NUMBERS / 20)


if not os.path.exists(PLACED):
    tap.skip_all("placed is built only with Criterion")
tap.main()
