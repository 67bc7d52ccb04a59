# SPDX-License-Identifier: MIT
"""Tests the stages for detection in streams: scale_jitter, zoom_out and iou_crop. Boxes and masks are where their
pixels are. tests/loader/render/test_placed.py compares their places with fractions."""

import json
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

tap.require("numpy")

import numpy as np  # noqa: E402

import pyplenum  # noqa: E402
from made import png, write_tar  # noqa: E402

COUNT = 60
DARK, BRIGHT = 20, 220
FIELDS = ["objects:json:boxes", "mask:seg.png:mask"]
PIPELINES = ("scale_jitter(48x56, 0.3:2) flip(0.5)", "zoom_out(1:3, p=0.7) resize(52x44) flip(0.5)",
             "zoom_out(1:2, p=0.7) letterbox(50x60) vertical_flip(0.5)", "iou_crop resize(48x40) flip(0.5)",
             "zoom_out(1:2) iou_crop(scale=0.2:1, boxes=objects) resize(48x48) flip(0.5)",
             "view(a, 2, iou_crop resize(48x48)) view(b, 1, scale_jitter(48x48))")


def sample(n):
    """Return a picture with a bright rectangle, the rectangle's mask and box, and a tiny box at the corner."""
    height, width = 90 + n % 17, 80 + n % 23
    left, top = 10 + n % 31, 12 + n % 29
    right, bottom = left + 12 + n % 20, top + 14 + n % 24
    inside = np.zeros((height, width), np.uint8)
    inside[top:bottom, left:right] = 1
    objects = [[left, top, right - left, bottom - top, 1], [width - 4, height - 5, 3, 3, 2]]
    return {"png": png(np.where(inside, BRIGHT, DARK).astype(np.uint8)), "cls": b"0", "seg.png": png(inside),
            "json": json.dumps([{"bbox": o[:4], "category_id": o[4]} for o in objects]).encode()}


def setUpModule():
    global T, DATA
    T = tempfile.TemporaryDirectory(prefix="plenum-test-")
    os.environ["PLENUM_CACHE_DIR"] = os.path.join(T.name, "cache")
    write_tar(os.path.join(T.name, "made.tar"), [(f"{n:03d}", sample(n)) for n in range(COUNT)])
    DATA = f"tar:{os.path.join(T.name, 'made.tar')}"


def tearDownModule():
    T.cleanup()


def stream(pipeline, fields=FIELDS, **options):
    options = {"micro_batch": 4, "steps": 3, "epochs": 3, "seed": 5, "dtype": "uint8", "layout": "nhwc", **options}
    return pyplenum.Stream(DATA, pipeline, fields=fields, **options)


def hash_of(pipeline, fields=FIELDS):
    done = subprocess.run([CTL, "hash", DATA, "--pipeline", pipeline, "--seed", "5", "--epochs", "3", "--fields",
                           ",".join(fields)], capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(done.stderr)
    return int(done.stdout.split()[0], 16)


def edges_of(shown):
    rows, columns = np.nonzero(shown)
    return np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])


