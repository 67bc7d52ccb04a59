# SPDX-License-Identifier: MIT
"""Tests mosaics: an independent implementation of docs/pixels.md, section 3.14, joins pictures that were resized alone,
and places their boxes and key points."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import warnings

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
os.environ["PLENUM_LIBRARY"] = os.path.join(BUILD, ".libs", "libplenum.so.1")
sys.path.insert(0, os.path.join(SOURCE, "python"))

import tap  # noqa: E402

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402
from made import png, write_tar  # noqa: E402
from test_order import WORD, Order, below, draw, permute  # noqa: E402

COUNT, EPOCHS, SEED = 47, 2, 5
BAD = 11, 23
SIZES = (40, 60), (60, 40), (50, 50), (20, 70)
HEIGHT, WIDTH = 48, 56
FIELDS = ["objects:json:boxes", "half:json:boxes:0.5", "pose:json:keypoints:1-2", "mask:seg.png:mask",
          "deep:deep.png:mask", "name:txt"]


def path_of(name):
    return os.path.join(T.name, name)


def objects(n):
    rng = np.random.default_rng(n)
    found = []
    for k in range(n % 5):
        size = np.array(SIZES[n % 4][::-1], float)
        low = rng.uniform(-2, size - 4)
        high = low + rng.uniform(2, size)
        found.append({"bbox": [*low, *(high - low)], "category_id": n, "id": 100 * n + k,
                      "keypoints": [*low, 2, *high, 1 + k % 2, *(low + high) / 2, 2, 0, 0, 0]})
    return found


def members(n):
    rng = np.random.default_rng(1000 + n)
    mask = rng.integers(0, 255, SIZES[n % 4])
    return {"png": b"no image" if n == BAD[0] else png(rng.integers(0, 256, SIZES[n % 4]).astype(np.uint8)),
            "cls": str(n % 3).encode(), "json": b"{" if n == BAD[1] else json.dumps(objects(n)).encode(),
            "txt": f"number {n}".encode(), "seg.png": png(mask.astype(np.uint8)),
            "deep.png": png((mask * 256 + n).astype(np.uint16))}


def setUpModule():
    global T
    T = tempfile.TemporaryDirectory(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = path_of("cache")
    warnings.simplefilter("ignore", pyplenum.LoaderWarning)  # about the bad samples
    write_tar(path_of("all.tar"), [(f"{n:03d}", members(n)) for n in range(COUNT)])


def tearDownModule():
    T.cleanup()


def stream(pipeline, fields, **options):
    options = {"micro_batch": 4, "steps": 2, "epochs": EPOCHS, "seed": SEED, "dtype": "uint8", **options}
    return pyplenum.Stream(f"tar,label=cls:{path_of('all.tar')}", pipeline, fields=fields, **options)


def rows_of(value):
    if hasattr(value, "counts"):
        counts, arrays = value.counts.reshape(-1), [a.reshape(-1, *a.shape[3:]) for a in value[:-1]]
        return [tuple(a[i, :n].copy() for a in arrays) for i, n in enumerate(counts)]
    return value if isinstance(value, list) else list(value.reshape(-1, *value.shape[3:]).copy())


def shown(pipeline, fields, **options):
    """Return image, sample, geometry and fields of each position, and the sum of the batches' hashes."""
    found, total = {}, 0
    with stream(pipeline, fields, **options) as s:
        for batch in s:
            total += batch.hash()
            images, names = batch.images.copy(), s.names(batch.samples)
            geometry = [a.reshape(len(images), -1).copy() for a in (batch.boxes, batch.flips, batch.sizes)]
            weights = np.ones(len(images)) if batch.weights is None else batch.weights.reshape(-1).copy()
            rows = {field.split(":")[0]: rows_of(batch[field.split(":")[0]]) for field in fields}
            for i in np.flatnonzero(batch.valid.reshape(-1)):
                epoch = batch.epochs[i * len(batch.epochs) // len(images)]
                at = int(epoch), int(batch.positions.reshape(-1)[i])
                found[at] = {"image": images[i], "sample": int(names[i][-7:-4]), "weight": weights[i],
                             "geometry": [a[i] for a in geometry], **{name: rows[name][i] for name in rows}}
    return found, total % 2**64


def ctl_hash(pipeline, fields, *more):
    done = subprocess.run([CTL, "hash", f"tar,label=cls:{path_of('all.tar')}", "--pipeline", pipeline, "--seed",
                           str(SEED), "--epochs", str(EPOCHS), "--fields", ",".join(fields), *more],
                          capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0], 16)


