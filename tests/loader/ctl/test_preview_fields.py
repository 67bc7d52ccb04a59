# SPDX-License-Identifier: MIT
"""plenumctl preview --fields: masks, boxes and key points are drawn into the images, other fields are text below."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
CTL = os.path.join(BUILD, "plenumctl")
sys.path[:0] = [os.path.join(SOURCE, "tests", "python")]

import tap  # noqa: E402

if tap.find("numpy") is None or tap.find("PIL") is None:
    tap.skip_all("NumPy or Pillow is not installed for this Python")

import numpy as np  # noqa: E402
from PIL import Image  # noqa: E402

from made import npy, png  # noqa: E402

SIDE, GREY = 96, 100
LEFT, TOP, SMALL_LINE, SEAM = 8, 56, 10, 2  # first image's corner; line height below 216 pixels; space between images
VOC = {1: (128, 0, 0), 2: (0, 128, 0), 3: (128, 128, 0), 255: (224, 224, 192)}  # its published palette
LONG = "one two three four five six seven eight"  # letters are 6 pixels wide: 16 fit a line


class PreviewFieldsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="plenum-test-")
        self.addCleanup(self.folder.cleanup)
        os.environ["PLENUM_CACHE_DIR"] = self.path("cache")

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, files):
        shutil.rmtree(self.path("cache"), ignore_errors=True)  # files may only change before they are indexed
        os.makedirs(self.path("data/c"), exist_ok=True)
        image = np.full((SIDE, SIDE), GREY, np.uint8)
        for extension, data in {"png": png(image), **files}.items():
            with open(self.path(f"data/c/x.{extension}"), "wb") as f:
                f.write(data)

    def sheet(self, *fields, pipeline=f"resize({SIDE}) center_crop({SIDE})", data=None):
        done = subprocess.run([CTL, "preview", data or self.path("data"), self.path("s.jpg"), "--count", "1",
                               "--pipeline", pipeline, *(["--fields", ",".join(fields)] if fields else [])],
                              capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        with Image.open(self.path("s.jpg")) as image:
            return np.asarray(image).astype(int)

    def image(self, *fields, number=0, **options):
        left = LEFT + number * (SIDE + SEAM)
        return self.sheet(*fields, **options)[TOP:TOP + SIDE, left:left + SIDE]

    def assert_colour(self, pixels, colour, tolerance=12):  # JPEG is lossy
        self.assertLess(np.abs(pixels - np.array(colour)).max(), tolerance, (colour, pixels.reshape(-1, 3)[:3]))

    def mask(self, dtype):
        mask = np.zeros((SIDE, SIDE), dtype)
        for number, value in enumerate((1, 2, 3, np.iinfo(dtype).max)):
            mask[24 * number:24 * number + 24, 48:] = value
        return mask

    def test_masks(self):
        """a mask of 8 or 16 bits is blended with the image in VOC's colours, except where it is 0"""
        for dtype in (np.uint8, np.uint16):
            self.write({"seg": png(self.mask(dtype))})
            image = self.image("seg:seg:mask")
            self.assert_colour(image[:, :40], (GREY,) * 3)
            for number, value in enumerate((1, 2, 3, 255)):
                tinted = [(GREY + c) / 2 for c in VOC[value]]
                self.assert_colour(image[24 * number + 8:24 * number + 16, 56:88], tinted)

    def test_views(self):
        """each image of each view has its own mask and boxes"""
        mask = self.mask(np.uint8)
        self.write({"seg": png(mask), "json": json.dumps([{"bbox": [0, 0, 20, 96], "category_id": 0}]).encode()})
        views = f"view(a, 1, resize({SIDE}) center_crop({SIDE})) view(b, 1, resize({SIDE}) center_crop({SIDE}) flip(1))"
        sheet = self.sheet("seg:seg:mask", "json:json:boxes", pipeline=views)
        images = [sheet[top:top + SIDE, LEFT:LEFT + SIDE] for top in (TOP, TOP + SIDE + SEAM)]
        for image, columns, line in zip(images, (slice(56, 88), slice(8, 40)), (0, SIDE - 1)):
            self.assert_colour(image[8:16, columns], [(GREY + c) / 2 for c in VOC[1]])
            self.assert_colour(image[40:56, [line]], (0, 0, 0), tolerance=60)  # the frame, one pixel wide

    def test_boxes(self):
        """a box is a frame in its class's colour on the box's outermost pixels; the pixels around it are unchanged"""
        boxes = [{"bbox": [20, 30, 40, 50], "category_id": 3}, {"bbox": [0, 0, 0, 9], "category_id": 1}]
        self.write({"json": json.dumps(boxes).encode()})
        changed = np.abs(self.image("json:json:boxes") - GREY).max(axis=2) > 40
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        self.assertEqual((rows[0], rows[-1], columns[0], columns[-1]), (30, 79, 20, 59))
        self.assertTrue(changed[79, 20:60].all() and changed[30:80, 59].all())
        self.assertFalse(changed[50:75, 25:55].any(), "inside a box, only the class in its corner is drawn")
        self.assertTrue(changed[31:40, 21:27].any())

    def test_class_names(self):
        """the boxes of a detection data set have names if these fit, and its samples have no label"""
        self.write({"txt": b"0 0.5 0.5 0.6 0.6\n"})
        wide = {}
        for name in ("cat", "ox", "c" * 20):
            with open(self.path("data.yaml"), "w") as f:
                f.write(f"train: data/c\nnames: [{name}]\n")
            sheet = self.sheet("objects:objects:boxes", data="yolo:" + self.path("data.yaml"))
            tag = sheet[TOP + 20:TOP + 27, LEFT + 20:LEFT + 70]  # black, like the frame of class 0
            wide[name] = int((tag.max(axis=2) < 40).any(axis=0).sum())
            self.assertGreater(sheet[TOP + SIDE:].min(), 0x50, "below the image is only the sample's number, in grey")
        self.assertEqual([wide["cat"] - wide["c" * 20], wide["ox"] - wide["c" * 20]], [len(" cat") * 6, len(" ox") * 6])

    def test_keypoints(self):
        """a visible point is a square in its number's colour, a hidden one is dark with such an edge"""
        self.write({"json": json.dumps([30.5, 20.5, 2, 60.5, 70.5, 1, 0, 0, 0, 5, 500, 2]).encode()})
        image = self.image("json:json:keypoints")
        changed = np.abs(image - GREY).max(axis=2) > 24
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        self.assertEqual((rows[0], rows[-1], columns[0], columns[-1]), (18, 72, 28, 62))
        self.assertEqual(int(changed.sum()), 2 * 25)
        red, green = image[19:22, 29:32].mean(axis=(0, 1)), image[[68, 72], 58:63].mean(axis=(0, 1))
        self.assertTrue(red[0] > 2 * max(red[1:]) and green[1] > green[0] + 20 and green[1] > green[2] + 20,
                        (red, green))
        self.assertLess(image[70, 60].max(), 70)

    def test_instances(self):
        """the pixels of each object have a tint of its number's colour, and others keep theirs"""
        self.write({"json": json.dumps([
            {"segmentation": [[10, 8, 40, 8, 40, 24, 10, 24]], "category_id": 9},
            {"segmentation": [[56, 48, 88, 48, 88, 72, 56, 72]], "category_id": 9}]).encode()})
        image = self.image("json:json:instances")
        for number, (top, bottom, left, right) in ((1, (8, 24, 10, 40)), (2, (48, 72, 56, 88))):
            self.assert_colour(image[top + 2:bottom - 2, left + 2:right - 2],
                               [(GREY + c + 1) // 2 for c in VOC[number]])
            image[max(top - 8, 0):bottom + 8, left - 8:right + 8] = GREY  # and what JPEG blurs around it
        self.assert_colour(image, (GREY, GREY, GREY))

    def test_lines(self):
        """strings and numbers are printed below the images; masks, boxes and key points are not"""
        self.write({"txt": LONG.encode(), "n": b"7 -8 9", "seg": png(self.mask(np.uint8)), "npy": npy(np.zeros((2, 3))),
                    "utf": "äöü ß".encode() * 3, "json": b"[]"})
        height = self.sheet().shape[0]
        followers = ("seg:seg:mask", "json:json:boxes", "k:json:keypoints", "i:json:instances")
        for lines, fields in ((0, followers), (1, ("n:n:int64",)),
                              (2, ("npy:npy:npy",)), (1, ("raw:txt:bytes",)), (3, ("txt",)), (3, ("caption:txt",)),
                              (2, ("utf",)), (6, ("txt", "n:n:float32", "npy:npy:npy"))):
            self.assertEqual(self.sheet(*fields).shape[0] - height, SMALL_LINE * lines, fields)
        self.write({"txt": b"wordsandwords " * 40})
        self.assertEqual(self.sheet("txt").shape[0] - height, SMALL_LINE * 8, "a long text is cut off")

    def test_refused(self):
        """missing fields, and pipelines that masks cannot follow, give an error and no file"""
        self.write({"seg": png(self.mask(np.uint8))})
        for fields, pipeline, why in (("other", "train", "no sample has the field 'other'"),
                                      ("seg:seg:mask", "rrc(32) mixup(1)", "mask")):
            done = subprocess.run([CTL, "preview", self.path("data"), self.path("s.jpg"), "--pipeline", pipeline,
                                   "--fields", fields], capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (1, "", 1), done.stderr)
            self.assertRegex(done.stderr, re.escape(why))
            self.assertFalse(os.path.exists(self.path("s.jpg")))


if __name__ == "__main__":
    tap.main()
