# SPDX-License-Identifier: MIT
"""docs/operations.jpg has a picture of every operation, and shows plenumctl's current result."""

import os
import re
import sys
import unittest

import pages
from pages import BUILD, SOURCE, read
import tap

sys.path.insert(0, os.path.join(SOURCE, "docs"))
sys.dont_write_bytecode = True

import operations  # noqa: E402

SHEET = os.path.join(SOURCE, "docs", "operations.jpg")


class PicturesTest(unittest.TestCase):
    def test_words(self):
        """each operation has a picture"""
        words = pages.operations()
        self.assertIn("flip", words)
        shown = set(re.findall(r"(\w+)\(|\b(\w+)$", "\n".join(operations.PICTURES), re.M))
        shown = {call or bare for call, bare in shown}
        self.assertEqual({*words, "mixup", "cutmix", "mix"} - shown, set())

    def test_size(self):
        """the sheet is small"""
        self.assertLess(os.path.getsize(SHEET), 150_000)
        self.assertIn("](operations.jpg)", read("docs/pipelines.md"))

    def test_pictures(self):
        """the sheet equals what operations.py draws now"""
        try:
            from PIL import Image, ImageChops, ImageStat
        except ImportError:
            self.skipTest("Pillow is not installed")
        drawn = operations.draw(os.path.join(BUILD, "plenumctl"))
        with Image.open(SHEET) as sheet:
            self.assertEqual(sheet.size, drawn.size)
            for number, words in enumerate(operations.PICTURES):
                left, top = operations.place(number)
                box = (left, top, left + operations.SIDE, top + operations.SIDE)
                # blocks of 8 x 8, which JPEG leaves almost unchanged
                difference = ImageChops.difference(sheet.crop(box).reduce(8), drawn.crop(box).reduce(8))
                self.assertLess(max(ImageStat.Stat(difference).mean), 4, f"{words}: run docs/operations.py")


if __name__ == "__main__":
    tap.main()
