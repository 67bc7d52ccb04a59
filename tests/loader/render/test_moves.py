#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare moved boxes and points with exact fractions, over random pipelines.

The oracle takes the integers of the maps that move the pixels, solves for where each corner goes, and clips the polygon
in each result. The loader clips it in the source, in double precision (loader/render/moves.c).

PLENUM_MOVES=N: numbers of random pipelines that are tried. About a third of them move the pixels of a sample.
"""

import os
import subprocess
import sys
import unittest
from fractions import Fraction as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import tap  # noqa: E402

MOVED = os.path.join(os.environ.get("top_builddir", "."), "tests/loader/render/moved")
NUMBERS = int(os.environ.get("PLENUM_MOVES", "33000"))
NEAR = F(1, 64)


class Map:
    """A map from positions of a result to positions of its source, and back."""

    def __init__(self, numbers, width, height):
        divides, self.mirror, self.turn, *rest = numbers
        rows = [rest[:3], rest[3:6], rest[6:] if divides else [0, 0, 1]]
        # Pixel i has its centre at i + 1/2. Positions in the source are scaled by 2^16.
        m = [[a, b, c - F(a + b, 2)] for a, b, c in rows]
        m = [[n / 65536 for n in m[0]], [n / 65536 for n in m[1]], [F(n) for n in m[2]]]
        self.size = width, height
        (a, b, c), (d, e, f), (g, h, i) = m
        self.back = [[e * i - f * h, c * h - b * i, b * f - c * e], [f * g - d * i, a * i - c * g, c * d - a * f],
                     [d * h - e * g, b * g - a * h, a * e - b * d]]
        self.exists = a * self.back[0][0] + b * self.back[1][0] + c * self.back[2][0] != 0

    def forth(self, x, y):
        """Return (u, v, w): the point appears at (u / w, v / w)."""
        x, y = self.size[0] - x if self.mirror else x, self.size[1] - y if self.turn else y
        return tuple(a * x + b * y + c for a, b, c in self.back)

    def pieces(self, polygon):
        """Return the parts of a polygon that the result shows, one on each side of the horizon, as (x, y)."""
        width, height = self.size
        for sign in 1, -1:
            part = [tuple(sign * n for n in self.forth(*corner)) for corner in polygon]
            for line in ((1, 0, 0), (-1, 0, width), (0, 1, 0), (0, -1, height)):
                part = clip(part, line)
            if part and all(w > 0 for _, _, w in part):
                yield [(u / w, v / w) for u, v, w in part]


def clip(polygon, line):
    found = []
    for p, q in zip(polygon, polygon[1:] + polygon[:1]):
        a, b = (sum(n * k for n, k in zip(corner, line)) for corner in (p, q))
        if a >= 0:
            found.append(p)
        if (a > 0) != (b > 0) and a != 0 and b != 0:
            found.append(tuple(m + (n - m) * a / (a - b) for m, n in zip(p, q)))
    return found


def area(polygon):
    return abs(sum(p[0] * q[1] - q[0] * p[1] for p, q in zip(polygon, polygon[1:] + polygon[:1]))) / 2


def coarse(polygon):
    """Round to multiples of 2^-40 pixel, so that fractions stay short."""
    return [tuple(F(round(n * 2**40), 2**40) for n in corner) for corner in polygon]


def unmap(maps, polygon):
    """Return the polygon in the window before the first map."""
    for one in reversed(maps):
        (a, b, c), (d, e, f), (g, h, i) = one.back
        inverse = [[e * i - f * h, c * h - b * i, b * f - c * e], [f * g - d * i, a * i - c * g, c * d - a * f],
                   [d * h - e * g, b * g - a * h, a * e - b * d]]
        moved = []
        for x, y in polygon:
            u, v, w = (p * x + q * y + r for p, q, r in inverse)
            x, y = u / w, v / w
            moved.append((one.size[0] - x if one.mirror else x, one.size[1] - y if one.turn else y))
        polygon = moved
    return polygon


class Image:
    def __init__(self, words):
        self.width, self.height, self.mirror, self.turned, self.visible = map(int, words[:5])
        self.text = " ".join(words[5:])
        self.maps = []

    def parts(self, polygon):
        """Return what the image shows of a polygon in the window after the crop."""
        found = [polygon]
        for one in self.maps:
            found = [coarse(part) for polygon in found for part in one.pieces(polygon)] if one.exists else []
        return [part for part in found if len(part) > 2]

    def box(self, box):
        """Return a picture's box in the image, its visible share and area; or None."""
        left, top, right, bottom = self.part
        x0, x1 = (min(max(n, 0), self.size[0]) for n in box[::2])
        y0, y1 = (min(max(n, 0), self.size[1]) for n in box[1::2])
        whole = (x1 - x0) * (y1 - y0)
        x0, x1 = max(x0, left), min(x1, right)
        y0, y1 = max(y0, top), min(y1, bottom)
        if x0 >= x1 or y0 >= y1:
            return None
        share = (x1 - x0) * (y1 - y0) / whole
        x0, x1 = ((n - left) * self.width / (right - left) for n in (x0, x1))
        y0, y1 = ((n - top) * self.height / (bottom - top) for n in (y0, y1))
        if self.mirror:
            x0, x1 = self.width - x1, self.width - x0
        parts = self.parts([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
        if not parts:
            return None
        seen = sum(area(unmap(self.maps, part)) for part in parts)
        xs, ys = ([corner[k] for part in parts for corner in part] for k in (0, 1))
        edges = [min(xs), min(ys), max(xs), max(ys)]
        if self.turned:
            edges[1], edges[3] = self.height - edges[3], self.height - edges[1]
        return edges, share * seen / ((x1 - x0) * (y1 - y0)), seen

    def point(self, point):
        """Return where a point is, and how far from the edges of all results on the way."""
        room = []
        for one in self.maps:
            u, v, w = one.forth(*point) if one.exists else (0, 0, 0)
            if w == 0:
                return None, [-1]
            point = u / w, v / w
            room += [point[0], self.width - point[0], point[1], self.height - point[1]]
        return point, min(room)


class MovesTest(unittest.TestCase):
    def check_box(self, image, numbers):
        box, got, want = numbers[:4], numbers[4:], image.box(numbers[:4])
        least = F(image.visible, 10000)
        if not want:
            return self.assertFalse(got, (image.text, box))
        edges, share, seen = want
        kept = share >= least and seen >= F(1, 4)
        if bool(got) != kept:  # undecided within the rounding of doubles
            return self.assertLess(min(abs(share - least), abs(seen - F(1, 4))), F(1, 10**6), (image.text, box))
        for a, b in zip(got, edges):
            self.assertLess(abs(a - b), NEAR, (image.text, box, [float(n) for n in edges], [float(n) for n in got]))
            self.worst = max(self.worst, abs(a - b))
        self.kept += kept

    def check_point(self, image, numbers):
        want, room = image.point(numbers[:2])
        if len(numbers) == 2:
            return self.assertLess(room, F(1, 10**6), (image.text, numbers))
        self.assertGreater(room, -F(1, 10**6), (image.text, numbers))
        for a, b in zip(numbers[2:], want):
            self.assertLess(abs(a - b), NEAR, (image.text, numbers))
        self.points += 1

    def test_exactly(self):
        """boxes and points of random pipelines are within 1/64 pixel of their exact places"""
        self.kept = self.points = 0
        self.worst = F(0)
        images, maps = 0, 0
        with subprocess.Popen([MOVED, "0", str(NUMBERS)], stdout=subprocess.PIPE, text=True) as done:
            for line in done.stdout:
                kind, *words = line.split()
                if kind == "image":
                    image = Image(words)
                    images += 1
                elif kind == "picture":
                    numbers = [F(float.fromhex(n)) if "x" in n else F(n) for n in words]
                    image.size, image.part = numbers[:2], numbers[2:]
                elif kind == "map":
                    image.maps.append(Map([int(n) for n in words], image.width, image.height))
                    maps += 1
                else:
                    check = self.check_box if kind == "box" else self.check_point
                    check(image, [F(float.fromhex(n)) for n in words])
        self.assertEqual(done.returncode, 0)
        print(f"# {images} pipelines, {maps} maps, {self.kept} boxes, {self.points} points, "
              f"largest error of a box {float(self.worst):.1e} pixels")
        self.assertGreater(images, NUMBERS / 4)
        self.assertGreater(self.kept, images)
        self.assertGreater(self.points, images)


if not os.path.exists(MOVED):
    tap.skip_all("moved is built only with Criterion")
tap.main()
