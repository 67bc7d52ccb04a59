# SPDX-License-Identifier: MIT
"""Tests masks, boxes and key points of mixed samples: they are those of the two positions without mixing, cut where
cutmix cuts. tests/loader/render/test_moves.py compares cut boxes and points with exact fractions."""

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

COUNT, EPOCHS = 41, 2
BAD_IMAGE, BAD_FIELD = 11, 23
SIZE = 60, 50
FIELDS = ["objects:json:boxes", "half:json:boxes:0.5", "pose:json:keypoints:1-2", "mask:seg.png:mask",
          "deep:deep.png:mask", "name:txt"]
WHOLE = "resize(40x48) flip(0.5)"


def path_of(name):
    return os.path.join(T.name, name)


def objects(n):
    rng = np.random.default_rng(n)
    found = []
    for k in range(n % 5):
        left, top = rng.uniform(0, (SIZE[1] - 4, SIZE[0] - 4))
        width, height = rng.uniform(3, (SIZE[1] - left, SIZE[0] - top))
        points = [[left, top, 2], [left + width, top + height, 1 + k % 2], [0, 0, 0]]
        found.append({"bbox": [left, top, width, height], "category_id": n, "id": 100 * n + k,
                      "keypoints": sum(points, [])})
    return found


def members(n):
    """Return a picture of a single grey, with a mask of noise and some objects."""
    mask = np.random.default_rng(n).integers(0, 255, SIZE)
    return {"png": b"no image" if n == BAD_IMAGE else png(np.full(SIZE, 5 * n + 10, np.uint8)), "cls": b"0",
            "json": b"{" if n == BAD_FIELD else json.dumps(objects(n)).encode(), "txt": f"number {n}".encode(),
            "seg.png": png(mask.astype(np.uint8)), "deep.png": png((mask * 256 + n).astype(np.uint16))}


