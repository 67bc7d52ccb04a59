#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare moved boxes and key points with exact fractions, over random pipelines.

The oracle takes the integers of the maps that move the pixels, solves for where each corner goes, and clips the polygon
in each result. The loader clips it in the source, in double precision (loader/render/moves.c).

PLENUM_MOVES=N is the number of random pipelines that are tried. About half of them move or erase the pixels of a
sample.
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

    def mirrors(self, x, y):
        """Return whether the surroundings of a point become their mirror image: three corners of a tiny triangle turn
        in the other direction."""
        tiny = F(1, 10**9)
        (a, b), (c, d), (e, f) = ((u / w, v / w) for u, v, w in (self.forth(*at) for at in (
            (x, y), (x + tiny, y), (x, y + tiny))))
        return (c - a) * (f - b) - (d - b) * (e - a) < 0

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
        self.steps, self.area = [], None

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
        share *= seen / ((x1 - x0) * (y1 - y0))
        return (edges, share, seen, 1) if not self.area else self.cut(edges, share, seen)

    def cut(self, edges, share, seen):
        """Return the box in the part of the image that shows its picture, its share, the area that decides whether it
        is kept, and how far its edges are from those of the part."""
        where, *part = self.area
        size = self.width, self.height, self.width, self.height
        near = min((abs(a - b) for a in edges for b in part
                    if not any(a == b == n for n in (0, *size))), default=F(1))
        both = [max(edges[0], part[0]), max(edges[1], part[1]), min(edges[2], part[2]), min(edges[3], part[3])]
        whole = (edges[2] - edges[0]) * (edges[3] - edges[1])
        common = max(0, both[2] - both[0]) * max(0, both[3] - both[1])
        rest = common if where == "inside" else whole - common
        if rest < whole:
            seen = min(seen, rest) if self.maps else rest
            share *= rest / whole
            self.cuts = True
        if where == "inside" and common:
            edges = both
        for k in (0, 1) if where == "outside" and common and rest else ():
            if both[1 - k] == edges[1 - k] and both[3 - k] == edges[3 - k]:
                if both[k] == edges[k]:
                    edges = [*edges[:k], both[k + 2], *edges[k + 1:]]
                elif both[k + 2] == edges[k + 2]:
                    edges = [*edges[:k + 2], both[k], *edges[k + 3:]]
        return edges, share, seen, near

    def crop(self, point):
        """Return where a picture's point is after the crop, and how far it is from the edges that bound it."""
        room = [point[k] - low for k in (0, 1) for low in (0, self.part[k])]
        room += [high - point[k] for k in (0, 1) for high in (self.size[k], self.part[k + 2])]
        x, y = ((point[k] - self.part[k]) * size / (self.part[k + 2] - self.part[k])
                for k, size in ((0, self.width), (1, self.height)))
        return (self.width - x if self.mirror else x, y), min(room)

    def point(self, point):
        """Return where a picture's point is (None: outside), whether it is erased, whether the image around it is a
        mirror image, and how far it is from any edge that matters."""
        point, room = self.crop(point)
        near, erased, mirrored = [abs(room)], False, bool(self.mirror ^ self.turned)
        inside = room >= 0
        for step in self.steps:
            if not isinstance(step, Map):
                left, top, width, height = step
                edges = [point[0] - left, left + width - point[0], point[1] - top, top + height - point[1]]
                erased |= min(edges) > 0
                near.append(abs(min(edges)))
                continue
            u, v, w = step.forth(*point) if step.exists else (0, 0, 0)
            if w == 0:
                return None, False, False, min(near)
            mirrored ^= step.mirrors(*point)
            point = u / w, v / w
            edges = [point[0], self.width - point[0], point[1], self.height - point[1]]
            inside &= min(edges) >= 0
            near.append(abs(min(edges)))
        x, y = point
        y = self.height - y if self.turned else y
        if self.area:
            where, left, top, right, bottom = self.area
            edges = [x - left, right - x, y - top, bottom - y]
            near.append(min(abs(edge) for edge in edges))
            inside &= where == "outside" or min(edges) >= 0
            erased |= where == "outside" and min(edges) > 0
        return (x, y) if inside else None, erased, mirrored, min(near)

    @property
    def maps(self):
        return [step for step in self.steps if isinstance(step, Map)]