def partners(epoch, position, block, n=COUNT, repeat=1):
    """Return the positions of a mosaic's pictures, the own one first."""
    q, rest = divmod(position, repeat)
    blocks = max(1, n // block)
    number = min(q // block, blocks - 1)
    begin = number * block
    length = block if number + 1 < blocks else n - begin
    ring = {permute(SEED, epoch, 50, number, length, slot): slot for slot in range(length)}
    y = permute(SEED, epoch, 50, number, length, q - begin)
    return [(begin + ring[(y + d) % length]) * repeat + rest for d in (0, 1, 4, 6)]


def fit(n):
    """Return height and width of a picture in a mosaic."""
    height, width = SIZES[n % 4]
    if width * HEIGHT >= height * WIDTH:
        return max(1, round(height * WIDTH / width)), WIDTH
    return HEIGHT, max(1, round(width * HEIGHT / height))


class Mosaic:
    """Where the pictures of a position are, before flips."""

    def __init__(self, epoch, position, block, repeat=1):
        order = Order(SEED, COUNT, repeat=repeat)
        words = draw(SEED, position, epoch, 20, 0)
        self.x, self.y = 1 + below(words[0], WIDTH - 1), 1 + below(words[1], HEIGHT - 1)
        self.mirror = draw(SEED, position, epoch, 8, 0)[0] * 2 < WORD
        self.pictures = []
        for k, p in enumerate(partners(epoch, position, block, repeat=repeat)):
            sample = next(n for n in [order.sample(epoch, p), *order.tries(epoch, p)] if n not in BAD)
            right, low = ((below(words[2], 4) + k) % 4 >> i & 1 for i in (0, 1))
            height, width = fit(sample)
            part = (self.x if right else 0, self.y if low else 0, WIDTH if right else self.x, HEIGHT if low else self.y)
            at = (self.x if right else self.x - width, self.y if low else self.y - height)
            self.pictures.append((sample, part, at))

    def join(self, fill, resized):
        """Return the image or mask, given the resized ones."""
        some = resized[self.pictures[0][0]]
        joined = np.full((HEIGHT, WIDTH, *some.shape[2:]), fill, some.dtype)
        for n, (left, top, right, bottom), (x, y) in self.pictures:
            height, width = fit(n)
            rows, columns = slice(max(top, y), min(bottom, y + height)), slice(max(left, x), min(right, x + width))
            joined[rows, columns] = resized[n][rows.start - y:rows.stop - y, columns.start - x:columns.stop - x]
        return joined[:, ::-1] if self.mirror else joined

    def objects(self, least=None):
        """Return boxes, or key points if `least` is None, with classes and ids."""
        found = []
        for n, part, at in self.pictures:
            size, part = np.array(SIZES[n % 4][::-1], float), np.array(part, float).reshape(2, 2)
            scale = np.array(fit(n)[::-1]) / size
            for row in objects(n):
                if least is None:
                    points = np.array(row["keypoints"], float).reshape(-1, 3)
                    places = points[:, :2] * scale + at
                    inside = ((points[:, :2] >= 0) & (points[:, :2] <= size)).all(1) & (points[:, 2] > 0)
                    inside &= ((places >= part[0]) & (places <= part[1])).all(1)
                    if self.mirror:
                        places[:, 0] = WIDTH - places[:, 0]
                    moved = np.where(inside[:, None], np.column_stack([places, points[:, 2]]), 0)
                    found.append((moved[[0, 2, 1, 3]] if self.mirror else moved, row))
                    continue
                box = np.array(row["bbox"], float).reshape(2, 2)
                box = np.clip([box[0], box[0] + box[1]], 0, size)
                seen = np.clip(box * scale + at, *part)
                whole, area = np.prod((box[1] - box[0]) * scale), np.prod(seen[1] - seen[0])
                if area <= 0 or area < least * whole:
                    continue
                if self.mirror:
                    seen[:, 0] = WIDTH - seen[::-1, 0]
                found.append((seen.reshape(-1), row))
        shape = (0, 4) if least is not None else (0, 4, 3)
        return (np.array([a for a, _ in found]).reshape(-1, *shape[1:]),
                np.array([row["category_id"] for _, row in found], np.int64),
                np.array([row["id"] for _, row in found], np.int64))


class MosaicTest(unittest.TestCase):
    def check_same(self, got, want):
        self.assertEqual([a.shape for a in got], [a.shape for a in want])
        for a, b in zip(got, want):
            self.assertTrue(np.allclose(a, b, rtol=0, atol=1e-3), (a, b))

    @staticmethod
    def resized():
        """Return each picture and its masks, resized as for a mosaic."""
        found = {}
        for size in range(4):
            height, width = fit(size)
            rows, _ = shown(f"resize({height}x{width})", FIELDS, shuffle="none", epochs=1)
            for row in rows.values():
                if row["sample"] % 4 == size:
                    found[row["sample"]] = row["image"], row["mask"], row["deep"]
        return found

    def test_pictures(self):
        """pixels, masks, boxes, key points and geometry are where the page says, for any number of replicas"""
        resized = self.resized()
        images, masks, deep = ({n: row[k] for n, row in resized.items()} for k in range(3))
        cut = 0
        for block, options in ((64, {}), (13, {"micro_batch": 7, "steps": 1}), (13, {"repeat": 2})):
            pipeline = f"mosaic({HEIGHT}x{WIDTH}, block={block}) flip(0.5)"
            repeat = options.get("repeat", 1)
            found, total = shown(pipeline, FIELDS, **options)
            self.assertEqual(total, ctl_hash(pipeline, FIELDS, "--repeat", str(repeat)))
            self.assertEqual(len(found), EPOCHS * COUNT * repeat)
            for (epoch, position), row in found.items():
                mosaic = Mosaic(epoch, position, block, repeat)
                own, _, (x, y) = mosaic.pictures[0]
                self.assertEqual(row["sample"], own)
                self.assertEqual(row["name"], f"number {own}")
                self.assertTrue((row["image"] == mosaic.join(114, images)).all())
                self.assertTrue((row["mask"] == mosaic.join(255, masks)).all())
                self.assertTrue((row["deep"] == mosaic.join(65535, deep)).all())
                for name, least in (("objects", 0), ("half", 0.5), ("pose", None)):
                    self.check_same(row[name], mosaic.objects(least))
                cut += len(row["objects"][0]) > len(row["half"][0])
                scale = np.array(SIZES[own % 4][::-1]) / fit(own)[::-1]
                box = np.array([[-x, -y], [WIDTH - x, HEIGHT - y]]) * scale
                self.assertTrue(np.allclose(row["geometry"][0], box.reshape(-1), atol=1e-3))
                self.assertEqual([int(a) for a in (*row["geometry"][1], *row["geometry"][2])],
                                 [mosaic.mirror, *SIZES[own % 4]])
        self.assertGreater(cut, COUNT)

    def test_four(self):
        """each position's picture is in exactly four mosaics, and no mosaic shows a position twice"""
        for block, repeat in ((13, 1), (16, 3), (64, 1)):
            seen = np.zeros(COUNT * repeat, int)
            for position in range(COUNT * repeat):
                four = partners(0, position, block, repeat=repeat)
                self.assertEqual((four[0], len(set(four))), (position, 4))
                seen[four] += 1
            self.assertTrue((seen == 4).all())

    def test_operations(self):
        """operations change the joined picture: masks and boxes move together, and hashes agree"""
        colours = ["brightness(0.6:1.4)", "erase(0.5) equalize(0.3)", "blur(5, 0.5:2)"]
        moving = ["vertical_flip(0.5) flip(0.5)", "affine(10, translate=0.1:0.1, scale=0.5:1.5, fill=114)",
                  "flip(0.5) perspective(0.3, p=0.5) vertical_flip(0.5)", "rand_augment(2, 9)"]
        for operations in colours + moving:
            pipeline = f"mosaic({HEIGHT}x{WIDTH}) {operations}"
            found, total = shown(pipeline, FIELDS)
            self.assertEqual(total, ctl_hash(pipeline, FIELDS), operations)
            plain, _ = shown(f"mosaic({HEIGHT}x{WIDTH})", FIELDS)
            for at, row in found.items():
                self.assertTrue(set(row["objects"][2]) <= set(plain[at]["objects"][2]))
                if operations in colours:
                    self.check_same(row["objects"], plain[at]["objects"])
                    self.assertTrue((row["deep"] == plain[at]["deep"]).all())
                self.assertTrue(((row["deep"] >> 8 == row["mask"]) | (row["deep"] == 65535)).all())

    def test_mixed(self):
        """mosaics can be mixed: the result has the objects of eight pictures, and cutmix pastes masks"""
        pipeline, fields = f"mosaic({HEIGHT}x{WIDTH}) flip(0.5)", [field for field in FIELDS if "mask" not in field]
        plain, _ = shown(pipeline, FIELDS)
        mixed, total = shown(f"{pipeline} mixup(1)", fields)
        self.assertEqual(total, ctl_hash(f"{pipeline} mixup(1)", fields))
        for (epoch, position), row in mixed.items():
            other = plain[epoch, (position + 1) % COUNT]
            for name in ("objects", "half", "pose"):
                both = tuple(np.concatenate(pair) for pair in zip(plain[epoch, position][name], other[name]))
                self.check_same(row[name], both if row["weight"] < 1 else plain[epoch, position][name])
        cut, total = shown(f"{pipeline} cutmix(1)", FIELDS)
        self.assertEqual(total, ctl_hash(f"{pipeline} cutmix(1)", FIELDS))
        for (epoch, position), row in cut.items():
            own, other = plain[epoch, position], plain[epoch, (position + 1) % COUNT]
            pasted = (row["image"] != own["image"]).any(-1)
            self.assertTrue((row["image"][pasted] == other["image"][pasted]).all())
            self.assertTrue((row["deep"][pasted] == other["deep"][pasted]).all())

    def test_refused(self):
        """mosaics of too few samples, and of views, are rejected"""
        write_tar(path_of("few.tar"), [(f"{n:03d}", members(n)) for n in range(6)])
        with self.assertRaisesRegex(pyplenum.PlenumError, "a mosaic needs at least 7 samples"):
            pyplenum.Stream(f"tar,label=cls:{path_of('few.tar')}", "mosaic(32)", micro_batch=2)
        with self.assertRaisesRegex(pyplenum.PlenumError, "samples with views cannot be mosaics"):
            stream("view(a, 2, mosaic(32))", [])
        with self.assertRaisesRegex(pyplenum.PlenumError, "instances cannot be used with mosaic"):
            stream("mosaic(32)", ["objects:json:instances"])
        with self.assertRaisesRegex(pyplenum.PlenumError, "masks cannot be used with mixup"):
            stream("mosaic(32) mixup(1)", FIELDS)


if __name__ == "__main__":
    tap.main()