def setUpModule():
    global T
    T = tempfile.TemporaryDirectory(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = path_of("cache")
    warnings.simplefilter("ignore", pyplenum.LoaderWarning)  # about the bad samples
    write_tar(path_of("mixed.tar"), [(f"{n:03d}", members(n)) for n in range(COUNT)])


def tearDownModule():
    T.cleanup()


def stream(pipeline, fields, dataset="mixed.tar", **options):
    options = {"micro_batch": 4, "steps": 2, "epochs": EPOCHS, "seed": 5, "dtype": "uint8", **options}
    return pyplenum.Stream(f"tar,label=cls:{path_of(dataset)}", pipeline, fields=fields, **options)


def rows_of(value):
    """Return a copy of the field of each sample of a batch, without the zeros behind the last object."""
    if hasattr(value, "counts"):
        counts, arrays = value.counts.reshape(-1), [a.reshape(-1, *a.shape[3:]) for a in value[:-1]]
        return [tuple(a[i, :n].copy() for a in arrays) for i, n in enumerate(counts)]
    return value if isinstance(value, list) else list(value.reshape(-1, *value.shape[3:]).copy())


def shown(pipeline, fields, **options):
    """Return image, weight and fields of each position, and the sum of the batches' hashes."""
    found, total = {}, 0
    with stream(pipeline, fields, **options) as s:
        for batch in s:
            total += batch.hash()
            images = batch.images.copy()
            weights = np.ones(len(images)) if batch.weights is None else batch.weights.reshape(-1).copy()
            rows = {field.split(":")[0]: rows_of(batch[field.split(":")[0]]) for field in fields}
            for i in np.flatnonzero(batch.valid.reshape(-1)):
                epoch = batch.epochs[i * len(batch.epochs) // len(images)]
                at = int(epoch), int(batch.positions.reshape(-1)[i])
                found[at] = images[i], weights[i], {name: values[i] for name, values in rows.items()}
    return found, total % 2**64


def ctl_hash(pipeline, fields):
    done = subprocess.run([CTL, "hash", f"tar,label=cls:{path_of('mixed.tar')}", "--pipeline", pipeline, "--seed", "5",
                           "--epochs", str(EPOCHS), "--fields", ",".join(fields)],
                          capture_output=True, text=True, check=True)
    return int(done.stdout.split()[0], 16)


def joined(own, partner):
    """Return the objects of both."""
    return tuple(np.concatenate(pair) for pair in zip(own, partner))


def cut_boxes(found, rect, inside, least):
    """Return the boxes that are left in a rectangle, or outside it."""
    kept = []
    for box, c, i in zip(*found):
        box, whole = box.astype(float), np.prod(box[2:] - box[:2], dtype=float)
        both = np.concatenate([np.maximum(box[:2], rect[:2]), np.minimum(box[2:], rect[2:])])
        common = np.prod(np.maximum(both[2:] - both[:2], 0))
        rest = common if inside else whole - common
        if rest < whole and (rest < 0.25 or rest < least * whole):
            continue
        if inside:
            box = both
        elif common > 0:
            for k in (0, 1):
                if both[1 - k] == box[1 - k] and both[3 - k] == box[3 - k]:
                    if both[k] == box[k]:
                        box[k] = both[k + 2]
                    elif both[k + 2] == box[k + 2]:
                        box[k + 2] = both[k]
        kept.append((box, c, i))
    return (np.array([b for b, _, _ in kept]).reshape(-1, 4), np.array([c for _, c, _ in kept], np.int64),
            np.array([i for _, _, i in kept], np.int64))


def cut_points(found, rect, inside):
    points, *rest = found
    points = points.copy()
    for point in points.reshape(-1, 3):
        x, y, v = point
        if inside and not (rect[0] <= x <= rect[2] and rect[1] <= y <= rect[3]):
            point[:] = 0
        elif not inside and v == 2 and rect[0] <= x < rect[2] and rect[1] <= y < rect[3]:
            point[2] = 1
    return (points, *rest)


class MixedTest(unittest.TestCase):
    def check_same(self, got, want):
        self.assertEqual([a.shape for a in got], [a.shape for a in want])
        for a, b in zip(got, want):
            self.assertTrue(np.allclose(a, b, rtol=0, atol=1e-4), (a, b))

    def positions(self, pipeline, mixing, fields):
        """Yield each position of a mixed stream: image, weight and fields, with those of it and of its partner without
        mixing."""
        alone, _ = shown(pipeline, fields)
        mixed, total = shown(f"{pipeline} {mixing}", fields)
        self.assertEqual(total, ctl_hash(f"{pipeline} {mixing}", fields))
        self.assertEqual(len(mixed), EPOCHS * COUNT)
        for (epoch, position), row in mixed.items():
            yield row, alone[epoch, position], alone[epoch, (position + 1) % COUNT]

    def test_mixup(self):
        """mixup has the boxes and key points of both samples, its own ones first, and its own other fields"""
        fields, both = [field for field in FIELDS if "mask" not in field], 0
        for pipeline in (WHOLE, "rrc(32, scale=0.3:1) rotate(40) vertical_flip(0.5) erase(0.5)"):
            for (_, weight, found), (_, _, own), (_, _, partner) in self.positions(pipeline, "mixup(0.4, p=0.7)",
                                                                                   fields):
                self.assertEqual(found["name"], own["name"])
                for name in ("objects", "half", "pose"):
                    self.check_same(found[name], joined(own[name], partner[name]) if weight < 1 else own[name])
                    both += weight < 1 and len(own[name][0]) > 0 and len(partner[name][0]) > 0
        self.assertGreater(both, EPOCHS * COUNT)

    def test_cutmix(self):
        """cutmix has the masks, boxes and key points that each sample has in its part of the image"""
        cut = 0
        for pipeline, least in ((WHOLE, 0.5), ("rrc(32x24, scale=0.3:1) flip(0.5) vertical_flip(0.5)", None)):
            for (image, weight, found), (own_image, _, own), (_, _, partner) in self.positions(
                    pipeline, "cutmix(1, p=0.9)", FIELDS):
                self.assertEqual(found["name"], own["name"])
                ys, xs = np.nonzero((image != own_image).any(-1))
                if not len(ys):
                    for name in ("objects", "pose"):
                        self.check_same(found[name], own[name])
                    continue
                rect = np.array([xs.min(), ys.min(), xs.max() + 1, ys.max() + 1])
                area = np.prod(rect[2:] - rect[:2])
                self.assertEqual(len(ys), area)
                self.assertAlmostEqual(float(weight), 1 - area / image[..., 0].size, places=6)
                inside = np.zeros(image.shape[:2], bool)
                inside[rect[1]:rect[3], rect[0]:rect[2]] = True
                for name in ("mask", "deep"):
                    self.assertTrue((found[name] == np.where(inside, partner[name], own[name])).all())
                for name, share in (("objects", 0), ("half", least)):
                    if share is not None:
                        want = joined(cut_boxes(own[name], rect, False, share),
                                      cut_boxes(partner[name], rect, True, share))
                        self.check_same(found[name], want)
                        cut += len(want[0]) != len(own[name][0]) + len(partner[name][0])
                self.check_same(found["pose"], joined(cut_points(own["pose"], rect, False),
                                                      cut_points(partner["pose"], rect, True)))
        self.assertGreater(cut, COUNT)

    def test_both(self):
        """with mix, each position has the fields of mixup or of cutmix, for any number of replicas"""
        fields = [field for field in FIELDS if "mask" not in field]
        text = f"{WHOLE} mix(mixup=0.8, cutmix=1)"
        one, total = shown(text, fields)
        for options in ({"micro_batch": 1, "steps": 3}, {"micro_batch": 7, "steps": 1}):
            other, again = shown(text, fields, **options)
            self.assertEqual((again, len(other)), (total, len(one)))
            for at, (image, weight, found) in one.items():
                self.assertTrue((image == other[at][0]).all() and weight == other[at][1])
                self.check_same(found["objects"], other[at][2]["objects"])

    def test_refused(self):
        """masks with mixup are rejected, and so are samples with too many objects"""
        for mixing in ("mixup(1)", "mix(mixup=0.2, cutmix=1, switch=0.9)"):
            with self.assertRaisesRegex(pyplenum.PlenumError, "masks cannot be used with mixup"):
                stream(f"{WHOLE} {mixing}", FIELDS)
        many = json.dumps([{"bbox": [1, 2, 3, 4], "category_id": 5}] * 16385).encode()
        write_tar(path_of("many.tar"), [(f"{n}", {"cls": b"0", "png": png(np.zeros(SIZE, np.uint8)), "json": many})
                                        for n in range(2)])
        with stream(WHOLE, ["objects:json:boxes"], "many.tar", epochs=1) as s:
            self.assertEqual(int(next(s)["objects"].counts.max()), 16385)
        with self.assertRaisesRegex(pyplenum.PlenumError,
                                    "'objects': an image of this pipeline shows up to 2 pictures"):
            stream(f"{WHOLE} mixup(1)", ["objects:json:boxes"], "many.tar")
        done = subprocess.run([CTL, "hash", f"tar,label=cls:{path_of('many.tar')}", "--pipeline", f"{WHOLE} mixup(1)",
                               "--fields", "objects:json:boxes"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("shows up to 2 pictures", done.stderr)


if __name__ == "__main__":
    tap.main()