class DetectionTest(unittest.TestCase):
    def check(self, images, batch):
        """Compare the boxes of each image with its pixels. Return how many were compared."""
        images = images.reshape(-1, *images.shape[-3:])
        masks = batch["mask"].reshape(images.shape[:-1])
        checked = 0
        for image, mask, boxes, classes, count in zip(
                images, masks, batch["objects"].boxes.reshape(len(images), -1, 4),
                batch["objects"].classes.reshape(len(images), -1), batch["objects"].counts.reshape(-1)):
            for box, kind in zip(boxes[:count], classes[:count]):
                if kind != 1 or min(box[2] - box[0], box[3] - box[1]) < 3:
                    continue
                checked += 1
                self.assertLess(np.abs(edges_of(mask == 1) - box).max(), 1)
                self.assertLess(np.abs(edges_of(image[..., 0] > (DARK + BRIGHT) / 2) - box).max(), 1.01)
        return checked

    def test_pixels(self):
        """boxes and masks are where the pixels are"""
        for pipeline in PIPELINES[:-1]:
            with self.subTest(pipeline=pipeline), stream(pipeline) as s:
                self.assertGreater(sum(self.check(batch.images, batch) for batch in s), COUNT)

    def test_crops(self):
        """iou_crop keeps a box, and only boxes whose centres it shows; it crops most pictures, but not all"""
        whole = cropped = 0
        with stream("iou_crop resize(48x40)", FIELDS[:1]) as s:
            for batch in s:
                counts = batch["objects"].counts.reshape(-1)
                self.assertGreater(counts.min(), 0)
                sizes = batch.sizes.reshape(-1, 2)
                for part, size, count in zip(batch.boxes.reshape(-1, 4), sizes, counts):
                    shows = (part[2] - part[0]) * (part[3] - part[1])
                    whole += shows == size[0] * size[1]
                    cropped += shows < size[0] * size[1]
                    self.assertTrue(count == 2 if shows == size[0] * size[1] else count >= 1)
        self.assertGreater(whole, COUNT / 10)
        self.assertGreater(cropped, COUNT)

    def test_hash(self):
        """the hash is that of plenumctl, which renders in one thread, however samples are requested"""
        for pipeline in PIPELINES:
            want = hash_of(pipeline)
            for options in ({}, {"micro_batch": 7, "steps": 1}, {"prefetch_depth": 1, "layout": "nchw"}):
                with self.subTest(pipeline=pipeline), stream(pipeline, **options) as s:
                    self.assertEqual(sum(batch.hash() for batch in s) % 2**64, want)

    def test_fields(self):
        """pixels depend on the boxes that iou_crop names, and so does the identity"""
        two = ["first:json:boxes", "second:other.json:boxes"]
        path = os.path.join(T.name, "two.tar")
        write_tar(path, [(f"{n:03d}", {**sample(n), "other.json": json.dumps(
            [{"bbox": [60, 60, 9, 9], "category_id": 1}]).encode()}) for n in range(COUNT)])
        seen = {}
        for name in ("first", "second"):
            with pyplenum.Stream(f"tar:{path}", f"iou_crop(boxes={name}) resize(32x32)", fields=two, micro_batch=4,
                                 seed=5, epochs=1, dtype="uint8") as s:
                seen[name] = [batch.images.tobytes() for batch in s]
        self.assertNotEqual(seen["first"], seen["second"])
        for pipeline, source, fits in (("iou_crop resize(32x32)", "json", True),
                                       ("iou_crop resize(32x32)", "other.json", False),
                                       ("resize(32x32)", "other.json", True)):
            with pyplenum.Stream(f"tar:{path}", pipeline, fields=["a:json:boxes"], micro_batch=4, seed=5) as s:
                next(s)
                cursor = s.cursor
            with pyplenum.Stream(f"tar:{path}", pipeline, fields=[f"b:{source}:boxes"], micro_batch=4, seed=5) as s:
                if fits:
                    s.seek(cursor)
                    next(s)
                else:
                    self.assertRaises(pyplenum.PlenumError, s.seek, cursor)

    def test_refused(self):
        """iou_crop without its boxes is refused in one sentence"""
        for pipeline, fields, why in (
                ("iou_crop resize(32x32)", [], "iou_crop depends on boxes: request a field of boxes, such as"),
                ("ssd", FIELDS[1:], "iou_crop depends on boxes"),
                ("iou_crop resize(32x32)", ["a:json:boxes", "b:json:boxes"], "name the one for iou_crop, as in iou"),
                ("iou_crop(boxes=c) resize(32x32)", FIELDS, "no field of boxes is named 'c'"),
                ("view(a, 1, resize(9x9)) view(b, 2, iou_crop resize(8x8))", [], "iou_crop depends on boxes")):
            with self.subTest(why=why), self.assertRaisesRegex(pyplenum.PlenumError, why):
                stream(pipeline, fields)
            done = subprocess.run([CTL, "hash", DATA, "--pipeline", pipeline, "--fields", ",".join(fields)],
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, why)


tap.main()