class MovesTest(unittest.TestCase):
    def check_box(self, image, numbers):
        image.cuts = False
        box, got, want = numbers[:4], numbers[4:], image.box(numbers[:4])
        least = F(image.visible, 10000)
        if not want:
            return self.assertFalse(got, (image.text, box))
        edges, share, seen, near = want
        if near < F(1, 10**6):
            return None
        kept = share >= least and share > 0 and (seen >= F(1, 4) or not (image.maps or image.cuts))
        self.cut += kept and image.cuts
        if bool(got) != kept:  # undecided within the rounding of doubles
            return self.assertLess(min(abs(share - least), abs(seen - F(1, 4))), F(1, 10**6), (image.text, box))
        for a, b in zip(got, edges):
            self.assertLess(abs(a - b), NEAR, (image.text, box, [float(n) for n in edges], [float(n) for n in got]))
            self.worst = max(self.worst, abs(a - b))
        self.kept += kept

    def check_pose(self, image, numbers):
        """Check five points, of which 0 and 3, and 4 and 1 are pairs."""
        points = [numbers[at:at + 3] for at in range(0, len(numbers), 3)]
        points, got = points[:5], points[5:]
        found = [image.point(point[:2]) if point[2] else (None, False, False, 1) for point in points]
        if min(near for *_, near in found) < F(1, 10**6):  # undecided within the rounding of doubles
            self.close += 1
            return
        want = [(*at, 1 if erased else point[2]) if at else (0, 0, 0)
                for (at, erased, _, _), point in zip(found, points)]
        for a, b in ((0, 3), (4, 1)):
            if found[a if want[a][2] else b][2]:
                want[a], want[b] = want[b], want[a]
                self.swapped += want[a] != want[b]
        for one, other, (at, erased, _, _) in zip(got, want, found):
            self.assertEqual(one[2], other[2], (image.text, points, got, want))
            for k in (0, 1):
                self.assertLess(abs(one[k] - other[k]), NEAR if other[2] else F(1, 10**9), (image.text, points))
                self.worst_point = max(self.worst_point, abs(one[k] - other[k]))
            self.points += at is not None
            self.erased += at is not None and erased

    def test_exactly(self):
        """boxes and key points of random pipelines are within 1/64 pixel of their exact places"""
        self.kept = self.cut = self.points = self.erased = self.swapped = self.close = 0
        self.worst = self.worst_point = F(0)
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
                elif kind in ("outside", "inside"):
                    left, top, width, height = map(int, words)
                    image.area = kind, left, top, left + width, top + height
                elif kind == "map":
                    image.steps.append(Map([int(n) for n in words], image.width, image.height))
                    maps += 1
                elif kind == "erase":
                    image.steps.append(tuple(map(int, words)))
                else:
                    check = self.check_box if kind == "box" else self.check_pose
                    check(image, [F(float.fromhex(n)) for n in words])
        self.assertEqual(done.returncode, 0)
        print(f"# {images} pipelines, {maps} maps, {self.kept} boxes of which {self.cut} are cut, {self.points} points "
              f"of which {self.erased} are erased, {self.swapped} swapped pairs, {self.close} objects too close to an "
              f"edge; largest errors: a box {float(self.worst):.1e} pixels, a point {float(self.worst_point):.1e}")
        self.assertGreater(images, NUMBERS / 4)
        self.assertGreater(self.kept, images)
        self.assertGreater(self.points, images)
        self.assertGreater(min(self.erased, self.swapped, self.cut), images / 20)
        self.assertLess(self.close, images / 10)


if not os.path.exists(MOVED):
    tap.skip_all("moved is built only with Criterion")
tap.main()
